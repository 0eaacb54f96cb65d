//! Lines, one by one.

use proptest::prelude::*;

use super::*;
use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::insn::Direction;
use crate::trace::ftrace::{Hcall, IoDirection, MmioKind};

const FAULT: &str = "vmm-101     [002] .....    48.370959: kvm_page_fault_enter: VCPU 3: \
    hpte=0x1234820:0x3000000100002fa8 guest=0x1000021a8 ea=0x8002000,40000000 slot=0xffffffffffffffff,0x0";
const PROBE: &str = "             vmm-101     [000] .....    48.370961: hv_mmio: \
    (kvmppc_hv_emulate_mmio+0xc/0x220 [kvm_hv]) gpa=0x100002000 ea=0x8002000 is_store=33554432";

fn event(line: &str) -> EventLine<'_> {
    match parse(line.as_bytes()) {
        Ok(Line::Event(event)) => event,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_page_fault_line_tells_both_doublewords_and_its_memslot() {
    let line = event(FAULT);
    assert_eq!((line.comm, line.pid, line.cpu, line.at), (&b"vmm"[..], 101, 2, 48_370_959_000));
    let fields = Event::PageFaultEnter {
        vcpu: 3,
        hpte_v: 0x123_4820,
        hpte_r: 0x3000_0001_0000_2fa8,
        guest_r: 0x1_0000_21a8,
        ea: EffectiveAddr(0x800_2000),
        dsisr: 0x4000_0000,
        base_gfn: u64::MAX,
        pages: 0,
    };
    assert_eq!(line.event, fields);
}

#[test]
fn a_probe_on_kvmppc_hv_emulate_mmio_is_known_by_its_fields_whatever_its_name() {
    let mmio =
        |direction| Event::EmulateMmio { gpa: GuestPhysAddr(0x1_0000_2000), ea: EffectiveAddr(0x800_2000), direction };
    assert_eq!(event(PROBE).event, mmio(Direction::Store));
    let perf =
        "CPU 0/KVM  101/102 [001]    48.370961234: probe:other: (c00800000abc) gpa=4294975488 ea=134225920 is_store=0";
    let line = event(perf);
    assert_eq!((line.comm, line.pid, line.at), (&b"CPU 0/KVM"[..], 102, 48_370_961_234));
    assert_eq!((line.name, line.event), (&b"other"[..], mmio(Direction::Load)));
    let elsewhere = PROBE.replace("gpa=", "address=");
    assert_eq!(event(&elsewhere).event, Event::Other);
}

#[test]
fn a_hypercall_line_tells_name_and_four_registers() {
    let text = "vmm-101 (  101) [000] d..1. 6.694969: kvm_hv:kvm_hcall_enter: VCPU 0: hcall=H_REMOVE GPR4-7=0x80000000,0x11b9,0x1234800,0x0\r\n";
    let args = [0x8000_0000, 0x11b9, 0x123_4800, 0];
    assert_eq!(event(text).event, Event::HcallEnter { vcpu: 0, hcall: Hcall(b"H_REMOVE"), args });
    let text = "vmm-101 [000] 6.694970: kvm_hcall_exit:      VCPU 0: ret=RESUME_GUEST hcall_rc=H_NOT_FOUND";
    assert_eq!(event(text).event, Event::HcallExit { vcpu: 0, code: b"H_NOT_FOUND" });
}

#[test]
fn what_ran_between_exits_is_told() {
    let text = "vmm-101 [000] d.... 6.1: kvm_guest_exit: VCPU 0: trap=H_DATA_STORAGE pc=0x1017c msr=0x8000000000001003, ceded=0";
    let exit = Event::GuestExit { vcpu: 0, trap: b"H_DATA_STORAGE", pc: 0x1017c, msr: 0x8000_0000_0000_1003 };
    assert_eq!(event(text).event, exit);
    let text = "vmm-101 [000] d.... 6.1: kvm_guest_enter: VCPU 0: pc=0x10000 pexcp=0x0 ceded=0";
    assert_eq!(event(text).event, Event::GuestEnter { vcpu: 0, pc: 0x10000 });
    let text = "vmm-101 [000] ..... 6.1: kvmppc_run_vcpu_enter: VCPU 7: tgid=99";
    assert_eq!(event(text).event, Event::RunVcpuEnter { vcpu: 7, tgid: 99 });
    let text = "vmm-101 [000] ..... 6.1: kvm_page_fault_exit: VCPU 0: hpte=0x1ffffff000015:0x1190 ret=0x0";
    assert_eq!(event(text).event, Event::PageFaultExit { vcpu: 0, ret: 0 });
}

#[test]
fn x86_events_are_told_by_direction_length_and_address() {
    let text = "qemu-9 [003] 1.5: kvm_mmio: mmio unsatisfied-read len 4 gpa 0xfebf0000 val 0x0";
    let mmio = Event::KvmMmio { kind: MmioKind::UnsatisfiedRead, len: 4, gpa: GuestPhysAddr(0xfebf_0000) };
    assert_eq!(event(text).event, mmio);
    let text = "qemu-9 [003] 1.5: kvm_pio: pio_write at 0x70 size 1 count 3 val 0xa (...) ";
    let pio = Event::KvmPio { direction: IoDirection::Write, port: 0x70, size: 1, count: 3 };
    assert_eq!(event(text).event, pio);
    let text = "qemu-9 [003] 1.5: kvm_fast_mmio: fast mmio at gpa 0xfe003000";
    assert_eq!(event(text).event, Event::KvmFastMmio { gpa: GuestPhysAddr(0xfe00_3000) });
}

#[test]
fn lines_that_tell_of_lost_events_are_no_comments() {
    let lost = |text: &str| match parse(text.as_bytes()) {
        Ok(Line::Lost(lost)) => (lost.cpu, lost.events),
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(lost("CPU:2 [LOST 1234 EVENTS]"), (Some(2), Some(1234)));
    assert_eq!(lost("CPU:0 [77 EVENTS DROPPED]\n"), (Some(0), Some(77)));
    assert_eq!(lost("CPU:0 [EVENTS DROPPED]"), (Some(0), None));
    let entries = parse(b"# entries-in-buffer/entries-written: 15883/20000   #P:1");
    assert_eq!(entries, Ok(Line::Entries { kept: 15883, written: 20000 }));
    assert_eq!(parse(b"##### CPU 1 buffer started ####"), Ok(Line::Nothing));
}

#[test]
fn a_line_cut_within_its_fields_is_an_error_and_one_without_a_header_is_no_event() {
    // Where "ea=0x80" or "is_store=3" would still read as a number no line alone can tell.
    for cut in [PROBE.len() - 12, PROBE.len() - 26] {
        assert_eq!(parse(&PROBE.as_bytes()[..cut]), Err(LineError::Fields), "{}", &PROBE[..cut]);
    }
    assert_eq!(parse(b"0 is_store=0"), Err(LineError::NoEvent));
    assert_eq!(parse(b"slot=0xffffffffffffffff,0x0 [000]"), Err(LineError::NoEvent));
}

#[test]
fn brackets_in_a_thread_name_do_not_hide_the_cpu() {
    let line = event("a [7] b-12 [003] ..... 6.000001: sched_switch: x ==> y");
    assert_eq!((line.comm, line.pid, line.cpu, line.event), (&b"a [7] b"[..], 12, 3, Event::Other));
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(at in 0_usize..200, bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = parse(&bytes);
        for text in [FAULT, PROBE] {
            let mut line = text.as_bytes().to_vec();
            let at = at.min(line.len());
            line.splice(at..at, bytes.iter().copied());
            let _ = parse(&line);
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused_not_cut(digits in "[1-9][0-9]{20,30}") {
        let line = PROBE.replace("0x8002000", &digits);
        prop_assert_eq!(parse(line.as_bytes()), Err(LineError::Fields));
    }
}
