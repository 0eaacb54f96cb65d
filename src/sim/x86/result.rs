//! An x86 run's result, in the form that all runs have.

use crate::machine::{SimTime, X86Extra};
use crate::sim::result::{AroundRow, PathShare, RunResult, StageRow};
use crate::sim::scenario::{Scenario, Workload};
use crate::workload::pci_config::PciTask;

use super::{Told, X86Stats};

/// Name of the [`StageRow`] for what the host adds beside the stages.
pub const NOISE_ROW: &str = "host-noise";

/// Everything the run tells.
pub(super) fn collect(scenario: &Scenario, stats: &X86Stats, now: SimTime, told: Told) -> RunResult {
    let per = |time: SimTime, count: u64| time.ns() / count.max(1) as f64;
    let mut paths: Vec<_> = stats
        .paths()
        .iter()
        .map(|path| PathShare { stages: path.stages.clone(), count: path.count, ns: per(path.time, path.count) })
        .collect();
    paths.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.stages.cmp(&b.stages)));
    RunResult {
        scenario: scenario.name.clone(),
        description: scenario.description.clone(),
        workload: scenario.workload.kind(),
        machine: scenario.machine.name.clone(),
        kind: scenario.machine.kind,
        variant: scenario.way().to_owned(),
        kernel: scenario.preset.name(),
        switches: scenario.behaviour.differences(&scenario.preset.behaviour()),
        cache: String::new(),
        entries: None,
        policy: "",
        vcpus: 1,
        devices: scenario.devices,
        layout: "",
        notify: String::new(),
        seed: scenario.seed,
        virtual_s: now.seconds(),
        metric: Some(told.metric),
        accesses: stats.accesses,
        mmio_accesses: stats.mmio_accesses,
        hits: 0,
        hit_rate: None,
        misses: Vec::new(),
        uncached: 0,
        outcomes: stats.outcomes,
        attempts: stats.vm_exits,
        ns_per_access: per(stats.time, stats.accesses),
        stages: stage_rows(scenario, stats),
        around: around_rows(scenario),
        paths,
        jobs: told.jobs,
        exit_stats: stats.exit_stats(),
        kinds: told.kinds,
        config: told.config,
        user_device_ns: 0.0,
        told_ns: None,
        drain_delay_ns: None,
        ram_as_mmio: None,
        measured: None,
        recorded: None,
        notes: told.notes,
        failure: None,
    }
}

/// What a workload pays beside its accesses' own stages.
fn around_rows(scenario: &Scenario) -> Vec<AroundRow> {
    let costs: &[X86Extra] = match &scenario.workload {
        Workload::Pci(config) if config.task == PciTask::Scan => &[X86Extra::PciConfig, X86Extra::BootRest],
        Workload::Pci(_) | Workload::Mixed(_) => &[X86Extra::PciConfig],
        Workload::Rtc(_) => &[X86Extra::Interrupt],
        _ => &[],
    };
    let row = |extra: &X86Extra| {
        let cost = scenario.machine.around.get(extra.name())?;
        Some(AroundRow { cost: extra.name(), covers: extra.doc().trim(), ns: cost.ns, kind: cost.kind })
    };
    costs.iter().filter_map(row).collect()
}

/// The stages gone through, and what the host added to them. A stage's price is that of a warm vCPU; its total is what was
/// spent, cold exits at their own.
fn stage_rows(scenario: &Scenario, stats: &X86Stats) -> Vec<StageRow> {
    let machine = &scenario.machine;
    let mut rows: Vec<_> = stats
        .sums()
        .filter_map(|(stage, sum)| {
            let cost = machine.stage.get(stage.name())?;
            let (count, total_ns) = (sum.count, sum.time.ns());
            Some(StageRow { stage: stage.name(), count, ns: cost.ns, total_ns, kind: cost.kind })
        })
        .collect();
    if let Some(noise) = machine.noise.as_ref().filter(|_| stats.excess > SimTime::default()) {
        let (count, total_ns) = (stats.vm_exits, stats.excess.ns());
        let ns = total_ns / count.max(1) as f64;
        rows.push(StageRow { stage: NOISE_ROW, count, ns, total_ns, kind: noise.share.kind });
    }
    rows
}
