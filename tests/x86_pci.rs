//! PCI configuration through the whole x86 path: vCPU, exits, ring, user space, the bridge behind ports, window and memslot.

mod pci_common;

use std::sync::Arc;

use hvmmio::addr::{KernelBehaviour, Port};
use hvmmio::device::{PciHost, UserSpace};
use hvmmio::io::pci::{
    Attachment, Bdf, ByMethod, ConfigAccess, ConfigMethod, EcamWindow, HostBridge, MachineAccess, PciBus,
    ReadOnlySlots, Register, Width, regs,
};
use hvmmio::io::{CoalescedZone, HostPage, IoSpace};
use hvmmio::kvm_x86::{End, Instruction, Pending, Platform, PortWidth, Target, Vcpu, Width as LoadWidth};
use hvmmio::sim::{Baseline, ConfigStats, RunResult, Scenario, SimError, Workload};
use hvmmio::workload::pci_config::{PciMethod, PciTask};
use hvmmio::workload::pci_scan::Scan;
use pci_common::{bdf, bus, dword, host, reg, topology, word};
use proptest::prelude::*;

/// One VM with a bridge behind everything that can reach it.
struct Machine {
    io: IoSpace,
    vcpu: Vcpu,
    user: UserSpace,
    host: PciHost,
    window: EcamWindow,
    exits: Vec<Target>,
}

impl Machine {
    fn new(bridge: HostBridge, method: PciMethod) -> Self {
        let (io, user) = (IoSpace::new(HostPage::Kib4, KernelBehaviour::default()), UserSpace::new());
        let (window, host) = (bridge.window(), PciHost::new(bridge));
        let mut platform = Platform::default();
        if method == PciMethod::EcamReadOnly {
            host.map_read_only(&mut platform);
        }
        if method == PciMethod::Type1Coalesced {
            io.register_zone(CoalescedZone { addr: 0xcf8, size: 4, pio: 1 }).unwrap();
        }
        host.attach(&user);
        Self { vcpu: Vcpu::new(&io, Arc::new(platform)), io, user, host, window, exits: vec![] }
    }

    fn perform(&mut self, insn: Instruction) -> u64 {
        let mut pending = Pending::new(insn);
        loop {
            match self.vcpu.run(&mut pending).end {
                End::Exit(exit) => {
                    self.exits.push(exit.target);
                    self.user.handle(Some(self.io.ring()), &exit, self.vcpu.exit_data()).unwrap();
                }
                End::Reentered => {}
                End::Done => return pending.value(),
            }
        }
    }

    fn out(&mut self, port: u16, width: PortWidth, value: u32) {
        self.perform(Instruction::Out { port: Port(port), width, value });
    }

    fn inl(&mut self, port: u16) -> u64 {
        self.perform(Instruction::In { port: Port(port), width: PortWidth::Dword })
    }

    fn access(&mut self, access: MachineAccess) -> u32 {
        let port = |width: Width| PortWidth::of_bytes(width.bytes().into()).unwrap();
        let load = |width| match width {
            Width::Byte => LoadWidth::Byte,
            Width::Word => LoadWidth::Word,
            Width::Dword => LoadWidth::Dword,
        };
        let value = self.perform(match access {
            MachineAccess::Out { port: at, width, value } => Instruction::Out { port: at, width: port(width), value },
            MachineAccess::In { port: at, width } => Instruction::In { port: at, width: port(width) },
            MachineAccess::Load { addr, width } | MachineAccess::MemoryLoad { addr, width } => {
                Instruction::Load { gpa: addr, width: load(width) }
            }
            MachineAccess::Store { addr, width, value } => {
                Instruction::Store { gpa: addr, width: load(width), value: value.into() }
            }
        });
        value.try_into().unwrap()
    }

    fn config(&mut self, method: PciMethod) -> impl ConfigAccess + '_ {
        let [below, beyond] = method.on(ReadOnlySlots::Present);
        ByMethod::new(below, self.window, |access| self.access(access)).extended_by(beyond)
    }
}

fn register() -> impl Strategy<Value = Register> {
    let width = prop::sample::select(Width::ALL.to_vec());
    // Below 0x100 as often as in all the rest.
    (prop_oneof![0..0x100_u16, 0..0x1000_u16], width)
        .prop_map(|(offset, width)| reg(offset & !(width.bytes() - 1), width))
}

proptest! {
    /// Case ecam-equals-cf8, through exits, ring and memslot: the same reads and writes give the same values by every method,
    /// and leave the same bus behind. 0x100 and up only where there is a window.
    #[test]
    fn every_method_reads_and_writes_the_same_registers_through_the_whole_path(
        topology in topology(),
        accesses in prop::collection::vec((any::<u16>(), any::<prop::sample::Index>(), register(), prop::option::of(any::<u32>())), 1..60),
    ) {
        let there: Vec<_> = topology.keys().copied().collect();
        let place = |anywhere: u16, index: prop::sample::Index| match there.len() {
            0 => Bdf::from_bits(anywhere),
            _ if anywhere % 4 == 0 => Bdf::from_bits(anywhere),
            _ => *index.get(&there),
        };
        let mut seen: Vec<(PciMethod, Vec<Option<u32>>, PciBus)> = vec![];
        for method in PciMethod::ALL {
            let mut machine = Machine::new(HostBridge::new(EcamWindow::default(), bus(&topology)), *method);
            let mut values = vec![];
            for (anywhere, index, register, write) in &accesses {
                let (place, mut config) = (place(*anywhere, *index), machine.config(*method));
                let window = method.on(ReadOnlySlots::Present)[1] != ConfigMethod::Type1;
                let reached = register.is_conventional() || window;
                // Both ways must see what is out of reach: there only those with a window may write.
                if let Some(value) = write.filter(|_| register.is_conventional()) {
                    prop_assert!(config.write(place, *register, value).is_ok());
                }
                let read = config.read(place, *register);
                prop_assert_eq!(read.is_ok(), reached);
                values.push(read.ok().filter(|_| register.is_conventional()));
                drop(config);
                if let Ok(value) = read {
                    prop_assert_eq!(value, machine.host.bridge().bus().read(place, *register));
                }
            }
            // What still waits in the ring is the latch: the bus has everything.
            let bus = machine.host.bridge().bus().clone();
            seen.push((*method, values, bus));
        }
        for pair in seen.windows(2) {
            prop_assert_eq!(&pair[0].1, &pair[1].1, "{} and {}", pair[0].0, pair[1].0);
            prop_assert_eq!(&pair[0].2, &pair[1].2);
        }
    }

    #[test]
    fn a_scan_by_any_method_finds_through_the_whole_path_what_it_finds_on_the_bare_bus(topology in topology()) {
        let scan = Scan { buses: 0..=2 };
        let bare = scan.run(&mut bus(&topology));
        for method in [PciMethod::Type1Ecam, PciMethod::Ecam, PciMethod::EcamReadOnly] {
            let mut machine = Machine::new(HostBridge::new(EcamWindow::default(), bus(&topology)), method);
            prop_assert_eq!(&scan.run(&mut machine.config(method)), &bare, "{}", method);
        }
    }
}

/// Case drain-before-exit: 0xcf8 <- A, 0xcf8 <- B, then a read of 0xcfc: the bridge sees B.
#[test]
fn of_two_coalesced_addresses_the_read_of_the_data_port_sees_the_second() {
    let mut machine = Machine::new(host(), PciMethod::Type1Coalesced);
    machine.out(0xcf8, PortWidth::Dword, 0x8000_0000);
    machine.out(0xcf8, PortWidth::Dword, 0x8000_0800);
    assert_eq!(machine.exits, [], "both wait");
    assert_eq!(machine.host.bridge().latch(), 0);
    assert_eq!(machine.inl(0xcfc), 0x1041_1af4);
    assert_eq!(machine.exits, [Target::Port(Port(0xcfc))]);
    assert_eq!(machine.host.bridge().latch(), 0x8000_0800);
}

/// Case absent-all-ones: every width, by port and by address, also right after a read that returned something else.
#[test]
fn absent_functions_and_a_closed_latch_read_all_ones_and_drop_writes() {
    for method in PciMethod::ALL {
        let mut machine = Machine::new(host(), *method);
        for width in Width::ALL {
            let mut config = machine.config(*method);
            assert_ne!(config.read(bdf(0, 1, 0), reg(0, width)).unwrap(), width.ones());
            assert_eq!(config.read(bdf(0, 2, 0), reg(0, width)).unwrap(), width.ones(), "{method}");
        }
        machine.out(0xcf8, PortWidth::Dword, 0x0000_0800);
        assert_eq!(machine.inl(0xcfc), 0xffff_ffff);
        let before = machine.host.bridge().bus().clone();
        machine.out(0xcfc, PortWidth::Dword, 0xffff_ffff);
        assert_eq!(*machine.host.bridge().bus(), before);
    }
}

/// Case cf9-in-cf8.
#[test]
fn a_dword_at_0xcf8_does_not_reach_the_reset_register_within_it() {
    let mut machine = Machine::new(host(), PciMethod::Type1);
    machine.out(0xcf8, PortWidth::Dword, 0x8000_0800);
    machine.out(0xcf9, PortWidth::Byte, 0x02);
    assert_eq!(machine.host.bridge().latch(), 0x8000_0800);
    assert_eq!(machine.inl(0xcfc), 0x1041_1af4);
    assert_eq!(machine.perform(Instruction::In { port: Port(0xcf9), width: PortWidth::Byte }), 2);
}

/// Case readonly-ecam-fresh.
#[test]
fn mapped_reads_make_no_exit_and_show_at_once_what_a_device_or_an_exiting_write_changed() {
    let mut machine = Machine::new(host(), PciMethod::EcamReadOnly);
    let net = bdf(0, 1, 0);
    let status = machine.config(PciMethod::EcamReadOnly).read(net, word(regs::STATUS)).unwrap();
    assert_eq!(machine.exits, []);
    machine.host.bridge().bus_mut().function_mut(net).unwrap().set_register(word(regs::STATUS), status | 0x8000);
    let mut config = machine.config(PciMethod::EcamReadOnly);
    assert_eq!(config.read(net, word(regs::STATUS)).unwrap(), status | 0x8000);
    config.write(net, dword(0x20), 0xffff_ffff).unwrap();
    assert_eq!(config.read(net, dword(0x20)).unwrap(), 0xffff_c00c, "the size of BAR 4");
    drop(config);
    assert_eq!(machine.exits.len(), 1, "the write, and nothing else: {:?}", machine.exits);
}

fn scenario(name: &str, devices: u64, method: PciMethod) -> Scenario {
    let mut scenario = Scenario::load(name).unwrap();
    scenario.set_devices(devices).unwrap();
    let Workload::Pci(config) = &mut scenario.workload else { panic!("pci") };
    config.method = method;
    scenario
}

fn run(scenario: &Scenario) -> RunResult {
    hvmmio::sim::run(scenario, &mut |_| ()).unwrap_or_else(|error| panic!("{}: {error}", scenario.name))
}

fn stats(scenario: &Scenario) -> ConfigStats {
    run(scenario).config.unwrap()
}

#[test]
fn reads_of_a_scan_exit_two_one_or_no_times_and_writes_exit_by_every_method() {
    for devices in [1, 8, 100, 248] {
        let by = |method| stats(&scenario("pci-scan", devices, method));
        let [ports, ring, both, window, memory] = [
            by(PciMethod::Type1),
            by(PciMethod::Type1Coalesced),
            by(PciMethod::Type1Ecam),
            by(PciMethod::Ecam),
            by(PciMethod::EcamReadOnly),
        ];
        assert_eq!([ports, ring, both, window, memory].map(|stats| stats.functions as u64), [devices + 1; 5]);
        assert_eq!([ports, ring, window, memory].map(|stats| stats.read_exits / stats.reads), [2, 1, 1, 0]);
        assert_eq!([ports, ring, window].map(|stats| stats.read_exits % stats.reads), [0; 3]);
        assert_eq!((ports.port_exits, ports.mmio_exits), (2 * (ports.reads + ports.writes), 0));
        assert_eq!((ring.port_exits, ring.mmio_exits), (ring.reads + ring.writes, 0));
        assert_eq!((window.port_exits, window.mmio_exits), (0, window.reads + window.writes));
        assert_eq!((memory.port_exits, memory.mmio_exits, memory.memory_reads), (0, memory.writes, memory.reads));
        // Ports and window together read what the window alone does: the part from 0x100 on by one exit each.
        assert_eq!((both.reads, both.writes), (window.reads, window.writes));
        assert_eq!(both.port_exits + 2 * both.mmio_exits, 2 * (both.reads + both.writes));
        assert!(ports.scan_s > ring.scan_s && ring.scan_s > memory.scan_s);
    }
}

#[test]
fn a_host_without_read_only_memslots_falls_back_to_exits_with_the_same_result_and_says_so() {
    let mut without = scenario("pci-scan", 8, PciMethod::EcamReadOnly);
    let Workload::Pci(config) = &mut without.workload else { panic!("pci") };
    config.slots = ReadOnlySlots::Absent;
    let result = run(&without);
    let [note] = &result.notes[..] else { panic!("{:?}", result.notes) };
    assert!(note.contains("no read-only memslots") && note.contains("exit"), "{note}");
    assert_eq!(result.config.unwrap(), stats(&scenario("pci-scan", 8, PciMethod::Ecam)));
    assert!(run(&scenario("pci-scan", 8, PciMethod::EcamReadOnly)).notes.is_empty());
}

#[test]
fn a_variant_runs_by_its_method_and_every_read_is_counted_once() {
    let shipped = Scenario::load("pci-raw-read").unwrap();
    let Workload::Pci(config) = &shipped.workload else { panic!("pci") };
    let PciTask::RawReads { count, .. } = config.task else { panic!("raw reads") };
    assert_eq!(count, 100_000);
    for (variant, exits) in shipped.variants(Baseline::With).iter().zip([2, 1, 0]) {
        let result = run(variant);
        let stats = result.config.unwrap();
        assert_eq!((stats.reads, stats.writes, stats.read_exits), (count, 0, exits * count), "{}", result.variant);
        assert_eq!(result.outcomes.exits, exits * count);
    }
}

#[test]
fn a_register_out_of_reach_ends_the_run_in_words() {
    let mut far = scenario("pci-raw-read", 1, PciMethod::Type1);
    let Workload::Pci(config) = &mut far.workload else { panic!("pci") };
    config.task = PciTask::RawReads { register: dword(0x100), count: 3 };
    let error = hvmmio::sim::run(&far, &mut |_| ()).unwrap_err();
    assert!(matches!(error, SimError::Unreachable(_)) && error.to_string().contains("use ecam"), "{error}");
}

#[test]
fn a_scan_that_finds_anything_else_than_what_is_there_is_told_by_function_and_quantity() {
    let there = PciBus::virtio_functions(3, Attachment::IntegratedEndpoint).unwrap();
    let found = Scan::default().run(&mut PciBus::with_virtio(3, Attachment::IntegratedEndpoint).unwrap());
    assert_eq!(found.check(&there, 4096), Ok(()));
    let differs = |change: &dyn Fn(&mut hvmmio::io::pci::FunctionConfig), what: &str| {
        let mut there = there.clone();
        change(&mut there[2].1);
        let error = found.check(&there, 4096).unwrap_err();
        assert!(error.contains("00:02.0") && error.contains(what), "{error}, without {what}");
    };
    differs(&|function| function.device += 1, "vendor and device");
    differs(&|function| function.revision += 1, "class and revision");
    differs(&|function| function.subsystem += 1, "subsystem");
    differs(&|function| function.interrupt_pin = hvmmio::io::pci::InterruptPin::B, "interrupt pin");
    differs(&|function| function.bars[1] = None, "BARs");
    differs(&|function| function.rom = Some(2048), "ROM");
    differs(&|function| function.capabilities.truncate(7), "capabilities");
    differs(&|function| function.extended.clear(), "extended capabilities");
    assert!(found.check(&there, 256).unwrap_err().contains("bytes of configuration space"));
    assert!(found.check(&there[..3], 4096).unwrap_err().contains("00:03.0"));
}
