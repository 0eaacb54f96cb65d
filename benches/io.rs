//! Cases of the rooms `io` and `device`, each beside a reference loop:
//!
//! - io: a whole MMIO write that signals an ioeventfd, among 1, 64 and 1,024 of them; the same by address
//!   alone on the fast bus; one stored in the coalesced ring (with its share of the drain); one that no
//!   device takes.
//!
//! `cargo bench --bench io`

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use hvmmio::addr::KernelBehaviour;
use hvmmio::io::{CoalescedZone, HostPage, IoBus, IoSpace, Ioeventfd};

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

    let space = IoSpace::new(HostPage::Kib64, KernelBehaviour::default());
    space.register_zone(CoalescedZone { addr: 0x1000, size: 0x1000, pio: 0 }).unwrap();
    let mut vcpu = space.reader();
    group.bench_function("mmio_write coalesced, 2,000 of them", |bencher| {
        bencher.iter_batched(
            || space.ring().drain(|_| ()).unwrap(),
            |_| {
                for _ in 0..2000 {
                    black_box(vcpu.mmio_write(black_box(0x1008), black_box(&[1, 2, 3, 4])));
                }
            },
            BatchSize::PerIteration,
        );
    });
    group.bench_function("mmio_write coalesced and drained at once", |bencher| {
        bencher.iter(|| {
            black_box(vcpu.mmio_write(black_box(0x1008), black_box(&[1, 2, 3, 4])));
            space.ring().drain(|entry| {
                black_box(entry);
            })
        });
    });
    group.bench_function("mmio_write that no device takes", |bencher| {
        bencher.iter(|| vcpu.mmio_write(black_box(0x9000), black_box(&[1, 2, 3, 4])));
    });
    group.finish();
}

criterion_group!(benches, io);
criterion_main!(benches);
