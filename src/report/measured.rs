//! Runs on real KVM: what was measured, and which exits there were.

use crate::sim::{Measured, RunResult};

use super::csv::Row;
use super::grouped;
use super::table::figures;

/// Lines of the overview.
pub(super) type Line = (&'static str, fn(&Measured) -> String);

/// What the overview says of a measurement, below the median.
pub(super) const LINES: [Line; 5] = [
    ("  middle half of the batches", |run| format!("{} to {}", ns(run.p25_ns), ns(run.p75_ns))),
    ("  least / greatest batch", |run| format!("{} / {}", ns(run.least_ns), ns(run.greatest_ns))),
    ("batches", |run| grouped(run.batches as u64)),
    ("first result after, ms", |run| format!("{:.1}", run.first_result_ms)),
    ("real time, s", |run| format!("{:.3}", run.wall_s)),
];

/// Enough digits for an access without an exit.
pub(super) fn ns(value: f64) -> String {
    if value < 100.0 { format!("{value:.3}") } else { format!("{value:.1}") }
}

/// Kinds of exits that a table shows: a scan by ECAM has one a register.
const SHOWN: usize = 12;

/// Exits by kind, run by run.
pub(super) fn exits(runs: &[RunResult]) -> String {
    let one = |run: &RunResult| -> Option<String> {
        let exits = &run.measured.as_ref()?.exits;
        if exits.is_empty() {
            return None;
        }
        let mut table = figures(&[&format!("exits to user space, {}", super::run::label(runs, run)), "count"]);
        for exit in exits.iter().take(SHOWN) {
            table.add_row([exit.event.clone(), grouped(exit.count)]);
        }
        let more = exits.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!("{more} more are in --format json\n") } else { String::new() };
        Some(format!("\n{table}\n{more}"))
    };
    runs.iter().filter_map(one).collect()
}

/// As CSV.
pub(super) fn rows(measured: &Measured, subject: &str, rows: &mut Vec<Row>) {
    for (quantity, value, unit) in [
        ("time per access, least", measured.least_ns, "ns"),
        ("time per access, first quartile", measured.p25_ns, "ns"),
        ("time per access, median", measured.median_ns, "ns"),
        ("time per access, third quartile", measured.p75_ns, "ns"),
        ("time per access, greatest", measured.greatest_ns, "ns"),
        ("empty batch", measured.frame_ns, "ns"),
        ("first result after", measured.first_result_ms, "ms"),
        ("real time", measured.wall_s, "s"),
    ] {
        rows.push(Row::new(subject, quantity, value, unit, "measured"));
    }
    rows.push(Row::new(subject, "batches", measured.batches, "", ""));
    for exit in &measured.exits {
        rows.push(Row::new(&format!("{subject}, {}", exit.event), "exits", exit.count, "", ""));
    }
}
