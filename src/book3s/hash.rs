//! Hash and compare: which group an EA's HPTE lies in and what its first doubleword must be
//! (Power ISA 2.07 Book III-S, 5.7.7.2 and 5.7.7.3; the kernel's `kvmppc_hv_find_lock_hpte`).

use crate::addr::EffectiveAddr;

use super::hpte::{HPTE_V_AVPN_B, HPTE_V_LARGE, HPTE_V_SECONDARY};
use super::page_size::slb_base_shift;
use super::slb::{SLB_VSID_B, SLB_VSID_L, SegmentSize};

/// HPTEs of a group (PTEG).
pub const PTEG_ENTRIES: u64 = 8;

/// What an HPT search for one EA in one segment looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HashKey {
    /// Hash value before the table's group mask is applied; the primary group is `hash & mask`.
    pub hash: u64,
    /// First doubleword bits that decide: B, AVPN, H, and L if the segment has L=1.
    pub mask: u64,
    /// What they must be in the primary group; in the secondary one H is set too.
    pub value: u64,
    /// Base page shift of the segment; checked against the HPTE's once a candidate is locked.
    pub base_shift: u32,
}

impl HashKey {
    /// The hash value alone, before the table's group mask is applied.
    #[inline]
    #[must_use]
    pub const fn hash(ea: EffectiveAddr, slb_v: u64) -> u64 {
        let segment = SegmentSize::of_slb_v(slb_v);
        let vsid = (slb_v & !SLB_VSID_B) >> segment.vsid_shift();
        let spread = match segment {
            SegmentSize::M256 => vsid,
            SegmentSize::T1 => vsid ^ (vsid << 25),
        };
        spread ^ (ea.0 & ((1 << segment.shift()) - 1)) >> slb_base_shift(slb_v)
    }

    /// The search key of `ea` in the segment whose VSID doubleword is `slb_v`.
    #[inline]
    #[must_use]
    pub const fn new(ea: EffectiveAddr, slb_v: u64) -> Self {
        let base_shift = slb_base_shift(slb_v);
        let (mut mask, mut value) = (HPTE_V_AVPN_B | HPTE_V_SECONDARY, 0);
        if slb_v & SLB_VSID_L != 0 {
            mask |= HPTE_V_LARGE;
            value |= HPTE_V_LARGE;
        }
        let offset_mask = (1 << SegmentSize::of_slb_v(slb_v).shift()) - 1;
        // The AVPN drops the low 23 bits of the virtual address: the hash implies them.
        let avpn = (slb_v & !(offset_mask >> 16)) | (ea.0 & offset_mask) >> 16;
        value |= if base_shift >= 24 { avpn & !((1 << (base_shift - 16)) - 1) } else { avpn & HPTE_V_AVPN_B };
        Self { hash: Self::hash(ea, slb_v), mask, value, base_shift }
    }

    /// The first doubleword bits (B, AVPN, L) a guest puts into an HPTE for this EA; V and H are the caller's.
    #[must_use]
    pub const fn hpte_v(&self) -> u64 {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Vsid;
    use crate::book3s::{PageSize, SlbEntry};

    #[test]
    fn the_key_of_a_4_kib_page_in_a_256_mib_segment_is_the_one_the_power9_recording_shows() {
        // The recording's guest maps EA 0 by H_ENTER of v = 0x1234001 into slot 0x11a0 (kvm_hcall_enter).
        let slb_v = SlbEntry::new(0, EffectiveAddr(0), SegmentSize::M256, Vsid(0x1234), PageSize::K4).vsid;
        let key = HashKey::new(EffectiveAddr(0), slb_v);
        assert_eq!(key.value | 1, 0x0123_4001);
        assert_eq!((key.hash & 0x7ff) << 3, 0x11a0, "order 18: 2048 groups of 8");
    }

    #[test]
    fn addresses_within_one_base_page_share_their_key_and_neighbours_do_not() {
        for (segment, base) in [
            (SegmentSize::M256, PageSize::K4),
            (SegmentSize::M256, PageSize::K64),
            (SegmentSize::T1, PageSize::K64),
            (SegmentSize::T1, PageSize::M16),
        ] {
            let slb_v = SlbEntry::new(0, EffectiveAddr(0), segment, Vsid(0x5a5), base).vsid;
            let at = |ea| HashKey::new(EffectiveAddr(ea), slb_v);
            let page = base.bytes();
            assert_eq!(at(3 * page), at(4 * page - 1));
            assert_ne!(at(3 * page), at(4 * page));
        }
    }
}
