//! What a resize carries over: bolted entries, at their place in the new table (`resize_hpt_rehash_hpte`).

use std::sync::atomic::Ordering;

use crate::addr::{Errno, PteIndex};
use crate::book3s::hash::PTEG_ENTRIES;
use crate::book3s::hpte::{
    HPTE_V_ABSENT, HPTE_V_AVPN_B, HPTE_V_B_SHIFT, HPTE_V_BOLTED, HPTE_V_SECONDARY, HPTE_V_VALID, Hpte,
};
use crate::book3s::{PageSizes, SegmentSize};

use super::hpt::{Hpt, HptError};
use super::lock::{lock_hpte, lock_rmap, unlock_hpte, unlock_rmap};
use super::memslot::Memslots;
use super::page_out::page_base;
use super::vm::Vm;

/// Why a resize did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResizeError {
    /// The new table (EINVAL or ENOMEM).
    #[error(transparent)]
    Hpt(#[from] HptError),
    /// Two bolted entries for one place (ENOSPC).
    #[error("the bolted entry at {index} and one before it have the same place in the new table (ENOSPC)")]
    Collision {
        /// Index of the second in the old table.
        index: PteIndex,
    },
}

impl ResizeError {
    /// What the kernel answers.
    #[must_use]
    pub const fn code(&self) -> Errno {
        match self {
            Self::Hpt(error) => error.code(),
            Self::Collision { .. } => Errno::NoSpace,
        }
    }
}

/// Bits of the virtual address that AVPN leaves out.
const AVPN_SHIFT: u32 = 23;

/// The group of `pte_index` in a table of `mask`, from what an entry there says: its AVPN, and the bits that AVPN leaves
/// out from the group it is in now.
fn new_group(entry: Hpte, sizes: PageSizes, pte_index: PteIndex, old_mask: u64, new_mask: u64) -> u64 {
    let shift = sizes.base.shift();
    // B off, then the AVPN as a number, without what lies inside the page.
    let avpn = (entry.v << (64 - HPTE_V_B_SHIFT) >> (64 - HPTE_V_B_SHIFT) & HPTE_V_AVPN_B) >> 7;
    let avpn = avpn & !(((1 << shift) - 1) >> AVPN_SHIFT);
    let secondary = entry.v & HPTE_V_SECONDARY != 0;
    let group = pte_index.0 / PTEG_ENTRIES;
    let group = if secondary { !group } else { group };
    let segment = if entry.v >> HPTE_V_B_SHIFT & 1 != 0 { SegmentSize::T1 } else { SegmentSize::M256 };
    let in_segment = segment.shift() - AVPN_SHIFT;
    let vsid = avpn >> in_segment;
    let spread = match segment {
        SegmentSize::M256 => vsid,
        SegmentSize::T1 => vsid ^ vsid << 25,
    };
    let mut offset = (avpn & ((1 << in_segment) - 1)) << AVPN_SHIFT;
    if shift < AVPN_SHIFT {
        offset |= ((spread ^ group) & old_mask) << shift;
    }
    let hash = spread ^ offset >> shift;
    (if secondary { !hash } else { hash }) & new_mask
}

impl Vm {
    /// Unmaps every VALID entry of `old` and copies the bolted ones to `new`.
    pub(super) fn rehash(&self, old: &Hpt, memslots: &Memslots, new: &Hpt) -> Result<(), ResizeError> {
        (0..old.npte()).try_for_each(|i| self.rehash_hpte(old, memslots, new, PteIndex(i)))
    }

    fn rehash_hpte(&self, old: &Hpt, memslots: &Memslots, new: &Hpt, at: PteIndex) -> Result<(), ResizeError> {
        let Some((slot, rev)) = old.entry(at) else { return Ok(()) };
        let mut v = lock_hpte(&slot.v);
        // Read before the unmap, as the kernel does: R and C that are gathered there do not come to the new table.
        let guest_r = rev.guest_rpte.load(Ordering::Relaxed);
        let sizes = PageSizes::of_hpte(v, guest_r).filter(|_| v & (HPTE_V_VALID | HPTE_V_ABSENT) != 0);
        let Some(sizes) = sizes else {
            unlock_hpte(&slot.v, v);
            return Ok(());
        };
        if v & HPTE_V_VALID != 0 {
            let gfn = page_base(guest_r, sizes.actual.bytes()).gfn(self.page_shift());
            if let Some((memslot, rmap)) = memslots.find(gfn).and_then(|memslot| Some((memslot, memslot.rmap(gfn)?))) {
                let word = lock_rmap(rmap);
                let (unmapped, word) = self.unmap_hpte(old, memslot, gfn, at, v, word);
                unlock_rmap(rmap, word);
                v = unmapped;
            }
        }
        let entry = Hpte { v, r: slot.read_r() };
        let result = if v & HPTE_V_BOLTED == 0 {
            Ok(())
        } else {
            let group = new_group(entry, sizes, at, old.group_mask(), new.group_mask());
            let place = PteIndex(group * PTEG_ENTRIES + at.0 % PTEG_ENTRIES);
            put(new, place, entry, guest_r).ok_or(ResizeError::Collision { index: at })
        };
        unlock_hpte(&slot.v, v);
        result
    }
}

/// Writes an entry into the table that is not in use yet; `None`: something is there, which can only be bolted.
fn put(new: &Hpt, place: PteIndex, entry: Hpte, guest_r: u64) -> Option<()> {
    let (slot, rev) = new.entry(place)?;
    let taken = lock_hpte(&slot.v);
    if taken & (HPTE_V_VALID | HPTE_V_ABSENT) != 0 {
        unlock_hpte(&slot.v, taken);
        return None;
    }
    slot.write_r(entry.r);
    rev.guest_rpte.store(guest_r, Ordering::Relaxed);
    unlock_hpte(&slot.v, entry.v);
    Some(())
}
