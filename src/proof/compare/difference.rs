//! Where two sides differ, and how each stood there.

use std::fmt;

use serde::Serialize;

/// A side's state where it differed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SideState {
    /// What it did.
    pub did: String,
    /// The ring's `first`.
    pub first: u32,
    /// The ring's `last`.
    pub last: u32,
    /// Entries that wait there: address, pio flag and data of each, oldest first.
    pub waiting: Vec<String>,
    /// Whatever else tells how it stood: devices on the buses, or registers.
    pub more: String,
}

/// The first difference of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The stream's seed: `hvmmio compare --streams 1 --seed` this repeats it.
    pub seed: u64,
    /// Batch, counted from 0.
    pub batch: usize,
    /// Access within the stream, counted from 0; the last of its batch where only the batch is known.
    pub access: u64,
    /// The access or change.
    pub at: String,
    /// What differs.
    pub what: &'static str,
    /// The simulator.
    pub simulated: SideState,
    /// The real kernel.
    pub real: SideState,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "stream of seed {}, batch {}, access {}: {} differs",
            self.seed, self.batch, self.access, self.what
        )?;
        writeln!(f, "  at         {}", self.at)?;
        for (name, side) in [("simulated", &self.simulated), ("real", &self.real)] {
            writeln!(f, "  {name:<10} {}", side.did)?;
            let (first, last, waiting) = (side.first, side.last, side.waiting.len());
            writeln!(f, "             ring first {first}, last {last}, {waiting} waiting{}", shown(&side.waiting))?;
            writeln!(f, "             {}", side.more)?;
        }
        Ok(())
    }
}

/// The last few entries: what went before was equal, or it would be the difference.
fn shown(waiting: &[String]) -> String {
    const SHOWN: usize = 4;
    let from = waiting.len().saturating_sub(SHOWN);
    if waiting.is_empty() { String::new() } else { format!(", the last: {}", waiting[from..].join("; ")) }
}
