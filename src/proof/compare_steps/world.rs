//! What drawn streams are about: segments, pages in them, and guest physical addresses behind those.

use crate::addr::{EffectiveAddr, GuestPhysAddr, Vsid};
use crate::book3s::slb::{SLB_VSID_KP, SLB_VSID_KS, SegmentSize};
use crate::book3s::{PageSize, PageSizes, SlbEntry};
use crate::workload::guest::Guest;
use crate::workload::steps::STREAM_GPA;

/// MMIO pages of 64 KiB, and of 4 KiB in them: no memslot is ever here.
pub(super) const MMIO_GPA: GuestPhysAddr = GuestPhysAddr(0x2000_0000_0000);
/// How many of 64 KiB.
pub(super) const MMIO_PAGES: u64 = 4;
/// MMIO pages of 16 MiB: no memslot either, since RAM pages of 16 MiB need host pages as large.
pub(super) const HUGE_GPA: GuestPhysAddr = GuestPhysAddr(0x3000_0000_0000);
/// How many.
pub(super) const HUGE_PAGES: u64 = 3;
/// Places where RAM comes and goes; memslot of the first.
pub(super) const REGIONS: u64 = 4;
/// Pages of 64 KiB in a region.
pub(super) const REGION_PAGES: u64 = 4;
/// Where a region is moved to and back from, bytes further on.
pub(super) const MOVED: u64 = 8 << 20;

/// Memslot of a region.
pub(super) fn region_slot(region: u64) -> u32 {
    u32::try_from(region).unwrap_or(0) + 1
}

/// First address of a region, if it was not moved.
pub(super) const fn region_gpa(region: u64) -> GuestPhysAddr {
    GuestPhysAddr(STREAM_GPA.0 + (region << 24))
}

/// A segment and the pages that streams use in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub base: EffectiveAddr,
    pub size: SegmentSize,
    pub vsid: Vsid,
    pub page: PageSize,
    /// Ks, or nothing.
    pub protection: u64,
    /// Actual page sizes beside the base, each with its page numbers.
    pub pages: &'static [(PageSize, &'static [u64])],
}

/// As many apart as an HPT of order 18 has groups: pages that meet in one group.
const MEET: u64 = 2048;

/// SLB slots 1 to 6; slot 0 is the runtime's.
pub(super) const SEGMENTS: [Segment; 6] = [
    Segment {
        base: EffectiveAddr(0x1_0000_0000),
        size: SegmentSize::M256,
        vsid: Vsid(0x2001),
        page: PageSize::K4,
        protection: 0,
        pages: &[(PageSize::K4, &[1, 2, 3, 16, 17]), (PageSize::K64, &[0x100, 0x101, 0x123])],
    },
    Segment {
        base: EffectiveAddr(0x1_1000_0000),
        size: SegmentSize::M256,
        vsid: Vsid(0x2002),
        page: PageSize::K64,
        protection: 0,
        pages: &[(PageSize::K64, &[0, 1, 2, 0x345]), (PageSize::M16, &[0x407])],
    },
    Segment {
        base: EffectiveAddr(0x0200_0000_0000),
        size: SegmentSize::T1,
        vsid: Vsid(0x301),
        page: PageSize::K64,
        protection: 0,
        pages: &[
            (
                PageSize::K64,
                &[
                    5,
                    6,
                    7,
                    5 + MEET,
                    5 + 2 * MEET,
                    5 + 3 * MEET,
                    5 + 4 * MEET,
                    5 + 5 * MEET,
                    5 + 6 * MEET,
                    5 + 7 * MEET,
                ],
            ),
            (PageSize::M16, &[0x1100, 0x1101]),
        ],
    },
    Segment {
        base: EffectiveAddr(0x0300_0000_0000),
        size: SegmentSize::T1,
        vsid: Vsid(0x302),
        page: PageSize::K4,
        protection: SLB_VSID_KS,
        pages: &[(PageSize::K4, &[9, 10, 11]), (PageSize::M16, &[0x2000])],
    },
    Segment {
        base: EffectiveAddr(0x0400_0000_0000),
        size: SegmentSize::T1,
        vsid: Vsid(0x303),
        page: PageSize::M16,
        protection: 0,
        pages: &[(PageSize::M16, &[0, 1, 0x5a])],
    },
    Segment {
        base: EffectiveAddr(0x1_2000_0000),
        size: SegmentSize::M256,
        vsid: Vsid(0x2003),
        page: PageSize::K64,
        protection: SLB_VSID_KS,
        pages: &[(PageSize::K64, &[0x11, 0x22])],
    },
];

/// Whether problem state has a key too: nothing that a supervisor notices, but another VSID doubleword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Plain,
    WithKp,
}

/// SLB entry of a segment by its number.
pub(super) fn slb_entry(segment: usize, variant: Variant) -> SlbEntry {
    let it = &SEGMENTS[segment];
    let entry = SlbEntry::new(segment as u64 + 1, it.base, it.size, it.vsid, it.page);
    let kp = if variant == Variant::WithKp { SLB_VSID_KP } else { 0 };
    SlbEntry { vsid: entry.vsid | it.protection | kp, ..entry }
}

/// A page that a stream may enter and access.
#[derive(Clone, Copy, Debug)]
pub(super) struct VirtualPage {
    pub segment: usize,
    pub ea: EffectiveAddr,
    pub sizes: PageSizes,
}

impl VirtualPage {
    /// The guest that maps it.
    pub fn guest(&self) -> Guest {
        let Segment { size, vsid, .. } = SEGMENTS[self.segment];
        Guest { segment: size, vsid: Vsid(vsid.0.wrapping_sub(self.ea.0 >> size.shift())), sizes: self.sizes }
    }
}

/// All of them.
pub(super) fn pages() -> Vec<VirtualPage> {
    let mut all = Vec::new();
    for (segment, it) in SEGMENTS.iter().enumerate() {
        for (actual, numbers) in it.pages {
            let sizes = PageSizes { base: it.page, actual: *actual };
            let page = |number: &u64| VirtualPage {
                segment,
                ea: EffectiveAddr(it.base.0 + (number << it.page.shift())),
                sizes,
            };
            all.extend(numbers.iter().map(page));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::guest::PageUse;

    #[test]
    fn every_page_lies_in_its_segment_and_its_entry_hashes_as_the_slb_entry_says() {
        for page in pages() {
            let slb_v = slb_entry(page.segment, Variant::WithKp).vsid;
            let (_, key) = page.guest().hpte(page.ea, MMIO_GPA, PageUse::DEVICE).unwrap();
            assert_eq!(key, crate::book3s::HashKey::new(page.ea, slb_v), "{page:?}");
            let Segment { base, size, .. } = SEGMENTS[page.segment];
            assert_eq!(base.0 >> size.shift(), page.ea.0 >> size.shift(), "{page:?}");
        }
    }
}
