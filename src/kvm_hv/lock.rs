//! The two bit locks of the HPT, generic over the atomic so that loom can drive them on a few words.
//!
//! HVLOCK is a bit in an HPTE's first doubleword, big-endian in memory on every host. The rmap lock is the top
//! bit of a reverse-map word. Lock order: HVLOCK before the rmap lock; who holds an rmap lock may only *try*
//! HVLOCK (`kvm_unmap_rmapp`), or two threads can wait for each other (ABBA).

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::book3s::hpte::{HPTE_V_HVLOCK, HPTE_V_VALID};

/// What the locks need of a 64-bit atomic word.
pub trait AtomicWord {
    /// Atomic load.
    fn load(&self, order: Ordering) -> u64;
    /// Atomic store.
    fn store(&self, value: u64, order: Ordering);
    /// Compare-exchange, strong; whether it stored.
    fn compare_exchange(&self, current: u64, new: u64, order: Ordering) -> bool;
    /// Atomic add; the value before.
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;
    /// Atomic or; the value before.
    fn fetch_or(&self, value: u64, order: Ordering) -> u64;
    /// Sequentially consistent fence.
    fn fence();
    /// Lets another thread run while this one waits (`cpu_relax`).
    fn relax();
}

impl AtomicWord for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        Self::store(self, value, order);
    }

    #[inline]
    fn compare_exchange(&self, current: u64, new: u64, order: Ordering) -> bool {
        Self::compare_exchange(self, current, new, order, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        Self::fetch_add(self, value, order)
    }

    #[inline]
    fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        Self::fetch_or(self, value, order)
    }

    #[inline]
    fn fence() {
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn relax() {
        std::hint::spin_loop();
    }
}

/// First doubleword in host order, HVLOCK as it stands.
#[inline]
pub fn read_v<A: AtomicWord>(word: &A) -> u64 {
    u64::from_be(word.load(Ordering::Acquire))
}

/// Takes HVLOCK if none of `bits` is set in the first doubleword (`try_lock_hpte`).
///
/// Returns the doubleword as it was, without HVLOCK, or `None` if a bit was set or another thread won.
#[inline]
pub fn try_lock_hpte<A: AtomicWord>(word: &A, bits: u64) -> Option<u64> {
    let old = word.load(Ordering::Relaxed);
    let v = u64::from_be(old);
    let free = v & bits == 0 && word.compare_exchange(old, (v | HPTE_V_HVLOCK).to_be(), Ordering::Acquire);
    free.then_some(v)
}

/// Takes HVLOCK, waiting for it; returns the first doubleword without HVLOCK.
#[inline]
pub fn lock_hpte<A: AtomicWord>(word: &A) -> u64 {
    loop {
        if let Some(v) = try_lock_hpte(word, HPTE_V_HVLOCK) {
            return v;
        }
        A::relax();
    }
}

/// Writes the first doubleword, releasing HVLOCK (`unlock_hpte`): `v` must not have it set.
#[inline]
pub fn unlock_hpte<A: AtomicWord>(word: &A, v: u64) {
    debug_assert_eq!(v & HPTE_V_HVLOCK, 0);
    word.store(v.to_be(), Ordering::Release);
}

/// Takes VALID away from an HPTE this thread has locked, as `v` says, and waits until no hardware uses the old entry
/// (`kvmppc_invalidate_hpte`: tlbie, ptesync).
///
/// R and C are final once this returns: [`set_rc`] sets them in time or tells that the access did not happen.
#[inline]
pub fn invalidate<A: AtomicWord>(word: &A, v: u64) {
    debug_assert_eq!(v & HPTE_V_VALID, 0);
    word.store((v | HPTE_V_HVLOCK).to_be(), Ordering::Release);
    A::fence();
}

/// Hardware's part of [`invalidate`]: sets bits `rc` in the second doubleword of an entry whose first doubleword was
/// `v`. False: it is no longer, the access did not happen, whoever invalidated it may have missed the bits.
#[inline]
pub fn set_rc<A: AtomicWord>(first: &A, second: &A, v: u64, rc: u64) -> bool {
    second.fetch_or(rc.to_be(), Ordering::AcqRel);
    A::fence();
    read_v(first) & !HPTE_V_HVLOCK == v
}

/// Waits until HVLOCK is free without taking it: what page-out does after it let go of the rmap lock.
#[inline]
pub fn wait_unlocked<A: AtomicWord>(word: &A) {
    while read_v(word) & HPTE_V_HVLOCK != 0 {
        A::relax();
    }
}

/// Lock bit of a reverse-map word (`KVMPPC_RMAP_LOCK_BIT`).
pub const RMAP_LOCK: u64 = 1 << 63;

/// Takes the rmap lock, waiting for it; returns the word without the lock bit (`lock_rmap`).
#[inline]
pub fn lock_rmap<A: AtomicWord>(word: &A) -> u64 {
    loop {
        let old = word.load(Ordering::Relaxed);
        if old & RMAP_LOCK == 0 && word.compare_exchange(old, old | RMAP_LOCK, Ordering::Acquire) {
            return old;
        }
        A::relax();
    }
}

/// Writes the reverse-map word, releasing its lock (`unlock_rmap`).
#[inline]
pub fn unlock_rmap<A: AtomicWord>(word: &A, value: u64) {
    debug_assert_eq!(value & RMAP_LOCK, 0);
    word.store(value, Ordering::Release);
}

/// Takes the rmap lock and HVLOCK of the HPTE at the head of the ring, in the order that page-out must use
/// (`kvm_unmap_rmapp`): HVLOCK is only tried under the rmap lock; if that fails, the rmap lock is let go while waiting.
///
/// `head` says which HPTE the ring begins with. `Ok`: what it said, the first doubleword and the reverse-map word,
/// both locked. `Err`: the ring is empty; the word, unlocked.
#[inline]
pub fn lock_ring_head<'a, A: AtomicWord + 'a, T>(
    rmap: &A,
    head: impl Fn(u64) -> Option<(T, &'a A)>,
) -> Result<(T, u64, u64), u64> {
    loop {
        let word = lock_rmap(rmap);
        let Some((at, hpte)) = head(word) else {
            unlock_rmap(rmap, word);
            return Err(word);
        };
        if let Some(v) = try_lock_hpte(hpte, HPTE_V_HVLOCK) {
            return Ok((at, v, word));
        }
        unlock_rmap(rmap, word);
        wait_unlocked(hpte);
    }
}

/// The generation of MMIO HPTEs (`mmio_update`), to be read before the lookup whose result it tags.
#[inline]
pub fn read_generation<A: AtomicWord>(generation: &A) -> u64 {
    generation.load(Ordering::Acquire)
}

/// Moves the generation by one (`atomic64_inc(&kvm->arch.mmio_update)`), after the unlock of what changed: an entry
/// tagged with the new generation was then looked up after the change.
#[inline]
pub fn bump_generation<A: AtomicWord>(generation: &A) {
    generation.fetch_add(1, Ordering::AcqRel);
}
