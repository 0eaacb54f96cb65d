//! From an EA to the right physical address: every pair of page sizes, both segment sizes, both groups.

mod common;

use common::World;
use hvmmio::addr::{EffectiveAddr, GuestPhysAddr, Vsid};
use hvmmio::book3s::hpte::HPTE_V_SECONDARY;
use hvmmio::book3s::slb::SegmentSize;
use hvmmio::book3s::{Hpte, PageSizes};
use hvmmio::kvm_hv::{Outcome, Record, Stage, flags};
use hvmmio::workload::guest::{Guest, PageUse};

/// Segment of the EA under test, in each segment size one that is not the first.
const EA: u64 = 0xd000_0300_0000_0000;

fn guests() -> impl Iterator<Item = Guest> {
    PageSizes::ALL.into_iter().flat_map(|sizes| {
        [SegmentSize::M256, SegmentSize::T1]
            .into_iter()
            .filter(move |segment| sizes.actual.shift() <= segment.shift())
            .map(move |segment| Guest { segment, vsid: Vsid(0x5_a5a5), sizes })
    })
}

/// An EA whose base page is not the first of its actual page, and an odd offset in it.
fn address(guest: &Guest, page: u64) -> EffectiveAddr {
    let (base, actual) = (guest.sizes.base.bytes(), guest.sizes.actual.bytes());
    let within = if actual > base { 5 * base } else { 0 };
    let pages = (1 << guest.segment.shift()) / actual;
    EffectiveAddr(EA + (page % pages) * actual + within + 0x9a8)
}

/// Enters the page of `ea` into the given group, as the first entry of it.
fn enter(world: &World, guest: &Guest, ea: EffectiveAddr, gpa: GuestPhysAddr, page: PageUse, secondary: bool) {
    let (hpte, key) = guest.hpte(ea, gpa, page).unwrap();
    let v = if secondary { hpte.v | HPTE_V_SECONDARY } else { hpte.v };
    let at = world.vm.hpt().group_index(&key, secondary);
    world.vm.h_enter(flags::H_EXACT, at, Hpte { v, ..hpte }).unwrap();
}

fn slow_search_went_secondary(record: &Record) -> bool {
    record.stages.attempts()[0].contains(Stage::HptSearchSecondary)
}

#[test]
fn mmio_is_emulated_at_the_right_address_for_every_size_pair_segment_and_group() {
    for guest in guests() {
        for secondary in [false, true] {
            for page in [0, 1, 3] {
                let mut world = World::new();
                let ea = address(&guest, page);
                let actual = guest.sizes.actual.bytes();
                world.vcpu.slb.slbmte(guest.slb_entry(0, ea)).unwrap();
                enter(&world, &guest, ea, GuestPhysAddr((1 << 50) + 7 * actual), PageUse::DEVICE, secondary);
                let wanted = GuestPhysAddr((1 << 50) + 7 * actual + (ea.0 & (actual - 1)));
                let case = format!("{guest:?} secondary {secondary} page {page}");
                let miss = world.store(ea);
                assert_eq!(miss.outcome.mmio_gpa(), Some(wanted), "{case}");
                assert_eq!(slow_search_went_secondary(&miss), secondary, "{case}");
                let hit = world.load(ea);
                common::assert_hit(&hit);
                assert_eq!(hit.outcome.mmio_gpa(), Some(wanted), "{case}");
                // Another place in the same base page hits too; the next base page has no HPTE.
                let next = EffectiveAddr((ea.0 & !(guest.sizes.base.bytes() - 1)) + guest.sizes.base.bytes() - 8);
                common::assert_hit(&world.store(next));
            }
        }
    }
}

#[test]
fn ram_is_mapped_at_the_right_address_for_every_size_pair_segment_and_group() {
    for guest in guests() {
        for secondary in [false, true] {
            let mut world = World::new();
            let ea = address(&guest, 1);
            let actual = guest.sizes.actual.bytes();
            let slot = actual.max(common::PAGE);
            world.vm.set_memslot(0, GuestPhysAddr(slot), 2 * slot, guest.sizes.actual.shift()).unwrap();
            world.vcpu.slb.slbmte(guest.slb_entry(0, ea)).unwrap();
            let base = GuestPhysAddr(2 * slot);
            enter(&world, &guest, ea, base, PageUse::RAM, secondary);
            let wanted = Outcome::Ram { gpa: GuestPhysAddr(base.0 + (ea.0 & (actual - 1))) };
            let case = format!("{guest:?} secondary {secondary}");
            assert_eq!(world.store(ea).outcome, wanted, "{case}");
            world.vm.page_out(base).unwrap();
            let faulted = world.load(ea);
            assert_eq!(faulted.outcome, wanted, "{case}");
            assert!(faulted.stages.attempts()[0].contains(Stage::PageIn), "{case}");
        }
    }
}

#[test]
fn an_entry_of_another_base_size_with_the_same_first_doubleword_is_no_match() {
    // 64 KiB in a 64 KiB segment and 16 MiB in a 16 MiB segment both have L = 1; only LP tells them apart.
    let mut world = World::new();
    let guest = world.guest;
    let ea = EffectiveAddr(common::EA);
    let (hpte, key) = guest.hpte(ea, GuestPhysAddr(1 << 50), PageUse::DEVICE).unwrap();
    let lp_of_16m = Hpte { r: hpte.r & !0xff_f000, ..hpte };
    let group = world.vm.hpt().group_index(&key, false);
    world.vm.h_enter(0, group, lp_of_16m).unwrap();
    common::reflected(&world.store(ea));
    world.vm.h_enter(0, group, hpte).unwrap();
    assert_eq!(world.store(ea).outcome.mmio_gpa(), Some(GuestPhysAddr(1 << 50)));
}

#[test]
fn a_full_primary_group_sends_the_guest_to_the_secondary_one() {
    let mut world = World::new();
    let guest = world.guest;
    let ea = common::mmio_ea(3);
    let (hpte, key) = guest.hpte(ea, common::mmio_gpa(3), PageUse::DEVICE).unwrap();
    let primary = world.vm.hpt().group_index(&key, false);
    for i in 0..8 {
        let other = Hpte { v: hpte.v ^ (i + 1) << 20, ..hpte };
        world.vm.h_enter(0, primary, other).unwrap();
    }
    let at = guest.map(&world.vm, ea, common::mmio_gpa(3), PageUse::DEVICE).unwrap();
    assert_eq!(at, world.vm.hpt().group_index(&key, true));
    assert_ne!(world.read(at).v & HPTE_V_SECONDARY, 0);
    let record = world.store(ea);
    assert!(slow_search_went_secondary(&record));
    assert_eq!(record.outcome.mmio_gpa(), Some(common::mmio_gpa(3)));
}

#[test]
fn an_ea_without_a_segment_is_a_data_segment_interrupt() {
    let mut world = World::new();
    let ea = EffectiveAddr(0x1234_0000);
    let record = world.store(ea);
    assert_eq!(record.outcome, Outcome::Reflected(hvmmio::kvm_hv::Interrupt::DataSegment { dar: ea }));
}
