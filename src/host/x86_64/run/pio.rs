//! A stream of port accesses.

use crate::host::record::HostRun;
use crate::host::x86_64::{Asm, DATA, HostError, Reg, System};
use crate::io::{CoalescedZone, DeviceModel, IoBus};
use crate::kvm_x86::{Instruction, StringStep};
use crate::workload::ports::{PioStream, PortDirection, PortMode};

use super::execute::{Plan, Regs, Signal, execute};
use super::{Told, Way, record};

/// A device that has nothing to do: what is timed is the way to it.
struct Register(u8);

impl DeviceModel for Register {
    fn read(&mut self, _addr: u64, data: &mut [u8]) {
        data.fill(self.0);
    }

    fn write(&mut self, _addr: u64, data: &[u8]) {
        self.0 = data.first().copied().unwrap_or(0);
    }
}

/// Ports of the device: an access of any width at the first of them is its own.
const PORTS: u32 = 4;
/// Bytes of a string: what the guest's memory has room for.
const MOST_STRING: u64 = 4 << 20;

pub(super) fn run(system: &System, way: &Way<'_>, stream: &PioStream, mode: PortMode) -> Result<HostRun, HostError> {
    let elements = u64::from(stream.string);
    let bytes = elements * stream.width.bytes() as u64;
    if bytes > MOST_STRING {
        return Err(HostError::Unsupported(format!("a string of {bytes} bytes: on a host at most {MOST_STRING}")));
    }
    let count = stream.count.min((way.limits.accesses / elements).max(1));
    let mut asm = Asm::new();
    asm.mov(Reg::R12, count);
    let again = asm.label();
    asm.perform(&instruction(stream), DATA).repeat(Reg::R12, again);
    let mut plan = Plan::new(vec![asm]);
    plan.data = vec![0; crate::addr::index(bytes)];
    plan.user.attach(IoBus::Pio, stream.port.0.into(), PORTS.into(), Box::new(Register(0)));
    let mut told = Told::new("port accesses/s", count * elements);
    match mode {
        PortMode::RegsEveryExit => plan.regs = Regs::EveryExit,
        PortMode::RegsWhenNeeded => {}
        PortMode::Coalesced => {
            plan.zones.push(CoalescedZone { addr: stream.port.0.into(), size: PORTS, pio: 1 });
        }
        PortMode::InKernel => {
            let len = u32::try_from(stream.width.bytes()).unwrap_or(0);
            plan.signals.push(Signal { bus: IoBus::Pio, addr: stream.port.0.into(), len });
            told.notes.push("in-kernel: an ioeventfd stands for the device in the kernel".to_owned());
        }
    }
    if count < stream.count {
        told.notes.push(format!("{count} of the scenario's {} accesses were run: --accesses", stream.count));
    }
    if stream.gap_ns > 0 {
        told.notes.push("gap_ns is the simulator's: this guest makes its accesses one after the other".to_owned());
    }
    let done = execute(system, plan, way.limits.time)?;
    // A string read is one exit for many elements.
    let batched = if stream.direction == PortDirection::In { told.accesses.saturating_sub(done.exits) } else { 0 };
    if elements > 1 && batched > 0 {
        told.notes.push(format!("REP INS: {} exits for {} elements", done.exits, told.accesses));
        told.accesses = done.exits;
    }
    record(way, &done, 1, told)
}

fn instruction(stream: &PioStream) -> Instruction {
    let (port, width) = (stream.port, stream.width);
    match (stream.direction, stream.string) {
        (PortDirection::Out, 1) => Instruction::Out { port, width, value: 0 },
        (PortDirection::In, 1) => Instruction::In { port, width },
        (PortDirection::Out, count) => Instruction::Outs { port, width, data: vec![0; width.bytes() * count as usize] },
        (PortDirection::In, count) => {
            Instruction::Ins { port, width, count: count.into(), page_offset: 0, step: StringStep::Up }
        }
    }
}
