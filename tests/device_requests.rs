//! Block and network requests through real queues, and what the devices make of wrong ones.

use std::sync::Arc;

use hvmmio::addr::GuestPhysAddr;
use hvmmio::device::{
    BlkDone, BlkDriver, BlkError, BlkKind, BlkLayout, BlkStatus, DriverQueue, GuestRam, NetDone, NetDriver, NetEcho,
    NetError, NetLayout, NetQueue, NetReceived, Notifications, NullBlock, QueueError, QueueLayout, Reply, Segment,
    Sides,
};
use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress};

const BASE: GuestPhysAddr = GuestPhysAddr(0x1_0000);
const SECTORS: u64 = 1 << 20;

fn ram() -> Arc<GuestRam> {
    Arc::new(GuestRam::new(GuestPhysAddr(0), 4 << 20, Sides::Threads).unwrap())
}

fn block(size: u16) -> (Arc<GuestRam>, BlkDriver, NullBlock) {
    let (ram, layout) = (ram(), BlkLayout::new(BASE, size, 4096).unwrap());
    let driver = BlkDriver::new(Arc::clone(&ram), layout).unwrap();
    let device = NullBlock::new(Arc::clone(&ram), layout.queue(), SECTORS).unwrap();
    (ram, driver, device)
}

#[test]
fn every_kind_of_block_request_comes_back_done() {
    let (_, mut driver, mut device) = block(64);
    for (token, (kind, len, written)) in
        (0..).zip([(BlkKind::Read, 4096, 4097), (BlkKind::Write, 512, 1), (BlkKind::Flush, 0, 1)])
    {
        let head = driver.submit(kind, 8, len, token).unwrap();
        assert_eq!(driver.needs_kick(), Ok(true));
        let work = device.pop().unwrap().unwrap();
        assert_eq!((work.head, work.kind, work.bytes, work.sector), (head, Some(kind), len, 8));
        assert_eq!(driver.reap(), Ok(None));
        assert_eq!(device.complete(work), Ok(true));
        assert_eq!(driver.reap(), Ok(Some(BlkDone { token, status: BlkStatus::Ok, len: written })));
    }
    assert_eq!((device.pop(), driver.reap()), (Ok(None), Ok(None)));
}

#[test]
fn a_block_driver_refuses_lengths_that_no_request_has_and_a_full_queue() {
    let (_, mut driver, _) = block(4);
    for (kind, len) in [(BlkKind::Read, 0), (BlkKind::Read, 511), (BlkKind::Write, 4608), (BlkKind::Flush, 512)] {
        assert_eq!(driver.submit(kind, 0, len, 0), Err(BlkError::Length { kind, len, max: 4096 }));
    }
    driver.submit(BlkKind::Read, 0, 512, 0).unwrap();
    let full = driver.submit(BlkKind::Read, 0, 512, 1);
    assert_eq!(full, Err(QueueError::Full { needed: 3, free: 1 }.into()));
    assert_eq!(driver.queue().outstanding(), 1);
}

#[test]
fn a_request_past_the_end_of_the_device_fails() {
    let (_, mut driver, mut device) = block(64);
    for (sector, status) in
        [(SECTORS - 8, BlkStatus::Ok), (SECTORS - 7, BlkStatus::IoError), (u64::MAX, BlkStatus::IoError)]
    {
        driver.submit(BlkKind::Write, sector, 4096, 0).unwrap();
        let work = device.pop().unwrap().unwrap();
        device.complete(work).unwrap();
        assert_eq!(driver.reap().unwrap().unwrap().status, status, "{sector:#x}");
    }
}

/// Sends a hand-made chain to a null block device; returns the used length and the status byte at 0x9000.
fn raw_request(kind: u32, chain: &[Segment]) -> (u32, u8) {
    let (ram, layout) = (ram(), QueueLayout::new(BASE, 16).unwrap());
    let mut driver = DriverQueue::new(Arc::clone(&ram), layout).unwrap();
    let mut device = NullBlock::new(Arc::clone(&ram), layout, SECTORS).unwrap();
    ram.write_obj(u64::from(kind), GuestAddress(0x8000)).unwrap();
    ram.write_obj(0xffu8, GuestAddress(0x9000)).unwrap();
    driver.add(chain, 0).unwrap();
    let work = device.pop().unwrap().unwrap();
    device.complete(work).unwrap();
    (driver.pop_used().unwrap().unwrap().len, ram.read_obj(GuestAddress(0x9000)).unwrap())
}

#[test]
fn a_null_block_device_judges_a_request_by_its_bytes_not_by_its_framing() {
    let part = |addr, len, writable| Segment { addr: GuestPhysAddr(addr), len, writable };
    let (header, status) = (part(0x8000, 16, false), part(0x9000, 1, true));
    let (ok, io_error, unsupported, untouched) = (0, 1, 2, 0xff);
    for (what, kind, chain, expected) in [
        ("read", 0, &[header, part(0xa000, 512, true), status][..], (513, ok)),
        ("header in two parts", 0, &[part(0x8000, 4, false), part(0x8004, 12, false), status], (1, ok)),
        ("data and status in one part", 0, &[header, part(0x9000 - 512, 513, true)], (513, ok)),
        ("header and data in one part", 1, &[part(0x8000, 16 + 1024, false), status], (1, ok)),
        ("VIRTIO_BLK_T_GET_ID", 8, &[header, part(0xa000, 20, true), status], (1, unsupported)),
        ("unknown type", 99, &[header, status], (1, unsupported)),
        ("short header", 0, &[part(0x8000, 15, false), status], (1, io_error)),
        ("no header", 0, &[status], (1, io_error)),
        ("no status", 1, &[header, part(0xa000, 512, false)], (0, untouched)),
        ("status outside memory", 0, &[header, part(u64::MAX - 8, 4, true)], (0, untouched)),
        ("status past the last address", 0, &[header, part(u64::MAX, 4, true)], (0, untouched)),
        ("half a sector", 0, &[header, part(0xa000, 256, true), status], (1, io_error)),
        ("a write with data to write into", 1, &[header, part(0xa000, 512, true), status], (1, io_error)),
        ("a flush with data", 4, &[header, part(0xa000, 512, false), status], (1, io_error)),
    ] {
        assert_eq!(raw_request(kind, chain), expected, "{what}");
    }
}

fn network(size: u16, reply: u32) -> (NetDriver, NetEcho) {
    let (ram, layout) = (ram(), NetLayout::new(BASE, size, 1514).unwrap());
    let driver = NetDriver::new(Arc::clone(&ram), layout).unwrap();
    (driver, NetEcho::new(ram, layout, reply).unwrap())
}

#[test]
fn a_frame_is_answered_by_one_of_the_configured_length() {
    let (mut driver, mut device) = network(64, 100);
    driver.post_rx(7).unwrap();
    assert_eq!(driver.needs_kick(NetQueue::Rx), Ok(true));
    driver.send(1, 9).unwrap();
    assert_eq!(driver.needs_kick(NetQueue::Tx), Ok(true));
    let work = device.pop().unwrap().unwrap();
    assert_eq!(work.bytes, 1);
    let done = NetDone { tx_interrupt: true, reply: Reply::Delivered { interrupt: true } };
    assert_eq!(device.complete(work), Ok(done));
    assert_eq!((driver.reap_tx(), driver.reap_tx()), (Ok(Some(9)), Ok(None)));
    assert_eq!(driver.receive(), Ok(Some(NetReceived { token: 7, bytes: 100 })));
    assert_eq!((driver.receive(), device.pop()), (Ok(None), Ok(None)));
}

#[test]
fn an_answer_without_a_buffer_is_lost_and_the_frame_is_sent_all_the_same() {
    let (mut driver, mut device) = network(4, 100);
    driver.set_interrupts(NetQueue::Tx, Notifications::Disabled).unwrap();
    driver.send(1514, 0).unwrap();
    let work = device.pop().unwrap().unwrap();
    assert_eq!(device.complete(work), Ok(NetDone { tx_interrupt: false, reply: Reply::NoBuffer }));
    assert_eq!((driver.reap_tx(), driver.receive()), (Ok(Some(0)), Ok(None)));
    let max = NetLayout::new(BASE, 4, 1514).unwrap().max_frame();
    assert_eq!(driver.send(0, 0), Err(NetError::Length { len: 0, max }));
    assert_eq!(driver.send(max + 1, 0), Err(NetError::Length { len: max + 1, max }));
    for token in 0..4 {
        driver.post_rx(token).unwrap();
    }
    assert_eq!(driver.post_rx(4), Err(QueueError::Full { needed: 1, free: 0 }.into()));
}

#[test]
fn a_receive_buffer_that_cannot_hold_the_answer_goes_back_empty() {
    let part = |len, writable| Segment { addr: GuestPhysAddr(0x8000), len, writable };
    for chain in [&[part(111, true)][..], &[part(112, false)], &[part(4, true), part(200, true)]] {
        let (ram, layout) = (ram(), NetLayout::new(BASE, 4, 1514).unwrap());
        let mut driver = NetDriver::new(Arc::clone(&ram), layout).unwrap();
        let mut device = NetEcho::new(Arc::clone(&ram), layout, 100).unwrap();
        let mut rx = DriverQueue::new(ram, layout.queue(NetQueue::Rx)).unwrap();
        rx.add(chain, 3).unwrap();
        driver.send(60, 0).unwrap();
        let work = device.pop().unwrap().unwrap();
        assert_eq!(device.complete(work).unwrap().reply, Reply::BadBuffer { interrupt: true });
        assert_eq!(rx.pop_used().unwrap().unwrap().len, 0);
    }
}

proptest! {
    #[test]
    fn scribbling_over_a_block_devices_memory_panics_nobody(
        scribbles in prop::collection::vec((any::<u16>(), any::<u8>(), 0..3u8), 1..200),
    ) {
        let (ram, mut driver, mut device) = block(8);
        for (offset, byte, step) in scribbles {
            // The queue, the request headers and a little of the data.
            ram.write_obj(byte, GuestAddress(BASE.0 + u64::from(offset) % 800)).unwrap();
            match step {
                0 => drop(driver.submit(BlkKind::Read, 0, 512, 1)),
                1 => if let Ok(Some(work)) = device.pop() {
                    device.complete(work).unwrap();
                },
                _ => drop(driver.reap()),
            }
        }
    }

    #[test]
    fn scribbling_over_a_network_devices_memory_panics_nobody(
        scribbles in prop::collection::vec((any::<u16>(), any::<u8>(), 0..5u8), 1..200),
    ) {
        let (ram, layout) = (ram(), NetLayout::new(BASE, 8, 64).unwrap());
        let mut driver = NetDriver::new(Arc::clone(&ram), layout).unwrap();
        let mut device = NetEcho::new(Arc::clone(&ram), layout, 4).unwrap();
        for (offset, byte, step) in scribbles {
            ram.write_obj(byte, GuestAddress(BASE.0 + u64::from(offset) % layout.bytes())).unwrap();
            match step {
                0 => drop(driver.send(60, 1)),
                1 => drop(driver.post_rx(2)),
                2 => if let Ok(Some(work)) = device.pop() {
                    drop(device.complete(work));
                },
                3 => drop(driver.reap_tx()),
                _ => drop(driver.receive()),
            }
        }
    }
}
