//! Steps on a real KVM Book3S HV: what the kernel does with a hash guest. Skipped where there is none.

#![cfg(all(target_os = "linux", target_arch = "powerpc64", target_endian = "little"))]

#[path = "skip/mod.rs"]
mod skip;

use hvmmio::addr::{EffectiveAddr, GuestPhysAddr, Vsid};
use hvmmio::book3s::hash::HashKey;
use hvmmio::book3s::hpte::{HPTE_R_C, HPTE_R_G, HPTE_R_I, HPTE_R_M, HPTE_R_R, HPTE_V_VALID, PP_RWXX};
use hvmmio::book3s::insn::{Direction, Offset, load_store};
use hvmmio::book3s::slb::SegmentSize;
use hvmmio::book3s::{PageSize, SlbEntry};
use hvmmio::host::ppc64::{HashGuest, System, Tracing};
use hvmmio::kvm_hv::memslot::DirtyLog;
use hvmmio::workload::steps::{
    AccessSeen, Answer, End, ExitSeen, GuestAccess, GuestOp, Lookup, STREAM_GPA, STUB_EA, Step, StepExecutor, VmmOp,
    answer_to_load,
};

const VSID: u64 = 0x1234;
const MMIO_EA: u64 = 0x800_0000;
const MMIO_GPA: u64 = 0x1_0000_0000;
const ORDER: u32 = 18;

fn segment() -> SlbEntry {
    SlbEntry::new(0, EffectiveAddr(0), SegmentSize::M256, Vsid(VSID), PageSize::K4)
}

fn key(ea: u64) -> HashKey {
    HashKey::new(EffectiveAddr(ea), segment().vsid)
}

fn enter(ea: u64, gpa: u64, wimg: u64) -> Step {
    let key = key(ea);
    let group = key.hash & ((1 << (ORDER - 7)) - 1);
    let r = gpa | HPTE_R_R | HPTE_R_C | wimg | PP_RWXX;
    hcall(0x08, &[0, group << 3, key.hpte_v() | HPTE_V_VALID, r])
}

fn hcall(number: u64, given: &[u64]) -> Step {
    let mut args = [0; 9];
    args[..given.len()].copy_from_slice(given);
    Step::Guest(GuestOp::Hcall { number, args })
}

fn access(name: &str, ea: u64, value: u64) -> Step {
    let word = load_store(name, GuestAccess::RT, GuestAccess::RA, Offset::Displacement(0)).unwrap();
    Step::Guest(GuestOp::Access(GuestAccess { word, ra: ea, rb: 0, rt: value }))
}

fn begin() -> Vec<Step> {
    let slb = segment();
    let mut steps = vec![Step::Guest(GuestOp::Slbmte { rs: slb.vsid, rb: slb.esid })];
    steps.extend((0..16).map(|page| enter(STUB_EA.0 + page * 4096, STUB_EA.0 + page * 4096, HPTE_R_M)));
    steps.extend((0..8).map(|page| enter(MMIO_EA + page * 4096, MMIO_GPA + page * 4096, HPTE_R_I | HPTE_R_G)));
    steps
}

fn guest() -> Option<HashGuest> {
    let system = match System::open() {
        Ok(system) => system,
        Err(error) => {
            skip::skipped(&error.to_string());
            return None;
        }
    };
    let mut guest = HashGuest::new(&system, ORDER, Tracing::On).unwrap();
    for (index, answer) in guest.perform(&begin()).unwrap().iter().enumerate() {
        assert!(matches!(answer, Answer::Done | Answer::Hcall { code: 0, .. }), "step {index}: {answer:x?}");
    }
    Some(guest)
}

fn seen(answer: &Answer) -> AccessSeen {
    let Answer::Access(seen) = answer else { panic!("{answer:x?}") };
    *seen
}

fn lookups(answers: &[Answer]) -> Vec<Lookup> {
    answers.iter().map(|answer| seen(answer).lookup).collect()
}

#[test]
fn a_store_exits_with_its_data_and_a_load_brings_what_the_vmm_answered() {
    let Some(mut guest) = guest() else { return };
    let answers = guest.perform(&[access("stw", MMIO_EA + 8, 0x1122_3344), access("lhz", MMIO_EA + 8, 0)]).unwrap();
    let gpa = GuestPhysAddr(MMIO_GPA + 8);
    let store = seen(&answers[0]);
    assert_eq!(store.end, End::Completed);
    let data = [0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0];
    assert_eq!(store.exit, Some(ExitSeen { gpa, direction: Direction::Store, len: 4, data }));
    let load = seen(&answers[1]);
    let answered = answer_to_load(gpa);
    assert_eq!(load.rt, u64::from(u16::from_le_bytes([answered[0], answered[1]])));
}

#[test]
fn the_first_access_of_a_page_misses_the_second_hits_and_the_fifth_page_evicts_the_first() {
    let Some(mut guest) = guest() else { return };
    let pages = [0, 0, 1, 2, 3, 0, 4, 1, 0];
    let steps: Vec<_> = pages.iter().map(|page| access("stw", MMIO_EA + page * 4096, 1)).collect();
    let answers = guest.perform(&steps).unwrap();
    use Lookup::{Hit, Miss};
    assert_eq!(lookups(&answers), [Miss, Hit, Miss, Miss, Miss, Hit, Miss, Hit, Miss], "{:?}", guest.note());
}

#[test]
fn ram_is_no_mmio_and_a_page_that_left_comes_back_as_zeroes() {
    let Some(mut guest) = guest() else { return };
    let (ea, gpa) = (0x200_0000, STREAM_GPA);
    let slot = VmmOp::SetMemslot { id: 1, base: gpa, size: 0x10_0000, dirty_log: DirtyLog::Off };
    let steps = [
        Step::Vmm(slot),
        enter(ea, gpa.0, HPTE_R_M),
        access("std", ea, 0x55),
        access("ld", ea, 0),
        Step::Vmm(VmmOp::PageOut { gpa }),
        access("ld", ea, 1),
    ];
    let answers = guest.perform(&steps).unwrap();
    assert_eq!(answers[0], Answer::Vmm { errno: 0 });
    assert_eq!(lookups(&answers[2..4]), [Lookup::NotMmio; 2]);
    assert_eq!((seen(&answers[3]).rt, seen(&answers[5]).rt), (0x55, 0));
}

#[test]
fn an_access_without_an_hpte_ends_in_a_data_storage_interrupt_that_says_where() {
    let Some(mut guest) = guest() else { return };
    let answers = guest.perform(&[access("stw", 0x700_0010, 1), access("stw", MMIO_EA, 1)]).unwrap();
    let (dsisr, dar) = (0x4200_0000, 0x700_0010);
    assert_eq!(seen(&answers[0]).end, End::Interrupt { vector: 0x300, dsisr, dar });
    assert_eq!(seen(&answers[1]).end, End::Completed, "the guest goes on");
}

#[test]
fn a_load_multiple_of_mmio_retries_for_ever_and_the_guest_is_moved_past_it() {
    let Some(mut guest) = guest() else { return };
    // lmw r29,0(r15): the kernel's direction rule takes it for a store.
    let lmw = 46 << 26 | 29 << 21 | u32::from(GuestAccess::RA) << 16;
    let lmw = Step::Guest(GuestOp::Access(GuestAccess { word: lmw, ra: MMIO_EA, rb: 0, rt: 0 }));
    let answers = guest.perform(&[lmw, access("stw", MMIO_EA, 1)]).unwrap();
    assert_eq!(seen(&answers[0]).end, End::Retries);
    assert_eq!(seen(&answers[1]).end, End::Completed);
}

#[test]
fn the_table_read_back_has_every_page_that_was_entered() {
    let Some(mut guest) = guest() else { return };
    let table = guest.table().unwrap();
    for page in 0..8 {
        let found = table
            .iter()
            .find(|(_, hpte)| hpte.v & !1 == key(MMIO_EA + page * 4096).hpte_v() && hpte.r & 0xffff_f000 == page << 12);
        assert!(found.is_some(), "page {page}");
    }
    let host = guest.host_table().unwrap();
    println!("guest's view {} entries, host's {}", table.len(), host.len());
    for (index, hpte) in &table[..4] {
        println!("{index} {:#x} {:#x}", hpte.v, hpte.r);
    }
    for (index, hpte, guest) in host.iter().filter(|(_, hpte, _)| hpte.is_mmio()).take(3) {
        println!("{index} {:#x} {:#x} {guest:#x}", hpte.v, hpte.r);
    }
    assert_eq!(host.iter().filter(|(_, hpte, _)| hpte.is_mmio()).count(), 8);
    let (index, entry) = table[0];
    println!(
        "{:?}",
        guest.perform(&[
            Step::Vmm(VmmOp::AllocateHtab { order: ORDER }),
            Step::Vmm(VmmOp::WriteHtab { index, entry }),
            Step::Vmm(VmmOp::ResizeHpt { order: 19 })
        ])
    );
}
