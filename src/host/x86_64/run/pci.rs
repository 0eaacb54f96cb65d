//! PCI configuration: the accesses of a scan, or one register read over and over.
//!
//! The scan decides by what it reads. So it is run on the simulated bridge first, every access kept with its value; the real
//! guest performs the same accesses on a bridge in the same state, and each value it reads has to be the one kept.

use std::sync::Arc;

use crate::addr::GuestPhysAddr;
use crate::device::{PCI_HOST_PORTS, PciHost};
use crate::host::record::HostRun;
use crate::host::x86_64::{Asm, DATA, HostError, Mapping, Reg, System};
use crate::io::pci::{
    Bdf, ByMethod, CONFIG_ADDRESS, CONFIG_SPACE_BYTES, ConfigMethod, ECAM_BYTES, EcamWindow, HostBridge, MachineAccess,
    PciBus, Width as ConfigWidth,
};
use crate::io::{CoalescedZone, DeviceModel, IoBus};
use crate::kvm_x86::{Instruction, PortWidth, Width};
use crate::workload::pci_config::{PciConfig, PciMethod, PciTask};
use crate::workload::pci_scan::{RawReads, Scan};

use super::execute::{Plan, execute};
use super::{Told, Way, record};

/// The part of the bus that is scanned, and mapped where reads are memory.
const SCAN: Scan = Scan { buses: 0..=0 };
/// Functions of a bus.
const FUNCTIONS: u16 = 256;
/// Whose register is read.
const TARGET: Bdf = Bdf::from_bits(1 << 3);

/// Accesses with what each read; 0 for writes.
type Recorded = Vec<(MachineAccess, u32)>;

pub(super) fn run(system: &System, way: &Way<'_>, config: &PciConfig, method: PciMethod) -> Result<HostRun, HostError> {
    let functions = u16::try_from(way.scenario.devices).unwrap_or(u16::MAX);
    let unsupported = |error: &dyn std::fmt::Display| HostError::Unsupported(error.to_string());
    let bus = PciBus::with_virtio(functions, config.attachment).map_err(|error| unsupported(&error))?;
    let window = EcamWindow::default();
    let methods = method.on(config.slots);
    let mut bridge = HostBridge::new(window, bus.clone());
    let (recorded, turns, found) = match config.task {
        PciTask::Scan => {
            let (recorded, found) = scan(&mut bridge, window, methods);
            (recorded, 1, found)
        }
        PciTask::RawReads { register, count } => {
            let mut recorded = Recorded::new();
            let reads = RawReads { bdf: TARGET, register, count: 1 };
            let read = reads.run(&mut recording(&mut bridge, &mut recorded, window, methods));
            read.map_err(|error| unsupported(&error))?;
            // What does not exit costs nothing to speak of: all of it.
            let exits = recorded.iter().any(|(access, _)| access.exits());
            let most = if exits { (way.limits.accesses / recorded.len().max(1) as u64).max(1) } else { count };
            let turns = count.min(most);
            (recorded, turns, 0)
        }
    };
    let mut plan = Plan::new(vec![program(&recorded, turns)]);
    let host = PciHost::new(HostBridge::new(window, bus));
    host.attach(&plan.user);
    if methods.contains(&ConfigMethod::EcamReadOnly) {
        let mirror = Mirror::new(&host)?;
        plan.read_only.push((window.base().0, Arc::clone(&mirror.memory)));
        // In front of the bridge's own window and ports: first attached, first asked.
        plan.user = crate::device::UserSpace::new();
        mirror.attach(&plan.user);
    }
    if method == PciMethod::Type1Coalesced {
        plan.zones.push(CoalescedZone { addr: CONFIG_ADDRESS.0.into(), size: 4, pio: 1 });
    }
    let done = execute(system, plan, way.limits.time)?;
    check(&done.ram, &recorded)?;
    let of = |which: fn(&MachineAccess) -> bool| recorded.iter().filter(|(access, _)| which(access)).count() as u64;
    let mut told = Told::new("config accesses/s", recorded.len() as u64 * turns);
    told.counted = of(|access| !matches!(access, MachineAccess::Out { port: CONFIG_ADDRESS, .. })) * turns;
    told.memory = of(|access| matches!(access, MachineAccess::MemoryLoad { .. })) * turns;
    told.functions = found;
    told.values_checked = of(is_read);
    if let PciTask::RawReads { count, .. } = config.task {
        if turns < count {
            told.notes.push(format!("{turns} of the scenario's {count} reads were run: --accesses"));
        }
    }
    record(way, &done, 1, told)
}

fn recording<'a>(
    bridge: &'a mut HostBridge,
    recorded: &'a mut Recorded,
    window: EcamWindow,
    [below, beyond]: [ConfigMethod; 2],
) -> ByMethod<impl FnMut(MachineAccess) -> u32 + 'a> {
    let perform = move |access| {
        let value = bridge.perform(access);
        recorded.push((access, value));
        value
    };
    ByMethod::new(below, window, perform).extended_by(beyond)
}

/// A scan's accesses as instructions, as they go on a bridge in that state: what a guest does without deciding anything.
#[must_use]
pub fn scan_accesses(mut bridge: HostBridge, methods: [ConfigMethod; 2]) -> Vec<Instruction> {
    let window = bridge.window();
    scan(&mut bridge, window, methods).0.iter().map(|(access, _)| instruction(*access)).collect()
}

fn scan(bridge: &mut HostBridge, window: EcamWindow, methods: [ConfigMethod; 2]) -> (Recorded, usize) {
    let mut recorded = Recorded::new();
    let mut config = recording(bridge, &mut recorded, window, methods);
    let mut found = SCAN.enumerate(&mut config);
    found.probe_drivers(&mut config);
    let functions = found.functions.len();
    drop(config);
    (recorded, functions)
}

const fn is_read(access: &MachineAccess) -> bool {
    matches!(access, MachineAccess::In { .. } | MachineAccess::Load { .. } | MachineAccess::MemoryLoad { .. })
}

/// Each read saves its value, in order, over that of the turn before. Reads of one turn are saved by their own place.
fn program(recorded: &Recorded, turns: u64) -> Asm {
    let mut asm = Asm::new();
    asm.mov(Reg::R12, turns);
    let again = asm.label();
    for (number, (access, _)) in (0..).zip(recorded) {
        asm.perform(&instruction(*access), 0);
        if is_read(access) {
            asm.save_rax(DATA + 8 * number);
        }
    }
    asm.repeat(Reg::R12, again);
    asm
}

fn check(ram: &Mapping, recorded: &Recorded) -> Result<(), HostError> {
    for (number, (access, expected)) in (0..).zip(recorded).filter(|(_, (access, _))| is_read(access)) {
        let mut value = [0; 8];
        ram.read(DATA + 8 * number, &mut value)?;
        let value = u64::from_le_bytes(value);
        if value != u64::from(*expected) {
            let what =
                format!("access {number}, {access:x?}: {value:#x} read, the simulated bridge gives {expected:#x}");
            return Err(HostError::Nonsense { what });
        }
    }
    Ok(())
}

/// A bridge whose pages the guest reads as memory: after each write the pages are brought up to date, so that what the device
/// made of it, and what it changes of its own accord, is what the next load sees.
#[derive(Clone)]
struct Mirror {
    host: PciHost,
    memory: Arc<Mapping>,
}

impl Mirror {
    fn new(host: &PciHost) -> Result<Self, HostError> {
        let bytes = usize::from(FUNCTIONS) * usize::from(CONFIG_SPACE_BYTES);
        let memory = Mapping::anonymous(bytes).map_err(|source| HostError::call("mmap", source))?;
        let mirror = Self { host: host.clone(), memory: Arc::new(memory) };
        (0..FUNCTIONS).try_for_each(|function| mirror.update(Bdf::from_bits(function)))?;
        Ok(mirror)
    }

    fn update(&self, bdf: Bdf) -> Result<(), HostError> {
        let mut page = [0xff; CONFIG_SPACE_BYTES as usize];
        if let Some(function) = self.host.bridge().bus().function(bdf) {
            page = *function.image();
        }
        Ok(self.memory.write(u64::from(bdf.bits()) * u64::from(CONFIG_SPACE_BYTES), &page)?)
    }

    fn attach(&self, user: &crate::device::UserSpace) {
        let base = self.host.bridge().window().base();
        user.attach(IoBus::Pio, CONFIG_ADDRESS.0.into(), PCI_HOST_PORTS, Box::new(MirrorPorts(self.clone())));
        user.attach(IoBus::Mmio, base.0, ECAM_BYTES, Box::new(MirrorWindow(self.clone())));
    }
}

struct MirrorPorts(Mirror);

impl DeviceModel for MirrorPorts {
    fn read(&mut self, addr: u64, data: &mut [u8]) {
        if let Ok(port) = u16::try_from(addr) {
            self.0.host.bridge().port_read(crate::addr::Port(port), data);
        }
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        let Ok(port) = u16::try_from(addr) else { return };
        let written = self.0.host.bridge().port_write(crate::addr::Port(port), data);
        self.0.after(written);
    }
}

struct MirrorWindow(Mirror);

impl DeviceModel for MirrorWindow {
    fn read(&mut self, addr: u64, data: &mut [u8]) {
        self.0.host.bridge().mmio_read(GuestPhysAddr(addr), data);
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        let written = self.0.host.bridge().mmio_write(GuestPhysAddr(addr), data);
        self.0.after(written);
    }
}

impl Mirror {
    /// Functions beyond the mapped bus are read by exits, and need nothing.
    fn after(&self, written: crate::io::pci::ConfigWrite) {
        if let crate::io::pci::ConfigWrite::Written(bdf, _) = written {
            if bdf.bits() < FUNCTIONS {
                let updated = self.update(bdf);
                debug_assert!(updated.is_ok(), "the mapping has a page for each function");
            }
        }
    }
}

/// An access as an instruction; what backs the address makes the difference between loads.
fn instruction(access: MachineAccess) -> Instruction {
    let ports = |width| match width {
        ConfigWidth::Byte => PortWidth::Byte,
        ConfigWidth::Word => PortWidth::Word,
        ConfigWidth::Dword => PortWidth::Dword,
    };
    let memory = |width| match width {
        ConfigWidth::Byte => Width::Byte,
        ConfigWidth::Word => Width::Word,
        ConfigWidth::Dword => Width::Dword,
    };
    match access {
        MachineAccess::Out { port, width, value } => Instruction::Out { port, width: ports(width), value },
        MachineAccess::In { port, width } => Instruction::In { port, width: ports(width) },
        MachineAccess::Load { addr, width } | MachineAccess::MemoryLoad { addr, width } => {
            Instruction::Load { gpa: addr, width: memory(width) }
        }
        MachineAccess::Store { addr, width, value } => {
            Instruction::Store { gpa: addr, width: memory(width), value: value.into() }
        }
    }
}
