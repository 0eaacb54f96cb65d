//! Whole runs, by notification: the FIO scenario (one request in flight), netperf TCP_RR, and bare doorbells in turn over
//! four devices (every one a hit) and five (every one a miss).
//!
//! `cargo bench --bench sim`

#![allow(missing_docs)] // criterion_group! makes an undocumented public function

mod common;

use std::hint::black_box;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime};
use hvmmio::sim::{Scenario, Workload, run};

/// Notifications of one iteration, about: long enough that building the VM does not show.
const NOTIFICATIONS: u64 = 200_000;

fn case(group: &mut BenchmarkGroup<WallTime>, name: &str, scenario: &Scenario) {
    let once = run(scenario, &mut |_| ()).map_or(0, |result| result.accesses);
    group.throughput(Throughput::Elements(once));
    group.bench_function(name, |bencher| bencher.iter(|| run(black_box(scenario), &mut |_| ())));
}

fn shipped(name: &str) -> Option<Scenario> {
    let mut scenario = Scenario::load(name).ok()?;
    match &mut scenario.workload {
        // 10 s of virtual time are a million requests.
        Workload::Fio(plan) => plan.jobs.iter_mut().for_each(|job| job.runtime_ns = Some(2_000_000_000)),
        Workload::Netperf(test) => test.duration_ns = 4_000_000_000,
        Workload::Doorbells(stream) => stream.count = NOTIFICATIONS,
        Workload::Sequence(_) | Workload::Pio(_) | Workload::Rtc(_) | Workload::Pci(_) | Workload::Mixed(_) => {}
    }
    Some(scenario)
}

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sim");
    common::reference(&mut group);
    group.sample_size(10);
    for name in ["fio-null-blk", "netperf-tcp-rr"] {
        case(&mut group, name, &shipped(name).expect("a shipped scenario"));
    }
    for devices in [4, 5] {
        let mut scenario = shipped("doorbells").expect("a shipped scenario");
        scenario.set_devices(devices).expect("1 to 1024");
        case(&mut group, &format!("doorbells over {devices} devices"), &scenario);
    }
    group.finish();
}

criterion_group!(sim, benches);
criterion_main!(sim);
