//! Options of fio jobs do in virtual time what they say.

mod sim_common;

use hvmmio::device::NotifyLayout;
use hvmmio::sim::{Notify, RunResult, Scenario};
use sim_common::{block_cycle, completed, fio, hit, length, reads, run, with, without_cache};

/// Picoseconds.
const MS: u64 = 1_000_000_000;

fn rate(result: &RunResult) -> f64 {
    result.metric.as_ref().unwrap().value
}

fn close(value: f64, wanted: f64, share: f64) {
    assert!((value / wanted - 1.0).abs() < share, "{value}, not {wanted}");
}

fn cycle(scenario: &Scenario) -> u64 {
    block_cycle(scenario, hit())
}

#[test]
fn number_ios_ends_a_job_after_so_many_requests() {
    for depth in [1, 7, 64] {
        assert_eq!(completed(&run(&reads(&format!("iodepth={depth}\nnumber_ios=333")))), 333);
    }
}

#[test]
fn size_and_io_size_end_a_job_after_so_many_bytes() {
    assert_eq!(completed(&run(&fio("[j]\nioengine=libaio\nrw=write\nbs=4k\nsize=1m\n"))), 256);
    assert_eq!(completed(&run(&fio("[j]\nioengine=libaio\nrw=write\nbs=4k\nsize=1m\nio_size=2m\n"))), 512);
    assert_eq!(completed(&run(&fio("[j]\nioengine=libaio\nrw=read\nbs=4k\nsize=1m\nloops=3\n"))), 768);
}

#[test]
fn rate_iops_is_kept_to_a_thousandth() {
    for (wanted, depth) in [(1000.0, 1), (1000.0, 16), (12_345.0, 1), (50_000.0, 4)] {
        let result = run(&reads(&format!("iodepth={depth}\nrate_iops={wanted}\ntime_based\nruntime=1")));
        close(rate(&result), wanted, 1e-3);
    }
}

#[test]
fn rate_is_bytes_a_second() {
    let result = run(&reads("iodepth=2\nrate=40m\ntime_based\nruntime=1"));
    close(result.jobs[0].bytes_per_second, 40.0 * 1024.0 * 1024.0, 1e-3);
}

#[test]
fn thinktime_comes_on_top_of_each_request() {
    let scenario = reads("iodepth=1\nthinktime=100\ntime_based\nruntime=200ms");
    let alone = cycle(&scenario);
    // There is no pause before the first request.
    close(rate(&run(&scenario)), 1e12 / (alone as f64 + 100e6), 1e-3);
    let every_tenth = reads("iodepth=1\nthinktime=100\nthinktime_blocks=10\ntime_based\nruntime=200ms");
    close(rate(&run(&every_tenth)), 1e13 / (alone as f64 * 10.0 + 100e6), 1e-3);
}

#[test]
fn runtime_ends_a_job_with_its_last_request() {
    for depth in [1, 32] {
        let scenario = reads(&format!("iodepth={depth}\ntime_based\nruntime=20ms"));
        let over = length(&run(&scenario)).checked_sub(20 * MS).expect("ended before its time");
        assert!(over < (u64::from(depth == 32) * 31 + 1) * cycle(&scenario), "{over} ps");
    }
}

#[test]
fn a_pause_that_outlasts_the_runtime_ends_with_it() {
    for line in ["thinktime=1s", "rate_iops=3"] {
        let result = run(&reads(&format!("iodepth=1\n{line}\ntime_based\nruntime=500ms")));
        assert_eq!(length(&result), 500 * MS, "{line}");
    }
}

#[test]
fn requests_of_the_ramp_are_not_counted() {
    let scenario = reads("iodepth=1\ntime_based\nramp_time=30ms\nruntime=20ms");
    let result = run(&scenario);
    let count = completed(&result) as f64;
    close(count, 20.0 * MS as f64 / cycle(&scenario) as f64, 1e-2);
    assert!(length(&result) >= 50 * MS && length(&result) < 50 * MS + 2 * cycle(&scenario));
    close(rate(&result), 1e12 / cycle(&scenario) as f64, 1e-2);
}

#[test]
fn a_start_delay_goes_before_the_first_request() {
    let at_once = length(&run(&reads("number_ios=50")));
    assert_eq!(length(&run(&reads("number_ios=50\nstartdelay=3ms"))), 3 * MS + at_once);
}

#[test]
fn jobs_behind_a_stonewall_begin_when_those_before_it_have_ended() {
    let jobs = |stonewall: &str| {
        format!(
            "[global]\nioengine=libaio\nrw=randread\nbs=4k\nsize=64m\n\
             [a]\nnumber_ios=100\n[b]\n{stonewall}\nnumber_ios=200\n[c]\n{stonewall}\nnumber_ios=300\n"
        )
    };
    let scenario = without_cache(fio(&jobs("stonewall")));
    let one_by_one: u64 = [100, 200, 300]
        .map(|count| length(&run(&without_cache(reads(&format!("number_ios={count}"))))))
        .into_iter()
        .sum();
    let result = run(&scenario);
    assert_eq!(length(&result), one_by_one);
    close(rate(&result), 600.0 / (one_by_one as f64 / 1e12), 1e-9);
    assert!(length(&run(&without_cache(fio(&jobs(""))))) < one_by_one, "together they overlap");
}

#[test]
fn a_batch_is_told_to_the_device_once() {
    let scenario = reads("iodepth=8\niodepth_batch=8\niodepth_batch_complete_min=8\nnumber_ios=800");
    let result = run(&scenario);
    assert_eq!((completed(&result), result.accesses), (800, 100));
    let over_two = with(scenario, NotifyLayout::Modern, Notify::Ioeventfd { length: 0 }, 1, 2);
    assert_eq!(run(&over_two).accesses, 200, "once for each device");
}

#[test]
fn a_depth_of_n_keeps_n_in_flight() {
    let [one, eight] = [1, 8].map(|depth| {
        let mut scenario = reads(&format!("iodepth={depth}\nnumber_ios=4000"));
        // The medium alone is slow: so many requests wait for it.
        scenario.machine.around.get_mut("null-block").unwrap().ns = 1e6;
        run(&scenario)
    });
    let (alone, queued) = (one.jobs[0].latency_ns.p50 as f64, eight.jobs[0].latency_ns.p50 as f64);
    assert!(alone < 1.02e6 && (7.9e6..8.1e6).contains(&queued), "{alone} {queued}");
}

#[test]
fn iodepth_low_lets_the_queue_run_down_before_it_is_filled_again() {
    // Down to one in flight, then three more at once: one doorbell for every three.
    let lines = "iodepth=4\niodepth_batch=4\niodepth_low=1\nnumber_ios=3001";
    let mut scenario = reads(lines);
    // A back end that falls asleep before the guest has handled its interrupt.
    scenario.machine.around.get_mut("interrupt").unwrap().ns = 1e6;
    let low = run(&scenario);
    let mut scenario = reads(&lines.replace("iodepth_low=1\n", ""));
    scenario.machine.around.get_mut("interrupt").unwrap().ns = 1e6;
    let high = run(&scenario);
    assert_eq!((completed(&low), completed(&high)), (3001, 3001));
    assert!(low.accesses <= high.accesses, "{} {}", low.accesses, high.accesses);
    assert!(low.accesses >= 3001 / 4 && low.accesses <= 3001 / 3 + 2, "{}", low.accesses);
}
