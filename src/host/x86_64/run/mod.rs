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
use crate::sim::{Doorbells, Metric, Notify, Outcomes, Scenario, Workload};
use crate::workload::pci_config::{PciConfig, PciMethod};
use crate::workload::ports::{PioStream, PortDirection, PortMode};
use crate::workload::rtc_tick::RtcTick;

use super::{HostError, System};

use execute::Done;
pub use pci::scan_accesses;

/// How much of a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most accesses of a vCPU in a way; a scan is run whole.
    pub accesses: u64,
    /// Most time that a run of a way may take.
    pub time: Duration,
    /// How often each way is run, at least once.
    pub rounds: u32,
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

/// One way of a scenario.
#[derive(Clone, Copy, Debug)]
enum Form<'a> {
    Pio(&'a PioStream, PortMode),
    Rtc(RtcTick, PortMode),
    Doorbells(Doorbells, Notify),
    Pci(&'a PciConfig, PciMethod),
}

impl<'a> Form<'a> {
    /// The ways of a scenario that a host has, and remarks on those that it has not.
    fn all(scenario: &'a Scenario) -> Result<(Vec<Self>, Vec<String>), HostError> {
        let no_device = |mode: PortMode| mode == PortMode::InKernel;
        let (forms, left_out): (Vec<_>, _) = match &scenario.workload {
            Workload::Pio(stream) => {
                let missing = |mode| no_device(mode) && stream.direction == PortDirection::In;
                let modes = scenario.modes.iter().filter(|mode| !missing(**mode));
                let left_out = scenario.modes.iter().any(|mode| missing(*mode));
                (modes.map(|mode| Self::Pio(stream, *mode)).collect(), left_out)
            }
            Workload::Rtc(tick) => {
                let modes = scenario.modes.iter().filter(|mode| !no_device(**mode));
                let left_out = scenario.modes.iter().any(|mode| no_device(*mode));
                (modes.map(|mode| Self::Rtc(*tick, *mode)).collect(), left_out)
            }
            Workload::Doorbells(bells) => {
                (doorbells::ways(scenario).into_iter().map(|notify| Self::Doorbells(*bells, notify)).collect(), false)
            }
            Workload::Pci(config) => (config.methods.iter().map(|method| Self::Pci(config, *method)).collect(), false),
            Workload::Fio(_) | Workload::Netperf(_) | Workload::Sequence(_) => (Vec::new(), false),
        };
        let note = "in-kernel is left out: no device in a real kernel answers these reads";
        if forms.is_empty() {
            let what = if left_out { note } else { "workloads for a host are pio, rtc, pci and doorbells" };
            return Err(HostError::Unsupported(format!("{}: {}; {what}", scenario.name, scenario.workload.kind())));
        }
        Ok((forms, if left_out { vec![note.to_owned()] } else { Vec::new() }))
    }

    fn name(self) -> String {
        match self {
            Self::Pio(_, mode) | Self::Rtc(_, mode) => mode.name().to_owned(),
            Self::Doorbells(_, notify) => doorbells::name(notify),
            Self::Pci(_, method) => method.name().to_owned(),
        }
    }

    fn run(self, system: &System, way: &Way<'_>) -> Result<HostRun, HostError> {
        match self {
            Self::Pio(stream, mode) => pio::run(system, way, stream, mode),
            Self::Rtc(tick, mode) => rtc::run(system, way, tick, mode),
            Self::Doorbells(bells, notify) => doorbells::run(system, way, bells, notify),
            Self::Pci(config, method) => pci::run(system, way, config, method),
        }
    }
}

/// Runs a scenario in each of its ways, by turns, as many rounds as asked for. `started` is when the user's command began.
///
/// # Errors
/// The workload has no form for a host, KVM lacks something, a guest fails, or what it read or where its accesses went is not
/// what the scenario says.
pub fn run(scenario: &Scenario, limits: Limits, started: Instant) -> Result<Vec<HostRun>, HostError> {
    let (forms, notes) = Form::all(scenario)?;
    let system = System::open()?;
    let mut rounds: Vec<Vec<HostRun>> = vec![Vec::new(); forms.len()];
    for round in 0..limits.rounds.max(1) {
        for (number, form) in forms.iter().enumerate() {
            // The first run's time to its first exit has everything before it, the others' their own.
            let start = if (round, number) == (0, 0) { started } else { Instant::now() };
            let way = Way { scenario, variant: form.name(), limits, start };
            rounds[number].push(form.run(&system, &way)?);
        }
    }
    let middle = rounds.into_iter().filter_map(middle);
    Ok(middle.map(|run| HostRun { notes: run.notes.into_iter().chain(notes.clone()).collect(), ..run }).collect())
}

/// The round in the middle by time per access, and what is of all of them.
fn middle(mut rounds: Vec<HostRun>) -> Option<HostRun> {
    let first_exit_s = rounds.first()?.first_exit_s;
    rounds.sort_by(|a, b| a.ns_per_access.total_cmp(&b.ns_per_access));
    let ns_range = [rounds.first()?.ns_per_access, rounds.last()?.ns_per_access];
    let count = rounds.len();
    let run = rounds.swap_remove(count / 2);
    Some(HostRun { first_exit_s, rounds: u32::try_from(count).unwrap_or(u32::MAX), ns_range, ..run })
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
    let ns_per_access = busy * 1e9 * f64::from(vcpus) / told.accesses.max(1) as f64;
    Ok(HostRun {
        scenario: way.scenario.name.clone(),
        description: way.scenario.description.clone(),
        workload: way.scenario.workload.kind(),
        variant: way.variant.clone(),
        kernel: super::probe::release(),
        vcpus,
        devices: way.scenario.devices,
        layout: if matches!(way.scenario.workload, Workload::Doorbells(_)) { way.scenario.layout.name() } else { "" },
        measured_s: busy,
        first_exit_s: done.first_exit.duration_since(way.start).as_secs_f64(),
        metric: Metric { unit: told.unit, value: told.counted as f64 / busy },
        accesses: told.accesses,
        outcomes,
        ns_per_access,
        rounds: 1,
        ns_range: [ns_per_access; 2],
        functions: told.functions,
        values_checked: told.values_checked,
        notes: told.notes,
    })
}
