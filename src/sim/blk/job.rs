//! One fio job: when it may submit, what it has in flight, what it completed.

use crate::machine::SimTime;
use crate::sim::SimError;
use crate::sim::latencies::Latencies;
use crate::sim::result::{JobResult, per_second};
use crate::workload::fio::{Direction, FioJob, Pacer, Request, Requests};

use super::display_name;

/// A request on its way from the system call to its queue.
#[derive(Clone, Copy)]
pub(super) struct Building {
    pub request: Request,
    pub device: u32,
    /// When the system call began: from here on fio counts its latency.
    pub submitted: SimTime,
}

/// What a job's thread does next.
pub(super) enum Next {
    /// Submits [`Job::building`].
    Submit,
    /// Sleeps.
    WaitUntil(SimTime),
    /// Waits until enough requests have completed.
    WaitForCompletion,
    /// Everything is done.
    Ended,
}

/// Where in its loop a job's thread is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Before the next request, or the wait for one.
    Choose,
    /// At the queue with [`Job::building`]. It stays there while the queue is full.
    Submit,
    /// Ringing the devices of a batch.
    Kick,
    /// The same, before the queue that had no room for [`Job::building`] is tried again.
    KickForRoom,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Pending,
    Running,
    Ended,
}

pub(super) struct Job {
    spec: FioJob,
    pub group: u32,
    pub vcpu: u32,
    pub part: Part,
    devices: Vec<u32>,
    turn: usize,
    requests: Requests,
    pacer: Pacer,
    /// The request at hand. It stays where it is until it is in its queue: copies of it cost more than all else here.
    pub building: Building,
    /// Whether its request is drawn and not yet submitted.
    drawn: bool,
    /// From when on it may be submitted, once that is known.
    due: Option<SimTime>,
    drained: bool,
    in_flight: u32,
    /// Requests that make a batch.
    batch_size: u32,
    /// Requests of the batch being built.
    batched: u32,
    /// Devices they went to, in turn: so many of `devices`, the last of them before `turn`.
    touched: usize,
    /// Requests may be added until the queue is full, then not before `low` are left.
    filling: bool,
    /// Completions still missing before a waiting thread goes on; `None` while it does not wait.
    missing: Option<u32>,
    phase: Phase,
    started: SimTime,
    /// End of the ramp.
    counting_from: SimTime,
    /// When its time is up.
    deadline: SimTime,
    ended: SimTime,
    completed: u64,
    bytes: u64,
    latency: Latencies,
}

impl Job {
    pub fn new(spec: &FioJob, group: u32, vcpu: u32, devices: Vec<u32>, seed: u64) -> Result<Self, SimError> {
        Ok(Self {
            requests: Requests::new(spec, seed),
            pacer: Pacer::new(spec, seed),
            spec: spec.clone(),
            group,
            vcpu,
            part: Part::Choose,
            devices,
            turn: 0,
            building: Building {
                request: Request { direction: Direction::Read, offset: 0, len: 0 },
                device: 0,
                submitted: SimTime::default(),
            },
            drawn: false,
            due: None,
            drained: false,
            in_flight: 0,
            batch_size: spec.batch.submit.max(1),
            batched: 0,
            touched: 0,
            filling: true,
            missing: None,
            phase: Phase::Pending,
            started: SimTime::default(),
            counting_from: SimTime::default(),
            deadline: SimTime::default(),
            ended: SimTime::default(),
            completed: 0,
            bytes: 0,
            latency: Latencies::new()?,
        })
    }

    /// When its thread first runs, if its group starts at `now`.
    pub fn start(&mut self, now: SimTime) -> SimTime {
        self.phase = Phase::Running;
        self.started = now + SimTime::from_whole_ns(self.spec.start_delay_ns);
        self.counting_from = self.started + SimTime::from_whole_ns(self.spec.ramp_ns);
        let runtime = self.spec.runtime_ns.map(SimTime::from_whole_ns);
        self.deadline = runtime.map_or(SimTime(u64::MAX), |runtime| self.counting_from + runtime);
        self.started
    }

    pub fn end(&mut self, now: SimTime) {
        self.phase = Phase::Ended;
        self.ended = now;
    }

    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    #[inline]
    pub fn next(&mut self, now: SimTime) -> Next {
        if !self.drawn && !self.drained {
            if let Some(request) = self.requests.next() {
                self.building.request = request;
                self.drawn = true;
                self.due = None;
            }
        }
        self.drained = self.drained || !self.drawn || now >= self.deadline;
        if self.drained {
            self.drawn = false;
            return if self.in_flight == 0 { Next::Ended } else { Next::WaitForCompletion };
        }
        if self.in_flight >= self.spec.depth {
            self.filling = false;
        } else if self.in_flight <= self.spec.batch.low {
            self.filling = true;
        }
        // Before a pause, fio lets everything in flight complete.
        let pauses = self.due.is_none() && self.pacer.pauses_next() && self.in_flight > 0;
        if !self.filling || pauses {
            return Next::WaitForCompletion;
        }
        let due = match self.due {
            Some(due) => due,
            None => SimTime::from_whole_ns(self.pacer.earliest(now.whole_ns(), &self.building.request)),
        };
        if due > now {
            self.due = Some(due);
            // A pause that outlasts the job's time ends with it.
            return Next::WaitUntil(due.min(self.deadline));
        }
        self.drawn = false;
        self.building.device = self.devices[self.turn];
        self.building.submitted = now;
        self.turn = if self.turn + 1 == self.devices.len() { 0 } else { self.turn + 1 };
        Next::Submit
    }

    /// The request at hand is in its queue; what comes next.
    #[inline]
    pub fn submitted(&mut self) -> Part {
        self.in_flight += 1;
        self.batched += 1;
        // Devices take turns, so the first so many requests of a batch go to so many devices.
        self.touched = self.devices.len().min(self.touched + 1);
        if self.batched == self.batch_size { Part::Kick } else { Part::Choose }
    }

    /// Whether a device has requests that it was not told of.
    pub const fn has_touched(&self) -> bool {
        self.touched > 0
    }

    /// The next device of the batch to be looked at.
    #[inline]
    pub fn next_touched(&mut self) -> Option<u32> {
        let back = self.touched;
        self.touched = back.checked_sub(1)?;
        // A request that found its queue full has had its turn, but is not in the batch.
        let missed = usize::from(self.part == Part::KickForRoom);
        let (turn, count) = (self.turn, self.devices.len());
        let mut at = turn + 2 * count - missed - back;
        while at >= count {
            at -= count;
        }
        Some(self.devices[at])
    }

    /// Every device of the batch was told; whether the batch was a whole one.
    #[inline]
    pub fn end_batch(&mut self) -> bool {
        let whole = self.batched >= self.batch_size;
        self.batched = 0;
        whole
    }

    /// The thread waits for completions.
    pub fn wait(&mut self) {
        let wanted = if self.drained { self.in_flight } else { self.spec.batch.complete_min.max(1) };
        self.missing = Some(wanted.min(self.in_flight.max(1)));
    }

    /// A request completed; whether that wakes the thread.
    #[inline]
    pub fn complete(&mut self, bytes: u32, submitted: SimTime, now: SimTime) -> bool {
        self.in_flight -= 1;
        if submitted >= self.counting_from {
            self.completed += 1;
            self.bytes += u64::from(bytes);
            self.latency.record(now - submitted);
        }
        let Some(missing) = &mut self.missing else { return false };
        *missing -= 1;
        let wakes = *missing == 0;
        if wakes {
            self.missing = None;
        }
        wakes
    }

    pub const fn completed(&self) -> u64 {
        self.completed
    }

    pub fn progress(&self, now: SimTime) -> f64 {
        let bytes = self.bytes as f64 / self.spec.total_bytes.max(1) as f64;
        let time = self.spec.runtime_ns.map(|ns| (now - self.started).ns() / (ns + self.spec.ramp_ns).max(1) as f64);
        match (self.phase, time) {
            (Phase::Pending, _) => 0.0,
            (Phase::Ended, _) => 1.0,
            (Phase::Running, Some(time)) if self.spec.time_based => time.min(1.0),
            (Phase::Running, Some(time)) => time.max(bytes).min(1.0),
            (Phase::Running, None) => bytes.min(1.0),
        }
    }

    pub fn result(&self) -> JobResult {
        let time = self.ended - self.counting_from;
        JobResult {
            name: display_name(&self.spec),
            completed: self.completed,
            per_second: per_second(self.completed, time),
            bytes_per_second: per_second(self.bytes, time),
            latency_ns: self.latency.summary(),
        }
    }
}

/// From the first counted submission to the last end of a group's jobs.
pub(super) fn span(jobs: &[Job], group: u32) -> SimTime {
    let members = || jobs.iter().filter(|job| job.group == group);
    let first = members().map(|job| job.counting_from).min().unwrap_or_default();
    let last = members().map(|job| job.ended).max().unwrap_or_default();
    last - first
}
