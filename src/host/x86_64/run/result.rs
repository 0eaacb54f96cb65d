//! A run's result, in the form that all runs have.

use std::time::{Duration, Instant};

use crate::host::x86_64::HostError;
use crate::machine::Kind;
use crate::sim::{
    ConfigStats, ExitCount, JobResult, KindStat, Latency, Measured, Metric, Notify, Outcomes, RunResult, Scenario,
    Workload, event,
};

use super::rig::{Pace, Ran, Rig, Stream};
use super::vmm::Counts;

/// What a workload's run tells.
pub(super) struct Told {
    frame_ns: f64,
    ran: Vec<Ran>,
    /// What is asked for of each vCPU.
    asked: Option<u64>,
    first: Duration,
    wall: Duration,
    pub counts: Counts,
    pub unit: &'static str,
    /// Accesses of a unit.
    pub per_unit: u64,
    /// Bytes of a unit.
    pub bytes: u64,
    /// What eventfds counted.
    pub eventfd: u64,
    /// Accesses to addresses.
    pub mmio: u64,
    /// Of these, loads from memory.
    pub ram: u64,
    pub kinds: Vec<KindStat>,
    config: Option<ConfigStats>,
    pub notes: Vec<String>,
}

impl Told {
    pub fn new(frame_ns: f64, ran: Vec<Ran>, start: Instant) -> Self {
        let mut counts = Counts::default();
        ran.iter().for_each(|ran| counts.merge(&ran.counts));
        Self {
            frame_ns,
            first: ran.iter().map(|ran| ran.first).min().unwrap_or_default(),
            ran,
            asked: None,
            wall: start.elapsed(),
            counts,
            unit: "",
            per_unit: 1,
            bytes: 0,
            eventfd: 0,
            mmio: 0,
            ram: 0,
            kinds: Vec::new(),
            config: None,
            notes: Vec::new(),
        }
    }

    /// Runs a stream of `count` units on each vCPU.
    pub fn streamed(
        rig: &mut Rig,
        stream: &dyn Stream,
        count: u64,
        pace: Pace,
        start: Instant,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Self, HostError> {
        let frame_ns = rig.frame_ns()?;
        let before = start.elapsed();
        let ran = rig.run(stream, count, pace, frame_ns, progress)?;
        let mut told = Self::new(frame_ns, ran, start);
        told.first += before;
        told.asked = Some(count);
        Ok(told)
    }

    /// Units of all vCPUs.
    pub fn units(&self) -> u64 {
        self.ran.iter().map(|ran| ran.units).sum()
    }

    /// Units of each vCPU.
    pub fn each_units(&self) -> Vec<u64> {
        self.ran.iter().map(|ran| ran.units).collect()
    }

    /// Takes exits out that no access of the workload made.
    pub fn leave_out(&mut self, port: u16) {
        self.counts.leave_out(port);
    }

    /// Takes over what configuration accesses took.
    pub fn set_config(&mut self, config: ConfigStats) {
        (self.mmio, self.ram) = (config.mmio_exits + config.memory_reads, config.memory_reads);
        self.config = Some(config);
    }

    fn measured(&self) -> Measured {
        let warm = |ran: &Ran| ran.batches[usize::from(ran.batches.len() > 1)..].to_vec();
        let mut each: Vec<_> = self.ran.iter().flat_map(warm).map(|b| b.each() / self.per_unit as f64).collect();
        each.sort_by(f64::total_cmp);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index into the list")]
        let at =
            |share: f64| each.get((share * (each.len().max(1) - 1) as f64).round() as usize).copied().unwrap_or(0.0);
        let exit = |(target, direction, count)| ExitCount { event: event(target, direction), count };
        Measured {
            batches: each.len(),
            least_ns: at(0.0),
            p25_ns: at(0.25),
            median_ns: super::rig::median(&mut each.clone()),
            p75_ns: at(0.75),
            greatest_ns: at(1.0),
            frame_ns: self.frame_ns,
            first_result_ms: self.first.as_secs_f64() * 1e3,
            wall_s: self.wall.as_secs_f64(),
            exits: self.counts.by_kind().into_iter().map(exit).collect(),
        }
    }

    fn jobs(&self) -> Vec<JobResult> {
        let job = |(id, ran): (usize, &Ran)| {
            let seconds = ran.batches.iter().map(|batch| batch.ns).sum::<f64>() / 1e9;
            // Of a scan there are more batches than are counted.
            let units = ran.batches.iter().map(|batch| batch.units).sum::<u64>();
            let per_second = if seconds > 0.0 { units as f64 / seconds } else { 0.0 };
            JobResult {
                name: format!("vcpu{id}"),
                completed: ran.units,
                per_second,
                bytes_per_second: per_second * self.bytes as f64,
                latency_ns: Latency::default(),
            }
        };
        self.ran.iter().enumerate().map(job).collect()
    }

    /// Everything the run tells.
    pub fn collect(mut self, scenario: &Scenario) -> RunResult {
        let measured = self.measured();
        let jobs = self.jobs();
        if let Some(asked) = self.asked.filter(|asked| self.ran.iter().any(|ran| ran.units < *asked)) {
            let what = format!(
                "{} of {}: the time for it was over (--seconds 0 goes to the end)",
                self.units(),
                asked * self.ran.len() as u64
            );
            self.notes.push(what);
        }
        let accesses = self.units() * self.per_unit;
        let doorbells = matches!(scenario.workload, Workload::Doorbells(_));
        let outcomes = Outcomes {
            eventfd: self.eventfd,
            coalesced: self.counts.drained,
            exits: self.counts.total,
            ring_full: self.counts.ring_full,
            ram: self.ram,
            ..Outcomes::default()
        };
        RunResult {
            scenario: scenario.name.clone(),
            description: scenario.description.clone(),
            workload: scenario.workload.kind(),
            machine: "this host".to_owned(),
            kind: Kind::X86,
            variant: if doorbells { notification(scenario.notify) } else { scenario.way().to_owned() },
            kernel: "",
            switches: Vec::new(),
            cache: String::new(),
            entries: None,
            policy: "",
            vcpus: u32::try_from(self.ran.len()).unwrap_or(u32::MAX),
            devices: scenario.devices,
            layout: if doorbells { scenario.layout.name() } else { "" },
            notify: if doorbells { notification(scenario.notify) } else { String::new() },
            seed: scenario.seed,
            virtual_s: 0.0,
            metric: Some(Metric { unit: self.unit, value: jobs.iter().map(|job| job.per_second).sum() }),
            accesses,
            mmio_accesses: self.mmio,
            hits: 0,
            hit_rate: None,
            misses: Vec::new(),
            uncached: 0,
            outcomes,
            attempts: 0,
            ns_per_access: measured.median_ns,
            stages: Vec::new(),
            around: Vec::new(),
            paths: Vec::new(),
            jobs,
            exit_stats: Vec::new(),
            kinds: self.kinds,
            config: self.config,
            user_device_ns: 0.0,
            told_ns: None,
            drain_delay_ns: None,
            ram_as_mmio: None,
            measured: Some(measured),
            recorded: None,
            notes: self.notes,
            failure: None,
        }
    }
}

/// How doorbells leave the guest; without a poller the ring is drained at exits alone.
fn notification(notify: Notify) -> String {
    match notify {
        Notify::Coalesced { poll_ns: 0 } => "coalesced zone".to_owned(),
        notify => notify.describe(),
    }
}
