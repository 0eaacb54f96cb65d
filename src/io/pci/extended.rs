//! Extended capabilities: from 0x100 up, where the type 1 mechanism does not reach.

use super::regs::{EXT_CAP_AER, EXT_CAP_SERIAL_NUMBER};
use super::{CONFIG_SPACE_BYTES, CONVENTIONAL_BYTES, ConfigSpace, PciError, Register, Width};

/// One extended capability (PCI Express Base 4.0, 7.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtendedCapability {
    /// Device Serial Number, 12 bytes.
    SerialNumber(u64),
    /// Advanced Error Reporting, version 2, 0x48 bytes: status write-1-to-clear, masks and severity writable.
    AdvancedErrorReporting,
}

impl ExtendedCapability {
    /// Extended capability ID.
    #[must_use]
    pub const fn id(self) -> u16 {
        match self {
            Self::SerialNumber(_) => EXT_CAP_SERIAL_NUMBER,
            Self::AdvancedErrorReporting => EXT_CAP_AER,
        }
    }

    /// Its length in bytes, the header included.
    #[must_use]
    pub const fn bytes(self) -> u16 {
        match self {
            Self::SerialNumber(_) => 12,
            Self::AdvancedErrorReporting => 0x48,
        }
    }

    const fn version(self) -> u32 {
        match self {
            Self::SerialNumber(_) => 1,
            Self::AdvancedErrorReporting => 2,
        }
    }

    fn place(self, space: &mut ConfigSpace, at: u16) -> Result<(), PciError> {
        let dword = |offset: u16| Register::new(at + offset, Width::Dword);
        match self {
            Self::SerialNumber(number) => {
                let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
                space.set_register(dword(4)?, u32::from_le_bytes([a, b, c, d]));
                space.set_register(dword(8)?, u32::from_le_bytes([e, f, g, h]));
            }
            Self::AdvancedErrorReporting => {
                // Uncorrectable errors: PCI_ERR_UNC_*, bits 4, 5 and 12 to 22; correctable: PCI_ERR_COR_*.
                const UNCORRECTABLE: u32 = 0x007f_f030;
                const UNCORRECTABLE_FATAL: u32 = 0x0046_2030;
                const CORRECTABLE: u32 = 0x0000_f1c1;
                const ADVISORY_NON_FATAL: u32 = 0x2000;
                space.set_write_one_to_clear(dword(0x04)?, UNCORRECTABLE);
                space.set_writable(dword(0x08)?, UNCORRECTABLE);
                space.set_register(dword(0x0c)?, UNCORRECTABLE_FATAL);
                space.set_writable(dword(0x0c)?, UNCORRECTABLE);
                space.set_write_one_to_clear(dword(0x10)?, CORRECTABLE);
                space.set_register(dword(0x14)?, ADVISORY_NON_FATAL);
                space.set_writable(dword(0x14)?, CORRECTABLE);
            }
        }
        Ok(())
    }
}

/// Links the extended capabilities from 0x100, in the order given.
pub(super) fn place_extended(space: &mut ConfigSpace, list: &[ExtendedCapability]) -> Result<(), PciError> {
    let mut at = CONVENTIONAL_BYTES;
    for (index, capability) in list.iter().enumerate() {
        let end = at + capability.bytes();
        if end > CONFIG_SPACE_BYTES {
            let (id, len) = (capability.id(), capability.bytes().into());
            return Err(PciError::CapabilityRoom { id, len, end: CONFIG_SPACE_BYTES });
        }
        let next = if index + 1 == list.len() { 0 } else { end };
        let header = u32::from(next) << 20 | capability.version() << 16 | u32::from(capability.id());
        space.set_register(Register::new(at, Width::Dword)?, header);
        capability.place(space, at)?;
        at = end;
    }
    Ok(())
}
