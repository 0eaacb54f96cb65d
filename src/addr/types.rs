//! Newtypes for the address spaces that meet on the MMIO path, so that none is taken for another.

use std::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl From<$inner> for $name {
            fn from(raw: $inner) -> Self {
                Self(raw)
            }
        }
    };
}

address! {
    /// Effective address: what a guest instruction computes (Power ISA 2.07 Book III-S, 5.7).
    EffectiveAddr(u64)
}
address! {
    /// Guest physical address, PAPR's "logical real address": what the guest puts into an HPTE's RPN field.
    GuestPhysAddr(u64)
}
address! {
    /// Guest frame number: a [`GuestPhysAddr`] shifted right by the host's page shift (`gfn_t`).
    Gfn(u64)
}
address! {
    /// x86 port number, 0 to 0xffff.
    Port(u16)
}
address! {
    /// Index of an HPTE in the HPT, 0 to `npte - 1` (PAPR's `pte_index`).
    PteIndex(u64)
}
address! {
    /// Virtual segment identifier (Power ISA 2.07 Book III-S, 5.7.6).
    Vsid(u64)
}

impl GuestPhysAddr {
    /// The frame this address lies in, for host pages of `1 << page_shift` bytes (`page_shift` below 64).
    #[must_use]
    pub const fn gfn(self, page_shift: u32) -> Gfn {
        Gfn(self.0 >> page_shift)
    }
}

impl Gfn {
    /// First address of the frame, for host pages of `1 << page_shift` bytes (`page_shift` below 64).
    #[must_use]
    pub const fn base(self, page_shift: u32) -> GuestPhysAddr {
        GuestPhysAddr(self.0 << page_shift)
    }
}

/// A 64-bit count or index as the host's `usize`.
///
/// Lossless: the crate refuses to build where `usize` is not 64 bits wide.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "lib.rs refuses targets whose usize is not 64 bits")]
pub const fn index(raw: u64) -> usize {
    raw as usize
}
