//! The guest's instruction: a port or an address, a width, a value, a string count.

use crate::addr::{GuestPhysAddr, Port};
use crate::io::pci::{MachineAccess, Width as ConfigWidth};

/// Bytes of a port access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PortWidth {
    /// 1 byte: INB, OUTB.
    Byte,
    /// 2 bytes: INW, OUTW.
    Word,
    /// 4 bytes: INL, OUTL.
    Dword,
}

impl PortWidth {
    /// 1, 2 or 4.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Word => 2,
            Self::Dword => 4,
        }
    }

    /// The width of so many bytes; none but 1, 2 and 4 is one.
    #[must_use]
    pub const fn of_bytes(bytes: u64) -> Option<Self> {
        match bytes {
            1 => Some(Self::Byte),
            2 => Some(Self::Word),
            4 => Some(Self::Dword),
            _ => None,
        }
    }
}

/// Bytes of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Width {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Word,
    /// 4 bytes.
    Dword,
    /// 8 bytes.
    Qword,
}

impl Width {
    /// 1, 2, 4 or 8.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Word => 2,
            Self::Dword => 4,
            Self::Qword => 8,
        }
    }
}

/// Which way a string instruction goes through memory (EFLAGS.DF).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StringStep {
    /// Upwards, DF clear.
    #[default]
    Up,
    /// Downwards, DF set.
    Down,
}

/// An instruction that accesses a port or memory that may be a device's. Values are little-endian; bytes beyond the
/// width are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Instruction {
    /// `IN`.
    In {
        /// Port.
        port: Port,
        /// Width.
        width: PortWidth,
    },
    /// `OUT`.
    Out {
        /// Port.
        port: Port,
        /// Width.
        width: PortWidth,
        /// Value.
        value: u32,
    },
    /// `REP INS`.
    Ins {
        /// Port.
        port: Port,
        /// Width of an element.
        width: PortWidth,
        /// Elements (rCX), 0 or more.
        count: u64,
        /// Where the string begins in its page (rDI), 0 to 4095; taken modulo the page.
        page_offset: u16,
        /// Which way.
        step: StringStep,
    },
    /// `REP OUTS`.
    Outs {
        /// Port.
        port: Port,
        /// Width of an element.
        width: PortWidth,
        /// What is written, element by element; an element that is not whole at the end is left out.
        data: Vec<u8>,
    },
    /// A load.
    Load {
        /// Address.
        gpa: GuestPhysAddr,
        /// Width.
        width: Width,
    },
    /// A store.
    Store {
        /// Address.
        gpa: GuestPhysAddr,
        /// Width.
        width: Width,
        /// Value.
        value: u64,
    },
}

impl From<ConfigWidth> for PortWidth {
    fn from(width: ConfigWidth) -> Self {
        match width {
            ConfigWidth::Byte => Self::Byte,
            ConfigWidth::Word => Self::Word,
            ConfigWidth::Dword => Self::Dword,
        }
    }
}

impl From<ConfigWidth> for Width {
    fn from(width: ConfigWidth) -> Self {
        match width {
            ConfigWidth::Byte => Self::Byte,
            ConfigWidth::Word => Self::Word,
            ConfigWidth::Dword => Self::Dword,
        }
    }
}

impl From<MachineAccess> for Instruction {
    /// A load from a read-only memslot is a load like any other: what backs the address makes the difference.
    fn from(access: MachineAccess) -> Self {
        match access {
            MachineAccess::Out { port, width, value } => Self::Out { port, width: width.into(), value },
            MachineAccess::In { port, width } => Self::In { port, width: width.into() },
            MachineAccess::Load { addr, width } | MachineAccess::MemoryLoad { addr, width } => {
                Self::Load { gpa: addr, width: width.into() }
            }
            MachineAccess::Store { addr, width, value } => {
                Self::Store { gpa: addr, width: width.into(), value: u64::from(value) }
            }
        }
    }
}
