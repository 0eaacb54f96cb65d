//! The early handler (`kvmppc_hpte_hv_fault`): from a storage fault to "reflect", "retry" or "to the host kernel".

use crate::addr::{EffectiveAddr, FillOnProtectionFault, FillWhenMemslotBacked, ReservedPp};
use crate::book3s::hpte::{HPTE_R_G, HPTE_R_N, HPTE_V_ABSENT, HPTE_V_VALID, has_mmio_key};
use crate::book3s::insn::Direction;
use crate::book3s::msr::{
    DSISR_ISSTORE, DSISR_KEYFAULT, DSISR_NOHPTE, DSISR_PROTFAULT, MSR_DR, MSR_IR, SRR1_ISI_N_G_OR_CIP, SRR1_ISI_PROT,
};
use crate::book3s::protect::{is_reserved_pp, key_forbids, may_read, may_write};
use crate::book3s::{HashKey, PageSizes};

use super::cache::{CacheEntry, page_mask};
use super::outcome::{MissClass, RetryReason};
use super::page_out::page_base;
use super::stage::{Stage, StageSet};
use super::vcpu::{FaultState, Vcpu};
use super::vm::Vm;

/// A hypervisor storage fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// Faulting address (HDAR; SRR0 for fetches).
    pub ea: EffectiveAddr,
    /// VSID doubleword of its segment (ASDR on POWER9).
    pub slb_v: u64,
    /// Cause (HDSISR; HSRR1 for fetches).
    pub dsisr: u32,
    /// An instruction fetch, not a data access.
    pub fetch: bool,
}

impl Fault {
    /// Load or store.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        if self.dsisr & DSISR_ISSTORE != 0 { Direction::Store } else { Direction::Load }
    }
}

/// What the early handler decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EarlyStep {
    /// The guest runs the instruction again (0).
    Retry(RetryReason),
    /// The guest gets a storage interrupt with this status.
    Reflect {
        /// DSISR, or SRR1's status bits for a fetch.
        status: u32,
    },
    /// To the full handler (-1), with the instruction word loaded if `insn_loaded` (-2).
    Host {
        /// Key 31, a data access, MSR\[IR\] on.
        insn_loaded: bool,
    },
}

impl Vcpu {
    /// The early handler. What the full handler needs stays in the vCPU.
    pub fn early_fault(&mut self, vm: &Vm, fault: &Fault, stages: &mut StageSet) -> EarlyStep {
        // A set of its own lives in a register; through the caller's each stage would wait for the one before.
        let mut went = StageSet::EMPTY;
        let step = self.early(vm, fault, &mut went);
        stages.merge(went);
        step
    }

    #[inline(always)]
    pub(super) fn early(&mut self, vm: &Vm, fault: &Fault, stages: &mut StageSet) -> EarlyStep {
        let &Fault { ea, slb_v, .. } = fault;
        let no_hpte = fault.dsisr & DSISR_NOHPTE != 0;
        self.miss_class = None;
        // The generation is read before the lookup, so that an entry filled from an older table is never trusted.
        let mut generation = 0;
        let mut found = None;
        if no_hpte {
            generation = vm.generation();
            if !self.cache.design().is_off() {
                stages.add(Stage::CacheSearch);
                found = self.cache.search_entry(ea, slb_v, generation);
            }
        }
        let hit = found.is_some();
        if let Some((slot, &CacheEntry { index, hpte, guest_r, .. })) = found {
            self.fault = FaultState { ea, index, hpte, guest_r, cached: Some(slot) };
        } else if !self.look_up(ea, slb_v, no_hpte, stages) {
            return if no_hpte {
                EarlyStep::Reflect { status: fault.dsisr }
            } else {
                EarlyStep::Retry(RetryReason::HpteDisappeared)
            };
        }
        let FaultState { hpte, guest_r, .. } = self.fault;
        if no_hpte && hpte.v & HPTE_V_VALID != 0 {
            return EarlyStep::Retry(RetryReason::ValidByNow);
        }
        stages.add(Stage::Permission);
        if let Some(status) = self.forbidden(vm, fault, guest_r) {
            return EarlyStep::Reflect { status };
        }
        let mmio = has_mmio_key(hpte.r);
        if mmio && !hit && self.fill(vm, slb_v, generation, no_hpte) {
            stages.add(Stage::CacheFill);
        }
        if no_hpte && self.classifier.is_some() {
            self.classify(ea, slb_v, mmio, hit);
        }
        let insn_loaded = mmio && !fault.fetch && self.msr & MSR_IR != 0;
        if insn_loaded {
            stages.add(Stage::InsnLoad);
        }
        EarlyStep::Host { insn_loaded }
    }

    /// The slow form: searches the HPT, locks the entry, copies it with the guest's own second doubleword, unlocks.
    /// Whether there is one.
    #[inline(never)]
    fn look_up(&mut self, ea: EffectiveAddr, slb_v: u64, no_hpte: bool, stages: &mut StageSet) -> bool {
        stages.add(Stage::HptSearch);
        let accept = if no_hpte { HPTE_V_VALID | HPTE_V_ABSENT } else { HPTE_V_VALID };
        let Some(found) = self.view.load().hpt.find_lock(&HashKey::new(ea, slb_v), accept) else {
            stages.add(Stage::HptSearchSecondary);
            return false;
        };
        if found.secondary {
            stages.add(Stage::HptSearchSecondary);
        }
        stages.add(Stage::HpteLockFirst);
        self.fault = FaultState { ea, index: found.index, hpte: found.hpte, guest_r: found.guest_r, cached: None };
        found.unlock();
        true
    }

    /// The status the guest gets if its own doubleword forbids the access.
    #[inline]
    fn forbidden(&self, vm: &Vm, fault: &Fault, guest_r: u64) -> Option<u32> {
        let status = fault.dsisr & !DSISR_NOHPTE;
        let key = self.storage_key(fault.slb_v);
        if fault.fetch {
            if guest_r & (HPTE_R_N | HPTE_R_G) != 0 {
                return Some(status | SRR1_ISI_N_G_OR_CIP);
            }
            return (!may_read(guest_r, key)).then_some(status | SRR1_ISI_PROT);
        }
        let direction = fault.direction();
        let permitted = match direction {
            Direction::Store => may_write(guest_r, key),
            Direction::Load => may_read(guest_r, key),
        };
        let reserved = vm.behaviour().reserved_pp == ReservedPp::Reflect && is_reserved_pp(guest_r);
        if !permitted || reserved {
            return Some(status | DSISR_PROTFAULT);
        }
        (self.msr & MSR_DR != 0 && key_forbids(guest_r, self.amr, direction)).then_some(status | DSISR_KEYFAULT)
    }

    /// Fills a cache entry from what was saved of the fault, if the kernel's switches let it. Whether it did.
    // Apart, so that a hit's frame has no room for it.
    #[inline(never)]
    fn fill(&mut self, vm: &Vm, slb_v: u64, generation: u64, no_hpte: bool) -> bool {
        if !self.may_fill(vm, no_hpte) {
            return false;
        }
        let FaultState { ea, index, hpte, guest_r, .. } = self.fault;
        let entry = CacheEntry { ea, slb_v, index, hpte, guest_r, generation, page_mask: page_mask(slb_v) };
        self.cache.fill(entry);
        if let Some(classifier) = self.classifier.as_mut().filter(|_| !no_hpte) {
            classifier.protection_fault_filled(&entry);
        }
        true
    }

    /// Whether the kernel's switches let this fault fill an entry.
    fn may_fill(&mut self, vm: &Vm, no_hpte: bool) -> bool {
        if self.cache.design().is_off() {
            return false;
        }
        if !no_hpte && vm.behaviour().fill_on_protection_fault == FillOnProtectionFault::No {
            return false;
        }
        if vm.behaviour().fill_when_memslot_backed == FillWhenMemslotBacked::Yes {
            return true;
        }
        let FaultState { hpte, guest_r, .. } = self.fault;
        let page = PageSizes::of_hpte(hpte.v, guest_r).map(|sizes| page_base(guest_r, sizes.actual.bytes()));
        page.is_none_or(|gpa| self.view.load().memslots.find(gpa.gfn(vm.page_shift())).is_none())
    }

    fn classify(&mut self, ea: EffectiveAddr, slb_v: u64, mmio: bool, hit: bool) {
        let Some(classifier) = &mut self.classifier else { return };
        if hit {
            classifier.hit(ea, slb_v);
            // Should the full handler find that the generation moved meanwhile, that is why.
            self.miss_class = Some(MissClass::Generation);
        } else if mmio {
            self.miss_class = Some(classifier.miss(ea, slb_v));
        } else {
            self.miss_class = Some(MissClass::NeverCacheable);
        }
    }
}
