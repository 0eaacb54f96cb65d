//! Steps on a real KVM Book3S HV: what the kernel does with a hash guest. Skipped where there is none.

#![cfg(all(target_os = "linux", target_arch = "powerpc64", target_endian = "little"))]

#[path = "skip/mod.rs"]
mod skip;

use hvmmio::addr::{EffectiveAddr, GuestPhysAddr, Vsid};
use hvmmio::book3s::hash::HashKey;
use hvmmio::book3s::hpte::{HPTE_R_C, HPTE_R_G, HPTE_R_I, HPTE_R_M, HPTE_R_R, HPTE_V_BOLTED, HPTE_V_VALID, PP_RWXX};
use hvmmio::book3s::insn::{Direction, Offset, asm, load_store};
use hvmmio::book3s::msr::{DSISR_BADACCESS, DSISR_ISSTORE};
use hvmmio::book3s::slb::SegmentSize;
use hvmmio::book3s::{Hpte, PageSize, SlbEntry};
use hvmmio::host::ppc64::{HashGuest, System, Tracing};
use hvmmio::kvm_hv::memslot::DirtyLog;
use hvmmio::workload::steps::{
    AccessSeen, Answer, Attach, End, ExitSeen, GuestAccess, GuestOp, HcallMode, Lookup, RUNTIME_BYTES, STREAM_GPA,
    STUB_EA, Step, StepExecutor, VmmOp, answer_to_load,
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
fn a_dirty_log_is_refused_where_a_removal_would_stop_the_processor_and_kept_elsewhere() {
    let Some(mut guest) = guest() else { return };
    let ea = 0x900_0000;
    let slot = VmmOp::SetMemslot { id: 1, base: STREAM_GPA, size: 1 << 16, dirty_log: DirtyLog::On };
    let logged = guest.perform(&[Step::Vmm(slot), enter(ea, STREAM_GPA.0, HPTE_R_M), access("stw", ea, 1)]);
    match guest.hcall_mode() {
        HcallMode::Real => {
            let error = logged.unwrap_err().to_string();
            assert!(error.contains("dirty log of memslot 1") && error.contains("real mode"), "{error}");
        }
        HcallMode::Virtual => {
            let logged = logged.unwrap();
            assert_eq!(logged[0], Answer::Vmm { errno: 0 });
            assert_eq!(seen(&logged[2]).end, End::Completed);
            let Answer::Hcall { code: 0, values: [at, ..] } = logged[1] else { panic!("{:x?}", logged[1]) };
            let removed = guest.perform(&[hcall(0x04, &[0, at, 0])]).unwrap();
            assert!(matches!(removed[0], Answer::Hcall { code: 0, .. }), "{removed:x?}");
        }
    }
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
fn h7_a_load_that_counts_as_a_store_retries_for_ever_and_the_guest_is_moved_past_it() {
    let Some(mut guest) = guest() else { return };
    let at_mmio = |word| Step::Guest(GuestOp::Access(GuestAccess { word, ra: MMIO_EA, rb: 0, rt: 0 }));
    // lxv vs14,0(r15). lmw would do, but not in little-endian mode.
    let lxv = 61 << 26 | 14 << 21 | u32::from(GuestAccess::RA) << 16 | 1;
    let steps = [at_mmio(asm::icbi(GuestAccess::RA, GuestAccess::RB)), at_mmio(lxv), access("stw", MMIO_EA, 1)];
    let answers = guest.perform(&steps).unwrap();
    let ends: Vec<_> = answers.iter().map(|answer| seen(answer).end).collect();
    assert_eq!((ends[0], ends[2]), (End::Retries, End::Completed));
    // A processor before POWER9 has no lxv: a program interrupt.
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    if cpuinfo.contains("POWER8") {
        assert!(matches!(ends[1], End::Interrupt { vector: 0x700, .. }), "{:?}", ends[1]);
    } else {
        assert_eq!(ends[1], End::Retries);
    }
}

#[test]
fn the_table_read_back_has_every_page_that_was_entered_and_the_host_has_key_31_in_the_device_pages() {
    let Some(mut guest) = guest() else { return };
    let table = guest.table().unwrap();
    for page in 0..8 {
        let v = key(MMIO_EA + page * 4096).hpte_v() | HPTE_V_VALID;
        let r = MMIO_GPA + page * 4096 | HPTE_R_R | HPTE_R_C | HPTE_R_I | HPTE_R_G;
        assert!(table.iter().any(|(_, hpte)| (hpte.v, hpte.r) == (v, r)), "page {page}: {table:x?}");
    }
    let host = guest.host_table().unwrap();
    assert_eq!(host.iter().filter(|(_, hpte, _)| hpte.is_mmio()).count(), 8);
    // The rest of the guest's view is the stub's 16 pages and the VRMA, bolted.
    let bolted = table.iter().filter(|(_, hpte)| hpte.v & HPTE_V_BOLTED != 0).count();
    assert_eq!((table.len(), bolted), (8 + 16 + bolted, vrma_entries()));
}

#[test]
fn an_entry_that_the_vmm_writes_is_read_back_and_goes_with_a_new_table() {
    let Some(mut guest) = guest() else { return };
    let (index, entry) = guest.table().unwrap().into_iter().find(|(_, hpte)| hpte.v & HPTE_V_BOLTED == 0).unwrap();
    let gone = Hpte { v: entry.v & !HPTE_V_VALID, ..entry };
    let mut vmm = |op| {
        let answers = guest.perform(&[Step::Vmm(op)]).unwrap();
        let [Answer::Vmm { errno }] = answers[..] else { panic!("{answers:?}") };
        errno
    };
    assert_eq!(vmm(VmmOp::WriteHtab { index, entry: gone }), 0);
    assert_eq!(vmm(VmmOp::WriteHtab { index, entry }), 0);
    assert_eq!(vmm(VmmOp::ResizeHpt { order: 17 }), EINVAL);
    assert_eq!(vmm(VmmOp::AllocateHtab { order: ORDER }), 0);
    assert_eq!(guest.table().unwrap().len(), 0);
    // The guest still runs: the VRMA's entries come with the next KVM_RUN.
    let answers = guest.perform(&begin()).unwrap();
    assert!(
        answers.iter().all(|answer| matches!(answer, Answer::Done | Answer::Hcall { code: 0, .. })),
        "{answers:x?}"
    );
    let resized = guest.perform(&[Step::Vmm(VmmOp::ResizeHpt { order: 19 }), access("stw", MMIO_EA, 1)]).unwrap();
    assert_eq!(resized[0], Answer::Vmm { errno: 0 });
    // The stub's page was not bolted: it is gone, and the access ends where it begins.
    assert!(matches!(seen(&resized[1]).end, End::Interrupt { vector: 0x400, .. }), "{:x?}", resized[1]);
}

const EINVAL: i32 = 22;

/// One entry a host page of the runtime's memory, which lies in no larger pages (`kvmppc_map_vrma`).
fn vrma_entries() -> usize {
    let kernel_page_kib =
        |line: &str| line.strip_prefix("KernelPageSize:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let page = smaps.lines().find_map(kernel_page_kib).unwrap() << 10;
    usize::try_from(RUNTIME_BYTES / page).unwrap()
}

#[test]
fn an_ioeventfd_counts_stores_that_match_and_refuses_a_collision() {
    let Some(mut guest) = guest() else { return };
    let gpa = GuestPhysAddr(MMIO_GPA);
    let at = |length, datamatch, attach| Step::Vmm(VmmOp::Ioeventfd { gpa, length, datamatch, attach });
    let steps = [
        at(4, Some(7), Attach::Assign),
        at(4, Some(7), Attach::Assign),
        at(0, Some(7), Attach::Assign),
        at(2, None, Attach::Deassign),
        access("stw", MMIO_EA, 7),
        access("stw", MMIO_EA, 8),
        at(4, Some(7), Attach::Deassign),
        access("stw", MMIO_EA, 7),
    ];
    let answers = guest.perform(&steps).unwrap();
    let errno = |index: usize| if let Answer::Vmm { errno } = answers[index] { errno } else { -1 };
    let (eexist, einval, enoent) = (17, 22, 2);
    assert_eq!([0, 1, 2, 3, 6].map(errno), [0, eexist, einval, enoent, 0]);
    assert_eq!([4, 5, 7].map(|index| seen(&answers[index]).exit.is_some()), [false, true, true]);
    assert_eq!(guest.eventfds().unwrap(), [1]);
}

/// Hazard H3: a memslot is added over a cached device page, the page is used as RAM, and leaves: its next load is taken for MMIO.
#[test]
fn h3_ram_that_was_cached_as_mmio_and_left_exits_as_mmio_and_does_not_without_the_earlier_access() {
    for cached in [true, false] {
        let Some(mut guest) = guest() else { return };
        let (ea, gpa) = (0x300_0000, STREAM_GPA);
        let mut steps = vec![enter(ea, gpa.0, HPTE_R_M)];
        let slot = VmmOp::SetMemslot { id: 1, base: gpa, size: 0x10_0000, dirty_log: DirtyLog::Off };
        steps.push(Step::Vmm(slot));
        if cached {
            steps.push(access("ld", ea, 0));
        }
        steps.extend([Step::Vmm(VmmOp::PageOut { gpa }), access("ld", ea, 0), access("ld", ea, 0)]);
        let answers = guest.perform(&steps).unwrap();
        let last: Vec<_> = answers[answers.len() - 2..].iter().map(seen).collect();
        assert_eq!(last.iter().all(|seen| seen.exit.is_some() && seen.lookup == Lookup::Hit), cached, "{last:x?}");
    }
}

/// The folders of trace instances that this program, or one with that number, has made.
fn instances(pid: u32) -> usize {
    let name = format!("hvmmio-{pid}");
    let places = ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];
    let found = places.iter().filter(|place| std::path::Path::new(place).join(&name).exists());
    let probes = std::fs::read_to_string("/sys/kernel/tracing/kprobe_events").unwrap_or_default();
    found.count() + probes.matches(&format!("emulate_{pid} ")).count()
}

#[test]
fn the_trace_instance_and_its_kprobe_go_with_the_guest() {
    let Some(guest) = guest() else { return };
    if let Some(note) = guest.note() {
        return skip::skipped(note);
    }
    assert!(instances(std::process::id()) >= 2);
    drop(guest);
    assert_eq!(instances(std::process::id()), 0);
}

#[test]
#[ignore = "run by the next test, which ends it by a signal"]
fn a_guest_that_waits_for_a_signal() {
    let _guest = guest();
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn the_trace_instance_and_its_kprobe_go_when_a_signal_ends_the_process() {
    let Some(guest) = guest() else { return };
    if let Some(note) = guest.note() {
        return skip::skipped(note);
    }
    drop(guest);
    for signal in ["INT", "TERM"] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_guest_that_waits_for_a_signal", "--ignored"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let start = std::time::Instant::now();
        while instances(child.id()) < 2 {
            assert!(start.elapsed().as_secs() < 30, "the child did not start");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        std::process::Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(!child.wait().unwrap().success());
        assert_eq!(instances(child.id()), 0, "SIG{signal}");
    }
}

#[test]
fn a_refused_quadword_access_sets_dsisr_by_what_it_is_not_by_the_mmio_before_it() {
    let Some(mut guest) = guest() else { return };
    // Fields of a quadword access: an even RT, DS form for the store, DQ form for the load.
    let fields = 14 << 21 | u32::from(GuestAccess::RA) << 16;
    let refused = |word| Step::Guest(GuestOp::Access(GuestAccess { word, ra: MMIO_EA, rb: 0, rt: 0 }));
    let (stq, lq) = (62 << 26 | fields | 2, 56 << 26 | fields);
    let steps = [
        access("lwz", MMIO_EA, 0),
        refused(stq),
        access("stw", MMIO_EA, 0),
        refused(stq),
        access("lwz", MMIO_EA, 0),
        refused(lq),
        access("stw", MMIO_EA, 0),
        refused(lq),
    ];
    let answers = guest.perform(&steps).unwrap();
    let ends: Vec<_> = answers.iter().skip(1).step_by(2).map(|answer| seen(answer).end).collect();
    let interrupt = |dsisr| End::Interrupt { vector: 0x300, dsisr, dar: MMIO_EA };
    let (store, load) = (interrupt(DSISR_BADACCESS | DSISR_ISSTORE), interrupt(DSISR_BADACCESS));
    assert_eq!(ends, [store, store, load, load], "after a load and a store: stq, then lq");
}
