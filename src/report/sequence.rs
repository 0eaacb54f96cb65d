//! Sequences of operations against their labels.

use serde::Serialize;

use crate::workload::sequence::SequenceReport;

use super::csv::Row;
use super::table::figures;
use super::{Report, grouped};

/// Sequence files, run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SequencesReport {
    /// One a file.
    pub sequences: Vec<SequenceReport>,
}

impl SequencesReport {
    /// Whether every label agrees.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.sequences.iter().all(|sequence| sequence.first_disagreement.is_none())
    }
}

impl Report for SequencesReport {
    fn table(&self) -> String {
        let mut table = figures(&["sequence", "operations", "labelled", "agree", "hits", "misses"]);
        let mut sum = [0_u64; 5];
        for sequence in &self.sequences {
            let counts = &sequence.counts;
            let cells = [counts.operations, counts.labelled, counts.agreeing, counts.hits, counts.misses];
            for (sum, cell) in sum.iter_mut().zip(cells) {
                *sum += cell;
            }
            table.add_row(std::iter::once(sequence.name.clone()).chain(cells.map(grouped)));
        }
        if self.sequences.len() > 1 {
            table.add_row(std::iter::once("sum".to_owned()).chain(sum.map(grouped)));
        }
        let mut text = format!("{table}\n");
        for sequence in &self.sequences {
            if let Some(first) = &sequence.first_disagreement {
                text += &format!("\n{}: first disagreement: {}\n", sequence.name, first.describe());
            }
            if let Some(gpa) = sequence.ram_as_mmio.first_gpa {
                text += &format!(
                    "\n{}: WRONG: {} access(es) to RAM taken for MMIO, the first at guest physical address {gpa:#x}\n",
                    sequence.name, sequence.ram_as_mmio.count
                );
            }
        }
        text
    }

    fn rows(&self) -> Vec<Row> {
        let of = |sequence: &SequenceReport| {
            let counts = &sequence.counts;
            [
                ("operations", counts.operations),
                ("labelled", counts.labelled),
                ("agreeing", counts.agreeing),
                ("hits", counts.hits),
                ("misses", counts.misses),
                ("RAM taken for MMIO", sequence.ram_as_mmio.count),
            ]
            .map(|(quantity, value)| Row::new(&sequence.name, quantity, value, "", ""))
        };
        self.sequences.iter().flat_map(of).collect()
    }
}
