//! fio jobs on virtio-blk devices with a null back end.
//!
//! A job is a guest thread on a vCPU. It builds up to `iodepth_batch` requests, rings each device it touched once if
//! the device wants it, and goes on until `iodepth` are in flight. A back end serves one request at a time.

mod job;
mod layout;

use std::collections::VecDeque;

use crate::addr::index;
use crate::device::{
    BlkDone, BlkDriver, BlkError, BlkKind, BlkStatus, BlkWork, Notifications, NullBlock, QueueError, SECTOR_BYTES,
};
use crate::machine::{Extra, SimTime};
use crate::workload::fio::{Direction, FioJob, Plan};

use super::backend::{Backend, Server};
use super::engine::{Core, Load, Step, Task};
use super::result::{JobResult, Metric, per_second};
use super::scenario::Scenario;
use super::{Finish, SimError};

use job::{Building, Job, Next, Part};
pub(super) use layout::Layout;

impl Server for NullBlock {
    type Work = BlkWork;

    #[inline(always)]
    fn pop(&mut self) -> Result<Option<BlkWork>, SimError> {
        Ok(Self::pop(self)?)
    }

    #[inline]
    fn complete(&mut self, work: BlkWork) -> Result<bool, SimError> {
        Ok(Self::complete(self, work)?)
    }

    fn set_kicks(&mut self, wanted: Notifications) -> Result<bool, SimError> {
        Ok(self.set_notifications(wanted)?)
    }
}

/// A device: the guest's driver and the back end.
struct Device {
    driver: BlkDriver,
    backend: Backend<NullBlock>,
    /// What the interrupt handler has taken from the queue and not yet brought to its job.
    reaped: Option<BlkDone>,
    /// Jobs whose next request finds no room in the queue, in the order they came.
    waiting: VecDeque<u32>,
}

/// A request in flight.
#[derive(Clone, Copy)]
struct Flight {
    job: u32,
    offset: u64,
    bytes: u32,
    submitted: SimTime,
}

/// All devices, and the requests in their queues by token.
struct Queues {
    devices: Vec<Device>,
    flights: Vec<Flight>,
    free: Vec<u32>,
}

impl Queues {
    /// Puts a request into its queue; `false` if that is full.
    #[inline]
    fn submit(&mut self, job: u32, building: &Building) -> Result<bool, SimError> {
        let Building { request, device, submitted } = *building;
        let kind = match request.direction {
            Direction::Read => BlkKind::Read,
            Direction::Write => BlkKind::Write,
        };
        let flight = Flight { job, offset: request.offset, bytes: request.len, submitted };
        let token = self.free.last().copied().unwrap_or(u32::try_from(self.flights.len()).unwrap_or(u32::MAX));
        let bytes = request.len.next_multiple_of(SECTOR_BYTES);
        let sector = request.offset / u64::from(SECTOR_BYTES);
        match self.devices[index(u64::from(device))].driver.submit(kind, sector, bytes, token) {
            Ok(_) => {}
            Err(BlkError::Queue(QueueError::Full { .. })) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        match self.free.pop() {
            Some(slot) => self.flights[index(u64::from(slot))] = flight,
            None => self.flights.push(flight),
        }
        Ok(true)
    }

    /// Looks whether `device` wants to be kicked at `now`, and does it: when the guest goes on, if it was.
    #[inline]
    fn kick(&mut self, core: &mut Core, vcpu: u32, device: u32, now: SimTime) -> Result<Option<SimTime>, SimError> {
        let Device { driver, backend, .. } = &mut self.devices[index(u64::from(device))];
        backend.catch_up(now)?;
        if !driver.needs_kick()? {
            return Ok(None);
        }
        let (signal, end) = core.doorbell(vcpu, device, 0, now)?;
        if let Some(signal) = signal {
            backend.notified(core, signal);
        }
        Ok(Some(end))
    }
}

pub(super) struct Blk {
    jobs: Vec<Job>,
    queues: Queues,
    running: usize,
    notes: Vec<String>,
}

impl Blk {
    pub fn new(core: &mut Core, scenario: &Scenario, plan: &Plan, layout: &Layout) -> Result<Self, SimError> {
        let mut devices = Vec::new();
        for device in 0..scenario.devices {
            let place = layout.device(device)?;
            let null = NullBlock::new(core.ram.clone(), place.queue(), plan.device_bytes.div_ceil(512))?;
            devices.push(Device {
                driver: BlkDriver::new(core.ram.clone(), place)?,
                backend: Backend::new(null, Extra::NullBlock, device, layout.job_of(device) % core.vcpus()),
                reaped: None,
                waiting: VecDeque::new(),
            });
        }
        let mut group = 0;
        let mut jobs = Vec::new();
        for (i, job) in (0_u32..).zip(&plan.jobs) {
            group += u32::from(job.stonewall && i > 0);
            jobs.push(Job::new(job, group, i % core.vcpus(), layout.devices_of(i), scenario.seed)?);
        }
        let mut blk = Self {
            running: jobs.len(),
            jobs,
            queues: Queues { devices, flights: Vec::new(), free: Vec::new() },
            notes: notes(plan),
        };
        blk.start_group(core, 0, SimTime::default());
        Ok(blk)
    }

    fn start_group(&mut self, core: &mut Core, group: u32, now: SimTime) {
        for (i, job) in (0_u32..).zip(&mut self.jobs).filter(|(_, job)| job.group == group) {
            core.ready(job.vcpu, Task::Thread(i), job.start(now));
        }
    }

    fn end_job(&mut self, core: &mut Core, job: u32, now: SimTime) {
        let ended = &mut self.jobs[index(u64::from(job))];
        ended.end(now);
        let group = ended.group;
        self.running -= 1;
        if self.jobs.iter().all(|job| job.group != group || job.has_ended()) {
            self.start_group(core, group + 1, now);
        }
    }

    /// A request is back with its job.
    #[inline]
    fn complete(&mut self, core: &mut Core, device: u32, done: BlkDone, now: SimTime) -> Result<(), SimError> {
        let flight = self.queues.flights[index(u64::from(done.token))];
        self.queues.free.push(done.token);
        if done.status != BlkStatus::Ok {
            return Err(SimError::Request { device, offset: flight.offset, status: done.status });
        }
        let here = &mut self.queues.devices[index(u64::from(device))];
        let vcpu = here.backend.vcpu;
        let job = &mut self.jobs[index(u64::from(flight.job))];
        if job.complete(flight.bytes, flight.submitted, now) {
            core.wake(vcpu, job.vcpu, Task::Thread(flight.job));
        }
        // Its place in the queue is for the job that waits longest.
        if let Some(next) = here.waiting.pop_front() {
            core.wake(vcpu, self.jobs[index(u64::from(next))].vcpu, Task::Thread(next));
        }
        Ok(())
    }
}

impl Load for Blk {
    /// Each request takes a step from the system call to its queue; each doorbell takes a step.
    fn thread(&mut self, core: &mut Core, thread: u32, mut now: SimTime) -> Result<Step, SimError> {
        let Self { jobs, queues, .. } = self;
        let job = &mut jobs[index(u64::from(thread))];
        loop {
            if job.part == Part::Choose {
                match job.next(now) {
                    Next::Submit => {
                        job.part = Part::Submit;
                        let next = now + core.prices.around(Extra::BlockSubmit);
                        if !core.advance(next) {
                            return Ok(Step::More(next));
                        }
                        now = next;
                    }
                    // Nothing more for now: what there is must not wait.
                    _ if job.has_touched() => job.part = Part::Kick,
                    Next::WaitUntil(when) => {
                        core.ready(job.vcpu, Task::Thread(thread), when);
                        return Ok(Step::Done(now));
                    }
                    Next::WaitForCompletion => {
                        job.wait();
                        return Ok(Step::Done(now));
                    }
                    Next::Ended => {
                        self.end_job(core, thread, now);
                        return Ok(Step::Done(now));
                    }
                }
            }
            if job.part == Part::Submit {
                if queues.submit(thread, &job.building)? {
                    job.part = job.submitted();
                } else if job.has_touched() {
                    job.part = Part::KickForRoom;
                } else {
                    // Any completion on that device makes room, whosever it is.
                    queues.devices[index(u64::from(job.building.device))].waiting.push_back(thread);
                    return Ok(Step::Done(now));
                }
            }
            if job.part == Part::Choose {
                continue;
            }
            // Rings the devices of the batch, one after another.
            while let Some(device) = job.next_touched() {
                if let Some(end) = queues.kick(core, job.vcpu, device, now)? {
                    if !core.advance(end) {
                        return Ok(Step::More(end));
                    }
                    now = end;
                }
            }
            job.part = if job.part == Part::KickForRoom { Part::Submit } else { Part::Choose };
            // Between two batches an interrupt may come in, or another job.
            if job.end_batch() && core.has_ready(job.vcpu) {
                core.enqueue(job.vcpu, Task::Thread(thread));
                return Ok(Step::Done(now));
            }
        }
    }

    /// Each request takes a step. The handler ends when it finds no more (`virtblk_done`).
    fn interrupt(&mut self, core: &mut Core, device: u32, mut now: SimTime) -> Result<Step, SimError> {
        let at = index(u64::from(device));
        loop {
            if let Some(done) = self.queues.devices[at].reaped.take() {
                self.complete(core, device, done, now)?;
            }
            let state = &mut self.queues.devices[at];
            state.reaped = state.driver.reap()?;
            if state.reaped.is_none() {
                state.backend.interrupt_done();
                return Ok(Step::Done(now));
            }
            let next = now + core.prices.around(Extra::BlockComplete);
            if !core.advance(next) {
                return Ok(Step::More(next));
            }
            now = next;
        }
    }

    fn notified(&mut self, core: &mut Core, device: u32, at: SimTime) {
        self.queues.devices[index(u64::from(device))].backend.notified(core, at);
    }

    fn backend(&mut self, core: &mut Core, device: u32, now: SimTime) -> Result<(), SimError> {
        self.queues.devices[index(u64::from(device))].backend.finished(core, now)
    }

    fn finished(&self) -> bool {
        self.running == 0
    }

    fn progress(&self, now: SimTime) -> f64 {
        let share: f64 = self.jobs.iter().map(|job| job.progress(now)).sum();
        share / self.jobs.len() as f64
    }
}

impl Finish for Blk {
    /// Requests of all jobs over the time of their groups, one after another.
    fn metric(&self, _end: SimTime) -> Metric {
        let groups = self.jobs.iter().map(|job| job.group).max().map_or(0, |last| last + 1);
        let time = (0..groups).fold(SimTime::default(), |sum, group| sum + job::span(&self.jobs, group));
        let completed: u64 = self.jobs.iter().map(Job::completed).sum();
        Metric { unit: "IOPS", value: per_second(completed, time) }
    }

    fn jobs(&self) -> Vec<JobResult> {
        self.jobs.iter().map(Job::result).collect()
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// What the plan has to remark.
fn notes(plan: &Plan) -> Vec<String> {
    let mut notes: Vec<_> = plan.notes.iter().map(|note| note.text.clone()).collect();
    let ignored: Vec<_> = plan.ignored.iter().map(|o| format!("{} (line {})", o.name, o.line)).collect();
    if !ignored.is_empty() {
        notes.push(format!("options of fio that are not modelled and were ignored: {}", ignored.join(", ")));
    }
    notes
}

/// A job's share of what there is to simulate; used for its name in results.
fn display_name(job: &FioJob) -> String {
    if job.instance == 0 { job.name.clone() } else { format!("{}.{}", job.name, job.instance) }
}
