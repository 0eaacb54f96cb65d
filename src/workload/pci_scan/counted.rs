//! The accesses of a scan, counted.

use crate::io::pci::{Bdf, ConfigAccess, Register, Width};

/// Configuration accesses made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessCounts {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

impl AccessCounts {
    /// Reads and writes.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.reads + self.writes
    }
}

/// Access to configuration space by offset, as drivers write it (`pci_read_config_dword` and its kin).
pub(super) struct Counted<'a, C: ?Sized> {
    config: &'a mut C,
    pub(super) counts: AccessCounts,
}

impl<'a, C: ConfigAccess + ?Sized> Counted<'a, C> {
    pub(super) fn new(config: &'a mut C) -> Self {
        Self { config, counts: AccessCounts::default() }
    }

    /// `None` if the register is out of reach: no access is made then, and none counted.
    pub(super) fn try_read(&mut self, bdf: Bdf, offset: u16, width: Width) -> Option<u32> {
        let value = self.config.read(bdf, Register::new(offset, width).ok()?).ok()?;
        self.counts.reads += 1;
        Some(value)
    }

    /// All ones if the register is out of reach (`PCI_SET_ERROR_RESPONSE`).
    pub(super) fn read(&mut self, bdf: Bdf, offset: u16, width: Width) -> u32 {
        self.try_read(bdf, offset, width).unwrap_or(width.ones())
    }

    /// Nothing if the register is out of reach.
    pub(super) fn write(&mut self, bdf: Bdf, offset: u16, width: Width, value: u32) {
        let written = Register::new(offset, width).is_ok_and(|reg| self.config.write(bdf, reg, value).is_ok());
        self.counts.writes += u64::from(written);
    }
}
