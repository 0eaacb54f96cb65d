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

use super::benchmark::Benchmark;
use super::calibrate::{FitError, FittedCost, rounded, with_cost};
use super::comparison::Comparison;
use super::pci_config::scan_by_ports_ns;
use super::published::Published;
use super::reproduce::reproduce;

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
    pub comparisons: Vec<Comparison>,
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
    let Fitter { machine, sums, costs, .. } = fitter;
    let comparisons = Benchmark::of(&machine).into_iter().map(|benchmark| reproduce(benchmark, &machine, &mut |_| {}));
    let comparisons = comparisons.collect::<Result<_, _>>()?;
    Ok(X86Calibration { source: source.clone(), sums, costs, comparisons, machine, text })
}

/// One OUT of a byte, to whatever port.
const OUT: Instruction = Instruction::Out { port: Port(0x80), width: PortWidth::Byte, value: 0 };
/// The two halves of a configuration read by ports.
const CONFIG_ADDRESS: Instruction = Instruction::Out { port: Port(0xcf8), width: PortWidth::Dword, value: 0x8000_0000 };
const CONFIG_DATA: Instruction = Instruction::In { port: Port(0xcfc), width: PortWidth::Dword };
/// A configuration read by one load.
const CONFIG_LOAD: Instruction = Instruction::Load { gpa: GuestPhysAddr(0xb000_0000), width: Width::Dword };

/// The five steps of the 2007 thread: guest registers restored, handled in the kernel, user space returns at once, registers only
/// when needed, registers got and set at every exit.
fn pio_paths(machine: &Machine) -> Result<[StageCounts; 5], FitError> {
    let whole = |mode| stages_of(machine, mode, OUT);
    let only = |stages: StageCounts, keep: fn(Stage) -> bool| -> StageCounts {
        stages.iter().filter(|(stage, _)| keep(*stage)).map(|(stage, _)| stage).collect()
    };
    let needed = whole(PortMode::RegsWhenNeeded)?;
    Ok([
        only(needed, |stage| matches!(stage, Stage::VmExit | Stage::VmEntry)),
        whole(PortMode::InKernel)?,
        only(needed, |stage| !matches!(stage, Stage::Drain | Stage::UserDevice)),
        needed,
        whole(PortMode::RegsEveryExit)?,
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

struct Fitter {
    machine: Machine,
    fit: X86Fit,
    sums: Vec<(&'static str, f64)>,
    costs: Vec<FittedCost>,
}

impl Fitter {
    fn pio_latency(&mut self, published: &Published) -> Result<(), FitError> {
        let (paths, figures) = (pio_paths(&self.machine)?, published.pio_latency_ns.in_order());
        for ((sum, stages), ns) in X86Figures::PioLatencyNs.sums().iter().zip(paths).zip(figures) {
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
        let rest = X86Extra::BootRest.name();
        let ns = rows.boot_scan_before_ms * 1e6 - scan_by_ports_ns(&self.machine, rest)?;
        if ns < 0.0 {
            return Err(FitError::Negative { what: format!("[around.{rest}]"), ns });
        }
        self.set("around", rest, ns);
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
