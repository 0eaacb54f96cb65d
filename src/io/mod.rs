//! The VM's I/O buses: ioeventfds, coalesced zones and the ring they share.
//!
//! A guest store that reached the emulator is offered to these buses before it becomes an exit to user
//! space (reference: `virt/kvm/kvm_main.c`, `eventfd.c`, `coalesced_mmio.c`):
//!
//! ```text
//! POWER store -> FAST_MMIO bus (length-0 ioeventfds, by address alone)
//!             -> MMIO bus      (ioeventfds, coalesced zones -> ring)   -> KVM_EXIT_MMIO
//! x86 OUT     -> PIO bus       (the same kinds)                        -> KVM_EXIT_IO
//! ```
//!
//! One [`IoSpace`] per VM owns the buses; each vCPU has an [`IoReader`], which performs accesses without
//! taking a lock (the ring's producers alone take one, as in the kernel).
//!
//! ```
//! use hvmmio::addr::KernelBehaviour;
//! use hvmmio::io::{BusWrite, HostPage, IoBus, IoSpace, Ioeventfd};
//!
//! let io = IoSpace::new(HostPage::Kib64, KernelBehaviour::default());
//! let fd = io.create_eventfd();
//! io.assign(Ioeventfd { bus: IoBus::Mmio, addr: 0x1000, len: 2, datamatch: None, fd: fd.id() })?;
//! let mut vcpu = io.reader();
//! assert_eq!(vcpu.mmio_write(0x1000, &[1, 0]), BusWrite::Eventfd(fd.id()));
//! assert_eq!(vcpu.mmio_write(0x1000, &[1, 0, 0, 0]), BusWrite::Unhandled { ring_full: false });
//! assert_eq!(fd.count(), 1);
//! # Ok::<(), hvmmio::io::IoError>(())
//! ```

mod bus;
mod coalesced;
mod error;
mod eventfd;
mod index;
mod ioeventfd;
mod model;
pub mod pci;
mod reader;
mod ring;
mod space;

pub use bus::{Device, MAX_BUS_DEVICES};
pub use coalesced::CoalescedZone;
pub use error::IoError;
pub use eventfd::{Eventfd, EventfdId};
pub use ioeventfd::Ioeventfd;
pub use model::DeviceModel;
pub use reader::{BusRead, BusWrite, IoAccess, IoReader};
pub use ring::{Entry, HostPage, OwnWord, Ring, RingConsumer, RingError, RingFull, RingPage, SharedWord};
pub use space::{IoSpace, IoState};

/// The bus a device is registered on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoBus {
    /// `KVM_MMIO_BUS`: guest physical addresses.
    Mmio,
    /// `KVM_PIO_BUS`: x86 port numbers.
    Pio,
}
