//! The back end's thread: asleep until its doorbell rings, then one request after another until none is left.
//!
//! While it runs, it has the driver's kicks switched off by the used ring's flag, as vhost and QEMU's iothread do it.

use crate::device::Notifications;
use crate::machine::{Extra, SimTime};

use super::SimError;
use super::engine::{Core, Task};

/// A device that a back end's thread serves.
pub(super) trait Server {
    /// A request taken from the queue.
    type Work;

    /// Takes the next request.
    fn pop(&mut self) -> Result<Option<Self::Work>, SimError>;

    /// Completes a request; whether an interrupt is due for it.
    fn complete(&mut self, work: Self::Work) -> Result<bool, SimError>;

    /// Asks for kicks or for none; whether requests wait.
    fn set_kicks(&mut self, wanted: Notifications) -> Result<bool, SimError>;
}

/// What the thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Asleep,
    /// Told, and running from then on.
    Woken(SimTime),
    /// Running, and has switched kicks off.
    Polling,
}

/// A device's back end, and who takes its interrupts.
pub(super) struct Backend<S: Server> {
    server: S,
    /// Time it takes for one request.
    service: Extra,
    /// Its number.
    pub device: u32,
    /// vCPU that takes its interrupts.
    pub vcpu: u32,
    state: State,
    /// The request being served, unless it is the first one: that is taken when it is done.
    current: Option<S::Work>,
    /// An interrupt was raised whose handler has not ended.
    interrupt_pending: bool,
}

impl<S: Server> Backend<S> {
    pub const fn new(server: S, service: Extra, device: u32, vcpu: u32) -> Self {
        Self { server, service, device, vcpu, state: State::Asleep, current: None, interrupt_pending: false }
    }

    /// Its doorbell rang: it is told at `at`. While it is awake it finds by itself what was added.
    #[inline]
    pub fn notified(&mut self, core: &mut Core, at: SimTime) {
        if self.state == State::Asleep {
            let awake = at + core.prices.around(Extra::BackendWake);
            self.state = State::Woken(awake);
            core.backend_at(self.device, awake + core.prices.around(self.service));
        }
    }

    /// To be called before the driver looks at the flag: the thread has set it by now if it runs.
    #[inline]
    pub fn catch_up(&mut self, now: SimTime) -> Result<(), SimError> {
        if let State::Woken(awake) = self.state {
            if now >= awake {
                self.server.set_kicks(Notifications::Disabled)?;
                self.state = State::Polling;
            }
        }
        Ok(())
    }

    /// A request is done: raises the interrupt if one is due, and goes on to the next or to sleep.
    #[inline]
    pub fn finished(&mut self, core: &mut Core, now: SimTime) -> Result<(), SimError> {
        // Not `take`: that would read all of a place of which only the tag was just written.
        let work = if self.current.is_some() { self.current.take() } else { self.server.pop()? };
        if let Some(work) = work {
            // While the handler runs, interrupts are off: it looks again before it ends.
            if self.server.complete(work)? && !self.interrupt_pending {
                self.interrupt_pending = true;
                core.ready(self.vcpu, Task::Interrupt(self.device), now + core.prices.around(Extra::Interrupt));
            }
        }
        self.current = self.server.pop()?;
        if self.current.is_none() && self.state == State::Polling && self.server.set_kicks(Notifications::Enabled)? {
            self.current = self.server.pop()?;
            self.state = State::Woken(now);
        }
        if self.current.is_some() {
            core.backend_at(self.device, now + core.prices.around(self.service));
        } else {
            self.state = State::Asleep;
        }
        Ok(())
    }

    /// The interrupt's handler has ended.
    #[inline]
    pub const fn interrupt_done(&mut self) {
        self.interrupt_pending = false;
    }
}
