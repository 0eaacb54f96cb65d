//! Where entries live, and how a fault finds its entry.

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::addr::EffectiveAddr;
use crate::book3s::page_size::slb_base_shift;

use super::{CacheEntry, KERNEL_ENTRIES};

/// From this many entries up a hash finds the entry; below, comparing them all is quicker.
const HASHED_FROM: usize = 64;

/// What a hashed search compares: generation, slb_v, page.
type Key = (u64, u64, u64);

fn key(entry: &CacheEntry) -> Key {
    (entry.generation, entry.slb_v, entry.page())
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "the kernel's cache lives inline: no indirection on its path")]
pub(super) enum Slots {
    /// Up to the kernel's four: no allocation, no hashing. What lies beyond `len` serves nothing.
    Inline { entries: [CacheEntry; KERNEL_ENTRIES], len: usize },
    /// Compared one by one.
    Linear(Box<[CacheEntry]>),
    /// Found by hash; a key that stands in several slots leads to the one filled last.
    Hashed { entries: Box<[CacheEntry]>, by_key: FxHashMap<Key, usize> },
}

impl Slots {
    pub(super) fn new(len: usize, unfilled: CacheEntry) -> Self {
        if len <= KERNEL_ENTRIES {
            let mut entries = [CacheEntry::NOTHING; KERNEL_ENTRIES];
            entries[..len].fill(unfilled);
            return Self::Inline { entries, len };
        }
        let entries = vec![unfilled; len].into_boxed_slice();
        if len < HASHED_FROM {
            return Self::Linear(entries);
        }
        // Twice the room, so that the map never grows: removals leave tombstones behind.
        let mut by_key = FxHashMap::with_capacity_and_hasher(2 * len, FxBuildHasher);
        by_key.insert(key(&unfilled), 0);
        Self::Hashed { entries, by_key }
    }

    #[inline(always)]
    pub(super) fn find(&self, ea: EffectiveAddr, slb_v: u64, generation: u64) -> Option<(usize, &CacheEntry)> {
        match self {
            Self::Inline { entries, .. } => {
                entries.iter().enumerate().find(|(_, entry)| entry.serves(ea, slb_v, generation))
            }
            Self::Linear(_) | Self::Hashed { .. } => self.find_beyond(ea, slb_v, generation),
        }
    }

    /// The same for caches that do not live inline.
    #[inline(never)]
    fn find_beyond(&self, ea: EffectiveAddr, slb_v: u64, generation: u64) -> Option<(usize, &CacheEntry)> {
        let serves = |(_, entry): &(usize, &CacheEntry)| entry.serves(ea, slb_v, generation);
        match self {
            Self::Inline { .. } | Self::Linear(_) => self.as_slice().iter().enumerate().find(serves),
            Self::Hashed { entries, by_key } => {
                let slot = *by_key.get(&(generation, slb_v, ea.0 >> slb_base_shift(slb_v)))?;
                entries.get(slot).map(|entry| (slot, entry)).filter(serves)
            }
        }
    }

    #[inline]
    pub(super) fn put(&mut self, slot: usize, entry: CacheEntry) {
        match self {
            Self::Inline { entries, .. } => entries[slot] = entry,
            Self::Linear(entries) => entries[slot] = entry,
            Self::Hashed { entries, by_key } => {
                let old = key(&entries[slot]);
                if by_key.get(&old) == Some(&slot) {
                    by_key.remove(&old);
                }
                by_key.insert(key(&entry), slot);
                entries[slot] = entry;
            }
        }
    }

    pub(super) fn as_slice(&self) -> &[CacheEntry] {
        match self {
            Self::Inline { entries, len } => &entries[..*len],
            Self::Linear(entries) | Self::Hashed { entries, .. } => entries,
        }
    }
}
