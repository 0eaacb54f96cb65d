//! No access allocates once its pages are known: counted by the global allocator.
#![allow(unsafe_code, reason = "a global allocator is unsafe to implement")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{PAGE, World, mmio_ea, mmio_gpa};
use hvmmio::addr::{CoalescedRoom, EffectiveAddr, KernelBehaviour};
use hvmmio::io::{BusWrite, CoalescedZone, HostPage, IoBus, IoSpace, Ioeventfd};
use hvmmio::kvm_hv::{CacheDesign, Outcome, PolicyKind, VcpuConfig};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system allocator as it came; the counter is a thread-local Cell without a
// destructor, so that it can be used at any time and allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's duties are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's duties are those of `System`, which gave `ptr`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's duties are those of `System`, which gave `ptr`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(act: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    act();
    ALLOCATIONS.get() - before
}

/// A vCPU with `config` and `pages` MMIO pages: 64 bytes in, a length-4 ioeventfd; 128 bytes in, one of length 0.
fn world(config: VcpuConfig, pages: u64) -> World {
    let world = World::with(&[], config);
    let fd = world.vm.io().create_eventfd().id();
    for page in 0..pages {
        world.enter_mmio(page);
    }
    for page in 0..pages.min(20) {
        for (offset, len) in [(64, 4), (128, 0)] {
            let addr = mmio_gpa(page).0 + offset;
            world.vm.io().assign(Ioeventfd { bus: IoBus::Mmio, addr, len, datamatch: None, fd }).unwrap();
        }
    }
    world
}

/// Every way an access can go, on every page in turn.
fn round(world: &mut World, pages: u64) {
    for page in 0..pages {
        let at = |offset| EffectiveAddr(mmio_ea(page).0 + offset);
        world.store(at(64));
        world.store(at(128));
        world.store(at(256));
        let record = world.load(at(256));
        assert!(matches!(record.outcome, Outcome::Exit(_)));
        assert!(world.vcpu.complete_load(&[7; 8]));
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8; 64]))), 1);
}

#[test]
fn no_access_allocates_after_warm_up_for_any_policy_at_any_size() {
    for entries in [4_u64, 16, 64, 1024] {
        for policy in PolicyKind::ALL {
            for classify in [false, true] {
                let cache = CacheDesign::new(entries, policy).unwrap();
                // A quarter more pages than entries: hits and misses both, for most policies.
                let pages = entries + entries / 4;
                let mut world = world(VcpuConfig { cache, classify, ..VcpuConfig::default() }, pages);
                for _ in 0..3 {
                    round(&mut world, pages);
                }
                let counted = allocations(|| {
                    for _ in 0..8 {
                        round(&mut world, pages);
                    }
                });
                assert_eq!(counted, 0, "{cache}, classify {classify}");
            }
        }
    }
}

#[test]
fn no_access_allocates_when_every_generation_is_new() {
    for entries in [4_u64, 64] {
        let cache = CacheDesign::new(entries, PolicyKind::RoundRobin).unwrap();
        let mut world = world(VcpuConfig { cache, ..VcpuConfig::default() }, entries);
        let mut counted = 0;
        for turn in 0..200 {
            let at = world.enter_mmio(entries + 1);
            world.vm.h_remove(0, at, 0).unwrap();
            let during = allocations(|| round(&mut world, entries));
            counted += if turn < 3 { 0 } else { during };
        }
        assert_eq!(counted, 0, "{cache}");
    }
}

#[test]
fn no_ram_access_allocates_mapped_or_paged_out() {
    let mut world = World::new();
    world.add_ram(2);
    world.enter_ram(0, 31);
    let counted = allocations(|| {
        for _ in 0..10 {
            world.vm.page_out(hvmmio::addr::GuestPhysAddr(PAGE - 1)).unwrap();
            world.store(common::ram_ea(0));
            world.load(common::ram_ea(0));
        }
    });
    assert_eq!(counted, 0);
}

#[test]
fn a_million_coalesced_doorbells_through_bus_ring_and_drain_allocate_nothing() {
    for page in [HostPage::Kib4, HostPage::Kib64] {
        for room in [CoalescedRoom::Fixed, CoalescedRoom::Legacy] {
            let io = IoSpace::new(page, KernelBehaviour { coalesced_room: room, ..KernelBehaviour::default() });
            io.register_zone(CoalescedZone { addr: 0x1_0000, size: 0x4_0000, pio: 0 }).unwrap();
            let mut vcpu = io.reader();
            let (mut written, mut drained) = (0u64, 0);
            let mut stream = |writes: u64| {
                for i in 0..writes {
                    while vcpu.mmio_write(0x1_0000 + 0x1000 * (i % 64), &[0; 2]) != BusWrite::Coalesced {
                        drained += u64::from(io.ring().drain(|entry| assert_eq!(entry.data(), [0; 2])).unwrap());
                    }
                    written += 1;
                }
                drained += u64::from(io.ring().drain(|_| ()).unwrap());
            };
            stream(1);
            assert_eq!(allocations(|| stream(1_000_000)), 0, "{page:?} {room:?}");
            assert_eq!((written, drained), (1_000_001, 1_000_001));
        }
    }
}
