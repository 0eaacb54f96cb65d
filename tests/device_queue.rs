//! The split virtqueue: what both sides do with each other's writes, honest and not.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hvmmio::addr::GuestPhysAddr;
use hvmmio::device::{
    DeviceQueue, DriverQueue, GuestRam, Notifications, QueueError, QueueLayout, Segment, Sides, Used,
};
use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress};

const BASE: u64 = 0x1000;
const RAM: u64 = 0x1_0000;

fn ram() -> Arc<GuestRam> {
    Arc::new(GuestRam::new(GuestPhysAddr(0), RAM, Sides::Threads).unwrap())
}

fn layout(size: u16) -> QueueLayout {
    QueueLayout::new(GuestPhysAddr(BASE), size).unwrap()
}

fn both(size: u16) -> (Arc<GuestRam>, DriverQueue, DeviceQueue) {
    let ram = ram();
    let driver = DriverQueue::new(Arc::clone(&ram), layout(size)).unwrap();
    let device = DeviceQueue::new(Arc::clone(&ram), layout(size)).unwrap();
    (ram, driver, device)
}

fn readable(addr: u64, len: u32) -> Segment {
    Segment { addr: GuestPhysAddr(addr), len, writable: false }
}

fn writable(addr: u64, len: u32) -> Segment {
    Segment { writable: true, ..readable(addr, len) }
}

fn set<T: vm_memory::AtomicAccess>(ram: &GuestRam, addr: u64, value: T) {
    ram.store(value, GuestAddress(addr), Ordering::SeqCst).unwrap();
}

#[test]
fn a_layout_follows_the_alignments_and_sizes_of_the_specification() {
    let queue = layout(256);
    assert_eq!(queue.desc_table().0, BASE);
    assert_eq!(queue.avail_ring().0, BASE + 16 * 256);
    assert_eq!(queue.used_ring().0 % 4, 0);
    assert_eq!(queue.used_ring().0, (queue.avail_ring().0 + 6 + 2 * 256).next_multiple_of(4));
    assert_eq!(BASE + queue.bytes(), queue.used_ring().0 + 6 + 8 * 256);
    for (base, size) in [(BASE, 0), (BASE, 3), (BASE + 8, 4), (u64::MAX - 15, 4), (BASE, u16::MAX)] {
        let refused = QueueLayout::new(GuestPhysAddr(base), size);
        assert_eq!(refused, Err(QueueError::Layout { base, size }));
    }
    let outside = QueueLayout::new(GuestPhysAddr(RAM - 16), 4).unwrap();
    assert!(matches!(DriverQueue::new(ram(), outside), Err(QueueError::Memory { .. })));
    assert!(matches!(DeviceQueue::new(ram(), outside), Err(QueueError::Memory { .. })));
}

#[test]
fn chains_come_back_with_their_tokens_in_whatever_order_the_device_returns_them() {
    let (ram, mut driver, mut device) = both(8);
    ram.write_slice(&[7; 12], GuestAddress(0x8000)).unwrap();
    let mut heads = Vec::new();
    for token in 0..2 {
        heads.push(driver.add(&[readable(0x8000, 12), writable(0x9000, 64), writable(0x9100, 1)], token).unwrap());
    }
    assert_eq!((driver.free(), driver.outstanding()), (2, 2));
    let full = driver.add(&[readable(0x8000, 1); 3], 2);
    assert_eq!(full, Err(QueueError::Full { needed: 3, free: 2 }));

    let received = device.pop().unwrap().unwrap();
    assert_eq!((received.head, received.readable, received.writable), (heads[0], 12, 65));
    assert_eq!(received.header[..13], [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
    assert_eq!(received.first_writable, Some((GuestPhysAddr(0x9000), 64)));
    assert_eq!(received.last_writable, Some(GuestPhysAddr(0x9100)));
    assert!(received.well_formed);
    assert_eq!(device.pop().unwrap().unwrap().head, heads[1]);
    assert_eq!(device.pop(), Ok(None));

    assert_eq!(driver.pop_used(), Ok(None));
    device.complete(heads[1], 65).unwrap();
    device.complete(heads[0], 3).unwrap();
    assert_eq!(driver.pop_used(), Ok(Some(Used { token: 1, head: heads[1], len: 65 })));
    assert_eq!(driver.pop_used(), Ok(Some(Used { token: 0, head: heads[0], len: 3 })));
    assert_eq!(driver.pop_used(), Ok(None));
    assert_eq!((driver.free(), driver.outstanding()), (8, 0));
}

#[test]
fn the_rings_go_round_many_times_the_16_bit_index() {
    let (_, mut driver, mut device) = both(4);
    for token in 0..140_000 {
        let head = driver.add(&[readable(0x8000, 4), writable(0x9000, 4)], token).unwrap();
        assert_eq!(device.pop().unwrap().unwrap().head, head);
        device.complete(head, 4).unwrap();
        assert_eq!(driver.pop_used().unwrap().unwrap().token, token);
    }
}

#[test]
fn a_device_that_polls_is_not_kicked_and_learns_of_what_it_missed() {
    let (_, mut driver, mut device) = both(8);
    assert_eq!(driver.needs_kick(), Ok(false), "nothing was added");
    driver.add(&[readable(0x8000, 4)], 0).unwrap();
    assert_eq!((driver.needs_kick(), driver.needs_kick()), (Ok(true), Ok(false)));
    assert_eq!(device.set_notifications(Notifications::Disabled), Ok(true));
    device.pop().unwrap().unwrap();
    driver.add(&[readable(0x8000, 4)], 1).unwrap();
    assert_eq!(driver.needs_kick(), Ok(false));
    assert_eq!(device.set_notifications(Notifications::Enabled), Ok(true));
    device.pop().unwrap().unwrap();
    assert_eq!(device.set_notifications(Notifications::Enabled), Ok(false));
    driver.add(&[readable(0x8000, 4)], 2).unwrap();
    assert_eq!(driver.needs_kick(), Ok(true));
}

#[test]
fn a_driver_that_polls_is_not_interrupted() {
    let (_, mut driver, mut device) = both(8);
    let heads = [0, 1].map(|token| driver.add(&[readable(0x8000, 4)], token).unwrap());
    assert_eq!(device.complete(heads[0], 0), Ok(true));
    assert_eq!(driver.set_interrupts(Notifications::Disabled), Ok(true));
    assert_eq!(device.complete(heads[1], 0), Ok(false));
    driver.pop_used().unwrap();
    driver.pop_used().unwrap();
    assert_eq!(driver.set_interrupts(Notifications::Enabled), Ok(false));
}

#[test]
fn a_driver_does_not_make_a_wrong_chain_available() {
    let (_, mut driver, mut device) = both(8);
    for chain in [&[][..], &[writable(0x9000, 1), readable(0x8000, 1)], &[writable(0x9000, 1), writable(0, u32::MAX)]] {
        assert_eq!(driver.add(chain, 0), Err(QueueError::Chain));
    }
    assert_eq!((driver.free(), device.pop()), (8, Ok(None)));
}

#[test]
fn a_driver_believes_no_used_entry_it_cannot_account_for() {
    let (ram, mut driver, mut device) = both(8);
    let used = layout(8).used_ring().0;
    let head = driver.add(&[readable(0x8000, 4), writable(0x9000, 16)], 5).unwrap();

    set(&ram, used + 2, 2u16);
    assert_eq!(driver.pop_used(), Err(QueueError::UsedIndex { used: 2, next: 0, outstanding: 1 }));
    for id in [u32::from(head) + 1, 8, 0x1_0000, u32::MAX] {
        let (mut ram_driver, _) = (DriverQueue::new(Arc::clone(&ram), layout(8)).unwrap(), ());
        ram_driver.add(&[readable(0x8000, 4), writable(0x9000, 16)], 5).unwrap();
        set(&ram, used + 4, id);
        set(&ram, used + 2, 1u16);
        assert_eq!(ram_driver.pop_used(), Err(QueueError::UsedId { id }));
    }

    let mut driver = DriverQueue::new(Arc::clone(&ram), layout(8)).unwrap();
    let head = driver.add(&[readable(0x8000, 4), writable(0x9000, 16)], 5).unwrap();
    device.complete(head, 17).unwrap();
    let refused = QueueError::UsedLength { id: u32::from(head), len: 17, writable: 16 };
    assert_eq!(driver.pop_used(), Err(refused));
    assert_eq!((driver.free(), driver.pop_used()), (8, Ok(None)));
}

#[test]
fn a_device_believes_no_available_index_or_head_that_cannot_be() {
    let (ram, mut driver, mut device) = both(8);
    let avail = layout(8).avail_ring().0;
    set(&ram, avail + 2, 9u16);
    assert_eq!(device.pop(), Err(QueueError::AvailIndex { avail: 9, next: 0, size: 8 }));
    set(&ram, avail + 4, 8u16);
    set(&ram, avail + 2, 1u16);
    assert_eq!(device.pop(), Err(QueueError::Head { head: 8, size: 8 }));
    assert_eq!(device.pop(), Ok(None));
    assert_eq!(device.complete(8, 0), Err(QueueError::Head { head: 8, size: 8 }));
    drop(driver.add(&[readable(0x8000, 1)], 0));
}

#[test]
fn a_chain_that_is_wrong_inside_is_received_as_such() {
    let descriptor = |ram: &GuestRam, index: u64, addr: u64, len: u32, flags: u16, next: u16| {
        set(ram, BASE + 16 * index, addr);
        set(ram, BASE + 16 * index + 8, u64::from(len) | u64::from(flags) << 32 | u64::from(next) << 48);
    };
    type Table = &'static [(u64, u32, u16, u16)];
    let tables: [(&str, Table); 6] = [
        ("a link outside the table", &[(0x8000, 16, 1, 8)]),
        ("a loop", &[(0x8000, 16, 1, 1), (0x8000, 16, 1, 0)]),
        ("readable after writable", &[(0x9000, 16, 3, 1), (0x8000, 16, 0, 0)]),
        ("a header outside memory", &[(0xffff_ffff_ffff_fff8, 16, 0, 0)]),
        ("more than 2^32 bytes", &[(0x8000, u32::MAX, 1, 1), (0x8000, 16, 0, 0)]),
        ("an indirect table outside memory", &[(0xffff_0000, 32, 4, 0)]),
    ];
    for (what, table) in tables {
        let (ram, _driver, mut device) = both(8);
        for (index, (addr, len, flags, next)) in (0..).zip(table) {
            descriptor(&ram, index, *addr, *len, *flags, *next);
        }
        set(&ram, layout(8).avail_ring().0 + 2, 1u16);
        let received = device.pop().unwrap().unwrap();
        assert!(!received.well_formed, "{what}: {received:?}");
        device.complete(received.head, 0).unwrap();
    }
}

proptest! {
    #[test]
    fn scribbling_over_the_rings_panics_neither_side(
        scribbles in prop::collection::vec((0..400u64, any::<u8>(), 0..6u8), 1..200),
    ) {
        let (ram, mut driver, mut device) = both(8);
        for (offset, byte, step) in scribbles {
            ram.write_obj(byte, GuestAddress(BASE + offset % layout(8).bytes())).unwrap();
            match step {
                0 => drop(driver.add(&[readable(0x8000, 16), writable(0x9000, 16)], 1)),
                1 => if let Ok(Some(received)) = device.pop() {
                    prop_assert!(received.head < 8);
                    device.complete(received.head, 1).unwrap();
                },
                2 => if let Ok(Some(used)) = driver.pop_used() {
                    prop_assert!(used.token == 1 && used.len <= 16);
                },
                3 => drop(driver.needs_kick()),
                4 => drop(device.set_notifications(Notifications::Enabled)),
                _ => drop(driver.set_interrupts(Notifications::Disabled)),
            }
            prop_assert!(driver.free() + 2 * driver.outstanding() == 8);
        }
    }
}
