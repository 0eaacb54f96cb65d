//! The device's side of a queue takes the chains that rust-vmm's `virtio-queue` takes, whatever the driver wrote.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hvmmio::addr::GuestPhysAddr;
use hvmmio::device::{DeviceQueue, GuestRam, Notifications, QueueLayout};
use proptest::prelude::*;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress};

const BASE: u64 = 0x1000;
const SIZE: u16 = 8;

/// Head, readable bytes, writable bytes, and whether the last descriptor has a link: the walk ended early.
type Chain = (u16, u64, u64, bool);

fn oracle(size: u16) -> Queue {
    let layout = QueueLayout::new(GuestPhysAddr(BASE), size).unwrap();
    let mut queue = Queue::new(size).unwrap();
    queue.try_set_desc_table_address(GuestAddress(BASE)).unwrap();
    queue.try_set_avail_ring_address(GuestAddress(layout.avail_ring().0)).unwrap();
    queue.try_set_used_ring_address(GuestAddress(layout.used_ring().0)).unwrap();
    queue.set_ready(true);
    queue
}

fn oracle_pop(queue: &mut Queue, ram: &GuestRam) -> Option<Chain> {
    let chain = queue.iter(ram).ok()?.next()?;
    let (mut readable, mut writable, mut link, head) = (0, 0, true, chain.head_index());
    for descriptor in chain {
        link = descriptor.has_next();
        let sum = if descriptor.is_write_only() { &mut writable } else { &mut readable };
        *sum += u64::from(descriptor.len());
    }
    Some((head, readable, writable, link))
}

fn set<T: vm_memory::AtomicAccess>(ram: &GuestRam, addr: u64, value: T) {
    ram.store(value, GuestAddress(addr), Ordering::SeqCst).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn chains_are_walked_as_virtio_queue_walks_them(
        // Address, length, flags NEXT and WRITE, link: one past the table too.
        table in prop::collection::vec((0x4000..0x8000_u64, prop_oneof![0..5000_u32, Just(u32::MAX)], 0..4_u16, 0..=SIZE), 8),
        heads in prop::collection::vec(0..SIZE, 1..8),
    ) {
        let ram = Arc::new(GuestRam::new(GuestPhysAddr(0), 0x1_0000).unwrap());
        let layout = QueueLayout::new(GuestPhysAddr(BASE), SIZE).unwrap();
        for (at, (addr, len, flags, next)) in (BASE..).step_by(16).zip(&table) {
            set(&ram, at, *addr);
            set(&ram, at + 8, u64::from(*len) | u64::from(*flags) << 32 | u64::from(*next) << 48);
        }
        for (at, head) in (layout.avail_ring().0 + 4..).step_by(2).zip(&heads) {
            set(&ram, at, *head);
        }
        set(&ram, layout.avail_ring().0 + 2, u16::try_from(heads.len()).unwrap());

        let (mut theirs, mut ours) = (oracle(SIZE), DeviceQueue::new(Arc::clone(&ram), layout).unwrap());
        for _ in 0..=heads.len() {
            let received = ours.pop().unwrap();
            let chain = received.map(|r| (r.head, u64::from(r.readable), u64::from(r.writable)));
            let expected = oracle_pop(&mut theirs, &ram);
            prop_assert_eq!(chain, expected.map(|(head, readable, writable, _)| (head, readable, writable)));
            if let (Some(received), Some((.., true))) = (received, expected) {
                prop_assert!(!received.well_formed);
            }
        }
    }

    #[test]
    fn used_entries_and_flags_lie_where_virtio_queue_puts_them(
        used in prop::collection::vec((0..SIZE, any::<u32>()), 0..40),
        off in any::<bool>(),
    ) {
        let rams = [0, 1].map(|_| Arc::new(GuestRam::new(GuestPhysAddr(0), 0x1_0000).unwrap()));
        let layout = QueueLayout::new(GuestPhysAddr(BASE), SIZE).unwrap();
        let (mut theirs, mut ours) = (oracle(SIZE), DeviceQueue::new(Arc::clone(&rams[1]), layout).unwrap());
        for (head, len) in used {
            theirs.add_used(&*rams[0], head, len).unwrap();
            ours.complete(head, len).unwrap();
        }
        if off {
            theirs.disable_notification(&*rams[0]).unwrap();
            ours.set_notifications(Notifications::Disabled).unwrap();
        } else {
            let waits = theirs.enable_notification(&*rams[0]).unwrap();
            prop_assert_eq!(ours.set_notifications(Notifications::Enabled).unwrap(), waits);
        }
        let [theirs, ours] = rams.map(|ram| {
            let mut bytes = vec![0; 0x1000];
            ram.read_slice(&mut bytes, GuestAddress(BASE)).unwrap();
            bytes
        });
        prop_assert_eq!(theirs, ours);
    }
}
