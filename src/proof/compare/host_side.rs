//! The real kernel's side.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::addr::Errno;
use crate::addr::Port;
use crate::host::x86_64::{CODE, Deadline, ECAM, HostError, HostEventfd, MappedRing, Mapping, System, Vcpu, Vm};
use crate::io::{Entry, Ioeventfd, RingError};
use crate::kvm_x86::{Instruction, Target, UserExit};

use super::program::{self, CHECKPOINT, Reads};
use super::sim_side::Behind;
use super::stream::{Change, EVENTFDS, SLOT_BYTES, Stream};

/// What a real guest came out with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostEvent {
    Exit(UserExit),
    /// The batch is over.
    Checkpoint,
}

pub(super) struct HostSide {
    vcpu: Vcpu,
    vm: Vm,
    pub ring: MappedRing,
    behind: Behind,
    eventfds: Vec<HostEventfd>,
    slot: Arc<Mapping>,
    deadline: Deadline,
    reads: Vec<Reads>,
}

impl HostSide {
    /// A VM whose guest waits for its first batch.
    pub fn new(system: &System, stream: &Stream, limit: Duration) -> Result<Self, HostError> {
        let vm = Vm::new(system)?;
        let slot = Mapping::anonymous(SLOT_BYTES.into()).map_err(|source| HostError::Call { what: "mmap", source })?;
        let slot = Arc::new(slot);
        vm.add_read_only(ECAM, Arc::clone(&slot))?;
        vm.load(CODE, &program::stub())?;
        let vcpu = vm.vcpu(system, 0, CODE)?;
        let ring = vcpu.ring()?;
        ring.write_first(stream.start_index);
        ring.write_last(stream.start_index);
        let eventfds = (0..EVENTFDS).map(|_| HostEventfd::new()).collect::<Result<_, _>>()?;
        let behind = Behind::new(stream.devices).map_err(|error| HostError::Unsupported(error.to_string()))?;
        let deadline = Deadline::after(limit)?;
        let mut side = Self { vcpu, vm, ring, behind, eventfds, slot, deadline, reads: Vec::new() };
        match side.next()? {
            HostEvent::Checkpoint => Ok(side),
            HostEvent::Exit(exit) => {
                Err(HostError::Nonsense { what: format!("the guest's first exit is {exit:?}, and not its stub's") })
            }
        }
    }

    /// Performs a change; the errno's name if it was refused.
    pub fn change(&self, change: Change) -> Result<Option<&'static str>, HostError> {
        let fd = |ioeventfd: Ioeventfd| &self.eventfds[ioeventfd.fd.0 as usize];
        match change {
            Change::Register(zone) => refused(self.vm.register_zone(zone)),
            Change::Unregister(zone) => refused(self.vm.unregister_zone(zone)),
            Change::Assign(ioeventfd) => refused(self.vm.assign(&ioeventfd, fd(ioeventfd))),
            Change::Deassign(ioeventfd) => refused(self.vm.deassign(&ioeventfd, fd(ioeventfd))),
            Change::Drain => {
                self.behind.user.drain(Some(&*self.ring))?;
                Ok(None)
            }
            Change::Own { offset, value } => {
                self.slot.write(offset.into(), &[value])?;
                Ok(None)
            }
            Change::Time(ns) => {
                self.behind.advance_to(ns);
                Ok(None)
            }
        }
    }

    /// Gives the guest, which waits at its stub, its next batch.
    pub fn load(&mut self, accesses: &[Instruction]) -> Result<(), HostError> {
        self.reads = program::load(self.vm.ram(), accesses)?;
        Ok(())
    }

    /// Runs the guest to its next exit.
    pub fn next(&mut self) -> Result<HostEvent, HostError> {
        let exit = self.vcpu.run(&self.deadline)?;
        let checkpoint = exit.target == Target::Port(Port(CHECKPOINT));
        Ok(if checkpoint { HostEvent::Checkpoint } else { HostEvent::Exit(exit) })
    }

    pub fn exit_data(&mut self) -> &mut [u8] {
        self.vcpu.exit_data()
    }

    pub fn handle(&mut self, exit: &UserExit) -> Result<u32, HostError> {
        Ok(self.behind.user.handle(Some(&*self.ring), exit, self.vcpu.exit_data())?)
    }

    pub fn waiting(&self) -> Result<Vec<Entry>, RingError> {
        self.ring.waiting()
    }

    /// Takes every eventfd's count.
    pub fn counts(&self) -> Result<Vec<u64>, HostError> {
        self.eventfds.iter().map(HostEventfd::take).collect()
    }

    /// What an access of this batch read.
    pub fn read(&self, number: usize) -> Result<Vec<u8>, HostError> {
        program::what_was_read(self.vm.ram(), self.reads.get(number).copied().unwrap_or(Reads::Nothing))
    }

    /// RIP, and how many accesses the guest has begun.
    pub fn stands_at(&self) -> Result<(u64, u64), HostError> {
        let regs = self.vcpu.regs()?;
        Ok((regs.rip, regs.r15))
    }
}

/// The name of a refusal's errno; errors that no change of a stream can have are errors here.
fn refused(result: io::Result<()>) -> Result<Option<&'static str>, HostError> {
    let Err(source) = result else { return Ok(None) };
    /// What the buses are refused with.
    const KNOWN: [Errno; 5] = [Errno::Invalid, Errno::Exists, Errno::NoEntry, Errno::BadFile, Errno::NoSpace];
    match source.raw_os_error().and_then(Errno::of).filter(|errno| KNOWN.contains(errno)) {
        Some(errno) => Ok(Some(errno.name())),
        None => Err(HostError::Call { what: "a change of the buses", source }),
    }
}
