//! x86 scenarios in virtual time: what accesses cost, how many exits they make, what perf would see of them.

use hvmmio::addr::Port;
use hvmmio::kvm_x86::{PortWidth, Stage};
use hvmmio::machine::Machine;
use hvmmio::proof::Published;
use hvmmio::sim::{Baseline, ExitStat, RunResult, Scenario, SimError, Workload};
use hvmmio::workload::ports::{PioStream, PortDirection, PortMode};

fn run(scenario: &Scenario) -> RunResult {
    hvmmio::sim::run(scenario, &mut |_| ()).unwrap_or_else(|error| panic!("{}: {error}", scenario.name))
}

/// The shipped stream with another workload, in one mode.
fn pio(mode: PortMode, change: impl FnOnce(&mut PioStream)) -> Scenario {
    let mut scenario = Scenario::load("pio-timeline").unwrap();
    let Workload::Pio(stream) = &mut scenario.workload else { panic!("pio") };
    stream.count = 1000;
    change(stream);
    scenario.mode = mode;
    scenario
}

fn rtc(mode: PortMode, rate_hz: u32, seconds: u64) -> Scenario {
    let mut scenario = Scenario::load("rtc-tick").unwrap();
    let Workload::Rtc(tick) = &mut scenario.workload else { panic!("rtc") };
    (tick.rate_hz, tick.duration_ns) = (rate_hz, seconds * 1_000_000_000);
    scenario.mode = mode;
    scenario
}

fn count(run: &RunResult, stage: Stage) -> u64 {
    run.stages.iter().find(|row| row.stage == stage.name()).map_or(0, |row| row.count)
}

fn per_access(run: &RunResult, stages: &[Stage]) -> f64 {
    let rows = run.stages.iter().filter(|row| stages.iter().any(|stage| stage.name() == row.stage));
    rows.map(|row| row.total_ns).sum::<f64>() / run.accesses as f64
}

fn event<'a>(run: &'a RunResult, name: &str) -> &'a ExitStat {
    run.exit_stats.iter().find(|row| row.event == name).unwrap_or_else(|| panic!("{name}: {:?}", run.exit_stats))
}

#[test]
fn the_five_published_figures_of_2007_come_out_of_the_runs() {
    let published = Published::built_in().unwrap().pio_latency_ns;
    let [every, needed, kernel] =
        [PortMode::RegsEveryExit, PortMode::RegsWhenNeeded, PortMode::InKernel].map(|mode| run(&pio(mode, |_| ())));
    let near = |ns: f64, figure: f64| assert!((ns - figure).abs() < 0.5, "{ns} against {figure}");
    near(every.ns_per_access, published.get_and_set_registers_every_exit);
    near(needed.ns_per_access, published.registers_only_when_needed);
    near(kernel.ns_per_access, published.handled_in_kernel);
    let handling = per_access(&needed, &[Stage::Drain, Stage::UserDevice]);
    near(needed.ns_per_access - handling, published.user_space_returns_at_once);
    near(per_access(&kernel, &[Stage::VmExit, Stage::VmEntry]), published.guest_registers_restored);
    assert_eq!([&every, &needed, &kernel].map(|run| run.outcomes.exits), [1000, 1000, 0]);
}

#[test]
fn a_variant_is_named_after_its_mode_and_shows_no_cache() {
    let scenario = Scenario::load("pio-timeline").unwrap();
    let variants = scenario.variants(Baseline::With);
    let names: Vec<_> = variants.iter().map(|variant| variant.mode.name()).collect();
    assert_eq!(names, ["regs-every-exit", "regs-when-needed", "in-kernel", "coalesced"]);
    let result = run(&pio(PortMode::Coalesced, |_| ()));
    assert_eq!((result.variant.as_str(), result.hit_rate, result.entries), ("coalesced", None, None));
    let json = serde_json::to_value(&result).unwrap();
    assert!(json.get("policy").is_none() && json.get("cache").is_none() && json["kind"] == "x86", "{json}");
}

#[test]
fn coalesced_writes_exit_once_the_ring_is_full_and_the_exit_empties_it() {
    let result = run(&pio(PortMode::Coalesced, |stream| stream.count = 1700));
    // 169 wait, the next one exits: ten times.
    assert_eq!((result.outcomes.coalesced, result.outcomes.exits, result.outcomes.ring_full), (1690, 10, 10));
    let by = [Stage::DrainedWrite, Stage::UserDevice].map(|stage| count(&result, stage));
    assert_eq!(by, [1690, 10], "each write reaches the device, be it by the ring");
    let reads = run(&pio(PortMode::Coalesced, |stream| stream.direction = PortDirection::In));
    assert_eq!((reads.outcomes.coalesced, reads.outcomes.exits), (0, 1000), "a read never coalesces");
}

#[test]
fn string_io_exits_as_often_as_kvm_makes_it() {
    let string = |direction, elements, mode| {
        run(&pio(mode, |stream| {
            (stream.count, stream.string, stream.direction, stream.width) = (10, elements, direction, PortWidth::Word);
        }))
    };
    let outs = string(PortDirection::Out, 600, PortMode::RegsWhenNeeded);
    assert_eq!((outs.attempts, outs.outcomes.exits), (6000, 6000), "REP OUTS: one exit an element");
    let ins = string(PortDirection::In, 600, PortMode::RegsWhenNeeded);
    assert_eq!((ins.attempts, ins.outcomes.exits), (20, 20), "REP INS: 512 and 88 words");
    assert_eq!(count(&ins, Stage::UserDevice), 6000);
    let kernel = string(PortDirection::Out, 600, PortMode::InKernel);
    assert_eq!((kernel.attempts, kernel.outcomes.exits, kernel.outcomes.in_kernel), (10, 0, 6000));
    let ring = string(PortDirection::Out, 600, PortMode::Coalesced);
    assert_eq!(ring.outcomes.coalesced + ring.outcomes.exits, 6000);
    assert_eq!(ring.outcomes.ring_full, ring.outcomes.exits);
}

#[test]
fn perf_times_an_out_by_its_handling_and_an_in_only_when_its_data_is_there() {
    let out = run(&pio(PortMode::RegsWhenNeeded, |_| ()));
    let input = run(&pio(PortMode::RegsWhenNeeded, |stream| stream.direction = PortDirection::In));
    let outside = per_access(&out, &[Stage::VmExit, Stage::VmEntry]);
    let timed = event(&out, "0x80:POUT");
    assert_eq!((timed.samples, timed.spread_percent), (1000, 0.0));
    assert!((timed.mean_ns - (out.ns_per_access - outside)).abs() < 1e-6);
    let timed = event(&input, "0x80:PIN");
    assert!((timed.mean_ns - per_access(&input, &[Stage::CompleteIo, Stage::PrepareEntry])).abs() < 1e-6);
}

#[test]
fn every_tick_of_the_rtc_is_taken_and_its_index_write_is_all_that_is_coalesced() {
    for (rate, seconds) in [(64, 10), (1024, 2), (8192, 1)] {
        // Without the host's noise, which now and then outlasts a period.
        let [without, with] = [PortMode::RegsWhenNeeded, PortMode::Coalesced].map(|mode| {
            let mut scenario = rtc(mode, rate, seconds);
            scenario.machine.noise = None;
            run(&scenario)
        });
        // The edge at the very end is left to what comes after.
        let ticks = u64::from(rate) * seconds - 1;
        for result in [&without, &with] {
            assert_eq!(result.jobs[0].completed, ticks, "{rate} Hz");
            assert_eq!(result.accesses, 3 * ticks);
            assert!(result.notes.is_empty(), "{:?}", result.notes);
        }
        assert_eq!((without.outcomes.exits, with.outcomes.exits), (3 * ticks, 2 * ticks));
        assert_eq!(with.outcomes.coalesced, ticks);
    }
}

#[test]
fn a_guest_that_is_slower_than_its_tick_loses_ticks_and_is_told_so() {
    let mut scenario = rtc(PortMode::RegsWhenNeeded, 8192, 1);
    scenario.machine.around.get_mut("interrupt").unwrap().ns = 300_000.0;
    let result = run(&scenario);
    assert!(result.jobs[0].completed < 4096, "{:?}", result.jobs);
    let [note] = &result.notes[..] else { panic!("{:?}", result.notes) };
    assert!(note.contains("lost ticks"), "{note}");
}

#[test]
fn an_rtc_in_the_kernel_needs_no_user_space() {
    let mut scenario = rtc(PortMode::InKernel, 64, 1);
    let Workload::Rtc(tick) = &mut scenario.workload else { panic!("rtc") };
    tick.pm_timer_reads = 0;
    let result = run(&scenario);
    assert_eq!((result.outcomes.exits, result.outcomes.in_kernel), (0, 2 * 63));
}

#[test]
fn the_published_means_of_2018_come_out_within_twice_their_own_spread() {
    let published = Published::built_in().unwrap().coalesced_pio;
    // Fitted: 0xcf8 without. A run of as many samples, another seed each, scatters around it as the row's spread says.
    let [_, row] = &published.without;
    let mean_us = |seed| {
        let mut scenario = pio(PortMode::RegsWhenNeeded, |stream| {
            (stream.port, stream.width, stream.count) = (Port(0xcf8), PortWidth::Dword, row.samples);
        });
        (scenario.machine, scenario.seed) = (Machine::built_in("x86-2018-qemu-win7").unwrap(), seed);
        let result = run(&scenario);
        let seen = event(&result, &row.access);
        assert_eq!(seen.samples, row.samples);
        assert!(seen.min_ns >= row.min_us * 1000.0 && seen.min_ns < row.min_us * 1010.0, "{seen:?}");
        seen.mean_ns / 1000.0
    };
    let means: Vec<_> = (0..40).map(mean_us).collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    assert!((mean / row.avg_us - 1.0).abs() < 0.015, "{mean} against {}", row.avg_us);
    // Predicted: 0x70 without and with.
    for (mode, rows) in [(PortMode::RegsWhenNeeded, &published.without), (PortMode::Coalesced, &published.with)] {
        let (result, row) = (run(&rtc(mode, 64, 100)), &rows[0]);
        let seen = event(&result, &row.access);
        let off_percent = (seen.mean_ns / 1000.0 / row.avg_us - 1.0) * 100.0;
        assert!(off_percent.abs() < 2.0 * row.avg_spread_pct, "{seen:?} against {row:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
    for mode in [PortMode::RegsWhenNeeded, PortMode::Coalesced, PortMode::InKernel] {
        let scenario = rtc(mode, 64, 5);
        let json = |scenario: &Scenario| serde_json::to_string(&run(scenario)).unwrap();
        assert_eq!(json(&scenario), json(&scenario));
        let other = Scenario { seed: 1, ..scenario.clone() };
        assert_ne!(json(&scenario), json(&other));
    }
}

#[test]
fn a_workload_on_the_other_kind_of_machine_is_an_error() {
    let mut x86 = pio(PortMode::InKernel, |_| ());
    x86.machine = Machine::built_in("power8-2016").unwrap();
    let mut power = Scenario::load("doorbells").unwrap();
    power.machine = Machine::built_in("x86-2007-amd-x2").unwrap();
    for scenario in [x86, power] {
        let error = hvmmio::sim::run(&scenario, &mut |_| ()).unwrap_err();
        assert!(matches!(error, SimError::Misfit { .. }), "{error}");
    }
}

#[test]
fn a_mix_pays_for_each_kind_what_its_stages_cost_and_the_kinds_make_the_whole() {
    let mut scenario = Scenario::load("mixed").unwrap();
    let Workload::Mixed(mixed) = &mut scenario.workload else { panic!("mixed") };
    mixed.count = 5000;
    let result = run(&scenario);
    assert_eq!(result.kinds.len(), hvmmio::workload::mixed::KINDS, "each kind of the scenario is met");
    assert_eq!(result.kinds.iter().map(|stat| stat.count).sum::<u64>(), 5000);
    let whole: f64 = result.kinds.iter().map(|stat| stat.count as f64 * stat.ns).sum();
    assert!((whole / 1e9 - result.virtual_s).abs() < 1e-9, "{whole} ns, {} s", result.virtual_s);
    let ns = |name: &str| result.kinds.iter().find(|stat| stat.kind == name).unwrap().ns;
    assert_eq!(ns("ecam-read-only"), scenario.machine.stage_ns("memory-read"));
    assert!(ns("doorbell-ioeventfd-0") < ns("doorbell-ioeventfd"), "the fast bus is asked before decoding");
    assert!(ns("doorbell-ioeventfd") < ns("doorbell-exit"));
    // The same seed draws the same, another another.
    assert_eq!(run(&scenario), result);
    scenario.seed += 1;
    assert_ne!(run(&scenario).kinds, result.kinds);
}
