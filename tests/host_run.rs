//! Scenarios on this machine's real KVM: every access is accounted for, and goes where the simulator says it goes.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod host_common;

use std::time::{Duration, Instant};

use host_common::kvm;
use hvmmio::addr::CoalescedRoom;
use hvmmio::device::NotifyLayout;
use hvmmio::host::record::HostRun;
use hvmmio::host::x86_64::{HostError, Limits, probe, run};
use hvmmio::sim::{self, Baseline, Pattern, Scenario, Workload};

const ACCESSES: u64 = 1000;

fn limits() -> Limits {
    Limits { accesses: ACCESSES, time: Duration::from_secs(30), rounds: 1 }
}

fn runs(scenario: &Scenario) -> Vec<HostRun> {
    run(scenario, limits(), Instant::now()).unwrap()
}

/// Exits and coalesced writes of so many writes in a row into an empty ring.
fn into_the_ring(writes: u64) -> Option<(u64, u64)> {
    let fixed = probe(&kvm()?).unwrap().behaviour().coalesced_room == CoalescedRoom::Fixed;
    // The write that finds it full exits, and the ring is drained before it is handled.
    fixed.then_some((writes / 170, writes - writes / 170))
}

#[test]
fn a_stream_of_outs_exits_each_time_or_waits_in_the_ring_until_it_is_full() {
    if kvm().is_none() {
        return;
    }
    let scenario = Scenario::load("pio-timeline").unwrap();
    let ended: Vec<_> = runs(&scenario)
        .iter()
        .map(|run| (run.variant.clone(), run.outcomes.exits, run.outcomes.coalesced, run.outcomes.eventfd))
        .collect();
    let way = |at: usize, name: &str| {
        assert_eq!(ended[at].0, name);
        (ended[at].1, ended[at].2, ended[at].3)
    };
    assert_eq!(way(0, "regs-every-exit"), (ACCESSES, 0, 0));
    assert_eq!(way(1, "regs-when-needed"), (ACCESSES, 0, 0));
    assert_eq!(way(2, "in-kernel"), (0, 0, ACCESSES));
    let (exits, coalesced, signals) = way(3, "coalesced");
    assert_eq!(signals, 0);
    if let Some(expected) = into_the_ring(ACCESSES) {
        assert_eq!((exits, coalesced), expected);
    }
}

/// Registers that user space writes back at each exit must not disturb what the guest does: 1,000 turns of a loop.
#[test]
fn strings_go_element_by_element_and_register_traffic_changes_nothing() {
    if kvm().is_none() {
        return;
    }
    let mut scenario = Scenario::load("pio-timeline").unwrap();
    let Workload::Pio(stream) = &mut scenario.workload else { panic!("it is a port stream") };
    stream.string = 20;
    let exits: Vec<_> = runs(&scenario).iter().map(|run| run.outcomes.exits).collect();
    assert_eq!(exits[..3], [ACCESSES, ACCESSES, 0]);
}

#[test]
fn rtc_ticks_leave_the_guest_as_often_as_simulated_ones() {
    if kvm().is_none() {
        return;
    }
    let scenario = Scenario::load("rtc-tick").unwrap();
    for host in runs(&scenario) {
        // Index, register C and a look at the timer each tick; four writes before.
        let ticks = (host.accesses - 4) / 3;
        let expected = match host.variant.as_str() {
            "coalesced" => (2 * ticks + 2, ticks + 2),
            _ => (3 * ticks + 4, 0),
        };
        assert_eq!((host.outcomes.exits, host.outcomes.coalesced), expected, "{}", host.variant);
        assert_eq!((host.values_checked, ticks), (ticks, ACCESSES / 3));
    }
}

#[test]
fn doorbells_of_both_layouts_end_where_each_way_sends_them() {
    if kvm().is_none() {
        return;
    }
    let mut scenario = Scenario::load("doorbells").unwrap();
    scenario.set_vcpus(2).unwrap();
    scenario.set_devices(5).unwrap();
    for (layout, pattern) in [(NotifyLayout::Modern, Pattern::RoundRobin), (NotifyLayout::Legacy, Pattern::Uniform)] {
        scenario.layout = layout;
        let Workload::Doorbells(bells) = &mut scenario.workload else { panic!("it is a doorbell stream") };
        bells.pattern = pattern;
        let all = 2 * ACCESSES;
        let ended: Vec<_> = runs(&scenario)
            .iter()
            .map(|run| [run.accesses, run.outcomes.exits, run.outcomes.eventfd, run.outcomes.coalesced])
            .collect();
        assert_eq!(ended[..3], [[all, all, 0, 0], [all, 0, all, 0], [all, 0, all, 0]], "{layout}");
        let [accesses, exits, signals, coalesced] = ended[3];
        // Two vCPUs share the ring: how often it is full depends on who drains it when.
        assert_eq!((accesses, signals, exits + coalesced), (all, 0, all));
        assert!(coalesced > all / 2, "{layout}: {coalesced}");
    }
}

/// Cases readonly-ecam-fresh and ecam-equals-cf8 on a real guest: each value is what the bridge gives, BAR sizes too, which a
/// device's answer to a write is.
#[test]
fn a_pci_scan_finds_the_same_with_as_many_exits_as_the_simulator_says() {
    if kvm().is_none() {
        return;
    }
    let scenario = Scenario::load("pci-scan").unwrap();
    let hosts = runs(&scenario);
    let variants = scenario.variants(Baseline::With);
    assert_eq!(hosts.len(), variants.len());
    for (host, variant) in hosts.iter().zip(&variants) {
        let simulated = sim::run(variant, &mut |_| {}).unwrap();
        let config = simulated.config.unwrap();
        assert_eq!(host.variant, simulated.variant);
        let real = (host.functions, host.outcomes.exits, host.outcomes.ram, host.outcomes.coalesced);
        let exits = config.port_exits + config.mmio_exits;
        let told = (config.functions, exits, config.memory_reads, simulated.outcomes.coalesced);
        assert_eq!(real, told, "{}", host.variant);
        assert_eq!(host.values_checked, config.reads);
    }
}

#[test]
fn a_guest_without_an_end_in_time_is_an_error_that_names_the_limit() {
    if kvm().is_none() {
        return;
    }
    let mut scenario = Scenario::load("pio-timeline").unwrap();
    let Workload::Pio(stream) = &mut scenario.workload else { panic!("it is a port stream") };
    stream.count = 1 << 40;
    let limits = Limits { accesses: u64::MAX, time: Duration::from_millis(50), rounds: 1 };
    let error = run(&scenario, limits, Instant::now()).unwrap_err();
    assert!(matches!(error, HostError::TimeLimit { .. }), "{error}");
    assert!(error.to_string().contains("50ms"), "{error}");
}

#[test]
fn what_no_host_can_run_is_refused_in_words() {
    if kvm().is_none() {
        return;
    }
    let mut scenario = Scenario::load("rtc-tick").unwrap();
    scenario.modes.retain(|mode| mode.name() == "in-kernel");
    let fio = Scenario::load("fio-null-blk").unwrap();
    let mut many = Scenario::load("doorbells").unwrap();
    many.set_vcpus(1000).unwrap();
    for (scenario, word) in [(scenario, "workloads"), (fio, "workloads"), (many, "vCPUs")] {
        let error = run(&scenario, limits(), Instant::now()).unwrap_err();
        assert!(matches!(error, HostError::Unsupported(_)) && error.to_string().contains(word), "{error}");
    }
}

fn run_cli(args: &[&str]) -> (Option<i32>, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_hvmmio")).args(args).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_command_line_runs_a_scenario_and_marks_its_figures_as_measured() {
    if kvm().is_none() {
        return;
    }
    let (code, text) = run_cli(&["host", "run", "rtc-tick", "--accesses", "300", "--rounds", "2", "--format", "csv"]);
    assert!(code == Some(0) && text.contains("time per access") && text.contains("ns,measured"), "{text}");
    let (code, text) = run_cli(&["host", "run", "rtc-tick", "--vcpus", "2"]);
    assert!(code == Some(2) && text.contains("--vcpus means nothing"), "{text}");
    let (code, text) = run_cli(&["host", "run", "fio-null-blk"]);
    assert!(code == Some(2) && text.contains("workloads for a host"), "{text}");
}
