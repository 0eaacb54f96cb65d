//! Base address registers: what a function wants to be addressed at, and how much of it.

use super::regs::{BASE_ADDRESS_0, ROM_ADDRESS, ROM_ADDRESS_MASK, ROM_ENABLE};
use super::{ConfigSpace, PciError, Register, Width};

/// BARs of a type 0 header (`PCI_STD_NUM_BARS`).
pub const BARS: usize = 6;

/// What a BAR decodes: its low bits, which are read-only (PCI Local Bus 3.0, 6.2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BarKind {
    /// I/O ports.
    Io,
    /// Memory below 4 GiB.
    Memory32,
    /// Memory below 4 GiB whose reads have no side effects.
    Prefetchable32,
    /// Memory anywhere; takes two BARs.
    Memory64,
    /// Memory anywhere whose reads have no side effects; takes two BARs.
    Prefetchable64,
}

impl BarKind {
    /// The low bits of the register that say so.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Memory32 => 0b0000,
            Self::Io => 0b0001,
            Self::Memory64 => 0b0100,
            Self::Prefetchable32 => 0b1000,
            Self::Prefetchable64 => 0b1100,
        }
    }

    /// What a register's value says. The two memory types besides 32 and 64 bits (below 1 MiB, reserved) count as 32
    /// bits, as in `decode_bar`.
    #[must_use]
    pub const fn of_bits(bits: u32) -> Self {
        match (bits & 1, bits >> 1 & 3, bits >> 3 & 1) {
            (1, _, _) => Self::Io,
            (_, 2, 0) => Self::Memory64,
            (_, 2, _) => Self::Prefetchable64,
            (_, _, 0) => Self::Memory32,
            _ => Self::Prefetchable32,
        }
    }

    /// Whether it takes the next BAR too.
    #[must_use]
    pub const fn is_64_bit(self) -> bool {
        matches!(self, Self::Memory64 | Self::Prefetchable64)
    }
}

/// A BAR as its function offers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bar {
    /// What it decodes.
    pub kind: BarKind,
    /// How much, in bytes: a power of two, from 4 to 256 for I/O, from 16 for memory.
    pub size: u64,
}

impl Bar {
    fn check(self, index: usize) -> Result<(), PciError> {
        let (sizes, rule) = match self.kind {
            BarKind::Io => (4..=256, "an I/O BAR has a power of two from 4 to 256"),
            BarKind::Memory32 | BarKind::Prefetchable32 => {
                (16..=1 << 31, "a 32-bit memory BAR has a power of two from 16 to 2 GiB")
            }
            BarKind::Memory64 | BarKind::Prefetchable64 => (16..=1 << 63, "a memory BAR has a power of two from 16"),
        };
        if !self.size.is_power_of_two() || !sizes.contains(&self.size) {
            return Err(PciError::BarSize { index, size: self.size, rule });
        }
        if self.kind.is_64_bit() && index + 1 == BARS {
            return Err(PciError::BarOverlap { index });
        }
        Ok(())
    }

    fn place(self, space: &mut ConfigSpace, at: u16) -> Result<(), PciError> {
        let mask = !(self.size - 1);
        space.set_register(Register::new(at, Width::Dword)?, self.kind.bits());
        space.set_writable(Register::new(at, Width::Dword)?, low(mask));
        if self.kind.is_64_bit() {
            space.set_writable(Register::new(at + 4, Width::Dword)?, low(mask >> 32));
        }
        Ok(())
    }
}

fn low(mask: u64) -> u32 {
    let [a, b, c, d, ..] = mask.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

pub(super) fn place_bars(space: &mut ConfigSpace, bars: &[Option<Bar>; BARS]) -> Result<(), PciError> {
    for (index, (bar, at)) in bars.iter().zip((BASE_ADDRESS_0..).step_by(4)).enumerate() {
        let Some(bar) = bar else { continue };
        bar.check(index)?;
        if bar.kind.is_64_bit() && bars[index + 1].is_some() {
            return Err(PciError::BarOverlap { index });
        }
        bar.place(space, at)?;
    }
    Ok(())
}

/// The expansion ROM's BAR (PCI Local Bus 3.0, 6.2.5.2): `size` bytes, a power of two from 2 KiB to 16 MiB.
pub(super) fn place_rom(space: &mut ConfigSpace, size: u32) -> Result<(), PciError> {
    if !size.is_power_of_two() || !(1 << 11..=1 << 24).contains(&size) {
        let rule = "an expansion ROM has a power of two from 2 KiB to 16 MiB";
        return Err(PciError::BarSize { index: BARS, size: size.into(), rule });
    }
    space.set_writable(Register::new(ROM_ADDRESS, Width::Dword)?, !(size - 1) & ROM_ADDRESS_MASK | ROM_ENABLE);
    Ok(())
}
