//! Guest instructions: a decoder for loads and stores, the bytes they move, and the encoders guests need.
//!
//! KVM's MMIO emulator (`kvmppc_emulate_loadstore`, on top of `analyse_instr`) must know of a trapped instruction how
//! wide it is, which register it names, whether it extends a sign, reverses bytes or updates its base register.
//! [`decode`] answers that for every load and store of Power ISA 2.07 and 3.0, [`decode_prefixed`] for those of 3.1
//! with a prefix; both say of the others why KVM takes them not, so that a refusal can be reported by its cause.
//! [`is_store_by_bit`] is the cruder test that the kernel makes before it decodes.
//!
//! | file | holds |
//! |---|---|
//! | `types` | what a decoded word is: [`Insn`], [`Access`], [`Refused`] |
//! | `facility` | loads and stores of floating-point and vector registers, and the pieces they move |
//! | `table`, `table_facility`, `table_other` | one line per instruction: integer accesses; those of other registers; cache operations and refused ones |
//! | `prefixed`, `table_prefixed` | the same for prefixed ones |
//! | `decode` | the dispatch built from the tables by the compiler |
//! | `value` | the bytes of an access in guest memory order |
//! | `encode` | [`Access`] to word |
//! | [`asm`], `asm_storage` | the other instructions a guest program is made of |
//!
//! # Examples
//!
//! ```
//! use hvmmio::book3s::insn::{Direction, Insn, Mode, Size, decode};
//!
//! let Some(Insn::Access(stwu)) = decode(0x9421_fff0) else { panic!("stwu r1,-16(r1) is an integer store") };
//! assert_eq!((stwu.name, stwu.direction, stwu.size), ("stwu", Direction::Store, Size::Word));
//! let mut gpr = [0; 32];
//! gpr[1] = 0x1000;
//! assert_eq!(stwu.effective_address(&gpr, Mode::SixtyFour), 0xff0);
//! ```

pub mod asm;
mod asm_storage;
mod decode;
mod encode;
mod facility;
mod memo;
mod prefixed;
mod table;
mod table_facility;
mod table_other;
mod table_prefixed;
mod types;
mod value;

pub use decode::{decode, is_store_by_bit};
pub use encode::{EncodeError, encode, load_store};
pub use facility::{Facility, FacilityAccess, Shape};
pub use memo::Decoded;
pub use prefixed::{Base, decode_prefixed, is_prefix, is_store_by_suffix_bit, prefixed_load_store, prefixed_names};
pub use types::{Access, CacheOp, Direction, Insn, LongDisplacement, Mode, Offset, Refusal, Refused, Size};
pub use value::{Endian, load_value, store_bytes};

/// Names of every integer load and store that [`decode()`] knows, in table order.
pub fn access_names() -> impl Iterator<Item = &'static str> {
    table::INTEGER.iter().map(|row| row.name)
}

/// Names of every load and store of floating-point and vector registers that [`decode()`] knows, in table order.
pub fn facility_names() -> impl Iterator<Item = &'static str> {
    table_facility::FACILITY.iter().map(|row| row.name)
}
