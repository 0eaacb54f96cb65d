//! vCPU threads on one VM while others remove, re-enter and page out under them.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{MMIO, PAGE, World, mmio_ea, ram_ea};
use hvmmio::addr::{Gfn, GuestPhysAddr, PteIndex, index};
use hvmmio::book3s::Hpte;
use hvmmio::book3s::hpte::{HPTE_R_C, HPTE_R_R, HPTE_V_HVLOCK, HPTE_V_VALID};
use hvmmio::book3s::insn::Direction;
use hvmmio::io::{IoBus, Ioeventfd};
use hvmmio::kvm_hv::rmap::chain;
use hvmmio::kvm_hv::{CacheUse, Interrupt, Outcome, Vcpu, VcpuConfig, Vm};
use hvmmio::workload::guest::{Guest, PageUse};

/// Pages 0 and 1 alternate between two physical pages, each with an ioeventfd; pages 2 and 3 get a fresh one each time.
const PAGES: usize = 4;
const WITH_EVENTFD: usize = 2;
/// RAM pages paged out under the vCPUs, and one more that is removed and entered again.
const RAM_PAGES: u64 = 4;

fn seconds() -> Duration {
    let text = std::env::var("HVMMIO_THREAD_SECONDS").ok();
    Duration::from_secs(text.and_then(|text| text.parse().ok()).unwrap_or(10))
}

/// Physical page of version `version` of page `page`.
fn gpa(page: usize, version: u64) -> u64 {
    let version = if page < WITH_EVENTFD { version % 2 } else { version };
    MMIO + ((page as u64) << 40) + version * PAGE
}

/// What the churning thread publishes of each page. Version k is entered, then its removal begins.
#[derive(Default)]
struct Published {
    entered: AtomicU64,
    removal_begun: AtomicU64,
}

struct Shared {
    vm: Vm,
    guest: Guest,
    pages: [Published; PAGES],
    /// Stores to the RAM page that is removed and entered again, served by hardware so far.
    ram_stores: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    fn running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
struct Tally {
    stores: u64,
    signalled: u64,
    exits: u64,
    reflected: u64,
    ram: u64,
    hits: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.stores += other.stores;
        self.signalled += other.signalled;
        self.exits += other.exits;
        self.reflected += other.reflected;
        self.ram += other.ram;
        self.hits += other.hits;
    }
}

/// One store to an MMIO page that another thread removes and enters all the time.
fn mmio_store(shared: &Shared, vcpu: &mut Vcpu, page: usize, tally: &mut Tally) {
    let published = &shared.pages[page];
    let entered_before = published.entered.load(Ordering::Acquire);
    let generation_before = shared.vm.generation();
    let record = common::touch(Direction::Store).perform(&shared.vm, vcpu, mmio_ea(page as u64), tally.stores);
    tally.stores += 1;
    assert!(!record.ram_as_mmio);
    match record.outcome {
        Outcome::Kernel { .. } => tally.signalled += 1,
        Outcome::Exit(exit) => {
            tally.exits += 1;
            let version = (exit.gpa.0 - gpa(page, 0)) / PAGE;
            assert!(
                version >= entered_before,
                "served version {version}, {entered_before} was entered before it began"
            );
            assert!(version <= published.removal_begun.load(Ordering::Acquire) + 1, "a version not yet entered");
        }
        Outcome::Reflected(Interrupt::DataStorage { .. }) => {
            tally.reflected += 1;
            let begun = published.removal_begun.load(Ordering::Acquire);
            assert!(begun >= entered_before, "reflected although version {entered_before} was never removed");
        }
        other => panic!("{other:?}"),
    }
    if record.cache == CacheUse::Hit {
        tally.hits += 1;
        let ea = mmio_ea(page as u64);
        let newest = vcpu.cache().entries().iter().filter(|entry| entry.ea == ea).map(|entry| entry.generation).max();
        assert!(newest >= Some(generation_before), "began at {generation_before}, served by an entry of {newest:?}");
    }
}

fn vcpu_thread(shared: &Shared, seed: u64) -> Tally {
    let mut vcpu = common::new_vcpu(&shared.vm, &shared.guest, VcpuConfig { seed, ..VcpuConfig::default() });
    let mut tally = Tally::default();
    let mut random = seed;
    while shared.running() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = random >> 33;
        match draw % 8 {
            0 => {
                let record =
                    common::touch(Direction::Store).perform(&shared.vm, &mut vcpu, ram_ea(draw / 8 % RAM_PAGES), draw);
                assert!(matches!(record.outcome, Outcome::Ram { .. }), "{record:?}");
                tally.ram += 1;
            }
            1 => {
                // The page that comes and goes: served, or reflected while it is away.
                let record = common::touch(Direction::Store).perform(&shared.vm, &mut vcpu, ram_ea(RAM_PAGES), draw);
                match record.outcome {
                    Outcome::Ram { .. } => {
                        shared.ram_stores.fetch_add(1, Ordering::AcqRel);
                    }
                    Outcome::Reflected(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            _ => mmio_store(shared, &mut vcpu, index(draw / 8 % PAGES as u64), &mut tally),
        }
    }
    tally
}

/// Removes and enters MMIO pages; returns the number of removals.
fn churn(shared: &Shared, mut at: [PteIndex; PAGES]) -> u64 {
    let mut removals = 0;
    let mut versions = [0_u64; PAGES];
    while shared.running() {
        let page = index(removals % PAGES as u64);
        let published = &shared.pages[page];
        published.removal_begun.store(versions[page], Ordering::Release);
        shared.vm.h_remove(0, at[page], 0).unwrap();
        removals += 1;
        versions[page] += 1;
        let gpa = GuestPhysAddr(gpa(page, versions[page]));
        at[page] = shared.guest.map(&shared.vm, mmio_ea(page as u64), gpa, PageUse::DEVICE).unwrap();
        published.entered.store(versions[page], Ordering::Release);
        // Long enough for some hits in between.
        (0..removals % 2000).for_each(|_| std::hint::spin_loop());
    }
    removals
}

/// Pages RAM out, and removes and enters one RAM page whose C must never be lost.
fn page_outs(shared: &Shared, clean: Hpte, mut at: PteIndex) -> u64 {
    let mut rounds = 0;
    let mut before = shared.ram_stores.load(Ordering::Acquire);
    while shared.running() {
        shared.vm.page_out(GuestPhysAddr(rounds % RAM_PAGES * PAGE)).unwrap();
        if rounds % 16 == 0 {
            let after = shared.ram_stores.load(Ordering::Acquire);
            let removed = shared.vm.h_remove(0, at, 0).unwrap();
            // Two stores may have begun before the entry was there and been counted since.
            if after > before + 2 {
                assert_ne!(removed.r & HPTE_R_C, 0, "{} stores left no C", after - before);
            }
            at = shared.vm.h_enter(0, PteIndex(at.0 & !7), clean).unwrap();
            before = shared.ram_stores.load(Ordering::Acquire);
        }
        rounds += 1;
    }
    rounds
}

/// No lock is held, and every VALID entry is in the ring of its page and in no other.
fn assert_consistent(shared: &Shared) {
    let hpt = shared.vm.hpt();
    let locked = (0..hpt.npte()).filter(|i| {
        let v = hpt.slot(PteIndex(*i)).unwrap().v.load(Ordering::Acquire);
        u64::from_be(v) & HPTE_V_HVLOCK != 0
    });
    assert_eq!(locked.count(), 0);
    let mut valid: Vec<_> = hpt.used().filter(|(_, hpte, _)| hpte.v & HPTE_V_VALID != 0).map(|entry| entry.0).collect();
    let memslots = shared.vm.memslots();
    let slot = memslots.by_id(0).unwrap();
    let mut linked = Vec::new();
    for page in 0..=RAM_PAGES {
        let ring = chain(&hpt, slot.rmap(Gfn(page)).unwrap().load(Ordering::Acquire));
        assert!(ring.is_empty() || slot.is_present(Gfn(page)), "page {page} is mapped and not in memory");
        linked.extend(ring);
    }
    valid.sort_unstable();
    linked.sort_unstable();
    assert_eq!(valid, linked);
    let entries = hpt.used().count() as u64;
    assert_eq!(entries, PAGES as u64 + RAM_PAGES + 1);
}

#[test]
fn stores_of_two_vcpus_against_removals_and_page_outs_lose_nothing_and_serve_nothing_stale() {
    let world = World::new();
    world.add_ram(RAM_PAGES + 1);
    let (vm, guest) = (world.vm, world.guest);
    let mut eventfds = Vec::new();
    for page in 0..WITH_EVENTFD {
        for version in 0..2 {
            let fd = vm.io().create_eventfd();
            let addr = gpa(page, version);
            vm.io().assign(Ioeventfd { bus: IoBus::Mmio, addr, len: 4, datamatch: None, fd: fd.id() }).unwrap();
            eventfds.push(fd);
        }
    }
    for page in 0..RAM_PAGES {
        guest.map(&vm, ram_ea(page), GuestPhysAddr(page * PAGE), PageUse::RAM).unwrap();
    }
    let (hpte, key) = guest.hpte(ram_ea(RAM_PAGES), GuestPhysAddr(RAM_PAGES * PAGE), PageUse::RAM).unwrap();
    let clean = Hpte { r: hpte.r & !(HPTE_R_R | HPTE_R_C), ..hpte };
    let ram_at = vm.h_enter(0, vm.hpt().group_index(&key, false), clean).unwrap();
    let at = std::array::from_fn(|page| {
        guest.map(&vm, mmio_ea(page as u64), GuestPhysAddr(gpa(page, 0)), PageUse::DEVICE).unwrap()
    });
    let start = vm.generation();
    let shared =
        Shared { vm, guest, pages: Default::default(), ram_stores: AtomicU64::new(0), stop: AtomicBool::new(false) };

    let (tally, removals, rounds) = std::thread::scope(|scope| {
        let vcpus = [1, 2].map(|seed| {
            let shared = &shared;
            scope.spawn(move || vcpu_thread(shared, seed))
        });
        let churn = scope.spawn(|| churn(&shared, at));
        let pager = scope.spawn(|| page_outs(&shared, clean, ram_at));
        let end = Instant::now() + seconds();
        // A thread that failed ends the test at once.
        while Instant::now() < end
            && !churn.is_finished()
            && !pager.is_finished()
            && !vcpus.iter().any(|t| t.is_finished())
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        shared.stop.store(true, Ordering::Relaxed);
        let mut total = Tally::default();
        vcpus.into_iter().for_each(|thread| total.add(&thread.join().unwrap()));
        (total, churn.join().unwrap(), pager.join().unwrap())
    });

    println!("{tally:?}, {removals} removals, {rounds} page-outs");
    assert_eq!(tally.stores, tally.signalled + tally.exits + tally.reflected);
    assert_eq!(tally.signalled, eventfds.iter().map(|fd| fd.count()).sum::<u64>());
    assert_eq!(shared.vm.generation() - start, removals);
    assert!(tally.hits > 0 && tally.exits > 0 && tally.ram > 0 && removals > 0 && rounds > 0);
    assert_consistent(&shared);
}
