//! A hash guest that performs steps on a real kernel.

use std::time::Duration;

use crate::addr::PteIndex;
use crate::book3s::Hpte;
use crate::host::shared::Alarm;
use crate::host::{Deadline, HostError};
use crate::workload::script::effective_address;
use crate::workload::steps::{
    AccessSeen, Answer, End, ExitSeen, GuestOp, HcallMode, Lookup, RUNTIME_SLB, STUB_EA, Step, StepExecutor,
};

use super::attribute::{Window, lookup};
use super::host_table;
use super::program::{self, AFTER_ACCESS, ENTRY, HCALL_END, MSR_OFF, SLOT};
use super::record::{CAPACITY, Field, Order, Queue};
use super::system::System;
use super::tracer::Tracer;
use super::vcpu::{Exit, Vcpu};
use super::vm::Vm;

/// How often progress is looked at, in time that this thread (and with it the guest) ran.
const TICK: Duration = Duration::from_millis(20);
/// Looks without progress after which an access is said to retry for ever. It needs some microseconds.
const LOOKS: u32 = 3;
/// How long a batch may take in all.
const LIMIT: Duration = Duration::from_secs(120);

/// Whether hits are told from misses, which costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracing {
    /// By the kernel's trace.
    On,
    /// Not.
    Off,
}

/// A hash guest of one vCPU.
#[derive(Debug)]
pub struct HashGuest {
    // In this order they go: the vCPU before the VM, the VM before its memory.
    vcpu: Vcpu,
    vm: Vm,
    tracer: Result<Tracer, String>,
}

/// What the VMM saw of a batch.
#[derive(Debug)]
struct Seen {
    exits: Vec<Option<ExitSeen>>,
    given_up: Vec<bool>,
}

impl HashGuest {
    /// A guest with an empty table of `2^order` bytes.
    ///
    /// # Errors
    /// No hash guest on this host, or no memory for its table.
    pub fn new(system: &System, order: u32, tracing: Tracing) -> Result<Self, HostError> {
        let vm = Vm::new(system, order)?;
        for block in program::program() {
            vm.runtime()?.write(block.at, &block.bytes())?;
        }
        let vcpu = Vcpu::new(system, &vm.fd)?;
        vcpu.go_to(ENTRY, MSR_OFF)?;
        let tracer = match tracing {
            Tracing::On => Tracer::start().map_err(|error| format!("hits cannot be told from misses: {error}")),
            Tracing::Off => Err("not traced".to_owned()),
        };
        Ok(Self { vcpu, vm, tracer })
    }

    /// Why [`Lookup::Unseen`] is all that accesses say, if so.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        self.tracer.as_ref().err().map(String::as_str)
    }

    /// Where this host's kernel takes the guest's hypercalls. In real mode a memslot with a dirty log is refused.
    #[must_use]
    pub const fn hcall_mode(&self) -> HcallMode {
        self.vm.hcalls
    }

    /// Entries as the host has them, by debugfs: the host's doublewords, and the guest's second one.
    ///
    /// # Errors
    /// No debugfs, or no rights to it.
    pub fn host_table(&self) -> Result<Vec<(PteIndex, Hpte, u64)>, HostError> {
        host_table::read(&self.vm.fd, self.vm.maker)
    }

    fn batch(&mut self, orders: &[Order]) -> Result<Seen, HostError> {
        let queue = Queue(self.vm.runtime()?);
        for (index, order) in orders.iter().chain([&Order::End]).enumerate() {
            queue.write(index, order)?;
        }
        if let Ok(tracer) = &self.tracer {
            tracer.clear()?;
        }
        // Time that is spent running: a loaded machine is not taken for a guest that stands still.
        // Timed stores are left alone.
        let timed = matches!(orders, [Order::Stores { .. }]);
        let _ticks = if timed { None } else { Some(Alarm::new(libc::CLOCK_THREAD_CPUTIME_ID, TICK, TICK)?) };
        let deadline = Deadline::after(LIMIT)?;
        let mut seen = Seen { exits: vec![None; orders.len()], given_up: vec![false; orders.len()] };
        let (mut current, mut looks, mut stood_at) = (0, 0, usize::MAX);
        loop {
            let exit = self.vcpu.run()?;
            let queue = Queue(self.vm.runtime()?);
            while current < orders.len() && queue.get(current, Field::Done, 0)? != 0 {
                current += 1;
            }
            match exit {
                Exit::Hcall(number) if number == u64::from(HCALL_END) && current == orders.len() => return Ok(seen),
                // One of the guest's own that the kernel does not know: answered.
                Exit::Hcall(_) => {}
                Exit::Mmio(exit) => match seen.exits.get_mut(current) {
                    Some(of @ None) => *of = Some(exit),
                    Some(Some(_)) if matches!(orders[current], Order::Stores { .. }) => {}
                    _ => return Err(HostError::Wrong(format!("one access exits twice, the second time as {exit:?}"))),
                },
                Exit::Signal => {
                    deadline.check(|| self.vcpu.place())?;
                    looks = if stood_at == current { looks + 1 } else { 1 };
                    stood_at = current;
                    let regs = self.vcpu.regs()?;
                    if looks >= LOOKS && regs.pc == SLOT && current < orders.len() {
                        self.vcpu.go_to(AFTER_ACCESS, MSR_OFF)?;
                        seen.given_up[current] = true;
                        looks = 0;
                    }
                }
            }
        }
    }

    fn answers(&self, ops: &[GuestOp], seen: &Seen) -> Result<Vec<Answer>, HostError> {
        let lines = self.tracer.as_ref().ok().map(Tracer::lines).transpose()?;
        let queue = Queue(self.vm.runtime()?);
        let answer = |(index, op): (usize, &GuestOp)| {
            let get = |field, n| queue.get(index, field, n);
            let (before, after) = (get(Field::Before, 0)?, get(Field::After, 0)?);
            Ok(match op {
                GuestOp::Access(access) => {
                    let end = if seen.given_up[index] {
                        End::Retries
                    } else {
                        interrupt(
                            [Field::Vector, Field::Dsisr, Field::Dar, Field::Srr0, Field::Srr1]
                                .map(|field| get(field, 0)),
                        )?
                    };
                    let window = Window { before, after, ea: effective_address(access) };
                    Answer::Access(AccessSeen {
                        end,
                        exit: seen.exits[index],
                        lookup: lines.as_ref().map_or(Lookup::Unseen, |lines| lookup(lines, &window)),
                        rt: get(Field::Out, 0)?,
                        ra: get(Field::Out, 1)?,
                        ticks: Some(after.wrapping_sub(before)),
                    })
                }
                _ if get(Field::Vector, 0)? != 0 => {
                    let (vector, at) = (get(Field::Vector, 0)?, get(Field::Srr0, 0)?);
                    let what = format!("{op:x?} ended in interrupt {vector:#x} at {at:#x}");
                    return Err(HostError::Wrong(what));
                }
                GuestOp::Hcall { .. } => {
                    let mut values = [0; 9];
                    for (n, value) in (1..).zip(&mut values) {
                        *value = get(Field::Out, n)?;
                    }
                    Answer::Hcall { code: get(Field::Out, 0)? as i64, values }
                }
                GuestOp::Slbmte { .. } | GuestOp::Slbie { .. } | GuestOp::Mtamr { .. } => Answer::Done,
            })
        };
        ops.iter().enumerate().map(answer).collect()
    }

    fn guest_steps(&mut self, ops: &[GuestOp], answers: &mut Vec<Answer>) -> Result<(), HostError> {
        for ops in ops.chunks(CAPACITY) {
            let orders: Vec<_> = ops.iter().copied().map(Order::Guest).collect();
            let seen = self.batch(&orders)?;
            answers.extend(self.answers(ops, &seen)?);
        }
        Ok(())
    }

    /// Stores to `base + offset`, one after another, `warm` of them before the time is taken. Returns ticks of the time base for
    /// `offsets.len()` of them.
    ///
    /// The stub's segment and pages, and those that are stored to, must have been entered.
    ///
    /// # Errors
    /// More than fit; or a store ends in an interrupt.
    pub(super) fn timed_stores(&mut self, base: u64, offsets: &[u32], warm: u64) -> Result<u64, HostError> {
        let count = offsets.len() as u64;
        if count == 0 || count > program::MAX_OFFSETS || !(1..=count).contains(&warm) {
            let what = format!("{count} timed stores with {warm} before them: 1 to {} fit", program::MAX_OFFSETS);
            return Err(HostError::Unsupported(what));
        }
        let bytes: Vec<_> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        self.vm.runtime()?.write(program::OFFSETS, &bytes)?;
        self.batch(&[Order::Stores { base, warm, count }])?;
        let queue = Queue(self.vm.runtime()?);
        let vector = queue.get(0, Field::Vector, 0)?;
        if vector != 0 {
            let at = queue.get(0, Field::Dar, 0)?;
            return Err(HostError::Wrong(format!("a timed store ended in interrupt {vector:#x}, DAR {at:#x}")));
        }
        Ok(queue.get(0, Field::After, 0)?.wrapping_sub(queue.get(0, Field::Before, 0)?))
    }
}

/// How an access ended, by what its record says.
///
/// DSISR and DAR are defined for a data storage and an alignment interrupt, DAR for a data segment interrupt too. An interrupt
/// of the fetch has its reasons in SRR1, in the same bits, and its address in SRR0.
fn interrupt(fields: [Result<u64, crate::host::OutOfRange>; 5]) -> Result<End, HostError> {
    /// SRR1 bits 33 to 36 and 42 to 47, which say why (Power ISA 2.07 Book III-S, 6.5.5).
    const SRR1_REASON: u64 = 0x783f_0000;
    let [vector, dsisr, dar, srr0, srr1] = fields;
    let vector = vector?;
    if vector == 0 {
        return Ok(End::Completed);
    }
    let vector =
        u16::try_from(vector).map_err(|_| HostError::Nonsense { what: format!("interrupt vector {vector:#x}") })?;
    let (dsisr, dar) = match vector {
        0x300 | 0x600 => (dsisr?, dar?),
        0x380 => (0, dar?),
        0x400 => (srr1? & SRR1_REASON, srr0?),
        0x480 => (0, srr0?),
        _ => (0, 0),
    };
    Ok(End::Interrupt { vector, dsisr: u32::try_from(dsisr).unwrap_or(u32::MAX), dar })
}

impl StepExecutor for HashGuest {
    type Error = HostError;

    fn perform(&mut self, steps: &[Step]) -> Result<Vec<Answer>, HostError> {
        let mut answers = Vec::with_capacity(steps.len());
        let mut waiting = Vec::new();
        for step in steps {
            match step {
                Step::Guest(op) => waiting.push(*op),
                Step::Vmm(op) => {
                    self.guest_steps(&std::mem::take(&mut waiting), &mut answers)?;
                    answers.push(Answer::Vmm { errno: self.vm.perform(op)? });
                }
            }
        }
        self.guest_steps(&waiting, &mut answers)?;
        Ok(answers)
    }

    fn table(&mut self) -> Result<Vec<(PteIndex, Hpte)>, HostError> {
        self.vm.table()
    }

    fn eventfds(&mut self) -> Result<Vec<u64>, HostError> {
        self.vm.eventfds()
    }
}

// The stub lies where the contract says, and slot 0 is the runtime's.
const _: () = assert!(SLOT == STUB_EA.0 + 8 && RUNTIME_SLB == 0);
