//! Whatever a guest executes: no panic, every element performed once and in order, be it by kernel, ring or user space.

use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use hvmmio::addr::{GuestPhysAddr, KernelBehaviour, Port};
use hvmmio::device::UserSpace;
use hvmmio::io::{CoalescedZone, DeviceModel, HostPage, IoBus, IoSpace};
use hvmmio::kvm_x86::{End, Instruction, Pending, PortWidth, StringStep, Vcpu, Width};

/// Keeps every byte written, and answers reads with a counter of bytes.
#[derive(Default)]
struct Tape {
    written: Vec<u8>,
    next: u8,
}

impl DeviceModel for Tape {
    fn read(&mut self, _addr: u64, data: &mut [u8]) {
        for byte in data {
            *byte = self.next;
            self.next = self.next.wrapping_add(1);
        }
    }

    fn write(&mut self, _addr: u64, data: &[u8]) {
        self.written.extend_from_slice(data);
    }
}

fn port_width() -> impl Strategy<Value = PortWidth> {
    prop_oneof![Just(PortWidth::Byte), Just(PortWidth::Word), Just(PortWidth::Dword)]
}

fn width() -> impl Strategy<Value = Width> {
    prop_oneof![Just(Width::Byte), Just(Width::Word), Just(Width::Dword), Just(Width::Qword)]
}

fn port() -> impl Strategy<Value = Port> {
    prop_oneof![any::<u16>(), 0x100..0x104_u16, 0xfffc..=0xffff_u16].prop_map(Port)
}

fn gpa() -> impl Strategy<Value = GuestPhysAddr> {
    prop_oneof![any::<u64>(), 0xfff0..0x1_0010_u64, u64::MAX - 8..=u64::MAX].prop_map(GuestPhysAddr)
}

fn instruction() -> impl Strategy<Value = Instruction> {
    let step = prop_oneof![Just(StringStep::Up), Just(StringStep::Down)];
    prop_oneof![
        (port(), port_width()).prop_map(|(port, width)| Instruction::In { port, width }),
        (port(), port_width(), any::<u32>()).prop_map(|(port, width, value)| Instruction::Out { port, width, value }),
        (port(), port_width(), 0..3000_u64, any::<u16>(), step).prop_map(|(port, width, count, page_offset, step)| {
            Instruction::Ins { port, width, count, page_offset, step }
        }),
        (port(), port_width(), prop::collection::vec(any::<u8>(), 0..3000))
            .prop_map(|(port, width, data)| Instruction::Outs { port, width, data }),
        (gpa(), width()).prop_map(|(gpa, width)| Instruction::Load { gpa, width }),
        (gpa(), width(), any::<u64>()).prop_map(|(gpa, width, value)| Instruction::Store { gpa, width, value }),
    ]
}

fn perform(vcpu: &mut Vcpu, io: &IoSpace, user: &UserSpace, insn: Instruction) -> Pending {
    let mut pending = Pending::new(insn);
    for _ in 0..10_000 {
        match vcpu.run(&mut pending).end {
            End::Exit(exit) => {
                assert_eq!(vcpu.exit_data().len(), exit.bytes());
                user.handle(Some(io.ring()), &exit, vcpu.exit_data()).unwrap();
            }
            End::Reentered => {}
            End::Done => return pending,
        }
    }
    panic!("it never ends");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_instruction_ends_and_moves_every_byte_once_and_in_order(list in prop::collection::vec(instruction(), 1..12)) {
        let io = IoSpace::new(HostPage::Kib4, KernelBehaviour::default());
        io.register_zone(CoalescedZone { addr: 0x100, size: 4, pio: 1 }).unwrap();
        io.register_zone(CoalescedZone { addr: 0xfff0, size: 0x20, pio: 0 }).unwrap();
        let (user, tape) = (UserSpace::new(), Arc::new(Mutex::new(Tape::default())));
        // One device behind everything that does not wrap around.
        user.attach(IoBus::Pio, 0, 0x1_0004, Box::new(Arc::clone(&tape)));
        user.attach(IoBus::Mmio, 0, u64::MAX, Box::new(Arc::clone(&tape)));
        let mut vcpu = Vcpu::new(&io, Arc::default());
        let mut written = Vec::new();
        for insn in list {
            let mut counter = tape.lock().next;
            let pending = perform(&mut vcpu, &io, &user, insn.clone());
            match insn {
                Instruction::Out { width, value, .. } => written.extend_from_slice(&value.to_le_bytes()[..width.bytes()]),
                Instruction::Outs { width, data, .. } => {
                    written.extend_from_slice(&data[..data.len() / width.bytes() * width.bytes()]);
                }
                Instruction::Ins { width, count, .. } => {
                    let read: Vec<_> = pending.string().to_vec();
                    prop_assert_eq!(read.len() as u64, count * width.bytes() as u64);
                    for byte in read {
                        prop_assert_eq!(byte, counter);
                        counter = counter.wrapping_add(1);
                    }
                }
                Instruction::Store { gpa, width, value } if gpa.0 < u64::MAX - 16 => {
                    written.extend_from_slice(&value.to_le_bytes()[..width.bytes()]);
                }
                Instruction::Store { .. } => {
                    // What wraps around goes byte by byte, to the device where it is: not followed here.
                    user.drain(Some(io.ring())).unwrap();
                    written.clone_from(&tape.lock().written);
                }
                Instruction::In { width, .. } => {
                    let bytes: Vec<_> = (0..width.bytes()).map(|_| { counter = counter.wrapping_add(1); counter.wrapping_sub(1) }).collect();
                    prop_assert_eq!(&pending.value().to_le_bytes()[..width.bytes()], &bytes[..]);
                }
                Instruction::Load { .. } => {}
            }
        }
        user.drain(Some(io.ring())).unwrap();
        prop_assert_eq!(&tape.lock().written, &written);
    }
}
