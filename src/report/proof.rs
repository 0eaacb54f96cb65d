//! Published against simulated, and what a fit derived.

use serde::Serialize;

use crate::machine::Kind;
use crate::proof::{Calibration, Comparison, Figure, OnHost, PerfTable};

use super::Report;
use super::csv::Row;
use super::exits::{perf_header, perf_row};
use super::run::{heading, overview, stages};
use super::table::figures;
use super::{grouped, percent};

/// Benchmarks with published rows, reproduced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproduceReport {
    /// One a benchmark.
    pub comparisons: Vec<Comparison>,
    /// What this machine's real KVM measured for them, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<OnHost>,
}

impl Report for ReproduceReport {
    /// One table for all. Below it what the cache did; of the others the details too, where one stands alone.
    fn table(&self) -> String {
        let mut text = published(&self.comparisons);
        if let Some(host) = &self.host {
            text += &super::on_host::table(host);
        }
        if let [only] = &self.comparisons[..] {
            return text + &details(only);
        }
        let cached = |comparison: &&Comparison| comparison.kind == Kind::Book3sHv;
        text.extend(self.comparisons.iter().filter(cached).map(details));
        text + "\ndetails of the others: hvmmio reproduce NAME\n"
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<_> = self.comparisons.iter().flat_map(comparison_rows).collect();
        rows.extend(self.host.iter().flat_map(super::on_host::rows));
        rows
    }
}

/// What one benchmark's runs tell beside its figures.
fn details(comparison: &Comparison) -> String {
    let mut text: String = comparison.perf.iter().map(perf_table).collect();
    match comparison.kind {
        Kind::Book3sHv => text += &of_the_cache(comparison),
        Kind::X86 => {
            // Runs of one scenario stand side by side.
            for runs in comparison.runs.chunk_by(|a, b| a.scenario == b.scenario) {
                text += &format!(
                    "\n{}{}\n{}",
                    runs.first().map_or_else(String::new, heading),
                    overview(runs),
                    stages(runs)
                );
            }
        }
    }
    text
}

fn of_the_cache(comparison: &Comparison) -> String {
    let Some(after) = comparison.runs.last() else { return String::new() };
    let mut text = format!("\n{}", heading(after));
    text += &format!(
        "hit rate with the cache {} of {} MMIO accesses (predicted)",
        after.hit_rate.map_or_else(|| "-".to_owned(), percent),
        grouped(after.mmio_accesses)
    );
    let missed: Vec<_> = after.misses.iter().filter(|miss| miss.count > 0).collect();
    let missed: Vec<_> = missed.iter().map(|miss| format!("{} {}", grouped(miss.count), miss.class)).collect();
    text += &format!("; missed: {}\n", if missed.is_empty() { "none".to_owned() } else { missed.join(", ") });
    if let (Some((saving, error)), Some(simulated)) = (comparison.published_saving_ns, comparison.simulated_saving_ns) {
        text += &format!(
            "a request saves {saving:.1} +- {error:.1} ns by the published rows, {simulated:.1} ns simulated\n"
        );
    }
    text + &stages(&comparison.runs)
}

/// Published and simulated rows as `perf kvm stat` prints them.
fn perf_table(table: &PerfTable) -> String {
    let mut text = format!("\nperf kvm stat, {} coalesced port I/O\n{}", table.name, perf_header());
    for pair in &table.rows {
        text += &format!("{}  published\n{}  simulated\n", perf_row(&pair.published), perf_row(&pair.simulated));
    }
    text
}

/// The table that is held against the publications.
pub(super) fn published(comparisons: &[Comparison]) -> String {
    let cache_only = comparisons.iter().all(|comparison| comparison.kind == Kind::Book3sHv);
    let [variant, mean] = if cache_only { ["cache", "published mean"] } else { ["simulated by", "published"] };
    let mut table = figures(&["", variant, mean, "std. error", "simulated", "error", "simulated is"]);
    for comparison in comparisons {
        for figure in &comparison.figures {
            table.add_row([
                format!("{} {}, {}", comparison.benchmark, figure.label, figure.unit),
                figure.variant.clone(),
                number(figure, figure.published),
                figure.published_error.map_or_else(String::new, |error| number(figure, error)),
                number(figure, figure.simulated),
                error(figure),
                figure.standing.name().to_owned(),
            ]);
        }
    }
    let mut text = format!("{table}\n");
    for comparison in comparisons {
        text += &format!("{}: published in {}\n", comparison.benchmark, comparison.source);
        for note in &comparison.notes {
            text += &format!("{}: {note}\n", comparison.benchmark);
        }
    }
    text
}

/// As many decimals as the publications have.
fn number(figure: &Figure, value: f64) -> String {
    if figure.unit == "s" { format!("{value:.3}") } else { format!("{value:.2}") }
}

/// Against a published 0 no share can be given: the difference then.
fn error(figure: &Figure) -> String {
    match figure.error_percent {
        Some(percent) => format!("{percent:+.3} %"),
        None => format!("{:+.2} {}", figure.simulated - figure.published, figure.unit),
    }
}

pub(super) fn comparison_rows(comparison: &Comparison) -> Vec<Row> {
    let mut rows = Vec::new();
    for figure in &comparison.figures {
        let subject = format!("{} {}", comparison.benchmark, figure.label);
        let mut add =
            |quantity, value: f64, unit, standing| rows.push(Row::new(&subject, quantity, value, unit, standing));
        let mean = if figure.published_error.is_some() { "published mean" } else { "published" };
        add(mean, figure.published, &figure.unit, "published");
        if let Some(error) = figure.published_error {
            add("standard error", error, &figure.unit, "published");
        }
        if let Some(resolution) = figure.resolution {
            add("printed in steps of", resolution, &figure.unit, "published");
        }
        add("simulated", figure.simulated, &figure.unit, figure.standing.name());
        match figure.error_percent {
            Some(error) => add("error", error, "%", figure.standing.name()),
            None => add("difference", figure.simulated - figure.published, &figure.unit, figure.standing.name()),
        }
    }
    rows.extend(super::run::rows(&comparison.runs));
    rows
}

/// A fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationReport {
    /// What it derived.
    pub calibration: Calibration,
}

impl Report for CalibrationReport {
    fn table(&self) -> String {
        let fit = &self.calibration;
        let (saving, error) = fit.saving_ns;
        let mut text = format!(
            "A hit saves {saving:.1} +- {error:.1} ns a request by FIO's rows (standard error). The stages that only the slow\n\
             form has add up to {:.1} ns: fitted; their split is assumed ([fit.shares]).\n\n",
            fit.slow_form_ns
        );
        let mut table = figures(&["fitted cost", "was ns", "now ns"]);
        for cost in &fit.costs {
            table.add_row([
                format!("{}.{}", cost.table, cost.name),
                format!("{:.3}", cost.was_ns),
                format!("{:.3}", cost.ns),
            ]);
        }
        text += &format!("{table}\n\n");
        text + &published(&fit.comparisons)
    }

    fn rows(&self) -> Vec<Row> {
        let fit = &self.calibration;
        let mut rows = vec![
            Row::new("fit", "saving of a hit", fit.saving_ns.0, "ns", "published"),
            Row::new("fit", "slow form's own stages", fit.slow_form_ns, "ns", "fitted"),
        ];
        rows.extend(fit.costs.iter().map(|cost| Row::new(&fit.machine.name, &cost.name, cost.ns, "ns", "fitted")));
        rows.extend(fit.comparisons.iter().flat_map(comparison_rows));
        rows
    }
}
