//! H_REMOVE (`kvmppc_do_h_remove`), and what it shares with H_BULK_REMOVE.

use std::sync::atomic::Ordering;

use crate::addr::PteIndex;
use crate::book3s::PageSizes;
use crate::book3s::hpte::{HPTE_GR_RESERVED, HPTE_R_C, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_AVPN_B, HPTE_V_VALID, Hpte};
use crate::kvm_hv::hpt::{Hpt, Revmap};
use crate::kvm_hv::lock::{invalidate, lock_hpte, lock_rmap, unlock_hpte, unlock_rmap};
use crate::kvm_hv::memslot::Memslots;
use crate::kvm_hv::page_out::page_base;
use crate::kvm_hv::rmap::{RMAP_RC_SHIFT, remove_from_chain};
use crate::kvm_hv::vm::Vm;

use super::{HcallError, flags};

impl Vm {
    /// H_REMOVE: invalidates the entry at `at`, if the conditions in `flags` (`H_AVPN`, `H_ANDCOND`) on `avpn` hold.
    ///
    /// Returns the entry in the guest's view: an ABSENT one as VALID, the guest's own second doubleword with R and C
    /// gathered. An MMIO HPTE's removal bumps the generation, after the unlock.
    ///
    /// # Errors
    /// `Parameter` beyond the table, `NotFound` for an empty slot or a condition that does not hold.
    pub fn h_remove(&self, flags: u64, at: PteIndex, avpn: u64) -> Result<Hpte, HcallError> {
        let view = self.view.load();
        let (slot, rev) = view.hpt.entry(at).ok_or(HcallError::Parameter)?;
        let v = lock_hpte(&slot.v);
        let r = slot.read_r();
        if v & (HPTE_V_VALID | HPTE_V_ABSENT) == 0
            || (flags & flags::H_AVPN != 0 && v & HPTE_V_AVPN_B != avpn)
            || (flags & flags::H_ANDCOND != 0 && v & avpn != 0)
        {
            unlock_hpte(&slot.v, v);
            return Err(HcallError::NotFound);
        }
        if v & HPTE_V_VALID != 0 {
            invalidate(&slot.v, v & !HPTE_V_VALID);
            // Hardware sets R and C until the invalidate is done, so the doubleword is read again after it.
            self.unlink(&view.hpt, &view.memslots, at, rev, Hpte { v, r: slot.read_r() });
        }
        let guest_r = rev.guest_rpte.load(Ordering::Relaxed) & !HPTE_GR_RESERVED;
        unlock_hpte(&slot.v, 0);
        if (Hpte { v, r }).is_mmio() {
            self.bump_generation();
        }
        let v = if v & HPTE_V_ABSENT != 0 { v & !HPTE_V_ABSENT | HPTE_V_VALID } else { v };
        Ok(Hpte { v, r: guest_r })
    }

    /// Takes a locked entry out of its page's ring and gathers R and C (`remove_revmap_chain`).
    pub(super) fn unlink(&self, hpt: &Hpt, memslots: &Memslots, at: PteIndex, rev: &Revmap, hpte: Hpte) {
        let rc = hpte.r & (HPTE_R_R | HPTE_R_C);
        let guest_r = rev.guest_rpte.load(Ordering::Relaxed) | rc;
        rev.guest_rpte.store(guest_r, Ordering::Relaxed);
        let Some(bytes) = PageSizes::of_hpte(hpte.v, guest_r).map(|sizes| sizes.actual.bytes()) else { return };
        let gfn = page_base(guest_r, bytes).gfn(self.page_shift());
        let Some((slot, rmap)) = memslots.find(gfn).and_then(|slot| Some((slot, slot.rmap(gfn)?))) else { return };
        let word = lock_rmap(rmap);
        let word = remove_from_chain(hpt, word, at) | rc << RMAP_RC_SHIFT;
        if rc & HPTE_R_C != 0 {
            slot.mark_dirty(gfn, bytes, self.page_shift());
        }
        unlock_rmap(rmap, word);
    }
}
