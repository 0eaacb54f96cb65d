//! Scenarios on real KVM: the guest's program, the devices behind its exits, and what was measured.
//!
//! A workload is an [`execute::Plan`]: code for each vCPU, and what the VM has on its buses.

mod doorbells;
mod execute;
mod pci;
mod pio;
mod rtc;

use std::time::{Duration, Instant};

use crate::host::record::HostRun;
use crate::sim::{Metric, Outcomes, Scenario, Workload};

use super::{HostError, System};

use execute::Done;

/// How much of a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most accesses of a vCPU in a way; a scan is run whole.
    pub accesses: u64,
    /// Most time that a way may take.
    pub time: Duration,
}

/// A way to run a scenario, and what its run is called.
struct Way<'a> {
    scenario: &'a Scenario,
    variant: String,
    limits: Limits,
    /// When the whole run began.
    start: Instant,
}

/// What a workload tells of a run, beside what was counted.
struct Told {
    unit: &'static str,
    /// What the metric counts.
    counted: u64,
    /// Accesses of all vCPUs.
    accesses: u64,
    /// Loads that did not exit.
    memory: u64,
    /// Exits that are the harness's own.
    own_exits: u64,
    /// Time spent on the accesses, if it is not all of it.
    busy: Option<Duration>,
    functions: usize,
    values_checked: u64,
    notes: Vec<String>,
}

impl Told {
    fn new(unit: &'static str, accesses: u64) -> Self {
        let (memory, own_exits, functions, values_checked) = (0, 0, 0, 0);
        let (busy, notes) = (None, Vec::new());
        Self { unit, counted: accesses, accesses, memory, own_exits, busy, functions, values_checked, notes }
    }
}

/// Runs a scenario in each of its ways. `started` is when the user's command began.
///
/// # Errors
/// The workload has no form for a host, KVM lacks something, a guest fails, or what it read or where its accesses went is not
/// what the scenario says.
pub fn run(scenario: &Scenario, limits: Limits, started: Instant) -> Result<Vec<HostRun>, HostError> {
    let system = System::open()?;
    let mut runs: Vec<HostRun> = Vec::new();
    // The first way's time to its first exit has everything before it, the others' their own.
    let way = |variant: String, runs: &[HostRun]| {
        let start = if runs.is_empty() { started } else { Instant::now() };
        Way { scenario, variant, limits, start }
    };
    match &scenario.workload {
        Workload::Pio(stream) => {
            for mode in &scenario.modes {
                runs.push(pio::run(&system, &way(mode.name().to_owned(), &runs), stream, *mode)?);
            }
        }
        Workload::Rtc(tick) => {
            for mode in &scenario.modes {
                runs.push(rtc::run(&system, &way(mode.name().to_owned(), &runs), *tick, *mode)?);
            }
        }
        Workload::Doorbells(bells) => {
            for notify in doorbells::ways(scenario) {
                runs.push(doorbells::run(&system, &way(doorbells::name(notify), &runs), *bells, notify)?);
            }
        }
        Workload::Pci(config) => {
            for method in &config.methods {
                runs.push(pci::run(&system, &way(method.name().to_owned(), &runs), config, *method)?);
            }
        }
        Workload::Fio(_) | Workload::Netperf(_) | Workload::Sequence(_) => {
            let what = "workloads for a host are pio, rtc, pci and doorbells";
            return Err(HostError::Unsupported(format!("{}: {}; {what}", scenario.name, scenario.workload.kind())));
        }
    }
    Ok(runs)
}

/// The record of a run; refuses one whose accesses did not all end as they were counted.
fn record(way: &Way<'_>, done: &Done, vcpus: u32, told: Told) -> Result<HostRun, HostError> {
    let outcomes = Outcomes {
        exits: done.exits - told.own_exits,
        coalesced: done.drained,
        eventfd: done.signals,
        ram: told.memory,
        ..Outcomes::default()
    };
    let ended = outcomes.exits + outcomes.coalesced + outcomes.eventfd + outcomes.ram;
    if ended != told.accesses {
        let what = format!("{} accesses, but {ended} seen to end: {outcomes:?}", told.accesses);
        return Err(HostError::Nonsense { what });
    }
    let busy = told.busy.unwrap_or(done.time).as_secs_f64();
    Ok(HostRun {
        scenario: way.scenario.name.clone(),
        description: way.scenario.description.clone(),
        workload: way.scenario.workload.kind(),
        variant: way.variant.clone(),
        kernel: super::probe::release(),
        vcpus,
        devices: way.scenario.devices,
        measured_s: busy,
        first_exit_s: done.first_exit.duration_since(way.start).as_secs_f64(),
        metric: Metric { unit: told.unit, value: told.counted as f64 / busy },
        accesses: told.accesses,
        outcomes,
        ns_per_access: busy * 1e9 * f64::from(vcpus) / told.accesses.max(1) as f64,
        functions: told.functions,
        values_checked: told.values_checked,
        notes: told.notes,
    })
}
