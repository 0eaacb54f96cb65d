//! The configuration space of one function: 4 KiB of registers, and what a write may change in them.

use std::fmt;
use std::ops::Range;

use super::{CONFIG_SPACE_BYTES, Register};

type Page = [u8; CONFIG_SPACE_BYTES as usize];

/// Configuration space of one function.
///
/// The bytes are the page of guest memory that a read-only ECAM memslot shows: there is no second copy to keep in
/// step. A write by the guest goes through two masks beside them, one bit each: `writable` bits take the value written,
/// write-1-to-clear bits are cleared by a 1; all others stay (PCI Local Bus 3.0, 6.2; QEMU's `pci_default_write_config`
/// has the same two).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ConfigSpace {
    image: Box<Page>,
    writable: Box<Page>,
    clears: Box<Page>,
}

impl ConfigSpace {
    /// Zero everywhere, and nothing writable.
    #[must_use]
    pub fn new() -> Self {
        let zero = || Box::new([0; CONFIG_SPACE_BYTES as usize]);
        Self { image: zero(), writable: zero(), clears: zero() }
    }

    /// The bytes as guest memory has them.
    #[must_use]
    pub fn image(&self) -> &[u8; CONFIG_SPACE_BYTES as usize] {
        &self.image
    }

    /// The register's value, zero-extended.
    #[must_use]
    pub fn read(&self, register: Register) -> u32 {
        load(&self.image, register)
    }

    /// A write by the guest. Of `value` the register's width counts.
    pub fn write(&mut self, register: Register, value: u32) {
        let old = load(&self.image, register);
        let writable = load(&self.writable, register);
        let clears = load(&self.clears, register);
        let merged = old & !writable | value & writable;
        store(&mut self.image, register, merged & !(value & clears));
    }

    /// The device changes its own register, whatever the guest may write: Status, or the answer to a write.
    pub fn set_register(&mut self, register: Register, value: u32) {
        store(&mut self.image, register, value);
    }

    /// Which bits of the register the guest may write; the others stay or are write-1-to-clear.
    pub fn set_writable(&mut self, register: Register, mask: u32) {
        store(&mut self.writable, register, mask);
    }

    /// Which bits of the register a guest's 1 clears.
    pub fn set_write_one_to_clear(&mut self, register: Register, mask: u32) {
        store(&mut self.clears, register, mask);
    }
}

impl Default for ConfigSpace {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ConfigSpace {
    /// The header's first dword tells functions apart; 12 KiB of bytes tell nobody anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [vendor_low, vendor_high, device_low, device_high, ..] = *self.image;
        let vendor = u16::from_le_bytes([vendor_low, vendor_high]);
        let device = u16::from_le_bytes([device_low, device_high]);
        write!(f, "ConfigSpace({vendor:04x}:{device:04x})")
    }
}

fn bytes(register: Register) -> Range<usize> {
    let start = usize::from(register.offset());
    start..start + usize::from(register.width().bytes())
}

fn load(page: &Page, register: Register) -> u32 {
    let mut value = [0; 4];
    let bytes = &page[bytes(register)];
    value[..bytes.len()].copy_from_slice(bytes);
    u32::from_le_bytes(value)
}

fn store(page: &mut Page, register: Register, value: u32) {
    let bytes = &mut page[bytes(register)];
    bytes.copy_from_slice(&value.to_le_bytes()[..bytes.len()]);
}
