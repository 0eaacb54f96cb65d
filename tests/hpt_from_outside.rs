//! What KVM and its VMM do to a table without a hypercall: the VRMA, a resize, writes to its file, the page of zeroes.

use hvmmio::addr::{EffectiveAddr, GuestPhysAddr, PteIndex};
use hvmmio::book3s::Hpte;
use hvmmio::book3s::hpte::{HPTE_R_C, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_BOLTED, HPTE_V_VALID, is_writable, key_bits};
use hvmmio::book3s::insn::{Direction, Size};
use hvmmio::kvm_hv::memslot::{DirtyLog, MemslotError};
use hvmmio::kvm_hv::{HcallError, HtabError, Outcome, ResizeError, VRMA_VSID, Vcpu, VcpuConfig, Vm, VmConfig, flags};
use hvmmio::workload::guest::{Guest, PageUse, Touch};

const EA: EffectiveAddr = EffectiveAddr(0x0200_0000_0000);
const MMIO: GuestPhysAddr = GuestPhysAddr(0x2000_0000_0000);
const RAM: GuestPhysAddr = GuestPhysAddr(0x1000_0000);

fn vm() -> Vm {
    let vm = Vm::new(VmConfig::default()).unwrap();
    vm.set_memslot(1, RAM, 1 << 20, 16).unwrap();
    vm
}

fn vcpu(vm: &Vm) -> Vcpu {
    let mut vcpu = Vcpu::new(vm, VcpuConfig::default());
    vcpu.slb.slbmte(Guest::default().slb_entry(1, EA)).unwrap();
    vcpu
}

fn perform(vm: &Vm, vcpu: &mut Vcpu, direction: Direction) -> Outcome {
    Touch::new(direction, Size::Word).unwrap().perform(vm, vcpu, EA, 1).outcome
}

fn bolted(vm: &Vm, gpa: GuestPhysAddr) -> (PteIndex, Hpte) {
    let (entry, key) = Guest::default().hpte(EA, gpa, PageUse::RAM).unwrap();
    (vm.hpt().group_index(&key, false), Hpte { v: entry.v | HPTE_V_BOLTED, r: entry.r & !(HPTE_R_R | HPTE_R_C) })
}

#[test]
fn the_vrma_is_one_bolted_entry_for_each_host_page_of_memslot_0_in_slot_7_of_its_group() {
    let vm = vm();
    assert_eq!((vm.map_vrma(), vm.hpt().used().count()), (Ok(()), 0), "without a memslot at 0 there is none");
    vm.set_memslot(0, GuestPhysAddr(0), 16 << 20, 16).unwrap();
    vm.map_vrma().unwrap();
    let entries: Vec<_> = vm.hpt().used().collect();
    assert_eq!(entries.len(), 256);
    let mut pages: Vec<_> = entries.iter().map(|(_, _, guest_r)| guest_r & !0xffff).collect();
    pages.sort_unstable();
    assert!(pages.iter().zip(0..).all(|(page, n)| *page == n << 16));
    for (at, entry, _) in entries {
        assert_eq!((at.0 % 8, entry.v << 2 >> 26), (7, VRMA_VSID.0), "{at}");
        assert!(entry.v & HPTE_V_BOLTED != 0 && entry.v & HPTE_V_VALID != 0);
    }
    assert_eq!(vm.map_vrma(), Err(HcallError::PtegFull), "a second time they are in the way");
}

#[test]
fn a_resize_keeps_bolted_entries_at_their_new_place_and_unmaps_all() {
    let vm = vm();
    let (at, entry) = bolted(&vm, RAM);
    vm.h_enter(flags::H_EXACT, at, entry).unwrap();
    let other = Guest::default().map(&vm, EffectiveAddr(EA.0 + (1 << 16)), MMIO, PageUse::DEVICE).unwrap();
    assert!(vm.hpt().peek(other).is_some() && vm.generation() > 0);
    vm.resize_hpt(20).unwrap();
    let (new, _) = bolted(&vm, RAM);
    let entries: Vec<_> = vm.hpt().used().map(|(at, entry, _)| (at, entry.v)).collect();
    assert_eq!(entries, [(new, entry.v & !HPTE_V_VALID | HPTE_V_ABSENT)]);
    assert_eq!((vm.hpt().order(), vm.generation()), (20, 0));
    // It is found there and mapped again.
    assert!(matches!(perform(&vm, &mut vcpu(&vm), Direction::Load), Outcome::Ram { .. }));
}

#[test]
fn a_resize_loses_the_guests_view_of_r_and_c_that_its_own_unmap_gathers() {
    let vm = vm();
    let (at, entry) = bolted(&vm, RAM);
    vm.h_enter(flags::H_EXACT, at, entry).unwrap();
    perform(&vm, &mut vcpu(&vm), Direction::Store);
    assert_eq!(vm.h_read(0, at).unwrap()[0].r & (HPTE_R_R | HPTE_R_C), HPTE_R_R | HPTE_R_C);
    vm.resize_hpt(19).unwrap();
    let (new, _) = bolted(&vm, RAM);
    let (_, guest_r) = vm.hpt().peek(new).unwrap();
    assert_eq!(guest_r & (HPTE_R_R | HPTE_R_C), 0);
}

#[test]
fn two_bolted_entries_for_one_place_of_a_smaller_table_are_refused() {
    let vm = Vm::new(VmConfig { hpt_order: 19, ..VmConfig::default() }).unwrap();
    let (at, entry) = bolted(&vm, MMIO);
    vm.h_enter(flags::H_EXACT, at, entry).unwrap();
    // As many pages on as the smaller table has groups.
    let (more, key) = Guest::default().hpte(EffectiveAddr(EA.0 + (2048 << 16)), MMIO, PageUse::DEVICE).unwrap();
    let second = vm.hpt().group_index(&key, false);
    vm.h_enter(flags::H_EXACT, second, Hpte { v: more.v | HPTE_V_BOLTED, r: more.r }).unwrap();
    let generation = vm.generation();
    assert_eq!(vm.resize_hpt(18), Err(ResizeError::Collision { index: at.max(second) }));
    assert_eq!((vm.hpt().order(), vm.generation()), (19, generation));
    assert!(matches!(vm.resize_hpt(17), Err(ResizeError::Hpt(_))));
}

#[test]
fn an_entry_written_over_an_mmio_entry_bumps_the_generation_and_one_into_a_free_slot_does_not() {
    let vm = vm();
    let (at, entry) = bolted(&vm, MMIO);
    let before = vm.generation();
    vm.write_htab(at, entry).unwrap();
    assert_eq!(vm.generation(), before);
    vm.write_htab(at, Hpte { r: entry.r | key_bits(1), ..entry }).unwrap();
    assert_eq!((vm.generation(), vm.h_read(0, at).unwrap()[0].r), (before + 1, entry.r | key_bits(1)));
    vm.write_htab(at, Hpte::default()).unwrap();
    assert_eq!((vm.generation(), vm.hpt().used().count()), (before + 2, 0));
    vm.write_htab(at, Hpte::default()).unwrap();
    assert_eq!(vm.generation(), before + 2);
}

#[test]
fn a_write_that_is_refused_has_removed_what_was_there_only_if_h_enter_refused_it() {
    let vm = vm();
    let (at, entry) = bolted(&vm, MMIO);
    vm.write_htab(at, entry).unwrap();
    let unassigned = Hpte { v: entry.v, r: entry.r & !0xff_f000 | 0x2000 };
    assert_eq!(vm.write_htab(at, unassigned), Err(HtabError::PageSize { index: at }));
    let beyond = PteIndex(vm.hpt().npte());
    assert_eq!(vm.write_htab(beyond, entry), Err(HtabError::Index { index: beyond }));
    assert_eq!(vm.hpt().used().count(), 1);
    let reserved_b = Hpte { v: entry.v | 1 << 63, r: entry.r };
    let refused = HtabError::Refused { index: at, source: HcallError::Parameter };
    assert_eq!((vm.write_htab(at, reserved_b), vm.hpt().used().count()), (Err(refused), 0));
}

#[test]
fn a_page_that_a_load_brought_in_is_read_only_until_a_store_gets_one_of_its_own() {
    let vm = vm();
    let at = Guest::default().map(&vm, EA, RAM, PageUse::RAM).unwrap();
    let mut vcpu = vcpu(&vm);
    let host_writable = || is_writable(vm.hpt().peek(at).unwrap().0.r);
    assert!(host_writable(), "new RAM is written to by the host");
    vm.page_out(RAM).unwrap();
    assert!(matches!(perform(&vm, &mut vcpu, Direction::Load), Outcome::Ram { .. }));
    assert!(!host_writable());
    assert!(matches!(perform(&vm, &mut vcpu, Direction::Store), Outcome::Ram { .. }));
    assert!(host_writable());
    // The host's own write does the same, and unmaps it.
    vm.page_out(RAM).unwrap();
    perform(&vm, &mut vcpu, Direction::Load);
    vm.page_in(RAM).unwrap();
    assert!(vm.hpt().peek(at).unwrap().0.v & HPTE_V_ABSENT != 0);
}

#[test]
fn h_enter_of_a_page_of_zeroes_is_valid_and_read_only_for_hardware_alone() {
    let vm = vm();
    let at = Guest::default().map(&vm, EA, RAM, PageUse::RAM).unwrap();
    vm.page_out(RAM).unwrap();
    perform(&vm, &mut vcpu(&vm), Direction::Load);
    vm.h_remove(0, at, 0).unwrap();
    let at = Guest::default().map(&vm, EA, RAM, PageUse::RAM).unwrap();
    let (entry, guest_r) = vm.hpt().peek(at).unwrap();
    assert!(entry.v & HPTE_V_VALID != 0 && !is_writable(entry.r) && is_writable(guest_r));
}

#[test]
fn a_memslot_that_moves_and_switches_its_log_in_one_call_bumps_the_generation_once() {
    let vm = vm();
    let before = vm.generation();
    let moved = GuestPhysAddr(RAM.0 + (1 << 24));
    vm.set_memory_region(1, moved, 1 << 20, 16, Some(DirtyLog::On)).unwrap();
    assert_eq!(vm.generation(), before + 1);
    vm.set_memory_region(1, moved, 1 << 20, 16, Some(DirtyLog::On)).unwrap();
    assert_eq!(vm.generation(), before + 1, "nothing changed");
    // Another size is told before another slot in the way.
    vm.set_memslot(2, RAM, 1 << 20, 16).unwrap();
    assert_eq!(vm.set_memslot(1, RAM, 1 << 16, 16), Err(MemslotError::Resize { id: 1 }));
}
