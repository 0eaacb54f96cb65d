//! One design over a recording.

use std::sync::atomic::{AtomicBool, Ordering};

use super::cost::AccessCost;
use super::details::{Details, DeviceRange};
use super::key::{KeyDesign, MOST_LANES, Tagger};
use super::why::{Seen, Why};
use super::{LabError, LabPolicy, Simulator, simulator};
use crate::addr::Preset;
use crate::kvm_hv::{CacheDesign, MissClass, PolicyKind, Stage};
use crate::machine::Machine;
use crate::sim::{MissCount, Outcomes, Recorded, RunResult, StageRow};
use crate::trace::{HitsKnown, Item, Recording, TraceError};

/// What is asked of a replay.
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// Policy.
    pub policy: LabPolicy,
    /// Entries of each cache, 0 (off) to 1024.
    pub entries: u64,
    /// What it compares.
    pub key: KeyDesign,
    /// Count hits and nothing else.
    pub counts_only: bool,
    /// Seed of the random policy.
    pub seed: u64,
    /// Devices to tell apart.
    pub devices: Vec<DeviceRange>,
    /// What accesses cost.
    pub machine: Machine,
}

/// Why a replay or a sweep failed.
#[derive(Debug, thiserror::Error)]
pub enum LabFailure {
    /// The recording.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// What was asked of the lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A recording that names more vCPUs than there can be.
    #[error("{file}: more than {MOST_LANES} caches (vCPUs or VMs, times sets): a damaged recording, or too many sets")]
    Lanes {
        /// The file.
        file: String,
    },
    /// A number of sets that the entries cannot be spread over.
    #[error("{entries} entries cannot be spread over {sets} sets: a divisor of the entries, at least 1")]
    Sets {
        /// Entries.
        entries: u64,
        /// Sets.
        sets: u32,
    },
    /// A recording that the emulated path cannot take.
    #[error("{file}: access {access}: {what}")]
    Path {
        /// The file.
        file: String,
        /// Which access, from 1.
        access: u64,
        /// What stood in the way.
        what: String,
    },
    /// The emulated path, which tells the stages, could not be built.
    #[error("the stages of a hit and a miss cannot be told: {0}")]
    Cost(String),
}

/// Records between two looks at whether to stop.
pub(super) const STOP_EVERY: u64 = 1 << 16;

/// What a replay adds up.
#[derive(Default)]
pub(super) struct Sums {
    pub accesses: u64,
    pub hits: u64,
    pub classes: [u64; MissClass::ALL.len()],
    pub interrupted: bool,
}

/// Replays a recording; `stop` ends it early, with what is done by then.
///
/// # Errors
/// What is wrong with the recording, or with what is asked.
pub fn replay(recording: &mut Recording, config: &ReplayConfig, stop: &AtomicBool) -> Result<RunResult, LabFailure> {
    let cost = AccessCost::new(&config.machine).map_err(LabFailure::Cost)?;
    let per_set = entries_per_set(config)?;
    let mut details = Details::new(&config.devices);
    // The optimum takes numbered keys, sets take pages.
    let plain = recording.is_plain() && config.policy != LabPolicy::Optimum && config.key.sets <= 1;
    let sums = if plain {
        plain_keys(recording, config, stop)?
    } else {
        items(recording, config, per_set, &mut details, stop)?
    };
    let entries = usize::try_from(config.entries).unwrap_or(usize::MAX);
    let stages = cost.stage_counts(entries, sums.hits, sums.accesses);
    let ns_per_access = cost.mean_ns(entries, sums.hits, sums.accesses);
    Ok(result(recording, config, &details, &sums, &stages, ns_per_access))
}

fn entries_per_set(config: &ReplayConfig) -> Result<u64, LabFailure> {
    // The size as a whole is judged first.
    CacheDesign::new(config.entries, PolicyKind::default()).map_err(LabError::from)?;
    let (entries, sets) = (config.entries, config.key.sets);
    match entries.checked_rem(u64::from(sets)) {
        Some(0) => Ok(entries / u64::from(sets)),
        _ => Err(LabFailure::Sets { entries, sets }),
    }
}

/// Keys and nothing else: at memory speed.
fn plain_keys(recording: &mut Recording, config: &ReplayConfig, stop: &AtomicBool) -> Result<Sums, LabFailure> {
    let mut simulator = simulator(config.policy, config.entries, config.seed)?;
    let (mut sums, mut seen) = (Sums::default(), Seen::default());
    let (mut keys, mut missed) = (Vec::new(), Vec::new());
    let mut look = STOP_EVERY;
    while recording.next_keys(&mut keys)? {
        sums.accesses += keys.len() as u64;
        if config.counts_only {
            sums.hits += simulator.count(&keys);
        } else {
            missed.clear();
            simulator.misses(&keys, &mut missed);
            let (misses, cold) = (missed.len() as u64, seen.cold(&missed));
            sums.hits += keys.len() as u64 - misses;
            sums.classes[MissClass::Cold as usize] += cold;
            sums.classes[MissClass::Capacity as usize] += misses - cold;
        }
        if sums.accesses >= look {
            look = sums.accesses + STOP_EVERY;
            if stop.load(Ordering::Relaxed) {
                sums.interrupted = true;
                break;
            }
        }
    }
    Ok(sums)
}

struct Lane {
    simulator: Box<dyn Simulator>,
    why: Option<Why>,
}

/// Item by item, with everything that can be told.
fn items(
    recording: &mut Recording,
    config: &ReplayConfig,
    per_set: u64,
    details: &mut Details,
    stop: &AtomicBool,
) -> Result<Sums, LabFailure> {
    let mut tagger = Tagger::new(config.key);
    let mut lanes: Vec<Lane> = Vec::new();
    let mut sums = Sums::default();
    while let Some(item) = recording.next_item()? {
        let access = match item {
            Item::Access(access) => access,
            Item::Generation { vm, page, .. } => {
                tagger.moved(vm, page)?;
                continue;
            }
            Item::Lost { .. } => continue,
        };
        let (lane, tag, ageless) = tagger.access(&access)?;
        if lane >= MOST_LANES {
            return Err(LabFailure::Lanes { file: recording.name().to_owned() });
        }
        while lanes.len() <= lane {
            let seed = config.seed.wrapping_add(lanes.len() as u64);
            let why = (!config.counts_only).then(|| Why::new(config.policy, per_set, seed)).transpose()?;
            lanes.push(Lane { simulator: simulator(config.policy, per_set, seed)?, why });
        }
        let Lane { simulator, why } = &mut lanes[lane];
        let hit = simulator.access(tag.0);
        sums.accesses += 1;
        sums.hits += u64::from(hit);
        if let Some(why) = why {
            if let Some(class) = why.access(&access, ageless, hit) {
                sums.classes[class as usize] += 1;
            }
            details.access(&access, hit);
        }
        if sums.accesses % STOP_EVERY == 0 && stop.load(Ordering::Relaxed) {
            sums.interrupted = true;
            break;
        }
    }
    Ok(sums)
}

fn describe(config: &ReplayConfig) -> String {
    match config.entries {
        0 => "off".to_owned(),
        1 => format!("1 entry, {}", config.policy),
        n => format!("{n} entries, {}", config.policy),
    }
}

/// One type and one look for whatever ran a recording.
pub(super) fn result(
    recording: &Recording,
    config: &ReplayConfig,
    details: &Details,
    sums: &Sums,
    stages: &[(Stage, u64)],
    ns_per_access: f64,
) -> RunResult {
    let facts = recording.facts();
    let entries = usize::try_from(config.entries).unwrap_or(usize::MAX);
    let (accesses, off) = (sums.accesses, config.entries == 0);
    let (distinct_pages, pages) = details.pages();
    let (over_time, stretch) = details.over_time();
    let row = |&(stage, count): &(Stage, u64)| {
        let price = config.machine.stage.get(stage.name())?;
        let total_ns = count as f64 * price.ns;
        Some(StageRow { stage: stage.name(), count, ns: price.ns, total_ns, kind: price.kind })
    };
    let classes = MissClass::ALL.into_iter().filter(|_| !config.counts_only);
    // Without a cache there is no class: everything is `uncached`.
    let class_count = |class: MissClass| if off { 0 } else { sums.classes[class as usize] };
    let mut notes = facts.notes();
    if sums.interrupted {
        notes.push(format!("interrupted after {accesses} accesses: everything above is of these"));
    }
    // Without its hits a recording is no sequence of accesses that a hit rate could be of.
    let rated = !off && accesses > 0 && facts.hits != HitsKnown::MissesOnly;
    RunResult {
        scenario: recording.name().to_owned(),
        description: format!("a recording replayed on the cache alone, key {}", config.key),
        workload: "recording",
        machine: config.machine.name.clone(),
        kind: config.machine.kind,
        variant: format!("cache {}", describe(config)),
        kernel: Preset::default().name(),
        switches: Vec::new(),
        cache: describe(config),
        entries: Some(entries),
        policy: config.policy.name(),
        vcpus: u32::try_from(facts.vcpus.len()).unwrap_or(u32::MAX),
        devices: u32::try_from(config.devices.len()).unwrap_or(u32::MAX),
        layout: "",
        notify: String::new(),
        seed: config.seed,
        virtual_s: accesses as f64 * ns_per_access / 1e9,
        metric: None,
        accesses,
        mmio_accesses: accesses,
        hits: sums.hits,
        hit_rate: rated.then(|| sums.hits as f64 / accesses as f64),
        misses: classes.map(|class| MissCount { class: class.name(), count: class_count(class) }).collect(),
        uncached: if off { accesses } else { 0 },
        outcomes: Outcomes::default(),
        attempts: accesses,
        ns_per_access,
        stages: stages.iter().filter_map(row).collect(),
        around: Vec::new(),
        paths: Vec::new(),
        jobs: Vec::new(),
        exit_stats: Vec::new(),
        kinds: Vec::new(),
        config: None,
        user_device_ns: 0.0,
        told_ns: None,
        drain_delay_ns: None,
        ram_as_mmio: None,
        measured: None,
        recorded: Some(Recorded {
            file: recording.name().to_owned(),
            format: recording.format().name(),
            key: config.key.to_string(),
            counts_only: config.counts_only,
            interrupted: sums.interrupted,
            observed: details.observed.clone(),
            vcpus: details.vcpus.clone(),
            distinct_pages,
            pages,
            devices: details.devices(),
            over_time,
            stretch,
            facts: facts.clone(),
        }),
        notes,
        failure: None,
    }
}
