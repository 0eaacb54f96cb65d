//! Virtual time is the sum of the machine model's figures, exactly.

mod sim_common;

use hvmmio::device::NotifyLayout;
use hvmmio::machine::{Extra, Prices, SimTime};
use hvmmio::sim::Notify;
use sim_common::{
    block_cycle, completed, doorbells, hit, length, miss, netperf, reads, run, with_distinct_costs, without_cache,
};

#[test]
fn a_request_alone_takes_the_sum_of_its_stages_and_of_the_costs_around_them() {
    let scenario = with_distinct_costs(reads("iodepth=1\nnumber_ios=1000"));
    let result = run(&scenario);
    assert_eq!((result.accesses, result.hits, completed(&result)), (1000, 999, 1000));
    assert_eq!(length(&result), 999 * block_cycle(&scenario, hit()) + block_cycle(&scenario, miss()));
    let iops = result.metric.unwrap().value;
    assert!((iops * result.virtual_s - 1000.0).abs() < 1e-6, "{iops}");
}

#[test]
fn without_a_cache_every_request_pays_for_the_slow_form() {
    let scenario = without_cache(with_distinct_costs(reads("iodepth=1\nnumber_ios=500")));
    let uncached = miss().iter().filter(|stage| !["cache-search", "cache-fill"].contains(&stage.name())).collect();
    let result = run(&scenario);
    assert_eq!((result.uncached, result.hit_rate), (500, None));
    assert_eq!(length(&result), 500 * block_cycle(&scenario, uncached));
}

#[test]
fn a_hit_saves_exactly_the_stages_that_only_a_miss_has() {
    let scenario = with_distinct_costs(reads("iodepth=1\nnumber_ios=100"));
    let prices = Prices::new(&scenario.machine);
    let [one, two] = [1, 2].map(|n| with_distinct_costs(reads(&format!("iodepth=1\nnumber_ios={n}"))));
    let (first, second) = (length(&run(&one)), length(&run(&two)) - length(&run(&one)));
    let difference = prices.attempt(miss()).0 - prices.attempt(hit()).0;
    assert_eq!(first - second, difference);
    let priced: Vec<_> = run(&scenario).paths.into_iter().map(|path| (SimTime::from_ns(path.ns), path.count)).collect();
    assert_eq!(priced, [(prices.attempt(hit()), 99), (prices.attempt(miss()), 1)]);
}

#[test]
fn stage_totals_add_up_to_the_time_of_all_accesses() {
    let result = run(&with_distinct_costs(doorbells(NotifyLayout::Modern, 5, 1000)));
    let stages: f64 = result.stages.iter().map(|row| row.total_ns).sum();
    assert!((stages - result.ns_per_access * 1000.0).abs() < 1.0, "{stages}");
    // Nothing but the accesses takes time.
    assert!((stages - result.virtual_s * 1e9).abs() < 1.0);
}

#[test]
fn a_netperf_transaction_takes_its_path_and_both_ends() {
    let scenario = with_distinct_costs(netperf(1, 1, 50));
    let result = run(&scenario);
    let prices = Prices::new(&scenario.machine);
    let byte = prices.around(Extra::NetByte).0;
    let ends = [Extra::NetSend, Extra::BackendWake, Extra::NetEcho, Extra::Interrupt, Extra::NetReceive];
    let around: u64 = ends.into_iter().map(|extra| prices.around(extra).0).sum();
    let signal = |path| prices.attempt(path).0 - prices.stage(hvmmio::kvm_hv::Stage::GuestEntry).0;
    let count = completed(&result);
    assert!(count > 1000 && result.hits == count - 1);
    assert_eq!(length(&result), count * (around + 2 * byte) + (count - 1) * signal(hit()) + signal(miss()));
}

#[test]
fn an_exit_adds_user_space_and_the_device_model_to_every_doorbell() {
    let mut scenario = with_distinct_costs(reads("iodepth=1\nnumber_ios=300"));
    scenario.notify = Notify::Exit;
    let result = run(&scenario);
    assert_eq!((result.outcomes.exits, result.outcomes.ring_full), (300, 0));
    let prices = Prices::new(&scenario.machine);
    let exit = |path: hvmmio::kvm_hv::StageSet| {
        let stages = path.iter().filter(|stage| stage.name() != "eventfd-signal");
        block_cycle(&scenario, stages.chain([hvmmio::kvm_hv::Stage::UserExit]).collect())
            + prices.around(Extra::UserDevice).0
    };
    assert_eq!(length(&result), 299 * exit(hit()) + exit(miss()));
}
