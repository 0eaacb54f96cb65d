//! Which HPTEs of a VM are MMIO, as far as a recording tells, so that their removal moves the generation.
//!
//! The tracepoint of H_ENTER does not print the slot it took, that of H_REMOVE does. Both name the group and the AVPN,
//! and these two name one page: the AVPN leaves out the low 23 bits of the virtual address, which the hash that
//! chose the group holds.

use rustc_hash::FxHashMap;

use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::hash::{HashKey, PTEG_ENTRIES};
use crate::book3s::hpte::{HPTE_R_I, HPTE_R_RPN, HPTE_V_B_SHIFT, HPTE_V_SECONDARY};
use crate::book3s::page_size::PageSizes;
use crate::book3s::slb::SegmentSize;

/// Bits of the group number that every table has: order 18 and up.
const GROUP_BITS: u64 = (1 << 11) - 1;
/// AVPN, without B: in the ISA 3.0 form B stands elsewhere.
const AVPN: u64 = ((1 << HPTE_V_B_SHIFT) - 1) & !0x7f;
/// B in the second doubleword of the ISA 3.0 form.
const B_30_SHIFT: u32 = 58;
/// How it is known that a page is MMIO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// A fault on it found no memslot, or it was emulated.
    Seen,
    /// The guest maps it cache-inhibited.
    Presumed,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    gpa: GuestPhysAddr,
    ea: Option<EffectiveAddr>,
    known: Known,
}

/// What is known of a segment from an HPTE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// B, VSID, L, LP as in a VSID doubleword.
    pub slb_v: u64,
    /// log2 of the base page size.
    pub shift: u8,
}

impl Segment {
    /// The segment that an HPTE's host doublewords name; `None` for a page size that is not assigned.
    pub(super) fn of_hpte(v: u64, r: u64) -> Option<Self> {
        let base = PageSizes::of_hpte(v, r)?.base;
        let b = (v >> HPTE_V_B_SHIFT) | (r >> B_30_SHIFT & 3);
        let size = SegmentSize::of_slb_v(b << HPTE_V_B_SHIFT);
        // The AVPN is the virtual address from bit 23 up, kept from bit 7 up.
        let vsid = (v & AVPN) >> (size.shift() - 16);
        let slb_v = (b & 1) << HPTE_V_B_SHIFT | vsid << size.vsid_shift() | base.slb_encoding();
        u8::try_from(base.shift()).ok().map(|shift| Self { slb_v, shift })
    }
}

#[derive(Debug, Default)]
pub(super) struct Pages {
    by_place: FxHashMap<(u64, u64), Page>,
}

impl Pages {
    /// A fault at this HPTE found no memslot: MMIO.
    pub(super) fn mmio(&mut self, v: u64, segment: Segment, ea: EffectiveAddr, guest_r: u64) {
        let page = Page { gpa: GuestPhysAddr(guest_r & HPTE_R_RPN), ea: Some(ea), known: Known::Seen };
        self.by_place.insert(faulted(v, segment, ea), page);
    }

    /// A fault at this HPTE found a memslot: RAM, or a device's memory mapped into the guest.
    pub(super) fn ram(&mut self, v: u64, segment: Segment, ea: EffectiveAddr) {
        self.by_place.remove(&faulted(v, segment, ea));
    }

    /// H_ENTER took a slot of the group.
    pub(super) fn enter(&mut self, index: u64, v: u64, guest_r: u64) {
        let place = place(index, v);
        if guest_r & HPTE_R_I == 0 {
            self.by_place.remove(&place);
            return;
        }
        let gpa = GuestPhysAddr(guest_r & HPTE_R_RPN);
        // Entered again after H_REMOVE: what was known of it still holds.
        if self.by_place.get(&place).is_none_or(|page| page.gpa != gpa) {
            self.by_place.insert(place, Page { gpa, ea: None, known: Known::Presumed });
        }
    }

    /// H_REMOVE or H_PROTECT of an entry: how it is known to be MMIO, and its EA if that is known. `None` if it is not
    /// known at all, or is RAM.
    pub(super) fn touched(&self, index: u64, avpn: u64) -> Option<(Known, Option<EffectiveAddr>)> {
        self.by_place.get(&place(index, avpn)).map(|page| (page.known, page.ea))
    }
}

/// Where the HPTE of a fault stands.
fn faulted(v: u64, segment: Segment, ea: EffectiveAddr) -> (u64, u64) {
    let hash = HashKey::hash(ea, segment.slb_v);
    (v & AVPN, if v & HPTE_V_SECONDARY != 0 { !hash } else { hash } & GROUP_BITS)
}

const fn place(index: u64, v: u64) -> (u64, u64) {
    (v & AVPN, (index / PTEG_ENTRIES) & GROUP_BITS)
}
