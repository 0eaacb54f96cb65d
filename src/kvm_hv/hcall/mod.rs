//! PAPR hypercalls on the table (PAPR 14.5.4.1; the kernel's `book3s_hv_rm_mmu.c`).

mod bulk_remove;
mod clear;
mod enter;
mod protect;
mod read;
mod remove;

pub use bulk_remove::BULK_REQUESTS;
pub use protect::ProtectFlags;

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
