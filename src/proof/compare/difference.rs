//! Where two sides differ, and how each stood there.

use std::fmt;

use serde::Serialize;

use crate::io::{CoalescedZone, Device, Entry, Ioeventfd};
use crate::kvm_x86::{Direction, Instruction, StringStep, Target, UserExit};

/// A side's state where it differed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SideState {
    /// What it did.
    pub did: String,
    /// The ring's `first`.
    pub first: u32,
    /// The ring's `last`.
    pub last: u32,
    /// Entries that wait there: address, pio flag and data of each, oldest first.
    pub waiting: Vec<String>,
    /// Whatever else tells how it stood: devices on the buses, or registers.
    pub more: String,
}

/// The first difference of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The stream's seed: `hvmmio compare --streams 1 --seed` this repeats it.
    pub seed: u64,
    /// Batch, counted from 0.
    pub batch: usize,
    /// Access within the stream, counted from 0; the last of its batch where only the batch is known.
    pub access: u64,
    /// The access or change.
    pub at: String,
    /// What differs.
    pub what: &'static str,
    /// The simulator.
    pub simulated: SideState,
    /// The real kernel.
    pub real: SideState,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "stream of seed {}, batch {}, access {}: {} differs",
            self.seed, self.batch, self.access, self.what
        )?;
        writeln!(f, "  at         {}", self.at)?;
        for (name, side) in [("simulated", &self.simulated), ("real", &self.real)] {
            writeln!(f, "  {name:<10} {}", side.did)?;
            let (first, last, waiting) = (side.first, side.last, side.waiting.len());
            writeln!(f, "             ring first {first}, last {last}, {waiting} waiting{}", shown(&side.waiting))?;
            writeln!(f, "             {}", side.more)?;
        }
        Ok(())
    }
}

/// The last few entries: what went before was equal, or it would be the difference.
fn shown(waiting: &[String]) -> String {
    const SHOWN: usize = 4;
    let from = waiting.len().saturating_sub(SHOWN);
    if waiting.is_empty() { String::new() } else { format!(", the last: {}", waiting[from..].join("; ")) }
}

/// Bytes, the first 64 of them.
pub(super) fn hex(bytes: &[u8]) -> String {
    const SHOWN: usize = 64;
    let text: Vec<_> = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    let more = if bytes.len() > SHOWN { format!(" and {} more", bytes.len() - SHOWN) } else { String::new() };
    text.join(" ") + &more
}

/// An entry of the ring.
pub(super) fn entry_text(entry: &Entry) -> String {
    let kind = match entry.pio {
        0 => "MMIO".to_owned(),
        1 => "port".to_owned(),
        other => format!("pio {other}"),
    };
    format!("{kind} {:#x} <- {}", entry.addr, hex(entry.data()))
}

/// An exit.
pub(super) fn exit_text(exit: &UserExit) -> String {
    let place = match exit.target {
        Target::Port(port) => format!("port {:#x}", port.0),
        Target::Mmio(gpa) => format!("MMIO {:#x}", gpa.0),
    };
    let direction = match exit.direction {
        Direction::Read => "read",
        Direction::Write => "write",
    };
    let full = if exit.ring_full { ", the ring being full" } else { "" };
    format!("exits: {direction} of {} times {} bytes, {place}{full}", exit.count, exit.size)
}

/// An instruction.
pub(super) fn instruction_text(insn: &Instruction) -> String {
    match insn {
        Instruction::In { port, width } => format!("IN, port {:#x}, {} bytes", port.0, width.bytes()),
        Instruction::Out { port, width, value } => {
            format!("OUT, port {:#x}, {} bytes, value {value:#x}", port.0, width.bytes())
        }
        Instruction::Ins { port, width, count, page_offset, step } => {
            let step = match step {
                StringStep::Up => "upwards",
                StringStep::Down => "downwards",
            };
            let bytes = width.bytes();
            format!("REP INS, port {:#x}, {count} times {bytes} bytes {step} from {page_offset:#x} in its page", port.0)
        }
        Instruction::Outs { port, width, data } => {
            format!("REP OUTS, port {:#x}, {} times {} bytes", port.0, data.len() / width.bytes(), width.bytes())
        }
        Instruction::Load { gpa, width } => format!("load at {:#x}, {} bytes", gpa.0, width.bytes()),
        Instruction::Store { gpa, width, value } => {
            format!("store at {:#x}, {} bytes, value {value:#x}", gpa.0, width.bytes())
        }
    }
}

/// A device on a bus.
pub(super) fn device_text(device: &Device) -> String {
    match device {
        Device::Zone(CoalescedZone { addr, size, .. }) => format!("zone {addr:#x}+{size:#x}"),
        Device::Ioeventfd(Ioeventfd { addr, len, datamatch, fd, .. }) => {
            let data = datamatch.map_or_else(String::new, |data| format!(" of {data:#x}"));
            format!("{fd} at {addr:#x} length {len}{data}")
        }
    }
}
