//! Page-out and page-in from the host's side: unmapping a page's HPTEs (`kvm_unmap_rmapp`, `kvmppc_unmap_hpte`).

use std::sync::atomic::Ordering;

use crate::addr::{Gfn, GuestPhysAddr, KeyOnPageOut, PteIndex};
use crate::book3s::PageSizes;
use crate::book3s::hpte::{HPTE_R_C, HPTE_R_KEY, HPTE_R_R, HPTE_R_RPN, HPTE_V_ABSENT, HPTE_V_VALID};

use super::hpt::Hpt;
use super::lock::{invalidate, lock_hpte, lock_ring_head, read_v, unlock_hpte, unlock_rmap};
use super::memslot::{HOST_ABSENT, HOST_PRESENT, HOST_ZERO, Memslot};
use super::rmap::{RMAP_INDEX, RMAP_PRESENT, RMAP_RC_SHIFT, remove_from_chain};
use super::vm::Vm;

/// Guest physical address of the page that a guest's second doubleword maps (`hpte_rpn` times the page size).
pub(super) const fn page_base(guest_r: u64, actual_bytes: u64) -> GuestPhysAddr {
    GuestPhysAddr(guest_r & HPTE_R_RPN & !(actual_bytes - 1))
}

/// The slot's frames on the same host backing page as `gfn`: they come and go together.
fn backing_frames(slot: &Memslot, gfn: Gfn, page_shift: u32) -> std::ops::Range<u64> {
    let span = 1 << slot.backing_shift.saturating_sub(page_shift);
    let first = gfn.0 & !(span - 1);
    first.max(slot.base.0)..(first + span).min(slot.base.0 + slot.pages)
}

impl Vm {
    /// Pages out the host page that holds `gpa`: its HPTEs become ABSENT and lose their key (patch 1 of the
    /// 2016 series; `key_on_page_out` decides). Returns the HPTEs unmapped; no memslot there: `None`.
    pub fn page_out(&self, gpa: GuestPhysAddr) -> Option<u64> {
        let view = self.view.load();
        let gfn = gpa.gfn(self.page_shift());
        let slot = view.memslots.find(gfn)?;
        let frames = backing_frames(slot, gfn, self.page_shift());
        // The host page goes before the invalidation ends: a fault that found it present is then told to retry.
        // Were it later, such a fault could map a page that the host no longer has.
        self.invalidating(|| {
            let unmapped = frames.clone().map(|gfn| self.unmap_rmapp(&view.hpt, slot, Gfn(gfn))).sum();
            for frame in frames {
                slot.host_state(Gfn(frame))?.store(HOST_ABSENT, Ordering::Release);
            }
            Some(unmapped)
        })
    }

    /// Brings the host page that holds `gpa` back into host memory, writable, without mapping it for the guest: what a
    /// host thread that writes to the page does. The guest's next access, or its next H_ENTER, maps it.
    pub fn page_in(&self, gpa: GuestPhysAddr) -> Option<()> {
        let view = self.view.load();
        let gfn = gpa.gfn(self.page_shift());
        let slot = view.memslots.find(gfn)?;
        for frame in backing_frames(slot, gfn, self.page_shift()) {
            self.host_write(&view.hpt, slot, Gfn(frame));
        }
        Some(())
    }

    /// A host write to `gfn`'s page: what was not there is there, and the page of zeroes gives way to one of its own, which
    /// unmaps it for the guest first (copy on write, told by the MMU notifier). Whether that was so.
    pub(super) fn host_write(&self, hpt: &Hpt, slot: &Memslot, gfn: Gfn) -> bool {
        let Some(state) = slot.host_state(gfn) else { return false };
        if state.load(Ordering::Acquire) != HOST_ZERO {
            state.store(HOST_PRESENT, Ordering::Release);
            return false;
        }
        self.invalidating(|| {
            self.unmap_rmapp(hpt, slot, gfn);
            state.store(HOST_PRESENT, Ordering::Release);
        });
        true
    }

    /// Unmaps every page of a slot (`kvmppc_core_flush_memslot_hv`).
    pub(super) fn flush_memslot(&self, slot: &Memslot) {
        let hpt = self.hpt();
        self.invalidating(|| {
            for page in 0..slot.pages {
                self.unmap_rmapp(&hpt, slot, Gfn(slot.base.0 + page));
            }
        });
    }

    /// Unmaps all HPTEs of one page, one after another from the head of its ring.
    fn unmap_rmapp(&self, hpt: &Hpt, slot: &Memslot, gfn: Gfn) -> u64 {
        let Some(rmap) = slot.rmap(gfn) else { return 0 };
        let head = |word: u64| {
            let at = PteIndex(word & RMAP_INDEX);
            let entry = if word & RMAP_PRESENT != 0 { hpt.slot(at) } else { None };
            entry.map(|entry| ((at, entry), &entry.v))
        };
        let mut unmapped = 0;
        while let Ok(((at, entry), v, word)) = lock_ring_head(rmap, head) {
            let (v, word) = self.unmap_hpte(hpt, slot, gfn, at, v, word);
            unlock_rmap(rmap, word);
            unlock_hpte(&entry.v, v);
            unmapped += 1;
        }
        unmapped
    }

    /// Unmaps one locked HPTE (`kvmppc_unmap_hpte`); returns its first doubleword and the reverse-map word.
    pub(super) fn unmap_hpte(
        &self,
        hpt: &Hpt,
        slot: &Memslot,
        gfn: Gfn,
        at: PteIndex,
        v: u64,
        rmap: u64,
    ) -> (u64, u64) {
        let mut rmap = remove_from_chain(hpt, rmap, at);
        let Some((entry, rev)) = hpt.entry(at) else { return (v, rmap) };
        let guest_r = rev.guest_rpte.load(Ordering::Relaxed);
        let Some(sizes) = PageSizes::of_hpte(v, guest_r) else { return (v, rmap) };
        let mapped = page_base(guest_r, sizes.actual.bytes()).gfn(self.page_shift());
        if v & HPTE_V_VALID == 0 || mapped != gfn {
            return (v, rmap);
        }
        let v = v & !HPTE_V_VALID | HPTE_V_ABSENT;
        invalidate(&entry.v, v);
        let mut r = entry.read_r();
        if self.behaviour().key_on_page_out == KeyOnPageOut::Cleared {
            r &= !HPTE_R_KEY;
            entry.write_r(r);
        }
        let rc = r & (HPTE_R_R | HPTE_R_C);
        rmap |= rc << RMAP_RC_SHIFT;
        if rc & HPTE_R_C != 0 {
            slot.mark_dirty(gfn, sizes.actual.bytes(), self.page_shift());
        }
        rev.guest_rpte.store(guest_r | rc, Ordering::Relaxed);
        (v, rmap)
    }

    /// Gives every ABSENT entry of a deleted slot key 31, so that its pages are cacheable MMIO again
    /// (switch `key_on_memslot_delete = mmio`; no kernel does it). Walks the whole table.
    pub(super) fn mark_as_mmio(&self, slot: &Memslot) {
        let hpt = self.hpt();
        for i in 0..hpt.npte() {
            let Some((entry, rev)) = hpt.entry(PteIndex(i)) else { return };
            if read_v(&entry.v) & HPTE_V_ABSENT == 0 {
                continue;
            }
            let v = lock_hpte(&entry.v);
            let guest_r = rev.guest_rpte.load(Ordering::Relaxed);
            let page = PageSizes::of_hpte(v, guest_r).map(|sizes| page_base(guest_r, sizes.actual.bytes()));
            if v & HPTE_V_ABSENT != 0 && page.is_some_and(|gpa| slot.contains(gpa.gfn(self.page_shift()))) {
                entry.write_r(entry.read_r() | HPTE_R_KEY);
            }
            unlock_hpte(&entry.v, v);
        }
    }
}
