//! The fit of an x86 model: published figures, one sum of stages each.
//!
//! Each figure is the time of a known set of stages. Taken in order, each has one sum in it that no figure before it has fixed;
//! that sum takes up what the stages already known leave over. How a sum splits over its stages is assumed (`[fit.sums.*]`).

use serde::Serialize;

use crate::addr::{GuestPhysAddr, Port};
use crate::kvm_x86::{Instruction, PortWidth, Stage, StageCounts, Width};
use crate::machine::{Fit, Machine, Provenance, X86Extra, X86Figures, X86Fit};
use crate::sim::{perf_window, stages_of};
use crate::workload::ports::PortMode;

use super::calibrate::{FitError, FittedCost, rounded, with_cost};
use super::published::Published;
use super::reproduce::Standing;

/// A published figure beside what the model gives for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct X86Figure {
    /// What it is.
    pub label: String,
    /// Unit.
    pub unit: &'static str,
    /// Published.
    pub published: f64,
    /// By the model.
    pub model: f64,
    /// Whether the fit has seen it.
    pub standing: Standing,
}

/// What a fit of an x86 model gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct X86Calibration {
    /// Where the figures were published.
    pub source: String,
    /// The sums and what they come to, ns.
    pub sums: Vec<(&'static str, f64)>,
    /// Every cost that was set.
    pub costs: Vec<FittedCost>,
    /// Published against the fitted model.
    pub figures: Vec<X86Figure>,
    /// The fitted model.
    #[serde(skip)]
    pub machine: Machine,
    /// Its file: the template's text with the fitted figures in place.
    #[serde(skip)]
    pub text: String,
}

/// Fits the x86 model in `text` to its published figures.
///
/// # Errors
/// The template does not parse, has no `[fit]` of an x86 model, or leaves nothing to fit.
pub fn calibrate_x86(file: &str, text: &str) -> Result<X86Calibration, FitError> {
    let machine = Machine::parse(file, text)?;
    let Some(Fit::X86(fit)) = machine.fit.clone() else {
        return Err(FitError::NoFit { machine: machine.name, keys: "figures and [fit.sums.*]" });
    };
    let published = Published::built_in()?;
    let mut fitter = Fitter { machine, fit, sums: Vec::new(), costs: Vec::new() };
    let source = match fitter.fit.figures {
        X86Figures::PioLatencyNs => {
            fitter.pio_latency(&published)?;
            &published.pio_latency_ns.source
        }
        X86Figures::CoalescedPio => {
            fitter.coalesced_pio(&published)?;
            &published.coalesced_pio.source
        }
        X86Figures::PciConfig => {
            fitter.pci_config(&published)?;
            &published.pci_config.source
        }
    };
    let text = fitter.costs.iter().fold(text.to_owned(), |text, cost| with_cost(&text, cost));
    let figures = x86_figures(&fitter.machine)?;
    let Fitter { machine, sums, costs, .. } = fitter;
    Ok(X86Calibration { source: source.clone(), sums, costs, figures, machine, text })
}

/// One OUT of a byte, to whatever port.
const OUT: Instruction = Instruction::Out { port: Port(0x80), width: PortWidth::Byte, value: 0 };
/// The two halves of a configuration read by ports.
const CONFIG_ADDRESS: Instruction = Instruction::Out { port: Port(0xcf8), width: PortWidth::Dword, value: 0x8000_0000 };
const CONFIG_DATA: Instruction = Instruction::In { port: Port(0xcfc), width: PortWidth::Dword };
/// A configuration read by one load.
const CONFIG_LOAD: Instruction = Instruction::Load { gpa: GuestPhysAddr(0xb000_0000), width: Width::Dword };

/// The five steps of the 2007 thread: what each is called there, and its stages.
fn pio_paths(machine: &Machine) -> Result<[(&'static str, StageCounts); 5], FitError> {
    let whole = |mode| stages_of(machine, mode, OUT);
    let only = |stages: StageCounts, keep: fn(Stage) -> bool| -> StageCounts {
        stages.iter().filter(|(stage, _)| keep(*stage)).map(|(stage, _)| stage).collect()
    };
    let needed = whole(PortMode::RegsWhenNeeded)?;
    Ok([
        ("guest registers restored", only(needed, |stage| matches!(stage, Stage::VmExit | Stage::VmEntry))),
        ("handled in kernel", whole(PortMode::InKernel)?),
        ("user space returns at once", only(needed, |stage| !matches!(stage, Stage::Drain | Stage::UserDevice))),
        ("registers only when needed", needed),
        ("get and set registers every exit", whole(PortMode::RegsEveryExit)?),
    ])
}

/// The stages that perf times of a write without and with coalescing.
fn perf_paths(machine: &Machine) -> Result<[StageCounts; 2], FitError> {
    let window = |mode| -> Result<_, FitError> { Ok(perf_window(&OUT, &stages_of(machine, mode, OUT)?)) };
    Ok([window(PortMode::RegsWhenNeeded)?, window(PortMode::Coalesced)?])
}

/// The stages of a configuration read: OUT, IN, and the one load.
fn config_paths(machine: &Machine) -> Result<[StageCounts; 3], FitError> {
    let path = |insn| stages_of(machine, PortMode::RegsWhenNeeded, insn);
    Ok([path(CONFIG_ADDRESS)?, path(CONFIG_DATA)?, path(CONFIG_LOAD)?])
}

fn price(machine: &Machine, stages: &StageCounts) -> f64 {
    stages.iter().map(|(stage, count)| f64::from(count) * machine.stage_ns(stage.name())).sum()
}

/// Every published figure of the thread that a model is fitted to, beside what the model gives.
///
/// # Errors
/// The model has no `[fit]` of an x86 model; the paths cannot be built.
pub fn x86_figures(machine: &Machine) -> Result<Vec<X86Figure>, FitError> {
    let Some(Fit::X86(fit)) = &machine.fit else {
        return Err(FitError::NoFit { machine: machine.name.clone(), keys: "figures and [fit.sums.*]" });
    };
    let published = Published::built_in()?;
    let mut figures = Vec::new();
    let mut add = |label: &str, unit, published, model, standing| {
        figures.push(X86Figure { label: label.to_owned(), unit, published, model, standing });
    };
    use Standing::{Fitted, Predicted};
    match fit.figures {
        X86Figures::PioLatencyNs => {
            for ((label, stages), ns) in pio_paths(machine)?.iter().zip(published.pio_latency_ns.in_order()) {
                add(label, "ns", ns, price(machine, stages), Fitted);
            }
        }
        X86Figures::CoalescedPio => {
            let [user, stored] = perf_paths(machine)?.map(|stages| price(machine, &stages) / 1000.0);
            let noise = machine.noise.as_ref();
            let share = noise.map_or(0.0, |noise| noise.share.value);
            let cold = noise.map_or(1.0, |noise| noise.cold.value);
            let rows = &published.coalesced_pio;
            let [rtc, pci] = &rows.without;
            add("without, 0xcf8:POUT min", "us", pci.min_us, user, Fitted);
            add("without, 0xcf8:POUT avg", "us", pci.avg_us, user * (1.0 + share), Fitted);
            add("without, 0x70:POUT min", "us", rtc.min_us, user * cold, Fitted);
            add("without, 0x70:POUT avg", "us", rtc.avg_us, user * cold * (1.0 + share), Predicted);
            let [rtc, pci] = &rows.with;
            add("with, 0xcf8:POUT min", "us", pci.min_us, stored, Fitted);
            add("with, 0xcf8:POUT avg", "us", pci.avg_us, stored * (1.0 + share), Predicted);
            add("with, 0x70:POUT min", "us", rtc.min_us, stored * cold, Predicted);
            add("with, 0x70:POUT avg", "us", rtc.avg_us, stored * cold * (1.0 + share), Predicted);
        }
        X86Figures::PciConfig => {
            let rows = &published.pci_config;
            let us = |seconds: f64| seconds / rows.reads as f64 * 1e6;
            let [out, input, load] = config_paths(machine)?.map(|stages| price(machine, &stages) / 1000.0);
            let device = machine.around_ns(X86Extra::PciConfig.name()) / 1000.0;
            let direct = machine.stage_ns(Stage::MemoryRead.name()) / 1000.0;
            add("read by ports", "us", us(rows.pio_s), out + input + device, Fitted);
            add("read by a load that exits", "us", us(rows.mmio_s), load + device, Fitted);
            add("read mapped read-only", "us", us(rows.mmio_read_only_mapped_s), direct, Fitted);
        }
    }
    Ok(figures)
}

struct Fitter {
    machine: Machine,
    fit: X86Fit,
    sums: Vec<(&'static str, f64)>,
    costs: Vec<FittedCost>,
}

impl Fitter {
    fn pio_latency(&mut self, published: &Published) -> Result<(), FitError> {
        let (paths, figures) = (pio_paths(&self.machine)?, published.pio_latency_ns.in_order());
        for ((sum, (_, stages)), ns) in X86Figures::PioLatencyNs.sums().iter().zip(paths).zip(figures) {
            self.solve(sum, ns, &[(1.0, stages)])?;
        }
        Ok(())
    }

    fn coalesced_pio(&mut self, published: &Published) -> Result<(), FitError> {
        let [user, stored] = perf_paths(&self.machine)?;
        let ([rtc, pci], [_, with]) = (&published.coalesced_pio.without, &published.coalesced_pio.with);
        self.solve("stored", with.min_us * 1000.0, &[(1.0, stored)])?;
        self.solve("user-space", pci.min_us * 1000.0, &[(1.0, user)])?;
        self.set("noise", "share", pci.avg_us / pci.min_us - 1.0);
        self.set("noise", "deviation-ns", pci.deviation_us() * 1000.0);
        self.set("noise", "cold", rtc.min_us / pci.min_us);
        Ok(())
    }

    fn pci_config(&mut self, published: &Published) -> Result<(), FitError> {
        let rows = &published.pci_config;
        let ns = |seconds: f64| seconds / rows.reads as f64 * 1e9;
        let (pio, mmio) = (ns(rows.pio_s), ns(rows.mmio_s));
        self.solve("memory", ns(rows.mmio_read_only_mapped_s), &[(1.0, StageCounts::from_iter([Stage::MemoryRead]))])?;
        let [out, input, load] = config_paths(&self.machine)?;
        // The device's own part is in both and falls out of the difference.
        self.solve("port-exit", pio - mmio, &[(1.0, out), (1.0, input), (-1.0, load)])?;
        let device = pio - price(&self.machine, &out) - price(&self.machine, &input);
        if device < 0.0 {
            return Err(FitError::Negative { what: "[around.pci-config]".to_owned(), ns: device });
        }
        self.set("around", X86Extra::PciConfig.name(), device);
        Ok(())
    }

    /// Sets the stages of a sum so that the paths, weighted, take `ns`.
    fn solve(&mut self, sum: &'static str, ns: f64, paths: &[(f64, StageCounts)]) -> Result<(), FitError> {
        let Some(shares) = self.fit.sums.get(sum).cloned() else { return Ok(()) };
        let (mut known, mut weight) = (0.0, 0.0);
        for (factor, path) in paths {
            for (stage, count) in path.iter() {
                let times = factor * f64::from(count);
                match shares.get(stage.name()) {
                    Some(share) => weight += times * share,
                    None => known += times * self.machine.stage_ns(stage.name()),
                }
            }
        }
        let total = (ns - known) / weight;
        // Written so that a sum without a stage on the path (not a number, or without end) is refused too.
        if !(0.0..=1e9).contains(&total) {
            return Err(FitError::Negative { what: format!("[fit.sums.{sum}]"), ns: total });
        }
        self.sums.push((sum, rounded(total)));
        for (name, share) in &shares {
            self.set("stage", name, total * share);
        }
        Ok(())
    }

    fn set(&mut self, table: &'static str, name: &str, figure: f64) {
        let figure = if table == "noise" { (figure * 1e6).round() / 1e6 } else { rounded(figure) };
        let place = match (table, &mut self.machine) {
            ("stage", machine) => machine.stage.get_mut(name).map(|cost| (&mut cost.ns, &mut cost.kind)),
            ("around", machine) => machine.around.get_mut(name).map(|cost| (&mut cost.ns, &mut cost.kind)),
            (_, machine) => machine.noise.as_mut().and_then(|noise| noise.figure_mut(name)),
        };
        if let Some((value, kind)) = place {
            self.costs.push(FittedCost { table, name: name.to_owned(), was_ns: *value, ns: figure });
            (*value, *kind) = (figure, Provenance::Fitted);
        }
    }
}
