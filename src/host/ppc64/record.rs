//! The queue in guest memory: one record a guest operation, written by this side, completed by the guest.
//!
//! Doublewords, little-endian as the guest is.

use crate::host::{Mapping, OutOfRange};
use crate::workload::steps::{GuestAccess, GuestOp};

use super::program;

/// Where the queue begins, guest physical.
pub(super) const QUEUE: u64 = 0x20_0000;
/// Bytes of a record.
pub(super) const BYTES: u64 = 256;
/// The same, as an instruction has it.
pub(super) const STEP: i16 = 256;
/// Records of the queue, the end not counted: 1 MiB of the runtime's 16.
pub(super) const CAPACITY: usize = 4095;

/// A doubleword of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    /// Address of the code that performs it.
    Handler = 0,
    /// The instruction word of an access.
    Word = 1,
    /// First operand: r3 of a hypercall.
    In = 2,
    /// Time base before.
    Before = 12,
    /// Time base after.
    After = 13,
    /// First result: r3 of a hypercall, RT of an access.
    Out = 14,
    /// Vector of the interrupt that ended it, 0 without.
    Vector = 24,
    /// DSISR at the interrupt.
    Dsisr = 25,
    /// DAR at the interrupt.
    Dar = 26,
    /// SRR0 at the interrupt.
    Srr0 = 27,
    /// SRR1 at the interrupt.
    Srr1 = 28,
    /// 1 when it is complete.
    Done = 29,
}

impl Field {
    /// Offset in the record, in bytes, as instructions have it.
    pub const fn at(self) -> i16 {
        self.nth(0)
    }

    /// Offset of the `n`-th doubleword from this one.
    pub const fn nth(self, n: u8) -> i16 {
        (self as i16 + n as i16) * 8
    }
}

/// What there is to perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Guest(GuestOp),
    /// Stores to a list of offsets, timed in one piece ([`program::OFFSETS`]).
    Stores {
        /// Effective address that the offsets are added to.
        base: u64,
        /// Stores before the time is taken, at least 1.
        warm: u64,
        /// Stores that are timed, at least 1.
        count: u64,
    },
    /// The batch is over.
    End,
}

impl Order {
    /// Handler, instruction word and operands, as the program reads them.
    fn words(&self) -> (u64, u32, [u64; 10]) {
        let mut operands = [0; 10];
        let mut word = 0;
        let handler = match *self {
            Self::Guest(GuestOp::Access(GuestAccess { word: of, ra, rb, rt })) => {
                word = of;
                operands[..3].copy_from_slice(&[rt, ra, rb]);
                program::ACCESS
            }
            Self::Guest(GuestOp::Hcall { number, args }) => {
                operands[0] = number;
                operands[1..].copy_from_slice(&args);
                program::HCALL
            }
            Self::Guest(GuestOp::Slbmte { rs, rb }) => {
                operands[..2].copy_from_slice(&[rs, rb]);
                program::SLBMTE
            }
            Self::Guest(GuestOp::Slbie { rb }) => {
                operands[0] = rb;
                program::SLBIE
            }
            Self::Guest(GuestOp::Mtamr { value }) => {
                operands[0] = value;
                program::MTAMR
            }
            Self::Stores { base, warm, count } => {
                operands[..3].copy_from_slice(&[base, warm, count]);
                program::STORES
            }
            Self::End => program::END,
        };
        (handler, word, operands)
    }
}

/// The queue in a guest's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue<'a>(pub &'a Mapping);

impl Queue<'_> {
    /// Writes record `index`.
    pub fn write(&self, index: usize, order: &Order) -> Result<(), OutOfRange> {
        let (handler, word, operands) = order.words();
        let mut record = [0; crate::addr::index(BYTES)];
        let mut put = |field: Field, n: usize, value: u64| {
            let at = (field as usize + n) * 8;
            record[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        put(Field::Handler, 0, handler);
        put(Field::Word, 0, word.into());
        for (n, operand) in operands.into_iter().enumerate() {
            put(Field::In, n, operand);
        }
        self.0.write(QUEUE + index as u64 * BYTES, &record)
    }

    /// The `n`-th doubleword from a field on.
    pub fn get(&self, index: usize, field: Field, n: u8) -> Result<u64, OutOfRange> {
        let mut bytes = [0; 8];
        let offset = u64::from(field.nth(n).unsigned_abs());
        self.0.read(QUEUE + index as u64 * BYTES + offset, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
