//! PCI configuration on real KVM: a boot's scan, or one register read over and over.

use std::time::Instant;

use crate::device::PciHost;
use crate::host::x86_64::{Asm, DATA, EcamMemory, HostError, Reg, System, Vm, scan_accesses};
use crate::io::CoalescedZone;
use crate::io::pci::{
    Bdf, ByMethod, CONFIG_ADDRESS, CONFIG_SPACE_BYTES, CONVENTIONAL_BYTES, ConfigMethod, EcamWindow, HostBridge,
    MachineAccess, PciBus, Register,
};
use crate::kvm_x86::{Instruction, PortWidth, Target, Width};
use crate::sim::ConfigStats;
use crate::workload::pci_config::{PciConfig, PciMethod};
use crate::workload::pci_scan::Scan;

use super::clock::Tsc;
use super::rig::{Batch, FIRST, Ran, Rig, Stream};
use super::server::Server;
use super::vmm::Counts;
use super::{Pace, wrong};

/// The part of the bus that is scanned.
const SCAN: Scan = Scan { buses: 0..=0 };
/// Whose register is read.
const TARGET: Bdf = Bdf::from_bits(1 << 3);

/// A rig with host bridge and virtio functions.
pub(super) struct Pci {
    pub ecam: EcamMemory,
    window: EcamWindow,
    methods: [ConfigMethod; 2],
    devices: u16,
    config: PciConfig,
}

fn refused(error: impl std::fmt::Display) -> HostError {
    HostError::Unsupported(error.to_string())
}

impl Pci {
    /// The rig, configuration space reached by the method.
    ///
    /// # Errors
    /// What KVM refuses, and more functions than a bus has.
    pub fn new(system: &System, config: &PciConfig, devices: u32) -> Result<(Rig, Self), HostError> {
        let devices = u16::try_from(devices).unwrap_or(u16::MAX);
        let mut rig = Rig::new(system, 1)?;
        let bus = PciBus::with_virtio(devices, config.attachment).map_err(refused)?;
        let window = EcamWindow::default();
        let ecam = EcamMemory::new(PciHost::new(HostBridge::new(window, bus)))?;
        let methods = config.method.on(config.slots);
        if methods.contains(&ConfigMethod::EcamReadOnly) {
            rig.vm.add_read_only(window.base().0, std::sync::Arc::clone(ecam.memory()))?;
        }
        ecam.attach(&rig.vmm.user);
        if config.method == PciMethod::Type1Coalesced {
            // As QEMU's host bridges: the latch's four ports, never the data's.
            rig.coalesce(CoalescedZone { addr: CONFIG_ADDRESS.0.into(), size: 4, pio: 1 })?;
        }
        Ok((rig, Self { ecam, window, methods, devices, config: config.clone() }))
    }

    /// The loop that reads one register.
    ///
    /// # Errors
    /// The method does not reach it.
    pub fn raw_reads(&self, register: Register) -> Result<RawLoop, HostError> {
        let [below, beyond] = self.methods;
        let read = |method: ConfigMethod| method.read(self.window, TARGET, register);
        let accesses = read(below).or_else(|_| read(beyond)).map_err(refused)?;
        let there = self.ecam.host().bridge().bus().read(TARGET, register);
        let accesses = accesses.address.into_iter().chain([accesses.data]).collect();
        Ok(RawLoop { accesses, there })
    }

    /// The scan's accesses, to be made without the driver that decides on them.
    pub fn replay(&self) -> Replay {
        let bridge = self.ecam.host().bridge().clone();
        Replay { accesses: scan_accesses(bridge, self.methods) }
    }

    /// Exits and reads of so many raw reads.
    pub fn raw_stats(&self, reads: &RawLoop, count: u64, counts: &Counts) -> ConfigStats {
        let mut stats = exits(counts);
        stats.reads = count;
        stats.read_exits = stats.port_exits + stats.mmio_exits;
        stats.memory_reads = if reads.accesses.iter().any(|access| !access.exits()) { count } else { 0 };
        stats
    }

    /// Scans as often as the pace allows, once at least. Counts are of the first scan, a batch is one scan.
    ///
    /// # Errors
    /// What KVM refuses; a scan that found something else than is there.
    pub fn scan(&self, rig: &mut Rig, pace: Pace) -> Result<(Ran, ConfigStats), HostError> {
        let server = Server::start(rig)?;
        let (start, clock) = (Instant::now(), Tsc::now());
        let mut scans = Vec::new();
        loop {
            scans.push(self.scan_once(rig, &server)?);
            match pace {
                Pace::Within(time) if start.elapsed() < time => {}
                _ => break,
            }
        }
        let whole = start.elapsed();
        let ns = whole.as_nanos() as f64 / clock.since().max(1) as f64;
        let batch = |scan: &Scanned| Batch { units: scan.accesses, ns: scan.cycles as f64 * ns };
        let batches = scans.iter().map(batch).collect();
        // Never empty: the loop goes round once at least.
        let scan = scans.swap_remove(0);
        let first = scan.first.map_or(whole, |at| at - start);
        let stats = ConfigStats { scan_s: scan.scan_cycles as f64 * ns / 1e9, ..scan.stats };
        Ok((Ran { units: scan.accesses, batches, counts: scan.counts, first, whole }, stats))
    }

    fn scan_once(&self, rig: &mut Rig, server: &Server) -> Result<Scanned, HostError> {
        let mut performer = Performer { rig, server, scanned: Scanned::default(), address_exits: 0, failed: None };
        let [below, beyond] = self.methods;
        let mut found = {
            let perform = |access| performer.perform(access);
            SCAN.enumerate(&mut ByMethod::new(below, self.window, perform).extended_by(beyond))
        };
        performer.scanned.scan_cycles = performer.scanned.cycles;
        let perform = |access| performer.perform(access);
        found.probe_drivers(&mut ByMethod::new(below, self.window, perform).extended_by(beyond));
        let Performer { mut scanned, failed, .. } = performer;
        if let Some(error) = failed {
            return Err(error);
        }
        let reach = if beyond == ConfigMethod::Type1 { CONVENTIONAL_BYTES } else { CONFIG_SPACE_BYTES };
        let configured = PciBus::virtio_functions(self.devices, self.config.attachment).map_err(refused)?;
        found.check(&configured, reach).or_else(wrong)?;
        let at = exits(&scanned.counts);
        scanned.stats = ConfigStats {
            functions: found.functions.len(),
            reads: found.enumeration.reads + found.drivers.reads,
            writes: found.enumeration.writes + found.drivers.writes,
            port_exits: at.port_exits,
            mmio_exits: at.mmio_exits,
            ..scanned.stats
        };
        Ok(scanned)
    }
}

/// One scan.
#[derive(Default)]
struct Scanned {
    accesses: u64,
    /// When as many accesses were made as a stream's first batch has.
    first: Option<Instant>,
    cycles: u64,
    /// Of these, of the scan itself, before the drivers.
    scan_cycles: u64,
    counts: Counts,
    stats: ConfigStats,
}

fn exits(counts: &Counts) -> ConfigStats {
    ConfigStats {
        port_exits: counts.at(|target| matches!(target, Target::Port(_))),
        mmio_exits: counts.at(|target| matches!(target, Target::Mmio(_))),
        ..ConfigStats::default()
    }
}

/// Performs a scan's accesses in the guest, and counts what they take.
struct Performer<'a> {
    rig: &'a mut Rig,
    server: &'a Server,
    scanned: Scanned,
    /// Exits of the OUT to 0xcf8 that the access to the data port, still to come, belongs to.
    address_exits: u64,
    /// A scan has no word for a VM that breaks: the first error is kept, and nothing is performed after it.
    failed: Option<HostError>,
}

impl Performer<'_> {
    fn perform(&mut self, access: MachineAccess) -> u32 {
        if self.failed.is_some() {
            return u32::MAX;
        }
        let scanned = &mut self.scanned;
        let before = scanned.counts.total;
        match self.server.perform(self.rig, access, &mut scanned.counts) {
            Ok(performed) => {
                scanned.cycles += performed.cycles;
                scanned.accesses += 1;
                if scanned.accesses == FIRST {
                    scanned.first = Some(Instant::now());
                }
                let exits = scanned.counts.total - before;
                self.count(access, exits);
                performed.value
            }
            Err(error) => {
                self.failed = Some(error);
                u32::MAX
            }
        }
    }

    fn count(&mut self, access: MachineAccess, exits: u64) {
        let address = std::mem::take(&mut self.address_exits);
        match access {
            MachineAccess::Out { port: CONFIG_ADDRESS, .. } => self.address_exits = exits,
            MachineAccess::In { .. } | MachineAccess::Load { .. } => self.scanned.stats.read_exits += exits + address,
            MachineAccess::MemoryLoad { .. } => self.scanned.stats.memory_reads += u64::from(exits == 0),
            MachineAccess::Out { .. } | MachineAccess::Store { .. } => {}
        }
    }
}

/// A scan's accesses written out, over and over.
pub(super) struct Replay {
    accesses: Vec<Instruction>,
}

impl Replay {
    /// Accesses of one scan.
    pub fn scan(&self) -> u64 {
        self.accesses.len() as u64
    }
}

impl Stream for Replay {
    fn code(&self, _: u32, from: u64, units: u64) -> Asm {
        let mut asm = Asm::new();
        for place in from..from + units {
            asm.perform(&self.accesses[crate::addr::index(place % self.scan())], 0);
        }
        asm
    }
}

/// One register read over and over by a loop in the guest, which compares each value with the one that is there.
pub(super) struct RawLoop {
    accesses: Vec<MachineAccess>,
    there: u32,
}

impl RawLoop {
    /// Accesses of a read.
    pub fn accesses(&self) -> u64 {
        self.accesses.len() as u64
    }
}

/// What differed, all reads together.
const DIFFERENCES: u64 = DATA;

impl Stream for RawLoop {
    fn code(&self, _: u32, _: u64, units: u64) -> Asm {
        let mut asm = Asm::new();
        asm.mov(Reg::R12, units).mov(Reg::R14, 0);
        if let Some(MachineAccess::Load { addr, .. } | MachineAccess::MemoryLoad { addr, .. }) = self.accesses.last() {
            asm.mov(Reg::Rdi, addr.0);
        }
        let again = asm.label();
        for access in &self.accesses {
            match *access {
                MachineAccess::Out { port, value, .. } => asm.out(port.0, PortWidth::Dword, value),
                MachineAccess::In { port, .. } => asm.mov(Reg::Rdx, port.0.into()).in_dx(PortWidth::Dword),
                _ => asm.load(Width::Dword),
            };
        }
        // xor eax, there; or r14, rax
        asm.raw(&[0x35]).raw(&self.there.to_le_bytes()).raw(&[0x49, 0x09, 0xc6]);
        asm.repeat(Reg::R12, again);
        asm.copy_to_rax(Reg::R14).save_rax(DIFFERENCES);
        asm
    }

    fn goes_round(&self) -> bool {
        !self.accesses.iter().any(|access| access.exits())
    }

    fn check(&self, vm: &Vm, _: u32, from: u64, units: u64) -> Result<(), HostError> {
        let mut differences = [0; 8];
        vm.ram().read(DIFFERENCES, &mut differences)?;
        match u64::from_le_bytes(differences) {
            0 => Ok(()),
            bits => wrong(format!(
                "reads {from} to {} of {TARGET} differed from {:#x} in bits {bits:#x}",
                from + units,
                self.there
            )),
        }
    }
}
