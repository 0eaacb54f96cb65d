//! Modern virtio functions, with the BARs and capabilities that QEMU gives them (virtio 1.2, 4.1).

use super::regs::{VIRTIO_MODERN_BASE, VIRTIO_VENDOR};
use super::{
    Bar, BarKind, BarOffset, Capability, Class, ConfigSpace, ExtendedCapability, FunctionConfig, InterruptPin,
    PciError, VirtioStructure,
};

/// Length of each structure in BAR 4: common, ISR, device and notify lie 4 KiB apart (`virtio_pci_realize`).
const STRUCTURE_BYTES: u32 = 0x1000;
/// BAR of the structures.
const STRUCTURES_BAR: u8 = 4;
/// BAR of the MSI-X table and pending bits.
const MSIX_BAR: u8 = 1;
/// Bytes between two queues' doorbells (`QEMU_VIRTIO_PCI_QUEUE_MEM_MULT`).
const NOTIFY_MULTIPLIER: u32 = 4;
/// Bytes of a vector's entry in the MSI-X table (`PCI_MSIX_ENTRY_SIZE`).
const MSIX_ENTRY_BYTES: u32 = 16;
/// Subsystem ID of QEMU's virtio functions (`PCI_SUBDEVICE_ID_QEMU`).
const QEMU_SUBSYSTEM: u16 = 0x1100;

/// A virtio device ID (virtio 1.2, 5): 1 to 0x3f, so that the PCI device ID stays in 0x1041 to 0x107f.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtioId(u8);

impl VirtioId {
    /// Network card.
    pub const NET: Self = Self(1);
    /// Block device.
    pub const BLOCK: Self = Self(2);
    /// Console.
    pub const CONSOLE: Self = Self(3);
    /// Entropy source.
    pub const ENTROPY: Self = Self(4);

    /// The device of that ID.
    ///
    /// # Errors
    /// 0 or above 0x3f.
    pub const fn new(id: u8) -> Result<Self, PciError> {
        if id == 0 || id > 0x3f {
            let rule = "virtio_pci drives PCI devices up to 0x107f: IDs 1 to 0x3f";
            return Err(PciError::Field { field: "virtio device ID", value: id as u64, rule });
        }
        Ok(Self(id))
    }

    /// The ID, 1 to 0x3f.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    const fn class(self) -> Class {
        match self {
            Self::NET => Class::ETHERNET,
            Self::BLOCK => Class::SCSI,
            Self::CONSOLE => Class::COMMUNICATION,
            _ => Class::OTHERS,
        }
    }
}

/// What kind of bus the function is on, which decides whether it has extended configuration space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Attachment {
    /// Conventional PCI, as on QEMU's i440FX: no PCI Express capability, nothing from 0x100 up.
    Conventional,
    /// On the root bus of a PCI Express machine, as on QEMU's q35: power management and PCI Express capabilities, and
    /// a serial number at 0x100.
    #[default]
    IntegratedEndpoint,
}

/// A modern virtio function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtioFunction {
    /// Which device.
    pub id: VirtioId,
    /// MSI-X vectors, 1 to 2048.
    pub vectors: u16,
    /// What bus it is on.
    pub attachment: Attachment,
}

impl VirtioFunction {
    /// A function with three vectors, for configuration changes and two queues.
    #[must_use]
    pub const fn new(id: VirtioId, attachment: Attachment) -> Self {
        Self { id, vectors: 3, attachment }
    }

    /// Its description: vendor 0x1af4, device 0x1040 + ID, revision 1; BAR 1 holds the MSI-X table (32-bit memory),
    /// BAR 4 the four structures (16 KiB of 64-bit prefetchable memory).
    #[must_use]
    pub fn describe(&self) -> FunctionConfig {
        let pending = (u32::from(self.vectors) * MSIX_ENTRY_BYTES).next_multiple_of(0x800);
        let msix_bytes = u64::from(pending) * 2;
        let msix = Bar { kind: BarKind::Memory32, size: msix_bytes.next_power_of_two().max(0x1000) };
        let structures = Bar { kind: BarKind::Prefetchable64, size: u64::from(STRUCTURE_BYTES) * 4 };
        let place = |offset| BarOffset { bar: STRUCTURES_BAR, offset };
        let virtio = |structure, index: u32, length| Capability::Virtio {
            structure,
            place: place(index * STRUCTURE_BYTES),
            length,
        };

        let mut capabilities = vec![
            Capability::MsiX {
                vectors: self.vectors,
                table: BarOffset { bar: MSIX_BAR, offset: 0 },
                pending: BarOffset { bar: MSIX_BAR, offset: pending },
            },
            virtio(VirtioStructure::PciWindow, 0, 0),
            virtio(VirtioStructure::Notify { multiplier: NOTIFY_MULTIPLIER }, 3, STRUCTURE_BYTES),
            virtio(VirtioStructure::Device, 2, STRUCTURE_BYTES),
            virtio(VirtioStructure::Isr, 1, STRUCTURE_BYTES),
            virtio(VirtioStructure::Common, 0, STRUCTURE_BYTES),
        ];
        let mut extended = vec![];
        if self.attachment == Attachment::IntegratedEndpoint {
            capabilities.extend([Capability::PowerManagement, Capability::ExpressIntegratedEndpoint]);
            extended.push(ExtendedCapability::SerialNumber(u64::from(self.id.get())));
        }
        FunctionConfig {
            vendor: VIRTIO_VENDOR,
            device: VIRTIO_MODERN_BASE + u16::from(self.id.get()),
            class: self.id.class(),
            revision: 1,
            subsystem_vendor: VIRTIO_VENDOR,
            subsystem: QEMU_SUBSYSTEM,
            interrupt_pin: InterruptPin::A,
            bars: [None, Some(msix), None, None, Some(structures), None],
            rom: None,
            capabilities,
            extended,
        }
    }

    /// Its configuration space.
    ///
    /// # Errors
    /// Vectors out of range.
    pub fn config_space(&self) -> Result<ConfigSpace, PciError> {
        self.describe().config_space()
    }
}
