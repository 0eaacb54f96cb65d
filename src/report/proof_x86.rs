//! What the fit of an x86 model derived, and how its figures come out.

use serde::Serialize;

use crate::proof::{X86Calibration, X86Figure};

use super::Report;
use super::csv::Row;
use super::table::figures;

/// A fit of an x86 model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct X86CalibrationReport {
    /// What it derived.
    pub calibration: X86Calibration,
}

fn error_percent(figure: &X86Figure) -> f64 {
    (figure.model / figure.published - 1.0) * 100.0
}

impl Report for X86CalibrationReport {
    fn table(&self) -> String {
        let fit = &self.calibration;
        let sums: Vec<_> = fit.sums.iter().map(|(name, ns)| format!("{name} {ns:.3} ns")).collect();
        let mut text = format!(
            "Published: {}.\nEach figure fixes one sum of stages: {}; its split is assumed ([fit.sums.*]).\n\n",
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
        let mut table = figures(&["", "unit", "published", "model", "error", "model is"]);
        for figure in &fit.figures {
            // Against a published 0 no share can be given.
            let error = error_percent(figure);
            table.add_row([
                figure.label.clone(),
                figure.unit.to_owned(),
                format!("{:.2}", figure.published),
                format!("{:.2}", figure.model),
                if error.is_finite() { format!("{error:+.2} %") } else { "-".to_owned() },
                figure.standing.name().to_owned(),
            ]);
        }
        text + &format!("{table}\n")
    }

    fn rows(&self) -> Vec<Row> {
        let fit = &self.calibration;
        let mut rows: Vec<_> = fit.sums.iter().map(|(name, ns)| Row::new("fit", name, ns, "ns", "fitted")).collect();
        rows.extend(fit.costs.iter().map(|cost| {
            let unit = if cost.table == "noise" && cost.name != "deviation-ns" { "" } else { "ns" };
            Row::new(&fit.machine.name, &format!("{}.{}", cost.table, cost.name), cost.ns, unit, "fitted")
        }));
        for figure in &fit.figures {
            rows.push(Row::new(&figure.label, "published", figure.published, figure.unit, "published"));
            rows.push(Row::new(&figure.label, "model", figure.model, figure.unit, figure.standing.name()));
        }
        rows
    }
}
