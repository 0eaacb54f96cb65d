//! Why an access missed: tells cold, segment, generation and capacity apart.

use rustc_hash::FxHashSet;

use crate::addr::{EffectiveAddr, EmptyEntry};
use crate::book3s::page_size::slb_base_shift;

use super::cache::{CacheDesign, CacheEntry, MmioCache, page_mask};
use super::outcome::MissClass;

/// What was ever cached on one vCPU, and a shadow cache that no bump empties.
#[derive(Clone, Debug)]
pub(super) struct Classifier {
    /// Same size, policy and seed as the real cache, every entry tagged generation 0: what it still holds, a
    /// bump alone made a miss of.
    shadow: MmioCache,
    /// (base page shift, page) ever cached.
    pages: FxHashSet<(u32, u64)>,
    /// (slb_v, page) ever cached.
    segments: FxHashSet<(u64, u64)>,
    /// The page the shadow was last asked for and had, nothing filled since: to ask again would tell no policy
    /// anything new.
    last: Option<(u64, u64)>,
}

impl Classifier {
    /// The shadow is searched at generation 0 only.
    const NEVER_SEARCHED: u64 = 1;

    pub(super) fn new(design: CacheDesign, seed: u64) -> Self {
        let shadow = MmioCache::new(design, EmptyEntry::Invalid, seed);
        Self { shadow, pages: FxHashSet::default(), segments: FxHashSet::default(), last: None }
    }

    /// An access was served by the real cache: the shadow sees it too.
    #[inline]
    pub(super) fn hit(&mut self, ea: EffectiveAddr, slb_v: u64) {
        let page = (slb_v, ea.0 & page_mask(slb_v));
        if self.last == Some(page) {
            return;
        }
        if self.shadow.search(ea, slb_v, 0).is_none() {
            self.fill(ea, slb_v);
        }
        self.last = Some(page);
    }

    /// The real cache missed and is about to be filled for this page: why it missed.
    pub(super) fn miss(&mut self, ea: EffectiveAddr, slb_v: u64) -> MissClass {
        self.last = None;
        let shift = slb_base_shift(slb_v);
        let page = ea.0 >> shift;
        let known_page = !self.pages.insert((shift, page));
        let known_segment = !self.segments.insert((slb_v, page));
        let kept = self.shadow.search(ea, slb_v, 0).is_some();
        if !kept {
            self.fill(ea, slb_v);
        }
        match (known_page, known_segment, kept) {
            (false, ..) => MissClass::Cold,
            (true, false, _) => MissClass::Segment,
            (true, true, true) => MissClass::Generation,
            (true, true, false) => MissClass::Capacity,
        }
    }

    /// A protection fault filled the real cache (H4): what the shadow's next slot held is evicted by it, not by a bump.
    pub(super) fn protection_fault_filled(&mut self, entry: &CacheEntry) {
        self.last = None;
        self.shadow.fill(CacheEntry { generation: Self::NEVER_SEARCHED, ..*entry });
    }

    fn fill(&mut self, ea: EffectiveAddr, slb_v: u64) {
        self.shadow.fill(CacheEntry { ea, slb_v, page_mask: page_mask(slb_v), ..CacheEntry::default() });
    }
}
