//! H_PROTECT (`kvmppc_h_protect`).

use std::sync::atomic::Ordering;

use crate::addr::PteIndex;
use crate::book3s::hpte::{
    HPTE_R_C, HPTE_R_KEY_HI, HPTE_R_KEY_LO, HPTE_R_N, HPTE_R_PP, HPTE_R_PP0, HPTE_R_PROTECTION, HPTE_R_R,
    HPTE_V_ABSENT, HPTE_V_AVPN_B, HPTE_V_VALID, Hpte, is_writable, make_readonly,
};
use crate::kvm_hv::lock::{invalidate, lock_hpte, unlock_hpte};
use crate::kvm_hv::vm::Vm;

use super::{HcallError, flags};

/// The flags word of H_PROTECT: `H_AVPN` and the new protection bits in PAPR's places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProtectFlags(pub u64);

impl ProtectFlags {
    /// The flags that give an entry the PP0, PP, N and key bits of second doubleword `r`.
    #[must_use]
    pub const fn from_r(r: u64) -> Self {
        Self((r & HPTE_R_PP0) >> 55 | (r & HPTE_R_KEY_HI) >> 48 | r & (HPTE_R_PP | HPTE_R_N | HPTE_R_KEY_LO))
    }

    /// The second doubleword's bits they stand for.
    #[must_use]
    pub const fn bits(self) -> u64 {
        (self.0 << 55) & HPTE_R_PP0 | (self.0 << 48) & HPTE_R_KEY_HI | self.0 & (HPTE_R_PP | HPTE_R_N | HPTE_R_KEY_LO)
    }
}

impl Vm {
    /// H_PROTECT: replaces PP0, PP, N and the key of the entry at `at`, if `H_AVPN` is off or `avpn` matches.
    ///
    /// A VALID entry never turns from read-only to writable here: the fault path does that. An ABSENT one changes in
    /// the guest's view only; if it is MMIO the generation is bumped, even when nothing changed.
    ///
    /// # Errors
    /// `Parameter` beyond the table, `NotFound` for an empty slot or another AVPN.
    pub fn h_protect(&self, protect: ProtectFlags, at: PteIndex, avpn: u64) -> Result<(), HcallError> {
        let view = self.view.load();
        let (slot, rev) = view.hpt.entry(at).ok_or(HcallError::Parameter)?;
        let v = lock_hpte(&slot.v);
        if v & (HPTE_V_VALID | HPTE_V_ABSENT) == 0 || (protect.0 & flags::H_AVPN != 0 && v & HPTE_V_AVPN_B != avpn) {
            unlock_hpte(&slot.v, v);
            return Err(HcallError::NotFound);
        }
        let old_r = slot.read_r();
        let guest_r = rev.guest_rpte.load(Ordering::Relaxed);
        rev.guest_rpte.store(guest_r & !HPTE_R_PROTECTION | protect.bits(), Ordering::Relaxed);
        if v & HPTE_V_VALID != 0 {
            let mut r = old_r & !HPTE_R_PROTECTION | protect.bits();
            if is_writable(r) && !is_writable(old_r) {
                r = make_readonly(r);
            }
            if r != old_r {
                // Not valid while it changes, and R and C that hardware set meanwhile are kept.
                invalidate(&slot.v, v & !HPTE_V_VALID | HPTE_V_ABSENT);
                slot.write_r(r | slot.read_r() & (HPTE_R_R | HPTE_R_C));
            }
        }
        unlock_hpte(&slot.v, v);
        if (Hpte { v, r: old_r }).is_mmio() {
            self.bump_generation();
        }
        Ok(())
    }
}
