//! Scenarios that tests build on, and what a result says in picoseconds.

#![allow(dead_code)] // Each test file uses a part of it.

use hvmmio::device::NotifyLayout;
use hvmmio::kvm_hv::{CacheDesign, Stage, StageSet};
use hvmmio::machine::{Extra, Prices, SimTime};
use hvmmio::sim::{Doorbells, Notify, Pattern, RunResult, Scenario, SimError, Workload};
use hvmmio::workload::fio::JobFile;

/// A shipped scenario in which the guest's own part of a request takes next to no time: the shipped model's is what its
/// fit left over, and tests of queues and pace need a guest that is quicker than the back end.
fn shipped(name: &str) -> Scenario {
    let mut scenario = Scenario::load(name).unwrap();
    for cost in ["block-submit", "net-send"] {
        scenario.machine.around.get_mut(cost).unwrap().ns = 1.0;
    }
    scenario
}

/// The shipped FIO scenario with another job file.
pub fn fio(job: &str) -> Scenario {
    let mut scenario = shipped("fio-null-blk");
    let plan = JobFile::parse("test.fio", job, &|_| None).and_then(|file| file.plan());
    scenario.workload = Workload::Fio(Box::new(plan.unwrap_or_else(|error| panic!("{error}"))));
    scenario
}

/// Random reads with these lines more.
pub fn reads(lines: &str) -> Scenario {
    fio(&format!("[reads]\nioengine=libaio\nrw=randread\nbs=4k\nsize=64m\n{lines}\n"))
}

/// A stream of doorbells, round robin over so many devices.
pub fn doorbells(layout: NotifyLayout, devices: u64, count: u64) -> Scenario {
    let mut scenario = shipped("doorbells");
    scenario.layout = layout;
    scenario.set_devices(devices).unwrap();
    scenario.workload =
        Workload::Doorbells(Doorbells { count, pattern: Pattern::RoundRobin, gap_ns: 0, remove_every: 0 });
    scenario
}

pub fn netperf(vcpus: u64, devices: u64, milliseconds: u64) -> Scenario {
    let mut scenario = shipped("netperf-tcp-rr");
    scenario.set_vcpus(vcpus).unwrap();
    scenario.set_devices(devices).unwrap();
    let Workload::Netperf(test) = &mut scenario.workload else { panic!("not netperf") };
    test.duration_ns = milliseconds * 1_000_000;
    scenario
}

pub fn with(mut scenario: Scenario, layout: NotifyLayout, notify: Notify, vcpus: u64, devices: u64) -> Scenario {
    (scenario.layout, scenario.notify) = (layout, notify);
    scenario.set_vcpus(vcpus).unwrap();
    scenario.set_devices(devices).unwrap();
    scenario
}

pub fn without_cache(mut scenario: Scenario) -> Scenario {
    scenario.cache = CacheDesign::OFF;
    scenario
}

pub fn run(scenario: &Scenario) -> RunResult {
    try_run(scenario).unwrap_or_else(|error| panic!("{}: {error}", scenario.description))
}

pub fn try_run(scenario: &Scenario) -> Result<RunResult, SimError> {
    hvmmio::sim::run(scenario, &mut |_| ())
}

/// Length of a run in picoseconds.
pub fn length(result: &RunResult) -> u64 {
    SimTime::from_ns(result.virtual_s * 1e9).0
}

pub fn completed(result: &RunResult) -> u64 {
    result.jobs.iter().map(|job| job.completed).sum()
}

/// Every cost another, so that a sum names what it is made of.
pub fn with_distinct_costs(mut scenario: Scenario) -> Scenario {
    for (i, cost) in (1_u32..).zip(scenario.machine.stage.values_mut()) {
        cost.ns = 100.0 + f64::from(i * i) + f64::from(i) / 1000.0;
    }
    for (i, cost) in (1_u32..).zip(scenario.machine.around.values_mut()) {
        cost.ns = 3000.0 + f64::from(i * i * i) + f64::from(i) / 500.0;
    }
    scenario
}

/// Stages of a doorbell that an ioeventfd of length 2 takes, served from the cache.
pub fn hit() -> StageSet {
    [
        Stage::GuestExit,
        Stage::CacheSearch,
        Stage::Permission,
        Stage::InsnLoad,
        Stage::HostEntry,
        Stage::GenerationRecheck,
        Stage::FastBus,
        Stage::Decode,
        Stage::MmioBus,
        Stage::EventfdSignal,
        Stage::GuestEntry,
    ]
    .into_iter()
    .collect()
}

/// The same when it was not in the cache.
pub fn miss() -> StageSet {
    let only_hits = [Stage::GenerationRecheck];
    let only_misses =
        [Stage::HptSearch, Stage::HpteLockFirst, Stage::CacheFill, Stage::HpteLockSecond, Stage::MemslotSearch];
    hit().iter().filter(|stage| !only_hits.contains(stage)).chain(only_misses).collect()
}

/// A block request alone on its way, in picoseconds: from one submission to the next.
pub fn block_cycle(scenario: &Scenario, doorbell: StageSet) -> u64 {
    let prices = Prices::new(&scenario.machine);
    let around = [Extra::BlockSubmit, Extra::BackendWake, Extra::NullBlock, Extra::Interrupt, Extra::BlockComplete];
    let signal = prices.attempt(doorbell) - prices.stage(Stage::GuestEntry);
    around.into_iter().fold(signal, |sum, extra| sum + prices.around(extra)).0
}

pub fn misses(result: &RunResult, class: &str) -> u64 {
    result.misses.iter().find(|row| row.class == class).unwrap().count
}
