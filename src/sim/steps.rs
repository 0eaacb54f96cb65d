//! Steps in the simulator: registers, RAM and the VMM around one [`Vm`] and one [`Vcpu`].

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::addr::{EffectiveAddr, Errno, GuestPhysAddr, KernelBehaviour, PteIndex, index};
use crate::book3s::hpte::{HPTE_GR_RESERVED, HPTE_R_C, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_VALID, Hpte};
use crate::book3s::insn::{Direction, Endian, Insn, decode, load_value, store_bytes};
use crate::book3s::slb::{SlbEntry, SlbError};
use crate::io::{Eventfd, IoBus, Ioeventfd};
use crate::kvm_hv::cache::CacheEntry;
use crate::kvm_hv::{
    Access, CacheDesign, CacheUse, Interrupt, Outcome, Record, Vcpu, VcpuConfig, Vm, VmConfig, VmError,
};
use crate::workload::script::effective_address;
use crate::workload::steps::{
    AccessSeen, Answer, Attach, End, ExitSeen, GuestAccess, GuestOp, Lookup, RUNTIME_BYTES, RUNTIME_SLOT, Step,
    StepExecutor, VmmOp, answer_to_load,
};

/// log2 of a POWER distribution's page size.
const PAGE_SHIFT: u32 = 16;
/// Bytes of a page of RAM.
const PAGE: u64 = 1 << PAGE_SHIFT;
/// Effective address of an slbie operand: the rest is class and segment size.
const SLBIE_ESID: u64 = !0x0fff_ffff;
/// What hardware gives for a segment interrupt.
const DATA_SEGMENT: u16 = 0x380;
/// 0x700.
const PROGRAM: u16 = 0x700;
/// What hardware gives for a storage interrupt.
const DATA_STORAGE: u16 = 0x300;

/// What steps run on.
#[derive(Clone, Copy, Debug)]
pub struct StepsConfig {
    /// The vCPU's MMIO HPTE cache.
    pub cache: CacheDesign,
    /// The kernel.
    pub behaviour: KernelBehaviour,
    /// The guest's data byte order.
    pub endian: Endian,
    /// Order of the first table, 18 to 46.
    pub hpt_order: u32,
}

impl Default for StepsConfig {
    /// The kernel's cache, linux-6.12, little endian, a table of 256 KiB.
    fn default() -> Self {
        let (cache, behaviour) = (CacheDesign::KERNEL, KernelBehaviour::default());
        Self { cache, behaviour, endian: Endian::Little, hpt_order: 18 }
    }
}

/// A step that the simulator cannot perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The VM.
    #[error(transparent)]
    Vm(#[from] VmError),
    /// The word is no load or store whose address is known.
    #[error("step {step}: {word:#010x} is no load or store that steps can be made of")]
    Word {
        /// Which step of those given, from 0.
        step: usize,
        /// The instruction.
        word: u32,
    },
    /// An instruction that is not modelled there.
    #[error("step {step}: {name} is not modelled")]
    NotModelled {
        /// Which step of those given, from 0.
        step: usize,
        /// The mnemonic.
        name: &'static str,
    },
    /// slbmte beyond the SLB.
    #[error("step {step}: {source}")]
    Slb {
        /// Which step of those given, from 0.
        step: usize,
        /// How.
        source: SlbError,
    },
}

/// Whether KVM has set the table up for the guest to run (`mmu_ready`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mmu {
    Ready,
    /// Before the first run on a table: the VRMA is missing.
    ToBeSetUp,
}

/// An ioeventfd that was assigned.
struct Assigned {
    what: Ioeventfd,
    fd: Arc<Eventfd>,
    attached: bool,
}

/// Performs steps in the simulator.
pub struct SimSteps {
    vm: Vm,
    vcpu: Vcpu,
    mmu: Mmu,
    /// Written pages, by memslot and number within it.
    ram: FxHashMap<(u32, u64), Box<[u8]>>,
    eventfds: Vec<Assigned>,
    last: Option<(EffectiveAddr, Record)>,
}

impl SimSteps {
    /// A VM with an empty table and the runtime's memslot.
    ///
    /// # Errors
    /// No memory for the table, or an order out of range.
    pub fn new(config: &StepsConfig) -> Result<Self, StepError> {
        let StepsConfig { cache, behaviour, endian, hpt_order } = *config;
        let vm = Vm::new(VmConfig { hpt_order, page_shift: PAGE_SHIFT, behaviour })?;
        vm.set_memslot(RUNTIME_SLOT, GuestPhysAddr(0), RUNTIME_BYTES, PAGE_SHIFT).map_err(VmError::from)?;
        let vcpu = Vcpu::new(&vm, VcpuConfig { cache, endian, ..VcpuConfig::default() });
        let (ram, eventfds) = (FxHashMap::default(), Vec::new());
        Ok(Self { vm, vcpu, mmu: Mmu::ToBeSetUp, ram, eventfds, last: None })
    }

    /// The VM.
    #[must_use]
    pub const fn vm(&self) -> &Vm {
        &self.vm
    }

    /// The vCPU's MMIO HPTE cache, entry by entry.
    #[must_use]
    pub fn cache(&self) -> &[CacheEntry] {
        self.vcpu.cache().entries()
    }

    /// The VSID doubleword of the segment of `ea`, if it is in the SLB.
    #[must_use]
    pub fn segment(&self, ea: EffectiveAddr) -> Option<u64> {
        self.vcpu.slb.lookup(ea)
    }

    /// Effective address and record of the last access.
    #[must_use]
    pub const fn last(&self) -> Option<&(EffectiveAddr, Record)> {
        self.last.as_ref()
    }

    /// Performs the step that is number `step` of those given.
    fn step(&mut self, step: usize, what: &Step) -> Result<Answer, StepError> {
        let op = match what {
            Step::Vmm(op) => return Ok(Answer::Vmm { errno: self.vmm(op).err().map_or(0, Errno::number) }),
            Step::Guest(op) => op,
        };
        if self.mmu == Mmu::ToBeSetUp {
            // As in the kernel an entry in the way ends it, and nobody is told.
            let _ = self.vm.map_vrma();
            self.mmu = Mmu::Ready;
        }
        match op {
            GuestOp::Access(access) => return self.access(step, access).map(Answer::Access),
            GuestOp::Hcall { number, args } => {
                let result = self.vm.hcall(*number, *args);
                return Ok(Answer::Hcall { code: result.code, values: result.values });
            }
            GuestOp::Slbmte { rs, rb } => {
                let entry = SlbEntry { esid: *rb, vsid: *rs };
                self.vcpu.slb.slbmte(entry).map_err(|source| StepError::Slb { step, source })?;
            }
            GuestOp::Slbie { rb } => self.vcpu.slb.slbie(EffectiveAddr(rb & SLBIE_ESID)),
            GuestOp::Mtamr { value } => self.vcpu.amr = *value,
        }
        Ok(Answer::Done)
    }

    fn access(&mut self, step: usize, access: &GuestAccess) -> Result<AccessSeen, StepError> {
        const RT: usize = GuestAccess::RT as usize;
        const RA: usize = GuestAccess::RA as usize;
        self.vcpu.gpr[RT] = access.rt;
        self.vcpu.gpr[RA] = access.ra;
        self.vcpu.gpr[GuestAccess::RB as usize] = access.rb;
        let insn = decode(access.word);
        let ea = effective_address(access);
        let (Some(insn), Some(ea)) = (insn, ea) else { return Err(StepError::Word { step, word: access.word }) };
        let record = self.vcpu.access(&self.vm, &Access::new(ea, insn.direction(), access.word));
        self.last = Some((ea, record));
        let (mut exit, mut end) = (None, End::Completed);
        match record.outcome {
            Outcome::Kernel { .. } => {}
            Outcome::Exit(seen) => {
                let mut data = seen.data;
                if seen.direction == Direction::Load {
                    data = answer_to_load(seen.gpa);
                    self.vcpu.complete_load(&data);
                }
                data[usize::from(seen.len)..].fill(0);
                exit = Some(ExitSeen { gpa: seen.gpa, direction: seen.direction, len: seen.len, data });
            }
            Outcome::Reflected(Interrupt::DataStorage { dsisr, dar }) => {
                end = End::Interrupt { vector: DATA_STORAGE, dsisr, dar: dar.0 };
            }
            Outcome::Reflected(Interrupt::DataSegment { dar }) => {
                end = End::Interrupt { vector: DATA_SEGMENT, dsisr: 0, dar: dar.0 };
            }
            Outcome::Reflected(Interrupt::Program) => end = End::Interrupt { vector: PROGRAM, dsisr: 0, dar: 0 },
            Outcome::Reflected(Interrupt::Unavailable(facility)) => {
                end = End::Interrupt { vector: facility.vector(), dsisr: 0, dar: 0 };
            }
            Outcome::Ram { gpa } => match insn {
                Insn::Access(_) => self.ram_access(&insn, gpa, ea),
                _ => return Err(StepError::NotModelled { step, name: insn.name() }),
            },
            Outcome::RetriesForever(_) => end = End::Retries,
        }
        let lookup = match record.cache {
            CacheUse::None => Lookup::NotMmio,
            CacheUse::Hit => Lookup::Hit,
            CacheUse::Miss(_) => Lookup::Miss,
        };
        Ok(AccessSeen { end, exit, lookup, rt: self.vcpu.gpr[RT], ra: self.vcpu.gpr[RA], ticks: None })
    }

    /// What hardware does once it has the address: moves the data and updates RA.
    fn ram_access(&mut self, insn: &Insn, gpa: GuestPhysAddr, ea: EffectiveAddr) {
        let Insn::Access(access) = insn else { return };
        let Some((base, _, slot)) = self.vm.memslot_at(gpa) else { return };
        let offset = gpa.0 - base.base(PAGE_SHIFT).0;
        let (page, at) = ((slot, offset / PAGE), index(offset % PAGE));
        let (endian, rt) = (self.vcpu.endian(), usize::from(access.rt & 31));
        // An access that is not aligned may leave its page: its rest is zero, and lost.
        match access.direction {
            Direction::Store => {
                let (data, bytes) = store_bytes(self.vcpu.gpr[rt], access, endian);
                let frame = self.ram.entry(page).or_insert_with(|| vec![0; index(PAGE)].into_boxed_slice());
                for (place, byte) in frame[at..].iter_mut().zip(&data[..bytes]) {
                    *place = *byte;
                }
            }
            Direction::Load => {
                let mut data = [0; 8];
                if let Some(frame) = self.ram.get(&page) {
                    for (byte, place) in data.iter_mut().zip(&frame[at..]) {
                        *byte = *place;
                    }
                }
                self.vcpu.gpr[rt] = load_value(&data, access, endian);
            }
        }
        if access.update {
            self.vcpu.gpr[usize::from(access.ra & 31)] = ea.0;
        }
    }

    /// One step of the VMM; the error is its errno.
    fn vmm(&mut self, op: &VmmOp) -> Result<(), Errno> {
        match *op {
            VmmOp::SetMemslot { id, base, size, dirty_log } => {
                self.vm.set_memory_region(id, base, size, PAGE_SHIFT, Some(dirty_log)).map_err(|e| e.code())
            }
            VmmOp::DeleteMemslot { id } => {
                self.vm.delete_memslot(id).map_err(|e| e.code())?;
                self.ram.retain(|(slot, _), _| *slot != id);
                Ok(())
            }
            VmmOp::PageOut { gpa } => {
                let (base, _, slot) = self.vm.memslot_at(gpa).ok_or(Errno::Invalid)?;
                self.vm.page_out(gpa).ok_or(Errno::Invalid)?;
                self.ram.remove(&(slot, gpa.gfn(PAGE_SHIFT).0 - base.0));
                Ok(())
            }
            VmmOp::PageIn { gpa } => self.vm.page_in(gpa).ok_or(Errno::Invalid),
            VmmOp::AllocateHtab { order } => {
                self.vm.install_hpt(order).map_err(|e| e.code())?;
                self.mmu = Mmu::ToBeSetUp;
                Ok(())
            }
            VmmOp::ResizeHpt { order } => self.resize(order),
            VmmOp::WriteHtab { index, entry } => self.vm.write_htab(index, entry).map_err(|e| e.code()),
            VmmOp::Ioeventfd { gpa, length, datamatch, attach } => self.ioeventfd(gpa, length, datamatch, attach),
        }
    }

    fn resize(&self, order: u32) -> Result<(), Errno> {
        // PREPARE refuses the order before COMMIT asks whether a vCPU has run.
        if !(crate::kvm_hv::hpt::MIN_ORDER..=crate::kvm_hv::hpt::MAX_ORDER).contains(&order) {
            return Err(Errno::Invalid);
        }
        if self.mmu == Mmu::ToBeSetUp {
            return Err(Errno::Io);
        }
        self.vm.resize_hpt(order).map_err(|e| e.code())
    }

    fn ioeventfd(&mut self, gpa: GuestPhysAddr, len: u32, datamatch: Option<u64>, attach: Attach) -> Result<(), Errno> {
        let same = |it: &Ioeventfd| (it.addr, it.len, it.datamatch) == (gpa.0, len, datamatch);
        match attach {
            Attach::Assign => {
                let fd = self.vm.io().create_eventfd();
                let what = Ioeventfd { bus: IoBus::Mmio, addr: gpa.0, len, datamatch, fd: fd.id() };
                self.vm.io().assign(what).map_err(|e| e.code())?;
                self.eventfds.push(Assigned { what, fd, attached: true });
            }
            Attach::Deassign => {
                let found = self.eventfds.iter_mut().find(|it| it.attached && same(&it.what));
                let found = found.ok_or(Errno::NoEntry)?;
                self.vm.io().deassign(found.what).map_err(|e| e.code())?;
                found.attached = false;
            }
        }
        Ok(())
    }
}

impl StepExecutor for SimSteps {
    type Error = StepError;

    fn perform(&mut self, steps: &[Step]) -> Result<Vec<Answer>, StepError> {
        steps.iter().enumerate().map(|(number, step)| self.step(number, step)).collect()
    }

    fn table(&mut self) -> Result<Vec<(PteIndex, Hpte)>, StepError> {
        let hpt = self.vm.hpt();
        let seen = hpt.used().map(|(at, hpte, guest_r)| {
            let rc = if hpte.v & HPTE_V_VALID != 0 { hpte.r & (HPTE_R_R | HPTE_R_C) } else { 0 };
            (at, Hpte { v: hpte.v & !HPTE_V_ABSENT | HPTE_V_VALID, r: (guest_r | rc) & !HPTE_GR_RESERVED })
        });
        Ok(seen.collect())
    }

    fn eventfds(&mut self) -> Result<Vec<u64>, StepError> {
        Ok(self.eventfds.iter().map(|it| it.fd.count()).collect())
    }
}
