//! Exits as `perf kvm stat` counts and times them, by port or address.
//!
//! perf (`tools/perf/arch/x86/util/kvm-stat.c`) times port I/O from the tracepoint `kvm_pio` to `kvm_entry`. The kernel fires
//! `kvm_pio` for an OUT before it looks for a device, for an IN when the data is there, so an IN's way through user space is not
//! in its time. Writes to MMIO are timed from `kvm_mmio` to `kvm_entry`, reads from `kvm_exit` to `kvm_mmio`.

use serde::Serialize;

use crate::kvm_x86::{Direction, Instruction, Pending, Stage, StageCounts, Target};
use crate::machine::SimTime;

/// The stages of an instruction's one VM exit that lie within the time that perf gives it.
#[must_use]
pub fn perf_window(insn: &Instruction, stages: &StageCounts) -> StageCounts {
    window(&Pending::new(insn.clone()), stages)
}

/// The stages of a VM exit that lie within the time that perf gives it.
pub(super) fn window(pending: &Pending, stages: &StageCounts) -> StageCounts {
    let mut window = StageCounts::default();
    for (stage, count) in stages.iter().filter(|(stage, _)| within(pending.target(), pending.direction(), *stage)) {
        window.add_times(stage, count);
    }
    window
}

const fn within(target: Target, direction: Direction, stage: Stage) -> bool {
    match (target, direction) {
        (_, Direction::Write) => {
            use Stage::{EmulateInsn, FastMmio, ReadOnlyFault, VmEntry, VmExit};
            !matches!(stage, VmExit | VmEntry | EmulateInsn | FastMmio | ReadOnlyFault)
        }
        (Target::Port(_), Direction::Read) => matches!(stage, Stage::CompleteIo | Stage::PrepareEntry),
        (Target::Mmio(_), Direction::Read) => {
            !matches!(stage, Stage::PrepareEntry | Stage::VmEntry | Stage::MemoryRead)
        }
    }
}

/// A row of `perf kvm stat report --event=ioport` (or mmio).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExitStat {
    /// Port or address, and direction, as perf writes it: `0x70:POUT`, `0xfe000000:R`.
    pub event: String,
    /// Exits.
    pub samples: u64,
    /// Share of all exits of its kind, percent.
    pub samples_percent: f64,
    /// Share of their time, percent.
    pub time_percent: f64,
    /// Least, ns.
    pub min_ns: f64,
    /// Greatest, ns.
    pub max_ns: f64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// Standard error of the mean, in percent of the mean; 0 for a single exit.
    pub spread_percent: f64,
}

/// Exits of one port or address in one direction while they are counted.
#[derive(Clone, Debug)]
struct Row {
    target: Target,
    direction: Direction,
    samples: u64,
    time: SimTime,
    min: SimTime,
    max: SimTime,
    /// Mean and sum of squared differences from it, ns (Welford, as perf's `update_stats`).
    mean: f64,
    squares: f64,
}

/// All rows, by target and direction as first seen.
#[derive(Clone, Debug, Default)]
pub(super) struct ExitRows {
    rows: Vec<Row>,
}

impl ExitRows {
    pub fn add(&mut self, target: Target, direction: Direction, time: SimTime) {
        let known = self.rows.iter().position(|row| (row.target, row.direction) == (target, direction));
        let at = known.unwrap_or_else(|| {
            let zero = SimTime::default();
            let (min, max, mean, squares) = (SimTime(u64::MAX), zero, 0.0, 0.0);
            self.rows.push(Row { target, direction, samples: 0, time: zero, min, max, mean, squares });
            self.rows.len() - 1
        });
        let row = &mut self.rows[at];
        row.samples += 1;
        row.time += time;
        (row.min, row.max) = (row.min.min(time), row.max.max(time));
        let delta = time.ns() - row.mean;
        row.mean += delta / row.samples as f64;
        row.squares += delta * (time.ns() - row.mean);
    }

    /// The rows as perf prints them: most samples first. Shares are of port I/O and of MMIO apart.
    pub fn stats(&self) -> Vec<ExitStat> {
        let mut stats: Vec<_> = self.rows.iter().map(|row| self.stat(row)).collect();
        stats.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.event.cmp(&b.event)));
        stats
    }

    fn stat(&self, row: &Row) -> ExitStat {
        let is_port = |row: &Row| matches!(row.target, Target::Port(_));
        let like = || self.rows.iter().filter(|other| is_port(other) == is_port(row));
        let (samples, time): (u64, f64) = (like().map(|row| row.samples).sum(), like().map(|row| row.time.ns()).sum());
        let percent = |part: f64, whole: f64| if whole > 0.0 { part / whole * 100.0 } else { 0.0 };
        let n = row.samples as f64;
        let error = if row.samples > 1 { (row.squares / (n - 1.0) / n).sqrt() } else { 0.0 };
        ExitStat {
            event: event(row.target, row.direction),
            samples: row.samples,
            samples_percent: percent(n, samples as f64),
            time_percent: percent(row.time.ns(), time),
            min_ns: row.min.ns(),
            max_ns: row.max.ns(),
            mean_ns: row.mean,
            spread_percent: percent(error, row.mean),
        }
    }
}

/// Port or address and direction as perf writes them: `0x70:POUT`, `0xfe000000:R`.
#[must_use]
pub fn event(target: Target, direction: Direction) -> String {
    let letters = match (target, direction) {
        (Target::Port(_), Direction::Read) => "PIN",
        (Target::Port(_), Direction::Write) => "POUT",
        (Target::Mmio(_), Direction::Read) => "R",
        (Target::Mmio(_), Direction::Write) => "W",
    };
    format!("{:#x}:{letters}", target.addr())
}
