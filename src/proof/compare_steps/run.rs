//! Both executors, chunk by chunk.

use serde::Serialize;

use crate::addr::PteIndex;
use crate::book3s::{HashKey, Hpte};
use crate::sim::{SimSteps, StepError, StepsConfig};
use crate::workload::steps::{AccessSeen, Answer, End, GuestOp, Lookup, Step, StepExecutor};

use super::difference::{StepDifference, StepSide};
use super::draw::StepStream;
use super::equal::{answer_seen, table_difference};
use super::text::{answer_text, cached_text, hpte_text, step_text};

/// Steps between two looks at the eventfds, at most.
const CHUNK: usize = 256;
/// Steps shown before and after a difference.
const SHOWN: usize = 4;

/// Why a comparison ended without an answer.
#[derive(Debug, thiserror::Error)]
pub enum CompareStepsError<E: std::error::Error> {
    /// The real kernel's side.
    #[error("{stream}: {source}")]
    Real {
        /// The stream.
        stream: String,
        /// How.
        source: E,
    },
    /// The simulator's.
    #[error("{stream}: {source}")]
    Simulated {
        /// The stream.
        stream: String,
        /// How.
        source: StepError,
    },
    /// An executor gave another number of answers than there were steps.
    #[error("{stream}: {answers} answers to {steps} steps")]
    Answers {
        /// The stream.
        stream: String,
        /// Answers.
        answers: usize,
        /// Steps.
        steps: usize,
    },
}

/// What a comparison went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepCounts {
    /// Streams.
    pub streams: u64,
    /// Accesses.
    pub accesses: u64,
    /// Emulated from a cached entry.
    pub hits: u64,
    /// Emulated by the slow form.
    pub misses: u64,
    /// Hits or misses that the real side could not tell.
    pub untold: u64,
    /// Served by hardware.
    pub ram: u64,
    /// Answered with an interrupt.
    pub interrupts: u64,
    /// Without progress.
    pub retries: u64,
    /// Exits to user space.
    pub exits: u64,
    /// Hypercalls.
    pub hypercalls: u64,
    /// Of these, refused with the same code.
    pub hypercalls_refused: u64,
    /// Segments loaded and taken away, AMR written.
    pub others: u64,
    /// Steps of the VMM.
    pub vmm: u64,
    /// Of these, refused with the same errno.
    pub vmm_refused: u64,
    /// Signals of ioeventfds, compared.
    pub signals: u64,
    /// Entries of the tables at the end, compared.
    pub entries: u64,
}

impl StepCounts {
    /// Adds another comparison's.
    pub fn add(&mut self, other: &Self) {
        let Self {
            streams,
            accesses,
            hits,
            misses,
            untold,
            ram,
            interrupts,
            retries,
            exits,
            hypercalls,
            hypercalls_refused,
            others,
            vmm,
            vmm_refused,
            signals,
            entries,
        } = other;
        for (mine, theirs) in [
            (&mut self.streams, streams),
            (&mut self.accesses, accesses),
            (&mut self.hits, hits),
            (&mut self.misses, misses),
            (&mut self.untold, untold),
            (&mut self.ram, ram),
            (&mut self.interrupts, interrupts),
            (&mut self.retries, retries),
            (&mut self.exits, exits),
            (&mut self.hypercalls, hypercalls),
            (&mut self.hypercalls_refused, hypercalls_refused),
            (&mut self.others, others),
            (&mut self.vmm, vmm),
            (&mut self.vmm_refused, vmm_refused),
            (&mut self.signals, signals),
            (&mut self.entries, entries),
        ] {
            *mine += theirs;
        }
    }

    fn count(&mut self, simulated: &Answer, real: &Answer) {
        match (simulated, real) {
            (Answer::Access(seen), Answer::Access(real)) => self.count_access(seen, real),
            (Answer::Hcall { code, .. }, _) => {
                self.hypercalls += 1;
                self.hypercalls_refused += u64::from(*code != 0);
            }
            (Answer::Vmm { errno }, _) => {
                self.vmm += 1;
                self.vmm_refused += u64::from(*errno != 0);
            }
            _ => self.others += 1,
        }
    }

    fn count_access(&mut self, seen: &AccessSeen, real: &AccessSeen) {
        self.accesses += 1;
        self.exits += u64::from(seen.exit.is_some());
        let place = match (seen.end, seen.lookup) {
            (End::Interrupt { .. }, _) => &mut self.interrupts,
            (End::Retries, _) => &mut self.retries,
            (_, Lookup::Hit | Lookup::Miss) if real.lookup == Lookup::Unseen => &mut self.untold,
            (_, Lookup::Hit) => &mut self.hits,
            (_, Lookup::Miss) => &mut self.misses,
            (_, Lookup::NotMmio | Lookup::Unseen) => &mut self.ram,
        };
        *place += 1;
    }
}

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StepsCompared {
    /// What was compared.
    pub counts: StepCounts,
    /// The first difference; none if all is equal.
    pub difference: Option<StepDifference>,
}

/// Where a difference is, before anyone looked closer.
struct Found {
    step: usize,
    what: &'static str,
    simulated: String,
    real: String,
    entry: Option<PteIndex>,
}

/// Performs `stream` by an executor that `real` makes and by a simulator of `config`, and compares every answer, the
/// eventfds' counts, and at the end both tables entry by entry. A difference is performed once more, by new executors up to
/// that step, to show both sides' state there.
///
/// # Errors
/// An executor fails.
pub fn compare_steps<R: StepExecutor>(
    real: &mut dyn FnMut() -> Result<R, R::Error>,
    config: &StepsConfig,
    stream: &StepStream,
) -> Result<StepsCompared, CompareStepsError<R::Error>> {
    let errors = Errors { stream: &stream.name };
    let mut sides = Sides {
        real: real().map_err(|e| errors.real(e))?,
        sim: SimSteps::new(config).map_err(|e| errors.simulated(e))?,
        counts: StepCounts { streams: 1, ..StepCounts::default() },
    };
    let found = sides.run(&errors, &stream.steps)?;
    let counts = sides.counts;
    let Some(found) = found else { return Ok(StepsCompared { counts, difference: None }) };
    // A kernel has few tables and VMs to give: the first go before the second come.
    drop(sides);
    let done = &stream.steps[..stream.steps.len().min(found.step + 1)];
    let mut sim = SimSteps::new(config).map_err(|e| errors.simulated(e))?;
    sim.perform(done).map_err(|e| errors.simulated(e))?;
    let mut again = real().map_err(|e| errors.real(e))?;
    again.perform(done).map_err(|e| errors.real(e))?;
    let tables = [sim.table().map_err(|e| errors.simulated(e))?, again.table().map_err(|e| errors.real(e))?];
    let difference = describe(stream, found, &sim, &tables);
    Ok(StepsCompared { counts, difference: Some(difference) })
}

struct Errors<'a> {
    stream: &'a str,
}

impl Errors<'_> {
    fn real<E: std::error::Error>(&self, source: E) -> CompareStepsError<E> {
        CompareStepsError::Real { stream: self.stream.to_owned(), source }
    }

    fn simulated<E: std::error::Error>(&self, source: StepError) -> CompareStepsError<E> {
        CompareStepsError::Simulated { stream: self.stream.to_owned(), source }
    }
}

struct Sides<R> {
    real: R,
    sim: SimSteps,
    counts: StepCounts,
}

impl<R: StepExecutor> Sides<R> {
    fn run(&mut self, errors: &Errors<'_>, steps: &[Step]) -> Result<Option<Found>, CompareStepsError<R::Error>> {
        for (number, chunk) in steps.chunks(CHUNK).enumerate() {
            let real = self.real.perform(chunk).map_err(|e| errors.real(e))?;
            let simulated = self.sim.perform(chunk).map_err(|e| errors.simulated(e))?;
            if real.len() != chunk.len() {
                let (stream, answers, steps) = (errors.stream.to_owned(), real.len(), chunk.len());
                return Err(CompareStepsError::Answers { stream, answers, steps });
            }
            for (at, ((step, simulated), real)) in chunk.iter().zip(&simulated).zip(&real).enumerate() {
                self.counts.count(simulated, real);
                if answer_seen(step, simulated, real) != answer_seen(step, real, simulated) {
                    return Ok(Some(Found {
                        step: number * CHUNK + at,
                        what: "the answer",
                        simulated: answer_text(simulated),
                        real: answer_text(real),
                        entry: None,
                    }));
                }
            }
            let fds = [
                self.sim.eventfds().map_err(|e| errors.simulated(e))?,
                self.real.eventfds().map_err(|e| errors.real(e))?,
            ];
            if fds[0] != fds[1] {
                return Ok(Some(Found {
                    step: number * CHUNK + chunk.len() - 1,
                    what: "what the eventfds count, by now,",
                    simulated: format!("{:?}", fds[0]),
                    real: format!("{:?}", fds[1]),
                    entry: None,
                }));
            }
        }
        let simulated = self.sim.table().map_err(|e| errors.simulated(e))?;
        let real = self.real.table().map_err(|e| errors.real(e))?;
        self.counts.entries += simulated.len() as u64;
        self.counts.signals += self.sim.eventfds().map_err(|e| errors.simulated(e))?.iter().sum::<u64>();
        let text = |entry: Option<Hpte>| entry.map_or_else(|| "no entry".to_owned(), hpte_text);
        Ok(table_difference(&simulated, &real).map(|(at, simulated, real)| Found {
            step: steps.len(),
            what: "the table",
            simulated: text(simulated),
            real: text(real),
            entry: Some(at),
        }))
    }
}

/// The entry that a step is about: the one that a hypercall names, or the one that an access finds.
fn entry_in_question(step: &Step, sim: &SimSteps) -> Option<PteIndex> {
    match step {
        Step::Guest(GuestOp::Hcall { args, .. }) => Some(PteIndex(args[1])),
        Step::Guest(GuestOp::Access(_)) => {
            let (ea, _) = sim.last()?;
            let slb_v = sim.segment(*ea)?;
            let hpt = sim.vm().hpt();
            let key = HashKey::new(*ea, slb_v);
            let accept = crate::book3s::hpte::HPTE_V_VALID | crate::book3s::hpte::HPTE_V_ABSENT;
            let found = hpt.find_lock(&key, accept)?;
            let at = found.index;
            found.unlock();
            Some(at)
        }
        _ => None,
    }
}

fn describe(stream: &StepStream, found: Found, sim: &SimSteps, tables: &[Vec<(PteIndex, Hpte)>; 2]) -> StepDifference {
    let steps = &stream.steps;
    let at = steps.get(found.step);
    let index = found.entry.or_else(|| entry_in_question(at?, sim));
    let side = |did, table: &[(PteIndex, Hpte)]| StepSide {
        did,
        entry: index.and_then(|index| {
            let (_, entry) = table.iter().find(|(at, _)| *at == index)?;
            Some(format!("{index}: {}", hpte_text(*entry)))
        }),
    };
    let text = |range: std::ops::Range<usize>| steps[range].iter().map(step_text).collect();
    let after = (found.step + 1).min(steps.len());
    StepDifference {
        stream: stream.name.clone(),
        step: found.step,
        what: found.what,
        at: at.map_or_else(|| "the end".to_owned(), step_text),
        before: text(found.step.saturating_sub(SHOWN)..found.step),
        after: text(after..(after + SHOWN).min(steps.len())),
        generation: sim.vm().generation(),
        cache: sim.cache().iter().map(cached_text).collect(),
        simulated: side(found.simulated, &tables[0]),
        real: side(found.real, &tables[1]),
    }
}
