//! H_BULK_REMOVE (`kvmppc_h_bulk_remove`): up to four removals in one call.

use std::sync::atomic::Ordering;

use crate::addr::PteIndex;
use crate::book3s::hpte::{HPTE_R_C, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_AVPN_B, HPTE_V_HVLOCK, HPTE_V_VALID, Hpte};
use crate::kvm_hv::hpt::Slot;
use crate::kvm_hv::lock::{invalidate, lock_hpte, read_v, try_lock_hpte, unlock_hpte};
use crate::kvm_hv::vm::{View, Vm};

use super::HcallError;

/// Requests of one call: pairs of a control and index word and a condition.
pub const BULK_REQUESTS: usize = 4;

const INDEX: u64 = (1 << 56) - 1;
const SUCCESS: u64 = 0x80;
const NOT_FOUND: u64 = 0x90;
const PARAMETER: u64 = 0xa0;

/// Answer byte with its low flag bits, over the index.
const fn answer(code: u64, request: u64) -> u64 {
    (code | ((request >> 56) & 3)) << 56 | (request & INDEX)
}

/// R (0x08) and C (0x04) of the top byte.
const fn answered_rc(guest_r: u64) -> u64 {
    (guest_r & (HPTE_R_R | HPTE_R_C)) << (56 - 5)
}

impl Vm {
    /// H_BULK_REMOVE. `args` are the eight words in GPR4 to GPR11, answered in place.
    ///
    /// Control byte: 0x40 | kind (0 absolute, 1 ANDCOND, 2 AVPN) asks, 0xc0 ends. Answer byte: 0x80 success, 0x90 not
    /// found, 0xa0 parameter, each with R 0x08, C 0x04 and the request's kind. It waits for HVLOCK only for the first
    /// entry of a batch: it keeps the VALID ones of a batch locked until their invalidation, and two such calls could
    /// otherwise wait for each other.
    ///
    /// # Errors
    /// `Parameter` at the first malformed request; those before it are done and answered.
    pub fn h_bulk_remove(&self, args: &mut [u64; 2 * BULK_REQUESTS]) -> Result<(), HcallError> {
        let view = self.view.load();
        let mut next = 0;
        loop {
            let mut batch = Batch::default();
            let end = self.collect(&view, args, &mut next, &mut batch);
            for (request, slot, v) in batch.held[..batch.len].iter().flatten() {
                let word = &mut args[2 * request];
                let at = PteIndex(*word & INDEX);
                if let Some(rev) = view.hpt.rev(at) {
                    self.unlink(&view.hpt, &view.memslots, at, rev, Hpte { v: *v, r: slot.read_r() });
                    *word |= answered_rc(rev.guest_rpte.load(Ordering::Relaxed));
                }
                unlock_hpte(&slot.v, 0);
            }
            match end {
                End::All => return Ok(()),
                End::Bad => return Err(HcallError::Parameter),
                End::Busy => {}
            }
        }
    }

    /// Works through the requests from `next` until they end, one is bad, or an entry is locked by another thread.
    fn collect<'a>(&self, view: &'a View, args: &mut [u64; 8], next: &mut usize, batch: &mut Batch<'a>) -> End {
        while *next < BULK_REQUESTS {
            let (request, condition) = (args[2 * *next], args[2 * *next + 1]);
            let at = PteIndex(request & INDEX);
            let entry = match (request >> 62, (request >> 56) & 3) {
                (3, _) => return End::All,
                (1, 0..=2) => view.hpt.entry(at),
                _ => None,
            };
            let Some((slot, rev)) = entry else {
                args[2 * *next] = answer(PARAMETER, request);
                return End::Bad;
            };
            let v = match try_lock_hpte(&slot.v, HPTE_V_HVLOCK) {
                Some(v) => v,
                // An entry named twice in one call is locked by this very batch: let the batch go first.
                None if batch.len > 0 => return End::Busy,
                None => lock_hpte(&slot.v),
            };
            let found = v & (HPTE_V_VALID | HPTE_V_ABSENT) != 0
                && match (request >> 56) & 3 {
                    0 => true,
                    1 => v & condition == 0,
                    _ => v & HPTE_V_AVPN_B == condition,
                };
            if !found {
                unlock_hpte(&slot.v, v);
                args[2 * *next] = answer(NOT_FOUND, request);
            } else if v & HPTE_V_VALID == 0 {
                args[2 * *next] = answer(SUCCESS, request) | answered_rc(rev.guest_rpte.load(Ordering::Relaxed));
                let r = slot.read_r();
                unlock_hpte(&slot.v, 0);
                if (Hpte { v, r }).is_mmio() {
                    self.bump_generation();
                }
            } else {
                args[2 * *next] = answer(SUCCESS, request);
                invalidate(&slot.v, v & !HPTE_V_VALID);
                debug_assert!(read_v(&slot.v) & HPTE_V_HVLOCK != 0);
                batch.held[batch.len] = Some((*next, slot, v));
                batch.len += 1;
            }
            *next += 1;
        }
        End::All
    }
}

/// How a batch ended.
enum End {
    /// No request is left.
    All,
    /// The request at `next` is malformed.
    Bad,
    /// The entry of the request at `next` is locked: finish this batch, then wait for it.
    Busy,
}

/// VALID entries held locked until their common invalidation: request number, slot, first doubleword.
#[derive(Default)]
struct Batch<'a> {
    held: [Option<(usize, &'a Slot, u64)>; BULK_REQUESTS],
    len: usize,
}
