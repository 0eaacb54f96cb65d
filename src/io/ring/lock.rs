//! The lock that serialises a ring's producers.

use std::sync::atomic::{AtomicBool, Ordering};

/// A spin lock, as `kvm->ring_lock` is one: it is held for half a dozen stores, and taking and leaving it costs one locked
/// instruction where a lock that can sleep needs two.
#[derive(Debug)]
pub(super) struct RingLock(AtomicBool);

/// Leaves the lock when dropped.
pub(super) struct Held<'a>(&'a AtomicBool);

/// Looks at a taken lock before its holder is taken for preempted, which a thread of a process can be.
const SPINS: u32 = 64;

impl RingLock {
    pub(super) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[inline]
    pub(super) fn lock(&self) -> Held<'_> {
        if self.0.swap(true, Ordering::Acquire) {
            self.wait();
        }
        Held(&self.0)
    }

    #[cold]
    fn wait(&self) {
        loop {
            for _ in 0..SPINS {
                if !self.0.load(Ordering::Relaxed) && !self.0.swap(true, Ordering::Acquire) {
                    return;
                }
                std::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
