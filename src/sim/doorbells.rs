//! A bare stream of doorbells: what the cache does for a pattern of devices, with no queue behind it.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use crate::addr::index;
use crate::machine::SimTime;

use super::engine::{Core, Load, Step, Task};
use super::result::{JobResult, Latency, Metric, per_second};
use super::scenario::{Doorbells, Pattern, Scenario};
use super::{Finish, SimError};

/// One thread a vCPU.
struct Thread {
    left: u64,
    next: u32,
    rng: Xoshiro256PlusPlus,
    ended: SimTime,
}

pub(super) struct Stream {
    spec: Doorbells,
    devices: u32,
    threads: Vec<Thread>,
    running: usize,
    until_remove: u64,
}

/// Doorbells that a thread rings, if nothing else happens, before it lets the engine report progress.
const BURST: u64 = 64;

impl Stream {
    pub fn new(core: &mut Core, scenario: &Scenario, spec: Doorbells) -> Self {
        let thread = |i: u32| Thread {
            left: spec.count,
            next: i % scenario.devices,
            rng: Xoshiro256PlusPlus::seed_from_u64(scenario.seed.wrapping_add(u64::from(i))),
            ended: SimTime::default(),
        };
        let threads: Vec<_> = (0..core.vcpus()).map(thread).collect();
        for i in 0..core.vcpus() {
            core.ready(i, Task::Thread(i), SimTime::default());
        }
        let running = threads.len();
        Self { spec, devices: scenario.devices, threads, running, until_remove: spec.remove_every }
    }

    fn pick(&mut self, thread: usize) -> u32 {
        let thread = &mut self.threads[thread];
        match self.spec.pattern {
            Pattern::RoundRobin => {
                let device = thread.next;
                thread.next = if device + 1 == self.devices { 0 } else { device + 1 };
                device
            }
            Pattern::Uniform => {
                let drawn = (u128::from(thread.rng.next_u64()) * u128::from(self.devices)) >> 64;
                u32::try_from(drawn).unwrap_or(0)
            }
        }
    }
}

impl Load for Stream {
    /// A doorbell and the gap behind it take a step.
    fn thread(&mut self, core: &mut Core, thread: u32, mut now: SimTime) -> Result<Step, SimError> {
        let at = index(u64::from(thread));
        let gap = SimTime::from_whole_ns(self.spec.gap_ns);
        for _ in 0..BURST {
            if self.threads[at].left == 0 {
                self.threads[at].ended = now;
                self.running -= 1;
                return Ok(Step::Done(now));
            }
            let device = self.pick(at);
            let (_, end) = core.doorbell(thread, device, 0, now)?;
            self.threads[at].left -= 1;
            if self.spec.remove_every > 0 {
                self.until_remove -= 1;
                if self.until_remove == 0 {
                    self.until_remove = self.spec.remove_every;
                    core.reenter(device)?;
                }
            }
            if !core.advance(end + gap) {
                return Ok(Step::More(end + gap));
            }
            now = end + gap;
        }
        Ok(Step::More(now))
    }

    fn interrupt(&mut self, _core: &mut Core, _device: u32, now: SimTime) -> Result<Step, SimError> {
        Ok(Step::Done(now))
    }

    fn notified(&mut self, _core: &mut Core, _device: u32, _at: SimTime) {}

    fn backend(&mut self, _core: &mut Core, _device: u32, _now: SimTime) -> Result<(), SimError> {
        Ok(())
    }

    fn finished(&self) -> bool {
        self.running == 0
    }

    fn progress(&self, _now: SimTime) -> f64 {
        let left: u64 = self.threads.iter().map(|thread| thread.left).sum();
        1.0 - left as f64 / (self.spec.count * self.threads.len() as u64) as f64
    }
}

impl Finish for Stream {
    fn metric(&self, end: SimTime) -> Metric {
        let count = self.spec.count * self.threads.len() as u64;
        Metric { unit: "doorbells/s", value: per_second(count, end) }
    }

    fn jobs(&self) -> Vec<JobResult> {
        let row = |(i, thread): (usize, &Thread)| JobResult {
            name: format!("vcpu{i}"),
            completed: self.spec.count,
            per_second: per_second(self.spec.count, thread.ended),
            bytes_per_second: 0.0,
            latency_ns: Latency::default(),
        };
        self.threads.iter().enumerate().map(row).collect()
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
