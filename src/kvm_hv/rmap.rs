//! Reverse map: from a guest page to the HPTEs that map it, as a ring of indices (`kvmppc_add_revmap_chain`).
//!
//! One word a page in its memslot: lock bit, R and C gathered so far, PRESENT, index of the ring's head.

use std::sync::atomic::Ordering;

use crate::addr::{PteIndex, index};
use crate::book3s::hpte::{HPTE_R_C, HPTE_R_R};

use super::hpt::{Hpt, Revmap};

/// Shift of the R and C bits in a reverse-map word (`KVMPPC_RMAP_RC_SHIFT`).
pub const RMAP_RC_SHIFT: u32 = 32;
/// R, gathered (`KVMPPC_RMAP_REFERENCED`).
pub const RMAP_REFERENCED: u64 = HPTE_R_R << RMAP_RC_SHIFT;
/// C, gathered (`KVMPPC_RMAP_CHANGED`).
pub const RMAP_CHANGED: u64 = HPTE_R_C << RMAP_RC_SHIFT;
/// The ring is not empty (`KVMPPC_RMAP_PRESENT`).
pub const RMAP_PRESENT: u64 = 1 << 32;
/// Index of the head (`KVMPPC_RMAP_INDEX`).
pub const RMAP_INDEX: u64 = 0xffff_ffff;

/// R and C as HPTE bits.
#[must_use]
pub const fn gathered(rmap: u64) -> u64 {
    (rmap >> RMAP_RC_SHIFT) & (HPTE_R_R | HPTE_R_C)
}

fn element(hpt: &Hpt, at: u32) -> &Revmap {
    &hpt.rev_array()[index(u64::from(at))]
}

/// Index as the 32-bit link that the kernel's ring uses.
///
/// A table of order above 36 has more entries than a link can name; the kernel has the same limit.
#[expect(clippy::cast_possible_truncation, reason = "the ring's links are 32 bits wide, as in the kernel")]
const fn link(at: PteIndex) -> u32 {
    at.0 as u32
}

/// Puts HPTE `at` into the ring of `rmap` (locked by the caller) and returns the new word.
pub fn add_to_chain(hpt: &Hpt, rmap: u64, at: PteIndex) -> u64 {
    let at = link(at);
    let rev = element(hpt, at);
    if rmap & RMAP_PRESENT != 0 {
        let head = link(PteIndex(rmap & RMAP_INDEX));
        let head_rev = element(hpt, head);
        let tail = head_rev.back.load(Ordering::Relaxed);
        rev.forw.store(head, Ordering::Relaxed);
        rev.back.store(tail, Ordering::Relaxed);
        element(hpt, tail).forw.store(at, Ordering::Relaxed);
        head_rev.back.store(at, Ordering::Relaxed);
        rmap
    } else {
        rev.forw.store(at, Ordering::Relaxed);
        rev.back.store(at, Ordering::Relaxed);
        rmap & !RMAP_INDEX | u64::from(at) | RMAP_PRESENT
    }
}

/// Takes HPTE `at` out of the ring of `rmap` (locked by the caller) and returns the new word.
pub fn remove_from_chain(hpt: &Hpt, rmap: u64, at: PteIndex) -> u64 {
    let at = link(at);
    let rev = element(hpt, at);
    let next = rev.forw.load(Ordering::Relaxed);
    let prev = rev.back.load(Ordering::Relaxed);
    element(hpt, next).back.store(prev, Ordering::Relaxed);
    element(hpt, prev).forw.store(next, Ordering::Relaxed);
    rev.forw.store(at, Ordering::Relaxed);
    rev.back.store(at, Ordering::Relaxed);
    if next == at {
        rmap & !(RMAP_PRESENT | RMAP_INDEX)
    } else if rmap & RMAP_INDEX == u64::from(at) {
        rmap & !RMAP_INDEX | u64::from(next)
    } else {
        rmap
    }
}

/// The indices in the ring of `rmap`, head first; the caller holds its lock.
#[must_use]
pub fn chain(hpt: &Hpt, rmap: u64) -> Vec<PteIndex> {
    let mut indices = Vec::new();
    if rmap & RMAP_PRESENT != 0 {
        let head = link(PteIndex(rmap & RMAP_INDEX));
        let mut at = head;
        loop {
            indices.push(PteIndex(u64::from(at)));
            at = element(hpt, at).forw.load(Ordering::Relaxed);
            if at == head {
                break;
            }
        }
    }
    indices
}
