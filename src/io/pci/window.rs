//! The ECAM window: 256 MiB of guest physical addresses that are registers.

use super::{Bdf, CONFIG_SPACE_BYTES, PciError, Register, Width};
use crate::addr::GuestPhysAddr;

/// Bytes of the window: 256 buses of 32 devices with 8 functions of 4 KiB.
pub const ECAM_BYTES: u64 = 256 << 20;

/// Where the enhanced configuration access mechanism is (PCI Express Base 4.0, 7.2.2): the address of a register is
/// base + (bus << 20 | device << 15 | function << 12 | offset).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EcamWindow(GuestPhysAddr);

impl EcamWindow {
    /// A window for all 256 buses at `base`.
    ///
    /// # Errors
    /// `base` is not a multiple of 256 MiB, so its bits would mix with those of the bus number.
    pub const fn new(base: GuestPhysAddr) -> Result<Self, PciError> {
        if base.0 % ECAM_BYTES != 0 {
            return Err(PciError::Window { base: base.0 });
        }
        Ok(Self(base))
    }

    /// First address.
    #[must_use]
    pub const fn base(self) -> GuestPhysAddr {
        self.0
    }

    /// Address of a register.
    #[must_use]
    pub const fn addr(self, bdf: Bdf, register: Register) -> GuestPhysAddr {
        GuestPhysAddr(self.0.0 | (bdf.bits() as u64) << 12 | register.offset() as u64)
    }

    /// Whether the address lies in the window.
    #[must_use]
    pub const fn contains(self, addr: GuestPhysAddr) -> bool {
        addr.0 - addr.0 % ECAM_BYTES == self.0.0
    }

    /// Which function and which of its bytes an address in the window stands for.
    #[must_use]
    pub(super) fn byte(self, addr: GuestPhysAddr) -> Option<(Bdf, u16)> {
        let offset = addr.0.checked_sub(self.0.0)?;
        let bdf = u16::try_from(offset >> 12).ok()?;
        let register = u16::try_from(offset & u64::from(CONFIG_SPACE_BYTES - 1)).ok()?;
        Some((Bdf::from_bits(bdf), register))
    }

    /// The register that an access of `len` bytes names, if it is a well-formed one in the window.
    #[must_use]
    pub(super) fn register(self, addr: GuestPhysAddr, len: usize) -> Option<(Bdf, Register)> {
        let (bdf, offset) = self.byte(addr)?;
        Some((bdf, Register::new(offset, Width::of_bytes(len)?).ok()?))
    }
}

impl Default for EcamWindow {
    /// Where QEMU's q35 has it (`MCH_HOST_BRIDGE_PCIEXBAR_DEFAULT`).
    fn default() -> Self {
        Self(GuestPhysAddr(0xb000_0000))
    }
}
