//! What a PCI topology or a function's description can be refused for.

use super::Bdf;

/// A refused address, function or topology. Guest accesses never give one: they read all ones or are dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PciError {
    /// Device or function number out of range.
    #[error(
        "no such PCI address {bus:02x}:{device:02x}.{function:x}: a bus has devices 0 to 0x1f, a device functions 0 to 7"
    )]
    Address {
        /// Bus asked for.
        bus: u8,
        /// Device asked for.
        device: u8,
        /// Function asked for.
        function: u8,
    },
    /// Not within one dword of a 4 KiB configuration space.
    #[error("no register of {len} bytes at {offset:#x}: it must lie within one dword, below 0x1000")]
    Register {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// The place is taken.
    #[error("{bdf} is already there; remove it first, or take another function")]
    Occupied {
        /// Address asked for.
        bdf: Bdf,
    },
    /// An OS looks at functions 1 to 7 only where function 0 answers.
    #[error("{bdf} needs function 0 of its device: add that first, and remove it last")]
    FunctionZero {
        /// The function that would be left alone.
        bdf: Bdf,
    },
    /// More functions than bus 0 has room for beside the host bridge.
    #[error("{asked} virtio functions do not fit on bus 0: at most {} do", super::MAX_VIRTIO_FUNCTIONS)]
    TooManyFunctions {
        /// Functions asked for.
        asked: u16,
    },
    /// No size that a BAR can decode.
    #[error("BAR {index} of {size:#x} bytes: {rule}")]
    BarSize {
        /// Number of the BAR, 6 for the expansion ROM.
        index: usize,
        /// Size asked for, in bytes.
        size: u64,
        /// What would be right.
        rule: &'static str,
    },
    /// A 64-bit BAR takes two of the six.
    #[error("BAR {index} is 64 bits wide and needs BAR {} free", index + 1)]
    BarOverlap {
        /// Number of the lower half.
        index: usize,
    },
    /// The capabilities do not fit.
    #[error("capability {id:#x} of {len} bytes does not fit: the list ends at {end:#x}")]
    CapabilityRoom {
        /// Capability ID.
        id: u16,
        /// Its length in bytes.
        len: usize,
        /// First byte after the room for such capabilities.
        end: u16,
    },
    /// A field's value does not fit the register it goes into.
    #[error("{field} {value:#x} is out of range: {rule}")]
    Field {
        /// Which field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What would be right.
        rule: &'static str,
    },
    /// The ECAM window's base must leave the bits to bus, device and function.
    #[error("ECAM window at {base:#x}: it must be aligned to its 256 MiB")]
    Window {
        /// First address asked for.
        base: u64,
    },
}
