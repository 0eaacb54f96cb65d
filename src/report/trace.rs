//! What `hvmmio trace` wrote.

use serde::Serialize;

use crate::trace::Facts;

use super::csv::Row;
use super::table::figures;
use super::{Report, grouped};

/// A trace that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceReport {
    /// Where it comes from: a recording, or a rule.
    pub from: String,
    /// The file.
    pub file: String,
    /// Its form.
    pub format: &'static str,
    /// Accesses, generation moves and losses.
    pub items: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// What was read.
    pub facts: Facts,
    /// Remarks: what is not in it.
    pub notes: Vec<String>,
}

impl TraceReport {
    fn counts(&self) -> [(&'static str, u64); 6] {
        [
            ("items", self.items),
            ("MMIO accesses", self.facts.accesses),
            ("generation moves", self.facts.generation_moves),
            ("vCPUs", self.facts.vcpus.len() as u64),
            ("events lost", self.facts.lost_events),
            ("bytes", self.bytes),
        ]
    }
}

impl Report for TraceReport {
    fn table(&self) -> String {
        let mut table = figures(&[&format!("{} from {}", self.file, self.from), self.format]);
        for (name, count) in self.counts() {
            table.add_row([name.to_owned(), grouped(count)]);
        }
        let notes: String = self.notes.iter().map(|note| format!("\nnote: {note}")).collect();
        format!("{table}\n{notes}{}", if notes.is_empty() { "" } else { "\n" })
    }

    fn rows(&self) -> Vec<Row> {
        self.counts().into_iter().map(|(name, count)| Row::new(&self.file, name, count, "", "")).collect()
    }
}
