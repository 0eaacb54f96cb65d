//! The guest's program: a stub that reports, and behind it each batch in its turn.
//!
//! ```text
//! CODE: out CHECKPOINT   <- user space writes the next batch behind the stub while the guest waits here
//!       jmp body
//! body: accesses, what they read saved to memory
//!       jmp CODE
//! ```

use crate::host::x86_64::{Asm, CODE, DATA, HostError, Mapping, Reg};
use crate::kvm_x86::{Instruction, PortWidth, StringStep};

/// The port by which the guest says that it is at the stub.
pub(super) const CHECKPOINT: u16 = 0xf6;

/// Where the values read are saved, 8 bytes each.
const VALUES: u64 = DATA;
/// Most accesses of a batch.
const MOST: usize = 1 << 16;
/// Where strings begin.
const STRINGS: u64 = VALUES + (MOST as u64) * 8;
/// Where they must end.
const STRINGS_END: u64 = CODE;
/// The counter of accesses begun, modulo 2^64.
pub(super) const COUNTER: Reg = Reg::R15;
const PAGE: u64 = 4096;
/// Room for the stub.
const BODY: u64 = CODE + 64;

/// The stub.
pub(super) fn stub() -> Vec<u8> {
    let mut asm = Asm::at(CODE);
    asm.out(CHECKPOINT, PortWidth::Byte, 0).jump_to(BODY);
    asm.code().to_vec()
}

/// Where an access leaves what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    Nothing,
    Value { at: u64 },
    String { at: u64, bytes: usize, element: usize, step: StringStep },
}

/// Writes a batch behind the stub, and its strings into memory; returns where each access leaves what it reads.
pub(super) fn load(ram: &Mapping, accesses: &[Instruction]) -> Result<Vec<Reads>, HostError> {
    if accesses.len() > MOST {
        return Err(HostError::Unsupported(format!("{} accesses in a batch: at most {MOST}", accesses.len())));
    }
    let mut batch = BatchCode { asm: Asm::at(BODY), strings: STRINGS };
    let mut reads = Vec::new();
    for (number, access) in accesses.iter().enumerate() {
        reads.push(batch.access(ram, VALUES + number as u64 * 8, access)?);
    }
    batch.asm.jump_to(CODE);
    ram.write(BODY, batch.asm.code())?;
    Ok(reads)
}

struct BatchCode {
    asm: Asm,
    strings: u64,
}

impl BatchCode {
    fn access(&mut self, ram: &Mapping, value_at: u64, access: &Instruction) -> Result<Reads, HostError> {
        let at = self.strings;
        let (string, reads) = match access {
            Instruction::In { .. } | Instruction::Load { .. } => (at, Reads::Value { at: value_at }),
            Instruction::Out { .. } | Instruction::Store { .. } => (at, Reads::Nothing),
            Instruction::Outs { data, .. } => {
                self.take(data.len() as u64)?;
                ram.write(at, data)?;
                (at, Reads::Nothing)
            }
            Instruction::Ins { width, count, page_offset, step, .. } => {
                let bytes = crate::addr::index(count * width.bytes() as u64);
                let room = (bytes as u64).next_multiple_of(PAGE) + PAGE;
                self.take(2 * room + PAGE)?;
                let below = if *step == StringStep::Down { room } else { 0 };
                let at = at + u64::from(*page_offset) % PAGE + below;
                (at, Reads::String { at, bytes, element: width.bytes(), step: *step })
            }
        };
        self.asm.inc(COUNTER).perform(access, string);
        if matches!(reads, Reads::Value { .. }) {
            self.asm.save_rax(value_at);
        }
        Ok(reads)
    }

    fn take(&mut self, bytes: u64) -> Result<(), HostError> {
        let end = self.strings.saturating_add(bytes).next_multiple_of(PAGE);
        if end > STRINGS_END {
            let what = "the strings of a batch do not fit into the guest's memory: fewer or shorter ones";
            return Err(HostError::Unsupported(what.to_owned()));
        }
        self.strings = end;
        Ok(())
    }
}

/// What an access read, as the guest's memory has it.
pub(super) fn what_was_read(ram: &Mapping, reads: Reads) -> Result<Vec<u8>, HostError> {
    match reads {
        Reads::Nothing => Ok(Vec::new()),
        Reads::Value { at } => {
            let mut value = [0; 8];
            ram.read(at, &mut value)?;
            Ok(value.to_vec())
        }
        Reads::String { at, bytes, element, step } => {
            let mut string = vec![0; bytes];
            match step {
                StringStep::Up => ram.read(at, &mut string)?,
                StringStep::Down => {
                    for (number, place) in string.chunks_mut(element).enumerate() {
                        ram.read(at - (number * element) as u64, place)?;
                    }
                }
            }
            Ok(string)
        }
    }
}
