//! Where two executors differ, and how each stood there.

use std::fmt;

use serde::Serialize;

/// A side's state where it differed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepSide {
    /// What it did.
    pub did: String,
    /// The entry in question in the guest's view; none if it has none there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
}

/// The first difference of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepDifference {
    /// The stream.
    pub stream: String,
    /// The step, counted from 0; the number of steps if it is the table at the end.
    pub step: usize,
    /// What differs.
    pub what: &'static str,
    /// The step in words.
    pub at: String,
    /// The steps before it, the last of them last.
    pub before: Vec<String>,
    /// Those after it.
    pub after: Vec<String>,
    /// Generation of MMIO HPTEs in the simulator, after the step.
    pub generation: u64,
    /// The simulated cache, entry by entry, after the step.
    pub cache: Vec<String>,
    /// The simulator.
    pub simulated: StepSide,
    /// The real kernel.
    pub real: StepSide,
}

impl fmt::Display for StepDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, step {}: {} differs", self.stream, self.step, self.what)?;
        for step in &self.before {
            writeln!(f, "             {step}")?;
        }
        writeln!(f, "  here       {}", self.at)?;
        for step in &self.after {
            writeln!(f, "             {step}")?;
        }
        for (name, side) in [("simulated", &self.simulated), ("real", &self.real)] {
            writeln!(f, "  {name:<10} {}", side.did)?;
            writeln!(f, "             entry {}", side.entry.as_deref().unwrap_or("none"))?;
        }
        writeln!(f, "  simulated generation {}, cache:", self.generation)?;
        for entry in &self.cache {
            writeln!(f, "             {entry}")?;
        }
        Ok(())
    }
}
