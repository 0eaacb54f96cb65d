//! How large the BARs are: write ones, see which stay (`__pci_read_base`).

use super::found::{FoundBar, FoundRom};
use super::function::Function;
use crate::io::pci::regs::{BASE_ADDRESS_0, COMMAND, COMMAND_IO, COMMAND_MEMORY, ROM_ADDRESS, ROM_ADDRESS_MASK};
use crate::io::pci::{BARS, BarKind, Class, ConfigAccess, Width};

/// Address bits of a memory BAR (`PCI_BASE_ADDRESS_MEM_MASK`).
const MEMORY_MASK: u64 = 0xffff_fff0;
/// Address bits of an I/O BAR (`PCI_BASE_ADDRESS_IO_MASK`).
const IO_MASK: u64 = 0xffff_fffc;
/// Last port of an x86 machine (`IO_SPACE_LIMIT`): higher bits of an I/O BAR say nothing of its size.
const IO_LIMIT: u64 = 0xffff;
/// `PCI_COMMAND_DECODE_ENABLE`.
const DECODE: u32 = (COMMAND_IO | COMMAND_MEMORY) as u32;

/// A BAR's value, and what it read after ones were written.
struct Sized {
    value: u64,
    ones: u64,
}

impl<C: ConfigAccess + ?std::marker::Sized> Function<'_, '_, C> {
    /// `pci_read_bases` for a type 0 header: six BARs, then the ROM's.
    pub(super) fn read_bases(&mut self) {
        let mut index = 0;
        while index < BARS {
            let (bar, slots) = self.read_base(index);
            self.found.bars.extend(bar);
            index += slots;
        }
        self.found.rom = self.read_rom();
    }

    /// The BAR of that number, if it decodes anything, and how many of the six it takes.
    fn read_base(&mut self, index: usize) -> (Option<FoundBar>, usize) {
        let number = u8::try_from(index).expect("a number below 6");
        let at = BASE_ADDRESS_0 + 4 * u16::from(number);
        let command = self.decode_off();
        let Sized { mut value, mut ones } = self.size(at, u32::MAX);
        let kind = BarKind::of_bits(low(value));
        let (address, mut mask) = match kind {
            BarKind::Io => (IO_MASK, IO_MASK & IO_LIMIT),
            _ => (MEMORY_MASK, MEMORY_MASK),
        };
        value &= address;
        ones &= address;
        if kind.is_64_bit() {
            let upper = self.size_upper(at + 4);
            value |= upper.value << 32;
            ones |= upper.ones << 32;
            mask |= !u64::from(u32::MAX);
        }
        self.decode_back(command);
        let size = decoded(value, ones, mask);
        let bar = size.map(|size| FoundBar { index: number, kind, size, address: value });
        let slots = if bar.is_some() && kind.is_64_bit() { 2 } else { 1 };
        (bar, slots)
    }

    fn read_rom(&mut self) -> Option<FoundRom> {
        let command = self.decode_off();
        let mask = u64::from(ROM_ADDRESS_MASK);
        let Sized { value, ones } = self.size(ROM_ADDRESS, ROM_ADDRESS_MASK);
        self.decode_back(command);
        let size = decoded(value & mask, ones & mask, mask)?;
        Some(FoundRom { size, address: value & mask })
    }

    /// Decoding is off while ones are in a BAR, or the function would answer at an address that is another's. Host
    /// bridges keep it on (`quirk_mmio_always_on`): memory itself may be behind them.
    fn decode_off(&mut self) -> Option<u32> {
        if self.found.class.is(Class::HOST_BRIDGE) {
            return None;
        }
        let command = self.read(COMMAND, Width::Word);
        if command & DECODE != 0 {
            self.write(COMMAND, Width::Word, command & !DECODE);
        }
        Some(command)
    }

    fn decode_back(&mut self, command: Option<u32>) {
        if let Some(command) = command.filter(|command| command & DECODE != 0) {
            self.write(COMMAND, Width::Word, command);
        }
    }

    fn size(&mut self, at: u16, mask: u32) -> Sized {
        let value = self.read(at, Width::Dword);
        self.write(at, Width::Dword, value | mask);
        let ones = self.read(at, Width::Dword);
        self.write(at, Width::Dword, value);
        // All ones is what nobody's register reads as.
        let implemented = |value: u32| if value == u32::MAX { 0 } else { u64::from(value) };
        Sized { value: implemented(value), ones: implemented(ones) }
    }

    fn size_upper(&mut self, at: u16) -> Sized {
        let value = self.read(at, Width::Dword);
        self.write(at, Width::Dword, u32::MAX);
        let ones = self.read(at, Width::Dword);
        self.write(at, Width::Dword, value);
        Sized { value: value.into(), ones: ones.into() }
    }
}

/// `pci_size`: the lowest address bit that took a one. `None` if none did, or if the BAR reads the same before and
/// after without being all ones.
fn decoded(value: u64, ones: u64, mask: u64) -> Option<u64> {
    let significant = ones & mask;
    if significant == 0 {
        return None;
    }
    let size = 1 << significant.trailing_zeros();
    if value == ones && (value | (size - 1)) & mask != mask {
        return None;
    }
    Some(size)
}

fn low(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
