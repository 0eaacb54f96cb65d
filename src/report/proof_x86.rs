//! What the fit of an x86 model derived, and how its figures come out.

use serde::Serialize;

use crate::proof::X86Calibration;

use super::Report;
use super::csv::Row;
use super::proof::{comparison_rows, published};
use super::table::figures;

/// A fit of an x86 model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct X86CalibrationReport {
    /// What it derived.
    pub calibration: X86Calibration,
}

impl Report for X86CalibrationReport {
    fn table(&self) -> String {
        let fit = &self.calibration;
        let sums: Vec<_> = fit.sums.iter().map(|(name, ns)| format!("{name} {ns:.3} ns")).collect();
        let mut text = format!(
            "Published: {}.\nFigures fix one sum of stages each: {}; its split is assumed ([fit.sums.*]).\n\n",
            fit.source,
            sums.join(", ")
        );
        let mut table = figures(&["fitted cost", "was", "now"]);
        for cost in &fit.costs {
            let digits = if cost.table == "noise" { 6 } else { 3 };
            let cells = [cost.was_ns, cost.ns].map(|figure| format!("{figure:.digits$}"));
            table.add_row(std::iter::once(format!("{}.{}", cost.table, cost.name)).chain(cells));
        }
        text += &format!("{table}\n\n");
        text + &published(&fit.comparisons)
    }

    fn rows(&self) -> Vec<Row> {
        let fit = &self.calibration;
        let mut rows: Vec<_> = fit.sums.iter().map(|(name, ns)| Row::new("fit", name, ns, "ns", "fitted")).collect();
        rows.extend(fit.costs.iter().map(|cost| {
            let unit = if cost.table == "noise" && cost.name != "deviation-ns" { "" } else { "ns" };
            Row::new(&fit.machine.name, &format!("{}.{}", cost.table, cost.name), cost.ns, unit, "fitted")
        }));
        rows.extend(fit.comparisons.iter().flat_map(comparison_rows));
        rows
    }
}
