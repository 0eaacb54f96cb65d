//! What KVM on x86 does with ports, strings and MMIO: who takes an access, how many exits it makes.

use std::sync::Arc;

use parking_lot::Mutex;

use hvmmio::addr::{GuestPhysAddr, KernelBehaviour, Port};
use hvmmio::io::{CoalescedZone, DeviceModel, HostPage, IoBus, IoSpace, Ioeventfd};
use hvmmio::kvm_x86::{
    Direction, End, FastMmio, Handled, Instruction, Pending, Platform, PortWidth, ReadOnlyMemory, Stage, StageCounts,
    StringStep, Target, UserExit, Vcpu, Width,
};

fn io() -> IoSpace {
    IoSpace::new(HostPage::Kib4, KernelBehaviour::default())
}

fn zone(io: &IoSpace, addr: u64, size: u32, pio: u32) {
    io.register_zone(CoalescedZone { addr, size, pio }).unwrap();
}

fn eventfd(io: &IoSpace, bus: IoBus, addr: u64, len: u32) -> Arc<hvmmio::io::Eventfd> {
    let fd = io.create_eventfd();
    io.assign(Ioeventfd { bus, addr, len, datamatch: None, fd: fd.id() }).unwrap();
    fd
}

/// Everything an instruction did: its exits with their data, stages and takers over all runs, entries into the guest.
#[derive(Debug, Default)]
struct Whole {
    exits: Vec<(UserExit, Vec<u8>)>,
    stages: StageCounts,
    handled: Handled,
    pending: Option<Pending>,
}

/// Performs an instruction; reads are answered with consecutive bytes.
fn perform(vcpu: &mut Vcpu, insn: Instruction) -> Whole {
    let (mut pending, mut whole, mut answer) = (Pending::new(insn), Whole::default(), 0_u8);
    loop {
        let run = vcpu.run(&mut pending);
        whole.stages.merge(&run.stages);
        whole.handled.coalesced += run.handled.coalesced;
        whole.handled.eventfd += run.handled.eventfd;
        whole.handled.fast_mmio += run.handled.fast_mmio;
        whole.handled.in_kernel += run.handled.in_kernel;
        whole.handled.memory += run.handled.memory;
        match run.end {
            End::Exit(exit) => {
                let data = vcpu.exit_data();
                if exit.direction == Direction::Read {
                    for byte in data.iter_mut() {
                        answer = answer.wrapping_add(1);
                        *byte = answer;
                    }
                }
                whole.exits.push((exit, data.to_vec()));
            }
            End::Reentered => {}
            End::Done => break,
        }
    }
    assert_eq!(vcpu.run(&mut pending).end, End::Done, "what is done stays done");
    whole.pending = Some(pending);
    whole
}

fn outs(elements: usize, width: PortWidth) -> Instruction {
    let data = (0..=250).cycle().take(elements * width.bytes()).collect();
    Instruction::Outs { port: Port(0x3f8), width, data }
}

fn ins(count: u64, width: PortWidth, page_offset: u16, step: StringStep) -> Instruction {
    Instruction::Ins { port: Port(0x1f0), width, count, page_offset, step }
}

#[test]
fn an_out_that_nobody_takes_exits_with_its_port_size_and_bytes() {
    let io = io();
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let out = perform(&mut vcpu, Instruction::Out { port: Port(0x80), width: PortWidth::Word, value: 0xabcd_1234 });
    let exit =
        UserExit { target: Target::Port(Port(0x80)), direction: Direction::Write, size: 2, count: 1, ring_full: false };
    assert_eq!(out.exits, [(exit, vec![0x34, 0x12])]);
    let expected =
        [Stage::VmExit, Stage::KernelIo, Stage::UserExit, Stage::UserEntry, Stage::PrepareEntry, Stage::VmEntry];
    assert_eq!(out.stages, expected.into_iter().collect());
}

#[test]
fn a_coalesced_out_and_an_ioeventfd_need_no_user_space_and_an_in_always_does() {
    let io = io();
    zone(&io, 0x70, 1, 1);
    let fd = eventfd(&io, IoBus::Pio, 0xc000, 2);
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let index = perform(&mut vcpu, Instruction::Out { port: Port(0x70), width: PortWidth::Byte, value: 0x0c });
    assert_eq!((index.handled.coalesced, index.exits.len(), index.stages.of(Stage::RingStore)), (1, 0, 1));
    let kick = perform(&mut vcpu, Instruction::Out { port: Port(0xc000), width: PortWidth::Word, value: 0 });
    assert_eq!((kick.handled.eventfd, kick.exits.len(), fd.count()), (1, 0, 1));
    // A word at 0x70 reaches beyond the zone, and a read is never coalesced.
    for insn in [
        Instruction::Out { port: Port(0x70), width: PortWidth::Word, value: 0 },
        Instruction::In { port: Port(0x70), width: PortWidth::Byte },
    ] {
        assert_eq!(perform(&mut vcpu, insn).exits.len(), 1);
    }
    assert_eq!(io.ring().waiting().unwrap().len(), 1);
}

#[test]
fn an_out_that_finds_the_ring_full_exits_and_says_so() {
    let io = io();
    zone(&io, 0x70, 1, 1);
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let out = Instruction::Out { port: Port(0x70), width: PortWidth::Byte, value: 1 };
    for _ in 0..169 {
        assert_eq!(perform(&mut vcpu, out.clone()).handled.coalesced, 1);
    }
    let [(exit, _)] = perform(&mut vcpu, out).exits[..] else { panic!("one exit") };
    assert!(exit.ring_full);
}

#[test]
fn rep_outs_exits_once_per_element_in_order() {
    let io = io();
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let whole = perform(&mut vcpu, outs(5, PortWidth::Word));
    let written: Vec<_> = whole.exits.iter().map(|(_, data)| data.clone()).collect();
    assert_eq!(written, [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]);
    assert!(whole.exits.iter().all(|(exit, _)| (exit.size, exit.count) == (2, 1)));
    // Each element is a whole exit: the emulator does not go on behind KVM_EXIT_IO.
    assert_eq!([Stage::VmExit, Stage::UserExit, Stage::VmEntry].map(|stage| whole.stages.of(stage)), [5, 5, 5]);
}

#[test]
fn rep_outs_that_the_kernel_takes_leaves_the_emulator_every_1024_elements_left_only() {
    let io = io();
    let fd = eventfd(&io, IoBus::Pio, 0x3f8, 1);
    let mut vcpu = Vcpu::new(&io, Arc::default());
    for (elements, exits) in [(1_u16, 1), (1023, 1), (1024, 1), (1025, 2), (3000, 3)] {
        let whole = perform(&mut vcpu, outs(usize::from(elements), PortWidth::Byte));
        assert_eq!(whole.stages.of(Stage::VmExit), exits, "{elements}");
        assert_eq!(whole.stages.of(Stage::EventfdSignal), u32::from(elements));
        assert_eq!((fd.take(), whole.exits.len()), (u64::from(elements), 0));
    }
}

#[test]
fn rep_outs_into_a_ring_that_fills_goes_on_with_exits() {
    let io = io();
    zone(&io, 0x3f8, 4, 1);
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let whole = perform(&mut vcpu, outs(172, PortWidth::Dword));
    assert_eq!((whole.handled.coalesced, whole.exits.len()), (169, 3));
    assert!(whole.exits.iter().all(|(exit, _)| exit.ring_full));
}

#[test]
fn rep_ins_reads_ahead_the_least_of_page_1024_bytes_and_count() {
    let io = io();
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let mut counts = |insn| perform(&mut vcpu, insn).exits.iter().map(|(exit, _)| exit.count).collect::<Vec<_>>();
    assert_eq!(counts(ins(256, PortWidth::Word, 0, StringStep::Up)), [256]);
    assert_eq!(counts(ins(1000, PortWidth::Word, 0, StringStep::Up)), [512, 488]);
    assert_eq!(counts(ins(1025, PortWidth::Byte, 0, StringStep::Up)), [1024, 1]);
    assert_eq!(counts(ins(300, PortWidth::Dword, 0, StringStep::Up)), [256, 44]);
    // The rest of the page is in bytes, the batch in elements: 10 bytes are left, 10 words are read.
    assert_eq!(counts(ins(20, PortWidth::Word, 4086, StringStep::Up)), [10, 10]);
    // Downwards the page ends at its start, and at least one element is read.
    assert_eq!(counts(ins(20, PortWidth::Byte, 16, StringStep::Down)), [16, 1, 3]);
    assert!(counts(ins(0, PortWidth::Byte, 0, StringStep::Up)).is_empty());
}

#[test]
fn rep_ins_gives_the_bytes_in_order_from_user_space_and_from_a_device_in_the_kernel() {
    let io = io();
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let whole = perform(&mut vcpu, ins(6, PortWidth::Byte, 4093, StringStep::Up));
    assert_eq!(whole.pending.unwrap().string(), [1, 2, 3, 4, 5, 6]);
    let mut platform = Platform::default();
    platform.add_device(IoBus::Pio, 0x1f0, 8, Arc::new(Mutex::new(Counter(0))));
    let mut vcpu = Vcpu::new(&io, Arc::new(platform));
    let whole = perform(&mut vcpu, ins(600, PortWidth::Word, 0, StringStep::Up));
    assert_eq!((whole.exits.len(), whole.handled.in_kernel, whole.stages.of(Stage::VmExit)), (0, 600, 2));
    assert_eq!(whole.pending.unwrap().string()[..6], [1, 0xff, 2, 0xff, 3, 0xff]);
}

/// Answers with how often it was read, in one byte.
struct Counter(u8);

impl DeviceModel for Counter {
    fn read(&mut self, _addr: u64, data: &mut [u8]) {
        self.0 = self.0.wrapping_add(1);
        data[0] = self.0;
    }

    fn write(&mut self, _addr: u64, data: &[u8]) {
        self.0 = data[0];
    }
}

#[test]
fn a_length_0_ioeventfd_is_taken_before_the_instruction_is_decoded_loads_too() {
    let io = io();
    let fd = eventfd(&io, IoBus::Mmio, 0xfe00_0000, 0);
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let gpa = GuestPhysAddr(0xfe00_0000);
    let store = perform(&mut vcpu, Instruction::Store { gpa, width: Width::Dword, value: 1 });
    assert_eq!((store.handled.fast_mmio, store.stages.of(Stage::EmulateInsn), fd.take()), (1, 0, 1));
    let load = perform(&mut vcpu, Instruction::Load { gpa, width: Width::Dword });
    assert_eq!((load.exits.len(), fd.take()), (0, 1), "the fast bus does not know the direction");
}

/// As AMD's SVM and KVMs with shadow page tables have it (seen on kvm_pvm).
#[test]
fn a_length_0_ioeventfd_takes_writes_alone_where_nothing_asks_before_decoding() {
    let io = io();
    let fd = eventfd(&io, IoBus::Mmio, 0xfe00_0000, 0);
    let mut platform = Platform::default();
    platform.set_fast_mmio(FastMmio::Never);
    let mut vcpu = Vcpu::new(&io, Arc::new(platform));
    let gpa = GuestPhysAddr(0xfe00_0000);
    let store = perform(&mut vcpu, Instruction::Store { gpa, width: Width::Dword, value: 1 });
    let stages = [store.stages.of(Stage::FastMmio), store.stages.of(Stage::EmulateInsn)];
    assert_eq!((store.handled.eventfd, stages, fd.take()), (1, [0, 1], 1));
    let load = perform(&mut vcpu, Instruction::Load { gpa, width: Width::Dword });
    assert_eq!((load.exits.len(), fd.take()), (1, 0), "a bus look-up knows the direction");
}

#[test]
fn an_ioeventfd_with_a_length_is_found_after_decoding_and_only_by_its_width() {
    let io = io();
    let fd = eventfd(&io, IoBus::Mmio, 0xfe00_0000, 2);
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let gpa = GuestPhysAddr(0xfe00_0000);
    let word = perform(&mut vcpu, Instruction::Store { gpa, width: Width::Word, value: 1 });
    assert_eq!((word.handled.eventfd, word.stages.of(Stage::EmulateInsn), fd.take()), (1, 1, 1));
    // evfd-length: 4 bytes at an ioeventfd of 2 exit.
    let dword = perform(&mut vcpu, Instruction::Store { gpa, width: Width::Dword, value: 1 });
    assert_eq!((dword.exits.len(), fd.take()), (1, 0));
}

#[test]
fn an_mmio_access_across_a_page_exits_once_per_page_and_is_put_together() {
    let io = io();
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let gpa = GuestPhysAddr(0xfe00_0ffd);
    let load = perform(&mut vcpu, Instruction::Load { gpa, width: Width::Qword });
    let shape: Vec<_> = load.exits.iter().map(|(exit, _)| (exit.target.addr(), exit.size)).collect();
    assert_eq!(shape, [(0xfe00_0ffd, 3), (0xfe00_1000, 5)]);
    assert_eq!(load.pending.unwrap().value(), 0x0807_0605_0403_0201);
    assert_eq!((load.stages.of(Stage::VmExit), load.stages.of(Stage::UserExit)), (1, 2));
    let store = perform(&mut vcpu, Instruction::Store { gpa, width: Width::Dword, value: 0x4433_2211 });
    let data: Vec<_> = store.exits.iter().map(|(_, data)| data.clone()).collect();
    assert_eq!(data, [vec![0x11, 0x22, 0x33], vec![0x44]]);
}

/// Memory whose bytes are their offset, plus what was added since.
struct Page(Mutex<u8>);

impl ReadOnlyMemory for Page {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let plus = *self.0.lock();
        for (at, byte) in (offset..).zip(data) {
            let [low, ..] = at.to_le_bytes();
            *byte = low.wrapping_add(plus);
        }
    }
}

#[test]
fn a_read_only_memslot_is_read_without_an_exit_and_fresh_and_written_by_an_exit() {
    let (io, page) = (io(), Arc::new(Page(Mutex::new(0))));
    let mut platform = Platform::default();
    platform.add_read_only(GuestPhysAddr(0xb000_0000), 4096, Arc::clone(&page) as _);
    let mut vcpu = Vcpu::new(&io, Arc::new(platform));
    let load = |gpa| Instruction::Load { gpa: GuestPhysAddr(gpa), width: Width::Dword };
    let read = perform(&mut vcpu, load(0xb000_0004));
    assert_eq!(read.stages, [Stage::MemoryRead].into_iter().collect());
    assert_eq!(read.pending.unwrap().value(), 0x0706_0504);
    // readonly-ecam-fresh: what the owner changes shows at once.
    *page.0.lock() = 0x10;
    assert_eq!(perform(&mut vcpu, load(0xb000_0004)).pending.unwrap().value(), 0x1716_1514);
    let gpa = GuestPhysAddr(0xb000_0004);
    let store = perform(&mut vcpu, Instruction::Store { gpa, width: Width::Dword, value: 7 });
    let stages =
        |whole: &Whole| [Stage::FastMmio, Stage::ReadOnlyFault, Stage::EmulateInsn].map(|s| whole.stages.of(s));
    assert_eq!((store.exits.len(), stages(&store)), (1, [0, 1, 1]));
    // Where the page has no memory the bus is asked first, whatever lies behind it; a load never faults so.
    let into = |gpa| Instruction::Store { gpa: GuestPhysAddr(gpa), width: Width::Dword, value: 7 };
    assert_eq!(stages(&perform(&mut vcpu, into(0xafff_fffe))), [1, 0, 1]);
    assert_eq!(stages(&perform(&mut vcpu, into(0xb000_0ffe))), [0, 1, 1]);
    assert_eq!(stages(&perform(&mut vcpu, load(0xb000_1000))), [1, 0, 1]);
    // The last bytes come from memory, those beyond from user space.
    let across = perform(&mut vcpu, load(0xb000_0ffe));
    assert_eq!((across.exits.len(), across.pending.unwrap().value()), (1, 0x0201_0f0e));
}
