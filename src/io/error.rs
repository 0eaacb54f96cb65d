//! What a change to the buses can be refused for, with the kernel's errno.

use crate::addr::Errno;

use super::EventfdId;

/// A refused registration or removal. The text starts with the errno the kernel's ioctl would give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// `kvm_assign_ioeventfd`: not a length a guest store can have.
    #[error("EINVAL: ioeventfd of length {len}; it must be 0 (any), 1, 2, 4 or 8")]
    EventfdLength {
        /// What was asked for, in bytes.
        len: u32,
    },
    /// `kvm_assign_ioeventfd`: length 0 never looks at the data.
    #[error("EINVAL: ioeventfd at {addr:#x} with length 0 and datamatch; give a length, or drop the datamatch")]
    DatamatchWithoutLength {
        /// Address or port.
        addr: u64,
    },
    /// The range ends past the last address.
    #[error("EINVAL: {len} bytes at {addr:#x} wrap around the end of the address space")]
    WrapsAround {
        /// First address.
        addr: u64,
        /// Length in bytes.
        len: u32,
    },
    /// `kvm_vm_ioctl_(un)register_coalesced_mmio`: `pio` is a flag.
    #[error("EINVAL: coalesced zone at {addr:#x} with pio = {pio}; it must be 0 (MMIO) or 1 (port I/O)")]
    PioFlag {
        /// First address of the zone.
        addr: u64,
        /// The flag as given.
        pio: u32,
    },
    /// `ioeventfd_check_collision`: the two could not be told apart.
    #[error(
        "EEXIST: ioeventfd at {addr:#x} length {len} collides with one of length {other}; deassign that first, or tell them apart by datamatch"
    )]
    Collision {
        /// Address or port.
        addr: u64,
        /// Length of the refused one.
        len: u32,
        /// Length of the one already there.
        other: u32,
    },
    /// `kvm_deassign_ioeventfd`: nothing registered with exactly these values.
    #[error(
        "ENOENT: no ioeventfd {fd} at {addr:#x} length {len} with that datamatch; deassign must repeat bus, fd, address, length and data of the assign"
    )]
    NoSuchIoeventfd {
        /// The eventfd named.
        fd: EventfdId,
        /// Address or port.
        addr: u64,
        /// Length in bytes.
        len: u32,
    },
    /// `eventfd_ctx_fdget`: the VM has no such eventfd.
    #[error("EBADF: {fd} is no eventfd of this VM; create it with create_eventfd")]
    BadEventfd {
        /// The eventfd named.
        fd: EventfdId,
    },
    /// `kvm_io_bus_register_dev`: the bus is full.
    #[error("ENOSPC: the bus already has {devices} devices besides ioeventfds, at most {} fit", super::MAX_BUS_DEVICES)]
    BusFull {
        /// Devices on the bus, ioeventfds not counted.
        devices: usize,
    },
}

impl IoError {
    /// What the kernel answers.
    #[must_use]
    pub const fn code(&self) -> Errno {
        match self {
            Self::EventfdLength { .. }
            | Self::DatamatchWithoutLength { .. }
            | Self::WrapsAround { .. }
            | Self::PioFlag { .. } => Errno::Invalid,
            Self::Collision { .. } => Errno::Exists,
            Self::NoSuchIoeventfd { .. } => Errno::NoEntry,
            Self::BadEventfd { .. } => Errno::BadFile,
            Self::BusFull { .. } => Errno::NoSpace,
        }
    }

    /// The errno's name, for example `EEXIST`.
    #[must_use]
    pub const fn errno(&self) -> &'static str {
        self.code().name()
    }
}
