//! H_READ (`kvmppc_h_read`).

use std::sync::atomic::Ordering;

use crate::addr::PteIndex;
use crate::book3s::hpte::{HPTE_GR_RESERVED, HPTE_R_C, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_HVLOCK, HPTE_V_VALID, Hpte};
use crate::kvm_hv::lock::read_v;
use crate::kvm_hv::vm::Vm;

use super::{HcallError, flags};

impl Vm {
    /// H_READ: the entry at `at` in the guest's view; with `H_READ_4` four, from `at` rounded down to a multiple of
    /// four (the others are zero without it).
    ///
    /// # Errors
    /// `Parameter` beyond the table.
    pub fn h_read(&self, flags: u64, at: PteIndex) -> Result<[Hpte; 4], HcallError> {
        let view = self.view.load();
        view.hpt.slot(at).ok_or(HcallError::Parameter)?;
        let (first, count) = if flags & flags::H_READ_4 != 0 { (at.0 & !3, 4) } else { (at.0, 1) };
        let mut entries = [Hpte::default(); 4];
        for (entry, i) in entries.iter_mut().take(count).zip(first..) {
            let (slot, rev) = view.hpt.entry(PteIndex(i)).ok_or(HcallError::Parameter)?;
            let mut v = read_v(&slot.v) & !HPTE_V_HVLOCK;
            let mut r = slot.read_r();
            if v & HPTE_V_ABSENT != 0 {
                v = v & !HPTE_V_ABSENT | HPTE_V_VALID;
            }
            if v & HPTE_V_VALID != 0 {
                r = (rev.guest_rpte.load(Ordering::Acquire) | r & (HPTE_R_R | HPTE_R_C)) & !HPTE_GR_RESERVED;
            }
            *entry = Hpte { v, r };
        }
        Ok(entries)
    }
}
