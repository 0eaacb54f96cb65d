//! Coalesced doorbells on POWER, which stock kernels do not have: what they save, and how long each waits for its drain.

mod sim_common;

use hvmmio::addr::CoalescedRoom;
use hvmmio::device::NotifyLayout;
use hvmmio::kvm_hv::Stage;
use hvmmio::machine::{Extra, Prices};
use hvmmio::report::{Format, Report, RunReport};
use hvmmio::sim::{Baseline, Doorbells, DrainDelay, Notify, Pattern, RunResult, Scenario, Workload};

use sim_common::{completed, doorbells, reads, run, with};

const POLL_NS: u64 = 50_000;

/// So many doorbells of each vCPU, some way apart, over modern devices.
fn stream(vcpus: u64, devices: u64, count: u64, gap_ns: u64, poll_ns: u64) -> Scenario {
    let way = Notify::Coalesced { poll_ns };
    let mut scenario = with(doorbells(NotifyLayout::Modern, devices, count), NotifyLayout::Modern, way, vcpus, devices);
    scenario.workload = Workload::Doorbells(Doorbells { count, pattern: Pattern::RoundRobin, gap_ns, remove_every: 0 });
    scenario
}

fn delay(result: &RunResult) -> DrainDelay {
    result.drain_delay_ns.unwrap_or_else(|| panic!("nothing was coalesced: {:?}", result.outcomes))
}

/// Every coalesced doorbell was drained once, or still waits and the result says so.
fn adds_up(result: &RunResult) {
    let delay = delay(result);
    assert_eq!(delay.drained + delay.waiting, result.outcomes.coalesced);
    assert_eq!(result.outcomes.coalesced + result.outcomes.exits, result.accesses);
    let table = RunReport { runs: vec![result.clone()] }.render(Format::Table).unwrap();
    let line = table.lines().find(|line| line.contains("never: in the ring at the end"));
    let said = line.and_then(|line| line.split_whitespace().last()).map(|count| count.replace(',', ""));
    assert_eq!(said, Some(delay.waiting.to_string()), "{table}");
}

fn ordered(delay: &DrainDelay) {
    let quantiles = [delay.p50, delay.p90, delay.p99, delay.p99_9];
    assert!(quantiles.is_sorted(), "{delay:?}");
    // Quantiles are whole nanoseconds to three digits.
    assert!(delay.min <= quantiles[0] as f64 * 1.001 + 1.0 && quantiles[3] as f64 <= delay.max, "{delay:?}");
    assert!((delay.min..=delay.max).contains(&delay.mean), "{delay:?}");
}

#[test]
fn without_exits_a_doorbell_waits_at_most_from_one_poll_to_the_next() {
    for (vcpus, devices, gap_ns) in [(1, 1, 0), (1, 64, 1_700), (3, 7, 911)] {
        let result = run(&stream(vcpus, devices, 4_000, gap_ns, POLL_NS));
        assert_eq!(result.outcomes.exits, 0, "{:?}", result.outcomes);
        adds_up(&result);
        let delay = delay(&result);
        ordered(&delay);
        assert!(delay.min >= 0.0 && delay.max <= POLL_NS as f64, "{delay:?}");
        // Writes come at any time between two polls, so they wait half of it, give or take a tenth.
        assert!((delay.mean / POLL_NS as f64 - 0.5).abs() < 0.05, "{delay:?}");
        assert!((delay.p90 as f64 / POLL_NS as f64 - 0.9).abs() < 0.05, "{delay:?}");
    }
}

#[test]
fn several_doorbells_wait_in_the_ring_together_and_one_poll_finds_them_all() {
    // 20 ms between polls, and each doorbell takes microseconds: thousands would fit in between, 2729 in the ring.
    let result = run(&stream(1, 64, 2_000, 0, 20_000_000));
    assert_eq!((result.outcomes.coalesced, result.outcomes.exits), (2_000, 0));
    adds_up(&result);
    let delay = result.drain_delay_ns.unwrap();
    assert_eq!((delay.drained, delay.waiting), (0, 2_000), "the guest ended before the first poll");
    assert_eq!((delay.mean, delay.max), (0.0, 0.0));
    assert_eq!(result.told_ns, None, "nobody was told of anything");
}

#[test]
fn a_full_ring_exits_and_the_exit_drains_it_before_the_next_poll() {
    let scenario = stream(1, 64, 10_000, 0, 1_000_000_000);
    for (room, absorbed) in [(CoalescedRoom::Fixed, 2729), (CoalescedRoom::Legacy, 255)] {
        let mut scenario = scenario.clone();
        scenario.behaviour.coalesced_room = room;
        let result = run(&scenario);
        adds_up(&result);
        assert_eq!(result.outcomes.ring_full, result.outcomes.exits, "no exit but for a full ring");
        let delay = delay(&result);
        ordered(&delay);
        assert!(delay.max < 1e9, "the exit came before the poll: {delay:?}");
        // The ring's room from first = last = 0, as case ring-room has it; later rounds start elsewhere.
        assert!(result.outcomes.exits <= 10_000 / absorbed, "{:?}", result.outcomes);
        assert!(delay.drained >= absorbed, "{delay:?}");
        // The last written before the exit waits a doorbell's time and the exit's way out; the first a whole ring's.
        let prices = Prices::new(&scenario.machine);
        assert!(delay.min >= prices.stage(Stage::UserExit).ns(), "{delay:?}");
        assert!(delay.max >= absorbed as f64 * prices.stage(Stage::CoalescedWrite).ns(), "{delay:?}");
    }
}

#[test]
fn one_request_in_flight_waits_for_each_drain_and_none_is_left_over() {
    let job = || reads("iodepth=1\nnumber_ios=2000");
    let result = run(&with(job(), NotifyLayout::Legacy, Notify::Coalesced { poll_ns: POLL_NS }, 1, 1));
    assert_eq!((completed(&result), result.outcomes.coalesced), (2000, 2000));
    adds_up(&result);
    let delay = delay(&result);
    ordered(&delay);
    assert_eq!((delay.drained, delay.waiting), (2000, 0));
    assert!(delay.max <= POLL_NS as f64, "{delay:?}");
    assert_eq!(result.told_ns, Some(delay.mean));
}

#[test]
fn a_coalesced_scenario_runs_beside_the_exit_and_the_ioeventfd_with_the_same_cache() {
    let coalesced = stream(1, 64, 2_000, 1_700, POLL_NS);
    let variants = coalesced.variants(Baseline::With);
    let ways: Vec<_> = variants.iter().map(|variant| variant.notify).collect();
    assert_eq!(ways, [Notify::Exit, Notify::Ioeventfd { length: 2 }, coalesced.notify]);
    assert!(variants.iter().all(|variant| variant.cache == coalesced.cache));
    assert_eq!(coalesced.variants(Baseline::Without).len(), 1);

    let runs: Vec<_> = variants.iter().map(run).collect();
    let [exit, eventfd, asked] = &runs[..] else { panic!("{} runs", runs.len()) };
    // What the others pay and the coalesced doorbell does not, stage by stage: all see the same hits and misses.
    let prices = Prices::new(&coalesced.machine);
    let [user, signal, ring] =
        [Stage::UserExit, Stage::EventfdSignal, Stage::CoalescedWrite].map(|stage| prices.stage(stage).ns());
    let close = |a: f64, b: f64| (a - b).abs() < 0.01;
    assert!(close(exit.ns_per_access - asked.ns_per_access, user - ring), "{} {user}", exit.ns_per_access);
    assert!(close(eventfd.ns_per_access - asked.ns_per_access, signal - ring), "{} {signal}", eventfd.ns_per_access);
    // Told at the signal, or by the device model behind the exit: all of the access but the way back into the guest.
    let back = prices.stage(Stage::GuestEntry).ns();
    assert!(close(eventfd.told_ns.unwrap(), eventfd.ns_per_access - back));
    let device = prices.around(Extra::UserDevice).ns();
    assert!(close(exit.told_ns.unwrap(), exit.ns_per_access - back + device));
    assert_eq!(asked.told_ns.unwrap(), asked.drain_delay_ns.unwrap().mean);

    // An exit holds the vCPU in the device model too.
    assert_eq!((exit.user_device_ns, eventfd.user_device_ns, asked.user_device_ns), (device, 0.0, 0.0));
    let saved = format!("{:.1}", exit.ns_per_access + device - asked.ns_per_access);
    let late = format!("{:.1}", asked.told_ns.unwrap() - eventfd.told_ns.unwrap());
    let p99_9 = asked.drain_delay_ns.unwrap().p99_9;
    let report = RunReport { runs: runs.clone() };
    let table = report.render(Format::Table).unwrap();
    for words in ["exit to user space", "ioeventfd of length 2", "polled every 50 us", &saved, &late, "p99.9"] {
        assert!(table.contains(words), "{words} is not in\n{table}");
    }
    let csv = report.render(Format::Csv).unwrap();
    assert!(csv.contains(&format!("\"write to drain, p99.9\",{p99_9},ns")), "{csv}");
    let json: serde_json::Value = serde_json::from_str(&report.render(Format::Json).unwrap()).unwrap();
    assert_eq!(json["runs"][2]["drain_delay_ns"]["p99_9"], p99_9);
    assert!(json["runs"][0]["drain_delay_ns"].is_null());
}
