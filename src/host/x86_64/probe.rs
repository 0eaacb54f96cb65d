//! What this machine's KVM is and does, some of it by experiment.

use std::time::{Duration, Instant};

use kvm_bindings::{
    KVM_CAP_COALESCED_MMIO, KVM_CAP_COALESCED_PIO, KVM_CAP_IMMEDIATE_EXIT, KVM_CAP_IOEVENTFD,
    KVM_CAP_IOEVENTFD_ANY_LENGTH, KVM_CAP_MAX_VCPUS, KVM_CAP_NR_MEMSLOTS, KVM_CAP_READONLY_MEM, KVM_CAP_SYNC_REGS,
    KVM_CAP_USER_MEMORY,
};

use crate::addr::{CoalescedRoom, ZoneLookup};
use crate::device::UserSpace;
use crate::host::probe::{Ability, Capability, Execution, Probe, RingFound};
use crate::host::release;
use crate::io::{CoalescedZone, EventfdId, IoBus, Ioeventfd};
use crate::kvm_x86::{Direction, FastMmio, PortWidth, Width};

use super::{Asm, CODE, Deadline, EXIT_PORT, HostError, HostEventfd, MMIO, Reg, System, Vcpu, Vm};

/// How long one experiment may take: a thousand times what it does take, and interpreted guests have their time too.
const LIMIT: Duration = Duration::from_secs(20);
/// A port that no device has.
const PORT: u16 = 0x5a0;
/// A turn longer than this is interpreted: no processor of the last twenty years needs it, and no interpreter does with it.
const NATIVE_BELOW_NS: f64 = 50.0;
/// Start indices that tell the room rules apart: below and above 84, where the legacy one changes (4 KiB pages).
const STARTS: [u32; 4] = [0, 84, 85, 169];

const CAPABILITIES: &[(&str, u32, &str)] = &[
    ("KVM_CAP_USER_MEMORY", KVM_CAP_USER_MEMORY, "gives guests memory of this process: needed for everything"),
    ("KVM_CAP_COALESCED_MMIO", KVM_CAP_COALESCED_MMIO, "lets MMIO writes wait in a ring; its value is the ring's page"),
    ("KVM_CAP_COALESCED_PIO", KVM_CAP_COALESCED_PIO, "lets port writes wait in the same ring"),
    ("KVM_CAP_IOEVENTFD", KVM_CAP_IOEVENTFD, "turns a write into an eventfd's count"),
    ("KVM_CAP_IOEVENTFD_ANY_LENGTH", KVM_CAP_IOEVENTFD_ANY_LENGTH, "ioeventfds of length 0, which take every width"),
    ("KVM_CAP_READONLY_MEM", KVM_CAP_READONLY_MEM, "read-only memslots: ECAM read without an exit"),
    ("KVM_CAP_SYNC_REGS", KVM_CAP_SYNC_REGS, "registers in kvm_run, in place of KVM_GET_REGS and KVM_SET_REGS"),
    ("KVM_CAP_IMMEDIATE_EXIT", KVM_CAP_IMMEDIATE_EXIT, "lets a signal handler keep a vCPU from entering"),
    ("KVM_CAP_NR_MEMSLOTS", KVM_CAP_NR_MEMSLOTS, "memslots of a VM"),
    ("KVM_CAP_MAX_VCPUS", KVM_CAP_MAX_VCPUS, "vCPUs of a VM"),
];

/// Looks at the host, and tries on it what no capability tells.
///
/// # Errors
/// KVM lacks what everything needs, or an experiment's guest fails.
pub fn probe(system: &System) -> Result<Probe, HostError> {
    let capability = |(name, number, enables): &(&'static str, u32, &'static str)| Capability {
        name,
        value: system.extension(*number),
        enables,
    };
    let capabilities: Vec<_> = CAPABILITIES.iter().map(capability).collect();
    let has = |number| system.extension(number) != 0;
    let ring = if has(KVM_CAP_COALESCED_PIO) { Some(ring(system)?) } else { None };
    let zone_lookup = if has(KVM_CAP_COALESCED_MMIO) { Some(zone_lookup(system)?.name()) } else { None };
    let fast_mmio = if has(KVM_CAP_IOEVENTFD_ANY_LENGTH) { Some(fast_mmio(system)?) } else { None };
    let loop_ns = loop_ns(system)?;
    Ok(Probe {
        api_version: system.api_version(),
        kernel: release(),
        modules: modules(),
        capabilities,
        ring,
        zone_lookup,
        fast_mmio,
        execution: if loop_ns < NATIVE_BELOW_NS { Execution::Native } else { Execution::Interpreted },
        loop_ns,
        exit_ns: exit_ns(system)?,
        abilities: abilities(has),
    })
}

fn modules() -> Vec<String> {
    let known = ["kvm", "kvm_intel", "kvm_amd", "kvm_pvm"];
    known
        .iter()
        .filter(|name| std::path::Path::new("/sys/module").join(name).exists())
        .map(|&name| name.into())
        .collect()
}

fn abilities(has: impl Fn(u32) -> bool) -> Vec<Ability> {
    let ability = |what, needs: &[(u32, &'static str)]| {
        let missing = needs.iter().find(|(number, _)| !has(*number)).map(|(_, name)| *name);
        Ability { what, missing }
    };
    let mmio = (KVM_CAP_COALESCED_MMIO, "KVM_CAP_COALESCED_MMIO");
    let pio = (KVM_CAP_COALESCED_PIO, "KVM_CAP_COALESCED_PIO");
    let eventfd = (KVM_CAP_IOEVENTFD, "KVM_CAP_IOEVENTFD");
    let any = (KVM_CAP_IOEVENTFD_ANY_LENGTH, "KVM_CAP_IOEVENTFD_ANY_LENGTH");
    let read_only = (KVM_CAP_READONLY_MEM, "KVM_CAP_READONLY_MEM");
    vec![
        ability("port I/O in user space, with and without register traffic", &[]),
        ability("port I/O coalesced; RTC tick with its index coalesced", &[pio]),
        ability("doorbells to user space", &[]),
        ability("doorbells by ioeventfd of their length", &[eventfd]),
        ability("doorbells by ioeventfd of length 0", &[any]),
        ability("doorbells coalesced, MMIO", &[mmio]),
        ability("doorbells coalesced, port I/O", &[pio]),
        ability("PCI configuration by 0xcf8 and by ECAM", &[]),
        ability("ECAM behind a read-only memslot", &[read_only]),
        ability("compare: seeded streams on host and simulator", &[mmio, pio, eventfd, any]),
    ]
}

/// A VM with a program, the OUT that ends it added.
fn guest(system: &System, build: impl FnOnce(&mut Asm)) -> Result<(Vm, Vcpu), HostError> {
    let vm = Vm::new(system)?;
    let mut asm = Asm::new();
    build(&mut asm);
    asm.out(EXIT_PORT, PortWidth::Byte, 0);
    vm.load(CODE, asm.code())?;
    let vcpu = vm.vcpu(system, 0, CODE)?;
    Ok((vm, vcpu))
}

/// Fills the ring from several start indices, and counts what it takes.
fn ring(system: &System) -> Result<RingFound, HostError> {
    let (vm, mut vcpu) = guest(system, |asm| {
        asm.mov(Reg::Rdx, u64::from(PORT)).mov(Reg::R12, 1000);
        let again = asm.label();
        asm.out_dx(PortWidth::Byte).repeat(Reg::R12, again);
    })?;
    let zone = CoalescedZone { addr: u64::from(PORT), size: 1, pio: 1 };
    vm.register_zone(zone).map_err(|source| HostError::call("KVM_REGISTER_COALESCED_MMIO", source))?;
    let ring = vcpu.ring()?;
    let deadline = Deadline::after(LIMIT)?;
    let mut absorbed = Vec::new();
    for start in STARTS {
        ring.write_first(start);
        ring.write_last(start);
        vcpu.enter_at(CODE)?;
        // The first write that the ring refuses.
        vcpu.run(&deadline)?;
        absorbed.push((start, u32::try_from(ring.waiting()?.len()).unwrap_or(u32::MAX)));
        ring.drain(|_| {})?;
        // The exit's instruction is completed before registers are set anew.
        vcpu.run(&deadline)?;
        ring.drain(|_| {})?;
    }
    let slots = ring.slots();
    let all = slots - 1;
    let legacy = |start| if start < slots / 2 { slots / 2 } else { all };
    let room = if absorbed.iter().all(|(_, took)| *took == all) {
        Some(CoalescedRoom::Fixed.name())
    } else if absorbed.iter().all(|&(start, took)| took == legacy(start)) {
        Some(CoalescedRoom::Legacy.name())
    } else {
        None
    };
    Ok(RingFound { page: system.extension(KVM_CAP_COALESCED_MMIO), slots, absorbed, room })
}

/// Case zone-nested-order: A, then B inside it; does a write to A above B still find A?
fn zone_lookup(system: &System) -> Result<ZoneLookup, HostError> {
    let (vm, mut vcpu) = guest(system, |asm| {
        asm.mov(Reg::Rdi, MMIO + 0x800).store(Width::Dword);
    })?;
    for (addr, size) in [(MMIO, 0x1000), (MMIO + 0x100, 4)] {
        let registered = vm.register_zone(CoalescedZone { addr, size, pio: 0 });
        registered.map_err(|source| HostError::call("KVM_REGISTER_COALESCED_MMIO", source))?;
    }
    let exits = vcpu.run_until(EXIT_PORT, &UserSpace::new(), None, &Deadline::after(LIMIT)?)?;
    Ok(if exits > 0 { ZoneLookup::SortedContainment } else { ZoneLookup::AllMatching })
}

/// The fast MMIO bus knows the address only: where it is asked before an instruction is decoded, it takes a load.
fn fast_mmio(system: &System) -> Result<FastMmio, HostError> {
    let (vm, mut vcpu) = guest(system, |asm| {
        // A first access makes the address known for one without memory.
        asm.mov(Reg::Rdi, MMIO + 0x1000).load(Width::Dword);
        asm.mov(Reg::Rdi, MMIO + 0x1010).load(Width::Dword);
    })?;
    let eventfd = HostEventfd::new()?;
    let any_length = Ioeventfd { bus: IoBus::Mmio, addr: MMIO + 0x1010, len: 0, datamatch: None, fd: EventfdId(0) };
    vm.assign(&any_length, &eventfd).map_err(|source| HostError::call("KVM_IOEVENTFD", source))?;
    vcpu.run_until(EXIT_PORT, &UserSpace::new(), None, &Deadline::after(LIMIT)?)?;
    Ok(if eventfd.take()? > 0 { FastMmio::BeforeDecoding } else { FastMmio::Never })
}

/// Time of an empty loop's turn, with the exit around it taken off.
fn loop_ns(system: &System) -> Result<f64, HostError> {
    let time = |turns: u64| -> Result<f64, HostError> {
        let (_vm, mut vcpu) = guest(system, |asm| {
            asm.out(PORT, PortWidth::Byte, 0).mov(Reg::R12, turns);
            let again = asm.label();
            asm.repeat(Reg::R12, again);
        })?;
        let deadline = Deadline::after(LIMIT)?;
        vcpu.run(&deadline)?;
        let start = Instant::now();
        vcpu.run(&deadline)?;
        Ok(start.elapsed().as_nanos() as f64)
    };
    // Few turns first: interpreted, a million of them take seconds.
    let (few, some) = (1_000, 50_000);
    let rough = (time(some)? - time(few)?) / (some - few) as f64;
    if rough >= NATIVE_BELOW_NS {
        return Ok(rough);
    }
    let many = 20_000_000;
    Ok((time(many)? - time(few)?).max(0.0) / (many - few) as f64)
}

/// Time of an OUT to user space and back.
fn exit_ns(system: &System) -> Result<f64, HostError> {
    const EXITS: u32 = 500;
    let (_vm, mut vcpu) = guest(system, |asm| {
        asm.mov(Reg::Rdx, u64::from(PORT)).mov(Reg::R12, u64::from(EXITS) + 1);
        let again = asm.label();
        asm.out_dx(PortWidth::Byte).repeat(Reg::R12, again);
    })?;
    let deadline = Deadline::after(LIMIT)?;
    vcpu.run(&deadline)?;
    let start = Instant::now();
    for _ in 0..EXITS {
        let exit = vcpu.run(&deadline)?;
        debug_assert_eq!(exit.direction, Direction::Write);
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(EXITS))
}
