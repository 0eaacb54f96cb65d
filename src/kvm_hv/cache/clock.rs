//! CLOCK: a hand passes over slots that were hit since it last came by, once each.

use super::Policy;

#[derive(Clone, Debug)]
pub(crate) struct Clock {
    referenced: Box<[bool]>,
    hand: usize,
}

impl Clock {
    pub(crate) fn new(entries: usize) -> Self {
        Self { referenced: vec![false; entries].into_boxed_slice(), hand: 0 }
    }
}

impl Policy for Clock {
    #[inline]
    fn hit(&mut self, slot: usize) {
        self.referenced[slot] = true;
    }

    fn place(&mut self) -> usize {
        loop {
            let slot = self.hand;
            self.hand = if slot + 1 == self.referenced.len() { 0 } else { slot + 1 };
            if !std::mem::take(&mut self.referenced[slot]) {
                return slot;
            }
        }
    }
}
