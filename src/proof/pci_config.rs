//! "Prefer MMIO over PIO on VMware hypervisor", 2022: configuration reads by method, and a boot's scan.

use crate::machine::Machine;
use crate::sim::{self, Baseline, RunResult, Scenario, Workload};
use crate::workload::pci_config::{PciConfig as Config, PciMethod};

use super::benchmark::Benchmark;
use super::comparison::{Comparison, Figure, ReproduceError, Standing};
use super::published::PciConfig;
use super::reproduce::Runs;

const READS: &str = "pci-raw-read";
const BOOT: &str = "pci-boot";

fn by(scenario: &Scenario, method: PciMethod) -> Result<Scenario, ReproduceError> {
    match &scenario.workload {
        Workload::Pci(config) => {
            let workload = Workload::Pci(Config { method, ..config.clone() });
            Ok(Scenario { workload, ..scenario.clone() })
        }
        _ => Err(ReproduceError::Workload { scenario: scenario.name.clone() }),
    }
}

fn scan_ms(run: &RunResult) -> f64 {
    run.config.map_or(0.0, |config| config.scan_s * 1e3)
}

/// How long the boot's scan by ports takes, ns, the rest of the boot left out: the fit gives the rest what is over.
pub(super) fn scan_by_ports_ns(machine: &Machine, rest: &str) -> Result<f64, ReproduceError> {
    let mut scenario = by(&Scenario::load(BOOT)?, PciMethod::Type1)?;
    scenario.machine = machine.clone();
    if let Some(cost) = scenario.machine.around.get_mut(rest) {
        cost.ns = 0.0;
    }
    Ok(scan_ms(&sim::run(&scenario, &mut |_| {})?) * 1e6)
}

pub(super) fn reproduce(published: &PciConfig, runs: &mut Runs<'_>) -> Result<Comparison, ReproduceError> {
    let (reads, boot) = (runs.scenario(READS)?, runs.scenario(BOOT)?);
    let mut all = Vec::new();
    for scenario in reads.variants(Baseline::Without).iter().chain(&boot.variants(Baseline::Without)) {
        all.push(runs.run(scenario, 5)?);
    }
    let find = |scenario: &str, method: PciMethod| {
        let found = all.iter().find(|run| (run.scenario.as_str(), run.variant.as_str()) == (scenario, method.name()));
        found.ok_or_else(|| ReproduceError::Workload { scenario: scenario.to_owned() })
    };
    use PciMethod::{Ecam, EcamReadOnly, Type1};
    use Standing::{Fitted, Predicted};
    let [ports, window, memory] =
        [find(READS, Type1)?, find(READS, Ecam)?, find(READS, EcamReadOnly)?].map(|run| run.virtual_s);
    let (before, after) = (scan_ms(find(BOOT, Type1)?), scan_ms(find(BOOT, EcamReadOnly)?));
    let count = published.reads;
    let figure =
        |label: &str, unit, method: PciMethod, pair, standing| Figure::new(label, unit, method.name(), pair, standing);
    let read = |label: &str, method, pair| figure(&format!("{count} reads, {label}"), "s", method, pair, Fitted);
    let figures = vec![
        read("ports", Type1, [published.pio_s, ports]),
        read("exiting loads", Ecam, [published.mmio_s, window]),
        Figure {
            resolution: Some(0.001),
            ..read("mapped read-only", EcamReadOnly, [published.mmio_read_only_mapped_s, memory])
        },
        figure("exiting loads save", "%", Ecam, [published.mmio_saves_pct, (1.0 - window / ports) * 100.0], Fitted),
        figure("mapped is faster", "fold", EcamReadOnly, [published.mapped_fold, ports / memory], Fitted),
        figure("boot scan before", "ms", Type1, [published.boot_scan_before_ms, before], Fitted),
        figure("boot scan after", "ms", EcamReadOnly, [published.boot_scan_after_ms, after], Predicted),
    ];
    let notes = [
        "the saving and the factor follow from the three times and are fitted with them; 0.010 s is printed in steps of 0.001 s: 1,220- to 1,348-fold",
        "boot scan: the thread says neither by which methods nor of what. Assumed: ports before, memory mapped read-only after (writes exit), no drivers",
        "boot scan: a host bridge and 2 virtio functions on a conventional bus, the most whose scan by ports fits into the time before; with 1 function the time after would be 32.4 ms",
        "boot scan: the rest of the time before (around.boot-rest) is fitted, the time after is predicted",
    ];
    Ok(Comparison {
        benchmark: Benchmark::PciConfig.name(),
        source: published.source.clone(),
        machine: runs.machine.name.clone(),
        kind: runs.machine.kind,
        figures,
        published_saving_ns: None,
        simulated_saving_ns: None,
        perf: Vec::new(),
        notes: notes.map(str::to_owned).to_vec(),
        runs: all,
    })
}
