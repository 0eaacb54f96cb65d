//! PCI configuration space by the listed cases: ports, window and read-only memslot.

mod pci_common;

use hvmmio::addr::GuestPhysAddr;
use hvmmio::io::pci::{
    Attachment, Bar, BarKind, Bdf, Capability, ConfigAccess, ConfigMethod, ConfigWrite, EcamWindow, FunctionConfig,
    HostBridge, MachineAccess, PciBus, PciError, ReadOnlySlots, Unreachable, VirtioFunction, VirtioId, Width, regs,
};
use pci_common::{bdf, by_method, dword, ecam, exits, host, memory_read, mmio_read, outl, port_read, reg, word};

const NET: u32 = 0x1041_1af4;
const NET_AT: u32 = 0x8000_0800;

/// Case **cf9-in-cf8**.
#[test]
fn the_reset_register_and_the_latch_share_ports_and_nothing_else() {
    let mut host = host();
    assert_eq!(host.port_write(0xcf8.into(), &0x8000_0006_u32.to_le_bytes()), ConfigWrite::Latched);
    let latch = host.latch();
    assert_eq!(latch, 0x8000_0004, "bits 1:0 are reserved");
    assert_eq!(host.port_write(0xcf9.into(), &[6]), ConfigWrite::Reset);
    assert_eq!(host.latch(), latch);
    assert_eq!(host.port_write(0xcf9.into(), &[2]), ConfigWrite::Latched, "bit 1 alone only chooses the kind of reset");
    assert_eq!(port_read(&host, 0xcf9, 1), [2]);
    assert_eq!(host.latch(), latch);
}

/// Case **cf9-in-cf8**: a word at 0xcf8 covers 0xcf9 and reaches neither register.
#[test]
fn only_a_dword_at_0xcf8_is_the_latch_and_only_a_byte_at_0xcf9_is_the_reset_register() {
    let mut host = host();
    outl(&mut host, 0xcf8, NET_AT);
    let before = host.clone();
    for (port, data) in [
        (0xcf8, vec![6]),
        (0xcf8, vec![0, 6]),
        (0xcf9, vec![6, 6]),
        (0xcf9, vec![6; 4]),
        (0xcfa, vec![6; 4]),
        (0xcfb, vec![1]),
    ] {
        assert_eq!(host.port_write(port.into(), &data), ConfigWrite::Dropped, "{data:?} at {port:#x}");
        assert_eq!(
            port_read(&host, port, data.len()).iter().all(|byte| *byte == 0xff),
            (port, data.len()) != (0xcf9, 1)
        );
    }
    assert_eq!(host, before);
    assert_eq!(port_read(&host, 0xcf8, 4), NET_AT.to_le_bytes());
}

/// Case **absent-all-ones**: also right after a read that gave something else.
#[test]
fn an_absent_function_reads_all_ones_at_every_width_and_drops_writes() {
    let mut host = host();
    let absent = bdf(0, 2, 0);
    let before = host.bus().clone();
    for width in Width::ALL {
        let len = usize::from(width.bytes());
        let ones = vec![0xff; len];
        outl(&mut host, 0xcf8, NET_AT);
        assert_ne!(port_read(&host, 0xcfc, len), ones);
        outl(&mut host, 0xcf8, 0x8000_1000);
        assert_eq!(port_read(&host, 0xcfc, len), ones);
        assert_eq!(host.port_write(0xcfc.into(), &vec![0; len]), ConfigWrite::Dropped);

        assert_ne!(mmio_read(&host, ecam(bdf(0, 1, 0), 0), len), ones);
        assert_eq!(mmio_read(&host, ecam(absent, 0), len), ones);
        assert_eq!(memory_read(&host, ecam(absent, 0), len), ones);
        assert_eq!(host.mmio_write(ecam(absent, 0), &vec![0; len]), ConfigWrite::Dropped);
    }
    assert_eq!(host.bus(), &before);
}

/// Case **absent-all-ones**: enable bit clear.
#[test]
fn without_the_enable_bit_the_data_ports_are_nobodys() {
    let mut host = host();
    outl(&mut host, 0xcf8, (NET_AT & !0x8000_0000) | u32::from(regs::COMMAND));
    assert_eq!(port_read(&host, 0xcfc, 4), [0xff; 4]);
    assert_eq!(host.port_write(0xcfc.into(), &[7, 0]), ConfigWrite::Dropped);
    outl(&mut host, 0xcf8, NET_AT | u32::from(regs::COMMAND));
    assert_eq!(port_read(&host, 0xcfc, 2), [0, 0]);
    let written = ConfigWrite::Written(bdf(0, 1, 0), word(regs::COMMAND));
    assert_eq!(host.port_write(0xcfc.into(), &[7, 0]), written);
    assert_eq!(port_read(&host, 0xcfc, 2), [7, 0]);
}

/// Case **ecam-equals-cf8**: accesses that cross a dword or the 4 KiB end.
#[test]
fn an_access_that_crosses_a_dword_reads_all_ones_by_ports_and_window() {
    let mut host = host();
    outl(&mut host, 0xcf8, NET_AT);
    for (place, len) in [(1, 4), (2, 4), (3, 2), (3, 4), (0, 3), (0, 8), (0, 0)] {
        let ones = vec![0xff; len];
        assert_eq!(port_read(&host, 0xcfc + place, len), ones);
        assert_eq!(mmio_read(&host, ecam(bdf(0, 1, 0), place.into()), len), ones);
        assert_eq!(mmio_read(&host, ecam(bdf(0, 1, 0), 0xffc + u64::from(place)), len), ones);
        let before = host.clone();
        assert_eq!(host.port_write((0xcfc + place).into(), &vec![0; len]), ConfigWrite::Dropped);
        assert_eq!(host.mmio_write(ecam(bdf(0, 1, 0), 4 + u64::from(place)), &vec![0xff; len]), ConfigWrite::Dropped);
        assert_eq!(host, before);
    }
    // Within the dword every place will do.
    assert_eq!(port_read(&host, 0xcfd, 2), [0x1a, 0x41]);
    assert_eq!(mmio_read(&host, ecam(bdf(0, 1, 0), 1), 2), [0x1a, 0x41]);
}

/// Case **readonly-ecam-fresh**: the device's own Status.
#[test]
fn a_change_the_device_makes_is_in_the_next_direct_read() {
    let mut host = host();
    let (net, status) = (bdf(0, 1, 0), ecam(bdf(0, 1, 0), regs::STATUS.into()));
    assert_eq!(memory_read(&host, status, 2), [0x10, 0]);
    host.bus_mut().function_mut(net).unwrap().set_register(word(regs::STATUS), 0x8010);
    assert_eq!(memory_read(&host, status, 2), [0x10, 0x80]);
    // The guest acknowledges: detected parity error is write-1-to-clear, the list bit is read-only.
    assert_eq!(host.mmio_write(status, &[0xff, 0xff]), ConfigWrite::Written(net, word(regs::STATUS)));
    assert_eq!(memory_read(&host, status, 2), [0x10, 0]);
}

/// Case **readonly-ecam-fresh**: BAR sizing over the read-only memslot.
#[test]
fn all_ones_written_to_a_bar_leave_its_size_mask_in_the_next_direct_read() {
    let mut host = host();
    for (offset, mask) in [(0x10, 0), (0x14, 0xffff_f000), (0x20, 0xffff_c00c), (0x24, 0xffff_ffff), (0x30, 0)] {
        let bar = ecam(bdf(0, 1, 0), offset);
        host.mmio_write(bar, &[0xff; 4]);
        assert_eq!(memory_read(&host, bar, 4), u32::to_le_bytes(mask), "register {offset:#x}");
    }
}

/// Case **readonly-ecam-fresh**: no read-only slots on this host.
#[test]
fn without_read_only_memslots_the_loads_exit_and_give_the_same() {
    let mut host = host();
    let method = ConfigMethod::EcamReadOnly;
    assert_eq!(method.on(ReadOnlySlots::Present), ConfigMethod::EcamReadOnly);
    assert_eq!(method.on(ReadOnlySlots::Absent), ConfigMethod::Ecam);
    assert_eq!(ConfigMethod::Type1.on(ReadOnlySlots::Absent), ConfigMethod::Type1);
    let (mut direct, mut exiting) = (vec![], vec![]);
    for (slots, values) in [(ReadOnlySlots::Present, &mut direct), (ReadOnlySlots::Absent, &mut exiting)] {
        let mut log = vec![];
        let mut config = by_method(&mut host, method.on(slots), &mut log);
        for offset in (0..0x200).step_by(4) {
            values.push(config.read(bdf(0, 1, 0), dword(offset)).unwrap());
        }
        drop(config);
        assert_eq!(exits(&log), if slots == ReadOnlySlots::Present { 0 } else { 128 });
    }
    assert_eq!(direct, exiting);
    assert_eq!(direct[0], NET);
}

#[test]
fn a_write_exits_whatever_the_method_and_a_read_two_one_or_no_times() {
    let (mut host, function) = (host(), bdf(0, 1, 0));
    for (method, read, write) in
        [(ConfigMethod::Type1, 2, 2), (ConfigMethod::Ecam, 1, 1), (ConfigMethod::EcamReadOnly, 0, 1)]
    {
        let mut log = vec![];
        assert_eq!(by_method(&mut host, method, &mut log).read(function, dword(0)), Ok(NET));
        assert_eq!(exits(&log), read, "{}", method.name());
        assert_eq!(method.read(host.window(), function, dword(0)).unwrap().exits(), read as u64);
        log.clear();
        by_method(&mut host, method, &mut log).write(function, word(regs::COMMAND), 6).unwrap();
        assert_eq!(exits(&log), write, "{}", method.name());
        assert_eq!(host.bus().read(function, word(regs::COMMAND)), 6);
        host.bus_mut().write(function, word(regs::COMMAND), 0);
    }
}

#[test]
fn type_1_writes_the_dword_to_the_latch_and_uses_the_registers_place_in_it() {
    let mut host = host();
    let mut log = vec![];
    by_method(&mut host, ConfigMethod::Type1, &mut log).write(bdf(2, 3, 4), word(0x3e), 5).unwrap();
    let (address, value) = (0x8000_0000 | 2 << 16 | 3 << 11 | 4 << 8 | 0x3c, 5);
    assert_eq!(
        log,
        [
            MachineAccess::Out { port: 0xcf8.into(), width: Width::Dword, value: address },
            MachineAccess::Out { port: 0xcfe.into(), width: Width::Word, value },
        ]
    );
}

/// Case **ecam-equals-cf8**: 0x100 and up only by ECAM.
#[test]
fn type_1_does_not_reach_0x100_and_makes_no_access_for_it() {
    let (mut host, function) = (host(), bdf(0, 1, 0));
    let mut log = vec![];
    let mut config = by_method(&mut host, ConfigMethod::Type1, &mut log);
    let refused = Unreachable { method: ConfigMethod::Type1, bdf: function, register: dword(0x100) };
    assert_eq!(config.read(function, dword(0x100)), Err(refused));
    assert_eq!(config.write(function, dword(0x100), 0), Err(refused));
    drop(config);
    assert_eq!(log, []);
    for method in [ConfigMethod::Ecam, ConfigMethod::EcamReadOnly] {
        let serial_number = by_method(&mut host, method, &mut log).read(function, dword(0x100));
        assert_eq!(serial_number, Ok(0x0001_0003), "{}", method.name());
    }
}

/// Case **drain-before-exit** needs this: the data ports go by the last address latched.
#[test]
fn of_two_addresses_the_later_one_counts() {
    let mut host = host();
    outl(&mut host, 0xcf8, NET_AT);
    outl(&mut host, 0xcf8, 0x8000_0000);
    assert_eq!(port_read(&host, 0xcfc, 4), 0x29c0_8086_u32.to_le_bytes());
}

#[test]
fn the_multi_function_bit_comes_with_the_second_function_and_goes_with_the_last() {
    let mut bus = PciBus::new();
    let space = || VirtioFunction::new(VirtioId::BLOCK, Attachment::Conventional).config_space().unwrap();
    let header = |bus: &PciBus, function| bus.read(bdf(0, 4, function), reg(regs::HEADER_TYPE, Width::Byte));
    let [zero, third, seventh] = [0, 3, 7].map(|function| bdf(0, 4, function));
    assert_eq!(bus.insert(third, space()), Err(PciError::FunctionZero { bdf: third }));
    bus.insert(zero, space()).unwrap();
    assert_eq!(header(&bus, 0), 0);
    bus.insert(third, space()).unwrap();
    bus.insert(seventh, space()).unwrap();
    assert_eq!((header(&bus, 0), header(&bus, 3), header(&bus, 4)), (0x80, 0, 0xff));
    assert_eq!(bus.insert(third, space()), Err(PciError::Occupied { bdf: third }));
    assert_eq!(bus.remove(zero), Err(PciError::FunctionZero { bdf: third }));
    assert_eq!(bus.remove(third), Ok(Some(space())));
    assert_eq!(header(&bus, 0), 0x80);
    assert_eq!(bus.remove(seventh), Ok(Some(space())));
    assert_eq!(header(&bus, 0), 0);
    assert_eq!(bus.remove(seventh), Ok(None));
    assert_eq!(bus.remove(zero), Ok(Some(space())));
    assert_eq!(bus, PciBus::new());
}

#[test]
fn bus_0_takes_248_virtio_functions_and_refuses_one_more() {
    let bus = PciBus::with_virtio(248, Attachment::IntegratedEndpoint).unwrap();
    assert_eq!(bus.functions().count(), 249);
    assert!(bus.functions().all(|(bdf, _)| bdf.bus() == 0));
    let refused = PciBus::with_virtio(249, Attachment::IntegratedEndpoint);
    assert_eq!(refused, Err(PciError::TooManyFunctions { asked: 249 }));
}

#[test]
fn what_no_address_register_or_function_can_be_is_refused() {
    assert!(Bdf::new(0, 32, 0).is_err() && Bdf::new(0, 0, 8).is_err());
    assert!(EcamWindow::new(GuestPhysAddr(0xb010_0000)).is_err());
    let base = FunctionConfig { vendor: 0x1af4, ..FunctionConfig::default() };
    let with_bar = |index: usize, kind, size| {
        let mut function = base.clone();
        function.bars[index] = Some(Bar { kind, size });
        function.config_space()
    };
    for (index, kind, size) in [
        (0, BarKind::Memory32, 24),
        (0, BarKind::Memory32, 8),
        (0, BarKind::Prefetchable32, 1 << 32),
        (0, BarKind::Io, 2),
        (0, BarKind::Io, 512),
        (0, BarKind::Memory64, 0),
    ] {
        assert!(matches!(with_bar(index, kind, size), Err(PciError::BarSize { .. })), "{kind:?} of {size}");
    }
    assert_eq!(with_bar(5, BarKind::Memory64, 16), Err(PciError::BarOverlap { index: 5 }));
    for size in [0, 1024, 3 << 20, 1 << 25] {
        let function = FunctionConfig { rom: Some(size), ..base.clone() };
        assert!(matches!(function.config_space(), Err(PciError::BarSize { index: 6, .. })), "ROM of {size}");
    }
    for vendor in [0, 1, 0xffff] {
        assert!(matches!(FunctionConfig { vendor, ..base.clone() }.config_space(), Err(PciError::Field { .. })));
    }
    let long = Capability::Other { id: 0x20, body: vec![0; 0xbf] };
    let function = FunctionConfig { capabilities: vec![long], ..base.clone() };
    assert!(matches!(function.config_space(), Err(PciError::CapabilityRoom { len: 0xc1, .. })));
    let fits = Capability::Other { id: 0x20, body: vec![0; 0xbe] };
    assert!(FunctionConfig { capabilities: vec![fits], ..base }.config_space().is_ok());
    assert!(
        VirtioFunction { vectors: 0, ..VirtioFunction::new(VirtioId::NET, Attachment::Conventional) }
            .config_space()
            .is_err()
    );
}

#[test]
fn a_clone_of_a_host_shares_nothing() {
    let mut host = host();
    let copy = host.clone();
    host.bus_mut().write(bdf(0, 1, 0), word(regs::COMMAND), 7);
    assert_ne!(host, copy);
    assert_eq!(copy.bus().read(bdf(0, 1, 0), word(regs::COMMAND)), 0);
    assert_ne!(host, HostBridge::new(host.window(), PciBus::new()));
}
