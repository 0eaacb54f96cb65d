//! SIEVE (Zhang et al., NSDI 2024): insertion order is kept, a hand moves from old to new, passes visited entries
//! once and evicts the first that was not visited; new entries come in at the head, behind the hand's back.

use super::Policy;

/// End of the list.
const NONE: usize = usize::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Sieve {
    nodes: Box<[Node]>,
    filled: usize,
    head: usize,
    tail: usize,
    hand: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    newer: usize,
    older: usize,
    visited: bool,
}

impl Sieve {
    pub(crate) fn new(entries: usize) -> Self {
        let node = Node { newer: NONE, older: NONE, visited: false };
        Self { nodes: vec![node; entries].into_boxed_slice(), filled: 0, head: NONE, tail: NONE, hand: NONE }
    }

    fn unlink(&mut self, slot: usize) {
        let Node { newer, older, .. } = self.nodes[slot];
        match newer {
            NONE => self.head = older,
            _ => self.nodes[newer].older = older,
        }
        match older {
            NONE => self.tail = newer,
            _ => self.nodes[older].newer = newer,
        }
    }

    fn push_head(&mut self, slot: usize) {
        self.nodes[slot] = Node { newer: NONE, older: self.head, visited: false };
        match self.head {
            NONE => self.tail = slot,
            head => self.nodes[head].newer = slot,
        }
        self.head = slot;
    }

    fn evict(&mut self) -> usize {
        let mut slot = if self.hand == NONE { self.tail } else { self.hand };
        while std::mem::take(&mut self.nodes[slot].visited) {
            slot = if self.nodes[slot].newer == NONE { self.tail } else { self.nodes[slot].newer };
        }
        self.hand = self.nodes[slot].newer;
        self.unlink(slot);
        slot
    }
}

impl Policy for Sieve {
    #[inline]
    fn hit(&mut self, slot: usize) {
        self.nodes[slot].visited = true;
    }

    fn place(&mut self) -> usize {
        let slot = if self.filled < self.nodes.len() {
            self.filled += 1;
            self.filled - 1
        } else {
            self.evict()
        };
        self.push_head(slot);
        slot
    }
}
