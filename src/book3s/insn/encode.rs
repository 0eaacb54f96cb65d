//! From an [`Access`], or a mnemonic and operands, to a word.

use super::table::{Code, INTEGER, IntegerRow, Traits};
use super::table_facility::{FACILITY, Field};
use super::types::{Access, Direction, Offset, Size};

/// Why there is no word for what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// No such mnemonic among the loads and stores.
    #[error(
        "{0:?} is no load or store with an encoder; `access_names`, `facility_names` and `prefixed_names` list those"
    )]
    UnknownName(String),
    /// No opcode has this combination.
    #[error(
        "no {direction:?} of {} bytes with reversed={reversed}, algebraic={algebraic}, update={update} and {form} exists",
        size.bytes()
    )]
    NoSuchAccess {
        /// Load or store.
        direction: Direction,
        /// Width.
        size: Size,
        /// Byte-reversed.
        reversed: bool,
        /// Sign-extending.
        algebraic: bool,
        /// Writes RA back.
        update: bool,
        /// "a displacement" or "an index register".
        form: &'static str,
    },
    /// The mnemonic wants the other kind of offset.
    #[error("{name} takes {wanted} as its offset")]
    WrongOffset {
        /// Mnemonic.
        name: &'static str,
        /// "a displacement" or "an index register".
        wanted: &'static str,
    },
    /// A register number above 31.
    #[error("{field} is r{number}; general registers are r0 to r31")]
    NoSuchRegister {
        /// RT, RA or RB.
        field: &'static str,
        /// The number given.
        number: u8,
    },
    /// A vector-scalar register number above 63.
    #[error("{name} of vs{number}: vector-scalar registers are vs0 to vs63")]
    NoSuchVectorRegister {
        /// Mnemonic.
        name: &'static str,
        /// The number given.
        number: u8,
    },
    /// Prefixed form whose displacement has no place.
    #[error("{name} {displacement}(...): the displacement of a prefixed form has 34 bits, -2^33 to 2^33 - 1")]
    LongDisplacement {
        /// Mnemonic.
        name: &'static str,
        /// The displacement given.
        displacement: i64,
    },
    /// DS form whose displacement has one of the two low bits set.
    #[error("{name} {displacement}(...): the displacement of a DS form is a multiple of 4")]
    UnalignedDisplacement {
        /// Mnemonic.
        name: &'static str,
        /// The displacement given.
        displacement: i16,
    },
}

const DISPLACEMENT: &str = "a displacement";
const INDEX: &str = "an index register";

const fn kind(offset: Offset) -> &'static str {
    match offset {
        Offset::Displacement(_) => DISPLACEMENT,
        Offset::Register(_) => INDEX,
        Offset::Long(_) | Offset::Relative(_) => "a prefixed displacement",
    }
}

const fn kind_of(code: Code) -> &'static str {
    match code {
        Code::X(_) => INDEX,
        Code::D(_) | Code::Ds(..) | Code::Dq(..) => DISPLACEMENT,
    }
}

/// The word of an access; `access.name` is not looked at. Inverse of [`decode`](super::decode) up to reserved bits.
///
/// # Errors
///
/// [`EncodeError`] if no opcode has these properties, a register is above 31, or a DS form's displacement is no
/// multiple of 4. Invalid forms ([`Access::is_valid_form`]) are encoded.
pub fn encode(access: &Access) -> Result<u32, EncodeError> {
    let Access { direction, size, reversed, algebraic, update, rt, ra, offset, .. } = *access;
    let traits = Traits { direction, size, reversed, algebraic, update };
    let form = kind(offset);
    let row = INTEGER
        .iter()
        .find(|row| row.traits == traits && kind_of(row.code) == form)
        .ok_or(EncodeError::NoSuchAccess { direction, size, reversed, algebraic, update, form })?;
    integer_word(row, rt, ra, offset)
}

/// The word of the load or store with this mnemonic: RT (RS of a store), RA and the offset. Of a vector-scalar form
/// whose register is 0 to 63 (`lxvd2x`) that number is given, else the register's own, 0 to 31 (`lfd`, `lvx`, `lxsd`).
///
/// # Errors
///
/// [`EncodeError`] if the mnemonic is unknown or the operands do not fit it.
///
/// # Examples
///
/// ```
/// use hvmmio::book3s::insn::{Offset, load_store};
///
/// assert_eq!(load_store("stw", 3, 4, Offset::Displacement(16)), Ok(0x9064_0010));
/// assert_eq!(load_store("lhbrx", 3, 4, Offset::Register(5)), Ok(0x7c64_2e2c));
/// ```
pub fn load_store(name: &str, rt: u8, ra: u8, offset: Offset) -> Result<u32, EncodeError> {
    if let Some(row) = INTEGER.iter().find(|row| row.name == name) {
        return integer_word(row, rt, ra, offset);
    }
    let row = FACILITY.iter().find(|row| row.name == name).ok_or_else(|| EncodeError::UnknownName(name.to_owned()))?;
    let rt = match row.field {
        Field::Fpr | Field::Vr => register("RT", rt)? << 21,
        Field::Xt if rt < 64 => u32::from(rt & 31) << 21 | u32::from(rt >> 5),
        Field::Xt => return Err(EncodeError::NoSuchVectorRegister { name: row.name, number: rt }),
    };
    Ok(word(row.name, row.code, ra, offset)? | rt)
}

fn integer_word(row: &IntegerRow, rt: u8, ra: u8, offset: Offset) -> Result<u32, EncodeError> {
    let rt = register("RT", rt)? << 21;
    Ok(word(row.name, row.code, ra, offset)? | rt)
}

/// The word but for RT.
fn word(name: &'static str, code: Code, ra: u8, offset: Offset) -> Result<u32, EncodeError> {
    let ra = register("RA", ra)? << 16;
    let opcode = match (code, offset) {
        (Code::D(major), Offset::Displacement(displacement)) => major_opcode(major) | field(displacement),
        (Code::Ds(major, extended) | Code::Dq(major, extended), Offset::Displacement(displacement)) => {
            if displacement & 3 != 0 {
                return Err(EncodeError::UnalignedDisplacement { name, displacement });
            }
            major_opcode(major) | field(displacement) | u32::from(extended)
        }
        (Code::X(extended), Offset::Register(rb)) => {
            major_opcode(31) | register("RB", rb)? << 11 | u32::from(extended) << 1
        }
        _ => return Err(EncodeError::WrongOffset { name, wanted: kind_of(code) }),
    };
    Ok(opcode | ra)
}

fn major_opcode(major: u8) -> u32 {
    u32::from(major) << 26
}

fn field(displacement: i16) -> u32 {
    u32::from(displacement as u16)
}

pub(super) fn register(field: &'static str, number: u8) -> Result<u32, EncodeError> {
    if number < 32 { Ok(u32::from(number)) } else { Err(EncodeError::NoSuchRegister { field, number }) }
}
