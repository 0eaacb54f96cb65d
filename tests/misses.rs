//! Hits and misses: the rotating index over k pages, and each miss class in a scene of its own.

mod common;

use common::{PAGE, World, assert_hit, assert_miss, mmio_ea, mmio_gpa};
use hvmmio::addr::Vsid;
use hvmmio::kvm_hv::{CacheDesign, CacheUse, MissClass, PolicyKind, Stage, VcpuConfig};
use hvmmio::workload::guest::{Guest, PageUse};

#[test]
fn modern_virtio_round_robin_over_k_pages_all_hits_but_the_cold_ones_up_to_4_and_none_from_5_on() {
    const ROUNDS: u64 = 50;
    for pages in 1..=12 {
        let mut world = World::new();
        for page in 0..pages {
            world.enter_mmio(page);
        }
        let (mut hits, mut cold, mut capacity) = (0, 0, 0);
        for _ in 0..ROUNDS {
            for page in 0..pages {
                match world.store(mmio_ea(page)).cache {
                    CacheUse::Hit => hits += 1,
                    CacheUse::Miss(Some(MissClass::Cold)) => cold += 1,
                    CacheUse::Miss(Some(MissClass::Capacity)) => capacity += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(cold, pages);
        let rest = (ROUNDS - 1) * pages;
        assert_eq!((hits, capacity), if pages <= 4 { (rest, 0) } else { (0, rest) }, "{pages} pages");
    }
}

#[test]
fn legacy_virtio_devices_on_one_page_all_hit_its_one_entry() {
    let mut world = World::new();
    world.enter_mmio(0);
    assert_miss(&world.store(mmio_ea(0)), MissClass::Cold);
    for device in 1..1024 {
        assert_hit(&world.store(hvmmio::addr::EffectiveAddr(mmio_ea(0).0 + 64 * device)));
    }
}

#[test]
fn a_hit_skips_the_search_and_both_locks_and_a_miss_takes_them() {
    let mut world = World::new();
    world.enter_mmio(0);
    let slow = [Stage::HptSearch, Stage::HpteLockFirst, Stage::HpteLockSecond, Stage::MemslotSearch, Stage::CacheFill];
    let miss = world.store(mmio_ea(0)).stages;
    assert!(slow.iter().all(|stage| miss.attempts()[0].contains(*stage)));
    let hit = world.store(mmio_ea(0)).stages;
    assert!(slow.iter().all(|stage| !hit.attempts()[0].contains(*stage)), "{hit:?}");
    for both in [miss, hit] {
        let stages = both.attempts()[0];
        for always in [Stage::CacheSearch, Stage::Permission, Stage::FastBus, Stage::Decode, Stage::MmioBus] {
            assert!(stages.contains(always), "{always} in {stages:?}");
        }
    }
    assert!(hit.attempts()[0].contains(Stage::GenerationRecheck));
}

#[test]
fn class_cold_is_a_page_never_cached_on_this_vcpu() {
    let mut world = World::new();
    world.enter_mmio(0);
    assert_miss(&world.store(mmio_ea(0)), MissClass::Cold);
    let mut other = common::new_vcpu(&world.vm, &world.guest, VcpuConfig::default());
    let store = common::touch(hvmmio::book3s::insn::Direction::Store);
    assert_miss(&store.perform(&world.vm, &mut other, mmio_ea(0), 0), MissClass::Cold);
    assert_hit(&store.perform(&world.vm, &mut other, mmio_ea(0), 0));
}

#[test]
fn class_segment_is_a_page_cached_under_another_slb_v() {
    let mut world = World::new();
    world.enter_mmio(0);
    world.store(mmio_ea(0));
    let other = Guest { vsid: Vsid(0x4321), ..world.guest };
    other.map(&world.vm, mmio_ea(0), mmio_gpa(7), PageUse::DEVICE).unwrap();
    world.vcpu.slb.slbmte(other.slb_entry(0, mmio_ea(0))).unwrap();
    let record = world.store(mmio_ea(0));
    assert_miss(&record, MissClass::Segment);
    assert_eq!(record.outcome.mmio_gpa(), Some(mmio_gpa(7)), "another address space, another page");
    world.vcpu.slb.slbmte(world.guest.slb_entry(0, mmio_ea(0))).unwrap();
    let record = world.store(mmio_ea(0));
    assert_hit(&record);
    assert_eq!(record.outcome.mmio_gpa(), Some(mmio_gpa(0)));
}

#[test]
fn class_segment_is_also_the_same_vsid_with_another_protection_bit() {
    let mut world = World::new();
    world.enter_mmio(0);
    world.store(mmio_ea(0));
    let mut entry = world.guest.slb_entry(0, mmio_ea(0));
    entry.vsid |= hvmmio::book3s::slb::SLB_VSID_KP;
    world.vcpu.slb.slbmte(entry).unwrap();
    assert_miss(&world.store(mmio_ea(0)), MissClass::Segment);
}

#[test]
fn class_generation_would_be_a_hit_but_for_a_bump() {
    let mut world = World::new();
    world.enter_mmio(0);
    let other = world.enter_mmio(1);
    world.store(mmio_ea(0));
    world.vm.h_remove(0, other, 0).unwrap();
    assert_miss(&world.store(mmio_ea(0)), MissClass::Generation);
    assert_hit(&world.store(mmio_ea(0)));
}

#[test]
fn class_capacity_was_evicted_and_stays_capacity_even_if_a_bump_came_too() {
    let mut world = World::new();
    let pages: Vec<_> = (0..6).map(|page| world.enter_mmio(page)).collect();
    (0..5).for_each(|page| assert_miss(&world.store(mmio_ea(page)), MissClass::Cold));
    assert_miss(&world.store(mmio_ea(0)), MissClass::Capacity);
    world.vm.h_remove(0, pages[5], 0).unwrap();
    assert_miss(&world.store(mmio_ea(1)), MissClass::Capacity);
    assert_miss(&world.store(mmio_ea(4)), MissClass::Generation);
}

#[test]
fn class_never_cacheable_has_a_host_key_other_than_31() {
    let mut world = World::new();
    world.vm.set_memslot(0, mmio_gpa(0), PAGE, 16).unwrap();
    world.enter_mmio(0);
    world.vm.delete_memslot(0).unwrap();
    for _ in 0..3 {
        assert_miss(&world.store(mmio_ea(0)), MissClass::NeverCacheable);
    }
    assert_eq!(world.vcpu.cache().entries()[0], hvmmio::kvm_hv::cache::CacheEntry::default(), "nothing filled");
}

#[test]
fn a_vcpu_without_a_cache_or_without_classes_reports_misses_without_a_class() {
    for config in [
        VcpuConfig { cache: CacheDesign::OFF, ..VcpuConfig::default() },
        VcpuConfig { classify: false, cache: CacheDesign::new(1, PolicyKind::Lru).unwrap(), ..VcpuConfig::default() },
    ] {
        let mut world = World::with(&[], config);
        world.enter_mmio(0);
        world.enter_mmio(1);
        for page in [0, 1, 0, 1] {
            assert_eq!(world.store(mmio_ea(page)).cache, CacheUse::Miss(None));
        }
    }
}
