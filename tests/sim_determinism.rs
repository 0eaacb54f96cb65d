//! The same scenario and seed give the same result, to the byte.

mod sim_common;

use hvmmio::device::NotifyLayout;
use hvmmio::kvm_hv::{CacheDesign, PolicyKind};
use hvmmio::sim::{Notify, Pattern, Scenario, Workload};
use sim_common::{doorbells, fio, netperf, run, with};

const MIXED: &str = "[global]\nioengine=libaio\niodepth=9\niodepth_batch=3\nbsrange=4k-64k\nsize=64m\nnumber_ios=700\n\
    [a]\nrw=randrw\nnumjobs=3\n[b]\nrw=randwrite\nrandom_distribution=zipf:1.2\nrate_iops=20000\nrate_process=poisson\n";

fn scenarios() -> Vec<Scenario> {
    let mut uniform = doorbells(NotifyLayout::Modern, 7, 3000);
    uniform.set_vcpus(3).unwrap();
    uniform.cache = CacheDesign::new(4, PolicyKind::Random).unwrap();
    let Workload::Doorbells(stream) = &mut uniform.workload else { panic!("doorbells") };
    (stream.pattern, stream.remove_every) = (Pattern::Uniform, 50);
    let coalesced = Notify::Coalesced { poll_ns: 20_000 };
    vec![
        uniform,
        with(fio(MIXED), NotifyLayout::Modern, Notify::Ioeventfd { length: 2 }, 2, 3),
        with(fio(MIXED), NotifyLayout::Legacy, coalesced, 3, 2),
        netperf(3, 2, 20),
        Scenario::load("key31-page-out").unwrap(),
    ]
}

fn json(scenario: &Scenario) -> String {
    serde_json::to_string(&run(scenario)).unwrap()
}

#[test]
fn a_scenario_gives_the_same_bytes_every_time_and_from_every_thread() {
    for scenario in scenarios() {
        let first = json(&scenario);
        assert_eq!(first, json(&scenario));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| json(&scenario))).collect();
            for thread in threads {
                assert_eq!(first, thread.join().unwrap());
            }
        });
    }
}

#[test]
fn another_seed_draws_otherwise() {
    for mut scenario in scenarios().into_iter().take(2) {
        let first = run(&scenario);
        scenario.seed = 77;
        let second = run(&scenario);
        assert_ne!((first.virtual_s, first.hits), (second.virtual_s, second.hits), "{}", scenario.description);
    }
}
