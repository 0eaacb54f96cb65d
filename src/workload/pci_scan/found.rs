//! What a scan finds.

use std::fmt::Debug;

use crate::io::pci::{
    BarKind, Bdf, CONVENTIONAL_BYTES, Capability, Class, FunctionConfig, VirtioStructure, regs::CAP_EXPRESS,
};

/// A function as the scan saw it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FoundFunction {
    /// Where.
    pub bdf: Bdf,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Class code; all 0 if it contradicts the header type.
    pub class: Class,
    /// Revision.
    pub revision: u8,
    /// Header type, without the multi-function bit: 0 function, 1 bridge to PCI, 2 bridge to CardBus.
    pub header_type: u8,
    /// Whether the header type says that the device has more functions.
    pub multi_function: bool,
    /// Whether Command bit 10 can be toggled (`pci_intx_mask_broken` is the opposite).
    pub masks_intx: bool,
    /// Interrupt pin: 0 none, 1 to 4 INTA to INTD.
    pub interrupt_pin: u8,
    /// Interrupt line; 0 where there is no pin.
    pub interrupt_line: u8,
    /// Subsystem vendor ID.
    pub subsystem_vendor: u16,
    /// Subsystem ID.
    pub subsystem: u16,
    /// Bytes of configuration space within reach: 256 or 4096.
    pub config_bytes: u16,
    /// BARs that decode something, by number.
    pub bars: Vec<FoundBar>,
    /// The expansion ROM.
    pub rom: Option<FoundRom>,
    /// Capabilities, by offset.
    pub capabilities: Vec<FoundCapability>,
    /// Extended capabilities, by offset.
    pub extended: Vec<FoundExtended>,
    /// MSI-X vectors, if it has the capability.
    pub msix_vectors: Option<u16>,
    /// What the virtio driver read of the structures, in the order it looks for them.
    pub virtio: Vec<FoundVirtio>,
}

impl FoundFunction {
    /// Compares with a description, as far as a method that reaches `reach` bytes can see it.
    pub(super) fn check(&self, config: &FunctionConfig, reach: u16) -> Result<(), String> {
        let same = |what: &str, found: &dyn Debug, there: &dyn Debug| {
            let (found, there) = (format!("{found:x?}"), format!("{there:x?}"));
            if found == there { Ok(()) } else { Err(format!("{}: {what} {found} found, {there} is there", self.bdf)) }
        };
        same("vendor and device", &(self.vendor, self.device), &(config.vendor, config.device))?;
        same("class and revision", &(self.class, self.revision), &(config.class, config.revision))?;
        let subsystem = (config.subsystem_vendor, config.subsystem);
        same("subsystem", &(self.subsystem_vendor, self.subsystem), &subsystem)?;
        same("interrupt pin", &self.interrupt_pin, &(config.interrupt_pin as u8))?;
        let bars = (0_u8..).zip(config.bars).filter_map(|(index, bar)| bar.map(|bar| (index, bar.kind, bar.size)));
        let found: Vec<_> = self.bars.iter().map(|bar| (bar.index, bar.kind, bar.size)).collect();
        same("BARs", &found, &bars.collect::<Vec<_>>())?;
        same("ROM", &self.rom.map(|rom| rom.size), &config.rom.map(u64::from))?;

        let ids: Vec<_> = config.capabilities.iter().map(Capability::id).collect();
        same("capabilities", &self.capabilities.iter().map(|found| found.id).collect::<Vec<_>>(), &ids)?;
        let vectors = config.capabilities.iter().find_map(|capability| match capability {
            Capability::MsiX { vectors, .. } => Some(*vectors),
            _ => None,
        });
        same("MSI-X vectors", &self.msix_vectors, &vectors)?;
        let structures = config.capabilities.iter().filter_map(|capability| match capability {
            Capability::Virtio { structure: VirtioStructure::PciWindow, .. } => None,
            Capability::Virtio { place, length, .. } => Some((place.bar, place.offset, *length)),
            _ => None,
        });
        let mut structures: Vec<_> = structures.collect();
        let mut found: Vec<_> = self.virtio.iter().map(|found| (found.bar, found.place, found.length)).collect();
        structures.sort_unstable();
        found.sort_unstable();
        same("virtio structures", &found, &structures)?;

        let express = ids.contains(&CAP_EXPRESS) || config.class.is(Class::HOST_BRIDGE);
        let bytes = if express { reach } else { CONVENTIONAL_BYTES };
        same("bytes of configuration space", &self.config_bytes, &bytes)?;
        let extended = config.extended.iter().filter(|_| bytes > CONVENTIONAL_BYTES).map(|capability| capability.id());
        let found: Vec<_> = self.extended.iter().map(|found| found.id).collect();
        same("extended capabilities", &found, &extended.collect::<Vec<_>>())
    }
}

/// A BAR that decodes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FoundBar {
    /// Its number, 0 to 5.
    pub index: u8,
    /// What it decodes.
    pub kind: BarKind,
    /// How much, in bytes.
    pub size: u64,
    /// Where, as it was when the scan came.
    pub address: u64,
}

/// An expansion ROM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FoundRom {
    /// Its size in bytes.
    pub size: u64,
    /// Where, as it was when the scan came.
    pub address: u64,
}

/// A capability of the list in the first 256 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FoundCapability {
    /// Its first byte.
    pub offset: u16,
    /// Capability ID.
    pub id: u8,
}

/// An extended capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FoundExtended {
    /// Its first byte.
    pub offset: u16,
    /// Extended capability ID.
    pub id: u16,
    /// Version.
    pub version: u8,
}

/// Where a structure of a virtio function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FoundVirtio {
    /// First byte of the capability.
    pub offset: u16,
    /// Which structure: 1 common, 2 notify, 3 ISR, 4 device.
    pub cfg_type: u8,
    /// BAR it is in.
    pub bar: u8,
    /// Bytes from the BAR's start.
    pub place: u32,
    /// Its length in bytes.
    pub length: u32,
    /// `notify_off_multiplier`, of the notify structure.
    pub multiplier: Option<u32>,
}
