//! Hit or miss from trace lines.
//!
//! `kvm_page_fault_enter` fires when the full handler goes the slow way: a fault whose HPTE came from the cache returns before
//! it. It names the memslot it found, and without one the access is emulated next: with one it was a fault of RAM, which the
//! guest tries again, and a hit may come of that (H3). A kprobe on `kvmppc_hv_emulate_mmio` fires for every emulated access.
//! The trace's clock is the time base (`ppc-tb`), which the guest reads too, so that an access's lines are those between its
//! two stamps.

use crate::addr::EffectiveAddr;
use crate::host::HostError;
use crate::trace::ftrace::{self, Event};
use crate::workload::steps::Lookup;

/// First frame of the memslot that `kvm_page_fault_enter` tells where there is none.
const NO_MEMSLOT: u64 = u64::MAX;

/// What a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `kvm_page_fault_enter` that found no memslot.
    Fault,
    /// The kprobe on `kvmppc_hv_emulate_mmio`.
    Emulated,
}

/// A line that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Time base.
    pub at: u64,
    pub kind: Kind,
    /// Effective address of the fault.
    pub ea: EffectiveAddr,
}

/// The lines of a trace; `probe` is the kprobe's name.
pub(super) fn parse(text: &str, probe: &str) -> Result<Vec<Line>, HostError> {
    let mut lines = Vec::new();
    for text in text.lines() {
        let odd = || HostError::Nonsense { what: format!("a trace line: `{text}`") };
        let lost = || {
            let what = format!("the trace lost events (`{}`): its buffer is too small for a batch", text.trim());
            HostError::Wrong(what)
        };
        let found = match ftrace::parse(text.as_bytes()).map_err(|_| odd())? {
            ftrace::Line::Event(found) => found,
            ftrace::Line::Lost(_) => return Err(lost()),
            ftrace::Line::Entries { kept, written } if kept < written => return Err(lost()),
            ftrace::Line::Entries { .. } | ftrace::Line::Nothing => continue,
        };
        let (kind, ea) = match found.event {
            Event::PageFaultEnter { ea, base_gfn: NO_MEMSLOT, .. } => (Kind::Fault, ea),
            Event::EmulateMmio { ea, .. } => (Kind::Emulated, ea),
            _ if found.name == probe.as_bytes() => return Err(odd()),
            _ => continue,
        };
        lines.push(Line { at: found.at, kind, ea });
    }
    Ok(lines)
}

/// An access, as far as its lines are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub before: u64,
    pub after: u64,
    /// None if its instruction is none that the decoder knows.
    pub ea: Option<EffectiveAddr>,
}

/// What the cache did with an access: by its first emulation.
pub(super) fn lookup(lines: &[Line], window: &Window) -> Lookup {
    let mut missed = false;
    let first = lines.partition_point(|line| line.at < window.before);
    for line in lines[first..].iter().take_while(|line| line.at <= window.after) {
        // Faults of the runtime itself go to other addresses.
        if window.ea.is_some_and(|ea| ea != line.ea) {
            continue;
        }
        match line.kind {
            Kind::Fault => missed = true,
            Kind::Emulated if missed => return Lookup::Miss,
            Kind::Emulated => return Lookup::Hit,
        }
    }
    Lookup::NotMmio
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.1.176, POWER9; the time base in place of seconds.
    const TEXT: &str = "\
# tracer: nop
          hvmmio-101     [000] .....  3154953: kvm_page_fault_enter: VCPU 0: hpte=0x1234820:0x3000000100003fa8 guest=0x1000031a8 ea=0x8003000,42000000 slot=0xffffffffffffffff,0x0
          hvmmio-101     [000] .....  3154955: emulate_101: (kvmppc_hv_emulate_mmio+0xc/0x220 [kvm_hv]) gpa=0x100003000 ea=0x8003000 is_store=33554432
          hvmmio-101     [000] .....  3155055: emulate_101: (kvmppc_hv_emulate_mmio+0xc/0x220 [kvm_hv]) gpa=0x100003000 ea=0x8003000 is_store=33554432
          hvmmio-101     [000] .....  3155100: kvm_page_fault_enter: VCPU 0: hpte=0x4001ffffff000034:0x1190 guest=0x51190 ea=0x5fee8,42000000 slot=0x0,0x0
          hvmmio-101     [000] .....  3155101: emulate_101: (kvmppc_hv_emulate_mmio+0xc/0x220 [kvm_hv]) gpa=0x100003000 ea=0x8003000 is_store=0
          hvmmio-101     [000] .....  3155155: kvm_page_fault_enter: VCPU 0: hpte=0x4001ffffff000034:0x1190 guest=0x51190 ea=0x5000,42000000 slot=0x0,0x0
";

    fn at(before: u64, after: u64, ea: u64) -> Lookup {
        let ea = Some(EffectiveAddr(ea));
        lookup(&parse(TEXT, "emulate_101").unwrap(), &Window { before, after, ea })
    }

    #[test]
    fn an_access_with_a_page_fault_before_its_emulation_missed_and_one_without_hit() {
        assert_eq!(at(3_154_900, 3_154_999, 0x800_3000), Lookup::Miss);
        assert_eq!(at(3_155_000, 3_155_060, 0x800_3000), Lookup::Hit);
    }

    #[test]
    fn a_hit_after_a_page_fault_of_ram_is_a_hit() {
        let text = "\
          hvmmio-101     [000] .....  100: kvm_page_fault_enter: VCPU 0: hpte=0x1:0x2 guest=0x3 ea=0x8003000,a000000 slot=0x1000,0x0
          hvmmio-101     [000] .....  105: emulate_101: (kvmppc_hv_emulate_mmio+0xc/0x220 [kvm_hv]) gpa=0x10000000 ea=0x8003000 is_store=33554432
";
        let window = Window { before: 90, after: 110, ea: Some(EffectiveAddr(0x800_3000)) };
        assert_eq!(lookup(&parse(text, "emulate_101").unwrap(), &window), Lookup::Hit);
    }

    #[test]
    fn a_page_fault_at_another_address_makes_no_miss() {
        assert_eq!(at(3_155_090, 3_155_110, 0x800_3000), Lookup::Hit);
    }

    #[test]
    fn an_access_that_was_not_emulated_is_no_mmio_whatever_faults_it_took() {
        assert_eq!(at(3_155_150, 3_155_200, 0x5000), Lookup::NotMmio);
        assert_eq!(at(1, 2, 0x800_3000), Lookup::NotMmio);
    }

    #[test]
    fn a_trace_that_lost_events_or_says_no_address_is_an_error_not_a_hit() {
        assert!(parse("CPU:0 [LOST 12 EVENTS]\n", "emulate_101").is_err());
        let overwritten = TEXT.replacen("# tracer: nop", "# entries-in-buffer/entries-written: 6/7   #P:1", 1);
        assert!(parse(&overwritten, "emulate_101").is_err());
        assert!(parse("h-1 [000] ..... 12: emulate_101: (x) gpa=0x1\n", "emulate_101").is_err());
        assert!(parse("h-1 [000] ..... 1.5: emulate_101: (x) ea=0x1\n", "emulate_101").is_err());
    }
}
