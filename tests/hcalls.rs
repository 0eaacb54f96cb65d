//! Hypercalls on the table: what they refuse, what they return, what they leave behind.

mod common;

use std::sync::atomic::Ordering;

use common::{PAGE, World, assert_ram, mmio_ea, mmio_gpa, ram_ea, reflected};
use hvmmio::addr::{EffectiveAddr, GuestPhysAddr, PteIndex};
use hvmmio::book3s::hpte::{
    HPTE_R_C, HPTE_R_KEY, HPTE_R_PP, HPTE_R_PP0, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_AVPN_B, HPTE_V_B_SHIFT, HPTE_V_LARGE,
    HPTE_V_VALID, PP_RXRX, is_writable, storage_key,
};
use hvmmio::book3s::msr::DSISR_PROTFAULT;
use hvmmio::book3s::{Hpte, PageSize, PageSizes};
use hvmmio::kvm_hv::memslot::DirtyLog;
use hvmmio::kvm_hv::{HcallError, ProtectFlags, flags};
use hvmmio::workload::guest::{Guest, PageUse};

fn some_hpte(world: &World) -> Hpte {
    world.guest.hpte(mmio_ea(0), mmio_gpa(0), PageUse::DEVICE).unwrap().0
}

#[test]
fn enter_reserved_b_is_refused_and_the_slot_untouched() {
    let world = World::new();
    let before = world.vm.clone();
    let good = some_hpte(&world);
    for b in [2_u64, 3] {
        let v = good.v & !(3 << HPTE_V_B_SHIFT) | b << HPTE_V_B_SHIFT;
        for flag in [0, flags::H_EXACT] {
            assert_eq!(world.vm.h_enter(flag, PteIndex(8), Hpte { v, ..good }), Err(HcallError::Parameter));
        }
    }
    for lp in [2_u64, 4, 5, 6, 9, 0xf, 0x18, 0x28] {
        let hpte = Hpte { v: good.v | HPTE_V_LARGE, r: good.r & !0xf_f000 | lp << 12 };
        assert_eq!(world.vm.h_enter(0, PteIndex(8), hpte), Err(HcallError::Parameter), "LP {lp:#x}");
    }
    for at in [world.vm.hpt().npte(), u64::MAX] {
        assert_eq!(world.vm.h_enter(0, PteIndex(at), good), Err(HcallError::Parameter));
    }
    assert!(world.vm == before, "nothing moved");
}

#[test]
fn enter_refuses_a_page_that_does_not_fit_its_memslot_or_the_host_page_behind_it() {
    let world = World::new();
    let sizes = PageSizes { base: PageSize::M16, actual: PageSize::M16 };
    let guest = Guest { sizes, ..world.guest };
    let big = PageSize::M16.bytes();
    let ea = EffectiveAddr(common::EA);
    // (slot base, slot size, backing page shift, fits)
    for (id, (base, size, backing, fits)) in (0..).zip([
        (0, big, 24, true),
        (4 * big, big + PAGE, 24, false),
        (8 * big + PAGE, big, 24, false),
        (16 * big, 2 * big, 16, false),
    ]) {
        world.vm.set_memslot(id, GuestPhysAddr(base), size, backing).unwrap();
        let entered = guest.map(&world.vm, ea, GuestPhysAddr(base.next_multiple_of(big)), PageUse::RAM);
        assert_eq!(entered.is_ok(), fits, "slot {id}: {entered:?}");
        match entered {
            Ok(at) => assert!(world.vm.h_remove(0, at, 0).is_ok()),
            Err(error) => assert_eq!(error, HcallError::Parameter),
        }
    }
    assert_eq!(world.vm.hpt().used().count(), 0);
}

#[test]
fn enter_full_a_group_of_eight_takes_no_ninth_and_exact_no_used_slot() {
    let world = World::new();
    let hpte = some_hpte(&world);
    for i in 0..8 {
        assert_eq!(world.vm.h_enter(0, PteIndex(16 + (i + 3) % 8), hpte), Ok(PteIndex(16 + i)), "first free slot");
    }
    assert_eq!(world.vm.h_enter(0, PteIndex(19), hpte), Err(HcallError::PtegFull));
    assert_eq!(world.vm.h_enter(flags::H_EXACT, PteIndex(19), hpte), Err(HcallError::PtegFull));
    world.vm.h_remove(0, PteIndex(21), 0).unwrap();
    assert_eq!(world.vm.h_enter(flags::H_EXACT, PteIndex(19), hpte), Err(HcallError::PtegFull));
    assert_eq!(world.vm.h_enter(flags::H_EXACT, PteIndex(21), hpte), Ok(PteIndex(21)));
}

#[test]
fn enter_absent_host_page_is_absent_without_a_key_and_no_memslot_is_absent_with_key_31() {
    let world = World::new();
    world.add_ram(4);
    world.vm.page_out(GuestPhysAddr(PAGE)).unwrap();
    let absent = world.host(world.enter_ram(1, 31));
    assert_eq!((absent.v & (HPTE_V_ABSENT | HPTE_V_VALID), absent.r & HPTE_R_KEY), (HPTE_V_ABSENT, 0));
    let mmio = world.host(world.enter_mmio(0));
    assert!(mmio.is_mmio() && mmio.v & HPTE_V_VALID == 0);
    let present = world.host(world.enter_ram(2, 31));
    assert_eq!((present.v & (HPTE_V_ABSENT | HPTE_V_VALID), storage_key(present.r)), (HPTE_V_VALID, 31));
}

#[test]
fn remove_returns_the_guests_view_and_its_conditions_decide() {
    let world = World::new();
    let hpte = some_hpte(&world);
    let at = world.vm.h_enter(0, PteIndex(0), hpte).unwrap();
    let avpn = hpte.v & HPTE_V_AVPN_B;
    assert_eq!(world.vm.h_remove(flags::H_AVPN, at, avpn ^ 0x80), Err(HcallError::NotFound));
    assert_eq!(world.vm.h_remove(flags::H_ANDCOND, at, HPTE_V_LARGE), Err(HcallError::NotFound));
    let removed = world.vm.h_remove(flags::H_AVPN, at, avpn).unwrap();
    assert_eq!(removed, hpte, "an ABSENT entry is returned as VALID, the key is the guest's");
    assert_eq!(world.vm.h_remove(0, at, 0), Err(HcallError::NotFound));
    assert_eq!(world.vm.h_remove(0, PteIndex(world.vm.hpt().npte()), 0), Err(HcallError::Parameter));
}

#[test]
fn bulk_remove_answers_each_request_goes_on_after_not_found_and_stops_at_a_bad_one() {
    let world = World::new();
    let (a, b) = (world.enter_mmio(0), world.enter_mmio(1));
    let request = |kind: u64, at: PteIndex| (0x40 | kind) << 56 | at.0;
    let empty = PteIndex(7);
    let mut args = [request(0, a), 0, request(0, empty), 0, request(2, b), 0x80, 0xc0 << 56, 0];
    assert_eq!(world.vm.h_bulk_remove(&mut args), Ok(()));
    // R and C are as the guest entered them: both on.
    assert_eq!(args[0], 0x8c << 56 | a.0);
    assert_eq!(args[2], 0x90 << 56 | empty.0);
    assert_eq!(args[4], 0x92 << 56 | b.0, "AVPN did not match");
    assert_eq!(args[6], 0xc0 << 56, "what ends the list is not answered");
    let npte = world.vm.hpt().npte();
    let mut args = [request(0, b), 0, request(0, PteIndex(npte)), 0, request(0, a), 0, 0, 0];
    assert_eq!(world.vm.h_bulk_remove(&mut args), Err(HcallError::Parameter));
    assert_eq!((args[0] >> 56, args[2] >> 56, args[4]), (0x8c, 0xa0, request(0, a)));
    assert_eq!(world.vm.hpt().used().count(), 0);
}

#[test]
fn bulk_remove_of_one_ram_page_named_twice_ends_with_not_found_for_the_second() {
    let world = World::new();
    world.add_ram(1);
    let at = world.enter_ram(0, 0);
    let request = 0x40 << 56 | at.0;
    let mut args = [request, 0, request, 0, 0xc0 << 56, 0, 0, 0];
    world.vm.h_bulk_remove(&mut args).unwrap();
    assert_eq!((args[0] >> 60, args[2] >> 56), (8, 0x90));
}

#[test]
fn protect_then_store_on_a_cached_mmio_page_is_a_protection_fault_and_no_exit() {
    let mut world = World::new();
    let at = world.enter_mmio(0);
    world.store(mmio_ea(0));
    common::assert_hit(&world.store(mmio_ea(0)));
    world.vm.h_protect(ProtectFlags::from_r(PP_RXRX), at, 0).unwrap();
    let dsisr = reflected(&world.store(mmio_ea(0)));
    assert_ne!(dsisr & DSISR_PROTFAULT, 0);
    assert!(matches!(world.load(mmio_ea(0)).outcome, hvmmio::kvm_hv::Outcome::Exit(_)), "reading is still allowed");
}

#[test]
fn h_protect_never_makes_a_valid_entry_writable_the_next_store_does() {
    let mut world = World::new();
    world.add_ram(1);
    let at = world.enter_ram(0, 0);
    let with_pp = |world: &World, pp| ProtectFlags::from_r(world.read(at).r & !(HPTE_R_PP0 | HPTE_R_PP) | pp);
    world.vm.h_protect(with_pp(&world, PP_RXRX), at, 0).unwrap();
    assert!(!is_writable(world.host(at).r));
    assert_ne!(reflected(&world.store(ram_ea(0))) & DSISR_PROTFAULT, 0);
    world.vm.h_protect(with_pp(&world, 0), at, 0).unwrap();
    assert!(is_writable(world.read(at).r) && !is_writable(world.host(at).r));
    assert_ram(&world.store(ram_ea(0)));
    assert!(is_writable(world.host(at).r));
    let wrong = ProtectFlags(flags::H_AVPN);
    assert_eq!(world.vm.h_protect(wrong, at, 0x80), Err(HcallError::NotFound));
}

#[test]
fn rc_gathered_what_hardware_set_shows_in_h_remove_and_in_the_dirty_bitmap() {
    let mut world = World::new();
    world.add_ram(4);
    world.vm.set_dirty_log(0, DirtyLog::On).unwrap();
    let (hpte, key) = world.guest.hpte(ram_ea(2), GuestPhysAddr(2 * PAGE), PageUse::RAM).unwrap();
    let clean = Hpte { r: hpte.r & !(HPTE_R_R | HPTE_R_C), ..hpte };
    let group = world.vm.hpt().group_index(&key, false);
    let dirty = |world: &World| world.vm.memslots().by_id(0).unwrap().take_dirty();

    let at = world.vm.h_enter(0, group, clean).unwrap();
    assert_eq!(world.vm.h_remove(0, at, 0).unwrap().r & (HPTE_R_R | HPTE_R_C), 0);
    assert!(dirty(&world).is_empty());

    let at = world.vm.h_enter(0, group, clean).unwrap();
    assert_ram(&world.load(ram_ea(2)));
    assert_eq!(world.vm.h_remove(0, at, 0).unwrap().r & (HPTE_R_R | HPTE_R_C), HPTE_R_R);

    let at = world.vm.h_enter(0, group, clean).unwrap();
    assert_ram(&world.store(ram_ea(2)));
    assert_eq!(world.read(at).r & HPTE_R_C, HPTE_R_C, "H_READ shows it at once");
    assert_eq!(world.vm.h_remove(0, at, 0).unwrap().r & (HPTE_R_R | HPTE_R_C), HPTE_R_R | HPTE_R_C);
    assert_eq!(dirty(&world), [GuestPhysAddr(2 * PAGE).gfn(16)]);

    // Hardware of another vCPU sets C in the table itself, as it may until the invalidate is done.
    let at = world.vm.h_enter(0, group, clean).unwrap();
    world.vm.hpt().slot(at).unwrap().r.fetch_or(HPTE_R_C.to_be(), Ordering::AcqRel);
    assert_eq!(world.vm.h_remove(0, at, 0).unwrap().r & HPTE_R_C, HPTE_R_C);
    assert_eq!(dirty(&world), [GuestPhysAddr(2 * PAGE).gfn(16)]);
}

#[test]
fn clear_ref_and_clear_mod_clear_one_bit_and_return_the_doubleword_as_it_was() {
    let mut world = World::new();
    world.add_ram(1);
    let at = world.enter_ram(0, 5);
    assert_ram(&world.store(ram_ea(0)));
    let both = HPTE_R_R | HPTE_R_C;
    assert_eq!(world.vm.h_clear_ref(at).unwrap() & both, both);
    assert_eq!(world.read(at).r & both, HPTE_R_C);
    assert_eq!(world.vm.h_clear_mod(at).unwrap() & both, HPTE_R_C);
    assert_eq!(world.read(at).r & both, 0);
    assert_eq!(storage_key(world.read(at).r), 5);
    assert_eq!(world.vm.h_clear_ref(PteIndex(1)), Err(HcallError::NotFound));
    assert_ram(&world.store(ram_ea(0)));
    assert_eq!(world.read(at).r & both, both, "hardware sets them again");
}

#[test]
fn read_4_rounds_the_index_down_and_returns_four_entries() {
    let world = World::new();
    let hpte = some_hpte(&world);
    for at in 4..8 {
        world.vm.h_enter(flags::H_EXACT, PteIndex(at), Hpte { v: hpte.v ^ (at << 12), ..hpte }).unwrap();
    }
    let four = world.vm.h_read(flags::H_READ_4, PteIndex(6)).unwrap();
    assert_eq!(four.map(|entry| entry.v), [4, 5, 6, 7].map(|at: u64| hpte.v ^ (at << 12)));
    let one = world.vm.h_read(0, PteIndex(6)).unwrap();
    assert_eq!((one[0], one[1]), (four[2], Hpte::default()));
    assert_eq!(world.vm.h_read(0, PteIndex(world.vm.hpt().npte())), Err(HcallError::Parameter));
}
