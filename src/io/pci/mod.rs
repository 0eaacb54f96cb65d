//! PCI configuration space of an x86 machine: what a function holds, and three ways to it.
//!
//! ```text
//! OUT 0xcf8, IN or OUT 0xcfc..0xcff   type 1: two exits, registers below 0x100
//! load or store in the ECAM window    one exit, all 4 KiB
//! load from a read-only memslot       no exit; the functions' pages are the guest's memory
//! ```
//!
//! A [`FunctionConfig`] or [`VirtioFunction`] describes a function, [`ConfigSpace`] is its 4 KiB, [`PciBus`] has them by
//! [`Bdf`], [`HostBridge`] decodes the guest's accesses. [`ConfigMethod`] says which accesses a guest makes.
//!
//! The pages exist once. Guest writes go through the functions' masks into them, devices write them directly, and a
//! read-only memslot shows them: nothing has to be kept in step.
//!
//! ```
//! use hvmmio::addr::Port;
//! use hvmmio::io::pci::{Attachment, EcamWindow, HostBridge, PciBus};
//!
//! let bus = PciBus::with_virtio(1, Attachment::IntegratedEndpoint)?;
//! let mut host = HostBridge::new(EcamWindow::default(), bus);
//! let mut id = [0; 4];
//! host.port_write(Port(0xcf8), &0x8000_0800_u32.to_le_bytes());
//! host.port_read(Port(0xcfc), &mut id);
//! assert_eq!(u32::from_le_bytes(id), 0x1041_1af4);
//! # Ok::<(), hvmmio::io::pci::PciError>(())
//! ```

mod address;
mod bar;
mod bus;
mod capability;
mod error;
mod extended;
mod header;
mod host;
mod method;
pub mod regs;
mod space;
mod virtio;
mod window;

pub use address::{Bdf, CONFIG_SPACE_BYTES, CONVENTIONAL_BYTES, Register, Width};
pub use bar::{BARS, Bar, BarKind};
pub use bus::{MAX_VIRTIO_FUNCTIONS, PciBus};
pub use capability::{BarOffset, Capability, VirtioStructure};
pub use error::PciError;
pub use extended::ExtendedCapability;
pub use header::{Class, FunctionConfig, InterruptPin};
pub use host::{ConfigWrite, HostBridge, RESET_CONTROL};
pub use method::{
    ByMethod, CONFIG_ADDRESS, CONFIG_DATA, CONFIG_ENABLE, ConfigAccess, ConfigMethod, MachineAccess, MachineAccesses,
    ReadOnlySlots, Unreachable,
};
pub use space::ConfigSpace;
pub use virtio::{Attachment, VirtioFunction, VirtioId};
pub use window::{ECAM_BYTES, EcamWindow};
