//! The full handler (`kvmppc_book3s_hv_page_fault`): emulate, map RAM, or retry.

use std::sync::atomic::Ordering;

use crate::addr::{GuestPhysAddr, PteIndex};
use crate::book3s::PageSizes;
use crate::book3s::hpte::{
    HPTE_R_C, HPTE_R_KEY_HI, HPTE_R_PP0, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_VALID, Hpte, is_writable, make_readonly,
};
use crate::book3s::insn::{Direction, Facility};

use super::access::Fetch;
use super::early::Fault;
use super::hpt::{Hpt, Revmap, Slot};
use super::lock::{invalidate, lock_hpte, lock_rmap, unlock_hpte, unlock_rmap};
use super::memslot::Memslot;
use super::outcome::{CacheUse, Handler, MmioExit, RetryReason};
use super::page_out::page_base;
use super::rmap::{add_to_chain, gathered};
use super::stage::{Stage, StageSet};
use super::vcpu::{FaultState, Vcpu};
use super::vm::Vm;

/// What the full handler did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FullStep {
    /// A kernel-side device took the access.
    Done {
        /// Who.
        handler: Handler,
        /// Where.
        gpa: GuestPhysAddr,
        /// Hit or miss.
        cache: CacheUse,
    },
    /// User space must complete it.
    Exit {
        /// What it is told.
        exit: MmioExit,
        /// Hit or miss.
        cache: CacheUse,
    },
    /// Emulation failed: data storage interrupt with this DSISR.
    Failed {
        /// BADACCESS, with ISSTORE by switch.
        dsisr: u32,
        /// Hit or miss.
        cache: CacheUse,
    },
    /// The instruction needs a facility that MSR makes unavailable: that interrupt, at the same PC.
    Unavailable {
        /// Which.
        facility: Facility,
        /// Hit or miss.
        cache: CacheUse,
    },
    /// The guest runs the instruction again.
    Retry(RetryReason),
}

impl Vcpu {
    /// The full handler, on what [`Vcpu::early_fault`] saved for the same fault.
    ///
    /// `insn` is what a fetch at the guest's PC gives now: it may differ from what caused the fault.
    pub fn full_fault(&mut self, vm: &Vm, fault: &Fault, insn: Fetch, stages: &mut StageSet) -> FullStep {
        let mut went = StageSet::EMPTY;
        let step = self.full(vm, fault, insn, &mut went);
        stages.merge(went);
        step
    }

    // Always inline, like `early` and `emulate`: the set of stages then lives in a register. Through a pointer each
    // stage waits for the store of the one before.
    #[inline(always)]
    pub(super) fn full(&mut self, vm: &Vm, fault: &Fault, insn: Fetch, stages: &mut StageSet) -> FullStep {
        let (gpa, cache) = match self.trusted_hit(vm, fault, stages) {
            Some(gpa) => (gpa, CacheUse::Hit),
            None => {
                let (looked, went) = self.look_again(vm, fault);
                stages.merge(went);
                match looked {
                    Ok(gpa) => (gpa, CacheUse::Miss(self.miss_class)),
                    Err(reason) => return FullStep::Retry(reason),
                }
            }
        };
        // A set of its own, merged once: ORed into the caller's stage by stage it would be written in bytes and read as a
        // word, which the processor waits for.
        let mut went = StageSet::EMPTY;
        let step = self.emulate(vm, fault, gpa, insn, cache, &mut went);
        stages.merge(went);
        step
    }

    /// The address of a hit, if the generation is still the one its entry is tagged with.
    #[inline]
    fn trusted_hit(&self, vm: &Vm, fault: &Fault, stages: &mut StageSet) -> Option<GuestPhysAddr> {
        let entry = self.cache.entry(self.fault.cached?)?;
        stages.add(Stage::GenerationRecheck);
        (entry.generation == vm.generation()).then(|| physical(self.fault.hpte.v, entry.guest_r, fault))
    }

    /// Locks the HPTE a second time and searches the memslots: the address to emulate at, or why to retry; and the
    /// stages that took.
    fn look_again(&mut self, vm: &Vm, fault: &Fault) -> (Result<GuestPhysAddr, RetryReason>, StageSet) {
        let mut stages = StageSet::EMPTY.with(Stage::HpteLockSecond);
        let FaultState { index, hpte: seen, .. } = self.fault;
        let view = self.view.load();
        let Some((slot, rev)) = view.hpt.entry(index) else { return (Err(RetryReason::HpteChanged), stages) };
        let v = lock_hpte(&slot.v);
        let now = Hpte { v, r: slot.read_r() };
        let guest_r = rev.guest_rpte.load(Ordering::Relaxed);
        unlock_hpte(&slot.v, v);
        if now != seen {
            return (Err(RetryReason::HpteChanged), stages);
        }
        stages.add(Stage::MemslotSearch);
        let gpa = physical(now.v, guest_r, fault);
        let Some(memslot) = view.memslots.find(gpa.gfn(vm.page_shift())) else { return (Ok(gpa), stages) };
        stages.add(Stage::PageIn);
        let direction = fault.direction();
        (Err(MapRam { vm, hpt: &view.hpt, memslot, slot, rev, index, seen, guest_r, direction }.map(gpa)), stages)
    }
}

/// Guest physical address: page from the guest's doubleword, offset within the actual page from the EA.
#[inline]
fn physical(v: u64, guest_r: u64, fault: &Fault) -> GuestPhysAddr {
    let bytes = PageSizes::of_hpte(v, guest_r).map_or(1 << 12, |sizes| sizes.actual.bytes());
    GuestPhysAddr(page_base(guest_r, bytes).0 | fault.ea.0 & (bytes - 1))
}

/// Maps RAM: brings the host page in and makes the HPTE VALID, unless something changed meanwhile.
struct MapRam<'a> {
    vm: &'a Vm,
    hpt: &'a Hpt,
    memslot: &'a Memslot,
    slot: &'a Slot,
    rev: &'a Revmap,
    index: PteIndex,
    seen: Hpte,
    guest_r: u64,
    direction: Direction,
}

impl MapRam<'_> {
    #[cold]
    fn map(&self, gpa: GuestPhysAddr) -> RetryReason {
        let Some(sizes) = PageSizes::of_hpte(self.seen.v, self.guest_r) else { return RetryReason::HpteChanged };
        let shift = self.vm.page_shift();
        let base = page_base(self.guest_r, sizes.actual.bytes());
        let seq = self.vm.mmu_seq();
        let gfn = gpa.gfn(shift);
        // A store to the page of zeroes gets a page of its own, which unmaps the one that the guest has: it comes again.
        let writable = match self.direction {
            Direction::Store if self.vm.host_write(self.hpt, self.memslot, gfn) => return RetryReason::HpteChanged,
            Direction::Store => true,
            Direction::Load => self.memslot.host_read(gfn, shift),
        };
        // The address has the host page's granularity, so that lower bits survive when the guest's page is smaller.
        let bytes = sizes.actual.bytes().max(1 << shift);
        let address = HPTE_R_PP0 - bytes;
        let mut r =
            self.guest_r & HPTE_R_KEY_HI | self.guest_r & !address | self.memslot.host_real(base, shift) & address;
        if is_writable(r) && !writable {
            r = make_readonly(r);
        }

        let v = lock_hpte(&self.slot.v);
        let changed = Hpte { v, r: self.slot.read_r() } != self.seen
            || self.rev.guest_rpte.load(Ordering::Relaxed) != self.guest_r;
        if changed {
            unlock_hpte(&self.slot.v, v);
            return RetryReason::HpteChanged;
        }
        let Some(rmap) = self.memslot.rmap(base.gfn(shift)) else {
            unlock_hpte(&self.slot.v, v);
            return RetryReason::HpteChanged;
        };
        let word = lock_rmap(rmap);
        if self.vm.invalidated_since(seq) {
            unlock_rmap(rmap, word);
            unlock_hpte(&self.slot.v, v);
            return RetryReason::InvalidationInProgress;
        }
        r &= gathered(word) | !(HPTE_R_R | HPTE_R_C);
        if v & HPTE_V_VALID != 0 {
            // It was valid (a protection fault): invalidate first, and lose no R or C that hardware set.
            unlock_rmap(rmap, word);
            invalidate(&self.slot.v, v & !HPTE_V_VALID | HPTE_V_ABSENT);
            r |= self.slot.read_r() & (HPTE_R_R | HPTE_R_C);
        } else {
            let word = add_to_chain(self.hpt, word, self.index);
            unlock_rmap(rmap, word);
        }
        self.hpt.will_be_valid(self.index);
        self.slot.write_r(r);
        unlock_hpte(&self.slot.v, v & !HPTE_V_ABSENT | HPTE_V_VALID);
        RetryReason::Mapped
    }
}
