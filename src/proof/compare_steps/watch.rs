//! Streams that are looked at access by access: hazards and sequences.

use serde::Serialize;

use crate::sim::{SimSteps, StepError, StepsConfig};
use crate::workload::sequence::Label;
use crate::workload::steps::{Answer, GuestOp, Step, StepExecutor};

use super::draw::StepStream;
use super::equal::answer_seen;
use super::text::{answer_text, seen_text, short, step_text};

/// An access that is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    /// Which step of the stream.
    pub step: usize,
    /// What it is called.
    pub text: String,
    /// What a file says of it.
    pub expected: Option<Label>,
}

/// A stream and the accesses of it that are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The stream.
    pub stream: StepStream,
    pub(super) watches: Vec<Watch>,
}

impl Watched {
    /// Looks at every access.
    #[must_use]
    pub fn accesses(stream: StepStream) -> Self {
        let watch = |(step, what): (usize, &Step)| match what {
            Step::Guest(GuestOp::Access(_)) => Some(Watch { step, text: step_text(what), expected: None }),
            _ => None,
        };
        let watches = stream.steps.iter().enumerate().filter_map(watch).collect();
        Self { stream, watches }
    }
}

/// One access, as each side saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WatchRow {
    /// The access.
    pub access: String,
    /// What a file says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<Label>,
    /// In the simulator, in a word: hit, miss, ram, reflected, retries; `completed` if nobody can tell.
    pub simulated: &'static str,
    /// The same in full.
    pub simulated_in_full: String,
    /// On the real kernel, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real: Option<&'static str>,
    /// The same in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real_in_full: Option<String>,
    /// Whether they are equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equal: Option<bool>,
}

impl WatchRow {
    /// Whether it is as the file says; `None` if the file says nothing, or the side cannot tell.
    #[must_use]
    pub fn as_expected(&self) -> Option<bool> {
        let seen = self.real.unwrap_or(self.simulated);
        self.expected.filter(|_| seen != "completed").map(|label| label.name() == seen)
    }
}

/// A stream that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seen {
    /// What it is called.
    pub name: String,
    /// Its accesses.
    pub rows: Vec<WatchRow>,
    /// The first of its other steps whose answers differ: the step and both answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_difference: Option<[String; 3]>,
}

impl Seen {
    /// Whether every answer was equal; `None` without a real kernel.
    #[must_use]
    pub fn equal(&self) -> Option<bool> {
        let rows: Option<Vec<bool>> = self.rows.iter().map(|row| row.equal).collect();
        rows.map(|rows| self.other_difference.is_none() && rows.into_iter().all(|equal| equal))
    }

    /// Whether nothing is otherwise than a file says.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        self.rows.iter().all(|row| row.as_expected() != Some(false))
    }
}

/// Why a stream could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum WatchError<E: std::error::Error> {
    /// The simulator.
    #[error("{name}: {source}")]
    Simulated {
        /// The stream.
        name: String,
        /// How.
        source: StepError,
    },
    /// The real kernel's side.
    #[error("{name}: {source}")]
    Real {
        /// The stream.
        name: String,
        /// How.
        source: E,
    },
}

/// Performs a stream in the simulator alone.
///
/// # Errors
/// The simulator cannot perform a step.
pub fn watch_simulated(config: &StepsConfig, watched: &Watched) -> Result<Seen, StepError> {
    let simulated = SimSteps::new(config)?.perform(&watched.stream.steps)?;
    Ok(seen(watched, &simulated, None))
}

/// Performs a stream in the simulator and by a real kernel.
///
/// # Errors
/// A side cannot perform it.
pub fn watch<R: StepExecutor>(
    real: &mut R,
    config: &StepsConfig,
    watched: &Watched,
) -> Result<Seen, WatchError<R::Error>> {
    let (steps, name) = (&watched.stream.steps, &watched.stream.name);
    let simulated = SimSteps::new(config).and_then(|mut sim| sim.perform(steps));
    let simulated = simulated.map_err(|source| WatchError::Simulated { name: name.clone(), source })?;
    let real = real.perform(steps).map_err(|source| WatchError::Real { name: name.clone(), source })?;
    Ok(seen(watched, &simulated, Some(&real)))
}

fn seen(watched: &Watched, simulated: &[Answer], real: Option<&[Answer]>) -> Seen {
    let steps = &watched.stream.steps;
    let equal = |step: usize| {
        let (mine, theirs) = (&simulated[step], real?.get(step)?);
        Some(answer_seen(&steps[step], mine, theirs) == answer_seen(&steps[step], theirs, mine))
    };
    let row = |watch: &Watch| {
        let access = |answers: &[Answer]| match answers.get(watch.step) {
            Some(Answer::Access(seen)) => (short(seen), seen_text(seen)),
            _ => ("missing", "no answer".to_owned()),
        };
        let (simulated, simulated_in_full) = access(simulated);
        let real = real.map(access);
        WatchRow {
            access: watch.text.clone(),
            expected: watch.expected,
            simulated,
            simulated_in_full,
            real: real.as_ref().map(|(word, _)| *word),
            real_in_full: real.map(|(_, text)| text),
            // No answer is no equal one.
            equal: equal(watch.step),
        }
    };
    let other = |step: &usize| equal(*step) == Some(false) && watched.watches.iter().all(|watch| watch.step != *step);
    let other_difference = (0..steps.len()).find(other).map(|step| {
        let theirs = real.map_or_else(String::new, |real| answer_text(&real[step]));
        [step_text(&steps[step]), answer_text(&simulated[step]), theirs]
    });
    Seen { name: watched.stream.name.clone(), rows: watched.watches.iter().map(row).collect(), other_difference }
}
