//! The scan: it finds what is there, leaves it as it was, and makes the accesses that Linux makes.

mod pci_common;

use hvmmio::io::pci::{
    Attachment, Bar, BarKind, Bdf, Class, ConfigAccess, ConfigMethod, ConfigSpace, EcamWindow, FunctionConfig,
    HostBridge, MachineAccess, PciBus, Register, Unreachable, Width, regs,
};
use hvmmio::workload::pci_scan::{AccessCounts, FoundBar, FoundFunction, FoundRom, RawReads, Scan};
use pci_common::{Topology, bdf, bus, by_method, dword, exits, host, reg, topology, word};
use proptest::prelude::*;

/// Writes down every access on its way to a bus.
struct Recorder {
    bus: PciBus,
    log: Vec<(char, Bdf, Register, u32)>,
}

impl ConfigAccess for Recorder {
    fn read(&mut self, bdf: Bdf, register: Register) -> Result<u32, Unreachable> {
        let value = self.bus.read(bdf, register);
        self.log.push(('r', bdf, register, value));
        Ok(value)
    }

    fn write(&mut self, bdf: Bdf, register: Register, value: u32) -> Result<(), Unreachable> {
        self.bus.write(bdf, register, value);
        self.log.push(('w', bdf, register, value));
        Ok(())
    }
}

fn record(bus: PciBus) -> Recorder {
    let mut recorder = Recorder { bus, log: vec![] };
    Scan::default().run(&mut recorder);
    recorder
}

const fn counts(reads: u64, writes: u64) -> AccessCounts {
    AccessCounts { reads, writes }
}

/// A conventional virtio function has MSI-X and five vendor capabilities, so a search to the end of its list takes
/// 8 reads (Status, pointer, six entries) and one for MSI-X 3.
#[test]
fn the_reads_and_writes_of_a_boot_are_those_counted_by_hand() {
    // Vendor, header, one search that ends at Status, class, INTx, pin, 6 BARs and ROM without touching Command,
    // subsystem, eight searches. 0x100 is out of reach.
    let bridge = counts(1 + 1 + 1 + 1 + 2 + 1 + 7 * 2 + 2 + 8, 2 + 7 * 2);
    // Vendor, header, class; PCI Express and PCI-X; INTx; pin and line; BARs 0 to 3, 4 with 5, ROM; subsystem; then
    // seven searches to the end and that for MSI-X, whose flags are read.
    let net = counts(3 + 2 * 8 + 2 + 2 + 4 * 3 + 5 + 3 + 2 + 7 * 8 + 3 + 1, 2 + 4 * 2 + 4 + 2);
    let empty_slots = 30;
    // vp_modern_probe. The vendor capabilities are window, notify, device, ISR, common; the first takes 4 reads to find,
    // each further one 2, each 2 to look at; then 3 reads for each structure and 3 more for notify.
    let virtio = (4 + 2 + 4 * 4) + (4 + 2 + 3 * 4) + (4 + 2 + 4) + (4 + 2 + 2 * 4) + 4 * 3 + 3;

    let bus = PciBus::with_virtio(1, Attachment::Conventional).unwrap();
    let mut host = HostBridge::new(EcamWindow::default(), bus);
    let mut log = vec![];
    let result = Scan::default().run(&mut by_method(&mut host, ConfigMethod::Type1, &mut log));
    assert_eq!(result.enumeration, counts(bridge.reads + net.reads + empty_slots, bridge.writes + net.writes));
    assert_eq!(result.drivers, counts(virtio, 0));
    assert_eq!(exits(&log) as u64, 2 * (result.enumeration.total() + result.drivers.total()));
}

#[test]
fn a_bar_is_sized_with_decoding_off_and_put_back() {
    let mut bus = PciBus::with_virtio(1, Attachment::Conventional).unwrap();
    let net = bdf(0, 1, 0);
    bus.write(net, word(regs::COMMAND), 7);
    bus.write(net, dword(0x20), 0xfe00_4000);
    let log = record(bus).log;
    let (command, bar, upper) = (word(regs::COMMAND), dword(0x20), dword(0x24));
    let at = log.iter().position(|access| (access.1, access.2) == (net, bar)).unwrap();
    let expected = [
        ('r', net, command, 7),
        ('w', net, command, 4),
        ('r', net, bar, 0xfe00_400c),
        ('w', net, bar, 0xffff_ffff),
        ('r', net, bar, 0xffff_c00c),
        ('w', net, bar, 0xfe00_400c),
        ('r', net, upper, 0),
        ('w', net, upper, 0xffff_ffff),
        ('r', net, upper, 0xffff_ffff),
        ('w', net, upper, 0),
        ('w', net, command, 7),
    ];
    assert_eq!(log[at - 2..at + 9], expected);
}

#[test]
fn a_host_bridge_keeps_decoding_while_its_bars_are_sized() {
    let mut bus = PciBus::new();
    bus.insert(Bdf::default(), PciBus::host_bridge().config_space().unwrap()).unwrap();
    bus.write(Bdf::default(), word(regs::COMMAND), 6);
    let log = record(bus).log;
    let is_command = |access: &&(char, Bdf, Register, u32)| access.2.offset() == regs::COMMAND;
    // INTx disable is tried, nothing else.
    let tried: Vec<_> = log.iter().filter(is_command).map(|access| (access.0, access.3)).collect();
    assert_eq!(tried, [('r', 6), ('w', 0x406), ('r', 0x406), ('w', 6)]);
}

#[test]
fn functions_1_to_7_are_asked_for_only_where_function_0_says_so() {
    let mut bus = PciBus::new();
    let function = |device| FunctionConfig { vendor: 0x1234, device, ..FunctionConfig::default() };
    for (place, device) in [(bdf(0, 3, 0), 1), (bdf(0, 9, 0), 2), (bdf(0, 9, 6), 3)] {
        bus.insert(place, function(device).config_space().unwrap()).unwrap();
    }
    let log = record(bus).log;
    let asked = |device| {
        let probes = log.iter().filter(|access| access.1.device() == device && access.2 == dword(0));
        let mut functions: Vec<u8> = probes.map(|access| access.1.function()).collect();
        functions.dedup();
        functions
    };
    assert_eq!(asked(3), [0]);
    assert_eq!(asked(4), [0]);
    assert_eq!(asked(9), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn the_published_benchmark_exits_two_one_or_no_times_a_read() {
    let mut host = host();
    let reads = RawReads { bdf: bdf(0, 1, 0), register: dword(0), count: 1000 };
    for (method, expected) in ConfigMethod::ALL.iter().zip([2000, 1000, 0]) {
        let mut log = vec![];
        let result = reads.run(&mut by_method(&mut host, *method, &mut log)).unwrap();
        assert_eq!((result.counts, result.last), (counts(1000, 0), Some(0x1041_1af4)));
        assert_eq!(exits(&log), expected, "{}", method.name());
    }
    let beyond = RawReads { register: dword(0x100), ..reads };
    let mut log = vec![];
    assert!(beyond.run(&mut by_method(&mut host, ConfigMethod::Type1, &mut log)).is_err());
    assert_eq!(log, []);
}

/// Linux with both: 0xcf8 below 0x100, ECAM from there (`raw_pci_read` with `raw_pci_ops` and `raw_pci_ext_ops`).
#[test]
fn a_guest_with_ports_and_window_uses_the_window_for_what_the_ports_do_not_reach() {
    let mut host = host();
    let mut by_window = vec![];
    let all = Scan::default().run(&mut by_method(&mut host, ConfigMethod::Ecam, &mut by_window));
    let mut log = vec![];
    let both = by_method(&mut host, ConfigMethod::Type1, &mut log);
    assert_eq!(Scan::default().run(&mut both.extended_by(ConfigMethod::Ecam)), all);
    let loads = log.iter().filter(|access| matches!(access, MachineAccess::Load { .. })).count();
    let in_extended =
        |access: &&MachineAccess| matches!(access, MachineAccess::Load { addr, .. } if addr.0 & 0xf00 != 0);
    assert_eq!(loads, by_window.iter().filter(in_extended).count());
    assert_eq!(log.len(), 2 * by_window.len() - loads);
}

#[test]
fn a_function_that_asks_to_retry_is_asked_17_times_and_given_up() {
    let mut space = ConfigSpace::new();
    space.set_register(dword(0), 0xffff_0001);
    let mut bus = PciBus::new();
    bus.insert(bdf(0, 5, 0), space).unwrap();
    let result = Scan::default().run(&mut bus);
    // After 1, 2, 4 ... 32768 ms; the next wait would pass 60 s.
    assert_eq!((result.functions.len(), result.enumeration), (0, counts(31 + 17, 0)));
}

#[test]
fn a_loop_of_capabilities_ends() {
    let mut space =
        FunctionConfig { vendor: 0x1af4, device: 0x1042, ..FunctionConfig::default() }.config_space().unwrap();
    space.set_register(word(regs::STATUS), u32::from(regs::STATUS_CAP_LIST));
    space.set_register(reg(regs::CAPABILITY_LIST, Width::Byte), 0x40);
    space.set_register(dword(0x40), 0x0114_4009); // vendor capability, next 0x40, common structure in BAR 0
    let mut bus = PciBus::new();
    bus.insert(Bdf::default(), space).unwrap();
    let result = Scan::default().run(&mut bus);
    assert_eq!(result.functions[0].capabilities.len(), 1);
    assert!(result.enumeration.reads < 1000 && result.drivers.reads < 1000);
}

/// By the source of `__pci_read_base`, which returns 1 only for a 64-bit BAR that it could size.
#[test]
fn the_upper_half_of_a_64_bit_bar_that_decodes_nothing_is_sized_as_a_bar_of_its_own() {
    let mut space = FunctionConfig { vendor: 0x1234, ..FunctionConfig::default() }.config_space().unwrap();
    space.set_register(dword(regs::BASE_ADDRESS_0), BarKind::Memory64.bits());
    let mut bus = PciBus::new();
    bus.insert(Bdf::default(), space).unwrap();
    let log = record(bus).log;
    let writes = |offset| log.iter().filter(|access| access.0 == 'w' && access.2 == dword(offset)).count();
    assert_eq!([0x10, 0x14, 0x18, 0x24].map(writes), [2, 4, 2, 2]);
}

/// `pci_find_vsec_capability`, which `set_pcie_thunderbolt` calls for Intel's functions.
#[test]
fn each_vendor_specific_capability_of_intels_functions_is_looked_into_once() {
    let mut space = PciBus::host_bridge().config_space().unwrap();
    for (at, next) in [(0x100, 0x140), (0x140, 0x180), (0x180, 0)] {
        space.set_register(dword(at), next << 20 | 0x0001_000b);
    }
    let mut bus = PciBus::new();
    bus.insert(Bdf::default(), space).unwrap();
    let log = record(bus).log;
    let reads = |offset| log.iter().filter(|access| access.2 == dword(offset)).count();
    assert_eq!([0x104, 0x144, 0x184].map(reads), [1, 1, 1]);
}

#[test]
fn extended_space_that_repeats_the_first_256_bytes_is_not_taken_for_more() {
    let function = FunctionConfig { vendor: 0x8086, device: 1, class: Class::HOST_BRIDGE, ..FunctionConfig::default() };
    let mut space = function.config_space().unwrap();
    for alias in (0x100..0x1000).step_by(0x100) {
        space.set_register(dword(alias), 0x0001_8086);
    }
    let mut bus = PciBus::new();
    bus.insert(Bdf::default(), space.clone()).unwrap();
    assert_eq!(Scan::default().run(&mut bus).functions[0].config_bytes, 256);
    bus.function_mut(Bdf::default()).unwrap().set_register(dword(0xf00), 0);
    assert_eq!(Scan::default().run(&mut bus).functions[0].config_bytes, 4096);
}

fn scan(bus: &mut PciBus) -> Vec<FoundFunction> {
    Scan { buses: 0..=2 }.run(bus).functions
}

/// What the guest's firmware may have set before: Command, and each BAR's address.
fn set_up(bus: &mut PciBus, topology: &Topology, seed: u32) {
    for (index, bdf) in (0..).zip(topology.keys()) {
        let value = seed.rotate_left(index);
        bus.write(*bdf, word(regs::COMMAND), value);
        for bar in 0..7 {
            let offset = if bar == 6 { regs::ROM_ADDRESS } else { regs::BASE_ADDRESS_0 + 4 * bar };
            bus.write(*bdf, dword(offset), value.rotate_left(u32::from(bar)));
        }
    }
}

fn expected_bars(bus: &PciBus, place: Bdf, function: &FunctionConfig) -> Vec<FoundBar> {
    let mut expected = vec![];
    for (index, bar) in (0..).zip(&function.bars) {
        let Some(Bar { kind, size }) = *bar else { continue };
        let at = regs::BASE_ADDRESS_0 + 4 * u16::from(index);
        let low = u64::from(bus.read(place, dword(at)));
        let high = if kind.is_64_bit() { u64::from(bus.read(place, dword(at + 4))) } else { 0 };
        let type_bits = if kind == BarKind::Io { 3 } else { 15 };
        expected.push(FoundBar { index, kind, size, address: (high << 32 | low) & !type_bits });
    }
    expected
}

proptest! {
    #[test]
    fn a_scan_finds_exactly_what_is_there_with_its_sizes_and_leaves_it_as_it_was(
        topology in topology(),
        seed in any::<u32>(),
    ) {
        let mut bus = bus(&topology);
        set_up(&mut bus, &topology, seed);
        let before = bus.clone();
        let found = scan(&mut bus);
        prop_assert_eq!(&bus, &before);
        prop_assert_eq!(found.iter().map(|found| found.bdf).collect::<Vec<_>>(), topology.keys().copied().collect::<Vec<_>>());
        for (found, (place, function)) in found.iter().zip(&topology) {
            prop_assert_eq!((found.vendor, found.device), (function.vendor, function.device));
            prop_assert_eq!((found.class, found.revision), (function.class, function.revision));
            let subsystem = (function.subsystem_vendor, function.subsystem);
            prop_assert_eq!((found.subsystem_vendor, found.subsystem), subsystem);
            prop_assert_eq!(found.interrupt_pin, function.interrupt_pin as u8);
            let siblings = topology.keys().filter(|other| other.sibling(0) == *place).count();
            prop_assert_eq!(found.multi_function, place.function() == 0 && siblings > 1);
            prop_assert_eq!(&found.bars, &expected_bars(&before, *place, function));
            let address = u64::from(before.read(*place, dword(regs::ROM_ADDRESS)) & !0x7ff);
            prop_assert_eq!(found.rom, function.rom.map(|size| FoundRom { size: size.into(), address }));

            let ids: Vec<u8> = function.capabilities.iter().map(|capability| capability.id()).collect();
            prop_assert_eq!(found.capabilities.iter().map(|found| found.id).collect::<Vec<_>>(), &*ids);
            prop_assert_eq!(found.msix_vectors.is_some(), ids.contains(&regs::CAP_MSIX));
            let extended = function.class.is(Class::HOST_BRIDGE) || ids.contains(&regs::CAP_EXPRESS);
            prop_assert_eq!(found.config_bytes, if extended { 4096 } else { 256 });
            let extended_ids = function.extended.iter().filter(|_| extended).map(|capability| capability.id());
            let found_ids = found.extended.iter().map(|found| found.id);
            prop_assert_eq!(found_ids.collect::<Vec<_>>(), extended_ids.collect::<Vec<_>>());
        }
        prop_assert_eq!(scan(&mut bus), found);
    }

    #[test]
    fn every_method_finds_the_same_below_0x100_and_exits_as_often_as_it_should(topology in topology()) {
        let mut results = vec![];
        for method in ConfigMethod::ALL {
            let mut host = HostBridge::new(EcamWindow::default(), bus(&topology));
            let mut log = vec![];
            let result = Scan { buses: 0..=2 }.run(&mut by_method(&mut host, *method, &mut log));
            let reads = result.enumeration.reads + result.drivers.reads;
            let writes = result.enumeration.writes + result.drivers.writes;
            let expected = match method {
                ConfigMethod::Type1 => 2 * (reads + writes),
                ConfigMethod::Ecam => reads + writes,
                ConfigMethod::EcamReadOnly => writes,
            };
            prop_assert_eq!(exits(&log) as u64, expected, "{}", method.name());
            results.push(result);
        }
        prop_assert_eq!(&results[1], &results[2]);
        let mut conventional = results[1].functions.clone();
        for function in &mut conventional {
            (function.config_bytes, function.extended) = (256, vec![]);
        }
        prop_assert_eq!(&results[0].functions, &conventional);
    }

    /// A function whose registers are noise, all of them writable or not: the scan ends, whatever it thinks it saw.
    #[test]
    fn noise_does_not_keep_the_scan(noise in prop::collection::vec(any::<u32>(), 1024), writable in any::<u32>()) {
        let mut space = ConfigSpace::new();
        for (at, value) in (0..4096).step_by(4).zip(noise) {
            space.set_register(dword(at), value);
            space.set_writable(dword(at), writable.rotate_left(u32::from(at)));
        }
        // Somebody is there, with a header that is looked into and lists that are followed.
        space.set_register(dword(0), 0x1041_1af4);
        space.set_register(reg(regs::HEADER_TYPE, Width::Byte), 0);
        space.set_register(word(regs::STATUS), 0x10);
        let mut bus = PciBus::new();
        bus.insert(Bdf::default(), space).unwrap();
        let result = Scan::default().run(&mut bus);
        prop_assert_eq!(result.functions.len(), 1);
    }
}
