//! A sweep: one line a size, one column a policy.

use serde::Serialize;

use crate::cachelab::{LabPolicy, Sweep};

use super::csv::Row;
use super::table::figures;
use super::{Report, grouped, percent};

/// Lines that a table shows; CSV and JSON have all sizes.
const SHOWN: usize = 40;

/// A sweep, reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct SweepReport(
    /// The sweep.
    pub Sweep,
);

impl Report for SweepReport {
    fn table(&self) -> String {
        let sweep = &self.0;
        let mut text = format!(
            "{}: {} accesses, {} distinct pages, {} vCPU(s)\nkey {}, machine model {}\n\n",
            sweep.file,
            grouped(sweep.accesses),
            grouped(u64::from(sweep.distinct)),
            sweep.vcpus,
            sweep.key,
            sweep.machine
        );
        let mut policies: Vec<LabPolicy> = Vec::new();
        let mut sizes: Vec<u64> = Vec::new();
        for row in &sweep.rows {
            if !policies.contains(&row.policy) {
                policies.push(row.policy);
            }
            if !sizes.contains(&row.entries) {
                sizes.push(row.entries);
            }
        }
        let mut header = vec!["simulated hit rate, entries"];
        header.extend(policies.iter().map(|policy| policy.name()));
        let mut table = figures(&header);
        // All small sizes, then every so many.
        let shown = |at: usize| at < SHOWN || (at + 1) % sizes.len().div_ceil(SHOWN) == 0 || at + 1 == sizes.len();
        for size in sizes.iter().enumerate().filter(|(at, _)| shown(*at)).map(|(_, size)| size) {
            let mut cells = vec![size.to_string()];
            for policy in &policies {
                let row = sweep.rows.iter().find(|row| row.entries == *size && row.policy == *policy);
                cells.push(row.map_or_else(String::new, |row| percent(row.hit_rate)));
            }
            table.add_row(cells);
        }
        text += &format!("{table}\n");
        if let Some(advice) = &sweep.advice {
            text += &format!("\n{}\n", advice.sentence);
        }
        for note in &sweep.notes {
            text += &format!("\nnote: {note}");
        }
        if text.ends_with('\n') { text } else { text + "\n" }
    }

    fn rows(&self) -> Vec<Row> {
        let sweep = &self.0;
        let mut rows = vec![
            Row::new(&sweep.file, "accesses", sweep.accesses, "", ""),
            Row::new(&sweep.file, "distinct pages", sweep.distinct, "", ""),
        ];
        for row in &sweep.rows {
            let subject = format!("{}, {} entries, {}", sweep.file, row.entries, row.policy);
            rows.push(Row::new(&subject, "hits", row.hits, "", ""));
            rows.push(Row::new(&subject, "hit rate", row.hit_rate, "", "predicted"));
            rows.push(Row::new(&subject, "miss ratio", 1.0 - row.hit_rate, "", "predicted"));
            rows.push(Row::new(&subject, "time per access", row.ns_per_access, "ns", "predicted"));
        }
        if let Some(advice) = &sweep.advice {
            rows.push(Row::new(&sweep.file, "recommendation", &advice.sentence, "", "predicted"));
        }
        rows
    }
}
