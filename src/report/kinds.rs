//! Mixed runs: how often each kind of access was made, and what it took.

use crate::sim::{KindStat, RunResult};

use super::csv::Row;
use super::grouped;
use super::table::figures;

/// A table a run.
pub(super) fn kinds(runs: &[RunResult]) -> String {
    let one = |run: &RunResult| {
        let mut table = figures(&["by kind of access", "count", "share, %", "ns each", "share of the time, %"]);
        for KindStat { kind, count, count_percent, ns, time_percent } in &run.kinds {
            let figures = [count_percent, ns, time_percent].map(|figure| format!("{figure:.1}"));
            table.add_row([(*kind).to_owned(), grouped(*count)].into_iter().chain(figures));
        }
        format!("\n{table}\n")
    };
    runs.iter().filter(|run| !run.kinds.is_empty()).map(one).collect()
}

/// As CSV.
pub(super) fn rows(run: &RunResult, subject: &str, rows: &mut Vec<Row>) {
    let kind = if run.measured.is_some() { "measured" } else { "" };
    for stat in &run.kinds {
        let subject = format!("{subject}, {}", stat.kind);
        rows.push(Row::new(&subject, "accesses", stat.count, "", ""));
        rows.push(Row::new(&subject, "accesses share", stat.count_percent, "%", ""));
        rows.push(Row::new(&subject, "time per access", stat.ns, "ns", kind));
        rows.push(Row::new(&subject, "time share", stat.time_percent, "%", kind));
    }
}
