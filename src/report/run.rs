//! One scenario's runs, side by side: usually without a cache and with one.

use serde::Serialize;

use crate::machine::Kind;
use crate::sim::{ConfigStats, NOISE_ROW, RunResult};

use super::csv::Row;
use super::exits::perf_kvm_stat;
use super::table::figures;
use super::{Report, grouped, percent, rate};
use super::{kinds, measured, recorded, what_if};

/// A scenario run with one cache design or several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// The runs, the baseline first.
    pub runs: Vec<RunResult>,
}

impl Report for RunReport {
    fn table(&self) -> String {
        let Some(asked) = self.runs.last() else { return String::new() };
        let mut text = heading(asked);
        text += &format!("{}\n", overview(&self.runs));
        text += &kinds::kinds(&self.runs);
        text += &stages(&self.runs);
        text += &exits(&self.runs);
        text += &measured::exits(&self.runs);
        text += &recorded::tables(&self.runs);
        text += &remarks(&self.runs);
        text
    }

    fn rows(&self) -> Vec<Row> {
        rows(&self.runs)
    }
}

/// What ran, in a few lines.
pub(super) fn heading(run: &RunResult) -> String {
    if run.measured.is_some() {
        return measured_heading(run);
    }
    let switches: Vec<_> = run.switches.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let kernel = if switches.is_empty() {
        run.kernel.to_owned()
    } else {
        format!("{} with {}", run.kernel, switches.join(", "))
    };
    // A sequence has its own pages and no devices; on x86 the workload says which devices there are.
    let guest = if let Some(recorded) = &run.recorded {
        format!("{}, {} vCPU(s)", recorded.format, run.vcpus)
    } else if run.config.is_some() {
        format!("1 vCPU, {} virtio function(s)", run.devices)
    } else if run.workload == "sequence" || run.kind == Kind::X86 {
        "1 vCPU".to_owned()
    } else {
        format!("{} vCPU(s), {} device(s), {} layout, {}", run.vcpus, run.devices, run.layout, run.notify)
    };
    format!(
        "{}: {}\nworkload {}, {guest}\nkernel {kernel}, machine model {}, seed {}\n\n",
        run.scenario, run.description, run.workload, run.machine, run.seed
    )
}

/// The same for a run on real KVM.
fn measured_heading(run: &RunResult) -> String {
    let devices = match (run.layout, &run.config) {
        (_, Some(_)) => format!(", {} virtio function(s)", run.devices),
        ("", None) => String::new(),
        (layout, None) => format!(", {} device(s), {layout} layout", run.devices),
    };
    format!(
        "{}: {}\nworkload {}, {} vCPU(s){devices}\non this machine's real KVM: times are this host's, measured in this run\n\n",
        run.scenario, run.description, run.workload, run.vcpus
    )
}

/// What sets a run apart from those beside it.
pub(super) fn label(runs: &[RunResult], run: &RunResult) -> String {
    if runs.iter().any(|other| other.notify != run.notify) { run.notify.clone() } else { run.variant.clone() }
}

/// One column a run.
pub(super) fn overview(runs: &[RunResult]) -> comfy_table::Table {
    let labels: Vec<_> = runs.iter().map(|run| label(runs, run)).collect();
    let measured = |run: &RunResult| run.measured.is_some();
    let mut header = vec![if runs.iter().any(measured) { "measured" } else { "simulated" }];
    header.extend(labels.iter().map(String::as_str));
    let mut table = figures(&header);
    let mut line = |name: &str, cell: &dyn Fn(&RunResult) -> String| {
        let cells: Vec<_> = runs.iter().map(cell).collect();
        // A line that says nothing anywhere is left out.
        if cells.iter().any(|cell| !cell.is_empty()) {
            table.add_row(std::iter::once(name.to_owned()).chain(cells));
        }
    };
    let unit = runs.iter().find_map(|run| run.metric.as_ref()).map_or("", |metric| metric.unit);
    line(unit, &|run| run.metric.as_ref().map_or_else(String::new, |metric| rate(metric.value)));
    let power = |run: &RunResult| run.kind == Kind::Book3sHv;
    line("accesses", &|run| if power(run) { String::new() } else { grouped(run.accesses) });
    line("MMIO accesses", &|run| if power(run) { grouped(run.mmio_accesses) } else { nonzero(run.mmio_accesses) });
    line("hit rate", &|run| {
        if power(run) { run.hit_rate.map_or_else(|| "-".to_owned(), percent) } else { String::new() }
    });
    for (i, class) in runs.first().map_or(&[][..], |run| &run.misses).iter().enumerate() {
        line(&format!("  missed: {}", class.class), &|run| {
            run.misses.get(i).filter(|miss| miss.count > 0).map_or_else(String::new, |miss| grouped(miss.count))
        });
    }
    line("  slow form, no cache", &|run| nonzero(run.uncached));
    line("ioeventfd, fast bus", &|run| nonzero(run.outcomes.fast_mmio));
    line("ioeventfd", &|run| nonzero(run.outcomes.eventfd));
    line("coalesced", &|run| nonzero(run.outcomes.coalesced));
    line("device in the kernel", &|run| nonzero(run.outcomes.in_kernel));
    line("VM exits", &|run| if power(run) || measured(run) { String::new() } else { grouped(run.attempts) });
    line("exits to user space", &|run| nonzero(run.outcomes.exits));
    line("  ring was full", &|run| nonzero(run.outcomes.ring_full));
    line("served as RAM", &|run| nonzero(run.outcomes.ram));
    line("reflected to the guest", &|run| nonzero(run.outcomes.reflected));
    line("RAM taken for MMIO", &|run| run.ram_as_mmio.map_or_else(String::new, |ram| grouped(ram.count)));
    for (name, cell) in CONFIG {
        line(name, &|run| run.config.as_ref().map_or_else(String::new, cell));
    }
    // A host has no rest of a boot.
    let scan = if runs.iter().any(measured) { "scan, ms" } else { "scan and rest of the boot, ms" };
    line(scan, &|run| {
        let scan_s = run.config.map_or(0.0, |config| config.scan_s);
        if scan_s > 0.0 { format!("{:.3}", scan_s * 1e3) } else { String::new() }
    });
    line("ns per access", &|run| {
        if measured(run) { measured::ns(run.ns_per_access) } else { format!("{:.1}", run.ns_per_access) }
    });
    for (name, cell) in measured::LINES {
        line(name, &|run| run.measured.as_ref().map_or_else(String::new, cell));
    }
    for (name, cell) in what_if::LINES {
        line(name, &|run| runs.last().map_or_else(String::new, |asked| cell(run, asked)));
    }
    line("virtual time, s", &|run| if measured(run) { String::new() } else { format!("{:.6}", run.virtual_s) });
    for job in 0..runs.iter().map(|run| run.jobs.len()).max().unwrap_or(0).min(SHOWN_JOBS) {
        let name = runs.iter().find_map(|run| run.jobs.get(job)).map_or("", |job| &job.name);
        line(&format!("{name}: per second"), &|run| run.jobs.get(job).map_or_else(String::new, |j| rate(j.per_second)));
        line(&format!("{name}: latency ns, mean / p50 / p99 / max"), &|run| {
            run.jobs.get(job).filter(|job| job.latency_ns.max > 0).map_or_else(String::new, |job| {
                let latency = job.latency_ns;
                format!("{:.0} / {} / {} / {}", latency.mean, latency.p50, latency.p99, latency.max)
            })
        });
    }
    table
}

type ConfigLine = (&'static str, fn(&ConfigStats) -> String);

/// What a table says of configuration accesses. Exits are those to user space.
const CONFIG: [ConfigLine; 7] = [
    ("functions found", |config| if config.functions > 0 { grouped(config.functions as u64) } else { String::new() }),
    ("configuration reads", |config| grouped(config.reads)),
    ("configuration writes", |config| grouped(config.writes)),
    ("exits for a port", |config| grouped(config.port_exits)),
    ("exits for an address", |config| grouped(config.mmio_exits)),
    ("exits per read", |config| format!("{:.2}", config.read_exits as f64 / config.reads.max(1) as f64)),
    ("reads from memory, no exit", |config| grouped(config.memory_reads)),
];

/// Jobs whose own lines a table shows; JSON has all.
const SHOWN_JOBS: usize = 8;

fn nonzero(count: u64) -> String {
    if count > 0 { grouped(count) } else { String::new() }
}

/// Time per stage: an access's mean, run by run.
pub(super) fn stages(runs: &[RunResult]) -> String {
    if runs.iter().all(|run| run.measured.is_some()) {
        return String::new();
    }
    let labels: Vec<_> = runs.iter().map(|run| format!("{}, ns", label(runs, run))).collect();
    let mut header = vec!["time per access, by stage", "price ns", "price is"];
    header.extend(labels.iter().map(String::as_str));
    let mut table = figures(&header);
    let kind = runs.first().map_or(Kind::Book3sHv, |run| run.kind);
    for name in kind.stage_names().into_iter().chain([NOISE_ROW]) {
        let row_of = |run: &RunResult| run.stages.iter().find(|row| row.stage == name).cloned();
        let Some(known) = runs.iter().find_map(row_of) else { continue };
        let mut cells = vec![name.to_owned(), format!("{:.1}", known.ns), known.kind.to_string()];
        cells.extend(runs.iter().map(|run| {
            row_of(run)
                .map_or_else(|| "-".to_owned(), |row| format!("{:.1}", row.total_ns / run.accesses.max(1) as f64))
        }));
        table.add_row(cells);
    }
    let mut sum = vec!["sum".to_owned(), String::new(), String::new()];
    sum.extend(runs.iter().map(|run| format!("{:.1}", run.ns_per_access)));
    table.add_row(sum);
    format!("\n{table}\n{}", around(runs))
}

/// Exits as `perf kvm stat` would show them, run by run.
fn exits(runs: &[RunResult]) -> String {
    let seen = runs.iter().filter(|run| !run.exit_stats.is_empty());
    let one = |run: &RunResult| {
        let shown = &run.exit_stats[..run.exit_stats.len().min(SHOWN_EXITS)];
        let more = run.exit_stats.len() - shown.len();
        let more = if more > 0 { format!("{more} more are in --format json\n") } else { String::new() };
        format!("\nexits, {}\n{}{more}", run.variant, perf_kvm_stat(shown))
    };
    seen.map(one).collect()
}

/// Ports and addresses that a table shows exits of: a scan by ECAM has one a register.
const SHOWN_EXITS: usize = 12;

/// What a request costs beside its doorbell.
fn around(runs: &[RunResult]) -> String {
    let rows = runs.first().map_or(&[][..], |run| &run.around);
    if rows.is_empty() {
        return String::new();
    }
    let mut table = figures(&["beside it, per request", "price ns", "price is", "covers"]);
    for row in rows {
        table.add_row([row.cost.to_owned(), format!("{:.1}", row.ns), row.kind.to_string(), row.covers.to_owned()]);
    }
    if let Some(column) = table.column_mut(3) {
        column.set_cell_alignment(comfy_table::CellAlignment::Left);
    }
    format!("\n{table}\n")
}

/// What a reader must know beside the figures.
fn remarks(runs: &[RunResult]) -> String {
    let mut text = String::new();
    for run in runs {
        if let Some(ram) = run.ram_as_mmio {
            text += &format!(
                "\nWRONG with {}: {} access(es) to RAM taken for MMIO, the first at guest physical address {:#x}\n",
                label(runs, run),
                ram.count,
                ram.first_gpa
            );
        }
        if let Some(failure) = &run.failure {
            text += &format!("\nFAILED with {}: {failure}\n", label(runs, run));
        }
    }
    let jobs = runs.iter().map(|run| run.jobs.len()).max().unwrap_or(0);
    if jobs > SHOWN_JOBS {
        text += &format!("\n{} more jobs are in --format json\n", jobs - SHOWN_JOBS);
    }
    let mut notes: Vec<&String> = Vec::new();
    for note in runs.iter().flat_map(|run| &run.notes) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    for note in notes {
        text += &format!("\nnote: {note}");
    }
    if text.ends_with('\n') || text.is_empty() { text } else { text + "\n" }
}

/// Runs as CSV rows.
pub(super) fn rows(runs: &[RunResult]) -> Vec<Row> {
    runs.iter().flat_map(|run| rows_of(run, &label(runs, run))).collect()
}

fn rows_of(run: &RunResult, label: &str) -> Vec<Row> {
    let subject = format!("{}, {label}", run.scenario);
    let mut rows = Vec::new();
    let mut count = |quantity: &str, value: u64| rows.push(Row::new(&subject, quantity, value, "", ""));
    count("accesses", run.accesses);
    count("mmio accesses", run.mmio_accesses);
    match run.kind {
        Kind::Book3sHv => {
            count("hits", run.hits);
            for miss in &run.misses {
                count(&format!("missed: {}", miss.class), miss.count);
            }
            count("slow form, no cache", run.uncached);
        }
        Kind::X86 => {
            count("device in the kernel", run.outcomes.in_kernel);
            if run.measured.is_none() {
                count("vm exits", run.attempts);
            }
        }
    }
    count("ioeventfd, fast bus", run.outcomes.fast_mmio);
    count("ioeventfd", run.outcomes.eventfd);
    count("coalesced", run.outcomes.coalesced);
    count("exits to user space", run.outcomes.exits);
    count("ring was full", run.outcomes.ring_full);
    count("served as RAM", run.outcomes.ram);
    count("reflected to the guest", run.outcomes.reflected);
    count("RAM taken for MMIO", run.ram_as_mmio.map_or(0, |ram| ram.count));
    if let Some(metric) = &run.metric {
        rows.push(Row::new(&subject, "rate", metric.value, metric.unit, ""));
    }
    match &run.measured {
        Some(measured) => measured::rows(measured, &subject, &mut rows),
        None => rows.push(Row::new(&subject, "time per access", run.ns_per_access, "ns", "")),
    }
    what_if::rows(run, &subject, &mut rows);
    if run.measured.is_none() {
        rows.push(Row::new(&subject, "virtual time", run.virtual_s, "s", ""));
    }
    for row in &run.stages {
        let per_access = row.total_ns / run.accesses.max(1) as f64;
        rows.push(Row::new(&subject, &format!("stage {}", row.stage), per_access, "ns", row.kind.name()));
    }
    if let Some(config) = &run.config {
        rows.push(Row::new(&subject, "functions found", config.functions, "", ""));
        rows.push(Row::new(&subject, "configuration reads", config.reads, "", ""));
        rows.push(Row::new(&subject, "configuration writes", config.writes, "", ""));
        rows.push(Row::new(&subject, "exits for a port", config.port_exits, "", ""));
        rows.push(Row::new(&subject, "exits for an address", config.mmio_exits, "", ""));
        rows.push(Row::new(&subject, "exits of reads", config.read_exits, "", ""));
        rows.push(Row::new(&subject, "reads from memory", config.memory_reads, "", ""));
        rows.push(Row::new(&subject, "scan and rest of the boot", config.scan_s, "s", ""));
    }
    kinds::rows(run, &subject, &mut rows);
    for row in &run.exit_stats {
        let subject = format!("{subject}, {}", row.event);
        rows.push(Row::new(&subject, "samples", row.samples, "", ""));
        for (quantity, value, unit) in [
            ("samples share", row.samples_percent, "%"),
            ("time share", row.time_percent, "%"),
            ("least", row.min_ns, "ns"),
            ("greatest", row.max_ns, "ns"),
            ("mean", row.mean_ns, "ns"),
            ("spread of the mean", row.spread_percent, "%"),
        ] {
            rows.push(Row::new(&subject, quantity, value, unit, ""));
        }
    }
    recorded::rows(run, &subject, &mut rows);
    for job in &run.jobs {
        let subject = format!("{subject}, {}", job.name);
        rows.push(Row::new(&subject, "completed", job.completed, "", ""));
        rows.push(Row::new(&subject, "rate", job.per_second, "1/s", ""));
        rows.push(Row::new(&subject, "bytes", job.bytes_per_second, "B/s", ""));
        rows.push(Row::new(&subject, "latency mean", job.latency_ns.mean, "ns", ""));
        rows.push(Row::new(&subject, "latency p99", job.latency_ns.p99, "ns", ""));
    }
    rows
}
