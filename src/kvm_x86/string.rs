//! REP INS and REP OUTS: which elements share an exit.
//!
//! OUTS hands over one element at a time; each that goes to user space makes a whole exit (`em_out` offers one, and the
//! emulator does not go on after KVM_EXIT_IO). What the kernel takes stays in the emulator, up to every 1024th element left.
//! INS reads ahead: min(bytes to the page's end, 1024 / size, rCX) elements at once (`pio_in_emulated`), then re-enters the guest.
//! KVM compares the page's *bytes* with *elements*, so a read-ahead can reach beyond the page.

use crate::addr::Port;

use super::access::{Instruction, StringStep};
use super::exit::{Direction, End};
use super::stage::Stage;
use super::vcpu::{Offer, PAGE, Pending, Phase, Progress, Run, Vcpu};

/// Bytes of the emulator's read-ahead (`read_cache.data`).
const READ_AHEAD: u64 = 1024;
/// After so many elements the emulator lets the guest in, so that interrupts are taken.
const ITERATIONS: u64 = 1024;

impl Vcpu {
    pub(super) fn run_string(&mut self, pending: &mut Pending) -> Run {
        let mut progress = Progress::default();
        if pending.phase == Phase::Over || left(pending) == 0 {
            // With rCX = 0 the instruction does nothing and does not exit.
            pending.phase = Phase::Over;
            return progress.ends(End::Done);
        }
        if let Phase::User { elements } = pending.phase {
            return self.complete(pending, elements);
        }
        progress.stages.add(Stage::VmExit);
        match pending.insn {
            Instruction::Ins { port, width, .. } => self.read_ahead(pending, progress, port, width.bytes()),
            Instruction::Outs { port, width, .. } => self.write_on(pending, progress, port, width.bytes()),
            _ => progress.ends(End::Done),
        }
    }

    /// User space has handled its elements: into the guest, where the instruction may go on.
    fn complete(&mut self, pending: &mut Pending, elements: u32) -> Run {
        let mut progress = Progress::default();
        progress.stages.add(Stage::UserEntry);
        if let Instruction::Ins { width, .. } = pending.insn {
            progress.stages.add(Stage::CompleteIo);
            progress.stages.add(Stage::EmulateInsn);
            let bytes = width.bytes() * elements as usize;
            pending.string.extend_from_slice(&self.data[..bytes]);
        }
        pending.done += u64::from(elements);
        into_guest(pending, progress)
    }

    fn read_ahead(&mut self, pending: &mut Pending, mut progress: Progress, port: Port, size: usize) -> Run {
        progress.stages.add(Stage::EmulateInsn);
        let count = batch(pending, size);
        for element in 0..count {
            let mut data = [0; 4];
            // The same device answers for every element: only the first can find none.
            if !self.offer_in(&mut progress, port, &mut data[..size]) && element == 0 {
                pending.phase = Phase::User { elements: count };
                return self.port_exit(progress, port, Direction::Read, size, count, false);
            }
            pending.string.extend_from_slice(&data[..size]);
        }
        pending.done += u64::from(count);
        into_guest(pending, progress)
    }

    fn write_on(&mut self, pending: &mut Pending, mut progress: Progress, port: Port, size: usize) -> Run {
        loop {
            progress.stages.add(Stage::EmulateInsn);
            let mut element = [0; 4];
            if let Instruction::Outs { data, .. } = &pending.insn {
                let at = crate::addr::index(pending.done) * size;
                element[..size].copy_from_slice(&data[at..at + size]);
            }
            if let Offer::User { ring_full } = self.offer_out(&mut progress, port, &element[..size]) {
                pending.phase = Phase::User { elements: 1 };
                self.data[..size].copy_from_slice(&element[..size]);
                return self.port_exit(progress, port, Direction::Write, size, 1, ring_full);
            }
            pending.done += 1;
            if left(pending) % ITERATIONS == 0 {
                return into_guest(pending, progress);
            }
        }
    }
}

/// Elements that are not done.
fn left(pending: &Pending) -> u64 {
    let count = match &pending.insn {
        Instruction::Ins { count, .. } => *count,
        Instruction::Outs { width, data, .. } => (data.len() / width.bytes()) as u64,
        _ => 0,
    };
    count - pending.done
}

fn into_guest(pending: &mut Pending, mut progress: Progress) -> Run {
    progress.enter();
    let end = if left(pending) == 0 { End::Done } else { End::Reentered };
    pending.phase = if end == End::Done { Phase::Over } else { Phase::Guest };
    progress.ends(end)
}

/// Elements of the next read-ahead, 1 to 1024.
fn batch(pending: &Pending, size: usize) -> u32 {
    let Instruction::Ins { page_offset, step, .. } = pending.insn else { return 1 };
    let moved = pending.done.wrapping_mul(size as u64);
    let offset = match step {
        StringStep::Up => u64::from(page_offset).wrapping_add(moved) % PAGE,
        StringStep::Down => u64::from(page_offset).wrapping_sub(moved) % PAGE,
    };
    let in_page = match step {
        StringStep::Up => PAGE - offset,
        StringStep::Down => offset,
    };
    let elements = in_page.min(READ_AHEAD / size as u64).min(left(pending)).max(1);
    u32::try_from(elements).unwrap_or(1)
}
