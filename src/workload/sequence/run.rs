//! A sequence through the whole path: a guest enters its pages, its instructions fault, handlers and buses answer.

use std::collections::BTreeMap;

use crate::addr::{EffectiveAddr, GuestPhysAddr, KernelBehaviour, PteIndex};
use crate::book3s::hpte::{HPTE_R_PP, HPTE_R_PP0, PP_RWXX, PP_RXRX};
use crate::book3s::insn::{Direction, Size};
use crate::kvm_hv::memslot::MemslotError;
use crate::kvm_hv::{
    BULK_REQUESTS, CacheDesign, HcallError, Outcome, ProtectFlags, Vcpu, VcpuConfig, Vm, VmConfig, VmError,
};
use crate::workload::guest::{Guest, PageUse, Touch};

use super::report::seen;
use super::{
    CachedPage, Counts, Disagreement, Op, Page, Protection, RamAsMmio, Seen, Sequence, SequenceError, SequenceLine,
    SequenceReport, Step,
};

/// EA of MMIO page 0. Linux maps devices from 0xd000... or 0xc008... up; any EA in a segment of its own will do.
const MMIO_EA: u64 = 0xd000_0000_0000_0000;
/// EA of RAM page 0: Linux's linear mapping.
const RAM_EA: u64 = 0xc000_0000_0000_0000;
/// Guest physical address of MMIO page 0: far above the RAM.
const MMIO_GPA: u64 = 1 << 52;
/// Where in its page an access goes: a virtio doorbell's place, say.
const OFFSET: u64 = 0x40;
/// Memslot of the RAM pages; that over MMIO page N is N + 1.
const RAM_SLOT: u32 = 0;
/// Words after which a request of H_BULK_REMOVE is no request.
const BULK_END: u64 = 3 << 62;
/// A request of H_BULK_REMOVE for the entry at its index, no condition.
const BULK_ABSOLUTE: u64 = 1 << 62;

/// What a sequence runs on.
#[derive(Clone, Copy, Debug)]
pub struct SequenceConfig {
    /// The vCPU's MMIO HPTE cache.
    pub cache: CacheDesign,
    /// The kernel.
    pub behaviour: KernelBehaviour,
    /// Segment and page sizes.
    pub guest: Guest,
    /// For the random policy and for the values stored.
    pub seed: u64,
}

impl Default for SequenceConfig {
    /// The kernel's cache, linux-6.12, 64 KiB pages in 1 TiB segments.
    fn default() -> Self {
        Self { cache: CacheDesign::KERNEL, behaviour: KernelBehaviour::default(), guest: Guest::default(), seed: 0 }
    }
}

/// Runs a sequence on a VM of its own with one vCPU.
///
/// # Errors
/// The VM cannot be made, or not as an operation asks: no memory, an order out of range, pages that do not fit the
/// table. What the guest does wrong is no error: it is told step by step.
pub fn run(sequence: &Sequence, config: &SequenceConfig) -> Result<SequenceReport, SequenceError> {
    let mut runner = Runner::new(sequence, config)?;
    let mut report = SequenceReport {
        name: sequence.name().to_owned(),
        cache: config.cache.to_string(),
        switches: config.behaviour.differences(&KernelBehaviour::default()),
        counts: Counts::default(),
        first_disagreement: None,
        ram_as_mmio: RamAsMmio::default(),
        generation: 0,
        steps: Vec::with_capacity(sequence.lines().len()),
    };
    for line in sequence.lines() {
        let judged = line.label.is_some() && report.first_disagreement.is_none();
        let generation = runner.vm.generation();
        let cache: Vec<CachedPage> =
            if judged { runner.vcpu.cache().entries().iter().map(CachedPage::from).collect() } else { Vec::new() };
        let step = runner.step(line).map_err(|source| SequenceError::Vm {
            name: sequence.name().to_owned(),
            line: line.line,
            op: line.op.clone(),
            source,
        })?;
        if judged && step.agrees() == Some(false) {
            report.first_disagreement = Some(Disagreement { step: step.clone(), generation, cache });
        }
        report.add(step);
    }
    report.generation = runner.vm.generation();
    Ok(report)
}

struct Runner {
    vm: Vm,
    vcpu: Vcpu,
    guest: Guest,
    store: Touch,
    load: Touch,
    /// Bytes from one page to the next: no host page holds two.
    stride: u64,
    /// Where the guest last entered each page.
    entered: BTreeMap<Page, PteIndex>,
    next_segment: u64,
    value: u64,
}

impl Runner {
    fn new(sequence: &Sequence, config: &SequenceConfig) -> Result<Self, SequenceError> {
        let name = || sequence.name().to_owned();
        let (base, actual) = (config.guest.sizes.base, config.guest.sizes.actual);
        let touch = |direction| Touch::new(direction, Size::Word);
        let (Ok(store), Ok(load), Some(_)) =
            (touch(Direction::Store), touch(Direction::Load), config.guest.sizes.hpte_encoding())
        else {
            return Err(SequenceError::PageSizes {
                name: name(),
                base_shift: base.shift(),
                actual_shift: actual.shift(),
            });
        };
        let setup = |source| SequenceError::Setup { name: name(), source };
        let vm = Vm::new(VmConfig { behaviour: config.behaviour, ..VmConfig::default() }).map_err(setup)?;
        let vcpu = Vcpu::new(&vm, VcpuConfig { cache: config.cache, seed: config.seed, ..VcpuConfig::default() });
        let stride = actual.bytes().max(1 << vm.page_shift());
        let (entered, next_segment, value) = (BTreeMap::new(), 0, config.seed);
        let mut runner = Self { vm, vcpu, guest: config.guest, store, load, stride, entered, next_segment, value };
        let pages: Vec<Page> = sequence.lines().iter().flat_map(|line| line.op.pages()).collect();
        let ram = pages.iter().filter_map(|page| if let Page::Ram(n) = page { Some(u64::from(*n) + 1) } else { None });
        if let Some(count) = ram.max() {
            runner.create_memslot(RAM_SLOT, GuestPhysAddr(0), count * stride).map_err(|e| setup(e.into()))?;
        }
        let mmio: std::collections::BTreeSet<Page> =
            pages.into_iter().filter(|page| matches!(page, Page::Mmio(_))).collect();
        for page in mmio {
            runner.enter(page, 0).map_err(|source| SequenceError::Enter {
                name: name(),
                page: page.to_string(),
                source,
            })?;
        }
        Ok(runner)
    }

    fn place(&self, page: Page) -> (EffectiveAddr, GuestPhysAddr) {
        match page {
            Page::Mmio(n) => {
                let at = u64::from(n) * self.stride;
                (EffectiveAddr(MMIO_EA + at), GuestPhysAddr(MMIO_GPA + at))
            }
            Page::Ram(n) => {
                let at = u64::from(n) * self.stride;
                (EffectiveAddr(RAM_EA + at), GuestPhysAddr(at))
            }
        }
    }

    fn create_memslot(&self, id: u32, base: GuestPhysAddr, size: u64) -> Result<(), MemslotError> {
        self.vm.set_memslot(id, base, size, self.guest.sizes.actual.shift())
    }

    fn enter(&mut self, page: Page, key: u8) -> Result<(), HcallError> {
        let (ea, gpa) = self.place(page);
        let kind = if matches!(page, Page::Mmio(_)) { PageUse::DEVICE } else { PageUse::RAM };
        let at = self.guest.map(&self.vm, ea, gpa, kind.with_key(u64::from(key)))?;
        self.entered.insert(page, at);
        Ok(())
    }

    /// Where the guest entered the page; a RAM page that it never entered is entered now.
    fn entry(&mut self, page: Page) -> Result<PteIndex, HcallError> {
        if let Page::Ram(_) = page {
            if !self.entered.contains_key(&page) {
                self.enter(page, 0)?;
            }
        }
        self.entered.get(&page).copied().ok_or(HcallError::NotFound)
    }

    fn step(&mut self, line: &SequenceLine) -> Result<Step, VmError> {
        let mut step = Step {
            line: line.line,
            op: line.op.to_string(),
            expected: line.label,
            seen: Seen::Done,
            detail: None,
            gpa: None,
            ram_as_mmio: false,
            record: None,
        };
        match &line.op {
            Op::Store(page) => self.access(*page, Direction::Store, &mut step),
            Op::Load(page) => self.access(*page, Direction::Load, &mut step),
            other => {
                if let Err(error) = self.event(other)? {
                    step.seen = Seen::Refused;
                    step.detail = Some(error.name());
                }
            }
        }
        Ok(step)
    }

    fn access(&mut self, page: Page, direction: Direction, step: &mut Step) {
        if let Err(error) = self.entry(page) {
            step.detail = Some(error.name());
        }
        let (ea, _) = self.place(page);
        let ea = EffectiveAddr(ea.0 + OFFSET);
        self.load_segment(ea);
        self.value = self.value.wrapping_add(1);
        let touch = if direction == Direction::Store { self.store } else { self.load };
        let record = touch.perform(&self.vm, &mut self.vcpu, ea, self.value);
        if let Outcome::Exit(exit) = record.outcome {
            if exit.direction == Direction::Load {
                self.vcpu.complete_load(&self.value.to_le_bytes());
            }
        }
        let (was, why, gpa) = seen(&record);
        step.seen = was;
        step.detail = why.or(step.detail);
        step.gpa = gpa.map(|gpa| gpa.0);
        step.ram_as_mmio = record.ram_as_mmio;
        step.record = Some((ea, record));
    }

    /// What a guest's segment fault handler does: the missing entry replaces the one loaded longest ago.
    fn load_segment(&mut self, ea: EffectiveAddr) {
        if self.vcpu.slb.lookup(ea).is_none() {
            let slots = self.vcpu.slb.entries().len() as u64;
            let entry = self.guest.slb_entry(self.next_segment % slots, ea);
            self.next_segment += 1;
            let loaded = self.vcpu.slb.slbmte(entry);
            debug_assert!(loaded.is_ok(), "the index is below the SLB's size");
        }
    }

    /// An operation that is no access. The outer error stops the run, the inner one is the guest's answer.
    fn event(&mut self, op: &Op) -> Result<Result<(), HcallError>, VmError> {
        let done = match op {
            Op::Store(_) | Op::Load(_) => Ok(()),
            Op::Reenter(page) => self.remove(Page::Mmio(*page)).and_then(|()| self.enter(Page::Mmio(*page), 0)),
            Op::Enter(page, key) => self.enter(*page, *key),
            Op::Remove(page) => self.remove(*page),
            Op::BulkRemove(pages) => self.bulk_remove(pages),
            Op::Protect(page, protection) => self.protect(*page, *protection),
            Op::Read(page) => self.entry(*page).and_then(|at| self.vm.h_read(0, at).map(drop)),
            Op::ClearRef(page) => self.entry(*page).and_then(|at| self.vm.h_clear_ref(at).map(drop)),
            Op::ClearMod(page) => self.entry(*page).and_then(|at| self.vm.h_clear_mod(at).map(drop)),
            Op::PageOut(page) => self.vm.page_out(self.place(*page).1).map(drop).ok_or(HcallError::NotFound),
            Op::PageIn(page) => self.vm.page_in(self.place(*page).1).ok_or(HcallError::NotFound),
            Op::MemslotCreate(page) => {
                let (_, gpa) = self.place(Page::Mmio(*page));
                self.create_memslot(u32::from(*page) + 1, gpa, self.stride)?;
                Ok(())
            }
            Op::MemslotDelete(page) => {
                self.vm.delete_memslot(u32::from(*page) + 1)?;
                Ok(())
            }
            Op::DirtyLog(dirty_log) => {
                self.vm.set_dirty_log(RAM_SLOT, *dirty_log)?;
                Ok(())
            }
            Op::NewHpt(order) => {
                self.vm.install_hpt(*order)?;
                Ok(())
            }
            Op::ResetHpt => {
                self.vm.install_hpt(self.vm.hpt().order())?;
                Ok(())
            }
        };
        Ok(done)
    }

    fn remove(&mut self, page: Page) -> Result<(), HcallError> {
        let at = self.entry(page)?;
        self.vm.h_remove(0, at, 0).map(drop)
    }

    fn bulk_remove(&mut self, pages: &[Page]) -> Result<(), HcallError> {
        let mut args = [BULK_END; 2 * BULK_REQUESTS];
        for (pair, page) in args.chunks_exact_mut(2).zip(pages) {
            pair.copy_from_slice(&[BULK_ABSOLUTE | self.entry(*page)?.0, 0]);
        }
        self.vm.h_bulk_remove(&mut args)
    }

    fn protect(&mut self, page: Page, protection: Protection) -> Result<(), HcallError> {
        let at = self.entry(page)?;
        let [entry, ..] = self.vm.h_read(0, at)?;
        let pp = if protection == Protection::ReadOnly { PP_RXRX } else { PP_RWXX };
        let r = entry.r & !(HPTE_R_PP0 | HPTE_R_PP) | pp;
        self.vm.h_protect(ProtectFlags::from_r(r), at, 0)
    }
}
