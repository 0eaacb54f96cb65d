//! What a scan finds.

use crate::io::pci::{BarKind, Bdf, Class};

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
