//! What an x86 run adds up.

use crate::kvm_x86::{Handled, Pending, Stage, StageCounts, Target};
use crate::machine::{SimTime, X86Prices};
use crate::sim::stats::Outcomes;

use super::exits::{ExitRows, ExitStat};
use super::noise::scaled;

/// A way through an exit: which stages, however often each.
#[derive(Clone, Debug)]
pub(in crate::sim) struct X86Path {
    pub stages: Vec<&'static str>,
    pub count: u64,
    pub time: SimTime,
}

/// How often a stage was gone through, and how long that took.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::sim) struct StageSum {
    pub count: u64,
    pub time: SimTime,
}

/// One VM exit (or one read of memory), priced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    pub stages: StageCounts,
    /// How many times as long the stages took.
    pub cold: f64,
    /// What the host added.
    pub excess: SimTime,
    /// What perf would give it.
    pub timed: SimTime,
    /// All of it.
    pub all: SimTime,
}

/// Everything a run adds up.
#[derive(Clone, Debug, Default)]
pub(in crate::sim) struct X86Stats {
    /// Instructions.
    pub accesses: u64,
    /// Of these, to MMIO addresses.
    pub mmio_accesses: u64,
    /// VM exits.
    pub vm_exits: u64,
    pub outcomes: Outcomes,
    pub time: SimTime,
    /// What the host's noise added.
    pub excess: SimTime,
    sums: [StageSum; Stage::ALL.len()],
    paths: Vec<X86Path>,
    rows: ExitRows,
}

impl X86Stats {
    pub(super) fn add_exit(&mut self, pending: &Pending, spent: &Spent, prices: &X86Prices) {
        self.time += spent.all;
        self.excess += spent.excess;
        for (stage, count) in spent.stages.iter() {
            let sum = &mut self.sums[stage as usize];
            sum.count += u64::from(count);
            let time = SimTime(prices.stage(stage).0.saturating_mul(u64::from(count)));
            sum.time += scaled(time, spent.cold);
        }
        if spent.stages.of(Stage::VmExit) > 0 {
            self.vm_exits += 1;
            self.rows.add(pending.target(), pending.direction(), spent.timed);
        }
        let stages = || spent.stages.iter().map(|(stage, _)| stage.name());
        let known = self.paths.iter().position(|path| path.stages.iter().copied().eq(stages()));
        let at = known.unwrap_or_else(|| {
            self.paths.push(X86Path { stages: stages().collect(), count: 0, time: SimTime::default() });
            self.paths.len() - 1
        });
        self.paths[at].count += 1;
        self.paths[at].time += spent.all;
    }

    pub(super) fn add_access(&mut self, pending: &Pending, handled: &Handled, user_exits: u64) {
        self.accesses += 1;
        self.mmio_accesses += u64::from(matches!(pending.target(), Target::Mmio(_)));
        let outcomes = &mut self.outcomes;
        outcomes.fast_mmio += u64::from(handled.fast_mmio);
        outcomes.eventfd += u64::from(handled.eventfd);
        outcomes.coalesced += u64::from(handled.coalesced);
        outcomes.in_kernel += u64::from(handled.in_kernel);
        outcomes.ram += u64::from(handled.memory);
        outcomes.exits += user_exits;
    }

    /// How often each stage was gone through.
    pub(super) fn stages(&self) -> StageCounts {
        let mut counts = StageCounts::default();
        for (stage, sum) in Stage::ALL.iter().zip(self.sums) {
            counts.add_times(*stage, u32::try_from(sum.count).unwrap_or(u32::MAX));
        }
        counts
    }

    /// Stages gone through, in path order.
    pub fn sums(&self) -> impl Iterator<Item = (Stage, StageSum)> + '_ {
        Stage::ALL.iter().copied().zip(self.sums).filter(|(_, sum)| sum.count > 0)
    }

    /// The ways taken, as first seen.
    pub fn paths(&self) -> &[X86Path] {
        &self.paths
    }

    /// Exits as `perf kvm stat` shows them.
    pub fn exit_stats(&self) -> Vec<ExitStat> {
        self.rows.stats()
    }
}

pub(super) fn add_handled(sum: &mut Handled, more: &Handled) {
    sum.fast_mmio += more.fast_mmio;
    sum.eventfd += more.eventfd;
    sum.coalesced += more.coalesced;
    sum.in_kernel += more.in_kernel;
    sum.memory += more.memory;
}
