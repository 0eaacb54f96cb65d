//! Published against simulated, and what a fit derived.

use serde::Serialize;

use crate::proof::{Calibration, Comparison};

use super::Report;
use super::csv::Row;
use super::run::{heading, stages};
use super::table::figures;
use super::{grouped, percent};

/// Benchmarks with published rows, reproduced.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproduceReport {
    /// One a benchmark.
    pub comparisons: Vec<Comparison>,
}

impl Report for ReproduceReport {
    fn table(&self) -> String {
        let mut text = published(&self.comparisons);
        for comparison in &self.comparisons {
            let [_, after] = &comparison.runs;
            text += &format!("\n{}", heading(after));
            text += &format!(
                "hit rate with the cache {} of {} MMIO accesses (predicted)",
                after.hit_rate.map_or_else(|| "-".to_owned(), percent),
                grouped(after.mmio_accesses)
            );
            let missed: Vec<_> = after.misses.iter().filter(|miss| miss.count > 0).collect();
            let missed: Vec<_> = missed.iter().map(|miss| format!("{} {}", grouped(miss.count), miss.class)).collect();
            text += &format!("; missed: {}\n", if missed.is_empty() { "none".to_owned() } else { missed.join(", ") });
            let (saving, error) = comparison.published_saving_ns;
            text += &format!(
                "a request saves {saving:.1} +- {error:.1} ns by the published rows, {:.1} ns simulated\n",
                comparison.simulated_saving_ns
            );
            text += &stages(&comparison.runs);
        }
        text
    }

    fn rows(&self) -> Vec<Row> {
        self.comparisons.iter().flat_map(comparison_rows).collect()
    }
}

/// The table that is held against the publications.
fn published(comparisons: &[Comparison]) -> String {
    let header = ["", "cache", "published mean", "std. error", "simulated", "error", "simulated is"];
    let mut table = figures(&header);
    for comparison in comparisons {
        for figure in &comparison.figures {
            table.add_row([
                format!("{} {}, {}", comparison.benchmark, figure.label, comparison.unit),
                figure.cache.clone(),
                format!("{:.2}", figure.published),
                format!("{:.2}", figure.published_error),
                format!("{:.2}", figure.simulated),
                format!("{:+.3} %", figure.error_percent),
                figure.standing.name().to_owned(),
            ]);
        }
    }
    let mut text = format!("{table}\n");
    for comparison in comparisons {
        text += &format!("{}: published in {}\n", comparison.benchmark, comparison.source);
    }
    text
}

fn comparison_rows(comparison: &Comparison) -> Vec<Row> {
    let mut rows = Vec::new();
    for figure in &comparison.figures {
        let subject = format!("{} {}", comparison.benchmark, figure.label);
        rows.push(Row::new(&subject, "published mean", figure.published, &comparison.unit, "published"));
        rows.push(Row::new(&subject, "standard error", figure.published_error, &comparison.unit, "published"));
        rows.push(Row::new(&subject, "simulated", figure.simulated, &comparison.unit, figure.standing.name()));
        rows.push(Row::new(&subject, "error", figure.error_percent, "%", figure.standing.name()));
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
