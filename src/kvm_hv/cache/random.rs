//! A slot drawn at random, the same for the same seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use super::Policy;
use crate::addr::index;

#[derive(Clone, Debug)]
pub(crate) struct Random {
    entries: usize,
    filled: usize,
    rng: Xoshiro256PlusPlus,
}

impl Random {
    pub(crate) fn new(entries: usize, seed: u64) -> Self {
        Self { entries, filled: 0, rng: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }
}

impl Policy for Random {
    #[inline]
    fn hit(&mut self, _slot: usize) {}

    fn place(&mut self) -> usize {
        if self.filled < self.entries {
            self.filled += 1;
            return self.filled - 1;
        }
        // The high half of a product: no modulo, and a bias below 2^-54 for 1024 entries.
        index(((u128::from(self.rng.next_u64()) * self.entries as u128) >> 64) as u64)
    }
}
