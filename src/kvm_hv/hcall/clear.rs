//! H_CLEAR_REF and H_CLEAR_MOD (`kvmppc_h_clear_ref`, `kvmppc_h_clear_mod`).
//!
//! Linux gives both to user space unless the VMM enabled them (KVM_CAP_PPC_ENABLE_HCALL); this is the enabled form.

use std::sync::atomic::Ordering;

use crate::addr::PteIndex;
use crate::book3s::PageSizes;
use crate::book3s::hpte::{HPTE_R_C, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_VALID};
use crate::kvm_hv::lock::{invalidate, lock_hpte, lock_rmap, unlock_hpte, unlock_rmap};
use crate::kvm_hv::page_out::page_base;
use crate::kvm_hv::rmap::RMAP_REFERENCED;
use crate::kvm_hv::vm::{View, Vm};

use super::HcallError;

/// Which bit is cleared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clear {
    Reference,
    Change,
}

impl Vm {
    /// H_CLEAR_REF: clears R of the entry at `at`; returns the guest's second doubleword as it was.
    ///
    /// # Errors
    /// `Parameter` beyond the table, `NotFound` for an empty slot.
    pub fn h_clear_ref(&self, at: PteIndex) -> Result<u64, HcallError> {
        self.clear(at, Clear::Reference)
    }

    /// H_CLEAR_MOD: clears C of the entry at `at`; returns the guest's second doubleword as it was.
    ///
    /// # Errors
    /// `Parameter` beyond the table, `NotFound` for an empty slot.
    pub fn h_clear_mod(&self, at: PteIndex) -> Result<u64, HcallError> {
        self.clear(at, Clear::Change)
    }

    fn clear(&self, at: PteIndex, which: Clear) -> Result<u64, HcallError> {
        let bit = if which == Clear::Reference { HPTE_R_R } else { HPTE_R_C };
        let view = self.view.load();
        let (slot, rev) = view.hpt.entry(at).ok_or(HcallError::Parameter)?;
        let v = lock_hpte(&slot.v);
        if v & (HPTE_V_VALID | HPTE_V_ABSENT) == 0 {
            unlock_hpte(&slot.v, v);
            return Err(HcallError::NotFound);
        }
        let mut guest_r = rev.guest_rpte.load(Ordering::Relaxed);
        rev.guest_rpte.store(guest_r & !bit, Ordering::Relaxed);
        if v & HPTE_V_VALID != 0 {
            // Absent while it is looked at, so that hardware cannot set the bit in between.
            invalidate(&slot.v, v & !HPTE_V_VALID | HPTE_V_ABSENT);
            let r = slot.read_r();
            guest_r |= r & (HPTE_R_R | HPTE_R_C);
            if r & bit != 0 {
                slot.write_r(r & !bit);
                self.remember(&view, v, guest_r, which);
            }
        }
        unlock_hpte(&slot.v, v);
        Ok(guest_r)
    }

    /// Keeps for the host what the guest just cleared: R in the reverse map, C in the dirty log.
    fn remember(&self, view: &View, v: u64, guest_r: u64, which: Clear) {
        let Some(bytes) = PageSizes::of_hpte(v, guest_r).map(|sizes| sizes.actual.bytes()) else { return };
        let gfn = page_base(guest_r, bytes).gfn(self.page_shift());
        let Some((slot, rmap)) = view.memslots.find(gfn).and_then(|slot| Some((slot, slot.rmap(gfn)?))) else { return };
        let word = lock_rmap(rmap);
        match which {
            Clear::Reference => unlock_rmap(rmap, word | RMAP_REFERENCED),
            Clear::Change => {
                slot.mark_dirty(gfn, bytes, self.page_shift());
                unlock_rmap(rmap, word);
            }
        }
    }
}
