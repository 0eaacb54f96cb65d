//! How long a guest may run: a timer that interrupts KVM_RUN.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::{HostError, Place};

/// Once the time is up the signal comes again and again, so that one which arrives just before KVM_RUN is not the last.
const AGAIN: Duration = Duration::from_millis(10);

/// A timer of this thread that interrupts its system calls, KVM_RUN among them, again and again.
///
/// It belongs to the thread that started it, and is not `Send`.
#[derive(Debug)]
pub(in crate::host) struct Alarm {
    timer: libc::timer_t,
    _this_thread: PhantomData<*const ()>,
}

impl Alarm {
    /// Interrupts after `first`, and from then on every `again`, by a clock.
    pub fn new(clock: libc::clockid_t, first: Duration, again: Duration) -> Result<Self, HostError> {
        let signal = handled_signal().map_err(|source| HostError::call("sigaction", source))?;
        let failed = |what| HostError::call(what, io::Error::last_os_error());
        // SAFETY: all zeroes is a sigevent; the fields that count are set below.
        let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        // SAFETY: no arguments, no memory.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer = std::ptr::null_mut();
        // SAFETY: both pointers are to live variables of the right types.
        if unsafe { libc::timer_create(clock, &raw mut event, &raw mut timer) } != 0 {
            return Err(failed("timer_create"));
        }
        let alarm = Self { timer, _this_thread: PhantomData };
        // A value of zero would disarm it.
        let first = first.max(Duration::from_nanos(1));
        let times = libc::itimerspec { it_interval: timespec(again), it_value: timespec(first) };
        // SAFETY: the timer was created above; the times are a live variable, and the old ones are not asked for.
        if unsafe { libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()) } != 0 {
            return Err(failed("timer_settime"));
        }
        Ok(alarm)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer is this one's, and is not used after.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// A time limit for this thread's guests. From its end on a signal interrupts KVM_RUN every 10 ms; no thread watches.
///
/// It belongs to the thread that started it, and is not `Send`.
#[derive(Debug)]
pub struct Deadline {
    end: Instant,
    limit: Duration,
    _alarm: Alarm,
}

impl Deadline {
    /// A limit from now on.
    ///
    /// # Errors
    /// The system gives no timer.
    pub fn after(limit: Duration) -> Result<Self, HostError> {
        let alarm = Alarm::new(libc::CLOCK_MONOTONIC, limit, AGAIN)?;
        Ok(Self { end: Instant::now() + limit, limit, _alarm: alarm })
    }

    /// Refuses to go on once the time is up. A VMM asks at each exit: a guest that exits for ever is seldom in KVM_RUN when the
    /// signal comes.
    ///
    /// # Errors
    /// It is: [`HostError::TimeLimit`], with the place where the vCPU stands, which is asked for then only.
    pub fn check(&self, place: impl FnOnce() -> Place) -> Result<(), HostError> {
        if Instant::now() < self.end {
            return Ok(());
        }
        Err(HostError::TimeLimit { limit: self.limit, place: place() })
    }
}

fn timespec(time: Duration) -> libc::timespec {
    let seconds = libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX);
    libc::timespec { tv_sec: seconds, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// The signal, with a handler that does nothing: that a system call ends early is all that is wanted.
fn handled_signal() -> io::Result<libc::c_int> {
    extern "C" fn nothing(_: libc::c_int) {}

    static INSTALLED: OnceLock<Result<libc::c_int, i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| {
        // A real-time signal that neither the C library nor a profiler uses.
        let signal = libc::SIGRTMIN() + 5;
        // SAFETY: all zeroes is a sigaction with an empty mask and no flags; without SA_RESTART calls end with EINTR.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        let handler: extern "C" fn(libc::c_int) = nothing;
        action.sa_sigaction = handler as libc::sighandler_t;
        // SAFETY: the action is a live variable; the handler touches nothing, so it may run at any instruction.
        match unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } {
            0 => Ok(signal),
            _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)),
        }
    });
    installed.map_err(io::Error::from_raw_os_error)
}
