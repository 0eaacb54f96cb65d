//! Registers of the type 0 header and of the capabilities used here, by the names of `pci_regs.h`.
//!
//! Offsets of capability fields count from the capability's own start.

/// `PCI_VENDOR_ID`; the device ID is the dword's upper half.
pub const VENDOR_ID: u16 = 0x00;
/// `PCI_COMMAND`.
pub const COMMAND: u16 = 0x04;
/// `PCI_STATUS`.
pub const STATUS: u16 = 0x06;
/// `PCI_CLASS_REVISION`: revision in the low byte, class in the three above.
pub const CLASS_REVISION: u16 = 0x08;
/// `PCI_CACHE_LINE_SIZE`.
pub const CACHE_LINE_SIZE: u16 = 0x0c;
/// `PCI_HEADER_TYPE`.
pub const HEADER_TYPE: u16 = 0x0e;
/// `PCI_BASE_ADDRESS_0`; five more follow.
pub const BASE_ADDRESS_0: u16 = 0x10;
/// `PCI_SUBSYSTEM_VENDOR_ID`.
pub const SUBSYSTEM_VENDOR_ID: u16 = 0x2c;
/// `PCI_SUBSYSTEM_ID`.
pub const SUBSYSTEM_ID: u16 = 0x2e;
/// `PCI_ROM_ADDRESS`.
pub const ROM_ADDRESS: u16 = 0x30;
/// `PCI_CAPABILITY_LIST`.
pub const CAPABILITY_LIST: u16 = 0x34;
/// `PCI_INTERRUPT_LINE`.
pub const INTERRUPT_LINE: u16 = 0x3c;
/// `PCI_INTERRUPT_PIN`.
pub const INTERRUPT_PIN: u16 = 0x3d;
/// First byte after the header, where capabilities may begin (`PCI_STD_HEADER_SIZEOF`).
pub const HEADER_END: u16 = 0x40;

/// `PCI_COMMAND_IO`: the function answers in I/O space.
pub const COMMAND_IO: u16 = 1 << 0;
/// `PCI_COMMAND_MEMORY`: the function answers in memory space.
pub const COMMAND_MEMORY: u16 = 1 << 1;
/// `PCI_COMMAND_MASTER`.
pub const COMMAND_MASTER: u16 = 1 << 2;
/// `PCI_COMMAND_PARITY`.
pub const COMMAND_PARITY: u16 = 1 << 6;
/// `PCI_COMMAND_SERR`.
pub const COMMAND_SERR: u16 = 1 << 8;
/// `PCI_COMMAND_INTX_DISABLE`.
pub const COMMAND_INTX_DISABLE: u16 = 1 << 10;

/// `PCI_STATUS_CAP_LIST`: there is a capability list.
pub const STATUS_CAP_LIST: u16 = 1 << 4;
/// Error bits of Status, all write-1-to-clear: `PCI_STATUS_PARITY` and `_SIG_TARGET_ABORT` to `_DETECTED_PARITY`.
pub const STATUS_ERRORS: u16 = 0xf900;

/// `PCI_HEADER_TYPE_MFD`: the device has more than function 0.
pub const HEADER_MULTI_FUNCTION: u8 = 0x80;
/// Enable bit of the expansion ROM's BAR (`PCI_ROM_ADDRESS_ENABLE`).
pub const ROM_ENABLE: u32 = 1;
/// Address bits of it (`PCI_ROM_ADDRESS_MASK`).
pub const ROM_ADDRESS_MASK: u32 = 0xffff_f800;

/// `PCI_CAP_ID_PM`.
pub const CAP_POWER_MANAGEMENT: u8 = 0x01;
/// `PCI_CAP_ID_VPD`.
pub const CAP_VPD: u8 = 0x03;
/// `PCI_CAP_ID_MSI`.
pub const CAP_MSI: u8 = 0x05;
/// `PCI_CAP_ID_PCIX`.
pub const CAP_PCIX: u8 = 0x07;
/// `PCI_CAP_ID_VNDR`.
pub const CAP_VENDOR: u8 = 0x09;
/// `PCI_CAP_ID_EXP`.
pub const CAP_EXPRESS: u8 = 0x10;
/// `PCI_CAP_ID_MSIX`.
pub const CAP_MSIX: u8 = 0x11;
/// `PCI_CAP_ID_AF`.
pub const CAP_ADVANCED_FEATURES: u8 = 0x13;
/// `PCI_CAP_ID_EA`.
pub const CAP_ENHANCED_ALLOCATION: u8 = 0x14;

/// `PCI_PM_PMC`.
pub const PM_CAPABILITIES: u16 = 2;
/// `PCI_PM_CTRL`.
pub const PM_CONTROL: u16 = 4;
/// Length of the power management capability (`PCI_PM_SIZEOF`).
pub const PM_BYTES: u16 = 8;

/// `PCI_MSIX_FLAGS`.
pub const MSIX_FLAGS: u16 = 2;
/// `PCI_MSIX_FLAGS_ENABLE`.
pub const MSIX_ENABLE: u16 = 0x8000;
/// `PCI_MSIX_FLAGS_MASKALL`.
pub const MSIX_MASK_ALL: u16 = 0x4000;
/// `PCI_MSIX_TABLE`.
pub const MSIX_TABLE: u16 = 4;
/// `PCI_MSIX_PBA`.
pub const MSIX_PBA: u16 = 8;
/// Length of the MSI-X capability (`PCI_CAP_MSIX_SIZEOF`).
pub const MSIX_BYTES: u16 = 12;

/// `PCI_EXP_FLAGS`: version in bits 3:0, port type in 7:4.
pub const EXP_FLAGS: u16 = 0x02;
/// `PCI_EXP_DEVCAP`.
pub const EXP_DEVCAP: u16 = 0x04;
/// `PCI_EXP_DEVCTL`.
pub const EXP_DEVCTL: u16 = 0x08;
/// `PCI_EXP_DEVSTA`.
pub const EXP_DEVSTA: u16 = 0x0a;
/// `PCI_EXP_LNKCAP`.
pub const EXP_LNKCAP: u16 = 0x0c;
/// `PCI_EXP_DEVCAP2`.
pub const EXP_DEVCAP2: u16 = 0x24;
/// `PCI_EXP_LNKCAP2`.
pub const EXP_LNKCAP2: u16 = 0x2c;
/// Length of the PCI Express capability, version 2.
pub const EXP_BYTES: u16 = 0x3c;
/// Port type Root Complex Integrated Endpoint (`PCI_EXP_TYPE_RC_END`).
pub const EXP_TYPE_INTEGRATED_ENDPOINT: u16 = 9;

/// `PCI_EXT_CAP_ID_ERR`.
pub const EXT_CAP_AER: u16 = 0x0001;
/// `PCI_EXT_CAP_ID_DSN`.
pub const EXT_CAP_SERIAL_NUMBER: u16 = 0x0003;

/// `virtio_pci_cap.cfg_type` (virtio 1.2, 4.1.4).
pub const VIRTIO_CFG_TYPE: u16 = 3;
/// `virtio_pci_cap.bar`.
pub const VIRTIO_BAR: u16 = 4;
/// `virtio_pci_cap.offset`.
pub const VIRTIO_OFFSET: u16 = 8;
/// `virtio_pci_cap.length`.
pub const VIRTIO_LENGTH: u16 = 12;
/// `virtio_pci_notify_cap.notify_off_multiplier`, and `virtio_pci_cfg_cap.pci_cfg_data` in its place.
pub const VIRTIO_EXTRA: u16 = 16;
/// Red Hat's vendor ID, that of all virtio functions (virtio 1.2, 4.1.2).
pub const VIRTIO_VENDOR: u16 = 0x1af4;
/// Device ID of a modern virtio function less its virtio device ID (virtio 1.2, 4.1.2.1).
pub const VIRTIO_MODERN_BASE: u16 = 0x1040;
