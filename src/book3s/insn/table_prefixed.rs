//! One line per prefixed load and store (Power ISA 3.1 Book I, 3.3.2, 4.6, 7.6; prefix formats in 1.6.3).

use super::facility::{Facility, Shape};
use super::table::Traits;
use super::types::{Direction, Refusal, Size};
use Direction::{Load, Store};

/// Type field of the prefix: which opcode map the suffix is looked up in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PrefixType {
    /// 0, 8LS: the suffix has a meaning of its own.
    EightByte = 0,
    /// 2, MLS: the suffix is the D form without prefix.
    Modified = 2,
}

/// What a prefixed word is.
#[derive(Clone, Copy)]
pub(super) enum Meaning {
    Integer(Traits),
    /// A floating-point register, or with Facility::Vector a vector one.
    Register(Facility, Direction, Shape),
    /// Recognised and refused: why, direction, bytes.
    Refused(Refusal, Direction, u8),
}

/// A line of the table.
#[derive(Clone, Copy)]
pub(super) struct PrefixedRow {
    pub name: &'static str,
    pub kind: PrefixType,
    /// Major opcode of the suffix.
    pub major: u8,
    pub meaning: Meaning,
}

const fn row(name: &'static str, kind: PrefixType, major: u8, meaning: Meaning) -> PrefixedRow {
    PrefixedRow { name, kind, major, meaning }
}

const fn gpr(direction: Direction, size: Size) -> Meaning {
    Meaning::Integer(Traits { direction, size, reversed: false, algebraic: false, update: false })
}

const fn algebraic(size: Size) -> Meaning {
    Meaning::Integer(Traits { direction: Load, size, reversed: false, algebraic: true, update: false })
}

const fn fpr(direction: Direction, shape: Shape) -> Meaning {
    Meaning::Register(Facility::FloatingPoint, direction, shape)
}

const fn vr(direction: Direction, shape: Shape) -> Meaning {
    Meaning::Register(Facility::Vector, direction, shape)
}

use Meaning::Refused;
use PrefixType::{EightByte, Modified};
use Shape::{Scalar, Single};
use Size::{Byte, Doubleword, Halfword, Word};

/// The prefixed loads and stores.
#[rustfmt::skip] // a table reads in columns
pub(super) static PREFIXED: [PrefixedRow; 26] = [
    row("plwz",    Modified,  32, gpr(Load, Word)),
    row("plbz",    Modified,  34, gpr(Load, Byte)),
    row("pstw",    Modified,  36, gpr(Store, Word)),
    row("pstb",    Modified,  38, gpr(Store, Byte)),
    row("plhz",    Modified,  40, gpr(Load, Halfword)),
    row("plha",    Modified,  42, algebraic(Halfword)),
    row("psth",    Modified,  44, gpr(Store, Halfword)),
    row("plfs",    Modified,  48, fpr(Load, Single)),
    row("plfd",    Modified,  50, fpr(Load, Scalar(Doubleword))),
    row("pstfs",   Modified,  52, fpr(Store, Single)),
    row("pstfd",   Modified,  54, fpr(Store, Scalar(Doubleword))),
    row("plwa",    EightByte, 41, algebraic(Word)),
    row("plxsd",   EightByte, 42, vr(Load, Scalar(Doubleword))),
    row("plxssp",  EightByte, 43, vr(Load, Single)),
    row("pstxsd",  EightByte, 46, vr(Store, Scalar(Doubleword))),
    row("pstxssp", EightByte, 47, vr(Store, Single)),
    row("plxv",    EightByte, 50, Refused(Refusal::Vsx, Load, 16)),
    row("plxv",    EightByte, 51, Refused(Refusal::Vsx, Load, 16)), // the last opcode bit is the register's high bit
    row("pstxv",   EightByte, 54, Refused(Refusal::Vsx, Store, 16)),
    row("pstxv",   EightByte, 55, Refused(Refusal::Vsx, Store, 16)),
    row("plq",     EightByte, 56, Refused(Refusal::Quadword, Load, 16)),
    row("pld",     EightByte, 57, gpr(Load, Doubleword)),
    row("plxvp",   EightByte, 58, Refused(Refusal::VectorPair, Load, 32)),
    row("pstq",    EightByte, 60, Refused(Refusal::Quadword, Store, 16)),
    row("pstd",    EightByte, 61, gpr(Store, Doubleword)),
    row("pstxvp",  EightByte, 62, Refused(Refusal::VectorPair, Store, 32)),
];
