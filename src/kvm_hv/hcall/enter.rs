//! H_ENTER (`kvmppc_do_h_enter`).

use std::sync::atomic::Ordering;

use crate::addr::{PteIndex, index};
use crate::book3s::PageSizes;
use crate::book3s::hash::PTEG_ENTRIES;
use crate::book3s::hpte::{
    HPTE_GR_RESERVED, HPTE_R_C, HPTE_R_KEY, HPTE_R_PP0, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_B_SHIFT, HPTE_V_HVLOCK,
    HPTE_V_VALID, Hpte, is_writable, make_readonly,
};
use crate::kvm_hv::hpt::{Hpt, Slot};
use crate::kvm_hv::lock::{lock_hpte, lock_rmap, try_lock_hpte, unlock_hpte, unlock_rmap};
use crate::kvm_hv::memslot::Memslot;
use crate::kvm_hv::page_out::page_base;
use crate::kvm_hv::rmap::{add_to_chain, gathered};
use crate::kvm_hv::vm::Vm;

use super::{HcallError, flags};

impl Vm {
    /// H_ENTER: puts `hpte` into the first free slot of the group of `at`, or with `H_EXACT` into `at` itself.
    ///
    /// No memslot behind the page: ABSENT with key 31, emulated MMIO. RAM that the host has in memory: VALID.
    /// RAM that it has not, or an invalidation in progress: ABSENT, key cleared. The guest's own second
    /// doubleword is kept in the reverse-map array.
    ///
    /// # Errors
    /// `Parameter`: reserved B, unassigned L/LP, an index beyond the table, a page that does not fit its memslot's
    /// alignment, or one larger than the host's. `PtegFull`: no free slot. The table is untouched then.
    pub fn h_enter(&self, flags: u64, at: PteIndex, hpte: Hpte) -> Result<PteIndex, HcallError> {
        if (hpte.v >> HPTE_V_B_SHIFT) & 2 != 0 {
            return Err(HcallError::Parameter);
        }
        let bytes = PageSizes::of_hpte(hpte.v, hpte.r).ok_or(HcallError::Parameter)?.actual.bytes();
        let guest_r = hpte.r & !HPTE_GR_RESERVED;
        let v = hpte.v & !(HPTE_V_HVLOCK | HPTE_V_ABSENT | HPTE_V_VALID);
        let gpa = page_base(guest_r, bytes);
        let gfn = gpa.gfn(self.page_shift());

        let seq = self.mmu_seq();
        let view = self.view.load();
        let slot = view.memslots.find(gfn);
        let mut entry = match slot {
            None => Hpte { v: v | HPTE_V_ABSENT, r: guest_r | HPTE_R_KEY },
            Some(slot) => {
                if !slot.is_aligned(bytes, self.page_shift()) || bytes > 1 << slot.backing_shift {
                    return Err(HcallError::Parameter);
                }
                // What the host may not write the guest may only read, until a store of its own faults.
                let read_only = is_writable(guest_r) && slot.is_present(gfn) && !slot.is_host_writable(gfn);
                let granted = if read_only { make_readonly(guest_r) } else { guest_r };
                let kept = granted & (HPTE_R_KEY | HPTE_R_PP0 | (bytes - 1));
                if slot.is_present(gfn) {
                    Hpte { v: v | HPTE_V_VALID, r: kept | slot.host_real(gpa, self.page_shift()) }
                } else {
                    Hpte { v: v | HPTE_V_ABSENT, r: kept & !HPTE_R_KEY }
                }
            }
        };

        let (at, place) = claim(&view.hpt, flags, at)?;
        let Some(rev) = view.hpt.rev(at) else { return Err(HcallError::Parameter) };
        rev.guest_rpte.store(guest_r, Ordering::Relaxed);
        if let Some(slot) = slot.filter(|_| entry.v & HPTE_V_VALID != 0) {
            entry = self.link(&view.hpt, slot, at, entry, gpa, seq);
        }
        if entry.v & HPTE_V_VALID != 0 {
            view.hpt.will_be_valid(at);
        }
        place.write_r(entry.r);
        unlock_hpte(&place.v, entry.v);
        Ok(at)
    }

    /// Puts a VALID entry into its page's ring, unless an invalidation came in between: then it is ABSENT.
    fn link(
        &self,
        hpt: &Hpt,
        slot: &Memslot,
        at: PteIndex,
        entry: Hpte,
        gpa: crate::addr::GuestPhysAddr,
        seq: u64,
    ) -> Hpte {
        let Some(rmap) = slot.rmap(gpa.gfn(self.page_shift())) else { return entry };
        let word = lock_rmap(rmap);
        if self.invalidated_since(seq) {
            unlock_rmap(rmap, word);
            return Hpte { v: entry.v & !HPTE_V_VALID | HPTE_V_ABSENT, r: entry.r & !HPTE_R_KEY };
        }
        let word = add_to_chain(hpt, word, at);
        unlock_rmap(rmap, word);
        // R and C are set in the real entry only if the host already knows of them.
        Hpte { v: entry.v, r: entry.r & (gathered(word) | !(HPTE_R_R | HPTE_R_C)) }
    }
}

/// Finds and locks the slot to use.
fn claim(hpt: &Hpt, flags: u64, at: PteIndex) -> Result<(PteIndex, &Slot), HcallError> {
    const IN_USE: u64 = HPTE_V_HVLOCK | HPTE_V_VALID | HPTE_V_ABSENT;
    let exact = hpt.slot(at).ok_or(HcallError::Parameter)?;
    let first = PteIndex(at.0 & !(PTEG_ENTRIES - 1));
    let group = || (first.0..first.0 + PTEG_ENTRIES).filter_map(|i| Some((PteIndex(i), hpt.slot(PteIndex(i))?)));
    let candidates: &mut dyn Iterator<Item = (PteIndex, &Slot)> =
        if flags & flags::H_EXACT != 0 { &mut std::iter::once((at, exact)) } else { &mut group() };
    // First without waiting; a slot that was only locked for a moment is looked at again under its lock.
    let mut seen: [Option<(PteIndex, &Slot)>; index(PTEG_ENTRIES)] = [None; index(PTEG_ENTRIES)];
    for (place, candidate) in seen.iter_mut().zip(candidates) {
        if try_lock_hpte(&candidate.1.v, IN_USE).is_some() {
            return Ok(candidate);
        }
        *place = Some(candidate);
    }
    for candidate in seen.into_iter().flatten() {
        let v = lock_hpte(&candidate.1.v);
        if v & (HPTE_V_VALID | HPTE_V_ABSENT) == 0 {
            return Ok(candidate);
        }
        unlock_hpte(&candidate.1.v, v);
    }
    Err(HcallError::PtegFull)
}
