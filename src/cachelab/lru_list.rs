//! Least recently used at speed: a doubly linked list of 16-bit slots.
//!
//! The policy of [`crate::kvm_hv::cache`] compares stamps while small and hashes slots when large; both cost more than
//! a replay has time for. Tests hold the two equal.

use crate::kvm_hv::cache::Policy;

#[derive(Debug)]
pub(super) struct LruList {
    /// Newer and older neighbour; the last node is the ring's anchor: its older is the newest, its newer the oldest.
    nodes: Box<[(u16, u16)]>,
    filled: usize,
}

impl LruList {
    /// For 1 to 1024 entries.
    pub(super) fn new(entries: usize) -> Self {
        let mut nodes = vec![(0, 0); entries + 1].into_boxed_slice();
        nodes[entries] = (narrow(entries), narrow(entries));
        Self { nodes, filled: 0 }
    }

    const fn anchor(&self) -> usize {
        self.nodes.len() - 1
    }

    #[inline]
    fn unlink(&mut self, slot: usize) {
        let (newer, older) = self.nodes[slot];
        self.nodes[usize::from(newer)].1 = older;
        self.nodes[usize::from(older)].0 = newer;
    }

    #[inline]
    fn push(&mut self, slot: usize) {
        let anchor = self.anchor();
        let newest = self.nodes[anchor].1;
        self.nodes[slot] = (narrow(anchor), newest);
        self.nodes[usize::from(newest)].0 = narrow(slot);
        self.nodes[anchor].1 = narrow(slot);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most 1024 slots and an anchor")]
const fn narrow(slot: usize) -> u16 {
    slot as u16
}

impl Policy for LruList {
    #[inline]
    fn hit(&mut self, slot: usize) {
        self.unlink(slot);
        self.push(slot);
    }

    #[inline]
    fn place(&mut self) -> usize {
        let anchor = self.anchor();
        let slot = if self.filled < anchor {
            self.filled += 1;
            self.filled - 1
        } else {
            let oldest = usize::from(self.nodes[anchor].0);
            self.unlink(oldest);
            oldest
        };
        self.push(slot);
        slot
    }
}
