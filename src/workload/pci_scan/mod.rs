//! A scan of PCI as Linux makes it at boot: the same configuration accesses in the same order.
//!
//! | step | Linux 6.12 |
//! |---|---|
//! | devices 0 to 31 of a bus | `pci_scan_child_bus_extend`, `pci_scan_slot` |
//! | functions 1 to 7 where function 0 says so | `next_fn` |
//! | vendor and device ID | `pci_bus_generic_read_dev_vendor_id` |
//! | header, class, PCI Express, interrupt | `pci_setup_device`, `set_pcie_port_type`, `pci_read_irq` |
//! | how much configuration space | `pci_cfg_space_size`, `pci_cfg_space_size_ext`, `pci_ext_cfg_is_aliased` |
//! | INTx disable works | `pci_intx_mask_broken` |
//! | BAR sizes | `pci_read_bases`, `__pci_read_base`, `pci_size` |
//! | payload size, tags, substates | `pci_configure_device` |
//! | capabilities | `pci_init_capabilities`, `pci_find_capability`, `pci_find_ext_capability` |
//! | virtio structures, once all is scanned | `vp_modern_probe`, `virtio_pci_find_capability` |
//!
//! Taken from the source of 6.12.y; later kernels size all BARs of a function at once and make fewer accesses. Not
//! there: quirks of single chips, bridges and what is behind them, IDE's legacy ports, enclosure LEDs
//! (`pci_npem_create`), what firmware does before the kernel.
//!
//! ```
//! use hvmmio::io::pci::{Attachment, PciBus};
//! use hvmmio::workload::pci_scan::Scan;
//!
//! let mut bus = PciBus::with_virtio(2, Attachment::IntegratedEndpoint)?;
//! let result = Scan::default().run(&mut bus);
//! assert_eq!(result.functions.len(), 3);
//! assert_eq!(result.functions[1].bars.len(), 2);
//! # Ok::<(), hvmmio::io::pci::PciError>(())
//! ```

mod bars;
mod capabilities;
mod counted;
mod express;
mod found;
mod function;
mod raw;
mod virtio;

use std::ops::RangeInclusive;

use counted::Counted;
use function::Function;

use crate::io::pci::{Bdf, ConfigAccess, FunctionConfig};

pub use counted::AccessCounts;
pub use found::{FoundBar, FoundCapability, FoundExtended, FoundFunction, FoundRom, FoundVirtio};
pub use raw::{RawReads, RawReadsResult};

/// Which buses are scanned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// Root buses, in order. Each is scanned for itself, as x86 does with the peers of bus 0
    /// (`pcibios_scan_specific_bus`).
    pub buses: RangeInclusive<u8>,
}

impl Default for Scan {
    /// Bus 0 alone.
    fn default() -> Self {
        Self { buses: 0..=0 }
    }
}

/// What a scan found, and what it took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScanResult {
    /// The functions, in order of their addresses.
    pub functions: Vec<FoundFunction>,
    /// Accesses of the scan itself.
    pub enumeration: AccessCounts,
    /// Accesses of the virtio drivers after it.
    pub drivers: AccessCounts,
}

impl Scan {
    /// Scans, then lets the virtio drivers look at what was found. Registers that `config` does not reach are taken as Linux
    /// takes them: no access, all ones.
    pub fn run<C: ConfigAccess + ?Sized>(&self, config: &mut C) -> ScanResult {
        let mut result = self.enumerate(config);
        result.probe_drivers(config);
        result
    }

    /// The scan alone: what `pci_subsys_init` does, before any driver.
    pub fn enumerate<C: ConfigAccess + ?Sized>(&self, config: &mut C) -> ScanResult {
        let mut config = Counted::new(config);
        let mut functions = Vec::new();
        for bus in self.buses.clone() {
            for device in 0..32u16 {
                scan_slot(&mut config, Bdf::from_bits(u16::from(bus) << 8 | device << 3), &mut functions);
            }
        }
        ScanResult { functions, enumeration: config.counts, drivers: AccessCounts::default() }
    }
}

impl ScanResult {
    /// The virtio drivers' part, once all is scanned (`vp_modern_probe`); its accesses are added to `drivers`.
    pub fn probe_drivers<C: ConfigAccess + ?Sized>(&mut self, config: &mut C) {
        let mut config = Counted::new(config);
        let probe = |found| {
            let mut function = Function::resume(&mut config, found);
            function.probe_virtio();
            function.found
        };
        self.functions = std::mem::take(&mut self.functions).into_iter().map(probe).collect();
        self.drivers.reads += config.counts.reads;
        self.drivers.writes += config.counts.writes;
    }

    /// Compares with what was put on the bus, for a method that reaches `reach` bytes of a function (256 or 4096).
    ///
    /// # Errors
    /// Says the first function and quantity that differ, as found and as configured.
    pub fn check(&self, configured: &[(Bdf, FunctionConfig)], reach: u16) -> Result<(), String> {
        let mut places: Vec<_> = configured.iter().collect();
        places.sort_by_key(|(bdf, _)| *bdf);
        let there: Vec<_> = places.iter().map(|(bdf, _)| *bdf).collect();
        let found: Vec<_> = self.functions.iter().map(|function| function.bdf).collect();
        if found != there {
            let list = |list: &[Bdf]| list.iter().map(Bdf::to_string).collect::<Vec<_>>().join(", ");
            return Err(format!("functions at {} found, {} are there", list(&found), list(&there)));
        }
        self.functions.iter().zip(places).try_for_each(|(function, (_, config))| function.check(config, reach))
    }
}

/// `pci_scan_slot`: function 0, and the others if it has them. An absent one among these ends nothing.
fn scan_slot<C: ConfigAccess + ?Sized>(config: &mut Counted<'_, C>, zero: Bdf, found: &mut Vec<FoundFunction>) {
    let Some(first) = Function::scan(config, zero) else { return };
    let others = if first.multi_function { 1..8 } else { 0..0 };
    found.push(first);
    for function in others {
        found.extend(Function::scan(config, zero.sibling(function)));
    }
}
