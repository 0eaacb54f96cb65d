//! A vCPU's side: one instruction, run until it exits to user space or is done.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::addr::Port;
use crate::io::{BusWrite, DeviceModel, IoBus, IoReader, IoSpace};

use super::access::Instruction;
use super::exit::{Direction, End, Handled, Target, UserExit};
use super::mmio::Part;
use super::platform::Platform;
use super::stage::{Stage, StageCounts};

/// Bytes of a page: what an exit's data has room for, and where MMIO accesses are split.
pub(super) const PAGE: u64 = 4096;

/// One vCPU. It owns nothing of the VM but its view of the buses and the page that exits hand their data over in.
pub struct Vcpu {
    pub(super) reader: IoReader,
    pub(super) platform: Arc<Platform>,
    pub(super) data: Box<[u8]>,
    pub(super) exit_bytes: usize,
}

/// What one [`Vcpu::run`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The stages gone through.
    pub stages: StageCounts,
    /// Elements that did not need user space.
    pub handled: Handled,
    /// How it ended.
    pub end: End,
}

/// What is left to do of an instruction when it is run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// The guest executes it.
    Guest,
    /// User space has handled an exit of so many elements.
    User {
        /// Elements.
        elements: u32,
    },
    /// Nothing.
    Over,
}

/// An instruction under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pending {
    pub(super) insn: Instruction,
    pub(super) phase: Phase,
    /// Elements of a string that are done.
    pub(super) done: u64,
    /// What REP INS has read.
    pub(super) string: Vec<u8>,
    pub(super) value: [u8; 8],
    pub(super) parts: [Option<Part>; 2],
}

impl Pending {
    /// An instruction that the guest is about to execute.
    #[must_use]
    pub const fn new(insn: Instruction) -> Self {
        Self { insn, phase: Phase::Guest, done: 0, string: Vec::new(), value: [0; 8], parts: [None; 2] }
    }

    /// The instruction.
    #[must_use]
    pub const fn instruction(&self) -> &Instruction {
        &self.insn
    }

    /// What an IN or a load has read, zero-extended; 0 before it is done, and for every other instruction. A load that an
    /// ioeventfd on the fast MMIO bus took has read nothing: its register keeps what it had, and this is 0.
    #[must_use]
    pub const fn value(&self) -> u64 {
        u64::from_le_bytes(self.value)
    }

    /// What REP INS has read so far.
    #[must_use]
    pub fn string(&self) -> &[u8] {
        &self.string
    }

    /// Which way its data goes.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        match self.insn {
            Instruction::In { .. } | Instruction::Ins { .. } | Instruction::Load { .. } => Direction::Read,
            Instruction::Out { .. } | Instruction::Outs { .. } | Instruction::Store { .. } => Direction::Write,
        }
    }

    /// Where it goes.
    #[must_use]
    pub const fn target(&self) -> Target {
        match self.insn {
            Instruction::In { port, .. }
            | Instruction::Out { port, .. }
            | Instruction::Ins { port, .. }
            | Instruction::Outs { port, .. } => Target::Port(port),
            Instruction::Load { gpa, .. } | Instruction::Store { gpa, .. } => Target::Mmio(gpa),
        }
    }
}

/// Stages and takers of a run while it goes.
#[derive(Default)]
pub(super) struct Progress {
    pub stages: StageCounts,
    pub handled: Handled,
}

impl Progress {
    pub fn ends(self, end: End) -> Run {
        Run { stages: self.stages, handled: self.handled, end }
    }

    /// Into the guest again.
    pub fn enter(&mut self) {
        self.stages.add(Stage::PrepareEntry);
        self.stages.add(Stage::VmEntry);
    }
}

/// What became of an element that was offered to the kernel.
pub(super) enum Offer {
    Taken,
    User { ring_full: bool },
}

impl Vcpu {
    /// A vCPU on these buses, and with what it shares beside them.
    #[must_use]
    pub fn new(io: &IoSpace, platform: Arc<Platform>) -> Self {
        Self { reader: io.reader(), platform, data: vec![0; crate::addr::index(PAGE)].into(), exit_bytes: 0 }
    }

    /// The data of the last exit: for a write what the guest wrote, for a read what the guest will get (it holds whatever it
    /// held before, so user space fills all of it).
    pub fn exit_data(&mut self) -> &mut [u8] {
        &mut self.data[..self.exit_bytes]
    }

    /// Runs the instruction until it exits to user space, re-enters the guest in the middle of a string, or is done
    /// (one pass of `vcpu_run`). An instruction that is done stays so.
    pub fn run(&mut self, pending: &mut Pending) -> Run {
        match pending.insn {
            Instruction::In { port, width } => self.run_in(pending, port, width.bytes()),
            Instruction::Out { port, width, value } => {
                self.run_out(pending, port, &value.to_le_bytes()[..width.bytes()])
            }
            Instruction::Ins { .. } | Instruction::Outs { .. } => self.run_string(pending),
            Instruction::Load { gpa, width } => self.run_mmio(pending, gpa, width.bytes(), None),
            Instruction::Store { gpa, width, value } => {
                self.run_mmio(pending, gpa, width.bytes(), Some(value.to_le_bytes()))
            }
        }
    }

    /// `kvm_fast_pio_in`.
    fn run_in(&mut self, pending: &mut Pending, port: Port, bytes: usize) -> Run {
        let mut progress = Progress::default();
        match pending.phase {
            Phase::Over => return progress.ends(End::Done),
            Phase::Guest => {
                progress.stages.add(Stage::VmExit);
                let mut data = [0; 4];
                if !self.offer_in(&mut progress, port, &mut data[..bytes]) {
                    pending.phase = Phase::User { elements: 1 };
                    return self.port_exit(progress, port, Direction::Read, bytes, 1, false);
                }
                pending.value[..bytes].copy_from_slice(&data[..bytes]);
            }
            Phase::User { .. } => {
                progress.stages.add(Stage::UserEntry);
                progress.stages.add(Stage::CompleteIo);
                pending.value[..bytes].copy_from_slice(&self.data[..bytes]);
            }
        }
        pending.phase = Phase::Over;
        progress.enter();
        progress.ends(End::Done)
    }

    /// `kvm_fast_pio_out`.
    fn run_out(&mut self, pending: &mut Pending, port: Port, data: &[u8]) -> Run {
        let mut progress = Progress::default();
        match pending.phase {
            Phase::Over => return progress.ends(End::Done),
            Phase::Guest => {
                progress.stages.add(Stage::VmExit);
                if let Offer::User { ring_full } = self.offer_out(&mut progress, port, data) {
                    pending.phase = Phase::User { elements: 1 };
                    self.data[..data.len()].copy_from_slice(data);
                    return self.port_exit(progress, port, Direction::Write, data.len(), 1, ring_full);
                }
            }
            Phase::User { .. } => progress.stages.add(Stage::UserEntry),
        }
        pending.phase = Phase::Over;
        progress.enter();
        progress.ends(End::Done)
    }

    pub(super) fn port_exit(
        &mut self,
        mut progress: Progress,
        port: Port,
        direction: Direction,
        size: usize,
        count: u32,
        ring_full: bool,
    ) -> Run {
        progress.stages.add(Stage::UserExit);
        #[expect(clippy::cast_possible_truncation, reason = "1, 2 or 4")]
        let exit = UserExit { target: Target::Port(port), direction, size: size as u8, count, ring_full };
        self.exit_bytes = exit.bytes();
        progress.ends(End::Exit(exit))
    }

    /// An element read in the kernel, if a device there has it.
    pub(super) fn offer_in(&mut self, progress: &mut Progress, port: Port, data: &mut [u8]) -> bool {
        progress.stages.add(Stage::KernelIo);
        self.read_in_kernel(progress, IoBus::Pio, u64::from(port.0), data)
    }

    pub(super) fn read_in_kernel(&self, progress: &mut Progress, bus: IoBus, addr: u64, data: &mut [u8]) -> bool {
        let Some(device) = self.in_kernel(progress, bus, addr, data.len()) else { return false };
        data.fill(0xff);
        device.lock().read(addr, data);
        true
    }

    pub(super) fn in_kernel(
        &self,
        progress: &mut Progress,
        bus: IoBus,
        addr: u64,
        bytes: usize,
    ) -> Option<&Mutex<dyn DeviceModel>> {
        let device = self.platform.device(bus, addr, bytes)?;
        progress.stages.add(Stage::InKernelDevice);
        progress.handled.in_kernel += 1;
        Some(device)
    }

    /// An element written to a port: taken in the kernel, or left to user space.
    pub(super) fn offer_out(&mut self, progress: &mut Progress, port: Port, data: &[u8]) -> Offer {
        progress.stages.add(Stage::KernelIo);
        if let Some(device) = self.in_kernel(progress, IoBus::Pio, u64::from(port.0), data.len()) {
            device.lock().write(u64::from(port.0), data);
            return Offer::Taken;
        }
        taken(progress, self.reader.pio_write(port.0, data))
    }
}

pub(super) fn taken(progress: &mut Progress, write: BusWrite) -> Offer {
    match write {
        BusWrite::Eventfd(_) => {
            progress.stages.add(Stage::EventfdSignal);
            progress.handled.eventfd += 1;
            Offer::Taken
        }
        BusWrite::Coalesced => {
            progress.stages.add(Stage::RingStore);
            progress.handled.coalesced += 1;
            Offer::Taken
        }
        BusWrite::Unhandled { ring_full } => Offer::User { ring_full },
    }
}

impl std::fmt::Debug for Vcpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vcpu").field("platform", &self.platform).finish_non_exhaustive()
    }
}
