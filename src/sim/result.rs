//! What a run gives: one type for every workload, for tables, JSON and CSV alike.

use serde::Serialize;

use crate::kvm_hv::{MissClass, Stage};
use crate::machine::{Extra, Kind, Provenance, SimTime};
use crate::workload::mixed::{KINDS, MixedKind};

use super::coalesced::{Coalesced, DrainDelay};
use super::engine::Core;
use super::recorded::Recorded;
use super::scenario::{Scenario, Workload};
use super::stats::{Outcomes, Stats};
use super::x86::{ConfigStats, ExitStat};

/// The figure a benchmark prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// Unit: IOPS, trans/s, doorbells/s.
    pub unit: &'static str,
    /// The figure.
    pub value: f64,
}

/// Misses of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissCount {
    /// Why.
    pub class: &'static str,
    /// How many.
    pub count: u64,
}

/// One stage's share of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageRow {
    /// Its name.
    pub stage: &'static str,
    /// How often an access went through it.
    pub count: u64,
    /// Its price, ns.
    pub ns: f64,
    /// Count times price, ns.
    pub total_ns: f64,
    /// Where the price comes from.
    pub kind: Provenance,
}

/// What a request costs beside its doorbell's way through the handlers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AroundRow {
    /// Its name in the machine model.
    pub cost: &'static str,
    /// What it covers.
    pub covers: &'static str,
    /// ns, for each request (each byte for `net-byte`).
    pub ns: f64,
    /// Where the figure comes from.
    pub kind: Provenance,
}

/// One way through the handlers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathShare {
    /// Stages, in order.
    pub stages: Vec<&'static str>,
    /// How often.
    pub count: u64,
    /// Its price, ns.
    pub ns: f64,
}

/// A job, a connection or a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobResult {
    /// Name.
    pub name: String,
    /// Requests or transactions completed (after the ramp).
    pub completed: u64,
    /// Per second.
    pub per_second: f64,
    /// Bytes per second, 0 where none move.
    pub bytes_per_second: f64,
    /// Latency from submission to completion, ns: mean, median, 99th percentile, greatest.
    pub latency_ns: Latency,
}

/// Latencies in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Greatest.
    pub max: u64,
}

/// So many in that time, per second; 0 if no time went by.
pub(super) fn per_second(count: u64, time: SimTime) -> f64 {
    if time == SimTime::default() { 0.0 } else { count as f64 / time.seconds() }
}

/// RAM that was taken for MMIO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RamAsMmio {
    /// Accesses.
    pub count: u64,
    /// Guest physical address of the first.
    pub first_gpa: u64,
}

/// Exits of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExitCount {
    /// Port or address, and direction, as perf writes it: `0x70:POUT`, `0xfe000000:R`.
    pub event: String,
    /// How many.
    pub count: u64,
}

/// Accesses of one kind in a mixed run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindStat {
    /// [`MixedKind`](crate::workload::mixed::MixedKind)'s name.
    pub kind: &'static str,
    /// How many.
    pub count: u64,
    /// Of all accesses, percent.
    pub count_percent: f64,
    /// Time of one, ns: the mean of a simulation; on real KVM the median over batches of a batch's mean.
    pub ns: f64,
    /// Count times that, of the sum over kinds, percent.
    pub time_percent: f64,
}

impl KindStat {
    /// All kinds that there were, from their counts and times, by [`MixedKind::ALL`](crate::workload::mixed::MixedKind::ALL).
    pub(crate) fn all(counts: [u64; KINDS], ns: [f64; KINDS]) -> Vec<Self> {
        let percent = |part: f64, whole: f64| if whole > 0.0 { part / whole * 100.0 } else { 0.0 };
        let accesses = counts.iter().sum::<u64>() as f64;
        let time = counts.iter().zip(ns).map(|(count, ns)| *count as f64 * ns).sum::<f64>();
        let stat = |kind: &MixedKind| {
            let (count, ns) = (counts[*kind as usize], ns[*kind as usize]);
            let (count_percent, time_percent) = (percent(count as f64, accesses), percent(count as f64 * ns, time));
            Self { kind: kind.name(), count, count_percent, ns, time_percent }
        };
        MixedKind::ALL.iter().map(stat).filter(|stat| stat.count > 0).collect()
    }
}

/// What a run on real KVM measured. Nothing of it is virtual, and nothing is priced.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// Batches timed. The first, which finds everything cold, is not among them unless it is the only one.
    pub batches: usize,
    /// An access's time, ns: the batch with the least.
    pub least_ns: f64,
    /// The first quartile of batches.
    pub p25_ns: f64,
    /// Their median: [`RunResult::ns_per_access`].
    pub median_ns: f64,
    /// The third quartile.
    pub p75_ns: f64,
    /// The batch with the greatest.
    pub greatest_ns: f64,
    /// Into the guest, to its end, and back, ns: taken off each batch once. The loop around an access is not.
    pub frame_ns: f64,
    /// From the run's start, VM not yet there, to the end of the first batch (of a scan: of its first 64 accesses), ms.
    pub first_result_ms: f64,
    /// All of it, s of real time.
    pub wall_s: f64,
    /// Exits to user space by kind, most first.
    pub exits: Vec<ExitCount>,
}

/// Everything a run tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunResult {
    /// Scenario.
    pub scenario: String,
    /// What it shows.
    pub description: String,
    /// Workload's kind.
    pub workload: &'static str,
    /// Machine model.
    pub machine: String,
    /// Its kind.
    pub kind: Kind,
    /// What sets this run apart from those beside it: the cache design on POWER, the port mode or configuration method on x86.
    pub variant: String,
    /// Kernel preset.
    pub kernel: &'static str,
    /// Switches that differ from the preset: name, value.
    pub switches: Vec<(&'static str, &'static str)>,
    /// Cache design in words; empty on x86.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cache: String,
    /// Entries, 0 for off; none on x86.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<usize>,
    /// Replacement policy; empty on x86.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub policy: &'static str,
    /// vCPUs.
    pub vcpus: u32,
    /// Devices.
    pub devices: u32,
    /// Doorbell layout; empty on x86.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub layout: &'static str,
    /// How doorbells leave the guest; empty on x86.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub notify: String,
    /// Seed.
    pub seed: u64,
    /// Virtual time, s.
    pub virtual_s: f64,
    /// The benchmark's own figure; none for a sequence.
    pub metric: Option<Metric>,
    /// Guest accesses to MMIO addresses (or taken for such).
    pub accesses: u64,
    /// Emulated as MMIO: hits and misses.
    pub mmio_accesses: u64,
    /// Of these, served from the cache.
    pub hits: u64,
    /// Hits over hits and misses; none if the cache is off or nothing was emulated.
    pub hit_rate: Option<f64>,
    /// Misses by class; empty on x86.
    pub misses: Vec<MissCount>,
    /// Slow form because there is no cache.
    pub uncached: u64,
    /// How accesses ended.
    pub outcomes: Outcomes,
    /// Accesses that took more than one attempt make this exceed `accesses`.
    pub attempts: u64,
    /// Mean price of an access, ns.
    pub ns_per_access: f64,
    /// Stages, in path order.
    pub stages: Vec<StageRow>,
    /// Costs of a request beside the path, for workloads that have requests.
    pub around: Vec<AroundRow>,
    /// Ways through the handlers, most taken first.
    pub paths: Vec<PathShare>,
    /// Jobs.
    pub jobs: Vec<JobResult>,
    /// Exits as `perf kvm stat` counts and times them, x86.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exit_stats: Vec<ExitStat>,
    /// Accesses by kind, of a mixed workload.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindStat>,
    /// What PCI configuration accesses took, x86.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigStats>,
    /// Mean time an access held its vCPU in the VMM's device model behind an exit, ns; not in `ns_per_access`.
    pub user_device_ns: f64,
    /// Mean time from a doorbell's store until its back end was told (its drain, if it was coalesced), ns.
    pub told_ns: Option<f64>,
    /// How long coalesced doorbells waited for their drain, ns.
    pub drain_delay_ns: Option<DrainDelay>,
    /// RAM taken for MMIO, if any was.
    pub ram_as_mmio: Option<RamAsMmio>,
    /// What real KVM took; none of a simulation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// What a recording told beside it; none of any other run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// Remarks: what was ignored, what was made simpler.
    pub notes: Vec<String>,
    /// Why the run failed in its own terms: an access that retries for ever, a label that disagrees.
    pub failure: Option<String>,
}

impl RunResult {
    pub(super) fn collect(
        scenario: &Scenario,
        core: &Core,
        metric: Metric,
        jobs: Vec<JobResult>,
        notes: Vec<String>,
    ) -> Self {
        let mut result = Self::of_stats(scenario, &core.stats);
        result.virtual_s = core.now.seconds();
        result.metric = Some(metric);
        result.jobs = jobs;
        result.notes = notes;
        let handled = core.stats.outcomes.exits as f64 * core.prices.around(Extra::UserDevice).ns();
        result.user_device_ns = handled / core.stats.accesses.max(1) as f64;
        result.drain_delay_ns = core.coalesced.as_ref().and_then(Coalesced::summary);
        let (drained, count) = core.coalesced.as_ref().map_or_else(Default::default, Coalesced::total);
        let told = stats_told(&core.stats) + count;
        result.told_ns = (told > 0).then(|| (core.told + drained).ns() / told as f64);
        result
    }

    pub(super) fn of_stats(scenario: &Scenario, stats: &Stats) -> Self {
        let mmio_accesses = stats.mmio_accesses();
        let rated = !scenario.cache.is_off() && mmio_accesses > 0;
        let mut paths: Vec<_> = stats
            .paths()
            .iter()
            .map(|path| PathShare {
                stages: path.set.iter().map(Stage::name).collect(),
                count: path.count,
                ns: path.total.ns(),
            })
            .collect();
        paths.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.stages.cmp(&b.stages)));
        let classes = MissClass::ALL.into_iter().map(|class| (class, stats.misses[class as usize]));
        Self {
            scenario: scenario.name.clone(),
            description: scenario.description.clone(),
            workload: scenario.workload.kind(),
            machine: scenario.machine.name.clone(),
            kind: scenario.machine.kind,
            variant: format!("cache {}", scenario.cache),
            kernel: scenario.preset.name(),
            switches: scenario.behaviour.differences(&scenario.preset.behaviour()),
            cache: scenario.cache.to_string(),
            entries: Some(scenario.cache.entries()),
            policy: scenario.cache.policy().name(),
            vcpus: scenario.vcpus,
            devices: scenario.devices,
            layout: scenario.layout.name(),
            notify: scenario.notify.describe(),
            seed: scenario.seed,
            virtual_s: 0.0,
            metric: None,
            accesses: stats.accesses,
            mmio_accesses,
            hits: stats.hits,
            hit_rate: rated.then(|| stats.hits as f64 / mmio_accesses as f64),
            misses: classes.map(|(class, count)| MissCount { class: class.name(), count }).collect(),
            uncached: stats.uncached,
            outcomes: stats.outcomes,
            attempts: stats.attempts,
            ns_per_access: stats.path_time.ns() / stats.accesses.max(1) as f64,
            stages: stage_rows(scenario, stats),
            around: around_rows(scenario),
            paths,
            jobs: Vec::new(),
            exit_stats: Vec::new(),
            kinds: Vec::new(),
            config: None,
            user_device_ns: 0.0,
            told_ns: None,
            drain_delay_ns: None,
            ram_as_mmio: stats.first_ram_as_mmio.map(|gpa| RamAsMmio { count: stats.ram_as_mmio, first_gpa: gpa.0 }),
            measured: None,
            recorded: None,
            notes: Vec::new(),
            failure: None,
        }
    }
}

/// Doorbells whose back ends were told without a drain.
const fn stats_told(stats: &Stats) -> u64 {
    let Outcomes { fast_mmio, eventfd, exits, .. } = stats.outcomes;
    fast_mmio + eventfd + exits
}

fn around_rows(scenario: &Scenario) -> Vec<AroundRow> {
    use Extra::{BackendWake, BlockComplete, BlockSubmit, Interrupt, NetByte, NetEcho, NetReceive, NetSend, NullBlock};
    let costs: &[Extra] = match scenario.workload {
        Workload::Fio(_) => &[BlockSubmit, BackendWake, NullBlock, Interrupt, BlockComplete],
        Workload::Netperf(_) => &[NetSend, NetByte, BackendWake, NetEcho, Interrupt, NetReceive],
        Workload::Doorbells(_) | Workload::Sequence(_) => &[],
        Workload::Pio(_) | Workload::Rtc(_) | Workload::Pci(_) | Workload::Mixed(_) => &[],
    };
    let row = |extra: &Extra| {
        let cost = scenario.machine.around.get(extra.name())?;
        Some(AroundRow { cost: extra.name(), covers: extra.doc().trim(), ns: cost.ns, kind: cost.kind })
    };
    costs.iter().filter_map(row).collect()
}

fn stage_rows(scenario: &Scenario, stats: &Stats) -> Vec<StageRow> {
    let count = |stage| stats.paths().iter().filter(|path| path.set.contains(stage)).map(|path| path.count).sum();
    let row = |stage: Stage| {
        let (count, cost): (u64, _) = (count(stage), scenario.machine.stage.get(stage.name())?);
        let total_ns = count as f64 * cost.ns;
        (count > 0).then_some(StageRow { stage: stage.name(), count, ns: cost.ns, total_ns, kind: cost.kind })
    };
    Stage::ALL.iter().copied().filter_map(row).collect()
}
