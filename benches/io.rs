//! Cases of the rooms `io` and `device`, each beside a reference loop:
//!
//! - io: a whole MMIO write that signals an ioeventfd, among 1, 64 and 1,024 of them; the same by address
//!   alone on the fast bus; one that no device takes.
//! - coalesced: a stream of 10 M doorbells through bus, ring and drain on one core.
//! - device: one block request from submit to reap; one network frame with its answer.
//!
//! `cargo bench --bench io`

use std::hint::black_box;

use std::sync::Arc;

use criterion::{Criterion, Throughput};
use hvmmio::addr::{GuestPhysAddr, KernelBehaviour};
use hvmmio::device::{
    BlkDriver, BlkKind, BlkLayout, GuestRam, NetDriver, NetEcho, NetLayout, NetQueue, NullBlock, Sides,
};
use hvmmio::io::{BusWrite, CoalescedZone, HostPage, IoBus, IoReader, IoSpace, Ioeventfd};

mod common;

/// Doorbells of legacy virtio devices: 2 bytes each, 64 bytes apart.
fn with_eventfds(count: u64, len: u32) -> IoSpace {
    let io = IoSpace::new(HostPage::Kib64, KernelBehaviour::default());
    for device in 0..count {
        let fd = io.create_eventfd().id();
        io.assign(Ioeventfd { bus: IoBus::Mmio, addr: 64 * device, len, datamatch: None, fd }).unwrap();
    }
    io
}

fn io(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("io");
    common::reference(&mut group);
    for count in [1, 64, 1024] {
        let space = with_eventfds(count, 2);
        let mut vcpu = space.reader();
        group.bench_function(format!("mmio_write to one of {count} ioeventfds, in turn"), |bencher| {
            let mut device = 0;
            bencher.iter(|| {
                device = (device + 1) & (count - 1);
                vcpu.mmio_write(black_box(64 * device), black_box(&[0, 0]))
            });
        });
        group.bench_function(format!("mmio_write to one of {count} ioeventfds, at random"), |bencher| {
            let mut seed = 1u64;
            bencher.iter(|| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                vcpu.mmio_write(black_box(64 * ((seed >> 40) & (count - 1))), black_box(&[0, 0]))
            });
        });
        let space = with_eventfds(count, 0);
        let mut vcpu = space.reader();
        group.bench_function(format!("fast_mmio_write to one of {count} ioeventfds, in turn"), |bencher| {
            let mut device = 0;
            bencher.iter(|| {
                device = (device + 1) & (count - 1);
                vcpu.fast_mmio_write(black_box(64 * device))
            });
        });
    }

    group.bench_function("mmio_write that no device takes", |bencher| {
        let space = IoSpace::new(HostPage::Kib64, KernelBehaviour::default());
        space.register_zone(CoalescedZone { addr: 0x1000, size: 0x1000, pio: 0 }).unwrap();
        let mut vcpu = space.reader();
        bencher.iter(|| vcpu.mmio_write(black_box(0x9000), black_box(&[1, 2, 3, 4])));
    });
    group.finish();
}

/// Writes of one stream; criterion shows writes a second.
const STREAM: u64 = 10_000_000;

/// A zone over 64 doorbell pages, as a guest with 64 modern devices would have them.
const DOORBELLS: u64 = 64;

/// When a consumer empties the ring.
#[derive(Clone, Copy)]
enum Drained {
    /// When a write found it full and exits: as late as can be.
    WhenFull,
    /// After so many writes, as a VMM that polls or exits for other reasons would.
    Every(u32),
}

/// The whole stream through bus, ring and drain. Every write is seen by the consumer, who adds up what was written.
fn stream(space: &IoSpace, vcpu: &mut IoReader, drained: Drained) -> u64 {
    let (mut sum, mut since) = (0u64, 0);
    let mut drain = || space.ring().drain(|entry| sum += u64::from(entry.data()[0]) + entry.addr).unwrap();
    for i in 0..STREAM {
        let (gpa, data) = (0x1_0000 + 0x1000 * (i % DOORBELLS), [1, 0]);
        since += 1;
        if let Drained::Every(batch) = drained {
            if since == batch {
                drain();
                since = 0;
            }
        }
        while black_box(vcpu.mmio_write(black_box(gpa), black_box(&data))) != BusWrite::Coalesced {
            drain();
        }
    }
    drain();
    sum
}

fn coalesced(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("coalesced");
    common::reference(&mut group);
    group.throughput(Throughput::Elements(STREAM)).sample_size(10);
    for (page, name) in [(HostPage::Kib4, "4 KiB"), (HostPage::Kib64, "64 KiB")] {
        for (drained, when) in [(Drained::WhenFull, "when full"), (Drained::Every(32), "every 32 writes")] {
            let space = IoSpace::new(page, KernelBehaviour::default());
            space.register_zone(CoalescedZone { addr: 0x1_0000, size: 0x1000 * 64, pio: 0 }).unwrap();
            let mut vcpu = space.reader();
            group.bench_function(format!("10 M doorbells, {name} ring, drained {when}"), |bencher| {
                bencher.iter(|| stream(&space, &mut vcpu, drained));
            });
        }
    }
    group.finish();
}

fn device(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("device");
    common::reference(&mut group);
    let ram = Arc::new(GuestRam::new(GuestPhysAddr(0), 4 << 20, Sides::Threads).unwrap());

    let layout = BlkLayout::new(GuestPhysAddr(0x1000), 256, 4096).unwrap();
    let mut driver = BlkDriver::new(Arc::clone(&ram), layout).unwrap();
    let mut block = NullBlock::new(Arc::clone(&ram), layout.queue(), 1 << 30).unwrap();
    group.bench_function("block request: submit, kick?, pop, complete, reap", |bencher| {
        let mut sector = 0;
        bencher.iter(|| {
            sector = (sector + 8) & 0xffff;
            driver.submit(BlkKind::Read, black_box(sector), 4096, 1).unwrap();
            black_box(driver.needs_kick().unwrap());
            let work = block.pop().unwrap().unwrap();
            black_box(block.complete(work).unwrap());
            driver.reap().unwrap().unwrap()
        });
    });
    group.bench_function("32 block requests, each step for all of them", |bencher| {
        bencher.iter(|| {
            for token in 0..32 {
                driver.submit(BlkKind::Read, 8 * u64::from(token), 4096, token).unwrap();
            }
            black_box(driver.needs_kick().unwrap());
            while let Some(work) = block.pop().unwrap() {
                black_box(block.complete(work).unwrap());
            }
            while let Some(done) = driver.reap().unwrap() {
                black_box(done);
            }
        });
    });

    let layout = NetLayout::new(GuestPhysAddr(0x20_0000), 256, 1514).unwrap();
    let mut driver = NetDriver::new(Arc::clone(&ram), layout).unwrap();
    let mut echo = NetEcho::new(ram, layout, 1).unwrap();
    group.bench_function("network frame and its answer", |bencher| {
        bencher.iter(|| {
            driver.post_rx(1).unwrap();
            driver.send(1, 2).unwrap();
            black_box(driver.needs_kick(NetQueue::Tx).unwrap());
            let work = echo.pop().unwrap().unwrap();
            black_box(echo.complete(work).unwrap());
            black_box(driver.reap_tx().unwrap());
            driver.receive().unwrap().unwrap()
        });
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    io(&mut criterion);
    coalesced(&mut criterion);
    device(&mut criterion);
    criterion.final_summary();
}
