//! One line per integer load and store (Power ISA 2.07 Book I, 3.3.2, 3.3.3, 3.3.5; opcode maps in Appendix F).

use super::types::{Access, Direction, Offset, Size};

/// Where an instruction sits in the opcode maps.
#[derive(Clone, Copy)]
pub(super) enum Code {
    /// D form: major opcode.
    D(u8),
    /// DS form: major opcode and 2-bit extended opcode.
    Ds(u8, u8),
    /// DQ form of major opcode 61: 3-bit extended opcode.
    Dq(u8, u8),
    /// X form of major opcode 31: 10-bit extended opcode. The reserved last bit is ignored, as in `analyse_instr`.
    X(u16),
}

/// Everything about an integer access but its operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Traits {
    pub direction: Direction,
    pub size: Size,
    pub reversed: bool,
    pub algebraic: bool,
    pub update: bool,
}

impl Traits {
    pub(super) const fn access(self, name: &'static str, rt: u8, ra: u8, offset: Offset) -> Access {
        let Self { direction, size, reversed, algebraic, update } = self;
        Access { name, direction, size, reversed, algebraic, update, rt, ra, offset }
    }
}

/// A line of the integer table.
#[derive(Clone, Copy)]
pub(super) struct IntegerRow {
    pub name: &'static str,
    pub code: Code,
    pub traits: Traits,
}

const BYTE: Size = Size::Byte;
const HALF: Size = Size::Halfword;
const WORD: Size = Size::Word;
const DOUBLE: Size = Size::Doubleword;

const fn row(name: &'static str, code: Code, direction: Direction, size: Size) -> IntegerRow {
    IntegerRow { name, code, traits: Traits { direction, size, reversed: false, algebraic: false, update: false } }
}

const fn load(name: &'static str, code: Code, size: Size) -> IntegerRow {
    row(name, code, Direction::Load, size)
}

const fn store(name: &'static str, code: Code, size: Size) -> IntegerRow {
    row(name, code, Direction::Store, size)
}

impl IntegerRow {
    const fn update(mut self) -> Self {
        self.traits.update = true;
        self
    }

    const fn algebraic(mut self) -> Self {
        self.traits.algebraic = true;
        self
    }

    const fn reversed(mut self) -> Self {
        self.traits.reversed = true;
        self
    }
}

use Code::{D, Ds, X};

/// The integer loads and stores.
pub(super) static INTEGER: [IntegerRow; 45] = [
    load("lwz", D(32), WORD),
    load("lwzu", D(33), WORD).update(),
    load("lbz", D(34), BYTE),
    load("lbzu", D(35), BYTE).update(),
    store("stw", D(36), WORD),
    store("stwu", D(37), WORD).update(),
    store("stb", D(38), BYTE),
    store("stbu", D(39), BYTE).update(),
    load("lhz", D(40), HALF),
    load("lhzu", D(41), HALF).update(),
    load("lha", D(42), HALF).algebraic(),
    load("lhau", D(43), HALF).algebraic().update(),
    store("sth", D(44), HALF),
    store("sthu", D(45), HALF).update(),
    load("ld", Ds(58, 0), DOUBLE),
    load("ldu", Ds(58, 1), DOUBLE).update(),
    load("lwa", Ds(58, 2), WORD).algebraic(),
    store("std", Ds(62, 0), DOUBLE),
    store("stdu", Ds(62, 1), DOUBLE).update(),
    load("ldx", X(21), DOUBLE),
    load("lwzx", X(23), WORD),
    load("ldux", X(53), DOUBLE).update(),
    load("lwzux", X(55), WORD).update(),
    load("lbzx", X(87), BYTE),
    load("lbzux", X(119), BYTE).update(),
    store("stdx", X(149), DOUBLE),
    store("stwx", X(151), WORD),
    store("stdux", X(181), DOUBLE).update(),
    store("stwux", X(183), WORD).update(),
    store("stbx", X(215), BYTE),
    store("stbux", X(247), BYTE).update(),
    load("lhzx", X(279), HALF),
    load("lhzux", X(311), HALF).update(),
    load("lwax", X(341), WORD).algebraic(),
    load("lhax", X(343), HALF).algebraic(),
    load("lwaux", X(373), WORD).algebraic().update(),
    load("lhaux", X(375), HALF).algebraic().update(),
    store("sthx", X(407), HALF),
    store("sthux", X(439), HALF).update(),
    load("ldbrx", X(532), DOUBLE).reversed(),
    load("lwbrx", X(534), WORD).reversed(),
    store("stdbrx", X(660), DOUBLE).reversed(),
    store("stwbrx", X(662), WORD).reversed(),
    load("lhbrx", X(790), HALF).reversed(),
    store("sthbrx", X(918), HALF).reversed(),
];
