//! A guest that does anything to PCI configuration space, by ports, window and memslot: ports and window agree, nobody's registers
//! read all ones, and a write changes the bits of its register that are the guest's, or nothing.

#![no_main]

use hvmmio::addr::{GuestPhysAddr, Port};
use hvmmio::io::pci::{
    Attachment, Bdf, CONFIG_ADDRESS, CONFIG_DATA, CONFIG_ENABLE, ConfigSpace, ConfigWrite, ECAM_BYTES, EcamWindow,
    HostBridge, PciBus, RESET_CONTROL, Register, Width,
};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// Where an access goes: mostly a register of a function that may be there, now and then anywhere.
#[derive(Clone, Copy, Debug, Arbitrary)]
enum Place {
    Register { function: u8, offset: u16 },
    Anywhere(u64),
}

impl Place {
    /// Functions of devices 0 to 7, of which the first few are there.
    fn bdf(function: u8) -> Bdf {
        Bdf::from_bits(u16::from(function % 64))
    }

    fn gpa(self) -> GuestPhysAddr {
        let base = EcamWindow::default().base().0;
        match self {
            Self::Register { function, offset } => {
                GuestPhysAddr(base + (u64::from(Self::bdf(function).bits()) << 12) + u64::from(offset % 0x1000))
            }
            Self::Anywhere(gpa) => GuestPhysAddr(gpa),
        }
    }

    fn latch(self) -> u32 {
        match self {
            Self::Register { function, offset } => {
                CONFIG_ENABLE | u32::from(Self::bdf(function).bits()) << 8 | u32::from(offset & 0xff)
            }
            Self::Anywhere(value) => (value & 0xffff_ffff) as u32,
        }
    }
}

#[derive(Clone, Copy, Debug, Arbitrary)]
enum Step {
    /// OUT of a dword to 0xcf8.
    Latch(Place),
    /// IN from one of 0xcf8 to 0xcff, or from any port.
    PortRead {
        port: u16,
        near: bool,
        len: u8,
    },
    PortWrite {
        port: u16,
        near: bool,
        len: u8,
        data: [u8; 9],
    },
    MmioRead {
        place: Place,
        len: u8,
    },
    MmioWrite {
        place: Place,
        len: u8,
        data: [u8; 9],
    },
    /// The device changes its own register.
    Device {
        function: u8,
        offset: u16,
        value: u32,
    },
}

#[derive(Debug, Arbitrary)]
struct Input {
    functions: u8,
    express: bool,
    steps: Vec<Step>,
}

fuzz_target!(|input: Input| {
    let attachment = if input.express { Attachment::IntegratedEndpoint } else { Attachment::Conventional };
    let bus = PciBus::with_virtio(u16::from(input.functions % 8), attachment).expect("at most 248 functions");
    let mut host = HostBridge::new(EcamWindow::default(), bus);
    for step in input.steps {
        perform(&mut host, step);
    }
});

fn perform(host: &mut HostBridge, step: Step) {
    let port = |port: u16, near: bool| Port(if near { CONFIG_ADDRESS.0 + port % 8 } else { port });
    let len = |len: u8| usize::from(len % 10);
    match step {
        Step::Latch(place) => write_port(host, CONFIG_ADDRESS, &place.latch().to_le_bytes()),
        Step::PortRead { port: at, near, len: bytes } => read_port(host, port(at, near), len(bytes)),
        Step::PortWrite { port: at, near, len: bytes, data } => write_port(host, port(at, near), &data[..len(bytes)]),
        Step::MmioRead { place, len: bytes } => read_mmio(host, place.gpa(), len(bytes)),
        Step::MmioWrite { place, len: bytes, data } => {
            let named = window_register(place.gpa(), len(bytes));
            let data = &data[..len(bytes)];
            check_write(host, named, |host| host.mmio_write(place.gpa(), data));
        }
        Step::Device { function, offset, value } => {
            let register = Register::new(offset & 0xffc, Width::Dword).expect("an aligned dword");
            if let Some(space) = host.bus_mut().function_mut(Place::bdf(function)) {
                space.set_register(register, value);
            }
        }
    }
}

/// The register that an access to the window names, by the specification's own layout.
fn window_register(gpa: GuestPhysAddr, len: usize) -> Option<(Bdf, Register)> {
    let offset = gpa.0.checked_sub(EcamWindow::default().base().0).filter(|offset| *offset < ECAM_BYTES)?;
    let bdf = Bdf::from_bits(u16::try_from(offset >> 12).expect("28 bits"));
    let register = u16::try_from(offset & 0xfff).expect("12 bits");
    Some((bdf, Register::new(register, Width::of_bytes(len)?).ok()?))
}

/// The register that an access to a data port names.
fn port_register(host: &HostBridge, port: Port, len: usize) -> Option<(Bdf, Register)> {
    let place = port.0.checked_sub(CONFIG_DATA.0).filter(|place| *place < 4)?;
    let latch = host.latch();
    if latch & CONFIG_ENABLE == 0 {
        return None;
    }
    let bdf = Bdf::from_bits((latch >> 8 & 0xffff) as u16);
    Some((bdf, Register::new((latch & 0xfc) as u16 + place, Width::of_bytes(len)?).ok()?))
}

fn read_port(host: &HostBridge, port: Port, len: usize) {
    let mut data = vec![0x5a; len];
    host.port_read(port, &mut data);
    match (port, len) {
        (CONFIG_ADDRESS, 4) => assert_eq!(data, host.latch().to_le_bytes()),
        (RESET_CONTROL, 1) => assert_eq!(data[0] & !0x0a, 0, "two bits are kept"),
        _ => match port_register(host, port, len) {
            Some((bdf, register)) => {
                let mut by_window = vec![0xa5; len];
                host.mmio_read(host.window().addr(bdf, register), &mut by_window);
                assert_eq!(data, by_window, "ports and window agree on {bdf} {register}");
            }
            None => assert!(data.iter().all(|byte| *byte == 0xff), "{port:?} {len}: {data:?}"),
        },
    }
}

fn read_mmio(host: &HostBridge, gpa: GuestPhysAddr, len: usize) {
    let (mut data, mut memory) = (vec![0x5a; len], vec![0xa5; len]);
    host.mmio_read(gpa, &mut data);
    host.memory_read(gpa, &mut memory);
    let ones = data.iter().all(|byte| *byte == 0xff);
    match window_register(gpa, len) {
        Some((bdf, register)) => {
            assert_eq!(data, memory, "an exit and the memslot agree on {bdf} {register}");
            assert!(ones || host.bus().function(bdf).is_some(), "nobody is at {bdf}");
        }
        None => assert!(ones, "{gpa:?} {len}: {data:?}"),
    }
}

fn write_port(host: &mut HostBridge, port: Port, data: &[u8]) {
    let latch = host.latch();
    let named = port_register(host, port, data.len());
    let done = check_write(host, named, |host| host.port_write(port, data));
    let latched = port == CONFIG_ADDRESS && data.len() == 4;
    assert_eq!(done == ConfigWrite::Reset, port == RESET_CONTROL && data.len() == 1 && data[0] & 4 != 0);
    assert!(latched || host.latch() == latch, "only a dword at 0xcf8 changes the latch");
}

/// A write reaches the register it names, if somebody is there, and changes no bit in it that is not the guest's.
fn check_write(
    host: &mut HostBridge,
    named: Option<(Bdf, Register)>,
    write: impl FnOnce(&mut HostBridge) -> ConfigWrite,
) -> ConfigWrite {
    let before = host.bus().clone();
    let done = write(host);
    let there = named.filter(|(bdf, _)| before.function(*bdf).is_some());
    assert_eq!(
        there,
        match done {
            ConfigWrite::Written(bdf, register) => Some((bdf, register)),
            _ => None,
        }
    );
    for ((bdf, old), (_, new)) in
        before.functions().zip(host.bus().functions()).filter(|((_, old), (_, new))| old != new)
    {
        let register = there.filter(|(written, _)| *written == bdf).map(|(_, register)| register);
        for offset in (0..0x1000).step_by(4) {
            let dword = Register::new(offset, Width::Dword).expect("an aligned dword");
            let changed = old.read(dword) ^ new.read(dword);
            if changed != 0 {
                let register = register.filter(|register| register.offset() & !3 == offset);
                let own = register.map_or(0, |register| register.width().ones() << (8 * (register.offset() & 3)));
                assert_eq!(changed & !(own & guests(old, dword)), 0, "{bdf} {dword}");
            }
        }
    }
    done
}

/// The bits of a dword that some write by the guest changes.
fn guests(space: &ConfigSpace, dword: Register) -> u32 {
    let seen = |values: &[u32]| {
        let mut space = space.clone();
        values.iter().fold(0, |bits, value| {
            let before = space.read(dword);
            space.write(dword, *value);
            bits | (before ^ space.read(dword))
        })
    };
    seen(&[0, u32::MAX]) | seen(&[u32::MAX, 0])
}
