//! One line per emulated load and store of a floating-point, vector or vector-scalar register (Power ISA 2.07 and 3.0
//! Book I, 4.6, 6.7, 7.6), as `analyse_instr` sorts them.

use super::facility::{Facility, Shape};
use super::table::Code::{self, D, Ds, X};
use super::types::{Direction, Size};
use Direction::{Load, Store};
use Facility::{FloatingPoint, Vector, VectorScalar};
use Shape::{Algebraic, Element, Elements, Quadword, Scalar, Single, Splat};

const B: Size = Size::Byte;
const H: Size = Size::Halfword;
const W: Size = Size::Word;
const DW: Size = Size::Doubleword;

/// How an instruction names its register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// FRT: VSR 0 to 31.
    Fpr,
    /// VRT: VSR 32 to 63.
    Vr,
    /// XT: the last bit of the word is the register's high bit.
    Xt,
}

/// A line of the table.
#[derive(Clone, Copy)]
pub(super) struct FacilityRow {
    pub name: &'static str,
    pub code: Code,
    pub field: Field,
    pub facility: Facility,
    pub direction: Direction,
    pub shape: Shape,
    pub update: bool,
}

const fn row(
    name: &'static str,
    code: Code,
    field: Field,
    facility: Facility,
    direction: Direction,
    shape: Shape,
) -> FacilityRow {
    FacilityRow { name, code, field, facility, direction, shape, update: false }
}

const fn fp(name: &'static str, code: Code, direction: Direction, shape: Shape) -> FacilityRow {
    row(name, code, Field::Fpr, FloatingPoint, direction, shape)
}

const fn vr(name: &'static str, code: Code, direction: Direction, shape: Shape) -> FacilityRow {
    row(name, code, Field::Vr, Vector, direction, shape)
}

const fn vsx(name: &'static str, code: Code, facility: Facility, direction: Direction, shape: Shape) -> FacilityRow {
    row(name, code, Field::Xt, facility, direction, shape)
}

impl FacilityRow {
    const fn update(mut self) -> Self {
        self.update = true;
        self
    }
}

/// The accesses that the kernel emulates.
#[rustfmt::skip] // a table reads in columns
pub(super) static FACILITY: [FacilityRow; 50] = [
    fp("lfs",      D(48),     Load,  Single),
    fp("lfsu",     D(49),     Load,  Single).update(),
    fp("lfd",      D(50),     Load,  Scalar(DW)),
    fp("lfdu",     D(51),     Load,  Scalar(DW)).update(),
    fp("stfs",     D(52),     Store, Single),
    fp("stfsu",    D(53),     Store, Single).update(),
    fp("stfd",     D(54),     Store, Scalar(DW)),
    fp("stfdu",    D(55),     Store, Scalar(DW)).update(),
    fp("lfsx",     X(535),    Load,  Single),
    fp("lfsux",    X(567),    Load,  Single).update(),
    fp("lfdx",     X(599),    Load,  Scalar(DW)),
    fp("lfdux",    X(631),    Load,  Scalar(DW)).update(),
    fp("stfsx",    X(663),    Store, Single),
    fp("stfsux",   X(695),    Store, Single).update(),
    fp("stfdx",    X(727),    Store, Scalar(DW)),
    fp("stfdux",   X(759),    Store, Scalar(DW)).update(),
    fp("lfiwax",   X(855),    Load,  Algebraic(W)),
    fp("lfiwzx",   X(887),    Load,  Scalar(W)),
    fp("stfiwx",   X(983),    Store, Scalar(W)),
    vr("lvebx",    X(7),      Load,  Element(B)),
    vr("lvehx",    X(39),     Load,  Element(H)),
    vr("lvewx",    X(71),     Load,  Element(W)),
    vr("lvx",      X(103),    Load,  Quadword),
    vr("stvebx",   X(135),    Store, Element(B)),
    vr("stvehx",   X(167),    Store, Element(H)),
    vr("stvewx",   X(199),    Store, Element(W)),
    vr("stvx",     X(231),    Store, Quadword),
    vr("lvxl",     X(359),    Load,  Quadword),
    vr("stvxl",    X(487),    Store, Quadword),
    vr("lxsd",     Ds(57, 2), Load,  Scalar(DW)),
    vr("lxssp",    Ds(57, 3), Load,  Single),
    vr("stxsd",    Ds(61, 2), Store, Scalar(DW)),
    vr("stxssp",   Ds(61, 3), Store, Single),
    vsx("lxsiwzx", X(12),  VectorScalar, Load,  Scalar(W)),
    vsx("lxsiwax", X(76),  VectorScalar, Load,  Algebraic(W)),
    vsx("stxsiwx", X(140), VectorScalar, Store, Scalar(W)),
    vsx("lxvdsx",  X(332), VectorScalar, Load,  Splat(DW)),
    vsx("lxvwsx",  X(364), Vector,       Load,  Splat(W)),
    vsx("lxsspx",  X(524), VectorScalar, Load,  Single),
    vsx("lxsdx",   X(588), VectorScalar, Load,  Scalar(DW)),
    vsx("stxsspx", X(652), VectorScalar, Store, Single),
    vsx("stxsdx",  X(716), VectorScalar, Store, Scalar(DW)),
    vsx("lxvw4x",  X(780), VectorScalar, Load,  Elements(W)),
    vsx("lxsibzx", X(781), Vector,       Load,  Scalar(B)),
    vsx("lxsihzx", X(813), Vector,       Load,  Scalar(H)),
    vsx("lxvd2x",  X(844), VectorScalar, Load,  Elements(DW)),
    vsx("stxvw4x", X(908), VectorScalar, Store, Elements(W)),
    vsx("stxsibx", X(909), Vector,       Store, Scalar(B)),
    vsx("stxsihx", X(941), Vector,       Store, Scalar(H)),
    vsx("stxvd2x", X(972), VectorScalar, Store, Elements(DW)),
];
