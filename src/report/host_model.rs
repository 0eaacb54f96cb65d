//! A host's machine model, and how it predicts.

use crate::proof::HostModel;

use super::Report;
use super::csv::Row;
use super::measured::ns;
use super::table::figures;

/// An error within this many percent is what is aimed at.
const AIM_PERCENT: f64 = 15.0;

impl Report for HostModel {
    fn table(&self) -> String {
        let mut text = format!("{}: {}\n\n", self.machine.name, self.machine.description);
        let mut table = figures(&["the fit rests on", "measured ns", "middle half"]);
        for way in &self.fitted {
            let [low, high] = way.quartiles;
            table.add_row([way.label.to_owned(), ns(way.ns), format!("{} to {}", ns(low), ns(high))]);
        }
        text += &format!("{table}\n\n");
        let mut table = figures(&["cost", "ns", "is"]);
        let stages =
            self.machine.kind.stage_names().into_iter().map(|name| ("stage", name, self.machine.stage.get(name)));
        let around =
            self.machine.kind.around_names().into_iter().map(|name| ("around", name, self.machine.around.get(name)));
        for (kind, name, cost) in stages.chain(around) {
            if let Some(cost) = cost {
                table.add_row([format!("{kind}.{name}"), ns(cost.ns), cost.kind.to_string()]);
            }
        }
        text += &format!("{table}\n\n");
        let mut table = figures(&[
            "held out: the fit has not seen it",
            "predicted ns",
            "measured ns",
            "least to greatest",
            "error",
            "",
        ]);
        for row in &self.held_out {
            table.add_row([
                format!("{}, {}", row.scenario, row.way),
                ns(row.predicted_ns),
                ns(row.measured_ns),
                format!("{} to {}", ns(row.least_ns), ns(row.greatest_ns)),
                format!("{:+.1} %", row.error_percent),
                if row.error_percent.abs() <= AIM_PERCENT { "within 15 %" } else { "NOT within 15 %" }.to_owned(),
            ]);
        }
        text + &format!(
            "{table}\nan access; medians; all took turns on this host in this run, timed by their thread, each round set off by how slow the host was in it\n"
        )
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<_> =
            self.fitted.iter().map(|way| Row::new("fit", way.label, way.ns, "ns", "measured")).collect();
        for (name, cost) in self.machine.stage.iter().chain(&self.machine.around) {
            rows.push(Row::new(&self.machine.name, name, cost.ns, "ns", cost.kind.name()));
        }
        for row in &self.held_out {
            let subject = format!("{}, {}", row.scenario, row.way);
            rows.push(Row::new(&subject, "time per access", row.predicted_ns, "ns", "predicted"));
            rows.push(Row::new(&subject, "time per access", row.measured_ns, "ns", "measured"));
            rows.push(Row::new(&subject, "error", row.error_percent, "%", ""));
        }
        rows
    }
}
