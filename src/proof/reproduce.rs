//! Published figures beside simulated ones.

use serde::Serialize;

use crate::kvm_hv::CacheDesign;
use crate::machine::Machine;
use crate::sim::{self, RunResult, Scenario, ScenarioError, SimError};

use super::published::{Benchmark, Published, mean, standard_error};

/// What a simulated figure rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The fit used the published rows it is compared with.
    Fitted,
    /// The model gives it without having seen them.
    Predicted,
}

impl Standing {
    /// Its word in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Predicted => "predicted",
        }
    }
}

/// One published figure and its simulated counterpart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Before or after the series.
    pub label: &'static str,
    /// Cache design simulated.
    pub cache: String,
    /// Mean of the published rows.
    pub published: f64,
    /// Its standard error.
    pub published_error: f64,
    /// Rows published.
    pub rows: usize,
    /// Simulated.
    pub simulated: f64,
    /// Simulated over published, less one, in percent.
    pub error_percent: f64,
    /// What the simulated figure rests on.
    pub standing: Standing,
}

/// A benchmark, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// fio or netperf.
    pub benchmark: &'static str,
    /// Where the rows were published.
    pub source: String,
    /// Unit of the figures.
    pub unit: String,
    /// Before, after.
    pub figures: [Figure; 2],
    /// Time saved per request by the published means, ns, and its standard error.
    pub published_saving_ns: (f64, f64),
    /// The same by simulation, ns.
    pub simulated_saving_ns: f64,
    /// The runs, before and after, in full.
    pub runs: [RunResult; 2],
}

/// Why a benchmark could not be reproduced.
#[derive(Debug, thiserror::Error)]
pub enum ReproduceError {
    /// Its scenario.
    #[error(transparent)]
    Scenario(Box<ScenarioError>),
    /// Its run.
    #[error(transparent)]
    Sim(Box<SimError>),
    /// The published figures.
    #[error(transparent)]
    Figures(#[from] crate::machine::FileError),
}

impl From<ScenarioError> for ReproduceError {
    fn from(error: ScenarioError) -> Self {
        Self::Scenario(Box::new(error))
    }
}

impl From<SimError> for ReproduceError {
    fn from(error: SimError) -> Self {
        Self::Sim(Box::new(error))
    }
}

/// Runs a benchmark's scenario without and with the kernel's cache on `machine` and sets the published rows beside it.
///
/// # Errors
/// The scenario does not load or run.
pub fn reproduce(
    benchmark: Benchmark,
    machine: &Machine,
    progress: &mut dyn FnMut(f64),
) -> Result<Comparison, ReproduceError> {
    let published = Published::built_in()?;
    let rows = published.rows(benchmark);
    let mut scenario = Scenario::load(benchmark.scenario())?;
    scenario.machine = machine.clone();
    let mut run = |cache, from: f64| {
        scenario.cache = cache;
        sim::run(&scenario, &mut |share| progress(from + share / 2.0))
    };
    let runs = [run(CacheDesign::OFF, 0.0)?, run(CacheDesign::KERNEL, 0.5)?];
    let value = |run: &RunResult| run.metric.as_ref().map_or(0.0, |metric| metric.value);
    // Both of FIO's rows are fitted; of NetPerf's the fit sees those before the series only.
    let after = match benchmark {
        Benchmark::Fio => Standing::Fitted,
        Benchmark::Netperf => Standing::Predicted,
    };
    let figure = |label, list: &[f64], run: &RunResult, standing| Figure {
        label,
        cache: run.cache.clone(),
        published: mean(list),
        published_error: standard_error(list),
        rows: list.len(),
        simulated: value(run),
        error_percent: (value(run) / mean(list) - 1.0) * 100.0,
        standing,
    };
    Ok(Comparison {
        benchmark: benchmark.name(),
        source: rows.source.clone(),
        unit: rows.unit.clone(),
        figures: [
            figure("before", &rows.before, &runs[0], Standing::Fitted),
            figure("after", &rows.after, &runs[1], after),
        ],
        published_saving_ns: rows.saving_ns(),
        simulated_saving_ns: 1e9 / value(&runs[0]) - 1e9 / value(&runs[1]),
        runs,
    })
}
