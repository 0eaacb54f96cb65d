//! Writing to the table from the VMM's side, as an incoming migration does (`kvm_htab_write`).

use crate::addr::{Errno, PteIndex};
use crate::book3s::hpte::{HPTE_V_ABSENT, HPTE_V_VALID};
use crate::book3s::{Hpte, PageSizes};

use super::hcall::{HcallError, flags};
use super::vm::Vm;

/// Why a write to the table's file descriptor failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HtabError {
    /// Beyond the table (EINVAL).
    #[error("index {index} lies beyond the table (EINVAL)")]
    Index {
        /// Which.
        index: PteIndex,
    },
    /// No such page size (EINVAL).
    #[error("the entry for index {index} has an L and LP that no page size has (EINVAL)")]
    PageSize {
        /// Which.
        index: PteIndex,
    },
    /// H_ENTER refused it; what was there is gone (EIO).
    #[error("the entry for index {index} was refused: {source} (EIO)")]
    Refused {
        /// Which.
        index: PteIndex,
        /// How.
        source: HcallError,
    },
}

impl HtabError {
    /// What the kernel answers.
    #[must_use]
    pub const fn code(&self) -> Errno {
        match self {
            Self::Index { .. } | Self::PageSize { .. } => Errno::Invalid,
            Self::Refused { .. } => Errno::Io,
        }
    }
}

impl Vm {
    /// Writes one entry in the guest's view at `at`: what is there is removed as by H_REMOVE (an MMIO HPTE bumps the
    /// generation), then an entry with V is entered as by H_ENTER with H_EXACT.
    ///
    /// # Errors
    /// Beyond the table, no page size, or H_ENTER's reasons.
    pub fn write_htab(&self, at: PteIndex, entry: Hpte) -> Result<(), HtabError> {
        let hpt = self.hpt();
        let slot = hpt.slot(at).ok_or(HtabError::Index { index: at })?;
        let enters = entry.v & HPTE_V_VALID != 0;
        if enters && PageSizes::of_hpte(entry.v, entry.r).is_none() {
            return Err(HtabError::PageSize { index: at });
        }
        if super::lock::read_v(&slot.v) & (HPTE_V_VALID | HPTE_V_ABSENT) != 0 {
            // Not found: another vCPU was quicker, which is as good.
            let _ = self.h_remove(0, at, 0);
        }
        if enters {
            let refused = |source| HtabError::Refused { index: at, source };
            self.h_enter(flags::H_EXACT, at, entry).map_err(refused)?;
        }
        Ok(())
    }
}
