//! The bytes of an access in guest memory order, and the register value they stand for.

use super::types::{Access, Size};

/// Byte order of data accesses, MSR\[LE\] (Power ISA 2.07 Book I, 1.10.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endian {
    /// The byte at the lowest address is the most significant.
    Big,
    /// The byte at the lowest address is the least significant.
    Little,
}

impl Endian {
    /// The order that an access of this kind sees: a byte-reversed form sees the opposite one.
    const fn seen_by(self, access: &Access) -> Self {
        match (self, access.reversed) {
            (Self::Big, false) | (Self::Little, true) => Self::Big,
            (Self::Little, false) | (Self::Big, true) => Self::Little,
        }
    }
}

/// The bits of a register that an operand of this width covers.
const fn mask(size: Size) -> u64 {
    u64::MAX >> (64 - 8 * size.bytes())
}

/// The number that the first bytes of `bytes` spell in this order.
pub(super) const fn number(bytes: &[u8; 8], size: Size, order: Endian) -> u64 {
    match order {
        Endian::Big => u64::from_be_bytes(*bytes) >> (64 - 8 * size.bytes()),
        Endian::Little => u64::from_le_bytes(*bytes) & mask(size),
    }
}

/// The bytes that spell the low bytes of `value` in this order, lowest address first; the rest is zero.
pub(super) const fn image(value: u64, size: Size, order: Endian) -> [u8; 8] {
    let operand = value & mask(size);
    match order {
        Endian::Big => (operand << (64 - 8 * size.bytes())).to_be_bytes(),
        Endian::Little => operand.to_le_bytes(),
    }
}

/// `value`, whose operand has this width, with the operand's sign in all bits above it.
pub(super) const fn sign_extended(value: u64, size: Size) -> u64 {
    let unused_bits = 64 - 8 * size.bytes();
    (((value << unused_bits) as i64) >> unused_bits) as u64
}

/// The value RT receives when memory holds `bytes`, lowest address first; bytes past the operand's width are not
/// looked at (`kvmppc_complete_mmio_load`).
///
/// The sign is extended for algebraic forms only; the others clear the high bits.
#[must_use]
#[inline]
pub const fn load_value(bytes: &[u8; 8], access: &Access, guest: Endian) -> u64 {
    let value = number(bytes, access.size, guest.seen_by(access));
    if access.algebraic { sign_extended(value, access.size) } else { value }
}

/// What a store of register value `value` leaves in memory: the bytes, lowest address first, and how many of them
/// count. The rest is zero (`kvmppc_handle_store`).
#[must_use]
#[inline]
pub const fn store_bytes(value: u64, access: &Access, guest: Endian) -> ([u8; 8], usize) {
    (image(value, access.size, guest.seen_by(access)), access.size.bytes())
}
