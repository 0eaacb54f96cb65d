//! Published figures beside simulated ones, benchmark by benchmark.

use crate::kvm_hv::CacheDesign;
use crate::machine::{Fit, Machine};
use crate::sim::{self, RunResult, Scenario};

use super::benchmark::Benchmark;
use super::comparison::{Comparison, Figure, ReproduceError, Standing};
use super::published::{Published, Rows, mean, standard_error};
use super::{coalesced_pio, pci_config, pio_latency};

/// The runs of a benchmark, one after another, and how far they are.
pub(super) struct Runs<'a> {
    pub machine: &'a Machine,
    progress: &'a mut dyn FnMut(f64),
    count: usize,
    done: usize,
}

impl Runs<'_> {
    /// A shipped scenario, on the machine.
    pub fn scenario(&self, name: &str) -> Result<Scenario, ReproduceError> {
        let mut scenario = Scenario::load(name)?;
        scenario.machine = self.machine.clone();
        Ok(scenario)
    }

    /// The next of so many runs.
    pub fn run(&mut self, scenario: &Scenario, count: usize) -> Result<RunResult, ReproduceError> {
        self.count = count.max(self.count);
        let (done, count, progress) = (self.done as f64, self.count as f64, &mut self.progress);
        let result = sim::run(scenario, &mut |share| progress((done + share) / count))?;
        self.done += 1;
        Ok(result)
    }
}

/// Simulates a benchmark on `machine` and sets the published figures beside it.
///
/// # Errors
/// The scenario does not load, or does not run on this kind of machine.
pub fn reproduce(
    benchmark: Benchmark,
    machine: &Machine,
    progress: &mut dyn FnMut(f64),
) -> Result<Comparison, ReproduceError> {
    let published = Published::built_in()?;
    let mut runs = Runs { machine, progress, count: 1, done: 0 };
    let mut comparison = match benchmark {
        Benchmark::Fio => of_the_cache(benchmark, "fio-null-blk", &published.fio, &mut runs)?,
        Benchmark::Netperf => of_the_cache(benchmark, "netperf-tcp-rr", &published.netperf, &mut runs)?,
        Benchmark::CoalescedPio => coalesced_pio::reproduce(&published.coalesced_pio, &mut runs)?,
        Benchmark::PioLatency => pio_latency::reproduce(&published.pio_latency_ns, &mut runs)?,
        Benchmark::PciConfig => pci_config::reproduce(&published.pci_config, &mut runs)?,
    };
    // On a model that was not fitted to them nothing is.
    if let (Some(figures), fit) = (benchmark.x86_figures(), &machine.fit) {
        if !matches!(fit, Some(Fit::X86(fit)) if fit.figures == figures) {
            comparison.figures.iter_mut().for_each(|figure| figure.standing = Standing::Predicted);
        }
    }
    Ok(comparison)
}

/// FIO and NetPerf: without and with the kernel's cache.
fn of_the_cache(
    benchmark: Benchmark,
    scenario: &str,
    rows: &Rows,
    runs: &mut Runs<'_>,
) -> Result<Comparison, ReproduceError> {
    let scenario = runs.scenario(scenario)?;
    let mut run = |cache| runs.run(&Scenario { cache, ..scenario.clone() }, 2);
    let [off, on] = [run(CacheDesign::OFF)?, run(CacheDesign::KERNEL)?];
    let value = |run: &RunResult| run.metric.as_ref().map_or(0.0, |metric| metric.value);
    // Both of FIO's rows are fitted; of NetPerf's the fit sees those before the series only.
    let after = if benchmark == Benchmark::Fio { Standing::Fitted } else { Standing::Predicted };
    let figure = |label, list: &[f64], run: &RunResult, standing| Figure {
        published_error: Some(standard_error(list)),
        rows: list.len(),
        ..Figure::new(label, &rows.unit, &run.cache, [mean(list), value(run)], standing)
    };
    Ok(Comparison {
        benchmark: benchmark.name(),
        source: rows.source.clone(),
        machine: runs.machine.name.clone(),
        kind: runs.machine.kind,
        figures: vec![figure("before", &rows.before, &off, Standing::Fitted), figure("after", &rows.after, &on, after)],
        published_saving_ns: Some(rows.saving_ns()),
        simulated_saving_ns: Some(1e9 / value(&off) - 1e9 / value(&on)),
        perf: Vec::new(),
        notes: Vec::new(),
        runs: vec![off, on],
    })
}
