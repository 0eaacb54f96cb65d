//! Arbitrary functions and topologies, and a host to try them on.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;

use hvmmio::addr::GuestPhysAddr;
use hvmmio::io::pci::{
    Attachment, Bar, BarKind, BarOffset, Bdf, ByMethod, Capability, Class, ConfigMethod, EcamWindow,
    ExtendedCapability, FunctionConfig, HostBridge, InterruptPin, MachineAccess, PciBus, Register, VirtioFunction,
    VirtioId, VirtioStructure, Width,
};
use proptest::prelude::*;

pub fn reg(offset: u16, width: Width) -> Register {
    Register::new(offset, width).unwrap()
}

pub fn word(offset: u16) -> Register {
    reg(offset, Width::Word)
}

pub fn dword(offset: u16) -> Register {
    reg(offset, Width::Dword)
}

pub fn bdf(bus: u8, device: u8, function: u8) -> Bdf {
    Bdf::new(bus, device, function).unwrap()
}

/// A host bridge and one virtio network function, at 00:01.0.
pub fn host() -> HostBridge {
    HostBridge::new(EcamWindow::default(), PciBus::with_virtio(1, Attachment::IntegratedEndpoint).unwrap())
}

pub fn outl(host: &mut HostBridge, port: u16, value: u32) {
    host.port_write(port.into(), &value.to_le_bytes());
}

pub fn port_read(host: &HostBridge, port: u16, len: usize) -> Vec<u8> {
    let mut data = vec![0x5a; len];
    host.port_read(port.into(), &mut data);
    data
}

pub fn mmio_read(host: &HostBridge, addr: GuestPhysAddr, len: usize) -> Vec<u8> {
    let mut data = vec![0x5a; len];
    host.mmio_read(addr, &mut data);
    data
}

pub fn memory_read(host: &HostBridge, addr: GuestPhysAddr, len: usize) -> Vec<u8> {
    let mut data = vec![0x5a; len];
    host.memory_read(addr, &mut data);
    data
}

/// Address in the window, of bytes that may be no register.
pub fn ecam(bdf: Bdf, offset: u64) -> GuestPhysAddr {
    GuestPhysAddr(EcamWindow::default().base().0 + (u64::from(bdf.bits()) << 12) + offset)
}

/// Configuration access to `host` by a method; every machine access made lands in `log`.
pub fn by_method<'a>(
    host: &'a mut HostBridge,
    method: ConfigMethod,
    log: &'a mut Vec<MachineAccess>,
) -> ByMethod<impl FnMut(MachineAccess) -> u32 + 'a> {
    ByMethod::new(method, host.window(), move |access| {
        log.push(access);
        host.perform(access)
    })
}

pub fn exits(log: &[MachineAccess]) -> usize {
    log.iter().filter(|access| access.exits()).count()
}

fn bars() -> impl Strategy<Value = [Option<Bar>; 6]> {
    let bar = prop_oneof![
        Just(None),
        (2..=8u32).prop_map(|bits| Some(Bar { kind: BarKind::Io, size: 1 << bits })),
        (4..=31u32).prop_map(|bits| Some(Bar { kind: BarKind::Memory32, size: 1 << bits })),
        (4..=31u32).prop_map(|bits| Some(Bar { kind: BarKind::Prefetchable32, size: 1 << bits })),
        (4..=63u32).prop_map(|bits| Some(Bar { kind: BarKind::Memory64, size: 1 << bits })),
        (4..=63u32).prop_map(|bits| Some(Bar { kind: BarKind::Prefetchable64, size: 1 << bits })),
    ];
    prop::array::uniform6(bar).prop_map(|mut bars: [Option<Bar>; 6]| {
        for index in 0..6 {
            if bars[index].is_some_and(|bar| bar.kind.is_64_bit()) {
                match bars.get_mut(index + 1) {
                    Some(upper) => *upper = None,
                    None => bars[index] = None,
                }
            }
        }
        bars
    })
}

fn capability() -> impl Strategy<Value = Capability> {
    let place = (0..6u8, any::<u32>()).prop_map(|(bar, offset)| BarOffset { bar, offset: offset & !7 });
    let structure = prop_oneof![
        Just(VirtioStructure::Common),
        any::<u32>().prop_map(|multiplier| VirtioStructure::Notify { multiplier }),
        Just(VirtioStructure::Isr),
        Just(VirtioStructure::Device),
        Just(VirtioStructure::PciWindow),
    ];
    prop_oneof![
        Just(Capability::PowerManagement),
        (1..=2048u16, place.clone(), place.clone()).prop_map(|(vectors, table, pending)| Capability::MsiX {
            vectors,
            table,
            pending
        }),
        (structure, place, any::<u32>()).prop_map(|(structure, place, length)| Capability::Virtio {
            structure,
            place,
            length
        }),
        Just(Capability::ExpressIntegratedEndpoint),
        // IDs that nobody looks for, so that their bodies mean nothing to the scan.
        (0x20..0xf0u8, prop::collection::vec(any::<u8>(), 0..12)).prop_map(|(id, body)| Capability::Other { id, body }),
    ]
}

pub fn function() -> impl Strategy<Value = FunctionConfig> {
    let extended = prop_oneof![
        any::<u64>().prop_map(ExtendedCapability::SerialNumber),
        Just(ExtendedCapability::AdvancedErrorReporting),
    ];
    let pin = prop::sample::select(vec![InterruptPin::None, InterruptPin::A, InterruptPin::D]);
    let class = (any::<u8>(), any::<u8>(), any::<u8>())
        .prop_map(|(base, sub, interface)| Class { base, sub, interface })
        .prop_filter("a bridge has another header", |class| (class.base, class.sub) != (6, 4));
    let class = prop_oneof![3 => class, 1 => Just(Class::HOST_BRIDGE)];
    (
        (2..0xffffu16, any::<u16>(), any::<u8>(), any::<u16>(), any::<u16>()),
        class,
        pin,
        bars(),
        prop::option::of((11..=24u32).prop_map(|bits| 1 << bits)),
        prop::collection::vec(capability(), 0..7),
        prop::collection::vec(extended, 0..3),
    )
        .prop_map(|(ids, class, interrupt_pin, bars, rom, mut capabilities, extended)| {
            // One of each that Linux expects once: it sees the first only. All fit then.
            let mut ids_seen = vec![];
            capabilities.retain(|capability| {
                let again = ids_seen.contains(&capability.id()) && capability.id() != 9;
                ids_seen.push(capability.id());
                !again
            });
            let (vendor, device, revision, subsystem_vendor, subsystem) = ids;
            FunctionConfig {
                vendor,
                device,
                class,
                revision,
                subsystem_vendor,
                subsystem,
                interrupt_pin,
                bars,
                rom,
                capabilities,
                extended,
            }
        })
}

fn virtio() -> impl Strategy<Value = FunctionConfig> {
    let attachment = prop::sample::select(vec![Attachment::Conventional, Attachment::IntegratedEndpoint]);
    (1..0x40u8, 1..=2048u16, attachment).prop_map(|(id, vectors, attachment)| {
        VirtioFunction { id: VirtioId::new(id).unwrap(), vectors, attachment }.describe()
    })
}

/// Functions by address, on buses 0 to 2; function 0 of each device is among them.
pub type Topology = BTreeMap<Bdf, FunctionConfig>;

pub fn topology() -> impl Strategy<Value = Topology> {
    let device = (0..3u8, 0..32u8, prop::sample::subsequence((1..8u8).collect::<Vec<_>>(), 0..4));
    let config = prop_oneof![function(), virtio()];
    let device = device.prop_flat_map(move |(bus, device, others)| {
        let functions: Vec<u8> = [0].into_iter().chain(others).collect();
        prop::collection::vec(config.clone(), functions.len()).prop_map(move |configs| {
            let places = functions.iter().map(|function| bdf(bus, device, *function));
            places.zip(configs).collect::<Vec<_>>()
        })
    });
    prop::collection::vec(device, 0..5).prop_map(|devices| devices.into_iter().flatten().collect())
}

pub fn bus(topology: &Topology) -> PciBus {
    let mut bus = PciBus::new();
    for (bdf, function) in topology {
        bus.insert(*bdf, function.config_space().unwrap()).unwrap();
    }
    bus
}
