//! What KVM_RUN returns with, and what was done without returning.

use crate::addr::{GuestPhysAddr, Port};

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A port, on the PIO bus.
    Port(Port),
    /// An address without memory, on the MMIO bus.
    Mmio(GuestPhysAddr),
}

impl Target {
    /// Port number or address.
    #[must_use]
    pub fn addr(self) -> u64 {
        match self {
            Self::Port(port) => u64::from(port.0),
            Self::Mmio(gpa) => gpa.0,
        }
    }
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// IN, or a load.
    Read,
    /// OUT, or a store.
    Write,
}

/// An exit to user space: KVM_EXIT_IO (`kvm_run.io`) or KVM_EXIT_MMIO (`kvm_run.mmio`). Its data lies in the vCPU's
/// [`Vcpu::exit_data`](super::Vcpu::exit_data).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserExit {
    /// Where to.
    pub target: Target,
    /// Which way.
    pub direction: Direction,
    /// Bytes of an element: 1, 2 or 4 for ports, 1 to 8 for MMIO (part of an access that crosses a page may have 3, 5, 6 or 7).
    pub size: u8,
    /// Elements, 1 for all but REP INS.
    pub count: u32,
    /// A coalesced zone would have taken the write, had the ring had room.
    pub ring_full: bool,
}

impl UserExit {
    /// Bytes of data: size times count, at most a page.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.size as usize * self.count as usize
    }
}

/// How a step of an instruction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// User space has to handle an exit and run the vCPU again.
    Exit(UserExit),
    /// The guest was entered, and the same string instruction goes on there: run the vCPU again.
    Reentered,
    /// The instruction is complete.
    Done,
}

/// Elements that did not need user space, by who took them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handled {
    /// A length-0 ioeventfd on KVM_FAST_MMIO_BUS.
    pub fast_mmio: u32,
    /// Another ioeventfd.
    pub eventfd: u32,
    /// The coalesced ring.
    pub coalesced: u32,
    /// A device in the kernel.
    pub in_kernel: u32,
    /// A read-only memslot.
    pub memory: u32,
}
