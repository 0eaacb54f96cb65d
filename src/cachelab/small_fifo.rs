//! Round-robin of a few entries, kept in registers.

use super::simulator::Design;

/// A rotating index evicts the oldest entry, so the cache is a shift register: a miss shifts its key in.
pub(super) struct SmallFifo<const N: usize> {
    /// Newest first; only the first `filled` count.
    keys: [u64; N],
    filled: usize,
}

impl<const N: usize> SmallFifo<N> {
    pub(super) const fn new() -> Self {
        Self { keys: [0; N], filled: 0 }
    }

    /// A full cache: no branches.
    #[inline(always)]
    fn step(keys: &mut [u64; N], key: u64) -> bool {
        let mut hit = false;
        for held in keys.iter() {
            hit |= *held == key;
        }
        let mut shifted = key;
        for held in keys.iter_mut() {
            let next = *held;
            *held = if hit { next } else { shifted };
            shifted = next;
        }
        hit
    }
}

impl<const N: usize> Design for SmallFifo<N> {
    #[inline]
    fn access(&mut self, key: u64) -> bool {
        if self.filled == N {
            return Self::step(&mut self.keys, key);
        }
        if self.keys[..self.filled].contains(&key) {
            return true;
        }
        self.keys.rotate_right(1);
        self.keys[0] = key;
        self.filled += 1;
        false
    }

    fn count(&mut self, keys: &[u64]) -> u64 {
        let mut rest = keys.iter();
        let mut hits = 0;
        while self.filled < N {
            let Some(key) = rest.next() else { return hits };
            hits += u64::from(self.access(*key));
        }
        // A copy in registers: through the reference each step would be stored.
        let mut held = self.keys;
        for key in rest {
            hits += u64::from(Self::step(&mut held, *key));
        }
        self.keys = held;
        hits
    }
}
