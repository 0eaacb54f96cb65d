//! Requests, doorbells and interrupts between guest and back ends: suppressed, batched, shared, none lost.

mod sim_common;

use hvmmio::device::NotifyLayout;
use hvmmio::sim::{Notify, Scenario};
use proptest::prelude::*;
use sim_common::{completed, doorbells, fio, length, netperf, reads, run, try_run, with};

const LENGTHS: [u32; 5] = [0, 1, 2, 4, 8];
const LAYOUTS: [NotifyLayout; 2] = NotifyLayout::ALL;
const POLL_NS: u64 = 20_000;

/// Every way a doorbell can leave the guest.
fn ways() -> Vec<Notify> {
    let fds = LENGTHS.map(|length| Notify::Ioeventfd { length });
    fds.into_iter().chain([Notify::Exit, Notify::Coalesced { poll_ns: POLL_NS }]).collect()
}

#[test]
fn a_back_end_that_is_awake_is_not_rung_and_misses_no_request() {
    let mut scenario = reads("iodepth=32\nnumber_ios=5000");
    // Slower than the guest, so that it always has work.
    scenario.machine.around.get_mut("null-block").unwrap().ns = 50_000.0;
    let result = run(&scenario);
    assert_eq!(completed(&result), 5000);
    assert!(result.accesses <= 8, "{} doorbells", result.accesses);
    let fast = run(&reads("iodepth=32\nnumber_ios=5000"));
    assert_eq!(completed(&fast), 5000);
    assert!(fast.accesses < 5000, "{} doorbells", fast.accesses);
}

#[test]
fn no_request_is_done_before_it_was_submitted() {
    // Building a request takes far longer than serving one: the back end is done with each before the next is there.
    for depth in [2, 8] {
        let mut scenario = reads(&format!("iodepth={depth}\nnumber_ios=800"));
        scenario.machine.around.get_mut("block-submit").unwrap().ns = 50_000.0;
        let costs = ["block-submit", "backend-wake", "null-block", "interrupt", "block-complete"];
        let least: f64 = costs.iter().map(|name| scenario.machine.around[*name].ns).sum();
        let result = run(&scenario);
        // Each finds the back end asleep, so each rings, and none is faster than all it has to go through.
        assert_eq!((result.accesses, completed(&result)), (800, 800));
        let latency = result.jobs[0].latency_ns;
        assert!(latency.mean > least && latency.p50 as f64 > least, "{latency:?} {least}");
    }
}

#[test]
fn a_job_whose_queue_others_have_filled_goes_on_when_there_is_room() {
    // 1024 descriptors hold 341 requests of three; eight jobs want 2048.
    for (vcpus, extra) in [(1, ""), (3, ""), (1, "iodepth_batch=64\niodepth_batch_complete_min=64\n"), (8, "")] {
        let job = format!(
            "[j]\nioengine=libaio\nrw=randread\nbs=4k\nsize=64m\niodepth=256\nnumjobs=8\nnumber_ios=900\n{extra}"
        );
        let scenario = with(fio(&job), NotifyLayout::Legacy, Notify::Ioeventfd { length: 2 }, vcpus, 1);
        let result = run(&scenario);
        assert!(result.jobs.iter().all(|job| job.completed == 900), "{vcpus} vCPUs, {extra}");
    }
}

#[test]
fn one_job_deeper_than_its_queue_goes_on_too() {
    let result = run(&reads("iodepth=4096\niodepth_batch=1000\nnumber_ios=10000"));
    assert_eq!(completed(&result), 10_000);
}

#[test]
fn every_length_of_ioeventfd_takes_the_doorbells_of_both_layouts() {
    for layout in LAYOUTS {
        for length in LENGTHS {
            let way = Notify::Ioeventfd { length };
            let block = run(&with(reads("iodepth=4\nnumber_ios=200"), layout, way, 2, 3));
            assert_eq!(completed(&block), 200);
            let net = run(&with(netperf(2, 3, 5), layout, way, 2, 3));
            for result in [block, net] {
                let fast = if length == 0 { result.outcomes.fast_mmio } else { 0 };
                assert_eq!(fast + result.outcomes.eventfd, result.accesses, "{layout} {way:?}");
                assert_eq!(result.outcomes.exits, 0, "{layout} {way:?}");
            }
        }
    }
}

#[test]
fn a_coalesced_doorbell_waits_no_longer_than_the_poll_interval() {
    let (layout, way) = (NotifyLayout::Legacy, Notify::Coalesced { poll_ns: POLL_NS });
    let at_once = run(&reads("iodepth=1\nnumber_ios=2000"));
    let result = run(&with(reads("iodepth=1\nnumber_ios=2000"), layout, way, 1, 1));
    assert_eq!((result.outcomes.coalesced, completed(&result)), (2000, 2000));
    let delay = result.drain_delay_ns.unwrap();
    assert!(delay.mean > 0.0 && delay.max <= POLL_NS as f64, "{delay:?}");
    // The longest latency has the longest wait in it.
    let longest = result.jobs[0].latency_ns.max - at_once.jobs[0].latency_ns.p50;
    assert!(longest <= POLL_NS, "{longest}");
    // A stream that fills the ring between two polls: the ring is drained by the exit that finds it full.
    let stream = run(&with(doorbells(layout, 3, 5000), layout, Notify::Coalesced { poll_ns: 1_000_000_000 }, 2, 3));
    assert_eq!(stream.outcomes.coalesced + stream.outcomes.exits, stream.accesses);
    assert!(
        stream.outcomes.ring_full > 1 && stream.outcomes.ring_full == stream.outcomes.exits,
        "{:?}",
        stream.outcomes
    );
}

#[test]
fn interrupts_go_to_the_vcpu_of_the_first_job_and_wake_jobs_on_others() {
    let job = "[j]\nioengine=libaio\nrw=randread\nbs=4k\nsize=64m\niodepth=2\nnumjobs=4\nnumber_ios=300\n";
    let scenario = with(fio(job), NotifyLayout::Modern, Notify::Ioeventfd { length: 2 }, 4, 1);
    let result = run(&scenario);
    assert!(result.jobs.iter().all(|job| job.completed == 300));
    // The first vCPU has the handler's work to do beside its job; the others share the device alike.
    let rates: Vec<_> = result.jobs.iter().map(|job| job.per_second).collect();
    assert!(rates[2..].iter().all(|rate| (rate / rates[1] - 1.0).abs() < 0.01), "{rates:?}");
    assert!(rates[0] < rates[1], "{rates:?}");
}

#[test]
fn many_connections_may_share_a_network_device() {
    for (vcpus, devices) in [(1, 1), (2, 1), (5, 3), (300, 1), (1024, 2), (3, 7)] {
        let result = run(&netperf(vcpus, devices, 4));
        assert!(result.jobs.iter().all(|job| job.completed >= 1), "{vcpus} vCPUs, {devices} devices");
        assert!(result.accesses <= completed(&result) + vcpus);
    }
}

#[test]
fn up_to_1024_devices_and_vcpus_run() {
    for layout in LAYOUTS {
        for devices in [1, 2, 1023, 1024] {
            let result =
                run(&with(reads("iodepth=2\nnumber_ios=3000"), layout, Notify::Ioeventfd { length: 2 }, 1, devices));
            assert_eq!(completed(&result), 3000, "{layout}, {devices} devices");
        }
        let result = run(&with(doorbells(layout, 1024, 10), layout, Notify::Exit, 1024, 1024));
        assert_eq!(result.outcomes.exits, 10_240);
    }
}

#[test]
fn time_that_stands_still_ends_the_run_with_an_error() {
    let mut scenario = netperf(1, 1, 10);
    scenario.machine.stage.values_mut().chain(scenario.machine.around.values_mut()).for_each(|cost| cost.ns = 0.0);
    let error = try_run(&scenario).unwrap_err().to_string();
    assert!(error.contains("stands still at 0 ns"), "{error}");
}

#[test]
fn time_that_runs_out_ends_the_run_with_an_error() {
    let error = try_run(&reads("startdelay=300d\nnumber_ios=5")).unwrap_err().to_string();
    assert!(error.contains("213 days"), "{error}");
    let error = try_run(&reads("thinktime=2000s\nnumber_ios=20000")).unwrap_err().to_string();
    assert!(error.contains("213 days"), "{error}");
}

fn any_scenario() -> impl Strategy<Value = (Scenario, u64)> {
    let jobs = (1..6_u64, 1..40_u32, 1..40_u32, 0..40_u32, 0..40_u32, prop_oneof![Just(""), Just("stonewall")]);
    let pace = prop_oneof![3 => Just(String::new()), 1 => (1..200_u32).prop_map(|us| format!("thinktime={us}us")),
        1 => (500..90_000_u32).prop_map(|rate| format!("rate_iops={rate}"))];
    let guest = (1..4_u64, 1..6_u64, 0..ways().len(), any::<bool>(), 0..3_usize);
    (jobs, pace, guest, 1..120_u64).prop_map(|((jobs, depth, batch, least, low, wall), pace, guest, count)| {
        let (vcpus, devices, way, legacy, slow) = guest;
        let text = format!(
            "[global]\nioengine=libaio\nrw=randrw\nbs=4k\nsize=16m\nnumber_ios={count}\n{pace}\n\
             iodepth={depth}\niodepth_batch={batch}\niodepth_batch_complete_min={least}\niodepth_low={low}\n\
             [a]\nnumjobs={jobs}\n[b]\n{wall}\nstartdelay=1ms\n"
        );
        let layout = if legacy { NotifyLayout::Legacy } else { NotifyLayout::Modern };
        let mut scenario = with(fio(&text), layout, ways()[way], vcpus, devices);
        // What is slowest decides which queue is full and who sleeps.
        let slowest = ["block-submit", "null-block", "interrupt"][slow];
        scenario.machine.around.get_mut(slowest).unwrap().ns = 40_000.0;
        (scenario, count * (jobs + 1))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_jobs_and_the_guest_every_request_completes((scenario, count) in any_scenario()) {
        let result = try_run(&scenario).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(completed(&result), count);
        prop_assert!(result.accesses <= count, "{} doorbells for {} requests", result.accesses, count);
        prop_assert!(length(&result) > 0);
    }
}
