//! Page sizes, and how SLB entries and HPTEs encode them (Power ISA 2.07 Book III-S, 5.7.6 and 5.7.7).

use crate::addr::index;

use super::hpte::HPTE_V_LARGE;
use super::slb::{SLB_VSID_L, SLB_VSID_LP};

/// A page size of Book3S hash translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PageSize {
    // Each value is its shift, so that a size's shift needs no look-up.
    /// 4 KiB.
    K4 = 12,
    /// 64 KiB.
    K64 = 16,
    /// 16 MiB.
    M16 = 24,
    /// 16 GiB.
    G16 = 34,
}

impl PageSize {
    /// log2 of the size in bytes.
    #[must_use]
    pub const fn shift(self) -> u32 {
        self as u32
    }

    /// Size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// The L and LP bits of an SLB entry's second doubleword for segments of this base page size.
    #[must_use]
    pub const fn slb_encoding(self) -> u64 {
        match self {
            Self::K4 => 0,
            Self::K64 => SLB_VSID_L | 0x10,
            Self::M16 => SLB_VSID_L,
            Self::G16 => SLB_VSID_L | 0x20,
        }
    }
}

/// Base and actual page size of an HPTE: the base hashes and compares, the actual forms the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageSizes {
    /// Base page size, that of the segment.
    pub base: PageSize,
    /// Actual page size, at least the base.
    pub actual: PageSize,
}

impl PageSizes {
    /// Every pair that an HPTE can encode on POWER8.
    pub const ALL: [Self; 7] = [
        Self { base: PageSize::K4, actual: PageSize::K4 },
        Self { base: PageSize::K4, actual: PageSize::K64 },
        Self { base: PageSize::K4, actual: PageSize::M16 },
        Self { base: PageSize::K64, actual: PageSize::K64 },
        Self { base: PageSize::K64, actual: PageSize::M16 },
        Self { base: PageSize::M16, actual: PageSize::M16 },
        Self { base: PageSize::G16, actual: PageSize::G16 },
    ];

    /// Base and actual size that L and LP of an HPTE say, or `None` for an encoding that is not assigned
    /// (`kvmppc_hpte_page_shifts`).
    #[inline]
    #[must_use]
    pub const fn of_hpte(v: u64, r: u64) -> Option<Self> {
        if v & HPTE_V_LARGE == 0 {
            return Some(Self { base: PageSize::K4, actual: PageSize::K4 });
        }
        // Every emulated access asks: one look into a table instead of a tree of branches.
        BY_LP[index((r >> 12) & 0xff)]
    }

    /// The pair of an LP field: its low four bits and, for some, the four above.
    const fn of_lp(low: usize, high: usize) -> Option<Self> {
        let (base, actual) = match (low, high) {
            (0, 0) => (PageSize::M16, PageSize::M16),
            (1, _) => (PageSize::K64, PageSize::K64),
            (3, 0) => (PageSize::G16, PageSize::G16),
            (7, _) => (PageSize::K4, PageSize::K64),
            (8, 0) => (PageSize::K64, PageSize::M16),
            (8, 3) => (PageSize::K4, PageSize::M16),
            _ => return None,
        };
        Some(Self { base, actual })
    }

    /// The L bit of the first and the LP field of the second doubleword, or `None` for a pair no HPTE can have.
    #[must_use]
    pub const fn hpte_encoding(self) -> Option<(u64, u64)> {
        let lp = match (self.base, self.actual) {
            (PageSize::K4, PageSize::K4) => return Some((0, 0)),
            (PageSize::K4, PageSize::K64) => 7,
            (PageSize::K4, PageSize::M16) => 0x38,
            (PageSize::K64, PageSize::K64) => 1,
            (PageSize::K64, PageSize::M16) => 8,
            (PageSize::M16, PageSize::M16) => 0,
            (PageSize::G16, PageSize::G16) => 3,
            _ => return None,
        };
        Some((HPTE_V_LARGE, lp << 12))
    }
}

/// [`PageSizes`] by the eight LP bits of a large page's second doubleword.
static BY_LP: [Option<PageSizes>; 256] = {
    let mut table = [None; 256];
    let mut lp = 0;
    while lp < 256 {
        table[lp] = PageSizes::of_lp(lp & 0xf, lp >> 4);
        lp += 1;
    }
    table
};

/// Base page shift that an SLB entry's second doubleword says (`slb_base_page_shift`).
///
/// L=1 with LP=3 (1 MiB in the kernel's table) is no size that any HPTE here has, so nothing matches it.
#[inline]
#[must_use]
pub const fn slb_base_shift(slb_v: u64) -> u32 {
    const LARGE: [u32; 4] = [24, 16, 34, 20];
    if slb_v & SLB_VSID_L == 0 { 12 } else { LARGE[index((slb_v & SLB_VSID_LP) >> 4)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_sizes_survives_its_hpte_encoding() {
        for sizes in PageSizes::ALL {
            let (l, lp) = sizes.hpte_encoding().unwrap();
            assert_eq!(PageSizes::of_hpte(l, lp), Some(sizes));
        }
    }

    #[test]
    fn an_unassigned_lp_has_no_size() {
        for lp in [2, 4, 5, 6, 9, 0xf, 0x10, 0x13, 0x18, 0x28] {
            assert_eq!(PageSizes::of_hpte(HPTE_V_LARGE, lp << 12), None, "LP {lp:#x}");
        }
    }

    #[test]
    fn the_slb_and_the_page_size_agree_on_the_base_shift() {
        for size in [PageSize::K4, PageSize::K64, PageSize::M16, PageSize::G16] {
            assert_eq!(slb_base_shift(size.slb_encoding()), size.shift());
        }
    }
}
