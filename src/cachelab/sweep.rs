//! Many sizes and policies over a recording, decoded once.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use serde::Serialize;

use super::cost::AccessCost;
use super::key::{KeyDesign, MOST_LANES, Tagger};
use super::{Advice, FifoSizes, LabError, LabFailure, LabPolicy, Simulator, Stacks, Tag, simulator};
use crate::addr::index;
use crate::kvm_hv::{CacheDesign, PolicyKind};
use crate::machine::Machine;
use crate::trace::{Facts, HitsKnown, Item, Recording};

/// What is asked of a sweep.
#[derive(Clone, Debug)]
pub struct SweepConfig {
    /// Sizes, each 0 (off) to 1024.
    pub entries: Vec<u64>,
    /// Policies.
    pub policies: Vec<LabPolicy>,
    /// What the caches compare; one set.
    pub key: KeyDesign,
    /// Seed of the random policy.
    pub seed: u64,
    /// What accesses cost.
    pub machine: Machine,
}

/// One design.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SweepRow {
    /// Policy.
    #[serde(serialize_with = "by_name")]
    pub policy: LabPolicy,
    /// Entries of each cache.
    pub entries: u64,
    /// Hits.
    pub hits: u64,
    /// Hits over accesses; 0 without any.
    pub hit_rate: f64,
    /// Mean price of an access, ns.
    pub ns_per_access: f64,
}

fn by_name<S: serde::Serializer>(policy: &LabPolicy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(policy.name())
}

/// What a sweep tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// The file.
    pub file: String,
    /// The key the caches compare, in words.
    pub key: String,
    /// Machine model.
    pub machine: String,
    /// vCPUs, each with a cache of its own unless the key says otherwise.
    pub vcpus: u32,
    /// Accesses.
    pub accesses: u64,
    /// Distinct pages (with their segments).
    pub distinct: u32,
    /// Whether it was interrupted: all designs are then told on the same beginning of the recording.
    pub interrupted: bool,
    /// Policies in the order asked, sizes upwards.
    pub rows: Vec<SweepRow>,
    /// What to make of it; none without accesses.
    pub advice: Option<Advice>,
    /// Remarks.
    pub notes: Vec<String>,
    /// What was read.
    pub facts: Facts,
}

/// Tags collected before all designs run over them: they share the second-level cache.
const BATCH: usize = 1 << 16;

/// Designs that run over the same tags.
struct Lane {
    tags: Vec<Tag>,
    jobs: Vec<Job>,
}

enum Job {
    Stacks(Stacks),
    Fifo(FifoSizes),
    /// Row, simulator, hits.
    One(usize, Box<dyn Simulator>, u64),
}

impl Job {
    fn run(&mut self, tags: &[Tag]) -> Result<(), LabError> {
        match self {
            Self::Stacks(stacks) => stacks.run(tags),
            Self::Fifo(fifo) => fifo.run(tags)?,
            Self::One(_, simulator, hits) => {
                // A tag is its number, nothing else: taken out in pieces that stay close.
                let mut keys = [0; 1024];
                for piece in tags.chunks(keys.len()) {
                    let keys = &mut keys[..piece.len()];
                    for (key, tag) in keys.iter_mut().zip(piece) {
                        *key = tag.0;
                    }
                    *hits += simulator.count(keys);
                }
            }
        }
        Ok(())
    }
}

/// The designs, sorted and each once.
struct Plan {
    designs: Vec<(LabPolicy, u64)>,
    most: u64,
    seed: u64,
}

impl Plan {
    fn new(config: &SweepConfig) -> Result<Self, LabFailure> {
        if config.key.sets != 1 {
            return Err(LabFailure::Sets { entries: 0, sets: config.key.sets });
        }
        let mut entries = config.entries.clone();
        entries.sort_unstable();
        entries.dedup();
        for size in &entries {
            CacheDesign::new(*size, PolicyKind::default()).map_err(LabError::from)?;
        }
        let most = entries.last().copied().unwrap_or(0);
        let designs = config.policies.iter().flat_map(|policy| entries.iter().map(|size| (*policy, *size))).collect();
        Ok(Self { designs, most, seed: config.seed })
    }

    fn of(&self, policy: LabPolicy) -> Vec<u32> {
        let of_policy = |(other, size): &(LabPolicy, u64)| (*other == policy && *size > 0).then_some(*size);
        self.designs.iter().filter_map(of_policy).filter_map(|size| u32::try_from(size).ok()).collect()
    }

    fn lane(&self, number: u64) -> Result<Lane, LabError> {
        let wants = |policy| !self.of(policy).is_empty();
        let (lru, optimum) = (wants(LRU), wants(LabPolicy::Optimum));
        let mut jobs = Vec::new();
        // Apart, so that two workers can have them.
        if lru {
            jobs.push(Job::Stacks(Stacks::new(index(self.most), true, false)));
        }
        if optimum {
            jobs.push(Job::Stacks(Stacks::new(index(self.most), false, true)));
        }
        if wants(FIFO) {
            jobs.push(Job::Fifo(FifoSizes::new(&self.of(FIFO))));
        }
        for (row, (policy, size)) in self.designs.iter().enumerate() {
            if *size > 0 && !matches!(*policy, LRU | FIFO | LabPolicy::Optimum) {
                jobs.push(Job::One(row, simulator(*policy, *size, self.seed.wrapping_add(number))?, 0));
            }
        }
        Ok(Lane { tags: Vec::with_capacity(BATCH), jobs })
    }

    /// Hits of each design over all lanes.
    fn hits(&self, lanes: &[Lane]) -> Vec<u64> {
        let mut hits = vec![0; self.designs.len()];
        for job in lanes.iter().flat_map(|lane| &lane.jobs) {
            match job {
                Job::One(row, _, count) => hits[*row] += count,
                Job::Stacks(stacks) => {
                    for (hits, (policy, size)) in hits.iter_mut().zip(&self.designs) {
                        let depths = match *policy {
                            LRU => stacks.lru(),
                            LabPolicy::Optimum => stacks.optimum(),
                            LabPolicy::Cache(_) => None,
                        };
                        *hits += depths.map_or(0, |depths| depths.hits(index(*size)));
                    }
                }
                Job::Fifo(fifo) => {
                    let rows = self.designs.iter().enumerate().filter(|(_, design)| design.0 == FIFO && design.1 > 0);
                    for ((row, _), count) in rows.zip(fifo.hits()) {
                        hits[row] += count;
                    }
                }
            }
        }
        hits
    }
}

const LRU: LabPolicy = LabPolicy::Cache(PolicyKind::Lru);
const FIFO: LabPolicy = LabPolicy::Cache(PolicyKind::RoundRobin);

/// Sweeps; `stop` ends it early, with every design on what was read by then. `progress` hears how many accesses are done.
///
/// # Errors
/// What is wrong with the recording, or with what is asked.
pub fn sweep(
    recording: &mut Recording,
    config: &SweepConfig,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<Sweep, LabFailure> {
    let plan = Plan::new(config)?;
    let cost = AccessCost::new(&config.machine).map_err(LabFailure::Cost)?;
    let mut tagger = Tagger::new(config.key);
    let mut lanes = vec![plan.lane(0)?];
    let (mut accesses, mut interrupted) = (0, false);
    let mut keys = Vec::new();
    loop {
        let more = fill(recording, &mut tagger, &plan, &mut lanes, &mut keys)?;
        accesses += lanes.iter().map(|lane| lane.tags.len() as u64).sum::<u64>();
        run(&mut lanes)?;
        progress(accesses);
        if !more {
            break;
        }
        if stop.load(Ordering::Relaxed) {
            interrupted = true;
            break;
        }
    }
    let hits = plan.hits(&lanes);
    let rows = plan.designs.iter().zip(hits).map(|((policy, entries), hits)| SweepRow {
        policy: *policy,
        entries: *entries,
        hits,
        hit_rate: hits as f64 / accesses.max(1) as f64,
        ns_per_access: cost.mean_ns(index(*entries), hits, accesses),
    });
    let rows: Vec<_> = rows.collect();
    let facts = recording.facts().clone();
    let mut notes = facts.notes();
    if interrupted {
        notes.push(format!("interrupted after {accesses} accesses: every design is told on these"));
    }
    let told = facts.hits != HitsKnown::MissesOnly;
    Ok(Sweep {
        file: recording.name().to_owned(),
        key: config.key.to_string(),
        machine: config.machine.name.clone(),
        vcpus: u32::try_from(facts.vcpus.len()).unwrap_or(u32::MAX),
        accesses,
        distinct: tagger.distinct(),
        interrupted,
        advice: if told { Advice::of(&rows, accesses, &cost) } else { None },
        rows,
        notes,
        facts,
    })
}

/// Reads a batch of tags; whether there may be more.
fn fill(
    recording: &mut Recording,
    tagger: &mut Tagger,
    plan: &Plan,
    lanes: &mut Vec<Lane>,
    keys: &mut Vec<u64>,
) -> Result<bool, LabFailure> {
    let mut count = 0;
    if recording.is_plain() {
        while count < BATCH {
            if !recording.next_keys(keys)? {
                return Ok(false);
            }
            count += keys.len();
            for key in keys.iter() {
                lanes[0].tags.push(tagger.plain(*key)?);
            }
        }
        return Ok(true);
    }
    while count < BATCH {
        match recording.next_item()? {
            None => return Ok(false),
            Some(Item::Lost { .. }) => {}
            Some(Item::Generation { vm, page, .. }) => tagger.moved(vm, page)?,
            Some(Item::Access(access)) => {
                let (lane, tag, _) = tagger.access(&access)?;
                if lane >= MOST_LANES {
                    return Err(LabFailure::Lanes { file: recording.name().to_owned() });
                }
                while lanes.len() <= lane {
                    lanes.push(plan.lane(lanes.len() as u64)?);
                }
                lanes[lane].tags.push(tag);
                count += 1;
            }
        }
    }
    Ok(true)
}

/// Every design over its lane's tags, on all processors.
fn run(lanes: &mut [Lane]) -> Result<(), LabError> {
    let jobs: Vec<_> =
        lanes.iter_mut().flat_map(|Lane { tags, jobs }| jobs.iter_mut().map(|job| (&*tags, job))).collect();
    jobs.into_par_iter().try_for_each(|(tags, job)| job.run(tags))?;
    for lane in lanes {
        lane.tags.clear();
    }
    Ok(())
}
