//! Streams of [steps](super::steps) in the making: a guest that keeps book of where it entered its pages.

use std::collections::BTreeSet;

use crate::addr::{EffectiveAddr, GuestPhysAddr, PteIndex, Vsid};
use crate::book3s::hash::PTEG_ENTRIES;
use crate::book3s::hpte::{HPTE_V_BOLTED, HPTE_V_SECONDARY};
use crate::book3s::insn::{Direction, EncodeError, Insn, Mode, Offset, Size, decode, load_store};
use crate::book3s::slb::{SLB_VSID_C, SegmentSize};
use crate::book3s::{HashKey, Hpte, PageSize, PageSizes, SlbEntry};
use crate::kvm_hv::{BULK_REQUESTS, ProtectFlags, flags, number};

use super::guest::{Guest, PageUse, plain_access};
use super::steps::{GuestAccess, GuestOp, RUNTIME_SLB, STUB_EA, Step, VmmOp};

/// The runtime's segment and the pages in it.
pub const RUNTIME: Guest = Guest {
    segment: SegmentSize::M256,
    vsid: Vsid(0x100),
    sizes: PageSizes { base: PageSize::K64, actual: PageSize::K64 },
};
/// Slots of a group that scripts use: KVM takes the last one for the VRMA and expects it to be free.
pub const SCRIPT_SLOTS: u64 = PTEG_ENTRIES - 1;

/// Why a script cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// No slot is left.
    #[error("no slot is left for the page at {ea} in a table of order {order}: both its groups are full")]
    Full {
        /// The page.
        ea: EffectiveAddr,
        /// The table.
        order: u32,
    },
    /// Page sizes that no HPTE has.
    #[error("no HPTE has a base page of 2^{} and an actual page of 2^{} bytes", .0.base.shift(), .0.actual.shift())]
    PageSizes(PageSizes),
    /// No such instruction.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// A stream in the making.
#[derive(Clone, Debug)]
pub struct Script {
    steps: Vec<Step>,
    order: u32,
    used: BTreeSet<PteIndex>,
}

impl Script {
    /// Begins with an empty table of this order, 18 to 46, the runtime's segment and its stub page. The generation is 0
    /// then, wherever it was before: a table of another order went first.
    ///
    /// # Errors
    /// None in practice: the table is empty.
    pub fn new(order: u32) -> Result<Self, ScriptError> {
        let mut script = Self { steps: Vec::new(), order, used: BTreeSet::new() };
        script.push(Step::Vmm(VmmOp::AllocateHtab { order: order + 1 }));
        script.new_table(order)?;
        script.push(slbmte(RUNTIME.slb_entry(RUNTIME_SLB, STUB_EA)));
        Ok(script)
    }

    /// The steps so far.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Order of its table.
    #[must_use]
    pub const fn order(&self) -> u32 {
        self.order
    }

    /// All of them.
    #[must_use]
    pub fn finish(self) -> Vec<Step> {
        self.steps
    }

    /// One more step, of which no book is kept.
    pub fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    /// One more step of the VMM.
    pub fn vmm(&mut self, op: VmmOp) {
        self.push(Step::Vmm(op));
    }

    /// An empty table of this order, and the stub page in it.
    ///
    /// # Errors
    /// None in practice: the table is empty.
    pub fn new_table(&mut self, order: u32) -> Result<(), ScriptError> {
        self.order = order;
        self.used.clear();
        self.vmm(VmmOp::AllocateHtab { order });
        let stub = GuestPhysAddr(STUB_EA.0);
        let (at, entry) = self.place(&RUNTIME, STUB_EA, stub, PageUse::RAM)?;
        // Bolted, so that it outlives a resize.
        self.enter_at(at, Hpte { v: entry.v | HPTE_V_BOLTED, r: entry.r });
        Ok(())
    }

    /// A resize: what was not bolted is gone. Scripts bolt the stub page only.
    ///
    /// # Errors
    /// None in practice: the table is empty.
    pub fn resize(&mut self, order: u32) -> Result<(), ScriptError> {
        self.order = order;
        self.used.clear();
        self.vmm(VmmOp::ResizeHpt { order });
        self.place(&RUNTIME, STUB_EA, GuestPhysAddr(STUB_EA.0), PageUse::RAM).map(drop)
    }

    /// Loads the segment of `ea` into an SLB slot.
    pub fn segment(&mut self, guest: &Guest, slot: u64, ea: EffectiveAddr) {
        self.push(slbmte(guest.slb_entry(slot, ea)));
    }

    /// H_ENTER of the page of `ea` into a slot that this script has not used, of its primary group, or else of its
    /// secondary group. Where it is then.
    ///
    /// # Errors
    /// No slot is left, or no HPTE has such pages.
    pub fn enter(
        &mut self,
        guest: &Guest,
        ea: EffectiveAddr,
        gpa: GuestPhysAddr,
        page: PageUse,
    ) -> Result<PteIndex, ScriptError> {
        let (at, entry) = self.place(guest, ea, gpa, page)?;
        self.enter_at(at, entry);
        Ok(at)
    }

    fn place(
        &mut self,
        guest: &Guest,
        ea: EffectiveAddr,
        gpa: GuestPhysAddr,
        page: PageUse,
    ) -> Result<(PteIndex, Hpte), ScriptError> {
        let (entry, key) = guest.hpte(ea, gpa, page).ok_or(ScriptError::PageSizes(guest.sizes))?;
        for secondary in [false, true] {
            let first = group(&key, self.order, secondary);
            let free = (0..SCRIPT_SLOTS).map(|slot| PteIndex(first.0 + slot)).find(|at| !self.used.contains(at));
            if let Some(at) = free {
                self.used.insert(at);
                let h = if secondary { HPTE_V_SECONDARY } else { 0 };
                return Ok((at, Hpte { v: entry.v | h, r: entry.r }));
            }
        }
        Err(ScriptError::Full { ea, order: self.order })
    }

    fn enter_at(&mut self, at: PteIndex, entry: Hpte) {
        self.hcall(number::H_ENTER, &[flags::H_EXACT, at.0, entry.v, entry.r]);
    }

    /// A hypercall with these arguments from GPR4 on, the others 0.
    pub fn hcall(&mut self, number: u64, first: &[u64]) {
        let mut args = [0; 9];
        for (place, value) in args.iter_mut().zip(first) {
            *place = *value;
        }
        self.push(Step::Guest(GuestOp::Hcall { number, args }));
    }

    /// H_REMOVE of the entry at `at`, whose slot is free then.
    pub fn remove(&mut self, at: PteIndex) {
        self.used.remove(&at);
        self.hcall(number::H_REMOVE, &[0, at.0, 0]);
    }

    /// H_BULK_REMOVE of up to four entries.
    pub fn bulk_remove(&mut self, entries: &[PteIndex]) {
        let mut args = [bulk::END; 2 * BULK_REQUESTS];
        for (pair, at) in args.chunks_exact_mut(2).zip(entries) {
            self.used.remove(at);
            pair.copy_from_slice(&[bulk::ABSOLUTE | at.0, 0]);
        }
        self.hcall(number::H_BULK_REMOVE, &args);
    }

    /// H_PROTECT of the entry at `at` to the protection and key of second doubleword `r`.
    pub fn protect(&mut self, at: PteIndex, r: u64) {
        self.hcall(number::H_PROTECT, &[ProtectFlags::from_r(r).0, at.0, 0]);
    }

    /// A load or store of 4 bytes at `ea`; a store writes `value`.
    ///
    /// # Errors
    /// None in practice: both mnemonics exist.
    pub fn access(&mut self, direction: Direction, ea: EffectiveAddr, value: u64) -> Result<(), ScriptError> {
        let word = word(direction, Size::Word)?;
        self.push(Step::Guest(GuestOp::Access(GuestAccess { word, ra: ea.0, rb: 0, rt: value })));
        Ok(())
    }
}

/// Requests of H_BULK_REMOVE (PAPR 14.5.4.1.7).
pub mod bulk {
    /// What follows is no request.
    pub const END: u64 = 3 << 62;
    /// The entry at the index, no condition.
    pub const ABSOLUTE: u64 = 1 << 62;
    /// If no bit of the next word is set in the entry.
    pub const ANDCOND: u64 = 1 << 62 | 1 << 56;
    /// If the next word is the entry's AVPN.
    pub const AVPN: u64 = 1 << 62 | 2 << 56;
}

/// First index of the primary or secondary group of `key` in a table of `order`.
#[must_use]
pub const fn group(key: &HashKey, order: u32, secondary: bool) -> PteIndex {
    let hash = if secondary { !key.hash } else { key.hash };
    PteIndex((hash & ((1 << (order - 7)) - 1)) * PTEG_ENTRIES)
}

/// Where an access goes; `None` for a form whose address is no sum of its registers.
#[must_use]
pub fn effective_address(access: &GuestAccess) -> Option<EffectiveAddr> {
    /// Of those that are no integer access the ones of D form.
    const D_FORM: [&str; 2] = ["lmw", "stmw"];
    let mut gpr = [0; 32];
    gpr[usize::from(GuestAccess::RT)] = access.rt;
    gpr[usize::from(GuestAccess::RA)] = access.ra;
    gpr[usize::from(GuestAccess::RB)] = access.rb;
    match decode(access.word)? {
        Insn::Access(decoded) => Some(EffectiveAddr(decoded.effective_address(&gpr, Mode::SixtyFour))),
        // X form.
        Insn::CacheOp(_) => {
            let register = |shift: u32| (access.word >> shift & 31) as usize;
            let base = if register(16) == 0 { 0 } else { gpr[register(16)] };
            Some(EffectiveAddr(base.wrapping_add(gpr[register(11)])))
        }
        Insn::Refused(other) if D_FORM.contains(&other.name) => {
            let displacement = i64::from((access.word & 0xffff) as u16 as i16);
            Some(EffectiveAddr(access.ra.wrapping_add_signed(displacement)))
        }
        // Their registers are not among those of an access.
        Insn::Facility(_) | Insn::Refused(_) => None,
    }
}

/// The plain load or store of `size` on the registers of an access.
///
/// # Errors
/// None in practice: every size has its mnemonic.
pub fn word(direction: Direction, size: Size) -> Result<u32, EncodeError> {
    load_store(plain_access(direction, size), GuestAccess::RT, GuestAccess::RA, Offset::Displacement(0))
}

/// `slbmte` of an entry.
#[must_use]
pub const fn slbmte(entry: SlbEntry) -> Step {
    Step::Guest(GuestOp::Slbmte { rs: entry.vsid, rb: entry.esid })
}

/// `slbie` of an entry's segment: ESID, segment size and class (Power ISA 2.07 Book III-S, 5.9.3.1).
#[must_use]
pub const fn slbie(entry: SlbEntry) -> Step {
    /// The bits of RB that are the ESID.
    const ESID: u64 = !0x0fff_ffff;
    /// Where RB has the segment size, from the low end.
    const B: u32 = 25;
    /// Where RB has the class.
    const CLASS: u64 = 1 << 27;
    let class = if entry.vsid & SLB_VSID_C != 0 { CLASS } else { 0 };
    Step::Guest(GuestOp::Slbie { rb: entry.esid & ESID | (entry.vsid >> 62) << B | class })
}
