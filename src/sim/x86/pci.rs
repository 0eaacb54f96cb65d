//! PCI configuration: a boot's scan, or one register read over and over.

use serde::Serialize;

use crate::device::PciHost;
use crate::io::pci::{
    Attachment, Bdf, ByMethod, CONFIG_ADDRESS, CONFIG_SPACE_BYTES, CONVENTIONAL_BYTES, ConfigAccess, ConfigMethod,
    EcamWindow, HostBridge, MachineAccess, PciBus, ReadOnlySlots,
};
use crate::kvm_x86::Platform;
use crate::machine::X86Extra;
use crate::sim::SimError;
use crate::sim::result::{Metric, per_second};
use crate::sim::scenario::Scenario;
use crate::workload::pci_config::{PciConfig, PciMethod, PciTask};
use crate::workload::pci_scan::{AccessCounts, RawReads, Scan};
use crate::workload::ports::PortMode;

use super::{Guest, Told};

/// What configuration accesses took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ConfigStats {
    /// Virtio functions and host bridge that a scan found, all as configured; 0 where nothing is scanned.
    pub functions: usize,
    /// Configuration reads.
    pub reads: u64,
    /// Configuration writes.
    pub writes: u64,
    /// Exits to user space for a port (KVM_EXIT_IO).
    pub port_exits: u64,
    /// Exits to user space for an address (KVM_EXIT_MMIO).
    pub mmio_exits: u64,
    /// Of all these, exits that reads made; writes made the others.
    pub read_exits: u64,
    /// Reads from the read-only memslot, without exit.
    pub memory_reads: u64,
    /// Virtual time of the scan alone, before the virtio drivers, s; 0 where nothing is scanned.
    pub scan_s: f64,
}

/// The part of the bus that is scanned.
const SCAN: Scan = Scan { buses: 0..=0 };
/// Whose register is read.
const TARGET: Bdf = Bdf::from_bits(1 << 3);
/// Raw reads between two reports of progress.
const REPORT_EVERY: u64 = 1 << 14;

/// The bridge and the functions behind it, and the guest on top.
struct Setup {
    guest: Guest,
    host: PciHost,
    window: EcamWindow,
    methods: [ConfigMethod; 2],
}

impl Setup {
    fn new(scenario: &Scenario, config: &PciConfig) -> Result<Self, SimError> {
        let bus = PciBus::with_virtio(functions(scenario), config.attachment)?;
        let window = EcamWindow::default();
        let host = PciHost::new(HostBridge::new(window, bus));
        let methods = config.method.on(config.slots);
        let mut platform = Platform::default();
        if methods.contains(&ConfigMethod::EcamReadOnly) {
            host.map_read_only(&mut platform);
        }
        let mode = match config.method {
            PciMethod::Type1Coalesced => PortMode::Coalesced,
            _ => PortMode::RegsWhenNeeded,
        };
        let guest = Guest::new(&scenario.machine, mode, scenario.behaviour, platform, scenario.seed);
        host.attach(&guest.user);
        // As QEMU's host bridges: the latch's four ports, never the data's.
        guest.coalesce(CONFIG_ADDRESS.0, 4)?;
        Ok(Self { guest, host, window, methods })
    }
}

fn functions(scenario: &Scenario) -> u16 {
    u16::try_from(scenario.devices).unwrap_or(u16::MAX)
}

pub(super) fn run(
    scenario: &Scenario,
    config: &PciConfig,
    progress: &mut dyn FnMut(f64),
) -> Result<(Guest, Told), SimError> {
    let mut setup = Setup::new(scenario, config)?;
    let mut performer =
        Performer { guest: &mut setup.guest, stats: ConfigStats::default(), address_exits: 0, failed: None };
    let ways = (setup.window, setup.methods);
    let (counts, unit) = match config.task {
        PciTask::Scan => (performer.scan(ways, functions(scenario), config.attachment)?, "config accesses/s"),
        PciTask::RawReads { register, count } => {
            let reads = RawReads { bdf: TARGET, register, count };
            let there = setup.host.bridge().bus().read(TARGET, register);
            (performer.raw_reads(ways, reads, there, progress)?, "config reads/s")
        }
    };
    let mut stats = performer.stats;
    (stats.reads, stats.writes) = (counts.reads, counts.writes);
    let mut notes = Vec::new();
    if (config.method, config.slots) == (PciMethod::EcamReadOnly, ReadOnlySlots::Absent) {
        let what = "the host has no read-only memslots (read_only_slots = \"absent\"): reads by ecam-read-only exit, as by ecam";
        notes.push(what.to_owned());
    }
    let guest = setup.guest;
    let metric = Metric { unit, value: per_second(counts.total(), guest.now) };
    Ok((guest, Told { metric, jobs: Vec::new(), notes, config: Some(stats), kinds: Vec::new() }))
}

/// Performs a guest's machine accesses as instructions, and counts what they take.
struct Performer<'a> {
    guest: &'a mut Guest,
    stats: ConfigStats,
    /// Exits of the OUT to 0xcf8 that the access to the data port, still to come, belongs to.
    address_exits: u64,
    /// A scan has no word for a VM that breaks: the first error is kept, and nothing is performed after it.
    failed: Option<SimError>,
}

impl Performer<'_> {
    fn config(&mut self, (window, [below, beyond]): (EcamWindow, [ConfigMethod; 2])) -> impl ConfigAccess + '_ {
        let perform = move |access| match self.failed {
            None => self.perform(access).unwrap_or_else(|error| {
                self.failed = Some(error);
                u32::MAX
            }),
            Some(_) => u32::MAX,
        };
        ByMethod::new(below, window, perform).extended_by(beyond)
    }

    fn intact(&mut self) -> Result<(), SimError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    fn scan(
        &mut self,
        ways: (EcamWindow, [ConfigMethod; 2]),
        devices: u16,
        attachment: Attachment,
    ) -> Result<AccessCounts, SimError> {
        let mut found = SCAN.enumerate(&mut self.config(ways));
        self.guest.around(X86Extra::BootRest);
        self.stats.scan_s = self.guest.now.seconds();
        found.probe_drivers(&mut self.config(ways));
        self.intact()?;
        let reach = if ways.1[1] == ConfigMethod::Type1 { CONVENTIONAL_BYTES } else { CONFIG_SPACE_BYTES };
        let configured = PciBus::virtio_functions(devices, attachment)?;
        found.check(&configured, reach).map_err(|what| SimError::NotAsConfigured { what })?;
        self.stats.functions = found.functions.len();
        let (scan, drivers) = (found.enumeration, found.drivers);
        Ok(AccessCounts { reads: scan.reads + drivers.reads, writes: scan.writes + drivers.writes })
    }

    fn raw_reads(
        &mut self,
        ways: (EcamWindow, [ConfigMethod; 2]),
        reads: RawReads,
        there: u32,
        progress: &mut dyn FnMut(f64),
    ) -> Result<AccessCounts, SimError> {
        let one = RawReads { count: 1, ..reads };
        for done in 0..reads.count {
            let read = one.run(&mut self.config(ways))?.last;
            self.intact()?;
            if read != Some(there) {
                let what = format!("{} {}: {read:x?} read, {there:#x} is there", reads.bdf, reads.register);
                return Err(SimError::NotAsConfigured { what });
            }
            if done % REPORT_EVERY == 0 {
                progress(done as f64 / reads.count as f64);
            }
        }
        Ok(AccessCounts { reads: reads.count, writes: 0 })
    }

    fn perform(&mut self, access: MachineAccess) -> Result<u32, SimError> {
        let exits_before = self.guest.stats.outcomes.exits;
        let pending = self.guest.perform(access.into())?;
        let exits = self.guest.stats.outcomes.exits - exits_before;
        let stats = &mut self.stats;
        match access {
            MachineAccess::Out { .. } | MachineAccess::In { .. } => stats.port_exits += exits,
            MachineAccess::Load { .. } | MachineAccess::Store { .. } => stats.mmio_exits += exits,
            MachineAccess::MemoryLoad { .. } => stats.memory_reads += 1,
        }
        let device = match access {
            MachineAccess::Out { port: CONFIG_ADDRESS, .. } => {
                self.address_exits = exits;
                return Ok(0);
            }
            MachineAccess::In { .. } | MachineAccess::Load { .. } => {
                stats.read_exits += exits + std::mem::take(&mut self.address_exits);
                true
            }
            MachineAccess::Out { .. } | MachineAccess::Store { .. } => {
                self.address_exits = 0;
                true
            }
            MachineAccess::MemoryLoad { .. } => false,
        };
        if device {
            self.guest.around(X86Extra::PciConfig);
        }
        #[expect(clippy::cast_possible_truncation, reason = "4 bytes at most were read")]
        Ok(pending.value() as u32)
    }
}
