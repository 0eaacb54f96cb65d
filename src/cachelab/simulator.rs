//! One cache design over keys.

use super::indexed::Indexed;
use super::lru_list::LruList;
use super::small_fifo::SmallFifo;
use super::stacks::OptimumOfOne;
use super::{LabError, LabPolicy};
use crate::kvm_hv::cache::{clock::Clock, random::Random, round_robin::RoundRobin, sieve::Sieve};
use crate::kvm_hv::{CacheDesign, PolicyKind};

/// A cache that is told keys, in order.
pub trait Simulator: Send {
    /// One access: whether it hit. A miss fills.
    fn access(&mut self, key: u64) -> bool;

    /// Hits among `keys`.
    fn count(&mut self, keys: &[u64]) -> u64;

    /// Appends to `missed` the keys that missed, in order.
    fn misses(&mut self, keys: &[u64], missed: &mut Vec<u64>);
}

/// What a design implements: the loops over it are compiled for it alone.
pub(super) trait Design: Send {
    fn access(&mut self, key: u64) -> bool;

    #[inline]
    fn count(&mut self, keys: &[u64]) -> u64 {
        keys.iter().map(|key| u64::from(self.access(*key))).sum()
    }

    #[inline]
    fn misses(&mut self, keys: &[u64], missed: &mut Vec<u64>) {
        // Every key is written and only a miss keeps its place: no branch on what no predictor can know.
        let start = missed.len();
        missed.resize(start + keys.len(), 0);
        let mut at = start;
        for key in keys {
            missed[at] = *key;
            at += usize::from(!self.access(*key));
        }
        missed.truncate(at);
    }
}

impl<D: Design> Simulator for D {
    fn access(&mut self, key: u64) -> bool {
        Design::access(self, key)
    }

    fn count(&mut self, keys: &[u64]) -> u64 {
        Design::count(self, keys)
    }

    fn misses(&mut self, keys: &[u64], missed: &mut Vec<u64>) {
        Design::misses(self, keys, missed);
    }
}

/// No cache: everything misses.
struct Off;

impl Design for Off {
    fn access(&mut self, _key: u64) -> bool {
        false
    }
}

/// A cache of `entries` (0, off, to 1024) with `policy`; `seed` matters to the random one only.
///
/// The optimum takes [`Tag`](super::Tag)s from an [`Interner`](super::Interner); all others take any keys.
///
/// # Errors
/// A size out of range.
pub fn simulator(policy: LabPolicy, entries: u64, seed: u64) -> Result<Box<dyn Simulator>, LabError> {
    let size = CacheDesign::new(entries, PolicyKind::RoundRobin)?.entries();
    Ok(match (policy, size) {
        (_, 0) => Box::new(Off),
        (LabPolicy::Cache(PolicyKind::RoundRobin), 1) => Box::new(SmallFifo::<1>::new()),
        (LabPolicy::Cache(PolicyKind::RoundRobin), 2) => Box::new(SmallFifo::<2>::new()),
        (LabPolicy::Cache(PolicyKind::RoundRobin), 3) => Box::new(SmallFifo::<3>::new()),
        (LabPolicy::Cache(PolicyKind::RoundRobin), 4) => Box::new(SmallFifo::<4>::new()),
        (LabPolicy::Cache(PolicyKind::RoundRobin), 8) => Box::new(SmallFifo::<8>::new()),
        (LabPolicy::Cache(PolicyKind::RoundRobin), _) => Box::new(Indexed::new(RoundRobin::new(size), size)),
        (LabPolicy::Cache(PolicyKind::Lru), _) => Box::new(Indexed::new(LruList::new(size), size)),
        (LabPolicy::Cache(PolicyKind::Clock), _) => Box::new(Indexed::new(Clock::new(size), size)),
        (LabPolicy::Cache(PolicyKind::Sieve), _) => Box::new(Indexed::new(Sieve::new(size), size)),
        (LabPolicy::Cache(PolicyKind::Random), _) => Box::new(Indexed::new(Random::new(size, seed), size)),
        (LabPolicy::Optimum, _) => Box::new(OptimumOfOne::new(size)),
    })
}
