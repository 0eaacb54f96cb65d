//! Capabilities in the first 256 bytes, linked from [`CAPABILITY_LIST`](super::regs::CAPABILITY_LIST).

use super::regs::{
    CAP_EXPRESS, CAP_MSIX, CAP_POWER_MANAGEMENT, CAP_VENDOR, CAPABILITY_LIST, EXP_BYTES, EXP_DEVCAP, EXP_DEVCTL,
    EXP_DEVSTA, EXP_FLAGS, EXP_TYPE_INTEGRATED_ENDPOINT, HEADER_END, MSIX_BYTES, MSIX_ENABLE, MSIX_FLAGS,
    MSIX_MASK_ALL, MSIX_PBA, MSIX_TABLE, PM_BYTES, PM_CAPABILITIES, PM_CONTROL, STATUS, STATUS_CAP_LIST, VIRTIO_BAR,
    VIRTIO_CFG_TYPE, VIRTIO_EXTRA, VIRTIO_LENGTH, VIRTIO_OFFSET,
};
use super::{CONVENTIONAL_BYTES, ConfigSpace, PciError, Register, Width};

/// A place within a BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BarOffset {
    /// Number of the BAR, 0 to 5.
    pub bar: u8,
    /// Bytes from its start.
    pub offset: u32,
}

/// Which structure of a modern virtio function a capability points to (virtio 1.2, 4.1.4: `cfg_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VirtioStructure {
    /// `VIRTIO_PCI_CAP_COMMON_CFG`, 1.
    Common,
    /// `VIRTIO_PCI_CAP_NOTIFY_CFG`, 2.
    Notify {
        /// `notify_off_multiplier`, bytes between two queues' doorbells.
        multiplier: u32,
    },
    /// `VIRTIO_PCI_CAP_ISR_CFG`, 3.
    Isr,
    /// `VIRTIO_PCI_CAP_DEVICE_CFG`, 4.
    Device,
    /// `VIRTIO_PCI_CAP_PCI_CFG`, 5: a window on the others through configuration space. Its fields are writable; that
    /// `pci_cfg_data` shows what they point to is the device's business ([`ConfigSpace::set_register`]).
    PciWindow,
}

impl VirtioStructure {
    /// The value of `cfg_type`.
    #[must_use]
    pub const fn cfg_type(self) -> u8 {
        match self {
            Self::Common => 1,
            Self::Notify { .. } => 2,
            Self::Isr => 3,
            Self::Device => 4,
            Self::PciWindow => 5,
        }
    }
}

/// One capability of the list (PCI Local Bus 3.0, 6.7).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Power management, version 3, no PME, state bits writable (QEMU's virtio functions have it on PCI Express).
    PowerManagement,
    /// MSI-X.
    MsiX {
        /// Vectors, 1 to 2048.
        vectors: u16,
        /// Where the vector table is; the offset is a multiple of 8.
        table: BarOffset,
        /// Where the pending bits are; the offset is a multiple of 8.
        pending: BarOffset,
    },
    /// Where a structure of a virtio function is.
    Virtio {
        /// Which one.
        structure: VirtioStructure,
        /// Where.
        place: BarOffset,
        /// Its length in bytes.
        length: u32,
    },
    /// PCI Express, version 2, of a Root Complex Integrated Endpoint: a function on a root bus, with no link.
    ExpressIntegratedEndpoint,
    /// Any other: ID and the bytes after the two of the list, read-only.
    Other {
        /// Capability ID.
        id: u8,
        /// What follows ID and next pointer.
        body: Vec<u8>,
    },
}

impl Capability {
    /// Capability ID.
    #[must_use]
    pub const fn id(&self) -> u8 {
        match self {
            Self::PowerManagement => CAP_POWER_MANAGEMENT,
            Self::MsiX { .. } => CAP_MSIX,
            Self::Virtio { .. } => CAP_VENDOR,
            Self::ExpressIntegratedEndpoint => CAP_EXPRESS,
            Self::Other { id, .. } => *id,
        }
    }

    /// Its length in bytes, ID and next pointer included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::PowerManagement => PM_BYTES.into(),
            Self::MsiX { .. } => MSIX_BYTES.into(),
            Self::Virtio { structure: VirtioStructure::Notify { .. } | VirtioStructure::PciWindow, .. } => 20,
            Self::Virtio { .. } => 16,
            Self::ExpressIntegratedEndpoint => EXP_BYTES.into(),
            Self::Other { body, .. } => 2 + body.len(),
        }
    }

    fn place(&self, space: &mut ConfigSpace, at: u16) -> Result<(), PciError> {
        let mut set = |offset: u16, width, value, writable| {
            let register = Register::new(at + offset, width)?;
            space.set_register(register, value);
            space.set_writable(register, writable);
            Ok(())
        };
        match self {
            Self::PowerManagement => {
                set(PM_CAPABILITIES, Width::Word, 3, 0)?;
                set(PM_CONTROL, Width::Word, 0, 3)
            }
            Self::MsiX { vectors, table, pending } => {
                if !(1..=2048).contains(vectors) {
                    return Err(field("MSI-X vectors", u64::from(*vectors), "1 to 2048 fit the table size field"));
                }
                set(MSIX_FLAGS, Width::Word, u32::from(vectors - 1), u32::from(MSIX_ENABLE | MSIX_MASK_ALL))?;
                for (offset, place) in [(MSIX_TABLE, table), (MSIX_PBA, pending)] {
                    check_bar(*place)?;
                    if place.offset % 8 != 0 {
                        return Err(field("MSI-X offset", place.offset.into(), "its low 3 bits are the BAR's number"));
                    }
                    set(offset, Width::Dword, place.offset | u32::from(place.bar), 0)?;
                }
                Ok(())
            }
            Self::Virtio { structure, place, length } => {
                check_bar(*place)?;
                let (extra, writable) = match structure {
                    VirtioStructure::Notify { multiplier } => (Some(*multiplier), 0),
                    VirtioStructure::PciWindow => (Some(0), u32::MAX),
                    _ => (None, 0),
                };
                // Byte 2 is cap_len, byte 5 an id that these structures do not use.
                set(2, Width::Byte, if extra.is_some() { 20 } else { 16 }, 0)?;
                set(VIRTIO_CFG_TYPE, Width::Byte, structure.cfg_type().into(), 0)?;
                set(VIRTIO_BAR, Width::Byte, place.bar.into(), writable)?;
                set(VIRTIO_OFFSET, Width::Dword, place.offset, writable)?;
                set(VIRTIO_LENGTH, Width::Dword, *length, writable)?;
                extra.map_or(Ok(()), |extra| set(VIRTIO_EXTRA, Width::Dword, extra, writable))
            }
            Self::ExpressIntegratedEndpoint => {
                set(EXP_FLAGS, Width::Word, u32::from(EXP_TYPE_INTEGRATED_ENDPOINT << 4 | 2), 0)?;
                // Role-based error reporting, mandatory since PCI Express 1.1.
                set(EXP_DEVCAP, Width::Dword, 1 << 15, 0)?;
                // Error reporting, relaxed ordering, no snoop, payload and read request sizes.
                set(EXP_DEVCTL, Width::Word, 0, 0x78ff)?;
                space.set_write_one_to_clear(Register::new(at + EXP_DEVSTA, Width::Word)?, 0xf);
                Ok(())
            }
            Self::Other { body, .. } => {
                for (byte, offset) in body.iter().zip(2..) {
                    set(offset, Width::Byte, u32::from(*byte), 0)?;
                }
                Ok(())
            }
        }
    }
}

fn check_bar(place: BarOffset) -> Result<(), PciError> {
    if usize::from(place.bar) < super::BARS {
        return Ok(());
    }
    Err(field("BAR", place.bar.into(), "a function has BARs 0 to 5"))
}

fn field(field: &'static str, value: u64, rule: &'static str) -> PciError {
    PciError::Field { field, value, rule }
}

/// Links the capabilities, each at the next dword, in the order given: the first is the first a guest finds.
pub(super) fn place_capabilities(space: &mut ConfigSpace, list: &[Capability]) -> Result<(), PciError> {
    let mut link = CAPABILITY_LIST;
    let mut at = HEADER_END;
    for capability in list {
        let (id, len) = (capability.id(), capability.bytes());
        let end = u16::try_from(len).ok().and_then(|len| at.checked_add(len)).filter(|end| *end <= CONVENTIONAL_BYTES);
        let room = PciError::CapabilityRoom { id: id.into(), len, end: CONVENTIONAL_BYTES };
        let end = end.ok_or(room)?;
        space.set_register(Register::new(link, Width::Byte)?, at.into());
        space.set_register(Register::new(at, Width::Byte)?, id.into());
        capability.place(space, at)?;
        link = at + 1;
        at = end.next_multiple_of(4);
    }
    if !list.is_empty() {
        let status = Register::new(STATUS, Width::Word)?;
        space.set_register(status, space.read(status) | u32::from(STATUS_CAP_LIST));
    }
    Ok(())
}
