//! From a word to an [`Insn`]: one look into an array that the compiler builds from the tables.

use super::table::{Code, INTEGER, Traits};
use super::table_other::{CACHE, REFUSED};
use super::types::{Access, CacheOp, Insn, Offset, Refused};

/// Major opcode of the X forms that access storage.
const MAJOR_X: usize = 31;

/// How an integer access forms its address.
#[derive(Clone, Copy)]
enum Form {
    D,
    Ds,
    X,
}

/// What the opcode bits alone say.
#[derive(Clone, Copy)]
enum Slot {
    Empty,
    Integer(&'static str, Traits, Form),
    CacheOp(CacheOp),
    Refused(Refused),
}

/// The opcode maps: X forms by extended opcode; the others by major opcode and the low 3 bits of the word, which
/// is all that DS and DQ forms use of them (a D form fills all eight).
struct Maps {
    x: [Slot; 1024],
    other: [[Slot; 8]; 64],
}

static MAPS: Maps = build();

const fn build() -> Maps {
    let mut maps = Maps { x: [Slot::Empty; 1024], other: [[Slot::Empty; 8]; 64] };
    let mut i = 0;
    while i < INTEGER.len() {
        let row = INTEGER[i];
        let form = match row.code {
            Code::D(_) => Form::D,
            Code::Ds(..) | Code::Dq(..) => Form::Ds,
            Code::X(_) => Form::X,
        };
        maps.put(row.code, Slot::Integer(row.name, row.traits, form));
        i += 1;
    }
    i = 0;
    while i < CACHE.len() {
        maps.put(CACHE[i].code, Slot::CacheOp(CACHE[i].op));
        i += 1;
    }
    i = 0;
    while i < REFUSED.len() {
        maps.put(REFUSED[i].code, Slot::Refused(REFUSED[i].refused));
        i += 1;
    }
    maps
}

impl Maps {
    const fn put(&mut self, code: Code, slot: Slot) {
        match code {
            Code::X(extended) => claim(&mut self.x[extended as usize], slot),
            Code::D(major) => self.put_low_bits(major, 0, 0, slot),
            Code::Ds(major, extended) => self.put_low_bits(major, 3, extended, slot),
            Code::Dq(major, extended) => self.put_low_bits(major, 7, extended, slot),
        }
    }

    /// Claims each pattern of the 3 low bits that equals `extended` under `mask`.
    const fn put_low_bits(&mut self, major: u8, mask: u8, extended: u8, slot: Slot) {
        let mut bits = 0;
        while bits < 8 {
            if bits & mask == extended {
                claim(&mut self.other[major as usize][bits as usize], slot);
            }
            bits += 1;
        }
    }
}

/// Fills a slot; two rows with one opcode are a mistake that shall not compile.
const fn claim(place: &mut Slot, slot: Slot) {
    assert!(matches!(place, Slot::Empty), "two rows of the tables claim one opcode");
    *place = slot;
}

/// Decodes a word (as a number, the primary opcode in the top 6 bits); `None`: it accesses no storage, or is no
/// instruction of Power ISA 2.07 or 3.0.
///
/// Reserved fields are ignored, as in the kernel's `analyse_instr`. Prefixed instructions (Power ISA 3.1) are two
/// words and unknown here. Invalid forms are decoded: see [`Access::is_valid_form`].
#[must_use]
#[inline]
pub fn decode(word: u32) -> Option<Insn> {
    match *slot(word) {
        Slot::Empty => None,
        Slot::Integer(name, traits, form) => Some(Insn::Access(access(word, name, traits, form))),
        Slot::CacheOp(op) => Some(Insn::CacheOp(op)),
        Slot::Refused(refused) => Some(Insn::Refused(refused)),
    }
}

#[inline]
fn slot(word: u32) -> &'static Slot {
    let major = (word >> 26) as usize;
    if major == MAJOR_X { &MAPS.x[((word >> 1) & 0x3ff) as usize] } else { &MAPS.other[major][(word & 7) as usize] }
}

#[inline]
fn access(word: u32, name: &'static str, traits: Traits, form: Form) -> Access {
    let Traits { direction, size, reversed, algebraic, update } = traits;
    let low_half = (word & 0xffff) as u16 as i16;
    let offset = match form {
        Form::D => Offset::Displacement(low_half),
        Form::Ds => Offset::Displacement(low_half & !3),
        Form::X => Offset::Register(register(word, 11)),
    };
    let (rt, ra) = (register(word, 21), register(word, 16));
    Access { name, direction, size, reversed, algebraic, update, rt, ra, offset }
}

/// The 5-bit register field whose last bit is `shift` bits from the low end.
#[inline]
const fn register(word: u32, shift: u32) -> u8 {
    ((word >> shift) & 31) as u8
}

/// Whether the kernel takes a word for a store before it decodes it (`instruction_is_store`): bit 0x100 for major
/// opcode 31, else bit 0x10000000. Of a prefixed instruction the suffix is meant.
///
/// `lmw`, `lxv` and `icbi` are loads that have the bit set.
#[must_use]
#[inline]
pub const fn is_store_by_bit(word: u32) -> bool {
    let mask = if word >> 26 == 31 { 0x100 } else { 0x1000_0000 };
    word & mask != 0
}
