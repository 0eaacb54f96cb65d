//! A machine model of this host: stage costs from measured ways of an access, and what the model says of workloads that the fit
//! has not seen.

use std::collections::BTreeMap;

use crate::addr::GuestPhysAddr;
use crate::host::x86_64::run::{Bench, DeviceCosts, Piece, device_costs};
use crate::host::x86_64::{HostError, System};
use crate::kvm_x86::{Instruction, Stage, Width};
use crate::machine::{Cost, Kind, Machine, Provenance, X86Extra};
use crate::sim::{self, Scenario, SimError, Workload, stages_of};
use crate::workload::mixed::{Mixed, MixedKind};
use crate::workload::pci_config::PciMethod;
use crate::workload::ports::{PortDirection, PortMode};

use super::measured_model::{HeldOut, HostModel, MeasuredWay};
use super::on_host::{OnHostError, Way, scenario};
use super::spread::spread;

/// A held-out workload is measured so many times; the median counts.
const TIMES: usize = 5;
/// Rounds of each time, in each of which all take turns: the median of a stream's batches is one measurement. Of a scan each round
/// measures some pieces.
const ROUNDS: usize = 15;
/// Writes that the ring holds: every one beyond them exits.
const RING: f64 = 169.0;

/// Why no model came out.
#[derive(Debug, thiserror::Error)]
pub enum HostFitError {
    /// Measuring.
    #[error(transparent)]
    OnHost(#[from] OnHostError),
    /// The simulation of a held-out workload.
    #[error(transparent)]
    Sim(Box<SimError>),
    /// The model that came out is none.
    #[error("the fitted model is no model: {0}")]
    Model(String),
}

impl From<SimError> for HostFitError {
    fn from(error: SimError) -> Self {
        Self::Sim(Box::new(error))
    }
}

impl From<HostError> for HostFitError {
    fn from(error: HostError) -> Self {
        Self::OnHost(error.into())
    }
}

/// What the fit sees, in this order.
const FITTED: [&str; 8] = [
    "OUT by an ioeventfd",
    "OUT coalesced",
    "OUT to user space",
    "OUT to user space, registers every exit",
    "IN from user space",
    "config read by exiting ECAM",
    "config read by read-only ECAM",
    "config write to read-only ECAM",
];

fn fitted_scenarios() -> Result<Vec<Scenario>, OnHostError> {
    let port = |mode| scenario("pio-timeline", Way::Port(mode));
    let mut reads = port(PortMode::RegsWhenNeeded)?;
    if let Workload::Pio(stream) = &mut reads.workload {
        stream.direction = PortDirection::In;
    }
    let mut writes = Scenario::load("mixed")?;
    if let Workload::Mixed(mixed) = &mut writes.workload {
        *mixed = Mixed::only(MixedKind::ReadOnlyWrite, mixed.count);
    }
    let config = |method| scenario("pci-raw-read", Way::Config(method));
    Ok(vec![
        port(PortMode::InKernel)?,
        port(PortMode::Coalesced)?,
        port(PortMode::RegsWhenNeeded)?,
        port(PortMode::RegsEveryExit)?,
        reads,
        config(PciMethod::Ecam)?,
        config(PciMethod::EcamReadOnly)?,
        writes,
    ])
}

/// What the fit has not seen: shipped scenarios.
const HELD_OUT: [(&str, Way); 8] = [
    ("rtc-tick", Way::Port(PortMode::RegsWhenNeeded)),
    ("rtc-tick", Way::Port(PortMode::Coalesced)),
    ("pci-raw-read", Way::Config(PciMethod::Type1)),
    ("pci-raw-read", Way::Config(PciMethod::Type1Coalesced)),
    ("pci-scan", Way::Config(PciMethod::Type1)),
    ("pci-scan", Way::Config(PciMethod::Type1Coalesced)),
    ("pci-scan", Way::Config(PciMethod::Ecam)),
    ("pci-scan", Way::Config(PciMethod::EcamReadOnly)),
];

/// Measures this host's ways of an access, in turns with the held-out workloads, and makes a model of them.
///
/// # Errors
/// KVM refuses, or a guest goes wrong.
pub fn fit_host(system: &System, name: &str, progress: &mut dyn FnMut(f64)) -> Result<HostModel, HostFitError> {
    let mut ways = Vec::new();
    for scenario in fitted_scenarios()? {
        ways.push((Bench::new(system, &scenario)?, Vec::with_capacity(TIMES * ROUNDS)));
    }
    let mut unseen = Vec::new();
    for (name, way) in HELD_OUT {
        let scenario = scenario(name, way)?;
        unseen.push((Bench::new(system, &scenario)?, scenario, Vec::new()));
    }
    for round in 0..TIMES * ROUNDS {
        for (bench, times) in &mut ways {
            times.push(bench.measure()?);
        }
        for (bench, _, measured) in &mut unseen {
            for _ in 0..bench.pieces().div_ceil(ROUNDS) {
                measured.push((round, bench.measure_piece()?));
            }
        }
        progress((round + 1) as f64 / (TIMES * ROUNDS) as f64);
    }
    let regs = ways[2].0.regs_ns()?;
    let own = device_costs()?;
    let mut times: Vec<_> = ways.into_iter().map(|(_, times)| times).collect();
    let pace = pace(&times);
    times.iter_mut().for_each(|times| times.iter_mut().zip(&pace).for_each(|(time, pace)| *time /= pace));
    let way = |(label, times): (&&'static str, Vec<f64>)| {
        let (ns, quartiles) = spread(times);
        MeasuredWay { label, ns, quartiles }
    };
    let fitted: Vec<_> = FITTED.iter().zip(times).map(way).collect();
    let machine = model(name, &fitted, regs, own)?;
    let mut held_out = Vec::new();
    for (bench, scenario, measured) in unseen {
        let [least_ns, measured_ns, greatest_ns] = of_pieces(&bench, &measured, &pace);
        let predicted_ns = predicted(&scenario, &machine)?;
        held_out.push(HeldOut {
            scenario: scenario.name.clone(),
            way: scenario.way().to_owned(),
            predicted_ns,
            measured_ns,
            least_ns,
            greatest_ns,
            error_percent: (predicted_ns / measured_ns - 1.0) * 100.0,
        });
    }
    let text = machine.to_toml().map_err(HostFitError::Model)?;
    let text = format!(
        "# Measured by `hvmmio calibrate --host` on the machine it names; absolute times mean nothing elsewhere.\n\n{text}"
    );
    // What was written is what will be read.
    let machine = Machine::parse(name, &text).map_err(|error| HostFitError::Model(error.to_string()))?;
    Ok(HostModel { fitted, held_out, machine, text })
}

/// How slow the host was in each round: the median over the ways that the fit sees of a time in that round over the way's median.
/// Every measurement of a round is divided by it, those of held-out workloads too, which do not go into it.
fn pace(ways: &[Vec<f64>]) -> Vec<f64> {
    let usual: Vec<_> = ways.iter().map(|times| spread(times.clone()).0).collect();
    let rounds = ways.first().map_or(0, Vec::len);
    let of = |round: usize| {
        let ratios = ways.iter().zip(&usual).filter(|(_, usual)| **usual > 0.0);
        let pace = spread(ratios.map(|(times, usual)| times[round] / usual).collect()).0;
        if pace > 0.0 { pace } else { 1.0 }
    };
    (0..rounds).map(of).collect()
}

/// Least, median and greatest of [`TIMES`] measurements of an access, ns. Of a scan it is each piece's that are added up, so that
/// what interrupts one piece is not in the others' figures.
fn of_pieces(bench: &Bench, measured: &[(usize, Piece)], pace: &[f64]) -> [f64; 3] {
    let (mut sums, mut units) = ([0.0; 3], 0);
    for index in 0..bench.pieces() {
        let those = || measured.iter().filter(|(_, piece)| piece.index == index);
        let of_time = |time| {
            let within = those().filter(|(round, _)| round / ROUNDS == time);
            let ns: Vec<_> = within.map(|(round, piece)| piece.ns / pace[*round]).collect();
            (!ns.is_empty()).then(|| spread(ns).0)
        };
        let times: Vec<_> = (0..TIMES).filter_map(of_time).collect();
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = times.iter().copied().fold(0.0, f64::max);
        sums.iter_mut().zip([least, spread(times).0, greatest]).for_each(|(sum, ns)| *sum += ns);
        units += those().next().map_or(0, |(_, piece)| piece.units);
    }
    sums.map(|ns| ns / (units * bench.accesses()).max(1) as f64)
}

/// Time of an access by the model: all of the run but idle time.
fn predicted(scenario: &Scenario, machine: &Machine) -> Result<f64, HostFitError> {
    let mut scenario = scenario.clone();
    scenario.machine = machine.clone();
    let run = sim::run(&scenario, &mut |_| {})?;
    Ok(match scenario.workload {
        // Whatever a configuration access takes is in the virtual time, nothing else is.
        Workload::Pci(_) => run.virtual_s * 1e9 / run.accesses.max(1) as f64,
        _ => run.ns_per_access,
    })
}

const CONFIG_LOAD: Instruction = Instruction::Load { gpa: GuestPhysAddr(0xb000_0000), width: Width::Dword };
/// To an address without memory: what a fault takes is what is left.
const CONFIG_STORE: Instruction = Instruction::Store { gpa: GuestPhysAddr(0xb000_0000), width: Width::Dword, value: 0 };

/// Stage costs. Each is what one way takes beyond another; what no difference tells apart is one sum, split evenly.
fn model(name: &str, ways: &[MeasuredWay], regs: [f64; 2], own: DeviceCosts) -> Result<Machine, HostFitError> {
    let ns = |at: usize| ways[at].ns;
    let [eventfd, coalesced, user, every, read, ecam, memory, write] = std::array::from_fn(ns);
    let stored = (coalesced - user / (RING + 1.0)) * (RING + 1.0) / RING - own.drained_write;
    // An exit that stays in the kernel; what its device takes is beyond what both ways have.
    let kernel = eventfd.min(stored);
    let left = user - kernel - own.drain - own.user_device;
    let registers = (every - user).max(0.0);
    let get_share = regs[0] / (regs[0] + regs[1]).max(f64::MIN_POSITIVE);
    let complete = (read - user).max(0.0);

    let mut machine = Machine {
        name: name.to_owned(),
        description: format!("this host, kernel {}, measured by hvmmio calibrate --host", crate::host::release()),
        kind: Kind::X86,
        stage: BTreeMap::new(),
        around: BTreeMap::new(),
        noise: None,
        fit: None,
    };
    let mut set = |stage: Stage, ns: f64, source: &str| {
        let cost =
            Cost { ns: super::calibrate::rounded(ns.max(0.0)), kind: Provenance::Measured, source: source.to_owned() };
        machine.stage.insert(stage.name().to_owned(), cost);
    };
    set(Stage::MemoryRead, memory, "config read by read-only ECAM, the loop around it included");
    let part = "a quarter of an exit that stays in the kernel: OUT by an ioeventfd or coalesced, whichever takes less";
    for stage in [Stage::VmExit, Stage::KernelIo, Stage::PrepareEntry, Stage::VmEntry] {
        set(stage, kernel / 4.0, part);
    }
    set(Stage::EventfdSignal, eventfd - kernel, "OUT by an ioeventfd less an exit that stays in the kernel");
    set(
        Stage::RingStore,
        stored - kernel,
        "OUT coalesced less an exit that stays in the kernel and its share of full rings",
    );
    let half = "half of: OUT to user space less an exit that stays in the kernel, drain and device";
    set(Stage::UserExit, left / 2.0, half);
    set(Stage::UserEntry, left / 2.0, half);
    let split = "OUT with registers every exit less without, split as the two system calls by themselves take";
    set(Stage::GetRegs, registers * get_share, split);
    set(Stage::SetRegs, registers * (1.0 - get_share), split);
    set(Stage::Drain, own.drain, "a look into an empty ring, timed in this process");
    set(Stage::DrainedWrite, own.drained_write, "a write out of a full ring to its device, timed in this process");
    set(Stage::UserDevice, own.user_device, "a device found and called, timed in this process");
    set(Stage::CompleteIo, complete, "IN from user space less OUT to user space");
    set(Stage::InKernelDevice, eventfd - kernel, "as an ioeventfd: no device in the kernel was measured");
    set(Stage::FastMmio, 0.0, "not told apart from emulate-insn");
    let to_be_set = "to be set";
    set(Stage::EmulateInsn, 0.0, to_be_set);
    set(Stage::ReadOnlyFault, 0.0, to_be_set);
    for (extra, ns, kind, source) in [
        (
            X86Extra::PciConfig,
            own.pci_config,
            Provenance::Measured,
            "a configuration read by the PCI host less a device's, timed in this process",
        ),
        (X86Extra::Interrupt, 0.0, Provenance::Assumed, "not measured: runs on real KVM wait for no interrupt"),
        (X86Extra::BootRest, 0.0, Provenance::Assumed, "not measured: a scan alone runs on real KVM"),
    ] {
        let cost = Cost { ns: super::calibrate::rounded(ns), kind, source: source.to_owned() };
        machine.around.insert(extra.name().to_owned(), cost);
    }
    // What is known of a load that exits; the rest is the emulator's, once or more.
    let source = "config read by exiting ECAM less its other stages and pci-config";
    rest(&mut machine, Stage::EmulateInsn, CONFIG_LOAD, ecam - own.pci_config, source)?;
    let source =
        "config write to read-only ECAM less its other stages and pci-config; showing what was written is in it";
    rest(&mut machine, Stage::ReadOnlyFault, CONFIG_STORE, write - own.pci_config, source)?;
    Ok(machine)
}

/// Sets a stage to what an exit to user space, of `ns` altogether, takes beyond its other stages.
fn rest(machine: &mut Machine, stage: Stage, insn: Instruction, ns: f64, source: &str) -> Result<(), HostFitError> {
    let stages = stages_of(machine, PortMode::RegsWhenNeeded, insn)?;
    let known: f64 = stages.iter().map(|(known, count)| machine.stage_ns(known.name()) * f64::from(count)).sum();
    let ns = super::calibrate::rounded(((ns - known) / f64::from(stages.of(stage).max(1))).max(0.0));
    let cost = Cost { ns, kind: Provenance::Measured, source: source.to_owned() };
    machine.stage.insert(stage.name().to_owned(), cost);
    Ok(())
}
