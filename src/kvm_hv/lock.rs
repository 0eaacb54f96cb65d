//! The two bit locks of the HPT, generic over the atomic so that loom can drive them on a few words.
//!
//! HVLOCK is a bit in an HPTE's first doubleword, big-endian in memory on every host. The rmap lock is the top
//! bit of a reverse-map word. Lock order: HVLOCK before the rmap lock; who holds an rmap lock may only *try*
//! HVLOCK (`kvm_unmap_rmapp`), or two threads can wait for each other (ABBA).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::book3s::hpte::HPTE_V_HVLOCK;

/// What the locks need of a 64-bit atomic word.
pub trait AtomicWord {
    /// Atomic load.
    fn load(&self, order: Ordering) -> u64;
    /// Atomic store.
    fn store(&self, value: u64, order: Ordering);
    /// Compare-exchange, strong; whether it stored.
    fn compare_exchange(&self, current: u64, new: u64, order: Ordering) -> bool;
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

/// Writes the first doubleword of an HPTE this thread has locked, keeping the lock.
#[inline]
pub fn write_locked<A: AtomicWord>(word: &A, v: u64) {
    word.store((v | HPTE_V_HVLOCK).to_be(), Ordering::Release);
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
