//! Doorbells in the coalesced ring: how long each waits from its write to the drain that finds it.

use std::collections::VecDeque;

use serde::Serialize;

use crate::machine::SimTime;

use super::SimError;
use super::latencies::Latencies;

/// Time from a coalesced doorbell's write to its drain, over all that were drained. What the back end's thread then
/// takes to wake up is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DrainDelay {
    /// Doorbells drained, each once.
    pub drained: u64,
    /// Doorbells still in the ring when the run ended: no back end was told of them.
    pub waiting: u64,
    /// Mean, ns.
    pub mean: f64,
    /// Shortest, ns.
    pub min: f64,
    /// Median, ns, to three digits as the other quantiles.
    pub p50: u64,
    /// 90th percentile, ns.
    pub p90: u64,
    /// 99th percentile, ns.
    pub p99: u64,
    /// 99.9th percentile, ns.
    pub p99_9: u64,
    /// Longest, ns.
    pub max: f64,
}

/// The ring's entries as the engine keeps them: when each was written.
pub(super) struct Coalesced {
    /// Oldest first, one for each entry in the ring.
    written: VecDeque<SimTime>,
    delays: Latencies,
    total: SimTime,
    min: SimTime,
    max: SimTime,
    drained: u64,
}

impl Coalesced {
    pub fn new() -> Result<Self, SimError> {
        let (total, min, max) = (SimTime::default(), SimTime(u64::MAX), SimTime::default());
        Ok(Self { written: VecDeque::new(), delays: Latencies::new()?, total, min, max, drained: 0 })
    }

    /// A doorbell went into the ring at `at`.
    #[inline]
    pub fn written(&mut self, at: SimTime) {
        self.written.push_back(at);
    }

    /// The oldest entry was drained at `at`; whether there was one.
    #[inline]
    pub fn drained(&mut self, at: SimTime) -> bool {
        let Some(written) = self.written.pop_front() else { return false };
        let delay = at - written;
        self.delays.record(delay);
        self.total += delay;
        self.min = self.min.min(delay);
        self.max = self.max.max(delay);
        self.drained += 1;
        true
    }

    /// Whether the ring is empty.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// Time that drained doorbells waited, all together, and how many they were.
    pub const fn total(&self) -> (SimTime, u64) {
        (self.total, self.drained)
    }

    /// The distribution; none if no doorbell was ever coalesced.
    pub fn summary(&self) -> Option<DrainDelay> {
        let waiting = self.written.len() as u64;
        if self.drained + waiting == 0 {
            return None;
        }
        // A bucket's upper end can lie beyond the longest of all.
        let [p50, p90, p99, p99_9] =
            self.delays.quantiles([0.5, 0.9, 0.99, 0.999]).map(|ns| ns.min(self.max.whole_ns()));
        Some(DrainDelay {
            drained: self.drained,
            waiting,
            mean: self.total.ns() / self.drained.max(1) as f64,
            min: self.min.min(self.max).ns(),
            p50,
            p90,
            p99,
            p99_9,
            max: self.max.ns(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_delays_and_never_beyond_the_longest() {
        let mut ring = Coalesced::new().unwrap();
        assert_eq!(ring.summary(), None);
        for i in 1..=1000 {
            ring.written(SimTime::from_whole_ns(i));
        }
        // The first waits 1000 ns, the last of those drained 101 ns.
        for _ in 0..900 {
            assert!(ring.drained(SimTime::from_whole_ns(1001)));
        }
        let delay = ring.summary().unwrap();
        assert_eq!((delay.drained, delay.waiting, delay.min, delay.max), (900, 100, 101.0, 1000.0));
        assert_eq!((delay.mean, delay.p50, delay.p90, delay.p99, delay.p99_9), (550.5, 550, 910, 991, 1000));
        for left in (0..100).rev() {
            assert!(ring.drained(SimTime::from_whole_ns(1001)));
            assert_eq!(ring.is_empty(), left == 0);
        }
        assert!(!ring.drained(SimTime::from_whole_ns(1001)), "an entry nobody wrote");
    }
}
