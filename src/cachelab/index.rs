//! From a key to its slot: open addressing over 16-bit slots, so that a cache of 1024 entries stays in the first-level cache.

/// No slot.
const EMPTY: u16 = u16::MAX;
/// 2^64 over the golden ratio: spreads keys that differ in few bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug)]
pub(super) struct Index {
    table: Box<[u16]>,
    keys: Box<[u64]>,
    shift: u32,
}

impl Index {
    /// For slots 0 to `entries - 1`, at most 1024.
    pub(super) fn new(entries: usize) -> Self {
        let size = (4 * entries).next_power_of_two().max(16);
        Self {
            table: vec![EMPTY; size].into_boxed_slice(),
            keys: vec![0; entries].into_boxed_slice(),
            shift: 64 - size.trailing_zeros(),
        }
    }

    #[inline(always)]
    fn home(&self, key: u64) -> usize {
        crate::addr::index(key.wrapping_mul(SPREAD) >> self.shift)
    }

    #[inline(always)]
    const fn after(&self, at: usize) -> usize {
        (at + 1) & (self.table.len() - 1)
    }

    /// The slot that holds `key`.
    #[inline(always)]
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        let mut at = self.home(key);
        loop {
            let slot = self.table[at];
            if slot == EMPTY {
                return None;
            }
            if self.keys[usize::from(slot)] == key {
                return Some(usize::from(slot));
            }
            at = self.after(at);
        }
    }

    /// Puts `key`, which is not there, into a slot that holds nothing.
    #[inline]
    pub(super) fn insert(&mut self, key: u64, slot: usize) {
        self.keys[slot] = key;
        let mut at = self.home(key);
        while self.table[at] != EMPTY {
            at = self.after(at);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 1024 slots")]
        let slot = slot as u16;
        self.table[at] = slot;
    }

    /// Takes what `slot` holds out.
    #[inline]
    pub(super) fn remove(&mut self, slot: usize) {
        let mut hole = self.home(self.keys[slot]);
        while usize::from(self.table[hole]) != slot {
            hole = self.after(hole);
        }
        // Whatever a search would have to pass the hole for moves into it.
        let mask = self.table.len() - 1;
        let mut at = hole;
        loop {
            at = self.after(at);
            let moving = self.table[at];
            if moving == EMPTY {
                break;
            }
            let home = self.home(self.keys[usize::from(moving)]);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.table[hole] = moving;
                hole = at;
            }
        }
        self.table[hole] = EMPTY;
    }
}
