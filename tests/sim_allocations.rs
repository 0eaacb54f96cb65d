//! The engine allocates nothing per request: twice the requests, the same number of allocations.

#![allow(unsafe_code)] // A counting allocator passes every call on.

mod sim_common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use hvmmio::device::NotifyLayout;
use hvmmio::sim::{Notify, Scenario, Workload};
use sim_common::{completed, doorbells, netperf, reads, run, with};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: both functions pass their arguments on to the system's allocator unchanged, so its guarantees hold.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more, and nobody asks for it.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's duties are those of the callee.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's duties are those of the callee.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread during a run, and requests of it.
fn allocations(scenario: &Scenario) -> (u64, u64) {
    let before = COUNT.get();
    let result = run(scenario);
    let count = COUNT.get() - before;
    (count, completed(&result))
}

fn same(what: &str, short: &Scenario, long: &Scenario) {
    // What the process keeps from its first run must not count.
    run(short);
    let (few, many) = (allocations(short), allocations(long));
    assert!(many.1 > few.1 + 500, "{what}: {many:?} {few:?}");
    assert_eq!(few.0, many.0, "{what}: allocations of {} and {} requests", few.1, many.1);
}

#[test]
fn fio_allocates_nothing_per_request() {
    for depth in [1, 32] {
        let [short, long] = [4000, 9000].map(|count| reads(&format!("iodepth={depth}\nnumber_ios={count}")));
        same("fio", &short, &long);
        let spread = |scenario: &Scenario| {
            with(scenario.clone(), NotifyLayout::Modern, Notify::Coalesced { poll_ns: 10_000 }, 2, 6)
        };
        same("fio, coalesced", &spread(&short), &spread(&long));
    }
}

#[test]
fn netperf_allocates_nothing_per_transaction() {
    for vcpus in [1, 3] {
        same("netperf", &netperf(vcpus, 1, 50), &netperf(vcpus, 1, 120));
    }
}

#[test]
fn doorbells_allocate_nothing_each() {
    for layout in NotifyLayout::ALL {
        for way in [Notify::Ioeventfd { length: 0 }, Notify::Exit, Notify::Coalesced { poll_ns: 50_000 }] {
            let [short, long] = [2000, 5000].map(|count| with(doorbells(layout, 5, count), layout, way, 2, 5));
            same("doorbells", &short, &long);
        }
    }
    let removing = |count| {
        let mut scenario = doorbells(NotifyLayout::Modern, 4, count);
        let Workload::Doorbells(stream) = &mut scenario.workload else { panic!("doorbells") };
        stream.remove_every = 10;
        scenario
    };
    same("doorbells with removals", &removing(2000), &removing(5000));
}
