//! The type 0 header: what a function that is no bridge says about itself.

use super::bar::{place_bars, place_rom};
use super::capability::place_capabilities;
use super::extended::place_extended;
use super::regs::{
    CACHE_LINE_SIZE, CLASS_REVISION, COMMAND, COMMAND_INTX_DISABLE, COMMAND_IO, COMMAND_MASTER, COMMAND_MEMORY,
    COMMAND_PARITY, COMMAND_SERR, INTERRUPT_LINE, INTERRUPT_PIN, STATUS, STATUS_ERRORS, SUBSYSTEM_ID,
    SUBSYSTEM_VENDOR_ID, VENDOR_ID,
};
use super::{BARS, Bar, Capability, ConfigSpace, ExtendedCapability, PciError, Register, Width};

/// Base class, sub-class and programming interface (PCI Code and ID Assignment).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    /// Base class.
    pub base: u8,
    /// Sub-class.
    pub sub: u8,
    /// Programming interface.
    pub interface: u8,
}

impl Class {
    /// Bridge, host (`PCI_CLASS_BRIDGE_HOST`).
    pub const HOST_BRIDGE: Self = Self { base: 0x06, sub: 0x00, interface: 0 };
    /// Mass storage, SCSI (`PCI_CLASS_STORAGE_SCSI`): QEMU gives it to virtio block functions.
    pub const SCSI: Self = Self { base: 0x01, sub: 0x00, interface: 0 };
    /// Network, Ethernet (`PCI_CLASS_NETWORK_ETHERNET`).
    pub const ETHERNET: Self = Self { base: 0x02, sub: 0x00, interface: 0 };
    /// Communication, other (`PCI_CLASS_COMMUNICATION_OTHER`).
    pub const COMMUNICATION: Self = Self { base: 0x07, sub: 0x80, interface: 0 };
    /// Of no class (`PCI_CLASS_OTHERS`).
    pub const OTHERS: Self = Self { base: 0xff, sub: 0x00, interface: 0 };

    /// Whether base class and sub-class are those of `other`, whatever the programming interface.
    #[must_use]
    pub const fn is(self, other: Self) -> bool {
        self.base == other.base && self.sub == other.sub
    }
}

/// The interrupt pin register: which of INTA to INTD, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InterruptPin {
    /// No pin, 0.
    #[default]
    None,
    /// INTA, 1.
    A,
    /// INTB, 2.
    B,
    /// INTC, 3.
    C,
    /// INTD, 4.
    D,
}

/// A function with a type 0 header, as its maker describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FunctionConfig {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Class code.
    pub class: Class,
    /// Revision.
    pub revision: u8,
    /// Subsystem vendor ID.
    pub subsystem_vendor: u16,
    /// Subsystem ID.
    pub subsystem: u16,
    /// Interrupt pin.
    pub interrupt_pin: InterruptPin,
    /// BARs by number; a 64-bit one leaves the next empty.
    pub bars: [Option<Bar>; BARS],
    /// Bytes of the expansion ROM, a power of two from 2 KiB to 16 MiB.
    pub rom: Option<u32>,
    /// Capability list, first found first.
    pub capabilities: Vec<Capability>,
    /// Extended capabilities, first found first.
    pub extended: Vec<ExtendedCapability>,
}

impl FunctionConfig {
    /// The function's configuration space as it is after reset: decoding off, BARs at 0.
    ///
    /// The multi-function bit of the header type is left to the bus ([`PciBus`](super::PciBus)), which knows.
    ///
    /// # Errors
    /// A vendor ID that means that nobody is there; a BAR or ROM size that no BAR can have, a 64-bit BAR without room
    /// for its upper half; capabilities that do not fit or whose fields do not.
    pub fn config_space(&self) -> Result<ConfigSpace, PciError> {
        // What Linux takes for an empty slot (pci_bus_generic_read_dev_vendor_id), or for one that asks to retry.
        if matches!(self.vendor, 0x0000 | 0x0001 | 0xffff) {
            let rule = "0 and 0xffff mean that nobody is there, 1 that a function is not ready";
            return Err(PciError::Field { field: "vendor ID", value: self.vendor.into(), rule });
        }
        let mut space = ConfigSpace::new();
        let mut set = |offset, width, value| {
            space.set_register(Register::new(offset, width)?, value);
            Ok::<_, PciError>(())
        };
        set(VENDOR_ID, Width::Dword, u32::from(self.device) << 16 | u32::from(self.vendor))?;
        let Class { base, sub, interface } = self.class;
        set(CLASS_REVISION, Width::Dword, u32::from_le_bytes([self.revision, interface, sub, base]))?;
        set(SUBSYSTEM_VENDOR_ID, Width::Word, self.subsystem_vendor.into())?;
        set(SUBSYSTEM_ID, Width::Word, self.subsystem.into())?;
        set(INTERRUPT_PIN, Width::Byte, self.interrupt_pin as u32)?;

        let command =
            COMMAND_IO | COMMAND_MEMORY | COMMAND_MASTER | COMMAND_PARITY | COMMAND_SERR | COMMAND_INTX_DISABLE;
        space.set_writable(Register::new(COMMAND, Width::Word)?, command.into());
        space.set_write_one_to_clear(Register::new(STATUS, Width::Word)?, STATUS_ERRORS.into());
        space.set_writable(Register::new(CACHE_LINE_SIZE, Width::Byte)?, 0xff);
        space.set_writable(Register::new(INTERRUPT_LINE, Width::Byte)?, 0xff);

        place_bars(&mut space, &self.bars)?;
        if let Some(size) = self.rom {
            place_rom(&mut space, size)?;
        }
        place_capabilities(&mut space, &self.capabilities)?;
        place_extended(&mut space, &self.extended)?;
        Ok(space)
    }
}
