//! "Improve PIO latency", 2007: how long one OUT takes by how far it goes.

use crate::kvm_x86::Stage;
use crate::sim::{RunResult, Scenario};
use crate::workload::ports::PortMode;

use super::benchmark::Benchmark;
use super::comparison::{Comparison, Figure, ReproduceError, Standing};
use super::published::PioLatency;
use super::reproduce::Runs;

/// The steps of the thread, in the order of [`PioLatency::in_order`].
const STEPS: [&str; 5] = [
    "guest registers restored",
    "handled in kernel",
    "user space returns at once",
    "registers only when needed",
    "get and set registers every exit",
];

/// Mean time an access spent in these stages, ns.
fn spent(run: &RunResult, stages: &[Stage]) -> f64 {
    let rows = run.stages.iter().filter(|row| stages.iter().any(|stage| stage.name() == row.stage));
    rows.map(|row| row.total_ns).sum::<f64>() / run.accesses.max(1) as f64
}

pub(super) fn reproduce(published: &PioLatency, runs: &mut Runs<'_>) -> Result<Comparison, ReproduceError> {
    let scenario = runs.scenario("pio-timeline")?;
    let mut run = |mode| runs.run(&Scenario { mode, ..scenario.clone() }, 3);
    let kernel = run(PortMode::InKernel)?;
    let needed = run(PortMode::RegsWhenNeeded)?;
    let every = run(PortMode::RegsEveryExit)?;
    let simulated = [
        (&kernel, spent(&kernel, &[Stage::VmExit, Stage::VmEntry])),
        (&kernel, kernel.ns_per_access),
        (&needed, needed.ns_per_access - spent(&needed, &[Stage::Drain, Stage::UserDevice])),
        (&needed, needed.ns_per_access),
        (&every, every.ns_per_access),
    ];
    let figures = STEPS.iter().zip(published.in_order()).zip(simulated);
    let figures = figures.map(|((label, ns), (run, simulated))| {
        Figure::new(label, "ns", &run.variant, [ns, simulated], Standing::Fitted)
    });
    Ok(Comparison {
        benchmark: Benchmark::PioLatency.name(),
        source: published.source.clone(),
        machine: runs.machine.name.clone(),
        kind: runs.machine.kind,
        figures: figures.collect(),
        published_saving_ns: None,
        simulated_saving_ns: None,
        perf: Vec::new(),
        notes: vec!["each figure fixes one sum of stages: the thread has none left to predict".to_owned()],
        runs: vec![every, needed, kernel],
    })
}
