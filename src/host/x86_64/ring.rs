//! The kernel's own coalesced ring, read where the kernel writes it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::addr::CoalescedRoom;
use crate::io::{HostPage, Ring, RingPage};

use super::HostError;
use crate::host::Mapping;

/// Bytes of a host page on x86.
const PAGE: u64 = 4096;
/// Where the entries begin in the page, behind `first` and `last`.
const ENTRIES: u64 = 8;
/// Words of 8 bytes in an entry.
const ENTRY_WORDS: u64 = 3;

/// A [`Ring`] whose words are in the page that the kernel shares. The kernel pushes; nobody here may.
///
/// kvm-ioctls reads that page by plain loads and publishes `first` before it has read the entry; these are atomics in the
/// order that the kernel's barriers need. There is one ring a VM, and it hangs off every vCPU: ask for it once.
#[derive(Debug)]
pub struct MappedRing {
    ring: Ring<&'static AtomicU32, &'static AtomicU64>,
    /// Keeps the page mapped; dropped after `ring`, which refers to it.
    _pages: Arc<Mapping>,
}

impl MappedRing {
    /// The ring in the page after `page` others.
    pub(super) fn new(pages: &Arc<Mapping>, page: u64) -> Result<Self, HostError> {
        let start = page * PAGE;
        let words = u64::from(HostPage::Kib4.ring_slots()) * ENTRY_WORDS;
        let words = (0..words).map(|word| Ok(forever(pages.atomic_u64(start + ENTRIES + word * 8)?)));
        let words = words.collect::<Result<Box<[_]>, HostError>>()?;
        let [first, last] = [pages.atomic_u32(start)?, pages.atomic_u32(start + 4)?].map(forever);
        // How the kernel counts room is the kernel's business: only a producer asks.
        let page = RingPage::over(first, last, words, CoalescedRoom::Fixed);
        Ok(Self { ring: Ring::over(HostPage::Kib4, page), _pages: Arc::clone(pages) })
    }
}

/// A reference into the mapping, for as long as the [`MappedRing`] lives that keeps it mapped.
fn forever<T>(word: &T) -> &'static T {
    // SAFETY: the references go into `MappedRing::ring`, a private field that hands out none of them, and `_pages` beside it
    // holds the mapping until the ring is gone.
    unsafe { &*std::ptr::from_ref(word) }
}

impl Deref for MappedRing {
    type Target = Ring<&'static AtomicU32, &'static AtomicU64>;

    fn deref(&self) -> &Self::Target {
        &self.ring
    }
}
