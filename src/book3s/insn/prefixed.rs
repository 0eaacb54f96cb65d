//! Prefixed loads and stores (Power ISA 3.1): two words, a displacement of 34 bits, or an address relative to the
//! instruction's own.

use super::encode::{EncodeError, register};
use super::facility::{Facility, FacilityAccess};
use super::table_prefixed::{Meaning, PREFIXED, PrefixedRow};
use super::types::{Insn, LongDisplacement, Offset, Refused};

/// Major opcode of a prefix.
const MAJOR_PREFIX: u32 = 1;
/// R: the address is relative to the instruction's.
const PREFIX_R: u32 = 1 << 20;
/// The displacement's 18 high bits in the prefix.
const PREFIX_D0: u32 = 0x3_ffff;

/// What a prefixed form's displacement is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// Register RA, 0 to 31; 0 stands for the value zero.
    Register(u8),
    /// The address of the instruction's prefix.
    Instruction,
}

/// Whether a word begins a prefixed instruction (`ppc_inst_prefixed`).
#[must_use]
#[inline]
pub const fn is_prefix(word: u32) -> bool {
    word >> 26 == MAJOR_PREFIX
}

/// Decodes a prefixed instruction; `None`: it accesses no storage, or is none. Reserved fields are ignored, as in the
/// kernel's `analyse_instr`, and R with an RA other than 0 is none, as there.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "fields of a word")]
pub fn decode_prefixed(prefix: u32, suffix: u32) -> Option<Insn> {
    if !is_prefix(prefix) {
        return None;
    }
    let (kind, major) = (prefix >> 24 & 3, suffix >> 26);
    let row = PREFIXED.iter().find(|row| row.kind as u32 == kind && u32::from(row.major) == major)?;
    let (rt, ra) = ((suffix >> 21 & 31) as u8, (suffix >> 16 & 31) as u8);
    let displacement = LongDisplacement::from_fields(prefix & PREFIX_D0, suffix as u16);
    let offset = match (prefix & PREFIX_R != 0, ra) {
        (false, _) => Offset::Long(displacement),
        (true, 0) => Offset::Relative(displacement),
        (true, _) => return None,
    };
    let name = row.name;
    Some(match row.meaning {
        Meaning::Integer(traits) => Insn::Access(traits.access(name, rt, ra, offset)),
        Meaning::Register(facility, direction, shape) => {
            let vsr = if facility == Facility::Vector { rt + 32 } else { rt };
            Insn::Facility(FacilityAccess { name, direction, facility, shape, update: false, vsr, ra, offset })
        }
        Meaning::Refused(why, direction, bytes) => Insn::Refused(Refused { name, why, direction, bytes }),
    })
}

/// Whether the kernel takes a prefixed instruction for a store before it decodes it (`instruction_is_store`).
#[must_use]
#[inline]
pub const fn is_store_by_suffix_bit(suffix: u32) -> bool {
    suffix & 0x1000_0000 != 0
}

/// Names of every prefixed load and store that KVM emulates, in table order.
pub fn prefixed_names() -> impl Iterator<Item = &'static str> {
    PREFIXED.iter().filter(|row| !matches!(row.meaning, Meaning::Refused(..))).map(|row| row.name)
}

/// The two words, prefix first, of the prefixed load or store with this mnemonic.
///
/// # Errors
///
/// [`EncodeError`] if the mnemonic is unknown, a register above 31, or the displacement wider than 34 bits.
///
/// # Examples
///
/// ```
/// use hvmmio::book3s::insn::{Base, prefixed_load_store};
///
/// assert_eq!(prefixed_load_store("plwz", 3, Base::Register(4), 0x12345), Ok([0x0600_0001, 0x8064_2345]));
/// ```
pub fn prefixed_load_store(name: &str, rt: u8, base: Base, displacement: i64) -> Result<[u32; 2], EncodeError> {
    let row = PREFIXED.iter().find(|row| row.name == name).ok_or_else(|| EncodeError::UnknownName(name.to_owned()))?;
    let long =
        LongDisplacement::new(displacement).ok_or(EncodeError::LongDisplacement { name: row.name, displacement })?;
    words(row, rt, base, long)
}

fn words(row: &PrefixedRow, rt: u8, base: Base, displacement: LongDisplacement) -> Result<[u32; 2], EncodeError> {
    let (r, ra) = match base {
        Base::Register(ra) => (0, register("RA", ra)?),
        Base::Instruction => (PREFIX_R, 0),
    };
    let (d0, d1) = displacement.fields();
    let prefix = MAJOR_PREFIX << 26 | (row.kind as u32) << 24 | r | d0;
    Ok([prefix, u32::from(row.major) << 26 | register("RT", rt)? << 21 | ra << 16 | u32::from(d1)])
}
