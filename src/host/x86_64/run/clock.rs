//! Clocks: the time stamp counter, which guest and host count alike; real time and a thread's own time.

use std::time::{Duration, Instant};

use crate::host::x86_64::HostError;

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

/// What a batch is timed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Clock {
    /// Real time.
    #[default]
    Real,
    /// This thread's time on a processor, the guest's that it runs among it. What other threads take is not in it.
    Thread,
}

impl Clock {
    /// Times a function.
    pub fn time(self, work: impl FnOnce() -> Result<(), HostError>) -> Result<Duration, HostError> {
        match self {
            Self::Real => {
                let start = Instant::now();
                work()?;
                Ok(start.elapsed())
            }
            Self::Thread => {
                let start = thread_time()?;
                work()?;
                Ok(thread_time()?.saturating_sub(start))
            }
        }
    }
}

/// This thread's time on a processor since it began, in user space, in the kernel and in guests that it runs.
///
/// # Errors
/// The system has no such clock.
pub fn thread_time() -> Result<Duration, HostError> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live variable of the right type.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        return Err(HostError::call("clock_gettime", std::io::Error::last_os_error()));
    }
    // Neither is negative, and nanoseconds are below 10^9.
    let (seconds, ns) = (u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
    Ok(Duration::new(seconds, ns))
}
