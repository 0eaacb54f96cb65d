//! From a word to an [`Insn`]: one look into an array that the compiler builds from the tables.

use super::facility::FacilityAccess;
use super::table::{Code, INTEGER, IntegerRow};
use super::table_facility::{FACILITY, FacilityRow, Field};
use super::table_other::{CACHE, REFUSED};
use super::types::{Access, Insn, Offset};

/// Major opcode of the X forms that access storage.
const MAJOR_X: usize = 31;

/// What the opcode bits alone say. The operands of an access are blanks: registers 0, and in place of a displacement
/// the mask of the bits that belong to it, so that D and DS forms need no branch.
type Slot = Option<Insn>;

/// The opcode maps: X forms by extended opcode; the others by major opcode and the low 3 bits of the word, which
/// is all that DS and DQ forms use of them (a D form fills all eight).
struct Maps {
    x: [Slot; 1024],
    other: [[Slot; 8]; 64],
}

static MAPS: Maps = build();

const fn build() -> Maps {
    let mut maps = Maps { x: [None; 1024], other: [[None; 8]; 64] };
    let mut i = 0;
    while i < INTEGER.len() {
        maps.put(INTEGER[i].code, Insn::Access(blank(&INTEGER[i])));
        i += 1;
    }
    i = 0;
    while i < FACILITY.len() {
        maps.put(FACILITY[i].code, Insn::Facility(blank_facility(&FACILITY[i])));
        i += 1;
    }
    i = 0;
    while i < CACHE.len() {
        maps.put(CACHE[i].code, Insn::CacheOp(CACHE[i].op));
        i += 1;
    }
    i = 0;
    while i < REFUSED.len() {
        maps.put(REFUSED[i].code, Insn::Refused(REFUSED[i].refused));
        i += 1;
    }
    maps
}

const fn blank(row: &IntegerRow) -> Access {
    row.traits.access(row.name, 0, 0, blank_offset(row.code))
}

const fn blank_offset(code: Code) -> Offset {
    match code {
        Code::D(_) => Offset::Displacement(!0),
        Code::Ds(..) => Offset::Displacement(!3),
        Code::Dq(..) => Offset::Displacement(!15),
        Code::X(_) => Offset::Register(0),
    }
}

/// Blank register of a [`FacilityAccess`] whose register's high bit is the word's last one.
const HIGH_BIT_IN_WORD: u8 = 64;

/// In place of the register stands what is added to the word's field.
const fn blank_facility(row: &FacilityRow) -> FacilityAccess {
    let FacilityRow { name, code, field, facility, direction, shape, update } = *row;
    let vsr = match field {
        Field::Fpr => 0,
        Field::Vr => 32,
        Field::Xt => HIGH_BIT_IN_WORD,
    };
    FacilityAccess { name, direction, facility, shape, update, vsr, ra: 0, offset: blank_offset(code) }
}

impl Maps {
    const fn put(&mut self, code: Code, insn: Insn) {
        match code {
            Code::X(extended) => claim(&mut self.x[extended as usize], insn),
            Code::D(major) => self.put_low_bits(major, 0, 0, insn),
            Code::Ds(major, extended) => self.put_low_bits(major, 3, extended, insn),
            Code::Dq(major, extended) => self.put_low_bits(major, 7, extended, insn),
        }
    }

    /// Claims each pattern of the 3 low bits that equals `extended` under `mask`.
    const fn put_low_bits(&mut self, major: u8, mask: u8, extended: u8, insn: Insn) {
        let mut bits = 0;
        while bits < 8 {
            if bits & mask == extended {
                claim(&mut self.other[major as usize][bits as usize], insn);
            }
            bits += 1;
        }
    }
}

/// Fills a slot; two rows with one opcode are a mistake that shall not compile.
const fn claim(place: &mut Slot, insn: Insn) {
    assert!(place.is_none(), "two rows of the tables claim one opcode");
    *place = Some(insn);
}

/// Decodes a word (as a number, the primary opcode in the top 6 bits); `None`: it accesses no storage, or is no
/// instruction of Power ISA 2.07 or 3.0.
///
/// Reserved fields are ignored, as in the kernel's `analyse_instr`. Prefixed instructions (Power ISA 3.1) are two
/// words: [`decode_prefixed`](super::decode_prefixed). Invalid forms are decoded: see [`Access::is_valid_form`].
#[must_use]
#[inline]
pub fn decode(word: u32) -> Option<Insn> {
    match *slot(word) {
        Some(Insn::Access(blank)) => Some(Insn::Access(with_operands(blank, word))),
        Some(Insn::Facility(blank)) => Some(Insn::Facility(facility_with_operands(blank, word))),
        other => other,
    }
}

#[inline]
fn slot(word: u32) -> &'static Slot {
    let major = (word >> 26) as usize;
    if major == MAJOR_X { &MAPS.x[((word >> 1) & 0x3ff) as usize] } else { &MAPS.other[major][(word & 7) as usize] }
}

#[inline]
const fn with_operands(blank: Access, word: u32) -> Access {
    Access { rt: register(word, 21), ra: register(word, 16), offset: offset(blank.offset, word), ..blank }
}

const fn facility_with_operands(blank: FacilityAccess, word: u32) -> FacilityAccess {
    let base = if blank.vsr == HIGH_BIT_IN_WORD { (word & 1) as u8 * 32 } else { blank.vsr };
    let (vsr, ra) = (base + register(word, 21), register(word, 16));
    FacilityAccess { vsr, ra, offset: offset(blank.offset, word), ..blank }
}

#[inline]
const fn offset(blank: Offset, word: u32) -> Offset {
    match blank {
        Offset::Displacement(mask) => Offset::Displacement((word & 0xffff) as u16 as i16 & mask),
        // No blank has the long offset of a prefixed form.
        Offset::Register(_) | Offset::Long(_) | Offset::Relative(_) => Offset::Register(register(word, 11)),
    }
}

/// The 5-bit register field whose last bit is `shift` bits from the low end.
#[inline]
const fn register(word: u32, shift: u32) -> u8 {
    ((word >> shift) & 31) as u8
}

/// Whether the kernel takes a word for a store before it decodes it (`instruction_is_store`): bit 0x100 for major
/// opcode 31, else bit 0x10000000; see [`is_store_by_suffix_bit`](super::is_store_by_suffix_bit) for prefixed ones.
///
/// `lmw`, `lxv` and `icbi` are loads that have the bit set.
#[must_use]
#[inline]
pub const fn is_store_by_bit(word: u32) -> bool {
    let mask = if word >> 26 == 31 { 0x100 } else { 0x1000_0000 };
    word & mask != 0
}
