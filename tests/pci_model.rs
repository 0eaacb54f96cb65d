//! Random topologies and hostile accesses: what must hold for each.

mod pci_common;

use hvmmio::addr::GuestPhysAddr;
use hvmmio::io::pci::{Bdf, ConfigSpace, ConfigWrite, EcamWindow, HostBridge, Register, Width};
use pci_common::{bus, dword, ecam, memory_read, mmio_read, outl, port_read, topology};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Access {
    PortRead(u16, usize),
    PortWrite(u16, Vec<u8>),
    MmioRead(GuestPhysAddr, usize),
    MmioWrite(GuestPhysAddr, Vec<u8>),
}

/// Mostly addresses where a decoder could go wrong.
fn access() -> impl Strategy<Value = Access> {
    let port = prop_oneof![8 => 0xcf0..0xd08u16, 1 => any::<u16>()];
    let data = prop::collection::vec(any::<u8>(), 0..10);
    let latch = (0..4u8, 0..32u8, 0..8u8, any::<u8>()).prop_map(|(bus, device, function, register)| {
        let bdf = Bdf::new(bus, device, function).unwrap();
        let value = 0x8000_0000 | u32::from(bdf.bits()) << 8 | u32::from(register);
        Access::PortWrite(0xcf8, value.to_le_bytes().to_vec())
    });
    let base = EcamWindow::default().base().0;
    let addr = prop_oneof![
        6 => (0..3u64 << 20).prop_map(move |offset| base + offset),
        1 => (0..16u64).prop_map(move |offset| base + offset - 8),
        1 => (0..16u64).prop_map(move |offset| base + (256 << 20) + offset - 8),
        1 => any::<u64>(),
        1 => (0..16u64).prop_map(|offset| u64::MAX - offset),
    ]
    .prop_map(GuestPhysAddr);
    prop_oneof![
        2 => (port.clone(), 0..10usize).prop_map(|(port, len)| Access::PortRead(port, len)),
        2 => (port, data.clone()).prop_map(|(port, data)| Access::PortWrite(port, data)),
        2 => latch,
        2 => (addr.clone(), 0..10usize).prop_map(|(addr, len)| Access::MmioRead(addr, len)),
        2 => (addr, data).prop_map(|(addr, data)| Access::MmioWrite(addr, data)),
    ]
}

/// The register an access to the window names, the slow way.
fn named(addr: GuestPhysAddr, len: usize) -> Option<(Bdf, Register)> {
    let offset = addr.0.checked_sub(EcamWindow::default().base().0)?;
    let within_dword = matches!(len, 1 | 2 | 4) && offset % 4 + len as u64 <= 4;
    if offset >= 256 << 20 || !within_dword {
        return None;
    }
    let [bus, device, function] =
        [offset >> 20, offset >> 15 & 31, offset >> 12 & 7].map(|number| u8::try_from(number).unwrap());
    let register = u16::try_from(offset & 0xfff).unwrap();
    let width = Width::of_bytes(len).unwrap();
    Some((Bdf::new(bus, device, function).unwrap(), Register::new(register, width).unwrap()))
}

proptest! {
    /// Case **ecam-equals-cf8**.
    #[test]
    fn ports_window_and_memslot_agree_on_the_first_256_bytes_of_every_function(
        topology in topology(),
        absent in prop::collection::vec(any::<u16>(), 4),
    ) {
        let mut host = HostBridge::new(EcamWindow::default(), bus(&topology));
        let places = topology.keys().copied().chain(absent.into_iter().map(Bdf::from_bits));
        for bdf in places.collect::<Vec<_>>() {
            for offset in 0..256u16 {
                outl(&mut host, 0xcf8, 0x8000_0000 | u32::from(bdf.bits()) << 8 | u32::from(offset & !3));
                for len in [1, 2, 4] {
                    let by_port = port_read(&host, 0xcfc + (offset & 3), len);
                    prop_assert_eq!(&by_port, &mmio_read(&host, ecam(bdf, offset.into()), len));
                    if usize::from(offset & 3) + len > 4 {
                        prop_assert_eq!(by_port, vec![0xff; len]);
                    } else {
                        prop_assert_eq!(by_port, memory_read(&host, ecam(bdf, offset.into()), len));
                    }
                }
            }
        }
    }

    #[test]
    fn hostile_accesses_change_only_what_they_name_and_never_panic(
        topology in topology(),
        accesses in prop::collection::vec(access(), 0..80),
    ) {
        let mut host = HostBridge::new(EcamWindow::default(), bus(&topology));
        for access in accesses {
            let before = host.clone();
            match access {
                Access::PortRead(port, len) => {
                    port_read(&host, port, len);
                }
                Access::PortWrite(port, data) => {
                    let latch = host.latch();
                    let enabled = latch >> 31 == 1 && (0xcfc..0xd00).contains(&port);
                    match host.port_write(port.into(), &data) {
                        ConfigWrite::Dropped => prop_assert_eq!(&host, &before),
                        ConfigWrite::Reset => prop_assert!(port == 0xcf9 && data.len() == 1 && data[0] & 4 != 0),
                        ConfigWrite::Latched => {
                            prop_assert!((port, data.len()) == (0xcf8, 4) || (port, data.len()) == (0xcf9, 1));
                        }
                        ConfigWrite::Written(bdf, register) => {
                            prop_assert!(enabled && topology.contains_key(&bdf));
                            prop_assert_eq!(u32::from(bdf.bits()), latch >> 8 & 0xffff);
                            prop_assert_eq!(u32::from(register.offset() & !3), latch & 0xfc);
                        }
                    }
                    prop_assert!(host.latch() == latch || (port, data.len()) == (0xcf8, 4));
                }
                Access::MmioRead(addr, len) => {
                    let read = mmio_read(&host, addr, len);
                    let memory = memory_read(&host, addr, len);
                    match named(addr, len) {
                        Some((bdf, register)) => {
                            let value = host.bus().read(bdf, register).to_le_bytes();
                            prop_assert_eq!(&read, &value[..len]);
                            prop_assert_eq!(read, memory);
                        }
                        None => prop_assert_eq!(read, vec![0xff; len]),
                    }
                }
                Access::MmioWrite(addr, data) => {
                    let written = host.mmio_write(addr, &data);
                    match named(addr, data.len()).filter(|(bdf, _)| topology.contains_key(bdf)) {
                        Some((bdf, register)) => prop_assert_eq!(written, ConfigWrite::Written(bdf, register)),
                        None => prop_assert_eq!((written, &host), (ConfigWrite::Dropped, &before)),
                    }
                }
            }
        }
    }

    /// The masks bit by bit: writable bits take the value, write-1-to-clear ones lose a 1, others stay.
    #[test]
    fn a_write_goes_through_the_masks_bit_by_bit(
        [old, writable, clears, value] in any::<[u32; 4]>(),
        offset in 0..4096u16,
        width in prop::sample::select(Width::ALL.to_vec()),
    ) {
        let aligned = offset & !3;
        let clears = clears & !writable;
        let mut space = ConfigSpace::new();
        space.set_register(dword(aligned), old);
        space.set_writable(dword(aligned), writable);
        space.set_write_one_to_clear(dword(aligned), clears);
        let Ok(register) = Register::new(offset, width) else { return Ok(()) };
        space.write(register, value);
        let now = space.read(dword(aligned));
        let shift = u32::from(offset & 3) * 8;
        for bit in 0..32 {
            let at = |word: u32| word >> bit & 1;
            let reached = bit >= shift && bit < shift + u32::from(width.bytes()) * 8;
            let given = if reached { value >> (bit - shift) & 1 } else { 0 };
            let expected = match (reached, at(writable), at(clears)) {
                (true, 1, _) => given,
                (true, _, 1) => at(old) & !given,
                _ => at(old),
            };
            prop_assert_eq!(at(now), expected, "bit {}", bit);
        }
    }
}
