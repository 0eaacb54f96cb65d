//! A benchmark's published figures beside simulated ones: one type for all.

use serde::Serialize;

use crate::machine::Kind;
use crate::sim::{ExitStat, RunResult, ScenarioError, SimError};

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
    /// Which: before or after the series, a row and column of a table.
    pub label: String,
    /// Unit.
    pub unit: String,
    /// What was simulated for it: cache design, port mode, configuration method.
    pub variant: String,
    /// Published; the mean where there are several rows.
    pub published: f64,
    /// Standard error of a published mean.
    pub published_error: Option<f64>,
    /// Step in which it was printed, where the publication's own rounding matters.
    pub resolution: Option<f64>,
    /// Rows published.
    pub rows: usize,
    /// Simulated.
    pub simulated: f64,
    /// Simulated over published, less one, in percent; none against a published 0.
    pub error_percent: Option<f64>,
    /// What the simulated figure rests on.
    pub standing: Standing,
}

impl Figure {
    /// A figure that was published once.
    pub(super) fn new(
        label: &str,
        unit: &str,
        variant: &str,
        [published, simulated]: [f64; 2],
        standing: Standing,
    ) -> Self {
        let error = (simulated / published - 1.0) * 100.0;
        Self {
            label: label.to_owned(),
            unit: unit.to_owned(),
            variant: variant.to_owned(),
            published,
            published_error: None,
            resolution: None,
            rows: 1,
            simulated,
            error_percent: error.is_finite().then_some(error),
            standing,
        }
    }
}

/// A row of `perf kvm stat` as published, and as simulated with as many samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PerfPair {
    /// Published.
    pub published: ExitStat,
    /// Simulated.
    pub simulated: ExitStat,
}

/// A table of `perf kvm stat`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PerfTable {
    /// Without or with coalesced port I/O.
    pub name: &'static str,
    /// Its rows.
    pub rows: Vec<PerfPair>,
}

/// A benchmark's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The benchmark's name.
    pub benchmark: &'static str,
    /// Where the figures were published.
    pub source: String,
    /// The machine model.
    pub machine: String,
    /// Its kind.
    pub kind: Kind,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Time saved per request by the published means, ns, and its standard error; of benchmarks of the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_saving_ns: Option<(f64, f64)>,
    /// The same by simulation, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_saving_ns: Option<f64>,
    /// Tables of `perf kvm stat`, where the publication has such.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub perf: Vec<PerfTable>,
    /// What a reader must know: assumptions, the publication's own rounding.
    pub notes: Vec<String>,
    /// The runs in full.
    pub runs: Vec<RunResult>,
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
    /// A run without the row that is to be compared.
    #[error("scenario {scenario} made no exit {event}, which a published row is of")]
    NoRow {
        /// The scenario.
        scenario: String,
        /// The row.
        event: String,
    },
    /// A shipped scenario with another workload than its benchmark is of.
    #[error("scenario {scenario} is not of the workload that the benchmark needs")]
    Workload {
        /// The scenario.
        scenario: String,
    },
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
