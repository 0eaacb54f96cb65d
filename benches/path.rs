//! The MMIO path, piece by piece. Cases:
//!
//! | case | what one iteration is |
//! |---|---|
//! | reference | 16 dependent loads from the L1 cache |
//! | lookup/hit | `mmio_cache_search`, four pages in turn in the kernel's four entries |
//! | early/hit | the early handler for a store, served from the cache |
//! | early/miss | the same, HPT search and lock, entry filled: five pages in turn |
//! | store4/hit, store4/miss | a whole store, EA to registers written, to an ioeventfd of length 4 |
//! | store0/hit, store0/miss | the same to one of length 0: nothing is decoded |
//!
//! `cargo bench --bench path` runs them all.

#![allow(missing_docs, reason = "criterion's macro makes a public function without any")]

mod common;

use std::hint::black_box;

use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main, measurement::WallTime};
use hvmmio::addr::{EffectiveAddr, GuestPhysAddr, index};
use hvmmio::book3s::insn::{Direction, Size};
use hvmmio::book3s::msr::{DSISR_ISSTORE, DSISR_NOHPTE};
use hvmmio::io::{IoBus, Ioeventfd};
use hvmmio::kvm_hv::{Fault, StageSet, Vcpu, VcpuConfig, Vm, VmConfig};
use hvmmio::workload::guest::{Guest, PageUse, Touch};

const EA: u64 = 0xd000_0000_0000_0000;
const GPA: u64 = 1 << 40;
const PAGE: u64 = 1 << 16;
/// Pages in turn that the kernel's four entries hold.
const HELD: u64 = 4;
/// Pages in turn that they do not.
const TOO_MANY: u64 = 5;

fn ea(page: u64) -> EffectiveAddr {
    EffectiveAddr(EA + page * PAGE)
}

/// A VM with five MMIO pages, an ioeventfd of length `len` at the start of each, and 8 GiB of RAM in a memslot.
fn world(len: u32) -> (Vm, Vcpu, Guest) {
    let vm = Vm::new(VmConfig::default()).expect("a table of 256 KiB");
    let guest = Guest::default();
    vm.set_memslot(0, GuestPhysAddr(0), 8 << 30, 16).expect("8 GiB of RAM have 131072 pages");
    let mut vcpu = Vcpu::new(&vm, VcpuConfig { classify: false, ..VcpuConfig::default() });
    vcpu.slb.slbmte(guest.slb_entry(0, ea(0))).expect("entry 0 exists");
    for page in 0..TOO_MANY {
        let addr = GPA + page * PAGE;
        guest.map(&vm, ea(page), GuestPhysAddr(addr), PageUse::DEVICE).expect("an empty table has room");
        let fd = vm.io().create_eventfd().id();
        vm.io().assign(Ioeventfd { bus: IoBus::Mmio, addr, len, datamatch: None, fd }).expect("a free address");
    }
    (vm, vcpu, guest)
}

fn fault(vcpu: &Vcpu, page: u64) -> Fault {
    let slb_v = vcpu.slb.lookup(ea(page)).expect("the segment is loaded");
    Fault { ea: ea(page), slb_v, dsisr: DSISR_NOHPTE | DSISR_ISSTORE, fetch: false }
}

/// 0 to `pages - 1`, again and again.
struct Turn {
    page: u64,
    pages: u64,
}

impl Turn {
    fn next(&mut self) -> u64 {
        self.page = if self.page + 1 == self.pages { 0 } else { self.page + 1 };
        self.page
    }
}

fn store(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, len: u32, pages: u64) {
    let (vm, mut vcpu, _) = world(len);
    let touch = Touch::new(Direction::Store, Size::Word).expect("stw exists");
    let mut turn = Turn { page: 0, pages };
    group.bench_function(name, |b| {
        b.iter(|| {
            let record = touch.perform(&vm, &mut vcpu, black_box(ea(turn.next())), 1);
            // By reference: a record is looked at where it is, and black_box would copy it first.
            black_box(&record);
        });
    });
}

fn early(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, pages: u64) {
    let (vm, mut vcpu, _) = world(4);
    let faults: Vec<Fault> = (0..pages).map(|page| fault(&vcpu, page)).collect();
    let mut turn = Turn { page: 0, pages };
    group.bench_function(name, |b| {
        b.iter(|| {
            let fault = &faults[index(turn.next())];
            let mut stages = StageSet::EMPTY;
            let step = vcpu.early_fault(&vm, black_box(fault), &mut stages);
            black_box((&step, &stages));
        });
    });
}

fn path(c: &mut Criterion) {
    let mut group = c.benchmark_group("path");
    common::reference(&mut group);

    let (vm, mut vcpu, _) = world(4);
    let touch = Touch::new(Direction::Store, Size::Word).expect("stw exists");
    for page in 0..HELD {
        touch.perform(&vm, &mut vcpu, ea(page), 0);
    }
    let mut cache = vcpu.cache().clone();
    let slb_v = fault(&vcpu, 0).slb_v;
    let generation = vm.generation();
    let mut turn = Turn { page: 0, pages: HELD };
    group.bench_function("lookup/hit", |b| {
        // As one word: black_box would copy an Option in two pieces and wait for both.
        b.iter(|| black_box(cache.search(black_box(ea(turn.next())), slb_v, generation).unwrap_or(usize::MAX)));
    });

    early(&mut group, "early/hit", HELD);
    early(&mut group, "early/miss", TOO_MANY);
    store(&mut group, "store4/hit", 4, HELD);
    store(&mut group, "store4/miss", 4, TOO_MANY);
    store(&mut group, "store0/hit", 0, HELD);
    store(&mut group, "store0/miss", 0, TOO_MANY);
    group.finish();
}

criterion_group!(benches, path);
criterion_main!(benches);
