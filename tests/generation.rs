//! What moves `mmio_update`, what does not, and what a moved generation does to a hit.

mod common;

use common::{LWZ, PAGE, STW, World, assert_hit, assert_miss, assert_ram, mmio_ea, mmio_gpa, reflected};
use hvmmio::addr::{GuestPhysAddr, PteIndex};
use hvmmio::book3s::hpte::PP_RXRX;
use hvmmio::book3s::insn::Direction;
use hvmmio::book3s::msr::{DSISR_NOHPTE, DSISR_PROTFAULT};
use hvmmio::kvm_hv::memslot::DirtyLog;
use hvmmio::kvm_hv::{CacheUse, EarlyStep, FullStep, MissClass, ProtectFlags, RetryReason, VcpuConfig};

/// How far `act` moves the generation of a VM with RAM pages 0 to 7 (page 1 under key 31, page 2 paged out) and MMIO
/// pages 0 to 3.
fn moved<T>(act: impl FnOnce(&mut Scene) -> T) -> u64 {
    let world = World::new();
    world.add_ram(8);
    let mmio = [0, 1, 2, 3].map(|page| world.enter_mmio(page));
    let ram = [(0, 0), (1, 31), (2, 31)].map(|(page, key)| world.enter_ram(page, key));
    world.vm.page_out(GuestPhysAddr(2 * PAGE)).unwrap();
    let mut scene = Scene { world, mmio, ram };
    let before = scene.world.vm.generation();
    act(&mut scene);
    scene.world.vm.generation() - before
}

struct Scene {
    world: World,
    mmio: [PteIndex; 4],
    ram: [PteIndex; 3],
}

impl Scene {
    fn bulk(&self, pages: &[PteIndex]) {
        let mut args = [0xc0 << 56; 8];
        for (pair, at) in args.chunks_exact_mut(2).zip(pages) {
            pair[0] = 0x40 << 56 | at.0;
        }
        self.world.vm.h_bulk_remove(&mut args).unwrap();
    }

    fn protect_unchanged(&self, at: PteIndex) {
        let r = self.world.read(at).r;
        self.world.vm.h_protect(ProtectFlags::from_r(r), at, 0).unwrap();
    }
}

#[test]
fn each_mmio_hpte_that_a_hypercall_hits_moves_the_generation_by_one() {
    assert_eq!(moved(|s| s.world.vm.h_remove(0, s.mmio[0], 0).unwrap()), 1);
    assert_eq!(moved(|s| s.bulk(&s.mmio[..1])), 1);
    assert_eq!(moved(|s| s.bulk(&s.mmio[..2])), 2);
    assert_eq!(moved(|s| s.bulk(&[s.mmio[0], s.ram[0], s.mmio[1], s.mmio[0]])), 2);
    assert_eq!(moved(|s| s.world.vm.h_protect(ProtectFlags(PP_RXRX), s.mmio[0], 0).unwrap()), 1);
    assert_eq!(moved(|s| s.protect_unchanged(s.mmio[0])), 1, "even one that changes nothing");
}

#[test]
fn a_memslot_created_anywhere_moved_or_with_its_dirty_log_switched_moves_the_generation() {
    assert_eq!(moved(|s| s.world.vm.set_memslot(5, GuestPhysAddr(1 << 50), PAGE, 16).unwrap()), 1);
    assert_eq!(moved(|s| s.world.vm.set_memslot(0, GuestPhysAddr(1 << 30), 8 * PAGE, 16).unwrap()), 1, "moved");
    assert_eq!(moved(|s| s.world.vm.set_dirty_log(0, DirtyLog::On).unwrap()), 1);
    let on_and_off = |s: &mut Scene| {
        s.world.vm.set_dirty_log(0, DirtyLog::On).unwrap();
        s.world.vm.set_dirty_log(0, DirtyLog::Off).unwrap();
    };
    assert_eq!(moved(on_and_off), 2);
}

#[test]
fn no_bump_for_anything_else() {
    assert_eq!(moved(|s| s.world.vm.delete_memslot(0).unwrap()), 0, "delete");
    assert_eq!(moved(|s| s.world.vm.set_memslot(0, GuestPhysAddr(0), 8 * PAGE, 16).unwrap()), 0, "identical");
    assert_eq!(moved(|s| s.world.vm.set_dirty_log(0, DirtyLog::Off).unwrap()), 0, "dirty log already off");
    assert_eq!(moved(|s| s.world.vm.memslots().by_id(0).unwrap().take_dirty()), 0, "KVM_GET_DIRTY_LOG");
    assert_eq!(moved(|s| s.world.enter_mmio(9)), 0, "H_ENTER of another MMIO page");
    assert_eq!(moved(|s| s.world.vm.h_remove(0, PteIndex(1), 0).unwrap_err()), 0, "H_REMOVE of nothing");
    for page in 0..3 {
        assert_eq!(moved(|s| s.world.vm.h_remove(0, s.ram[page], 0).unwrap()), 0, "H_REMOVE of RAM {page}");
        assert_eq!(moved(|s| s.bulk(&[s.ram[page]])), 0, "H_BULK_REMOVE of RAM {page}");
        assert_eq!(moved(|s| s.protect_unchanged(s.ram[page])), 0, "H_PROTECT of RAM {page}");
    }
    assert_eq!(moved(|s| s.world.vm.h_read(0, s.mmio[0]).unwrap()), 0, "H_READ");
    assert_eq!(moved(|s| s.world.vm.h_clear_ref(s.mmio[0]).unwrap()), 0, "H_CLEAR_REF");
    assert_eq!(moved(|s| s.world.vm.h_clear_mod(s.mmio[0]).unwrap()), 0, "H_CLEAR_MOD");
    assert_eq!(moved(|s| s.world.vm.page_out(GuestPhysAddr(PAGE)).unwrap()), 0, "page-out");
    assert_eq!(moved(|s| s.world.vm.page_in(GuestPhysAddr(2 * PAGE)).unwrap()), 0, "page-in");
    let slb = |s: &mut Scene| {
        s.world.vcpu.slb.slbie(mmio_ea(0));
        s.world.vcpu.slb.slbmte(s.world.guest.slb_entry(3, mmio_ea(0))).unwrap();
    };
    assert_eq!(moved(slb), 0, "slbie and slbmte");
}

#[test]
fn no_bump_means_that_hits_stay_hits() {
    let mut world = World::new();
    world.add_ram(2);
    let at = world.enter_mmio(0);
    world.enter_ram(0, 0);
    assert_miss(&world.store(mmio_ea(0)), MissClass::Cold);
    world.enter_mmio(1);
    assert_hit(&world.store(mmio_ea(0)));
    world.vm.h_read(0, at).unwrap();
    world.vm.h_clear_ref(at).unwrap();
    world.vm.h_clear_mod(at).unwrap();
    assert_hit(&world.store(mmio_ea(0)));
    world.vm.page_out(GuestPhysAddr(0)).unwrap();
    assert_hit(&world.load(mmio_ea(0)));
    world.vm.delete_memslot(0).unwrap();
    assert_hit(&world.store(mmio_ea(0)));
}

#[test]
fn one_remove_empties_all_entries_of_all_pages_on_all_vcpus() {
    let mut world = World::new();
    let at = [0, 1, 2, 3].map(|page| world.enter_mmio(page));
    let mut other = common::new_vcpu(&world.vm, &world.guest, VcpuConfig::default());
    let store = common::touch(Direction::Store);
    for page in 0..4 {
        world.store(mmio_ea(page));
        store.perform(&world.vm, &mut other, mmio_ea(page), 0);
        assert_hit(&world.store(mmio_ea(page)));
        assert_hit(&store.perform(&world.vm, &mut other, mmio_ea(page), 0));
    }
    world.vm.h_remove(0, at[0], 0).unwrap();
    assert_ne!(reflected(&world.store(mmio_ea(0))) & DSISR_NOHPTE, 0);
    for page in 1..4 {
        assert_miss(&world.store(mmio_ea(page)), MissClass::Generation);
        assert_miss(&store.perform(&world.vm, &mut other, mmio_ea(page), 0), MissClass::Generation);
        assert_hit(&world.store(mmio_ea(page)));
    }
}

/// A world in which page 0 is cached and the early handler has just hit it for a store.
fn between_the_steps() -> (World, PteIndex, hvmmio::kvm_hv::Fault) {
    let mut world = World::new();
    let at = world.enter_mmio(0);
    world.store(mmio_ea(0));
    world.vcpu.gpr[4] = mmio_ea(0).0;
    let fault = world.no_hpte(mmio_ea(0), Direction::Store);
    let mut stages = common::stages();
    assert_eq!(world.vcpu.early_fault(&world.vm, &fault, &mut stages), EarlyStep::Host { insn_loaded: true });
    assert!(!stages.contains(hvmmio::kvm_hv::Stage::HptSearch), "it was a hit: {stages:?}");
    (world, at, fault)
}

#[test]
fn recheck_between_steps_nothing_moved_the_hit_is_trusted() {
    let (mut world, _, fault) = between_the_steps();
    let step = world.vcpu.full_fault(&world.vm, &fault, STW, &mut common::stages());
    assert!(matches!(step, FullStep::Exit { exit, cache: CacheUse::Hit } if exit.gpa == mmio_gpa(0)), "{step:?}");
}

#[test]
fn recheck_between_steps_h_remove_of_the_page_is_retried_then_reflected() {
    let (mut world, at, fault) = between_the_steps();
    world.vm.h_remove(0, at, 0).unwrap();
    let step = world.vcpu.full_fault(&world.vm, &fault, STW, &mut common::stages());
    assert_eq!(step, FullStep::Retry(RetryReason::HpteChanged));
    assert_ne!(reflected(&world.store(mmio_ea(0))) & DSISR_NOHPTE, 0);
}

#[test]
fn recheck_between_steps_h_protect_is_emulated_without_a_new_permission_check() {
    let (mut world, at, fault) = between_the_steps();
    world.vm.h_protect(ProtectFlags(PP_RXRX), at, 0).unwrap();
    let step = world.vcpu.full_fault(&world.vm, &fault, STW, &mut common::stages());
    let FullStep::Exit { exit, cache } = step else { panic!("{step:?}") };
    assert_eq!((exit.gpa, cache), (mmio_gpa(0), CacheUse::Miss(Some(MissClass::Generation))));
    assert_ne!(reflected(&world.store(mmio_ea(0))) & DSISR_PROTFAULT, 0, "the next one is checked");
}

#[test]
fn recheck_between_steps_a_memslot_added_there_serves_it_as_ram() {
    let (mut world, _, fault) = between_the_steps();
    world.vm.set_memslot(0, mmio_gpa(0), PAGE, 16).unwrap();
    let step = world.vcpu.full_fault(&world.vm, &fault, STW, &mut common::stages());
    assert_eq!(step, FullStep::Retry(RetryReason::Mapped));
    let record = world.store(mmio_ea(0));
    assert_ram(&record);
    assert!(!record.ram_as_mmio);
}

#[test]
fn recheck_between_steps_another_pages_removal_takes_the_slow_form_to_the_same_place() {
    let (mut world, _, fault) = between_the_steps();
    let other = world.enter_mmio(1);
    world.vm.h_remove(0, other, 0).unwrap();
    let step = world.vcpu.full_fault(&world.vm, &fault, STW, &mut common::stages());
    let FullStep::Exit { exit, cache } = step else { panic!("{step:?}") };
    assert_eq!((exit.gpa, cache), (mmio_gpa(0), CacheUse::Miss(Some(MissClass::Generation))));
}

#[test]
fn direction_mismatch_the_fault_says_store_and_memory_holds_lwz_retry_without_an_exit() {
    let (mut world, _, fault) = between_the_steps();
    let pc = world.vcpu.pc;
    let step = world.vcpu.full_fault(&world.vm, &fault, LWZ, &mut common::stages());
    assert_eq!(step, FullStep::Retry(RetryReason::DirectionMismatch));
    let step = world.vcpu.full_fault(&world.vm, &fault, hvmmio::kvm_hv::Fetch::Fails, &mut common::stages());
    assert_eq!(step, FullStep::Retry(RetryReason::FetchFailed));
    assert_eq!(world.vcpu.pc, pc);
}
