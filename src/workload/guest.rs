//! The guest's side of a workload: its segment, its H_ENTERs, its loads and stores.

use crate::addr::{EffectiveAddr, GuestPhysAddr, PteIndex, Vsid};
use crate::book3s::hpte::{HPTE_R_C, HPTE_R_G, HPTE_R_I, HPTE_R_M, HPTE_R_R, HPTE_V_SECONDARY, HPTE_V_VALID, key_bits};
use crate::book3s::insn::{Direction, EncodeError, Offset, Size, load_store};
use crate::book3s::slb::SegmentSize;
use crate::book3s::{HashKey, Hpte, PageSize, PageSizes, SlbEntry};
use crate::kvm_hv::{Access, HcallError, Record, Vcpu, Vm};

/// Register that holds the address of a generated access.
const ADDRESS: u8 = 4;
/// Register that holds its value.
const VALUE: u8 = 5;

/// How a page is mapped: what Linux's `hpte_insert` would put into the second doubleword.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageUse {
    /// PP bits, with PP0 in bit 63.
    pub pp: u64,
    /// Storage key, 0 to 31.
    pub key: u64,
    /// Storage control: W, I, M, G.
    pub wimg: u64,
}

impl PageUse {
    /// Device memory of a kernel: read and write for the supervisor, caching inhibited and guarded.
    pub const DEVICE: Self = Self { pp: 0, key: 0, wimg: HPTE_R_I | HPTE_R_G };
    /// Ordinary memory of a kernel.
    pub const RAM: Self = Self { pp: 0, key: 0, wimg: HPTE_R_M };

    /// The same with storage key `key`.
    #[must_use]
    pub const fn with_key(mut self, key: u64) -> Self {
        self.key = key;
        self
    }
}

/// One hash-translated guest address space: a segment size, a VSID and page sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Guest {
    /// Segment size.
    pub segment: SegmentSize,
    /// VSID of the first segment; the next segments take the following ones.
    pub vsid: Vsid,
    /// Base and actual size of its pages.
    pub sizes: PageSizes,
}

impl Default for Guest {
    /// What Linux on POWER8 uses: 1 TiB segments, 64 KiB pages.
    fn default() -> Self {
        let sizes = PageSizes { base: PageSize::K64, actual: PageSize::K64 };
        Self { segment: SegmentSize::T1, vsid: Vsid(0x1234), sizes }
    }
}

impl Guest {
    /// The SLB entry of the segment that holds `ea`, for slot `slot`.
    #[must_use]
    pub const fn slb_entry(&self, slot: u64, ea: EffectiveAddr) -> SlbEntry {
        let vsid = Vsid(self.vsid.0.wrapping_add(ea.0 >> self.segment.shift()));
        SlbEntry::new(slot, ea, self.segment, vsid, self.sizes.base)
    }

    /// The doublewords that map the page of `ea` to `gpa`, valid, for the primary group, and the search key.
    ///
    /// `None`: the pair of page sizes has no encoding.
    #[must_use]
    pub const fn hpte(&self, ea: EffectiveAddr, gpa: GuestPhysAddr, page: PageUse) -> Option<(Hpte, HashKey)> {
        let key = HashKey::new(ea, self.slb_entry(0, ea).vsid);
        let Some((l, lp)) = self.sizes.hpte_encoding() else { return None };
        let v = key.hpte_v() | l | HPTE_V_VALID;
        let rpn = gpa.0 & !(self.sizes.actual.bytes() - 1);
        let r = rpn | lp | page.pp | key_bits(page.key) | page.wimg | HPTE_R_R | HPTE_R_C;
        Some((Hpte { v, r }, key))
    }

    /// Maps the page of `ea` to `gpa` by H_ENTER: primary group, if that is full the secondary, as Linux does.
    ///
    /// # Errors
    /// What H_ENTER says; both groups full is `PtegFull`.
    pub fn map(&self, vm: &Vm, ea: EffectiveAddr, gpa: GuestPhysAddr, page: PageUse) -> Result<PteIndex, HcallError> {
        let (hpte, key) = self.hpte(ea, gpa, page).ok_or(HcallError::Parameter)?;
        let hpt = vm.hpt();
        match vm.h_enter(0, hpt.group_index(&key, false), hpte) {
            Err(HcallError::PtegFull) => {
                let hpte = Hpte { v: hpte.v | HPTE_V_SECONDARY, ..hpte };
                vm.h_enter(0, hpt.group_index(&key, true), hpte)
            }
            result => result,
        }
    }
}

/// Mnemonic of the plain load or store of a direction and size: no update, no extension, not reversed.
#[must_use]
pub const fn plain_access(direction: Direction, size: Size) -> &'static str {
    match (direction, size) {
        (Direction::Store, Size::Byte) => "stb",
        (Direction::Store, Size::Halfword) => "sth",
        (Direction::Store, Size::Word) => "stw",
        (Direction::Store, Size::Doubleword) => "std",
        (Direction::Load, Size::Byte) => "lbz",
        (Direction::Load, Size::Halfword) => "lhz",
        (Direction::Load, Size::Word) => "lwz",
        (Direction::Load, Size::Doubleword) => "ld",
    }
}

/// A load or store instruction that workloads use: `st? r5,0(r4)` or `l?z r5,0(r4)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Touch {
    word: u32,
    direction: Direction,
}

impl Touch {
    /// The instruction for a direction and a size.
    ///
    /// # Errors
    /// None in practice: every size has its mnemonic.
    pub fn new(direction: Direction, size: Size) -> Result<Self, EncodeError> {
        Ok(Self {
            word: load_store(plain_access(direction, size), VALUE, ADDRESS, Offset::Displacement(0))?,
            direction,
        })
    }

    /// Performs it at `ea`; a store writes the low bytes of `value`.
    #[inline]
    pub fn perform(&self, vm: &Vm, vcpu: &mut Vcpu, ea: EffectiveAddr, value: u64) -> Record {
        vcpu.gpr[usize::from(ADDRESS)] = ea.0;
        if self.direction == Direction::Store {
            vcpu.gpr[usize::from(VALUE)] = value;
        }
        vcpu.access(vm, &Access::new(ea, self.direction, self.word))
    }

    /// What the last load gave, once completed.
    #[must_use]
    pub const fn loaded(vcpu: &Vcpu) -> u64 {
        vcpu.gpr[VALUE as usize]
    }
}
