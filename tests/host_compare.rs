//! The simulator's I/O side against this machine's real kernel.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod host_common;
#[path = "host_common/programs.rs"]
mod programs;

use host_common::kvm;
use hvmmio::addr::{CoalescedRoom, GuestPhysAddr, KernelBehaviour, Port};
use hvmmio::device::UserSpace;
use hvmmio::host::x86_64::{Asm, CODE, EXIT_PORT, MMIO, Reg, probe};
use hvmmio::io::{CoalescedZone, HostPage, IoSpace};
use hvmmio::kvm_x86::{Direction, PortWidth, Target, Width};
use hvmmio::proof::compare::{compare, compare_streams, stream_of};
use hvmmio::sim::{Baseline, Scenario};
use programs::{guest, limit};

const PORT: u16 = 0x5a0;
const SLOTS: u32 = 170;

#[test]
fn drawn_streams_go_the_same_way_on_the_real_kernel() {
    let Some(system) = kvm() else { return };
    let found = probe(&system).unwrap();
    let kernel = (found.behaviour(), found.fast_mmio.unwrap());
    let compared = compare_streams(&system, kernel, (77_000, 10, 5000), 2, &|_| {}).unwrap();
    assert!(compared.difference.is_none(), "{}", compared.difference.unwrap());
    let counts = compared.counts;
    assert_eq!((counts.streams, counts.accesses), (10, 50_000));
    // Nothing that is compared was missing from what was drawn.
    let least = [counts.exits / 1000, counts.coalesced / 1000, counts.ring_full, counts.signals, counts.memory];
    assert!(least.iter().all(|count| *count > 0) && counts.refused > 0 && counts.bytes_read > 0, "{counts:?}");
}

#[test]
fn a_kernel_simulated_with_the_other_room_rule_is_found_out_at_the_write_where_they_part() {
    let Some(system) = kvm() else { return };
    let found = probe(&system).unwrap();
    let mut behaviour = found.behaviour();
    behaviour.coalesced_room = match behaviour.coalesced_room {
        CoalescedRoom::Fixed => CoalescedRoom::Legacy,
        CoalescedRoom::Legacy => CoalescedRoom::Fixed,
    };
    let mut scenario = Scenario::load("pio-timeline").unwrap();
    scenario.modes.retain(|mode| mode.name() == "coalesced");
    let stream = stream_of(&scenario.variants(Baseline::Without)[0], 500).unwrap();
    let compared = compare(&system, (behaviour, found.fast_mmio.unwrap()), &stream).unwrap();
    let difference = compared.difference.expect("85 entries against 169");
    // 85 writes are absorbed by both; the 86th, counted from 0 as 85, is not.
    assert_eq!((difference.access, difference.what), (85, "the exit"), "{difference}");
    assert_eq!((difference.simulated.first, difference.real.first), (0, 0));
    assert_eq!(difference.simulated.waiting.len().abs_diff(difference.real.waiting.len()), 1, "{difference}");
}

#[test]
fn scenarios_go_the_same_way_in_each_mode() {
    let Some(system) = kvm() else { return };
    let found = probe(&system).unwrap();
    for name in ["pio-timeline", "rtc-tick", "pci-scan", "mixed"] {
        let scenario = Scenario::load(name).unwrap();
        let variants = scenario.variants(Baseline::Without);
        let streams: Vec<_> = variants.iter().filter_map(|variant| stream_of(variant, 600)).collect();
        // A mix has every way in one.
        assert!(streams.len() >= 2 || name == "mixed" && streams.len() == 1, "{name}");
        for stream in streams {
            let kernel = (found.behaviour(), found.fast_mmio.unwrap());
            let compared = compare(&system, kernel, &stream).unwrap();
            assert!(compared.difference.is_none(), "{name}: {}", compared.difference.unwrap());
            let counts = compared.counts;
            assert!(counts.accesses >= 500, "{name}");
            let each = [counts.exits, counts.coalesced, counts.signals, counts.memory];
            assert!(name != "mixed" || each.iter().all(|count| *count > 20), "{each:?}");
        }
    }
}

/// The value of a write of case ring-mixed.
fn value(number: u32) -> u64 {
    0x1000_0001 * u64::from(number + 1)
}

/// The writes of case ring-mixed, by turns; then a read of the zone and a write elsewhere.
fn mixed_writes(asm: &mut Asm) {
    for number in 0..SLOTS {
        if number % 2 == 0 {
            asm.mov(Reg::Rdi, MMIO).mov(Reg::Rax, value(number)).store(Width::Qword);
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "a dword is written")]
            asm.out(PORT, PortWidth::Dword, value(number) as u32);
        }
    }
    asm.mov(Reg::Rdi, MMIO).load(Width::Dword);
    asm.out(PORT + 4, PortWidth::Dword, 0);
}

fn zones() -> [CoalescedZone; 2] {
    [CoalescedZone { addr: MMIO, size: 8, pio: 0 }, CoalescedZone { addr: PORT.into(), size: 4, pio: 1 }]
}

/// Case ring-mixed: the kernel self-test's list, on the real ring, for every start index.
#[test]
fn the_real_ring_absorbs_all_but_one_slot_from_every_start_index() {
    let Some(system) = kvm() else { return };
    let (vm, mut vcpu) = guest(&system, mixed_writes);
    let ring = vcpu.ring().unwrap();
    assert_eq!(ring.slots(), SLOTS);
    zones().into_iter().for_each(|zone| vm.register_zone(zone).unwrap());
    let limit = limit();
    let room = probe(&system).unwrap().behaviour().coalesced_room;
    for start in 0..SLOTS {
        let absorbed = if room == CoalescedRoom::Legacy && start <= 84 { 85 } else { SLOTS - 1 };
        ring.write_first(start);
        ring.write_last(start);
        vcpu.enter_at(CODE).unwrap();
        let exit = vcpu.run(&limit).unwrap();
        let refused = if absorbed % 2 == 0 {
            (Target::Mmio(GuestPhysAddr(MMIO)), value(absorbed).to_le_bytes().to_vec())
        } else {
            (Target::Port(Port(PORT)), value(absorbed).to_le_bytes()[..4].to_vec())
        };
        assert_eq!((exit.target, vcpu.exit_data().to_vec()), refused, "start {start}");
        let entries = ring.waiting().unwrap();
        assert_eq!((entries.len(), ring.first()), (absorbed as usize, start));
        if absorbed == SLOTS - 1 {
            assert_eq!((ring.last() + 1) % SLOTS, start);
        }
        for (entry, number) in entries.iter().zip(0..) {
            let bytes = value(number).to_le_bytes();
            let expected = if number % 2 == 0 { (MMIO, 0, &bytes[..]) } else { (PORT.into(), 1, &bytes[..4]) };
            assert_eq!((entry.addr, entry.pio, entry.data()), expected, "start {start}, entry {number}");
        }
        // The other exits up to the end leave the ring as it is.
        let last = ring.last();
        let mut exits = Vec::new();
        loop {
            let exit = vcpu.run(&limit).unwrap();
            if exit.target == Target::Port(Port(EXIT_PORT)) {
                break;
            }
            exits.push((exit.target, exit.direction));
        }
        let read = (Target::Mmio(GuestPhysAddr(MMIO)), Direction::Read);
        let elsewhere = (Target::Port(Port(PORT + 4)), Direction::Write);
        assert_eq!(exits[exits.len() - 2..], [read, elsewhere]);
        assert_eq!((ring.waiting().unwrap(), ring.last()), (entries, last), "start {start}");
        assert_eq!(ring.drain(|_| {}).unwrap(), absorbed);
    }
    // After unregister each write exits at once.
    zones().into_iter().for_each(|zone| vm.unregister_zone(zone).unwrap());
    vcpu.enter_at(CODE).unwrap();
    let exits = vcpu.run_until(EXIT_PORT, &UserSpace::new(), Some(&*ring), &limit).unwrap();
    assert_eq!((exits, ring.waiting().unwrap().len()), (u64::from(SLOTS) + 2, 0));
}

/// Case ring-hostile-last: an index outside is no room, and nothing is written outside the ring.
#[test]
fn a_last_outside_the_real_ring_makes_every_write_exit() {
    let Some(system) = kvm() else { return };
    let (vm, mut vcpu) = guest(&system, |asm| {
        asm.out(PORT, PortWidth::Dword, 7);
    });
    vm.register_zone(zones()[1]).unwrap();
    let ring = vcpu.ring().unwrap();
    let limit = limit();
    for last in [SLOTS, SLOTS + 1, u32::MAX] {
        ring.write_last(last);
        vcpu.enter_at(CODE).unwrap();
        assert_eq!(vcpu.run(&limit).unwrap().target, Target::Port(Port(PORT)), "last {last:#x}");
        assert_eq!(ring.last(), last);
        assert!(ring.waiting().is_err());
        assert_eq!(vcpu.run(&limit).unwrap().target, Target::Port(Port(EXIT_PORT)));
    }
}

/// A size that is negative as the kernel's int, and a range that wraps around: whether it is refused or not, no write waits.
/// The simulator refuses the second, which the kernel need not.
#[test]
fn a_zone_of_4_gib_or_one_that_wraps_around_takes_no_write_on_the_real_kernel() {
    let Some(system) = kvm() else { return };
    let (vm, mut vcpu) = guest(&system, |asm| {
        asm.mov(Reg::Rdi, MMIO).store(Width::Dword);
    });
    let answers = [(MMIO, u32::MAX), (u64::MAX - 3, 16)].map(|(addr, size)| {
        let zone = CoalescedZone { addr, size, pio: 0 };
        let sim = IoSpace::new(HostPage::Kib4, KernelBehaviour::default());
        (vm.register_zone(zone).is_ok(), sim.register_zone(zone).is_ok())
    });
    assert_eq!(answers, [(true, true), (true, false)], "(real, simulated)");
    let exits = vcpu.run_until(EXIT_PORT, &UserSpace::new(), None, &limit()).unwrap();
    assert_eq!(exits, 1);
}

fn run_cli(args: &[&str]) -> (Option<i32>, String) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_hvmmio")).args(args).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_command_line_probes_and_compares_and_says_so_by_its_exit_code() {
    if kvm().is_none() {
        let (code, text) = run_cli(&["host", "probe"]);
        assert!(code == Some(1) && text.contains("/dev/kvm"), "{text}");
        return;
    }
    let (code, text) = run_cli(&["host", "probe", "--format", "json"]);
    assert!(code == Some(0) && text.contains("\"room\""), "{text}");
    let (code, text) = run_cli(&["compare", "--streams", "2", "--accesses", "300"]);
    assert!(code == Some(0) && text.contains("equal"), "{text}");
    let (code, text) = run_cli(&["compare", "doorbells"]);
    assert!(code == Some(2), "{text}");
    let (code, text) =
        run_cli(&["compare", "--streams", "10", "--accesses", "3000", "--set", "zone_lookup=all-matching"]);
    assert!(code == Some(1) && text.contains("DIFFERENT") && text.contains("simulated"), "{text}");
}
