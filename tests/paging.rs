//! Page-out and page-in: keys, what becomes MMIO, and the hazards that follow from it.

mod common;

use common::{PAGE, World, assert_hit, assert_miss, assert_ram, mmio_ea, mmio_gpa, ram_ea, reflected};
use hvmmio::addr::{EffectiveAddr, GuestPhysAddr, Vsid};
use hvmmio::book3s::hpte::{HPTE_R_KEY, HPTE_R_PP0, HPTE_V_ABSENT, HPTE_V_VALID, PP_RXRX, storage_key};
use hvmmio::book3s::insn::Direction;
use hvmmio::book3s::msr::{DSISR_KEYFAULT, DSISR_NOHPTE, DSISR_PROTFAULT};
use hvmmio::book3s::slb::SegmentSize;
use hvmmio::book3s::{PageSize, PageSizes, SlbEntry};
use hvmmio::kvm_hv::{EarlyStep, MissClass, Outcome, ProtectFlags, RetryReason, Stage};
use hvmmio::workload::guest::PageUse;

const RAM: GuestPhysAddr = GuestPhysAddr(0);

#[test]
fn key31_ram_paged_out_keeps_the_guests_key_and_the_amr_is_checked_on_it() {
    let mut world = World::new();
    world.add_ram(1);
    let at = world.enter_ram(0, 31);
    assert_ram(&world.store(ram_ea(0)));
    assert_eq!(world.vm.page_out(RAM), Some(1));
    assert_eq!(world.host(at).r & HPTE_R_KEY, 0, "patch 1 clears the host's key");
    assert_eq!(storage_key(world.read(at).r), 31, "H_READ still shows 31");
    // Key 31's pair of AMR bits is the lowest: stores forbidden.
    world.vcpu.amr = 0b10;
    assert_ne!(reflected(&world.store(ram_ea(0))) & DSISR_KEYFAULT, 0);
    assert_ram(&world.load(ram_ea(0)));
    assert_ne!(reflected(&world.store(ram_ea(0))) & DSISR_KEYFAULT, 0, "by hardware now");
    world.vcpu.amr = 0;
    world.vm.page_out(RAM).unwrap();
    let record = world.store(ram_ea(0));
    assert_ram(&record);
    assert!(!record.ram_as_mmio);
    assert_eq!(storage_key(world.host(at).r), 31, "back in the host's doubleword");
}

#[test]
fn key31_ram_paged_out_without_patch_1_hits_the_second_time_unless_the_generation_moved() {
    for moved in [false, true] {
        let mut world = World::switched(&["key_on_page_out=kept"]);
        world.add_ram(1);
        let other = world.enter_mmio(0);
        let at = world.enter_ram(0, 31);
        world.vm.page_out(RAM).unwrap();
        assert!(world.host(at).is_mmio(), "cannot be told apart from MMIO");
        let record = world.store(ram_ea(0));
        assert_ram(&record);
        assert!(record.stages.attempts()[0].contains(Stage::CacheFill));
        world.vm.page_out(RAM).unwrap();
        if moved {
            world.vm.h_remove(0, other, 0).unwrap();
        }
        let record = world.store(ram_ea(0));
        assert_eq!(record.ram_as_mmio, !moved, "{record:?}");
        match record.outcome {
            Outcome::Exit(exit) => assert_eq!((moved, exit.gpa), (false, RAM)),
            _ => assert!(moved),
        }
    }
}

#[test]
fn key24_round_trip_high_bits_only_come_back_at_page_in() {
    for key in 0..32 {
        let mut world = World::new();
        world.add_ram(1);
        let at = world.enter_ram(0, key);
        assert_eq!(storage_key(world.host(at).r), key);
        world.vm.page_out(RAM).unwrap();
        let out = world.host(at);
        assert_eq!((storage_key(out.r), out.v & (HPTE_V_ABSENT | HPTE_V_VALID)), (0, HPTE_V_ABSENT));
        assert_ram(&world.load(ram_ea(0)));
        let back = world.host(at);
        assert_eq!((storage_key(back.r), back.v & (HPTE_V_ABSENT | HPTE_V_VALID)), (key, HPTE_V_VALID));
        assert_eq!(storage_key(world.read(at).r), key);
    }
}

#[test]
fn page_out_unmaps_every_hpte_of_the_page_and_no_other() {
    let mut world = World::new();
    world.add_ram(2);
    let aliases =
        [5, 6, 7].map(|page| world.guest.map(&world.vm, ram_ea(page), GuestPhysAddr(PAGE), PageUse::RAM).unwrap());
    let other = world.enter_ram(0, 0);
    assert_eq!(world.vm.page_out(GuestPhysAddr(PAGE + 8)), Some(3));
    assert!(aliases.iter().all(|at| world.host(*at).v & HPTE_V_VALID == 0));
    assert_ne!(world.host(other).v & HPTE_V_VALID, 0);
    for page in [5, 6, 7] {
        assert_ram(&world.store(ram_ea(page)));
    }
    assert_eq!(world.vm.page_out(GuestPhysAddr(PAGE)), Some(3));
    assert_eq!(world.vm.page_out(GuestPhysAddr(PAGE)), Some(0));
    assert_eq!(world.vm.page_out(GuestPhysAddr(1 << 50)), None);
}

#[test]
fn memslot_over_cached_page_h3_is_filled_after_the_add_and_served_as_mmio_after_a_page_out() {
    for (switch, wrong) in [("fill_when_memslot_backed=yes", true), ("fill_when_memslot_backed=no", false)] {
        let mut world = World::switched(&[switch]);
        world.enter_mmio(0);
        world.load(mmio_ea(0));
        assert_hit(&world.load(mmio_ea(0)));
        world.vm.set_memslot(0, mmio_gpa(0), PAGE, 16).unwrap();
        assert_ram(&world.load(mmio_ea(0)));
        world.vm.page_out(mmio_gpa(0)).unwrap();
        for _ in 0..3 {
            let record = world.load(mmio_ea(0));
            assert_eq!(record.ram_as_mmio, wrong, "{switch}: {record:?}");
        }
    }
}

#[test]
fn key31_protfault_fill_h4_fills_an_entry_tagged_0() {
    for (switch, fills) in [("fill_on_protection_fault=yes", true), ("fill_on_protection_fault=no", false)] {
        let mut world = World::switched(&[switch]);
        world.add_ram(1);
        let at = world.enter_ram(0, 31);
        let r = world.read(at).r;
        world.vm.h_protect(ProtectFlags::from_r(r | PP_RXRX), at, 0).unwrap();
        world.vm.h_protect(ProtectFlags::from_r(r), at, 0).unwrap();
        assert_ram(&world.store(ram_ea(0)));
        let entry = world.vcpu.cache().entries()[0];
        assert_eq!((entry.ea == ram_ea(0), entry.generation), (fills, 0));
        assert_eq!(entry.hpte.v & HPTE_V_VALID != 0, fills);
    }
}

#[test]
fn delete_then_mmio_never_cached_h6() {
    let mut world = World::new();
    world.vm.set_memslot(0, mmio_gpa(0), PAGE, 16).unwrap();
    let at = world.enter_mmio(0);
    assert_ram(&world.load(mmio_ea(0)));
    world.vm.delete_memslot(0).unwrap();
    for _ in 0..21 {
        assert_miss(&world.load(mmio_ea(0)), MissClass::NeverCacheable);
    }
    world.vm.h_remove(0, at, 0).unwrap();
    world.enter_mmio(0);
    assert_miss(&world.load(mmio_ea(0)), MissClass::Cold);
    assert_hit(&world.load(mmio_ea(0)));

    let mut world = World::switched(&["key_on_memslot_delete=mmio"]);
    world.vm.set_memslot(0, mmio_gpa(0), PAGE, 16).unwrap();
    world.enter_mmio(0);
    world.vm.delete_memslot(0).unwrap();
    assert_miss(&world.load(mmio_ea(0)), MissClass::Cold);
    assert_hit(&world.load(mmio_ea(0)));
}

#[test]
fn zero_cache_zero_generation_h5_hits_at_ea_0_with_slb_v_0() {
    for (switch, hits) in [("empty_entry=zero-matches", true), ("empty_entry=invalid", false)] {
        let mut world = World::switched(&[switch]);
        let ea = EffectiveAddr(0);
        world.vcpu.slb.slbmte(SlbEntry::new(1, ea, SegmentSize::M256, Vsid(0), PageSize::K4)).unwrap();
        assert_eq!(world.vcpu.slb.lookup(ea), Some(0));
        let record = world.store(ea);
        if hits {
            assert_hit(&record);
            assert_eq!(record.outcome.mmio_gpa(), Some(GuestPhysAddr(0)), "emulated at a page that no HPTE maps");
            world.enter_mmio(0);
            let at = world.enter_mmio(1);
            world.vm.h_remove(0, at, 0).unwrap();
        }
        assert_ne!(reflected(&world.store(ea)) & DSISR_NOHPTE, 0, "{switch}: after a bump nothing unfilled matches");
    }
}

#[test]
fn reserved_pp_h8_a_load_never_progresses_or_is_reflected_by_switch() {
    let reserved = PageUse { pp: HPTE_R_PP0, ..PageUse::RAM };
    let run = |switch: &str| {
        let mut world = World::switched(&[switch]);
        world.add_ram(1);
        world.guest.map(&world.vm, ram_ea(0), RAM, reserved).unwrap();
        (world.load(ram_ea(0)), world.store(ram_ea(0)))
    };
    let (load, store) = run("reserved_pp=spin");
    assert_eq!(load.outcome, Outcome::RetriesForever(RetryReason::Mapped));
    assert_ne!(reflected(&store) & DSISR_PROTFAULT, 0);
    let (load, store) = run("reserved_pp=reflect");
    assert_ne!(reflected(&load) & DSISR_PROTFAULT, 0);
    assert_ne!(reflected(&store) & DSISR_PROTFAULT, 0);
}

#[test]
fn a_no_hpte_fault_that_finds_the_entry_valid_by_now_is_retried() {
    let mut world = World::new();
    world.add_ram(1);
    let fault = world.no_hpte(ram_ea(0), Direction::Store);
    world.enter_ram(0, 0);
    let step = world.vcpu.early_fault(&world.vm, &fault, &mut common::stages());
    assert_eq!(step, EarlyStep::Retry(RetryReason::ValidByNow));
}

#[test]
fn huge_pages_come_and_go_as_a_whole() {
    let mut world = World::new();
    let sizes = PageSizes { base: PageSize::M16, actual: PageSize::M16 };
    world.guest.sizes = sizes;
    world.vcpu.slb.slbmte(world.guest.slb_entry(0, ram_ea(0))).unwrap();
    world.vm.set_memslot(0, RAM, PageSize::M16.bytes(), 24).unwrap();
    let ea = EffectiveAddr(ram_ea(0).0 & !(PageSize::M16.bytes() - 1));
    let at = world.guest.map(&world.vm, ea, RAM, PageUse::RAM).unwrap();
    assert_eq!(world.vm.page_out(GuestPhysAddr(5 * PAGE)), Some(1), "a frame in its middle");
    assert_eq!(world.host(at).v & HPTE_V_VALID, 0);
    let record = world.store(EffectiveAddr(ea.0 + 0x12_3450));
    assert_eq!(record.outcome, Outcome::Ram { gpa: GuestPhysAddr(0x12_3450) });
}
