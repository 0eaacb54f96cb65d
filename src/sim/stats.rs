//! What a run adds up while it goes: paths, cache use, outcomes. No allocation once each path was seen.

use serde::Serialize;

use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::kvm_hv::{CacheUse, Handler, MissClass, Outcome, Record, RetryReason, Stage, StageSet};
use crate::machine::{Prices, SimTime};

/// One way through the handlers: its stages, what it costs, how often it was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub set: StageSet,
    /// All of it.
    pub total: SimTime,
    /// Until the back end is told: all but the way back into the guest.
    pub signal: SimTime,
    pub count: u64,
}

/// How a doorbell ended, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// Length-0 ioeventfd on the fast bus.
    pub fast_mmio: u64,
    /// Other ioeventfd.
    pub eventfd: u64,
    /// Put into the coalesced ring.
    pub coalesced: u64,
    /// Exit to user space.
    pub exits: u64,
    /// Of these, because the ring was full.
    pub ring_full: u64,
    /// Done by a device in the kernel (x86).
    pub in_kernel: u64,
    /// Served as RAM.
    pub ram: u64,
    /// Reflected to the guest.
    pub reflected: u64,
    /// Completed without effect.
    pub no_op: u64,
}

/// Everything a run adds up.
#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    paths: Vec<Path>,
    last: usize,
    pub accesses: u64,
    pub attempts: u64,
    pub hits: u64,
    pub misses: [u64; MissClass::ALL.len()],
    /// Misses of a vCPU without a cache.
    pub uncached: u64,
    pub outcomes: Outcomes,
    pub ram_as_mmio: u64,
    pub first_ram_as_mmio: Option<GuestPhysAddr>,
    /// An access that would retry for ever ends the run.
    pub stuck: Option<(RetryReason, EffectiveAddr)>,
    pub path_time: SimTime,
}

/// What an access cost: until the back end is told, and altogether.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    pub signal: SimTime,
    pub total: SimTime,
}

impl Stats {
    /// Adds one access and prices it.
    #[inline]
    pub fn add(&mut self, ea: EffectiveAddr, record: &Record, prices: &Prices) -> Price {
        self.accesses += 1;
        let mut price = Price { signal: SimTime::default(), total: SimTime::default() };
        let attempts = record.stages.attempts();
        for set in attempts {
            let path = self.path(*set, prices);
            path.count += 1;
            price.signal = price.total + path.signal;
            price.total += path.total;
        }
        self.attempts += attempts.len() as u64;
        self.path_time += price.total;
        match record.cache {
            CacheUse::None => {}
            CacheUse::Hit => self.hits += 1,
            CacheUse::Miss(Some(class)) => self.misses[class as usize] += 1,
            CacheUse::Miss(None) => self.uncached += 1,
        }
        let outcomes = &mut self.outcomes;
        match record.outcome {
            Outcome::Kernel { handler, .. } => match handler {
                Handler::FastMmio(_) => outcomes.fast_mmio += 1,
                Handler::Eventfd(_) => outcomes.eventfd += 1,
                Handler::Coalesced => outcomes.coalesced += 1,
                Handler::NoOp => outcomes.no_op += 1,
            },
            Outcome::Exit(exit) => {
                outcomes.exits += 1;
                outcomes.ring_full += u64::from(exit.ring_full);
            }
            Outcome::Ram { .. } => outcomes.ram += 1,
            Outcome::Reflected(_) => outcomes.reflected += 1,
            Outcome::RetriesForever(reason) => self.stuck = Some((reason, ea)),
        }
        if record.ram_as_mmio {
            self.ram_as_mmio += 1;
            self.first_ram_as_mmio = self.first_ram_as_mmio.or(record.outcome.mmio_gpa());
        }
        price
    }

    #[inline]
    fn path(&mut self, set: StageSet, prices: &Prices) -> &mut Path {
        if self.paths.get(self.last).is_none_or(|path| path.set != set) {
            self.last = self.find_path(set, prices);
        }
        &mut self.paths[self.last]
    }

    #[cold]
    fn find_path(&mut self, set: StageSet, prices: &Prices) -> usize {
        self.paths.iter().position(|path| path.set == set).unwrap_or_else(|| {
            let total = prices.attempt(set);
            let back = if set.contains(Stage::GuestEntry) { prices.stage(Stage::GuestEntry) } else { SimTime(0) };
            self.paths.push(Path { set, total, signal: total - back, count: 0 });
            self.paths.len() - 1
        })
    }

    /// The ways taken, as first seen.
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    /// Accesses emulated as MMIO.
    pub fn mmio_accesses(&self) -> u64 {
        self.hits + self.uncached + self.misses.iter().sum::<u64>()
    }
}
