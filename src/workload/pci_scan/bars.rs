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
struct Probed {
    value: u32,
    ones: u32,
}

impl Probed {
    /// All ones is what nobody's register reads as: taken for 0, as if the BAR were not there.
    fn implemented(self) -> Self {
        let implemented = |value| if value == u32::MAX { 0 } else { value };
        Self { value: implemented(self.value), ones: implemented(self.ones) }
    }
}

impl<C: ConfigAccess + ?Sized> Function<'_, '_, C> {
    /// `pci_read_bases` for a type 0 header: six BARs, then the ROM's.
    pub(super) fn read_bases(&mut self) {
        let mut index = 0;
        while usize::from(index) < BARS {
            let bar = self.read_base(index);
            self.found.bars.extend(bar);
            index += if bar.is_some_and(|bar| bar.kind.is_64_bit()) { 2 } else { 1 };
        }
        self.found.rom = self.read_rom();
    }

    /// The BAR of that number, if it decodes anything.
    fn read_base(&mut self, index: u8) -> Option<FoundBar> {
        let at = BASE_ADDRESS_0 + 4 * u16::from(index);
        let command = self.decode_off();
        let lower = self.probe(at, u32::MAX).implemented();
        let kind = BarKind::of_bits(lower.value);
        let (address, mut mask) = match kind {
            BarKind::Io => (IO_MASK, IO_MASK & IO_LIMIT),
            _ => (MEMORY_MASK, MEMORY_MASK),
        };
        let mut value = u64::from(lower.value) & address;
        let mut ones = u64::from(lower.ones) & address;
        if kind.is_64_bit() {
            let upper = self.probe(at + 4, u32::MAX);
            value |= u64::from(upper.value) << 32;
            ones |= u64::from(upper.ones) << 32;
            mask |= !u64::from(u32::MAX);
        }
        self.decode_back(command);
        decoded(value, ones, mask).map(|size| FoundBar { index, kind, size, address: value })
    }

    fn read_rom(&mut self) -> Option<FoundRom> {
        let command = self.decode_off();
        let mask = u64::from(ROM_ADDRESS_MASK);
        let Probed { value, ones } = self.probe(ROM_ADDRESS, ROM_ADDRESS_MASK).implemented();
        self.decode_back(command);
        let address = u64::from(value) & mask;
        decoded(address, u64::from(ones) & mask, mask).map(|size| FoundRom { size, address })
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

    /// Writes ones into the address bits, reads them back, and puts the value back.
    fn probe(&mut self, at: u16, mask: u32) -> Probed {
        let value = self.read(at, Width::Dword);
        self.write(at, Width::Dword, value | mask);
        let ones = self.read(at, Width::Dword);
        self.write(at, Width::Dword, value);
        Probed { value, ones }
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
