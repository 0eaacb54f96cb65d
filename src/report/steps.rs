//! Steps in the simulator, and beside a real Book3S HV.

use serde::Serialize;

use crate::addr::{KernelBehaviour, Preset};
use crate::proof::compare_steps::{Seen, StepCounts, StepsCompared};

use super::Report;
use super::compared::{self, Column};
use super::csv::Row;
use super::table::figures;

/// Streams of one kind that were compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedStreams {
    /// What.
    pub name: String,
    /// What was found.
    pub compared: StepsCompared,
}

/// A comparison of streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompareStepsReport {
    /// The real side: its release.
    pub real: String,
    /// The simulated kernel.
    pub kernel: Preset,
    /// Its switches that differ from the preset's.
    pub switches: Vec<(&'static str, &'static str)>,
    /// What was compared.
    pub parts: Vec<ComparedStreams>,
}

impl CompareStepsReport {
    /// Of streams compared with `kernel`, its switches set as in `simulated`.
    #[must_use]
    pub fn new(real: &str, kernel: Preset, simulated: &KernelBehaviour, parts: Vec<ComparedStreams>) -> Self {
        Self { real: real.to_owned(), kernel, switches: simulated.differences(&kernel.behaviour()), parts }
    }

    fn columns(&self) -> Vec<Column> {
        let column = |part: &ComparedStreams| Column {
            name: part.name.clone(),
            counts: quantities(&part.compared.counts).to_vec(),
            difference: part.compared.difference.as_ref().map(ToString::to_string),
        };
        self.parts.iter().map(column).collect()
    }

    /// Whether nothing differed.
    #[must_use]
    pub fn equal(&self) -> bool {
        self.parts.iter().all(|part| part.compared.difference.is_none())
    }
}

fn quantities(counts: &StepCounts) -> [(&'static str, u64); 16] {
    [
        ("streams", counts.streams),
        ("accesses", counts.accesses),
        ("  hits", counts.hits),
        ("  misses", counts.misses),
        ("  emulated, hit or miss not told", counts.untold),
        ("  RAM", counts.ram),
        ("  interrupts", counts.interrupts),
        ("  without progress", counts.retries),
        ("exits to user space", counts.exits),
        ("hypercalls", counts.hypercalls),
        ("  refused, by the same code", counts.hypercalls_refused),
        ("SLB and AMR", counts.others),
        ("steps of the VMM", counts.vmm),
        ("  refused, by the same errno", counts.vmm_refused),
        ("ioeventfds signalled", counts.signals),
        ("entries of the tables at the end", counts.entries),
    ]
}

fn beside(real: &str, kernel: Preset, switches: &[(&str, &str)]) -> String {
    let switches: Vec<_> = switches.iter().map(|(name, value)| format!(" {name}={value}")).collect();
    format!("real kernel {real} beside the simulated {kernel}{}\n", switches.concat())
}

impl Report for CompareStepsReport {
    fn table(&self) -> String {
        beside(&self.real, self.kernel, &self.switches) + "\n" + &compared::table(&self.columns())
    }

    fn rows(&self) -> Vec<Row> {
        compared::rows(&self.columns())
    }
}

/// Streams that were looked at access by access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WatchReport {
    /// The real side, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real: Option<String>,
    /// The simulated kernel.
    pub kernel: Preset,
    /// Its switches that differ from the preset's.
    pub switches: Vec<(&'static str, &'static str)>,
    /// The streams, with what is to be said of each.
    pub streams: Vec<WatchedStream>,
}

/// A stream, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WatchedStream {
    /// In words.
    pub about: String,
    /// What was seen.
    pub seen: Seen,
}

impl WatchReport {
    /// Whether all answers were equal, as far as there was a real side, and nothing was otherwise than a file says.
    #[must_use]
    pub fn well(&self) -> bool {
        self.streams.iter().all(|it| it.seen.equal() != Some(false) && it.seen.as_expected())
    }
}

impl Report for WatchReport {
    fn table(&self) -> String {
        let mut text = match &self.real {
            Some(real) => beside(real, self.kernel, &self.switches),
            None => "simulated only: the real kernel's side needs a ppc64 host\n".to_owned(),
        };
        for WatchedStream { about, seen } in &self.streams {
            text += &format!("\n{}: {about}\n", seen.name);
            text += &stream_table(seen, self.real.is_some());
            if let Some([step, simulated, real]) = &seen.other_difference {
                text += &format!("DIFFERENT at {step}\n  simulated {simulated}\n  real      {real}\n");
            }
        }
        text
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for WatchedStream { seen, .. } in &self.streams {
            for (number, row) in (1..).zip(&seen.rows) {
                let access = format!("{number}: {}", row.access);
                rows.push(Row::new(&seen.name, &access, row.simulated_in_full.as_str(), "", "simulated"));
                if let Some(real) = &row.real_in_full {
                    rows.push(Row::new(&seen.name, &access, real.as_str(), "", "measured"));
                }
            }
            if let Some([step, simulated, real]) = &seen.other_difference {
                rows.push(Row::new(&seen.name, step, simulated.as_str(), "", "simulated"));
                rows.push(Row::new(&seen.name, step, real.as_str(), "", "measured"));
            }
        }
        rows
    }
}

fn stream_table(seen: &Seen, real: bool) -> String {
    let labelled = seen.rows.iter().any(|row| row.expected.is_some());
    let mut header = vec!["access"];
    header.extend(labelled.then_some("the file says"));
    header.push("simulated");
    header.extend(if real { &["real kernel", ""][..] } else { &[] });
    let mut table = figures(&header);
    for row in &seen.rows {
        let mut cells = vec![row.access.clone()];
        if labelled {
            cells.push(row.expected.map_or_else(String::new, |label| label.to_string()));
        }
        cells.push(row.simulated.to_owned());
        if let Some(word) = row.real {
            cells.push(word.to_owned());
            cells.push(if row.equal == Some(true) { "equal" } else { "DIFFERENT" }.to_owned());
        }
        table.add_row(cells);
    }
    let mut text = format!("{table}\n");
    for row in seen.rows.iter().filter(|row| row.equal == Some(false)) {
        let real = row.real_in_full.as_deref().unwrap_or("no answer");
        text += &format!("DIFFERENT at {}\n  simulated {}\n  real      {real}\n", row.access, row.simulated_in_full);
    }
    text
}
