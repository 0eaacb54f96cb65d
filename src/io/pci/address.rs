//! Who is addressed, and which bytes: bus/device/function numbers and registers.

use std::fmt;

use super::PciError;

/// Bytes of a function's configuration space (PCI Express Base, 7.2; `PCI_CFG_SPACE_EXP_SIZE`).
pub const CONFIG_SPACE_BYTES: u16 = 4096;

/// Bytes that the type 1 mechanism reaches (PCI Local Bus 3.0, 6.1; `PCI_CFG_SPACE_SIZE`).
pub const CONVENTIONAL_BYTES: u16 = 256;

/// Bus, device and function number: 8, 5 and 3 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf(u16);

impl Bdf {
    /// The address of device 0 to 31 and function 0 to 7 on a bus.
    ///
    /// # Errors
    /// Device or function number out of range.
    pub const fn new(bus: u8, device: u8, function: u8) -> Result<Self, PciError> {
        if device > 31 || function > 7 {
            return Err(PciError::Address { bus, device, function });
        }
        Ok(Self::from_bits((bus as u16) << 8 | (device as u16) << 3 | function as u16))
    }

    /// From bus << 8 | device << 3 | function, as in bits 23:8 of port 0xcf8. Each value is an address.
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Bus << 8 | device << 3 | function (`PCI_DEVID`).
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Bus number.
    #[must_use]
    pub const fn bus(self) -> u8 {
        self.0.to_le_bytes()[1]
    }

    /// Device number, 0 to 31 (`PCI_SLOT`).
    #[must_use]
    pub const fn device(self) -> u8 {
        self.0.to_le_bytes()[0] >> 3
    }

    /// Function number, 0 to 7 (`PCI_FUNC`).
    #[must_use]
    pub const fn function(self) -> u8 {
        self.0.to_le_bytes()[0] & 7
    }

    /// Another function of the same device; the low three bits of `function` count.
    #[must_use]
    pub const fn sibling(self, function: u8) -> Self {
        Self(self.0 & !7 | (function & 7) as u16)
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{:x}", self.bus(), self.device(), self.function())
    }
}

/// How wide an access is: the three widths that configuration space has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Word,
    /// 4 bytes.
    Dword,
}

impl Width {
    /// Every one, narrowest first.
    pub const ALL: [Self; 3] = [Self::Byte, Self::Word, Self::Dword];

    /// Bytes: 1, 2 or 4.
    #[must_use]
    pub const fn bytes(self) -> u16 {
        match self {
            Self::Byte => 1,
            Self::Word => 2,
            Self::Dword => 4,
        }
    }

    /// All ones: what nobody's register reads as.
    #[must_use]
    pub const fn ones(self) -> u32 {
        match self {
            Self::Byte => 0xff,
            Self::Word => 0xffff,
            Self::Dword => 0xffff_ffff,
        }
    }

    /// The width of so many bytes, if there is one.
    #[must_use]
    pub const fn of_bytes(len: usize) -> Option<Self> {
        match len {
            1 => Some(Self::Byte),
            2 => Some(Self::Word),
            4 => Some(Self::Dword),
            _ => None,
        }
    }
}

/// Some bytes of a configuration space that one access can name: 1, 2 or 4 of them within one dword, below 4 KiB.
///
/// That one exists says that an access is well formed; not that a function implements the register, nor that every
/// method reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register {
    offset: u16,
    width: Width,
}

impl Register {
    /// The register of that width at `offset`.
    ///
    /// # Errors
    /// It crosses a dword, or lies at 4 KiB or above.
    pub const fn new(offset: u16, width: Width) -> Result<Self, PciError> {
        if offset >= CONFIG_SPACE_BYTES || (offset & 3) + width.bytes() > 4 {
            return Err(PciError::Register { offset: offset as u64, len: width.bytes() as usize });
        }
        Ok(Self { offset, width })
    }

    /// First byte, 0 to 0xfff.
    #[must_use]
    pub const fn offset(self) -> u16 {
        self.offset
    }

    /// How many bytes.
    #[must_use]
    pub const fn width(self) -> Width {
        self.width
    }

    /// Whether it lies in the first 256 bytes, where the type 1 mechanism reaches.
    #[must_use]
    pub const fn is_conventional(self) -> bool {
        self.offset < CONVENTIONAL_BYTES
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#05x}/{}", self.offset, self.width.bytes())
    }
}
