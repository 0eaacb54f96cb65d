//! PAPR hypercalls on the table (PAPR 14.5.4.1; the kernel's `book3s_hv_rm_mmu.c`).

mod bulk_remove;
mod clear;
mod dispatch;
mod enter;
mod protect;
mod read;
mod remove;

pub use bulk_remove::BULK_REQUESTS;
pub use dispatch::{H_FUNCTION, HcallReturn};
pub use protect::ProtectFlags;

/// Hypercall numbers, in GPR3 (PAPR 14.5.4; the kernel's `asm/hvcall.h`).
pub mod number {
    /// GPR4 flags, GPR5 index, GPR6 AVPN.
    pub const H_REMOVE: u64 = 0x04;
    /// GPR4 flags, GPR5 index, GPR6 and GPR7 the entry.
    pub const H_ENTER: u64 = 0x08;
    /// GPR4 flags, GPR5 index.
    pub const H_READ: u64 = 0x0c;
    /// GPR4 flags, GPR5 index.
    pub const H_CLEAR_MOD: u64 = 0x10;
    /// GPR4 flags, GPR5 index.
    pub const H_CLEAR_REF: u64 = 0x14;
    /// GPR4 flags, GPR5 index, GPR6 AVPN.
    pub const H_PROTECT: u64 = 0x18;
    /// GPR4 to GPR11: up to four pairs.
    pub const H_BULK_REMOVE: u64 = 0x124;
}

/// Hypercall flags.
pub mod flags {
    /// H_ENTER: the very slot or none.
    pub const H_EXACT: u64 = 1 << 39;
    /// H_READ: four entries from a multiple of four.
    pub const H_READ_4: u64 = 1 << 37;
    /// H_REMOVE, H_PROTECT: only if AVPN matches.
    pub const H_AVPN: u64 = 1 << 31;
    /// H_REMOVE: only if no bit of AVPN is set in the entry.
    pub const H_ANDCOND: u64 = 1 << 30;
}

/// Why a hypercall failed: PAPR's return codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum HcallError {
    /// -4.
    #[error("H_PARAMETER (-4): an argument is out of range or encodes nothing")]
    Parameter,
    /// -6.
    #[error("H_PTEG_FULL (-6): the group or the very slot is in use")]
    PtegFull,
    /// -7.
    #[error("H_NOT_FOUND (-7): no such entry, or AVPN or ANDCOND did not match")]
    NotFound,
}

impl HcallError {
    /// PAPR's return code.
    #[must_use]
    pub const fn code(self) -> i64 {
        match self {
            Self::Parameter => -4,
            Self::PtegFull => -6,
            Self::NotFound => -7,
        }
    }

    /// PAPR's name of the code.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameter => "H_PARAMETER",
            Self::PtegFull => "H_PTEG_FULL",
            Self::NotFound => "H_NOT_FOUND",
        }
    }
}
