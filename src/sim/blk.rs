//! fio jobs on virtio-blk devices with a null back end.
//!
//! A job is a guest thread on a vCPU. It builds up to `iodepth_batch` requests, rings each device it touched once if
//! the device wants it, and goes on until `iodepth` are in flight. A back end serves one request at a time; while it
//! does, the driver's kicks are suppressed by the used ring's flag, as vhost and QEMU's iothread do it.

mod job;
mod layout;

use crate::addr::index;
use crate::device::{
    BlkDriver, BlkError, BlkKind, BlkStatus, BlkWork, Notifications, NullBlock, QueueError, SECTOR_BYTES,
};
use crate::machine::{Extra, SimTime};
use crate::workload::fio::{Direction, FioJob, Plan};

use super::engine::{Core, Load, Task};
use super::result::{JobResult, Metric};
use super::scenario::Scenario;
use super::{Finish, SimError};

use job::{Job, Next};
pub(super) use layout::Layout;

/// A device: the guest's driver, the back end, and what the back end is at.
struct Device {
    driver: BlkDriver,
    backend: NullBlock,
    /// vCPU that takes its interrupts.
    vcpu: u32,
    /// The back end was told and has not gone idle again.
    active: bool,
    /// From when on its thread runs and has switched notifications off.
    awake_at: SimTime,
    /// The used ring's flag is set.
    suppressed: bool,
    /// The request being served, unless it is the first one: that is taken when it is done.
    current: Option<BlkWork>,
    interrupt_pending: bool,
}

/// A request in flight.
#[derive(Clone, Copy)]
struct Flight {
    job: u32,
    offset: u64,
    bytes: u32,
    submitted: SimTime,
}

pub(super) struct Blk {
    jobs: Vec<Job>,
    devices: Vec<Device>,
    flights: Vec<Flight>,
    free: Vec<u32>,
    /// Devices that the batch being built has touched.
    touched: Vec<u32>,
    /// Jobs that an interrupt handler completed requests of.
    completed: Vec<u32>,
    running: usize,
    notes: Vec<String>,
}

impl Blk {
    pub fn new(core: &mut Core, scenario: &Scenario, plan: &Plan, layout: &Layout) -> Result<Self, SimError> {
        let mut devices = Vec::new();
        for device in 0..scenario.devices {
            let place = layout.device(device)?;
            devices.push(Device {
                driver: BlkDriver::new(core.ram.clone(), place)?,
                backend: NullBlock::new(core.ram.clone(), place.queue(), plan.device_bytes.div_ceil(512))?,
                vcpu: layout.job_of(device) % core.vcpus(),
                active: false,
                awake_at: SimTime::default(),
                suppressed: false,
                current: None,
                interrupt_pending: false,
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
            devices,
            flights: Vec::new(),
            free: Vec::new(),
            touched: Vec::new(),
            completed: Vec::new(),
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
        core.now = core.now.max(now);
        if self.jobs.iter().all(|job| job.group != group || job.has_ended()) {
            self.start_group(core, group + 1, now);
        }
    }

    /// Puts a request into a queue; `false` if that is full.
    fn submit(
        &mut self,
        job: u32,
        device: u32,
        request: &crate::workload::fio::Request,
        at: SimTime,
    ) -> Result<bool, SimError> {
        let kind = match request.direction {
            Direction::Read => BlkKind::Read,
            Direction::Write => BlkKind::Write,
        };
        let flight = Flight { job, offset: request.offset, bytes: request.len, submitted: at };
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

    /// Rings every device that the batch touched and that wants it.
    fn kick(&mut self, core: &mut Core, vcpu: u32, start: SimTime) -> Result<SimTime, SimError> {
        let mut time = start;
        for at in 0..self.touched.len() {
            let touched = self.touched[at];
            let device = &mut self.devices[index(u64::from(touched))];
            if device.active && !device.suppressed && time >= device.awake_at {
                device.backend.set_notifications(Notifications::Disabled)?;
                device.suppressed = true;
            }
            if device.driver.needs_kick()? {
                let (signal, end) = core.doorbell(vcpu, touched, 0, time)?;
                time = end;
                if let Some(signal) = signal {
                    self.notified(core, touched, 0, signal)?;
                }
            }
        }
        self.touched.clear();
        Ok(time)
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

impl Load for Blk {
    fn thread(&mut self, core: &mut Core, thread: u32, now: SimTime) -> Result<SimTime, SimError> {
        let cost = core.prices.around(Extra::BlockSubmit);
        let at = index(u64::from(thread));
        let vcpu = self.jobs[at].vcpu;
        let mut time = now;
        let mut next = self.jobs[at].next(time);
        let mut batch = 0;
        while let Next::Submit(request, device) = next {
            if !self.submit(thread, device, &request, time)? {
                self.jobs[at].put_back(request);
                next = Next::WaitForCompletion;
                break;
            }
            time += cost;
            self.jobs[at].submitted();
            if !self.touched.contains(&device) {
                self.touched.push(device);
            }
            batch += 1;
            if batch == self.jobs[at].batch() {
                break;
            }
            next = self.jobs[at].next(time);
        }
        time = self.kick(core, vcpu, time)?;
        match next {
            Next::Submit(..) => core.enqueue(vcpu, Task::Thread(thread)),
            Next::WaitUntil(when) => core.ready(vcpu, Task::Thread(thread), when.max(time)),
            Next::WaitForCompletion => self.jobs[at].wait(),
            Next::Ended => self.end_job(core, thread, time),
        }
        Ok(time)
    }

    fn interrupt(&mut self, core: &mut Core, device: u32, now: SimTime) -> Result<SimTime, SimError> {
        let cost = core.prices.around(Extra::BlockComplete);
        let at = index(u64::from(device));
        self.devices[at].interrupt_pending = false;
        let mut time = now;
        while let Some(done) = self.devices[at].driver.reap()? {
            time += cost;
            let flight = self.flights[index(u64::from(done.token))];
            self.free.push(done.token);
            if done.status != BlkStatus::Ok {
                return Err(SimError::Request { device, offset: flight.offset, status: done.status });
            }
            let job = &mut self.jobs[index(u64::from(flight.job))];
            if job.complete(flight.bytes, flight.submitted, time) && !self.completed.contains(&flight.job) {
                self.completed.push(flight.job);
            }
        }
        let here = self.devices[at].vcpu;
        for i in 0..self.completed.len() {
            let job = self.completed[i];
            let vcpu = self.jobs[index(u64::from(job))].vcpu;
            if vcpu == here {
                core.enqueue(vcpu, Task::Thread(job));
            } else {
                core.ready(vcpu, Task::Thread(job), time);
            }
        }
        self.completed.clear();
        Ok(time)
    }

    fn notified(&mut self, core: &mut Core, device: u32, _queue: u16, now: SimTime) -> Result<(), SimError> {
        let state = &mut self.devices[index(u64::from(device))];
        if !state.active {
            state.active = true;
            state.awake_at = now + core.prices.around(Extra::BackendWake);
            let done = state.awake_at + core.prices.around(Extra::NullBlock);
            core.backend_at(device, done);
        }
        Ok(())
    }

    fn backend(&mut self, core: &mut Core, device: u32, now: SimTime) -> Result<(), SimError> {
        let state = &mut self.devices[index(u64::from(device))];
        let work = match state.current.take() {
            Some(work) => Some(work),
            None => state.backend.pop()?,
        };
        if let Some(work) = work {
            let due = state.backend.complete(work)?;
            if due && !state.interrupt_pending {
                state.interrupt_pending = true;
                core.ready(state.vcpu, Task::Interrupt(device), now + core.prices.around(Extra::Interrupt));
            }
        }
        state.current = state.backend.pop()?;
        if state.current.is_none() && state.suppressed {
            state.suppressed = false;
            if state.backend.set_notifications(Notifications::Enabled)? {
                state.current = state.backend.pop()?;
            }
        }
        state.active = state.current.is_some();
        if state.active {
            core.backend_at(device, now + core.prices.around(Extra::NullBlock));
        }
        Ok(())
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
        let seconds: f64 = (0..groups).map(|group| job::span(&self.jobs, group).seconds()).sum();
        let completed: u64 = self.jobs.iter().map(Job::completed).sum();
        Metric { unit: "IOPS", value: if seconds > 0.0 { completed as f64 / seconds } else { 0.0 } }
    }

    fn jobs(&self) -> Vec<JobResult> {
        self.jobs.iter().map(Job::result).collect()
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// A job's share of what there is to simulate; used for its name in results.
fn display_name(job: &FioJob) -> String {
    if job.instance == 0 { job.name.clone() } else { format!("{}.{}", job.name, job.instance) }
}
