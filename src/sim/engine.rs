//! The event engine in virtual time: vCPUs that run one task at a time, back ends, interrupts.
//!
//! Deterministic: events at one time run in the order they were scheduled.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use crate::addr::index;
use crate::device::GuestRam;
use crate::kvm_hv::{Handler, Outcome, Vcpu, Vm};
use crate::machine::{Extra, Prices, SimTime};
use crate::workload::guest::Touch;

use super::SimError;
use super::setup::Setup;
use super::stats::Stats;

/// What a vCPU can have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    /// The interrupt handler of a device.
    Interrupt(u32),
    /// A guest thread.
    Thread(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A vCPU is free for its next task.
    Vcpu(u32),
    /// A task becomes ready on a vCPU.
    Ready(u32, Task),
    /// A back end has finished a request.
    Backend(u32),
    /// The VMM's thread looks into the coalesced ring.
    Poll,
}

type Scheduled = (SimTime, u64, Event);

/// Pending events. The earliest stands outside the heap: with one request in flight the heap stays empty.
#[derive(Debug, Default)]
struct Queue {
    first: Option<Scheduled>,
    rest: BinaryHeap<Reverse<Scheduled>>,
    sequence: u64,
}

impl Queue {
    #[inline]
    fn push(&mut self, at: SimTime, event: Event) {
        self.sequence += 1;
        let new = (at, self.sequence, event);
        match self.first {
            None if self.rest.is_empty() => self.first = Some(new),
            Some(first) if new < first => {
                self.first = Some(new);
                self.rest.push(Reverse(first));
            }
            _ => self.rest.push(Reverse(new)),
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Scheduled> {
        match self.first.take() {
            Some(first) => Some(first),
            None => self.rest.pop().map(|Reverse(event)| event),
        }
    }
}

struct Cpu {
    vcpu: Vcpu,
    ready: VecDeque<Task>,
    busy_until: SimTime,
    /// An [`Event::Vcpu`] is pending.
    scheduled: bool,
}

/// A workload's part: what its threads, handlers and back ends do.
pub(super) trait Load {
    /// Guest thread `thread` runs at `now`; returns until when its vCPU is busy.
    fn thread(&mut self, core: &mut Core, thread: u32, now: SimTime) -> Result<SimTime, SimError>;

    /// The interrupt handler of `device` runs at `now`; returns until when its vCPU is busy.
    fn interrupt(&mut self, core: &mut Core, device: u32, now: SimTime) -> Result<SimTime, SimError>;

    /// The back end of `device` was notified at `now`.
    fn notified(&mut self, core: &mut Core, device: u32, queue: u16, now: SimTime) -> Result<(), SimError>;

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
    events: Queue,
    store: Touch,
    /// Notifications that the last drain found: device, queue, time of the drain.
    drained: Vec<(u32, u16, SimTime)>,
    /// Doorbells in the coalesced ring, by time of their write, oldest first.
    waiting: VecDeque<SimTime>,
    /// Time that coalesced doorbells waited, and how many.
    pub drain_delay: SimTime,
    pub drained_count: u64,
}

/// Events between two looks at whether to report progress.
const PROGRESS_EVERY: u64 = 1 << 16;

impl Core {
    pub fn new(vm: Vm, vcpus: Vec<Vcpu>, prices: Prices, setup: Setup, ram: Arc<GuestRam>) -> Result<Self, SimError> {
        let store = setup.store()?;
        let cpu = |vcpu| Cpu { vcpu, ready: VecDeque::new(), busy_until: SimTime::default(), scheduled: false };
        Ok(Self {
            vm,
            prices,
            stats: Stats::default(),
            now: SimTime::default(),
            cpus: vcpus.into_iter().map(cpu).collect(),
            events: Queue::default(),
            store,
            drained: Vec::new(),
            waiting: VecDeque::new(),
            drain_delay: SimTime::default(),
            drained_count: 0,
            setup,
            ram,
        })
    }

    /// A task becomes ready on a vCPU at `at`.
    pub fn ready(&mut self, vcpu: u32, task: Task, at: SimTime) {
        self.events.push(at, Event::Ready(vcpu, task));
    }

    /// The back end of `device` will have finished its request at `at`.
    pub fn backend_at(&mut self, device: u32, at: SimTime) {
        self.events.push(at, Event::Backend(device));
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
        match record.outcome {
            Outcome::Kernel { handler: Handler::FastMmio(_) | Handler::Eventfd(_), .. } => Ok((Some(signal), end)),
            Outcome::Kernel { handler: Handler::Coalesced, .. } => {
                self.waiting.push_back(start);
                Ok((None, end))
            }
            Outcome::Exit(_) => {
                let device_time = self.prices.around(Extra::UserDevice);
                self.drain(signal)?;
                Ok((Some(signal + device_time), end + device_time))
            }
            outcome => Err(SimError::Doorbell { ea, device, outcome }),
        }
    }

    /// Empties the coalesced ring at `at`, as a VMM does before it handles an exit.
    fn drain(&mut self, at: SimTime) -> Result<(), SimError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let Self { vm, setup, drained, .. } = self;
        let mut stray = None;
        vm.io().ring().drain(|entry| match setup.decode(&entry) {
            Some((device, queue)) => drained.push((device, queue, at)),
            None => stray = Some(entry.addr),
        })?;
        if let Some(addr) = stray {
            return Err(SimError::StrayRingEntry { addr });
        }
        while let Some(written) = self.waiting.pop_front() {
            self.drain_delay += at - written;
            self.drained_count += 1;
        }
        Ok(())
    }

    /// Removes the doorbell page's HPTE of `device` and enters it again (H_REMOVE, H_ENTER).
    pub fn reenter(&mut self, device: u32) -> Result<(), SimError> {
        self.setup.reenter(&self.vm, device)
    }

    fn run_task<L: Load>(&mut self, load: &mut L, at: u32) -> Result<(), SimError> {
        let now = self.now;
        let cpu = &mut self.cpus[index(u64::from(at))];
        // Held while the task runs: what it enqueues here waits for its end.
        cpu.scheduled = true;
        let Some(task) = cpu.ready.pop_front() else {
            cpu.scheduled = false;
            return Ok(());
        };
        let end = match task {
            Task::Interrupt(device) => load.interrupt(self, device, now)?,
            Task::Thread(thread) => load.thread(self, thread, now)?,
        };
        let cpu = &mut self.cpus[index(u64::from(at))];
        cpu.busy_until = end.max(now);
        cpu.scheduled = false;
        self.schedule(at);
        Ok(())
    }

    fn schedule(&mut self, at: u32) {
        let cpu = &mut self.cpus[index(u64::from(at))];
        if !cpu.scheduled && !cpu.ready.is_empty() {
            cpu.scheduled = true;
            let when = cpu.busy_until.max(self.now);
            self.events.push(when, Event::Vcpu(at));
        }
    }

    /// A task of the running one's own vCPU, next in line when that ends.
    pub fn enqueue(&mut self, vcpu: u32, task: Task) {
        self.cpus[index(u64::from(vcpu))].ready.push_back(task);
        self.schedule(vcpu);
    }

    fn poll<L: Load>(&mut self, load: &mut L, every: SimTime) -> Result<(), SimError> {
        self.drain(self.now)?;
        self.deliver(load)?;
        if !load.finished() {
            self.events.push(self.now + every, Event::Poll);
        }
        Ok(())
    }

    /// Tells back ends of what the last drain found.
    fn deliver<L: Load>(&mut self, load: &mut L) -> Result<(), SimError> {
        let mut drained = std::mem::take(&mut self.drained);
        for (device, queue, at) in drained.drain(..) {
            load.notified(self, device, queue, at)?;
        }
        self.drained = drained;
        Ok(())
    }

    /// Runs until every thread has ended. Events left over at the end are not run.
    pub fn run<L: Load>(&mut self, load: &mut L, progress: &mut dyn FnMut(f64)) -> Result<(), SimError> {
        let poll = self.setup.poll_every();
        if let Some(every) = poll {
            self.events.push(self.now + every, Event::Poll);
        }
        let mut events = 0_u64;
        while !load.finished() {
            let Some((at, _, event)) = self.events.pop() else { return Err(SimError::Stalled { at: self.now }) };
            self.now = at;
            match event {
                Event::Vcpu(vcpu) => self.run_task(load, vcpu)?,
                Event::Ready(vcpu, task) => {
                    let cpu = &mut self.cpus[index(u64::from(vcpu))];
                    match task {
                        Task::Interrupt(_) => cpu.ready.push_front(task),
                        Task::Thread(_) => cpu.ready.push_back(task),
                    }
                    if cpu.scheduled {
                        // It runs when the vCPU is free.
                    } else if cpu.busy_until <= at {
                        self.run_task(load, vcpu)?;
                    } else {
                        self.schedule(vcpu);
                    }
                }
                Event::Backend(device) => load.backend(self, device, at)?,
                Event::Poll => self.poll(load, poll.unwrap_or_default())?,
            }
            if !self.drained.is_empty() {
                self.deliver(load)?;
            }
            events += 1;
            if events % PROGRESS_EVERY == 0 {
                progress(load.progress(self.now));
            }
        }
        Ok(())
    }
}
