//! Rotating index: the kernel's policy (`next_mmio_cache_entry`).

use super::Policy;

#[derive(Clone, Debug)]
pub(crate) struct RoundRobin {
    entries: usize,
    next: usize,
}

impl RoundRobin {
    pub(crate) const fn new(entries: usize) -> Self {
        Self { entries, next: 0 }
    }
}

impl Policy for RoundRobin {
    #[inline]
    fn hit(&mut self, _slot: usize) {}

    #[inline]
    fn place(&mut self) -> usize {
        let slot = self.next;
        self.next = if slot + 1 == self.entries { 0 } else { slot + 1 };
        slot
    }
}
