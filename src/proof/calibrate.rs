//! The fit: what the published rows allow to derive of a machine model, and no more.
//!
//! FIO's rows before and after give two figures: the time a hit saves over the slow form, and the whole request. The
//! first fixes the sum of the stages that only the slow form has (how it splits over them stays assumed); the second
//! fixes the one cost named `fio_rest`. NetPerf's rows *before* fix `netperf_rest`; its rows *after* are left to predict.

use serde::Serialize;

use crate::kvm_hv::CacheDesign;
use crate::machine::{FileError, Fit, Machine, Provenance};
use crate::sim::{self, RunResult, Scenario, SimError};

use super::benchmark::Benchmark;
use super::comparison::{Comparison, ReproduceError};
use super::published::{Published, Rows};
use super::reproduce::reproduce;

/// A cost that the fit set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FittedCost {
    /// `stage`, `around` or `noise`.
    pub table: &'static str,
    /// Its name.
    pub name: String,
    /// Before the fit, ns (of noise: its own unit).
    pub was_ns: f64,
    /// Now.
    pub ns: f64,
}

/// What a fit gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Time a hit saves by FIO's rows, ns, and its standard error.
    pub saving_ns: (f64, f64),
    /// Sum of the stages that only the slow form has, ns.
    pub slow_form_ns: f64,
    /// Every cost that was set.
    pub costs: Vec<FittedCost>,
    /// Published against simulated with the fitted model.
    pub comparisons: Vec<Comparison>,
    /// The fitted model.
    #[serde(skip)]
    pub machine: Machine,
    /// Its file: the template's text with the fitted figures in place.
    #[serde(skip)]
    pub text: String,
}

/// Why a fit failed.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The template.
    #[error(transparent)]
    File(#[from] FileError),
    /// A simulation.
    #[error(transparent)]
    Run(#[from] ReproduceError),
    /// The template has no `[fit]` table.
    #[error("machine {machine} has no [fit] table: name {keys} in it")]
    NoFit {
        /// The model.
        machine: String,
        /// What should stand there.
        keys: &'static str,
    },
    /// The template's other costs leave nothing.
    #[error("{what} would be {ns:.1} ns: the model's other costs add up to more than the published rows allow")]
    Negative {
        /// Which.
        what: String,
        /// What the fit gives.
        ns: f64,
    },
}

impl From<SimError> for FitError {
    fn from(error: SimError) -> Self {
        Self::Run(error.into())
    }
}

/// Mean time of a request in a run, ns.
fn period(run: &RunResult) -> f64 {
    run.metric.as_ref().map_or(0.0, |metric| 1e9 / metric.value)
}

/// Figures keep three decimals, like virtual time.
pub(super) fn rounded(ns: f64) -> f64 {
    (ns * 1000.0).round() / 1000.0
}

/// The scenarios that the rows are of.
const FIO: &str = "fio-null-blk";
const NETPERF: &str = "netperf-tcp-rr";

struct Fitter {
    machine: Machine,
    costs: Vec<FittedCost>,
}

impl Fitter {
    fn run(&self, scenario: &str, cache: CacheDesign) -> Result<RunResult, FitError> {
        let mut scenario = Scenario::load(scenario).map_err(ReproduceError::from)?;
        scenario.machine = self.machine.clone();
        scenario.cache = cache;
        Ok(sim::run(&scenario, &mut |_| {})?)
    }

    fn set(&mut self, table: &'static str, name: &str, ns: f64) {
        let costs = if table == "stage" { &mut self.machine.stage } else { &mut self.machine.around };
        if let Some(cost) = costs.get_mut(name) {
            self.costs.push(FittedCost { table, name: name.to_owned(), was_ns: cost.ns, ns });
            (cost.ns, cost.kind) = (ns, Provenance::Fitted);
        }
    }

    /// Sets a surrounding cost so that the run without a cache takes as long as the rows before the series say.
    fn fit_rest(&mut self, scenario: &str, rows: &Rows, rest: &str) -> Result<(), FitError> {
        let now = period(&self.run(scenario, CacheDesign::OFF)?);
        let had = self.machine.around.get(rest).map_or(0.0, |cost| cost.ns);
        let ns = rounded(had + rows.periods_ns()[0] - now);
        if ns < 0.0 {
            return Err(FitError::Negative { what: format!("[around.{rest}]"), ns });
        }
        self.set("around", rest, ns);
        Ok(())
    }
}

/// Fits the POWER model in `text` to the published rows.
///
/// # Errors
/// The template does not parse, has no `[fit]`, or leaves nothing to fit.
pub fn calibrate(file: &str, text: &str) -> Result<Calibration, FitError> {
    let template = Machine::parse(file, text)?;
    let published = Published::built_in()?;
    let Some(Fit::Book3sHv(fit)) = template.fit.clone() else {
        let keys = "fio_rest, netperf_rest and [fit.shares]";
        return Err(FitError::NoFit { machine: template.name.clone(), keys });
    };
    let mut fitter = Fitter { machine: template.clone(), costs: Vec::new() };

    // The slow form's own stages are set to nothing: what still differs between the runs are the hit's own stages.
    for name in fit.shares.keys() {
        if let Some(cost) = fitter.machine.stage.get_mut(name) {
            cost.ns = 0.0;
        }
    }
    let fio = &published.fio;
    let [off, on] = [CacheDesign::OFF, CacheDesign::KERNEL].map(|cache| fitter.run(FIO, cache));
    let (off, on) = (off?, on?);
    let saving = fio.saving_ns();
    let hit_only = period(&on) - period(&off);
    // How much of the slow form's sum a request pays on average: all of it without a cache, almost none with one.
    let paid = |run: &RunResult| -> f64 {
        let share = |name: &String, share: &f64| {
            let count = run.stages.iter().find(|row| row.stage == name).map_or(0, |row| row.count);
            share * count as f64 / run.accesses as f64
        };
        fit.shares.iter().map(|(name, weight)| share(name, weight)).sum()
    };
    let slow_form_ns = rounded((saving.0 + hit_only) / (paid(&off) - paid(&on)));
    for (name, share) in &fit.shares {
        fitter.set("stage", name, rounded(slow_form_ns * share));
    }
    // What the template had, for the report: the loop above has overwritten it with nothing.
    for cost in &mut fitter.costs {
        cost.was_ns = template.stage.get(&cost.name).map_or(0.0, |cost| cost.ns);
    }
    fitter.fit_rest(FIO, fio, &fit.fio_rest)?;
    fitter.fit_rest(NETPERF, &published.netperf, &fit.netperf_rest)?;

    let Fitter { machine, costs } = fitter;
    let comparisons = Benchmark::of(&machine)
        .into_iter()
        .map(|benchmark| reproduce(benchmark, &machine, &mut |_| {}))
        .collect::<Result<_, _>>()?;
    let text = costs.iter().fold(text.to_owned(), |text, cost| with_cost(&text, cost));
    Ok(Calibration { saving_ns: saving, slow_form_ns, costs, comparisons, machine, text })
}

/// The file with one cost's figure replaced; everything else, comments too, stays as it is.
pub(super) fn with_cost(text: &str, cost: &FittedCost) -> String {
    let header = format!("[{}.{}]", cost.table, cost.name);
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with('[') {
            inside = line.trim() == header;
        }
        let key = line.split('=').next().unwrap_or_default().trim();
        lines.push(match key {
            "ns" | "value" if inside => format!("{key} = {:?}", cost.ns),
            "kind" if inside => "kind = \"fitted\"".to_owned(),
            _ => line.to_owned(),
        });
    }
    lines.join("\n") + "\n"
}
