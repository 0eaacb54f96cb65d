//! User space's side of an exit: drain first, then the device; all ones where nobody is.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use hvmmio::addr::{GuestPhysAddr, KernelBehaviour, Port};
use hvmmio::device::{RTC_INDEX_PORT, Rtc, UserSpace};
use hvmmio::io::{CoalescedZone, DeviceModel, HostPage, IoBus, IoSpace};
use hvmmio::kvm_x86::{End, Instruction, Pending, PortWidth, Vcpu, Width};

fn io(zones: &[(u64, u32)]) -> IoSpace {
    let io = IoSpace::new(HostPage::Kib4, KernelBehaviour::default());
    for (addr, size) in zones {
        io.register_zone(CoalescedZone { addr: *addr, size: *size, pio: 1 }).unwrap();
    }
    io
}

/// Performs an instruction and gives what it read.
fn perform(vcpu: &mut Vcpu, io: &IoSpace, user: &UserSpace, insn: Instruction) -> u64 {
    let mut pending = Pending::new(insn);
    loop {
        match vcpu.run(&mut pending).end {
            End::Exit(exit) => drop(user.handle(Some(io.ring()), &exit, vcpu.exit_data()).unwrap()),
            End::Reentered => {}
            End::Done => return pending.value(),
        }
    }
}

const fn out(port: u16, width: PortWidth, value: u32) -> Instruction {
    Instruction::Out { port: Port(port), width, value }
}

const fn input(port: u16, width: PortWidth) -> Instruction {
    Instruction::In { port: Port(port), width }
}

/// Keeps what is written, answers a read with the last value; a write may ask for a drain.
#[derive(Default)]
struct Latch {
    written: Vec<(u64, u32)>,
    nested: Option<(Weak<UserSpace>, Arc<IoSpace>)>,
    nested_drains: Vec<u32>,
}

impl DeviceModel for Latch {
    fn read(&mut self, _addr: u64, data: &mut [u8]) {
        let last = self.written.last().map_or(0, |(_, value)| *value);
        let bytes = data.len();
        data.copy_from_slice(&last.to_le_bytes()[..bytes]);
    }

    fn write(&mut self, addr: u64, data: &[u8]) {
        let value = data.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
        self.written.push((addr, value));
        if let Some((user, io)) = &self.nested {
            let user = user.upgrade().unwrap();
            self.nested_drains.push(user.drain(Some(io.ring())).unwrap());
        }
    }
}

/// Case drain-before-exit.
#[test]
fn the_ring_is_drained_before_an_exit_is_handled_so_that_a_device_sees_program_order() {
    let io = io(&[(0xcf8, 4)]);
    let (user, latch) = (UserSpace::new(), Arc::new(Mutex::new(Latch::default())));
    user.attach(IoBus::Pio, 0xcf8, 8, Box::new(Arc::clone(&latch)));
    let mut vcpu = Vcpu::new(&io, Arc::default());
    for value in [0x8000_0000, 0x8000_0800] {
        perform(&mut vcpu, &io, &user, out(0xcf8, PortWidth::Dword, value));
    }
    assert!(latch.lock().written.is_empty(), "both wait in the ring");
    assert_eq!(perform(&mut vcpu, &io, &user, input(0xcfc, PortWidth::Dword)), 0x8000_0800);
    assert_eq!(latch.lock().written, [(0xcf8, 0x8000_0000), (0xcf8, 0x8000_0800)]);
}

/// Case drain-before-exit, the RTC's: 0x70 coalesced, 0x71 read.
#[test]
fn an_index_that_waits_in_the_ring_is_the_one_that_the_data_port_uses() {
    let io = io(&[(u64::from(RTC_INDEX_PORT), 1)]);
    let (user, rtc) = (UserSpace::new(), Arc::new(Mutex::new(Rtc::new(0))));
    user.attach(IoBus::Pio, u64::from(RTC_INDEX_PORT), 2, Box::new(Arc::clone(&rtc)));
    let mut vcpu = Vcpu::new(&io, Arc::default());
    for index in [0x0d, 0x8a] {
        perform(&mut vcpu, &io, &user, out(0x70, PortWidth::Byte, index));
    }
    assert_eq!(perform(&mut vcpu, &io, &user, input(0x71, PortWidth::Byte)), 0x26, "register A, the later index");
    assert!(rtc.lock().nmi_masked());
}

/// Case drain-nested.
#[test]
fn a_handler_that_asks_for_a_drain_gets_none_and_changes_no_order() {
    let io = Arc::new(io(&[(0x100, 1)]));
    let (user, latch) = (Arc::new(UserSpace::new()), Arc::new(Mutex::new(Latch::default())));
    latch.lock().nested = Some((Arc::downgrade(&user), Arc::clone(&io)));
    user.attach(IoBus::Pio, 0x100, 2, Box::new(Arc::clone(&latch)));
    let mut vcpu = Vcpu::new(&io, Arc::default());
    for value in 1..=3 {
        perform(&mut vcpu, &io, &user, out(0x100, PortWidth::Byte, value));
    }
    // 0x101 is in no zone: it exits, and its own handler asks for a drain too.
    perform(&mut vcpu, &io, &user, out(0x101, PortWidth::Byte, 4));
    let latch = latch.lock();
    assert_eq!(latch.written, [(0x100, 1), (0x100, 2), (0x100, 3), (0x101, 4)]);
    assert_eq!(latch.nested_drains, [0; 4]);
}

/// Case drain-nested: no ring.
#[test]
fn a_drain_without_a_ring_does_nothing() {
    let (user, mut data) = (UserSpace::new(), [0]);
    assert_eq!(user.drain(None).unwrap(), 0);
    let io = io(&[]);
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let End::Exit(exit) = vcpu.run(&mut Pending::new(input(0x71, PortWidth::Byte))).end else { panic!("exit") };
    assert_eq!((user.handle(None, &exit, &mut data).unwrap(), data), (0, [0xff]));
}

/// Case ring-two-vcpus.
#[test]
fn two_vcpus_share_the_ring_and_each_ones_own_order_is_kept() {
    const WRITES: u32 = 20_000;
    let io = io(&[(0x100, 2)]);
    let (user, latch) = (UserSpace::new(), Arc::new(Mutex::new(Latch::default())));
    user.attach(IoBus::Pio, 0x100, 2, Box::new(Arc::clone(&latch)));
    std::thread::scope(|scope| {
        for port in [0x100, 0x101] {
            let (io, user) = (&io, &user);
            scope.spawn(move || {
                let mut vcpu = Vcpu::new(io, Arc::default());
                for value in 0..WRITES {
                    perform(&mut vcpu, io, user, out(port, PortWidth::Byte, value % 251));
                }
            });
        }
    });
    user.drain(Some(io.ring())).unwrap();
    for port in [0x100, 0x101] {
        let written: Vec<_> =
            latch.lock().written.iter().filter(|(addr, _)| *addr == port).map(|(_, value)| *value).collect();
        assert!(written.iter().copied().eq((0..WRITES).map(|value| value % 251)), "port {port:#x}");
    }
}

/// Case ring-two-vcpus: nothing but an exit takes an entry out.
#[test]
fn the_single_entry_of_an_idle_vm_stays_until_the_next_exit() {
    let io = io(&[(0x100, 1)]);
    let (user, latch) = (UserSpace::new(), Arc::new(Mutex::new(Latch::default())));
    user.attach(IoBus::Pio, 0x100, 1, Box::new(Arc::clone(&latch)));
    let (mut one, mut two) = (Vcpu::new(&io, Arc::default()), Vcpu::new(&io, Arc::default()));
    perform(&mut one, &io, &user, out(0x100, PortWidth::Byte, 7));
    assert!(latch.lock().written.is_empty());
    perform(&mut two, &io, &user, input(0x300, PortWidth::Byte));
    assert_eq!(latch.lock().written, [(0x100, 7)], "the other vCPU's exit drains it");
}

/// Case absent-all-ones.
#[test]
fn an_absent_port_or_address_reads_all_ones_at_every_width_right_after_another_value_too() {
    let io = io(&[]);
    let (user, latch) = (UserSpace::new(), Arc::new(Mutex::new(Latch::default())));
    user.attach(IoBus::Pio, 0x100, 4, Box::new(Arc::clone(&latch)));
    let mut vcpu = Vcpu::new(&io, Arc::default());
    perform(&mut vcpu, &io, &user, out(0x100, PortWidth::Dword, 0x1234_5678));
    for (width, ones) in [(PortWidth::Byte, 0xff), (PortWidth::Word, 0xffff), (PortWidth::Dword, 0xffff_ffff)] {
        assert_eq!(perform(&mut vcpu, &io, &user, input(0x100, width)), 0x1234_5678 & ones);
        assert_eq!(perform(&mut vcpu, &io, &user, input(0x200, width)), ones);
    }
    for width in [Width::Byte, Width::Word, Width::Dword, Width::Qword] {
        let gpa = GuestPhysAddr(0xfee0_0000);
        let ones = u64::MAX >> (64 - 8 * width.bytes());
        assert_eq!(perform(&mut vcpu, &io, &user, Instruction::Load { gpa, width }), ones);
    }
    // Half on a device, half on nothing: each byte is answered by who is there.
    assert_eq!(perform(&mut vcpu, &io, &user, input(0x103, PortWidth::Word)), 0xff78);
    let mut string = Pending::new(Instruction::Ins {
        port: Port(0x200),
        width: PortWidth::Word,
        count: 3,
        page_offset: 0,
        step: Default::default(),
    });
    let End::Exit(exit) = vcpu.run(&mut string).end else { panic!("exit") };
    user.handle(None, &exit, vcpu.exit_data()).unwrap();
    vcpu.run(&mut string);
    assert_eq!(string.string(), [0xff; 6]);
}

#[test]
fn a_corrupt_ring_is_an_error_and_no_access_is_performed() {
    let io = io(&[]);
    let (user, latch) = (UserSpace::new(), Arc::new(Mutex::new(Latch::default())));
    user.attach(IoBus::Pio, 0x100, 1, Box::new(Arc::clone(&latch)));
    io.ring().write_first(170);
    let mut vcpu = Vcpu::new(&io, Arc::default());
    let mut pending = Pending::new(out(0x100, PortWidth::Byte, 1));
    let End::Exit(exit) = vcpu.run(&mut pending).end else { panic!("exit") };
    let error = user.handle(Some(io.ring()), &exit, vcpu.exit_data()).unwrap_err();
    assert!(error.to_string().contains("first"), "{error}");
    assert!(latch.lock().written.is_empty());
}
