//! A stream of doorbells: virtio notifications as x86 guests make them, 2 bytes each.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

use crate::addr::{GuestPhysAddr, Port};
use crate::device::NotifyLayout;
use crate::host::record::HostRun;
use crate::host::x86_64::{Asm, HostError, MMIO, Reg, System};
use crate::io::{CoalescedZone, DeviceModel, IoBus};
use crate::kvm_x86::{Instruction, PortWidth, Width};
use crate::sim::{Doorbells, Notify, Pattern, Scenario};

use super::execute::{MOST_VCPUS, Plan, Signal, execute};
use super::{Told, Way, record};

/// First port and distance of legacy devices (virtio 1.2, 4.1.4.10: queue notify at 16 of an I/O BAR of 64 bytes).
const PORTS: u16 = 0x1000;
const PORT_STRIDE: u16 = 64;
const QUEUE_NOTIFY: u16 = 16;
/// Legacy devices that fit below port 0x10000.
const MOST_LEGACY: u32 = 960;
/// Distance of modern devices' notification structures, and where in their BAR these are (QEMU's `virtio_pci_realize`).
const MMIO_STRIDE: u64 = 0x4000;
const MMIO_NOTIFY: u64 = 0x3000;
/// Bytes of a notification.
const BYTES: u32 = 2;
/// Doorbells in a row before the guest's loop turns.
const UNROLLED: u64 = 4096;

/// A device whose doorbell is all there is to it.
struct Bell;

impl DeviceModel for Bell {
    fn read(&mut self, _addr: u64, _data: &mut [u8]) {}

    fn write(&mut self, _addr: u64, _data: &[u8]) {}
}

/// The ways that a host has, side by side, the scenario's own among them.
pub(super) fn ways(scenario: &Scenario) -> Vec<Notify> {
    let coalesced = match scenario.notify {
        own @ Notify::Coalesced { .. } => own,
        _ => Notify::Coalesced { poll_ns: 0 },
    };
    let mut ways = vec![Notify::Exit, Notify::Ioeventfd { length: BYTES }, Notify::Ioeventfd { length: 0 }, coalesced];
    if !ways.contains(&scenario.notify) {
        ways.push(scenario.notify);
    }
    ways
}

/// A way in words.
pub(super) fn name(notify: Notify) -> String {
    match notify {
        // Nobody polls here.
        Notify::Coalesced { .. } => "coalesced zone".to_owned(),
        notify => notify.describe(),
    }
}

/// Where a device's doorbell is.
#[derive(Clone, Copy)]
enum Place {
    Port(u16),
    Mmio(u64),
}

impl Place {
    fn of(layout: NotifyLayout, device: u32) -> Result<Self, HostError> {
        match layout {
            NotifyLayout::Modern => Ok(Self::Mmio(MMIO + u64::from(device) * MMIO_STRIDE + MMIO_NOTIFY)),
            NotifyLayout::Legacy => {
                let number = u16::try_from(device).ok().filter(|_| device < MOST_LEGACY);
                let Some(number) = number else {
                    let what = format!("{} legacy devices: ports for {MOST_LEGACY} at most", device + 1);
                    return Err(HostError::Unsupported(what));
                };
                Ok(Self::Port(PORTS + number * PORT_STRIDE + QUEUE_NOTIFY))
            }
        }
    }

    fn bus(self) -> (IoBus, u64) {
        match self {
            Self::Port(port) => (IoBus::Pio, port.into()),
            Self::Mmio(gpa) => (IoBus::Mmio, gpa),
        }
    }

    fn ring(self) -> Instruction {
        match self {
            Self::Port(port) => Instruction::Out { port: Port(port), width: PortWidth::Word, value: 0 },
            Self::Mmio(gpa) => Instruction::Store { gpa: GuestPhysAddr(gpa), width: Width::Word, value: 0 },
        }
    }
}

pub(super) fn run(system: &System, way: &Way<'_>, bells: Doorbells, notify: Notify) -> Result<HostRun, HostError> {
    let scenario = way.scenario;
    if scenario.vcpus > MOST_VCPUS {
        return Err(HostError::Unsupported(format!("{} vCPUs: on a host at most {MOST_VCPUS}", scenario.vcpus)));
    }
    let places = (0..scenario.devices).map(|device| Place::of(scenario.layout, device));
    let places = places.collect::<Result<Vec<_>, _>>()?;
    let count = bells.count.min(way.limits.accesses.max(1));
    let programs = (0..scenario.vcpus).map(|vcpu| program(scenario, bells.pattern, &places, count, vcpu));
    let mut plan = Plan::new(programs.collect());
    for place in &places {
        let (bus, addr) = place.bus();
        plan.user.attach(bus, addr, BYTES.into(), Box::new(Bell));
        match notify {
            Notify::Exit => {}
            Notify::Ioeventfd { length } => plan.signals.push(Signal { bus, addr, len: length }),
            Notify::Coalesced { .. } => {
                plan.zones.push(CoalescedZone { addr, size: BYTES, pio: u32::from(bus == IoBus::Pio) });
            }
        }
    }
    let done = execute(system, plan, way.limits.time)?;
    let mut told = Told::new("doorbells/s", count * u64::from(scenario.vcpus));
    if count < bells.count {
        told.notes.push(format!("{count} of the scenario's {} doorbells a vCPU were run: --accesses", bells.count));
    }
    if bells.gap_ns > 0 || bells.remove_every > 0 {
        told.notes.push("gap_ns and remove_every are the simulator's: this guest rings one after the other".to_owned());
    }
    if matches!(notify, Notify::Coalesced { .. }) {
        told.notes.push("no thread polls the ring: it is drained when it is full, and at the end".to_owned());
    }
    record(way, &done, scenario.vcpus, told)
}

/// All turns but the last have as many doorbells as there are devices, or [`UNROLLED`] if they are drawn.
fn program(scenario: &Scenario, pattern: Pattern, places: &[Place], count: u64, vcpu: u32) -> Asm {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(scenario.seed ^ u64::from(vcpu) << 32);
    let devices = places.len() as u64;
    let turn = match pattern {
        // Whole rounds.
        Pattern::RoundRobin => devices * (UNROLLED / devices).max(1),
        Pattern::Uniform => UNROLLED,
    }
    .min(count);
    let order: Vec<_> = (0..turn)
        .map(|number| match pattern {
            Pattern::RoundRobin => number % devices,
            Pattern::Uniform => rng.next_u64() % devices,
        })
        .map(|device| places[crate::addr::index(device)].ring())
        .collect();
    let mut asm = Asm::new();
    asm.mov(Reg::R12, count / turn);
    let again = asm.label();
    for bell in &order {
        asm.perform(bell, 0);
    }
    asm.repeat(Reg::R12, again);
    for bell in &order[..crate::addr::index(count % turn)] {
        asm.perform(bell, 0);
    }
    asm
}
