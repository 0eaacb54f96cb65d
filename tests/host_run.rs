//! Scenarios on this machine's real KVM: every access is accounted for, and goes where the simulator says it goes.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod host_common;

use std::time::Duration;

use host_common::kvm;
use hvmmio::addr::CoalescedRoom;
use hvmmio::device::NotifyLayout;
use hvmmio::host::x86_64::run::{Pace, run, variants};
use hvmmio::host::x86_64::{HostError, System, probe};
use hvmmio::sim::{self, Notify, Pattern, RunResult, Scenario, Workload};
use hvmmio::workload::pci_config::PciTask;
use hvmmio::workload::ports::{PortDirection, PortMode};

const ACCESSES: u64 = 1000;

/// A shipped scenario with so many accesses.
fn short(name: &str) -> Scenario {
    let mut scenario = Scenario::load(name).unwrap();
    match &mut scenario.workload {
        Workload::Pio(stream) => stream.count = ACCESSES,
        Workload::Doorbells(bells) => bells.count = ACCESSES,
        Workload::Mixed(mixed) => mixed.count = ACCESSES,
        Workload::Pci(config) => {
            if let PciTask::RawReads { count, .. } = &mut config.task {
                *count = ACCESSES;
            }
        }
        _ => {}
    }
    scenario
}

fn pio(change: impl FnOnce(&mut hvmmio::workload::ports::PioStream)) -> Scenario {
    let mut scenario = short("pio-timeline");
    let Workload::Pio(stream) = &mut scenario.workload else { panic!("it is a port stream") };
    change(stream);
    scenario
}

fn on_host(system: &System, scenario: &Scenario) -> RunResult {
    let result = run(system, scenario, Pace::Whole, &mut |_| {}).unwrap();
    let measured = result.measured.as_ref().unwrap();
    let by_kind: u64 = measured.exits.iter().map(|exit| exit.count).sum();
    assert_eq!(by_kind, result.outcomes.exits, "{}", result.variant);
    result
}

/// Accesses, exits, of these with a full ring, coalesced, signalled or done in the kernel.
fn ended(run: &RunResult) -> [u64; 5] {
    let outcomes = run.outcomes;
    let kernel = outcomes.eventfd + outcomes.fast_mmio + outcomes.in_kernel;
    [run.accesses, outcomes.exits, outcomes.ring_full, outcomes.coalesced, kernel]
}

/// Whether the ring here has the room that the simulator gives it by default.
fn fixed_room(system: &System) -> bool {
    probe(system).unwrap().behaviour().coalesced_room == CoalescedRoom::Fixed
}

/// Cases ring-room and drain-before-exit on a guest's own loop: 169 writes wait, the next finds the ring full.
#[test]
fn a_stream_of_outs_ends_as_the_simulator_says_in_every_mode() {
    let Some(system) = kvm() else { return };
    let fixed = fixed_room(&system);
    for variant in variants(&short("pio-timeline")) {
        if variant.mode == PortMode::Coalesced && !fixed {
            continue;
        }
        let simulated = sim::run(&variant, &mut |_| {}).unwrap();
        // What is still in the ring at the end counts as coalesced on both sides.
        assert_eq!(ended(&on_host(&system, &variant)), ended(&simulated), "{}", variant.mode);
    }
}

/// The device checks each element, the guest what it read: by value, in order.
#[test]
fn ins_and_strings_of_every_width_bring_the_right_data() {
    let Some(system) = kvm() else { return };
    for width in [1, 2, 4] {
        let width = hvmmio::kvm_x86::PortWidth::of_bytes(width).unwrap();
        for (direction, string) in [(PortDirection::In, 1), (PortDirection::In, 20), (PortDirection::Out, 20)] {
            let scenario = pio(|stream| {
                (stream.direction, stream.string, stream.width, stream.count) = (direction, string, width, 100)
            });
            for mode in [PortMode::RegsWhenNeeded, PortMode::RegsEveryExit] {
                let run = on_host(&system, &Scenario { mode, ..scenario.clone() });
                // INS exits with all of its elements, OUTS with each.
                let exits = if direction == PortDirection::Out { 2000 } else { 100 };
                assert_eq!(ended(&run), [100, exits, 0, 0, 0], "{direction:?} {string} {width:?} {mode}");
            }
        }
    }
}

#[test]
fn rtc_ticks_find_their_interrupt_and_exit_as_often_as_simulated_ones() {
    let Some(system) = kvm() else { return };
    for variant in variants(&Scenario::load("rtc-tick").unwrap()) {
        let simulated = sim::run(&variant, &mut |_| {}).unwrap();
        let run = on_host(&system, &variant);
        // The simulator's last tick is the one at the very end, which the host makes too.
        let ticks = run.jobs[0].completed;
        assert!(ticks.abs_diff(simulated.jobs[0].completed) <= 1, "{ticks}");
        let coalesced = variant.mode == PortMode::Coalesced;
        let expected = if coalesced { [3 * ticks, 2 * ticks, 0, ticks, 0] } else { [3 * ticks, 3 * ticks, 0, 0, 0] };
        assert_eq!(ended(&run), expected, "{}", variant.mode);
    }
}

/// Case readonly-ecam-fresh and ecam-equals-cf8 on a real guest: what a scan finds is what is there, BAR sizes too, which a
/// device's answers to writes are.
#[test]
fn a_pci_scan_by_every_method_takes_what_the_simulator_says() {
    let Some(system) = kvm() else { return };
    for variant in variants(&Scenario::load("pci-scan").unwrap()) {
        let simulated = sim::run(&variant, &mut |_| {}).unwrap();
        let run = on_host(&system, &variant);
        let counts = |run: &RunResult| {
            let config = run.config.unwrap();
            let exits = [config.port_exits, config.mmio_exits, config.read_exits, config.memory_reads];
            (config.functions, config.reads, config.writes, exits, ended(run))
        };
        assert_eq!(counts(&run), counts(&simulated), "{}", run.variant);
    }
}

#[test]
fn raw_reads_exit_twice_once_or_never_and_all_bring_the_register() {
    let Some(system) = kvm() else { return };
    for variant in variants(&short("pci-raw-read")) {
        let simulated = sim::run(&variant, &mut |_| {}).unwrap();
        let run = on_host(&system, &variant);
        let counts = |run: &RunResult| (run.config.unwrap().read_exits, run.config.unwrap().memory_reads, ended(run));
        assert_eq!(counts(&run), counts(&simulated), "{}", run.variant);
    }
}

/// Case readonly-ecam-fresh, with a device that changes its own register: no store of the guest's makes it.
#[test]
fn a_guest_sees_at_once_what_a_device_changes_behind_a_read_only_slot() {
    use hvmmio::device::{PciHost, UserSpace};
    use hvmmio::host::x86_64::{DATA, Deadline, EXIT_PORT, EcamMemory, Reg, Vm};
    use hvmmio::io::pci::{Attachment, Bdf, EcamWindow, HostBridge, PciBus, Register, Width as Bytes};
    use hvmmio::kvm_x86::{PortWidth, Target, Width};

    let Some(system) = kvm() else { return };
    let (bdf, window) = (Bdf::from_bits(1 << 3), EcamWindow::default());
    // Command and Status in one dword; Status bit 3 is the interrupt's.
    let register = Register::new(4, Bytes::Dword).unwrap();
    let bus = PciBus::with_virtio(1, Attachment::IntegratedEndpoint).unwrap();
    let ecam = EcamMemory::new(PciHost::new(HostBridge::new(window, bus))).unwrap();
    let vm = Vm::new(&system).unwrap();
    vm.add_read_only(window.base().0, std::sync::Arc::clone(ecam.memory())).unwrap();
    let user = UserSpace::new();
    ecam.attach(&user);

    let mut asm = hvmmio::host::x86_64::Asm::new();
    let register_at = window.addr(bdf, register).0;
    let look = |asm: &mut hvmmio::host::x86_64::Asm, place: u64| {
        asm.mov(Reg::Rdi, register_at).clear_rax().load(Width::Dword).save_rax(DATA + place * 8);
    };
    look(&mut asm, 0);
    asm.out(0x5a0, PortWidth::Byte, 0);
    look(&mut asm, 1);
    // The guest's own store exits; the bridge takes what Command has of it, and the next load shows it.
    asm.mov(Reg::Rdi, register_at).mov(Reg::Rax, 0x0006).store(Width::Word);
    look(&mut asm, 2);
    asm.out(EXIT_PORT, PortWidth::Byte, 0);
    let entry = hvmmio::host::x86_64::CODE;
    vm.load(entry, asm.code()).unwrap();
    let mut vcpu = vm.vcpu(&system, 0, entry).unwrap();
    let deadline = Deadline::after(Duration::from_secs(30)).unwrap();

    let exit = vcpu.run(&deadline).unwrap();
    assert_eq!(exit.target, Target::Port(hvmmio::addr::Port(0x5a0)), "the first look makes no exit");
    let before = ecam.host().bridge().bus().read(bdf, register);
    let changed = before | 1 << 19;
    ecam.host().bridge().bus_mut().function_mut(bdf).unwrap().set_register(register, changed);
    ecam.publish(bdf).unwrap();
    let exits = vcpu.run_until(EXIT_PORT, &user, None, &deadline).unwrap();
    let after = ecam.host().bridge().bus().read(bdf, register);
    let seen = [0, 8, 16].map(|at| {
        let mut value = [0; 4];
        vm.ram().read(DATA + at, &mut value).unwrap();
        u32::from_le_bytes(value)
    });
    assert_eq!((exits, seen), (1, [before, changed, after]));
    assert_eq!(after, changed & 0xffff_0000 | 0x0006);
}

/// Each device is told as often as its doorbell rang: the run fails if not.
#[test]
fn doorbells_of_two_vcpus_end_where_each_way_sends_them() {
    let Some(system) = kvm() else { return };
    for (layout, pattern) in [(NotifyLayout::Modern, Pattern::RoundRobin), (NotifyLayout::Legacy, Pattern::Uniform)] {
        let mut scenario = short("doorbells");
        (scenario.vcpus, scenario.devices, scenario.layout) = (2, 5, layout);
        let Workload::Doorbells(bells) = &mut scenario.workload else { panic!("it is a doorbell stream") };
        bells.pattern = pattern;
        let all = 2 * ACCESSES;
        for variant in variants(&scenario) {
            let [accesses, exits, full, coalesced, signals] = ended(&on_host(&system, &variant));
            assert_eq!((accesses, exits + coalesced + signals), (all, all), "{:?}", variant.notify);
            match variant.notify {
                Notify::Exit => assert_eq!(exits, all),
                Notify::Ioeventfd { .. } => assert_eq!(signals, all),
                // How often two vCPUs find it full depends on who drains it when.
                Notify::Coalesced { .. } => assert!(exits == full && coalesced > all / 2, "{coalesced}"),
            }
        }
    }
}

/// The guest checks what it reads, the devices what is written, the run how often each kind was seen. Writes of kinds that a ring
/// takes alone fill it.
#[test]
fn a_mix_of_every_way_ends_kind_by_kind_as_the_simulator_says() {
    use hvmmio::workload::mixed::{Mixed, MixedKind};

    let Some(system) = kvm() else { return };
    if !fixed_room(&system) {
        println!("SKIPPED: this host's ring has the legacy room");
        return;
    }
    let mut floods = short("mixed");
    floods.workload = Workload::Mixed(Mixed::only(MixedKind::DoorbellCoalesced, ACCESSES));
    // Longer than a block, so that a part of one is repeated.
    let mut long = short("mixed");
    let Workload::Mixed(mixed) = &mut long.workload else { panic!("it is a mix") };
    mixed.count = 2500;
    for scenario in [long, floods] {
        let simulated = sim::run(&scenario, &mut |_| {}).unwrap();
        let run = on_host(&system, &scenario);
        let kinds = |run: &RunResult| run.kinds.iter().map(|stat| (stat.kind, stat.count)).collect::<Vec<_>>();
        assert_eq!(kinds(&run), kinds(&simulated));
        assert_eq!(ended(&run), ended(&simulated));
        let addresses = |run: &RunResult| (run.mmio_accesses, run.outcomes.ram);
        assert_eq!(addresses(&run), addresses(&simulated));
    }
}

#[test]
fn two_vcpus_that_mix_lose_and_double_nothing() {
    let Some(system) = kvm() else { return };
    let mut scenario = short("mixed");
    scenario.vcpus = 2;
    let run = on_host(&system, &scenario);
    assert_eq!(run.kinds.iter().map(|stat| stat.count).sum::<u64>(), 2 * ACCESSES);
    // INs and exiting reads and writes are all that is beside these.
    let [accesses, exits, full, coalesced, signals] = ended(&run);
    assert_eq!((accesses, exits + coalesced + signals + run.outcomes.ram), (2 * ACCESSES, 2 * ACCESSES));
    assert!(full <= exits && run.kinds.iter().all(|stat| stat.ns >= 0.0));
}

#[test]
fn a_poller_and_two_vcpus_lose_and_double_no_doorbell() {
    let Some(system) = kvm() else { return };
    let mut scenario = short("doorbells-coalesced");
    (scenario.vcpus, scenario.devices) = (2, 7);
    for variant in variants(&scenario).into_iter().filter(|variant| matches!(variant.notify, Notify::Coalesced { .. }))
    {
        let [accesses, exits, _, coalesced, _] = ended(&on_host(&system, &variant));
        assert_eq!((accesses, exits + coalesced), (2 * ACCESSES, 2 * ACCESSES));
    }
}

#[test]
fn a_run_that_has_its_time_stops_and_says_how_far_it_came() {
    let Some(system) = kvm() else { return };
    let scenario = pio(|stream| stream.count = 1 << 40);
    let result = run(&system, &scenario, Pace::Within(Duration::from_millis(20)), &mut |_| {}).unwrap();
    assert!(result.accesses < 1 << 40 && result.notes.iter().any(|note| note.contains("time for it was over")));
    assert_eq!(result.outcomes.exits, result.accesses);
}

#[test]
fn what_no_host_can_run_is_refused_in_words() {
    let Some(system) = kvm() else { return };
    let ins = pio(|stream| stream.direction = PortDirection::In);
    let mut many = short("doorbells");
    many.vcpus = 1000;
    for (scenario, word) in [
        (Scenario::load("fio-null-blk").unwrap(), "does not run on real KVM"),
        (Scenario { mode: PortMode::InKernel, ..ins }, "takes OUTs and no INs"),
        (Scenario { mode: PortMode::InKernel, ..Scenario::load("rtc-tick").unwrap() }, "no RTC in the kernel"),
        (many, "vCPUs"),
    ] {
        let error = run(&system, &scenario, Pace::Whole, &mut |_| {}).unwrap_err();
        assert!(matches!(error, HostError::Unsupported(_)) && error.to_string().contains(word), "{error}");
    }
}

fn cli(args: &[&str]) -> (Option<i32>, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_hvmmio")).args(args).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_command_line_marks_figures_as_measured_and_refuses_what_means_nothing() {
    if kvm().is_none() {
        return;
    }
    let (code, text) =
        cli(&["host", "run", "pio-timeline", "--mode", "coalesced", "--count", "300", "--format", "csv"]);
    assert!(code == Some(0) && text.contains("time per access, median") && text.contains("ns,measured"), "{text}");
    let (code, text) = cli(&["host", "run", "rtc-tick", "--vcpus", "2"]);
    assert!(code == Some(2) && text.contains("--vcpus means nothing"), "{text}");
    let (code, text) = cli(&["host", "run", "fio-null-blk"]);
    assert!(code == Some(2) && text.contains("does not run on real KVM"), "{text}");
    let (code, text) = cli(&["reproduce", "fio", "--host"]);
    assert!(code == Some(2) && text.contains("nothing runs on x86"), "{text}");
}

/// Times are never asserted: that the model is one, and that it predicts something for every workload that it has not seen.
#[test]
fn a_model_of_this_host_is_one_that_the_simulator_takes() {
    let Some(system) = kvm() else { return };
    let model = hvmmio::proof::host_fit::fit_host(&system, "here", &mut |_| {}).unwrap();
    let read = hvmmio::machine::Machine::parse("here.toml", &model.text).unwrap();
    assert_eq!(read, model.machine);
    assert!(read.stage.values().all(|cost| cost.kind.name() == "measured" && !cost.source.is_empty()));
    assert_eq!(model.held_out.len(), 8);
    for row in &model.held_out {
        assert!(row.predicted_ns > 0.0 && row.measured_ns > 0.0, "{row:?}");
        assert!(row.least_ns <= row.measured_ns && row.measured_ns <= row.greatest_ns, "{row:?}");
    }
    let mut scenario = Scenario::load("pio-timeline").unwrap();
    scenario.machine = read;
    assert_eq!(sim::run(&scenario, &mut |_| {}).unwrap().machine, "here");
}

#[test]
fn reproduce_sets_a_measured_column_beside_published_and_simulated() {
    if kvm().is_none() {
        return;
    }
    let (code, text) = cli(&["reproduce", "pci-config", "--host", "--format", "json"]);
    assert_eq!(code, Some(0), "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ratios = report["host"]["ratios"].as_array().unwrap();
    let names: Vec<_> = ratios.iter().map(|row| row["ratio"].as_str().unwrap()).collect();
    assert_eq!(names, ["read-only", "ports"]);
    for row in ratios {
        assert!(
            ["published", "simulated", "measured"].iter().all(|column| row[column].as_f64().unwrap() > 0.0),
            "{row}"
        );
    }
    let (_, text) = cli(&["reproduce", "pci-config", "--host"]);
    assert!(text.contains("this host's own times") && text.contains("**"), "{text}");
}
