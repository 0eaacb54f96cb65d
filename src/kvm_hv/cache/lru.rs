//! Least recently used: time stamps compared one by one while small, the `lru` crate's list from 64 entries up.

use std::num::NonZeroUsize;

use lru::LruCache;
use rustc_hash::FxBuildHasher;

use super::Policy;

/// From this many entries up a linked list is quicker than comparing stamps.
const LISTED_FROM: usize = 64;

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "small caches keep their stamps inline: no allocation on their path")]
pub(super) enum Lru {
    /// Stamp of each slot's last use, 0 for never.
    Stamps { stamps: [u64; LISTED_FROM], entries: usize, now: u64 },
    /// Slots from most to least recently used.
    List { order: LruCache<usize, (), FxBuildHasher>, entries: usize },
}

impl Lru {
    pub(super) fn new(entries: usize) -> Self {
        match NonZeroUsize::new(entries) {
            Some(capacity) if entries >= LISTED_FROM => {
                Self::List { order: LruCache::with_hasher(capacity, FxBuildHasher), entries }
            }
            _ => Self::Stamps { stamps: [0; LISTED_FROM], entries, now: 0 },
        }
    }
}

impl Policy for Lru {
    #[inline]
    fn hit(&mut self, slot: usize) {
        match self {
            Self::Stamps { stamps, now, .. } => {
                *now += 1;
                stamps[slot] = *now;
            }
            Self::List { order, .. } => {
                order.promote(&slot);
            }
        }
    }

    fn place(&mut self) -> usize {
        match self {
            Self::Stamps { stamps, entries, now } => {
                *now += 1;
                let oldest = (0..*entries).min_by_key(|slot| stamps[*slot]).unwrap_or(0);
                stamps[oldest] = *now;
                oldest
            }
            Self::List { order, entries } => {
                if order.len() < *entries {
                    let slot = order.len();
                    order.put(slot, ());
                    return slot;
                }
                // Promoted, not popped and put back: that would free a node and allocate another.
                let slot = order.peek_lru().map_or(0, |(slot, ())| *slot);
                order.promote(&slot);
                slot
            }
        }
    }
}
