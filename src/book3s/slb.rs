//! Segment lookaside buffer: EA to VSID doubleword (Power ISA 2.07 Book III-S, 5.7.6).

use crate::addr::{EffectiveAddr, Vsid, index};

use super::page_size::PageSize;

/// ESID doubleword: V, entry valid (`SLB_ESID_V`).
pub const SLB_ESID_V: u64 = 0x0800_0000;
/// ESID doubleword of slbmte: index field.
pub const SLB_INDEX: u64 = 0xfff;
/// VSID doubleword: B, segment size (`SLB_VSID_B`).
pub const SLB_VSID_B: u64 = 3 << 62;
/// VSID doubleword: B of a 1 TiB segment (`SLB_VSID_B_1T`).
pub const SLB_VSID_B_1T: u64 = 1 << 62;
/// VSID doubleword: supervisor state storage key (`SLB_VSID_KS`).
pub const SLB_VSID_KS: u64 = 0x800;
/// VSID doubleword: problem state storage key (`SLB_VSID_KP`).
pub const SLB_VSID_KP: u64 = 0x400;
/// VSID doubleword: no-execute segment (`SLB_VSID_N`).
pub const SLB_VSID_N: u64 = 0x200;
/// VSID doubleword: large base page (`SLB_VSID_L`).
pub const SLB_VSID_L: u64 = 0x100;
/// VSID doubleword: class (`SLB_VSID_C`).
pub const SLB_VSID_C: u64 = 0x80;
/// VSID doubleword: base page size selector (`SLB_VSID_LP`).
pub const SLB_VSID_LP: u64 = 0x30;

/// Entries of a POWER8 or POWER9 SLB (`vcpu->arch.slb_nr`).
pub const SLB_ENTRIES: usize = 32;

/// Size of a segment, the B field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SegmentSize {
    /// 256 MiB, B = 0.
    M256,
    /// 1 TiB, B = 1.
    T1,
}

impl SegmentSize {
    /// log2 of the size in bytes.
    #[must_use]
    pub const fn shift(self) -> u32 {
        match self {
            Self::M256 => 28,
            Self::T1 => 40,
        }
    }

    /// How far the VSID is shifted in the VSID doubleword (`SLB_VSID_SHIFT`, `SLB_VSID_SHIFT_1T`).
    #[must_use]
    pub const fn vsid_shift(self) -> u32 {
        match self {
            Self::M256 => 12,
            Self::T1 => 24,
        }
    }

    /// The size a VSID doubleword says. The kernel, and so this, looks at the low bit of B only.
    #[must_use]
    pub const fn of_slb_v(slb_v: u64) -> Self {
        if slb_v & SLB_VSID_B_1T != 0 { Self::T1 } else { Self::M256 }
    }
}

/// Why slbmte was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlbError {
    /// The index field names no entry.
    #[error("slbmte index {index} is out of range: the SLB has {SLB_ENTRIES} entries, 0 to 31")]
    Index {
        /// What RB said.
        index: u64,
    },
}

/// One SLB entry: the two doublewords that slbmte takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SlbEntry {
    /// RB: ESID, V, index.
    pub esid: u64,
    /// RS: B, VSID, Ks, Kp, N, L, C, LP: what the kernel calls `slb_v`.
    pub vsid: u64,
}

impl SlbEntry {
    /// A valid entry at `slot` for the segment that holds `ea`, with Ks = Kp = N = 0.
    ///
    /// VSID bits that do not fit their field are dropped.
    #[must_use]
    pub const fn new(slot: u64, ea: EffectiveAddr, segment: SegmentSize, vsid: Vsid, base: PageSize) -> Self {
        let esid = ea.0 & !((1 << segment.shift()) - 1);
        let b = match segment {
            SegmentSize::M256 => 0,
            SegmentSize::T1 => SLB_VSID_B_1T,
        };
        let vsid = (vsid.0 << segment.vsid_shift()) & !SLB_VSID_B;
        Self { esid: esid | SLB_ESID_V | (slot & SLB_INDEX), vsid: b | vsid | base.slb_encoding() }
    }

    /// Whether it is valid.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.esid & SLB_ESID_V != 0
    }

    const fn translates(&self, ea: EffectiveAddr) -> bool {
        let shift = SegmentSize::of_slb_v(self.vsid).shift();
        self.is_valid() && (self.esid ^ ea.0) >> shift == 0
    }
}

/// The SLB of one vCPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slb {
    entries: [SlbEntry; SLB_ENTRIES],
    /// One past the highest entry that may be valid: the search ends there.
    top: usize,
}

impl Default for Slb {
    fn default() -> Self {
        Self { entries: [SlbEntry::default(); SLB_ENTRIES], top: 0 }
    }
}

impl Slb {
    /// The VSID doubleword of the entry that translates `ea`, or `None`: a segment fault. Of several, the lowest.
    #[inline]
    #[must_use]
    pub fn lookup(&self, ea: EffectiveAddr) -> Option<u64> {
        self.entries[..self.top].iter().find(|entry| entry.translates(ea)).map(|entry| entry.vsid)
    }

    /// slbmte: writes the entry that the index field of `entry.esid` names.
    ///
    /// # Errors
    /// The index is 32 or more.
    pub fn slbmte(&mut self, entry: SlbEntry) -> Result<(), SlbError> {
        let slot = index(entry.esid & SLB_INDEX);
        let place = self.entries.get_mut(slot).ok_or(SlbError::Index { index: entry.esid & SLB_INDEX })?;
        *place = entry;
        self.top = self.top.max(slot + 1);
        Ok(())
    }

    /// slbie: invalidates the entry that translates `ea`, if there is one.
    pub fn slbie(&mut self, ea: EffectiveAddr) {
        for entry in &mut self.entries[..self.top] {
            if entry.translates(ea) {
                entry.esid &= !SLB_ESID_V;
            }
        }
    }

    /// slbia: invalidates all entries but entry 0.
    pub fn slbia(&mut self) {
        for entry in &mut self.entries[1..] {
            entry.esid &= !SLB_ESID_V;
        }
    }

    /// All entries, by index.
    #[must_use]
    pub const fn entries(&self) -> &[SlbEntry; SLB_ENTRIES] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_segment_size_translates_its_own_range_only() {
        for (segment, bytes) in [(SegmentSize::M256, 1 << 28), (SegmentSize::T1, 1_u64 << 40)] {
            let base = EffectiveAddr(7 * bytes);
            let mut slb = Slb::default();
            let entry = SlbEntry::new(3, base, segment, Vsid(0x123), PageSize::K64);
            slb.slbmte(entry).unwrap();
            assert_eq!(slb.lookup(base), Some(entry.vsid));
            assert_eq!(slb.lookup(EffectiveAddr(base.0 + bytes - 1)), Some(entry.vsid));
            assert_eq!(slb.lookup(EffectiveAddr(base.0 + bytes)), None);
            assert_eq!(slb.lookup(EffectiveAddr(base.0 - 1)), None);
            slb.slbie(base);
            assert_eq!(slb.lookup(base), None);
        }
    }

    #[test]
    fn slbia_keeps_entry_0_and_an_index_beyond_the_slb_is_refused() {
        let mut slb = Slb::default();
        for slot in 0..2 {
            let ea = EffectiveAddr(slot << 28);
            slb.slbmte(SlbEntry::new(slot, ea, SegmentSize::M256, Vsid(slot), PageSize::K4)).unwrap();
        }
        slb.slbia();
        assert!(slb.lookup(EffectiveAddr(0)).is_some() && slb.lookup(EffectiveAddr(1 << 28)).is_none());
        let bad = SlbEntry::new(32, EffectiveAddr(0), SegmentSize::M256, Vsid(0), PageSize::K4);
        assert_eq!(slb.slbmte(bad), Err(SlbError::Index { index: 32 }));
    }
}
