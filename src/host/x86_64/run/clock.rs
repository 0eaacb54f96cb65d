//! The time stamp counter, which guest and host count alike.

/// A reading of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tsc(u64);

impl Tsc {
    pub fn now() -> Self {
        // SAFETY: every x86_64 processor has RDTSC, and Linux leaves it to user space unless a process asks otherwise.
        Self(unsafe { core::arch::x86_64::_rdtsc() })
    }

    /// Cycles since then.
    pub fn since(self) -> u64 {
        Self::now().0.saturating_sub(self.0)
    }
}
