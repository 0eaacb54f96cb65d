//! Draws for streams.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// A seeded source.
pub(super) struct Rng(Xoshiro256PlusPlus);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn byte(&mut self) -> u8 {
        self.bits().to_le_bytes()[0]
    }

    /// 0 to `n - 1`; `n` is small, so the bias of the remainder is nothing.
    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }

    /// The same of small numbers.
    #[cfg(all(target_arch = "powerpc64", target_endian = "little"))]
    pub fn small(&mut self, n: u32) -> u32 {
        u32::try_from(self.below(n.into())).unwrap_or(0)
    }

    /// One of a few.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[crate::addr::index(self.below(from.len() as u64))]
    }

    /// Whether one time in `n`.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
