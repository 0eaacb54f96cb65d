//! A scenario's runs on a host, side by side.

use serde::Serialize;

use crate::host::record::HostRun;

use super::csv::Row;
use super::table::figures;
use super::{Report, grouped, rate};

/// A scenario run on this machine's KVM in one way or several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostRunReport {
    /// The runs.
    pub runs: Vec<HostRun>,
}

impl Report for HostRunReport {
    fn table(&self) -> String {
        let Some(first) = self.runs.first() else { return String::new() };
        let mut text = format!(
            "{}: {}\nworkload {}, {} vCPU(s), {} device(s){}\nreal KVM, kernel {}, {} round(s)\n\n",
            first.scenario,
            first.description,
            first.workload,
            first.vcpus,
            first.devices,
            if first.layout.is_empty() { String::new() } else { format!(", {} layout", first.layout) },
            first.kernel,
            first.rounds
        );
        let mut header = vec!["measured on this host"];
        header.extend(self.runs.iter().map(|run| run.variant.as_str()));
        let mut table = figures(&header);
        for (name, cell) in LINES {
            let cells: Vec<_> = self.runs.iter().map(|run| cell(run, first)).collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                table.add_row(std::iter::once((*name).to_owned()).chain(cells));
            }
        }
        let unit = first.metric.unit;
        table.add_row(std::iter::once(unit.to_owned()).chain(self.runs.iter().map(|run| rate(run.metric.value))));
        text += &format!("{table}\n");
        let mut notes: Vec<&String> = Vec::new();
        for note in self.runs.iter().flat_map(|run| &run.notes) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes.iter().for_each(|note| text += &format!("\nnote: {note}"));
        text.trim_end().to_owned() + "\n"
    }

    fn rows(&self) -> Vec<Row> {
        self.runs.iter().flat_map(rows_of).collect()
    }
}

type Line = (&'static str, fn(&HostRun, &HostRun) -> String);

/// Lines that say nothing anywhere are left out. Absolute times are this host's; ratios within a run are what they are for.
const LINES: &[Line] = &[
    ("accesses", |run, _| grouped(run.accesses)),
    ("exits to user space", |run, _| nonzero(run.outcomes.exits)),
    ("coalesced", |run, _| nonzero(run.outcomes.coalesced)),
    ("ioeventfd", |run, _| nonzero(run.outcomes.eventfd)),
    ("read from memory, no exit", |run, _| nonzero(run.outcomes.ram)),
    ("functions found", |run, _| nonzero(run.functions as u64)),
    ("values read and found right", |run, _| nonzero(run.values_checked)),
    ("ns per access", |run, _| ns(run.ns_per_access)),
    ("  least and greatest of the rounds", |run, _| {
        if run.rounds > 1 { run.ns_range.map(ns).join(" to ") } else { String::new() }
    }),
    ("  times that of the first", |run, first| {
        let times = run.ns_per_access / first.ns_per_access;
        if times < 0.01 { format!("{times:.6}") } else { format!("{times:.3}") }
    }),
    ("time to the first exit, ms", |run, _| format!("{:.1}", run.first_exit_s * 1e3)),
    ("time, s", |run, _| format!("{:.6}", run.measured_s)),
];

fn ns(value: f64) -> String {
    if value < 10.0 { format!("{value:.3}") } else { format!("{value:.0}") }
}

fn nonzero(count: u64) -> String {
    if count > 0 { grouped(count) } else { String::new() }
}

fn rows_of(run: &HostRun) -> Vec<Row> {
    let subject = format!("{}, {}", run.scenario, run.variant);
    let count = |quantity, value: u64| Row::new(&subject, quantity, value, "", "measured");
    let figure = |quantity, value: f64, unit| Row::new(&subject, quantity, value, unit, "measured");
    vec![
        count("accesses", run.accesses),
        count("exits to user space", run.outcomes.exits),
        count("coalesced", run.outcomes.coalesced),
        count("ioeventfd", run.outcomes.eventfd),
        count("served as RAM", run.outcomes.ram),
        count("functions found", run.functions as u64),
        count("values checked", run.values_checked),
        figure("rate", run.metric.value, run.metric.unit),
        figure("time per access", run.ns_per_access, "ns"),
        figure("time per access, least", run.ns_range[0], "ns"),
        figure("time per access, greatest", run.ns_range[1], "ns"),
        figure("time to the first exit", run.first_exit_s, "s"),
        figure("time", run.measured_s, "s"),
    ]
}
