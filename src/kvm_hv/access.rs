//! One guest access from instruction to outcome: hardware, then both handlers, again until it is done.

use std::sync::atomic::Ordering;

use crate::addr::{EffectiveAddr, Gfn, GuestPhysAddr, Prefixed};
use crate::book3s::hpte::{HPTE_R_C, HPTE_R_R, HPTE_R_RPN};
use crate::book3s::insn::{Direction, is_prefix};
use crate::book3s::msr::{DSISR_ISSTORE, DSISR_KEYFAULT, DSISR_NOHPTE, DSISR_PROTFAULT};
use crate::book3s::protect::{hardware_permits, key_forbids};
use crate::book3s::{HashKey, Hpte, PageSizes};

use super::early::{EarlyStep, Fault};
use super::full::FullStep;
use super::lock::set_rc;
use super::outcome::{CacheUse, Interrupt, Outcome, Record, RetryReason};
use super::stage::{Stage, StageLog, StageSet};
use super::vcpu::Vcpu;
use super::vm::Vm;

/// What a fetch at the guest's PC gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fetch {
    /// An instruction word.
    Word(u32),
    /// A prefixed instruction: the prefix and its suffix.
    Prefixed(u32, u32),
    /// A fault (`kvmppc_get_last_inst` fails).
    Fails,
}

impl Fetch {
    /// What the kernel fetches: words as [`Decoded`](crate::book3s::insn::Decoded) takes them, and their bytes. A kernel
    /// that knows no prefixed instructions, or a word that is no prefix, makes a word of the first.
    #[inline]
    pub(super) const fn words(self, prefixed: Prefixed) -> Option<(u64, u64)> {
        match (self, prefixed) {
            (Self::Word(word), _) => Some((word as u64, 4)),
            (Self::Prefixed(prefix, suffix), Prefixed::Emulated) if is_prefix(prefix) => {
                Some(((prefix as u64) << 32 | suffix as u64, 8))
            }
            (Self::Prefixed(prefix, _), _) => Some((prefix as u64, 4)),
            (Self::Fails, _) => None,
        }
    }
}

/// One data access of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Effective address.
    pub ea: EffectiveAddr,
    /// What the instruction does to storage.
    pub direction: Direction,
    /// What the kernel finds at the PC when it emulates.
    pub insn: Fetch,
}

impl Access {
    /// A load or store by `word`, whose effective address and direction the caller knows.
    #[must_use]
    pub const fn new(ea: EffectiveAddr, direction: Direction, word: u32) -> Self {
        Self { ea, direction, insn: Fetch::Word(word) }
    }

    /// The same by a prefixed instruction.
    #[must_use]
    pub const fn prefixed(ea: EffectiveAddr, direction: Direction, [prefix, suffix]: [u32; 2]) -> Self {
        Self { ea, direction, insn: Fetch::Prefixed(prefix, suffix) }
    }
}

/// Attempts that saw the same state, one after another, before an access counts as retrying for ever.
const SAME_STATE: u32 = 3;
/// The same where only another thread's work can be the reason: that ends, but the thread may not be running now.
const WAITING: u32 = 1 << 20;

/// What an attempt that was retried saw: equal twice in a row means that nothing moved in between.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Witness {
    reason: RetryReason,
    generation: u64,
    /// Page-out and another vCPU's page-in can restore every word in between.
    mmu_seq: u64,
    hpte: Hpte,
    guest_r: u64,
    cached: bool,
}

impl Witness {
    /// Attempts after which it is believed. An entry that changes between two looks at the table is changed by another
    /// thread; a doubleword out of the cache (H4), an instruction word, a PP value stay as they are.
    const fn patience(&self) -> u32 {
        match self.reason {
            RetryReason::ValidByNow if self.cached => SAME_STATE,
            RetryReason::FetchFailed | RetryReason::DirectionMismatch | RetryReason::Mapped => SAME_STATE,
            RetryReason::ValidByNow
            | RetryReason::HpteDisappeared
            | RetryReason::HpteChanged
            | RetryReason::InvalidationInProgress => WAITING,
        }
    }
}

/// How one attempt ended.
enum Attempt {
    Done(Outcome, CacheUse),
    Retry(RetryReason),
}

/// What hardware makes of an access.
enum Hardware {
    Ram(GuestPhysAddr),
    Fault(u32),
}

impl Vcpu {
    /// Performs one access to its end. Does not hang: an access that would retry for ever is told as such.
    ///
    /// An exit to user space is returned, not handled: once it is, [`Vcpu::complete`] gives a load its data, and what
    /// moves in pieces goes on there.
    // Always inline: an `Access` written in pieces and read wider in a call makes the processor wait.
    #[inline(always)]
    pub fn access(&mut self, vm: &Vm, access: &Access) -> Record {
        if matches!(access.insn, Fetch::Prefixed(..)) && vm.behaviour().prefixed == Prefixed::Unknown {
            return Self::no_prefixed_instructions();
        }
        let mut set = StageSet::EMPTY;
        match self.attempt(vm, access, &mut set) {
            Attempt::Done(outcome, cache) => self.record(vm, outcome, cache, StageLog::of(set)),
            Attempt::Retry(reason) => self.retry(vm, access, reason, set),
        }
    }

    /// HFSCR makes the guest's prefixed instruction a hypervisor facility unavailable interrupt, before it accesses
    /// anything; KVM gives the guest a program interrupt for it (`kvmppc_handle_exit_hv`).
    #[cold]
    fn no_prefixed_instructions() -> Record {
        let stages = [Stage::GuestExit, Stage::HostEntry, Stage::Reflect, Stage::GuestEntry];
        let (outcome, stages) = (Outcome::Reflected(Interrupt::Program), StageLog::of(stages.into_iter().collect()));
        Record { outcome, cache: CacheUse::None, stages, ram_as_mmio: false }
    }

    /// The attempts after a first one that was retried for `reason`.
    #[cold]
    fn retry(&mut self, vm: &Vm, access: &Access, mut reason: RetryReason, first: StageSet) -> Record {
        let mut stages = StageLog::of(first);
        let mut last: Option<Witness> = None;
        let mut same = 0;
        loop {
            let witness = self.witness(vm, reason);
            same = if last == Some(witness) { same + 1 } else { 1 };
            last = Some(witness);
            if same >= witness.patience() {
                return self.record(vm, Outcome::RetriesForever(reason), CacheUse::None, stages);
            }
            if same > SAME_STATE {
                std::thread::yield_now();
            }
            let mut set = StageSet::EMPTY;
            let attempt = self.attempt(vm, access, &mut set);
            stages.push(set);
            match attempt {
                Attempt::Done(outcome, cache) => return self.record(vm, outcome, cache, stages),
                Attempt::Retry(again) => reason = again,
            }
        }
    }

    fn witness(&self, vm: &Vm, reason: RetryReason) -> Witness {
        Witness {
            reason,
            generation: vm.generation(),
            mmu_seq: vm.mmu_seq(),
            hpte: self.fault.hpte,
            guest_r: self.fault.guest_r,
            cached: self.fault.cached.is_some(),
        }
    }

    #[inline(always)]
    fn record(&mut self, vm: &Vm, outcome: Outcome, cache: CacheUse, stages: StageLog) -> Record {
        // Only a hit can be wrong about this: a miss has just searched the memslots.
        let ram_as_mmio = match (cache, outcome.mmio_gpa()) {
            (CacheUse::Hit, Some(gpa)) => {
                let gfn = gpa.gfn(vm.page_shift());
                vm.may_be_ram(gfn) && self.is_ram(gfn)
            }
            _ => false,
        };
        Record { outcome, cache, stages, ram_as_mmio }
    }

    #[inline(never)]
    fn is_ram(&mut self, gfn: Gfn) -> bool {
        self.view.load().memslots.find(gfn).is_some()
    }

    #[inline(always)]
    fn attempt(&mut self, vm: &Vm, access: &Access, stages: &mut StageSet) -> Attempt {
        let Some(slb_v) = self.slb.lookup(access.ea) else {
            stages.add(Stage::Reflect);
            return Attempt::Done(Outcome::Reflected(Interrupt::DataSegment { dar: access.ea }), CacheUse::None);
        };
        let cause = match self.hardware(access, slb_v) {
            Hardware::Ram(gpa) => {
                stages.add(Stage::Ram);
                return Attempt::Done(Outcome::Ram { gpa }, CacheUse::None);
            }
            Hardware::Fault(cause) => cause,
        };
        stages.add(Stage::GuestExit);
        let store = if access.direction == Direction::Store { DSISR_ISSTORE } else { 0 };
        let fault = Fault { ea: access.ea, slb_v, dsisr: cause | store, fetch: false };
        // Only no-HPTE and protection faults reach the early handler; the rest is reflected at once.
        if cause & (DSISR_NOHPTE | DSISR_PROTFAULT) == 0 {
            return Self::reflect(&fault, fault.dsisr, CacheUse::None, stages);
        }
        match self.early(vm, &fault, stages) {
            EarlyStep::Retry(reason) => {
                stages.add(Stage::GuestEntry);
                Attempt::Retry(reason)
            }
            EarlyStep::Reflect { status } => Self::reflect(&fault, status, CacheUse::None, stages),
            EarlyStep::Host { .. } => {
                stages.add(Stage::HostEntry);
                let step = self.full(vm, &fault, access.insn, stages);
                stages.add(Stage::GuestEntry);
                match step {
                    FullStep::Done { handler, gpa, cache } => Attempt::Done(Outcome::Kernel { handler, gpa }, cache),
                    FullStep::Exit { exit, cache } => Attempt::Done(Outcome::Exit(exit), cache),
                    FullStep::Failed { dsisr, cache } => Self::reflect(&fault, dsisr, cache, stages),
                    FullStep::Unavailable { facility, cache } => {
                        stages.add(Stage::Reflect);
                        Attempt::Done(Outcome::Reflected(Interrupt::Unavailable(facility)), cache)
                    }
                    FullStep::Retry(reason) => Attempt::Retry(reason),
                }
            }
        }
    }

    #[inline]
    fn reflect(fault: &Fault, dsisr: u32, cache: CacheUse, stages: &mut StageSet) -> Attempt {
        stages.add(Stage::Reflect);
        stages.add(Stage::GuestEntry);
        Attempt::Done(Outcome::Reflected(Interrupt::DataStorage { dsisr, dar: fault.ea }), cache)
    }

    /// Translation by hardware: VALID entries only, protection and key on the host's doubleword, R and C set.
    #[inline(always)]
    fn hardware(&mut self, access: &Access, slb_v: u64) -> Hardware {
        if !self.view.load().hpt.may_find_valid(access.ea, slb_v) {
            return Hardware::Fault(DSISR_NOHPTE);
        }
        self.search(access, slb_v)
    }

    /// Hardware's search and what it does with what it finds.
    #[inline(never)]
    fn search(&mut self, access: &Access, slb_v: u64) -> Hardware {
        let storage_key = self.storage_key(slb_v);
        let amr = self.amr;
        let hpt = &self.view.load().hpt;
        let key = HashKey::new(access.ea, slb_v);
        let Some((index, hpte)) = hpt.find_valid(&key) else { return Hardware::Fault(DSISR_NOHPTE) };
        let mut cause = 0;
        if !hardware_permits(hpte.r, storage_key, access.direction) {
            cause |= DSISR_PROTFAULT;
        }
        if key_forbids(hpte.r, amr, access.direction) {
            cause |= DSISR_KEYFAULT;
        }
        if cause != 0 {
            return Hardware::Fault(cause);
        }
        let rc = if access.direction == Direction::Store { HPTE_R_R | HPTE_R_C } else { HPTE_R_R };
        let Some((slot, rev)) = hpt.entry(index) else { return Hardware::Fault(DSISR_NOHPTE) };
        if hpte.r & rc != rc && !set_rc(&slot.v, &slot.r, hpte.v, rc) {
            return Hardware::Fault(DSISR_NOHPTE);
        }
        let bytes = PageSizes::of_hpte(hpte.v, hpte.r).map_or(1 << 12, |sizes| sizes.actual.bytes());
        let guest_r = rev.guest_rpte.load(Ordering::Relaxed);
        Hardware::Ram(GuestPhysAddr(guest_r & HPTE_R_RPN & !(bytes - 1) | access.ea.0 & (bytes - 1)))
    }
}
