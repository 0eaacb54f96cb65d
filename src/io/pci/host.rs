//! The host bridge: ports 0xcf8 to 0xcff and the ECAM window, in front of the bus.

use super::method::{CONFIG_ADDRESS, CONFIG_DATA, CONFIG_ENABLE};
use super::{Bdf, EcamWindow, MachineAccess, PciBus, Register, Width};
use crate::addr::{GuestPhysAddr, Port};

/// The reset control register, in the middle of the latch's four ports (`PIIX_RCR_IOPORT`, `ICH9_RST_CNT_IOPORT`).
pub const RESET_CONTROL: Port = Port(0xcf9);

/// Bit of the reset control register that resets the machine.
const RESET_CPU: u8 = 1 << 2;
/// Bits of it that are kept: hard reset and full reset.
const RESET_KIND: u8 = 1 << 1 | 1 << 3;
/// Latch bits that are there; 30:24 and 1:0 are reserved and read as 0.
const LATCH_BITS: u32 = 0x80ff_fffc;

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigWrite {
    /// Nothing: nobody there, not enabled, or no well-formed access.
    Dropped,
    /// It was taken by the address latch or the reset control register.
    Latched,
    /// The guest asks for a reset of the machine.
    Reset,
    /// A function's register was written: its device may now answer
    /// ([`ConfigSpace::set_register`](super::ConfigSpace::set_register)).
    Written(Bdf, Register),
}

/// A host bridge with its bus, as PC chipsets have it.
///
/// Ports 0xcf8 to 0xcff are decoded by an access's first address alone, as chipsets and QEMU do: a dword at 0xcf8 is the
/// latch and does not reach 0xcf9, a byte at 0xcf9 is the reset control register and not part of the latch. Other
/// accesses below 0xcfc find nobody (all ones, dropped). QEMU differs in corners that no OS goes to: a narrower read at
/// 0xcf8 to 0xcfb gives the latch's low bytes, and reserved bits written to the latch are kept, 1:0 even used.
///
/// In both data ports and window an access is good if it has 1, 2 or 4 bytes within one dword. Others read all ones and
/// are dropped, accesses of 8 bytes too: PCI Express asks no host to support them (7.2.2), Linux makes none
/// (`pci_mmcfg_read`). QEMU splits them in two.
///
/// A read-only memslot cannot tell good accesses from others: [`memory_read`](Self::memory_read) gives the bytes that
/// are there, of any length. For good accesses it equals [`mmio_read`](Self::mmio_read).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostBridge {
    bus: PciBus,
    window: EcamWindow,
    latch: u32,
    reset_control: u8,
}

impl HostBridge {
    /// A bridge as it is after reset: latch 0.
    #[must_use]
    pub const fn new(window: EcamWindow, bus: PciBus) -> Self {
        Self { bus, window, latch: 0, reset_control: 0 }
    }

    /// The bus behind it.
    #[must_use]
    pub const fn bus(&self) -> &PciBus {
        &self.bus
    }

    /// The bus behind it, for devices that change their own registers, come or go.
    pub const fn bus_mut(&mut self) -> &mut PciBus {
        &mut self.bus
    }

    /// Where its ECAM window is.
    #[must_use]
    pub const fn window(&self) -> EcamWindow {
        self.window
    }

    /// What a dword read of 0xcf8 gives.
    #[must_use]
    pub const fn latch(&self) -> u32 {
        self.latch
    }

    /// IN of `data.len()` bytes.
    pub fn port_read(&self, port: Port, data: &mut [u8]) {
        let width = Width::of_bytes(data.len());
        let value = match (port, width) {
            (CONFIG_ADDRESS, Some(Width::Dword)) => Some(self.latch),
            (RESET_CONTROL, Some(Width::Byte)) => Some(self.reset_control.into()),
            _ => self.selected(port, width).map(|(bdf, register)| self.bus.read(bdf, register)),
        };
        fill(data, value);
    }

    /// OUT of the bytes.
    pub fn port_write(&mut self, port: Port, data: &[u8]) -> ConfigWrite {
        let width = Width::of_bytes(data.len());
        let value = value(data);
        match (port, width) {
            (CONFIG_ADDRESS, Some(Width::Dword)) => {
                self.latch = value & LATCH_BITS;
                ConfigWrite::Latched
            }
            (RESET_CONTROL, Some(Width::Byte)) => {
                // A request leaves the register to the reset (ich9_rst_cnt_write).
                if data[0] & RESET_CPU != 0 {
                    return ConfigWrite::Reset;
                }
                self.reset_control = data[0] & RESET_KIND;
                ConfigWrite::Latched
            }
            _ => self.write(self.selected(port, width), value),
        }
    }

    /// A load that exits: `data.len()` bytes at a guest physical address.
    pub fn mmio_read(&self, addr: GuestPhysAddr, data: &mut [u8]) {
        let register = self.window.register(addr, data.len());
        fill(data, register.map(|(bdf, register)| self.bus.read(bdf, register)));
    }

    /// A store, which exits whatever backs the window.
    pub fn mmio_write(&mut self, addr: GuestPhysAddr, data: &[u8]) -> ConfigWrite {
        self.write(self.window.register(addr, data.len()), value(data))
    }

    /// A load from the read-only memslot: the bytes of the functions' pages as they are now, all ones where nobody is.
    pub fn memory_read(&self, addr: GuestPhysAddr, data: &mut [u8]) {
        for (byte, place) in data.iter_mut().zip(0..) {
            let place = addr.0.checked_add(place).and_then(|addr| self.window.byte(GuestPhysAddr(addr)));
            let held = place.and_then(|(bdf, offset)| Some(self.bus.function(bdf)?.image()[usize::from(offset)]));
            *byte = held.unwrap_or(0xff);
        }
    }

    /// Performs one access of the guest and returns what it read; 0 for writes. The side of a
    /// [`ByMethod`](super::ByMethod) where no time passes.
    pub fn perform(&mut self, access: MachineAccess) -> u32 {
        let mut bytes = [0; 4];
        let len = |width: Width| usize::from(width.bytes());
        match access {
            MachineAccess::Out { port, width, value } => {
                self.port_write(port, &value.to_le_bytes()[..len(width)]);
            }
            MachineAccess::In { port, width } => self.port_read(port, &mut bytes[..len(width)]),
            MachineAccess::Load { addr, width } => self.mmio_read(addr, &mut bytes[..len(width)]),
            MachineAccess::Store { addr, width, value } => {
                self.mmio_write(addr, &value.to_le_bytes()[..len(width)]);
            }
            MachineAccess::MemoryLoad { addr, width } => self.memory_read(addr, &mut bytes[..len(width)]),
        }
        u32::from_le_bytes(bytes)
    }

    /// The register that an access to the data ports names, if the latch enables it.
    fn selected(&self, port: Port, width: Option<Width>) -> Option<(Bdf, Register)> {
        let place = port.0.checked_sub(CONFIG_DATA.0).filter(|place| *place < 4)?;
        if self.latch & CONFIG_ENABLE == 0 {
            return None;
        }
        let [register, devfn, bus, _] = self.latch.to_le_bytes();
        let bdf = Bdf::from_bits(u16::from_le_bytes([devfn, bus]));
        Some((bdf, Register::new(u16::from(register) + place, width?).ok()?))
    }

    fn write(&mut self, register: Option<(Bdf, Register)>, value: u32) -> ConfigWrite {
        match register {
            Some((bdf, register)) if self.bus.write(bdf, register, value) => ConfigWrite::Written(bdf, register),
            _ => ConfigWrite::Dropped,
        }
    }
}

/// The value of up to four bytes; longer accesses name no register.
fn value(data: &[u8]) -> u32 {
    data.iter().take(4).rev().fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn fill(data: &mut [u8], value: Option<u32>) {
    match value {
        Some(value) => data.copy_from_slice(&value.to_le_bytes()[..data.len()]),
        None => data.fill(0xff),
    }
}
