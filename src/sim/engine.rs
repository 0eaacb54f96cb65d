//! The event engine in virtual time: vCPUs that run one task at a time, back ends, interrupts.
//!
//! A task runs in steps. What a step does is done at the step's own time, and what others do until the next step comes
//! before that, so that nobody sees a request before it is in its queue. Deterministic: events at one time run in the
//! order they were scheduled.

mod event;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::addr::index;
use crate::device::GuestRam;
use crate::kvm_hv::{Handler, Outcome, Vcpu, Vm};
use crate::machine::{Extra, Prices, SimTime};
use crate::workload::guest::Touch;

use super::SimError;
use super::coalesced::Coalesced;
use super::events::Events;
use super::setup::Setup;
use super::stats::Stats;

pub(super) use event::Task;
use event::{Code, Event};

struct Cpu {
    vcpu: Vcpu,
    ready: VecDeque<Task>,
    /// A task whose next step comes before any of `ready`.
    unfinished: Option<Task>,
    busy_until: SimTime,
    /// An [`Event::Vcpu`] is pending.
    scheduled: bool,
}

/// How a step of a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The task is over; its vCPU is busy until then.
    Done(SimTime),
    /// The task has its next step then. Its vCPU does nothing else until it is over.
    More(SimTime),
}

/// A workload's part: what its threads, handlers and back ends do.
pub(super) trait Load {
    /// A step of guest thread `thread` at `now`.
    fn thread(&mut self, core: &mut Core, thread: u32, now: SimTime) -> Result<Step, SimError>;

    /// A step of the interrupt handler of `device` at `now`.
    fn interrupt(&mut self, core: &mut Core, device: u32, now: SimTime) -> Result<Step, SimError>;

    /// The back end of `device` is told at `at`.
    fn notified(&mut self, core: &mut Core, device: u32, at: SimTime);

    /// The back end of `device` finished a request at `now`.
    fn backend(&mut self, core: &mut Core, device: u32, now: SimTime) -> Result<(), SimError>;

    /// Whether every thread has ended.
    fn finished(&self) -> bool;

    /// Virtual time so far as a share of the whole, for a progress bar.
    fn progress(&self, now: SimTime) -> f64;
}

/// What every workload shares: the VM, its vCPUs, virtual time, the sums.
pub(super) struct Core {
    pub vm: Vm,
    pub prices: Prices,
    pub stats: Stats,
    pub setup: Setup,
    /// Guest RAM, behind memslot 0.
    pub ram: Arc<GuestRam>,
    pub now: SimTime,
    cpus: Vec<Cpu>,
    events: Events<Code>,
    store: Touch,
    /// Devices whose doorbells the last drain found, and when it was.
    drained: Vec<(u32, SimTime)>,
    /// Doorbells in the coalesced ring, if doorbells are coalesced.
    pub coalesced: Option<Coalesced>,
    /// Time from the stores of the other doorbells until their back ends were told, all together.
    pub told: SimTime,
}

/// Events between two reports of progress, and two looks at the clock.
const LOOK_EVERY: u64 = 1 << 16;
/// Looks without a picosecond between them after which time counts as standing still: 2 million events. At one time
/// each of 1024 vCPUs may have some.
const STANDING_LOOKS: u32 = 32;
/// Where times saturate.
const END_OF_TIME: SimTime = SimTime(u64::MAX);

impl Core {
    pub fn new(vm: Vm, vcpus: Vec<Vcpu>, prices: Prices, setup: Setup, ram: Arc<GuestRam>) -> Result<Self, SimError> {
        let store = setup.store()?;
        let cpu = |vcpu| Cpu {
            vcpu,
            ready: VecDeque::new(),
            unfinished: None,
            busy_until: SimTime::default(),
            scheduled: false,
        };
        Ok(Self {
            vm,
            prices,
            stats: Stats::default(),
            now: SimTime::default(),
            cpus: vcpus.into_iter().map(cpu).collect(),
            events: Events::default(),
            store,
            drained: Vec::new(),
            coalesced: setup.poll_every().map(|_| Coalesced::new()).transpose()?,
            told: SimTime::default(),
            setup,
            ram,
        })
    }

    /// A task becomes ready on a vCPU at `at`.
    pub fn ready(&mut self, vcpu: u32, task: Task, at: SimTime) {
        self.events.push(at, Event::Ready(vcpu, task).into());
    }

    /// The back end of `device` will have finished its request at `at`.
    pub fn backend_at(&mut self, device: u32, at: SimTime) {
        self.events.push(at, Event::Backend(device).into());
    }

    /// vCPUs.
    pub fn vcpus(&self) -> u32 {
        u32::try_from(self.cpus.len()).unwrap_or(u32::MAX)
    }

    /// The guest on `vcpu` writes the doorbell of `device` and `queue` at `start`. Returns when the back end is told, if
    /// it is told now, and when the guest goes on.
    #[inline]
    pub fn doorbell(
        &mut self,
        vcpu: u32,
        device: u32,
        queue: u16,
        start: SimTime,
    ) -> Result<(Option<SimTime>, SimTime), SimError> {
        let (ea, value) = self.setup.doorbell(device, queue)?;
        let cpu = &mut self.cpus[index(u64::from(vcpu))];
        let record = self.store.perform(&self.vm, &mut cpu.vcpu, ea, u64::from(value));
        let price = self.stats.add(ea, &record, &self.prices);
        let (signal, end) = (start + price.signal, start + price.total);
        match (record.outcome, &mut self.coalesced) {
            (Outcome::Kernel { handler: Handler::FastMmio(_) | Handler::Eventfd(_), .. }, _) => {
                self.told += price.signal;
                Ok((Some(signal), end))
            }
            (Outcome::Kernel { handler: Handler::Coalesced, .. }, Some(ring)) => {
                ring.written(start);
                Ok((None, end))
            }
            (Outcome::Exit(_), _) => {
                let device_time = self.prices.around(Extra::UserDevice);
                self.told += price.signal + device_time;
                self.drain(signal)?;
                Ok((Some(signal + device_time), end + device_time))
            }
            (outcome, _) => Err(SimError::Doorbell { ea, device, outcome }),
        }
    }

    /// Empties the coalesced ring at `at`, as a VMM does before it handles an exit.
    fn drain(&mut self, at: SimTime) -> Result<(), SimError> {
        let Self { vm, setup, drained, coalesced: Some(ring), .. } = self else { return Ok(()) };
        if ring.is_empty() {
            return Ok(());
        }
        let mut stray = None;
        vm.io().ring().drain(|entry| match setup.decode(&entry) {
            Some((device, _)) if ring.drained(at) => drained.push((device, at)),
            _ => stray = Some(entry.addr),
        })?;
        if let Some(addr) = stray {
            return Err(SimError::StrayRingEntry { addr });
        }
        Ok(())
    }

    /// Removes the doorbell page's HPTE of `device` and enters it again (H_REMOVE, H_ENTER).
    pub fn reenter(&mut self, device: u32) -> Result<(), SimError> {
        self.setup.reenter(&self.vm, device)
    }

    /// Runs `first`, and what is ready behind it on a vCPU that is free, until something else is due before it.
    fn run_tasks<L: Load>(&mut self, load: &mut L, at: u32, first: Option<Task>) -> Result<(), SimError> {
        let number = index(u64::from(at));
        // Held while tasks run: what they enqueue here waits for their end.
        self.cpus[number].scheduled = true;
        let mut first = first;
        loop {
            let cpu = &mut self.cpus[number];
            let next = first.take().or_else(|| cpu.unfinished.take()).or_else(|| cpu.ready.pop_front());
            let Some(task) = next else {
                cpu.scheduled = false;
                return Ok(());
            };
            let now = self.now;
            let step = match task {
                Task::Interrupt(device) => load.interrupt(self, device, now)?,
                Task::Thread(thread) => load.thread(self, thread, now)?,
            };
            let cpu = &mut self.cpus[number];
            let more = match step {
                Step::Done(end) => {
                    cpu.busy_until = end;
                    false
                }
                Step::More(next) => {
                    cpu.unfinished = Some(task);
                    cpu.busy_until = next;
                    true
                }
            };
            if !more && cpu.ready.is_empty() {
                cpu.scheduled = false;
                return Ok(());
            }
            let next = cpu.busy_until;
            // A thread that has more could have advanced by itself: it lets the engine count and report.
            if more || load.finished() || !self.advance(next) {
                self.events.push(next, Event::Vcpu(at).into());
                return Ok(());
            }
        }
    }

    /// Goes on to `to` at once if nothing else happens until then; a step that gets `false` ends with [`Step::More`].
    #[inline]
    pub fn advance(&mut self, to: SimTime) -> bool {
        let quiet = self.drained.is_empty() && self.events.earliest().is_none_or(|earliest| to < earliest);
        if quiet && to < END_OF_TIME {
            self.now = to;
        }
        quiet && to < END_OF_TIME
    }

    fn schedule(&mut self, at: u32) {
        let cpu = &mut self.cpus[index(u64::from(at))];
        if !cpu.scheduled && !cpu.ready.is_empty() {
            cpu.scheduled = true;
            let when = cpu.busy_until.max(self.now);
            self.events.push(when, Event::Vcpu(at).into());
        }
    }

    /// The task running on vCPU `here` makes another one ready now.
    #[inline]
    pub fn wake(&mut self, here: u32, vcpu: u32, task: Task) {
        if vcpu == here {
            self.enqueue(vcpu, task);
        } else {
            self.ready(vcpu, task, self.now);
        }
    }

    /// Whether another task waits for a vCPU.
    #[inline]
    pub fn has_ready(&self, vcpu: u32) -> bool {
        !self.cpus[index(u64::from(vcpu))].ready.is_empty()
    }

    /// A task of the running one's own vCPU, next in line when that ends.
    pub fn enqueue(&mut self, vcpu: u32, task: Task) {
        self.cpus[index(u64::from(vcpu))].ready.push_back(task);
        self.schedule(vcpu);
    }

    /// The VMM's thread looks into the ring.
    fn poll<L: Load>(&mut self, load: &mut L, every: SimTime) -> Result<(), SimError> {
        self.drain(self.now)?;
        self.deliver(load);
        // With nothing else to come, every later look would find what this one found.
        if self.events.is_empty() {
            return Err(SimError::Stalled { at: self.now });
        }
        self.events.push(self.now + every, Event::Poll.into());
        Ok(())
    }

    /// Tells back ends of what the last drain found.
    fn deliver<L: Load>(&mut self, load: &mut L) {
        let mut drained = std::mem::take(&mut self.drained);
        for (device, at) in drained.drain(..) {
            load.notified(self, device, at);
        }
        self.drained = drained;
    }

    /// Runs until every thread has ended. Events left over at the end are not run.
    ///
    /// Ends with an error if nothing is left to happen, if time stands still and if it runs out.
    pub fn run<L: Load>(&mut self, load: &mut L, progress: &mut dyn FnMut(f64)) -> Result<(), SimError> {
        let poll = self.setup.poll_every();
        if let Some(every) = poll {
            self.events.push(self.now + every, Event::Poll.into());
        }
        let mut events = 0_u64;
        let mut watch = Watch::default();
        while !load.finished() {
            let Some((at, event)) = self.events.pop() else { return Err(SimError::Stalled { at: self.now }) };
            self.now = at;
            match event.into() {
                Event::Vcpu(vcpu) => self.run_tasks(load, vcpu, None)?,
                Event::Ready(vcpu, task) => self.run_ready(load, vcpu, task)?,
                Event::Backend(device) => load.backend(self, device, at)?,
                Event::Poll => self.poll(load, poll.unwrap_or_default())?,
            }
            if !self.drained.is_empty() {
                self.deliver(load);
            }
            events += 1;
            if events % LOOK_EVERY == 0 {
                watch.look(self.now)?;
                progress(load.progress(self.now));
            }
            if self.now >= END_OF_TIME {
                return Err(SimError::EndOfTime);
            }
        }
        Ok(())
    }

    fn run_ready<L: Load>(&mut self, load: &mut L, vcpu: u32, task: Task) -> Result<(), SimError> {
        let cpu = &mut self.cpus[index(u64::from(vcpu))];
        if !cpu.scheduled && cpu.busy_until <= self.now {
            // Whatever else is ready would have been scheduled.
            return self.run_tasks(load, vcpu, Some(task));
        }
        match task {
            Task::Interrupt(_) => cpu.ready.push_front(task),
            Task::Thread(_) => cpu.ready.push_back(task),
        }
        self.schedule(vcpu);
        Ok(())
    }
}

/// Sees to it that virtual time goes on: with a machine model that prices everything at 0 it would not.
#[derive(Default)]
struct Watch {
    last: SimTime,
    looks: u32,
}

impl Watch {
    fn look(&mut self, now: SimTime) -> Result<(), SimError> {
        self.looks = if now > self.last { 0 } else { self.looks + 1 };
        self.last = now;
        if self.looks == STANDING_LOOKS { Err(SimError::StandsStill { at: now }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
