//! What is compared of two answers, and of two tables.

use crate::addr::PteIndex;
use crate::book3s::HashKey;
use crate::book3s::hpte::{HPTE_R_C, HPTE_R_R, HPTE_V_ABSENT, HPTE_V_AVPN_B, HPTE_V_HVLOCK, HPTE_V_VALID, Hpte};
use crate::book3s::slb::SegmentSize;
use crate::kvm_hv::{VRMA_VSID, flags, number};
use crate::workload::script::RUNTIME;
use crate::workload::steps::{AccessSeen, Answer, End, GuestOp, Lookup, RUNTIME_SLB, STUB_EA, Step};

/// Whether an entry belongs to the runtime: the stub's page or the VRMA, whose R and C depend on how the runtime works.
fn is_runtime(v: u64) -> bool {
    let stub = HashKey::new(STUB_EA, RUNTIME.slb_entry(RUNTIME_SLB, STUB_EA).vsid);
    let vrma = 1 << 62 | VRMA_VSID.0 << SegmentSize::T1.vsid_shift();
    /// What of AVPN is the VSID in a 1 TiB segment, with B.
    const T1_VSID: u64 = !0xff_ffff;
    v & HPTE_V_AVPN_B == stub.value & HPTE_V_AVPN_B || v & T1_VSID == vrma
}

/// An entry as both sides must have it.
pub(super) fn entry_seen(entry: Hpte) -> Hpte {
    let v = entry.v & !(HPTE_V_HVLOCK | HPTE_V_ABSENT) | HPTE_V_VALID;
    let rc = if is_runtime(v) { HPTE_R_R | HPTE_R_C } else { 0 };
    Hpte { v, r: entry.r & !rc }
}

/// What of an answer is compared. `other` is the other side's: where it cannot tell, nothing is.
pub(super) fn answer_seen(step: &Step, answer: &Answer, other: &Answer) -> Answer {
    match (step, *answer, other) {
        (_, Answer::Access(seen), Answer::Access(other)) => Answer::Access(access_seen(seen, *other)),
        (Step::Guest(GuestOp::Hcall { number: number::H_READ, args }), Answer::Hcall { code: 0, mut values }, _) => {
            let entries = if args[0] & flags::H_READ_4 != 0 { 4 } else { 1 };
            for pair in values.chunks_exact_mut(2).take(entries) {
                // Of a slot that is not in use the kernel gives what its table holds: host addresses, for one.
                let used = pair[0] & HPTE_V_VALID != 0;
                let entry = if used { entry_seen(Hpte { v: pair[0], r: pair[1] }) } else { Hpte::default() };
                pair.copy_from_slice(&[entry.v, entry.r]);
            }
            Answer::Hcall { code: 0, values }
        }
        (_, answer, _) => answer,
    }
}

fn access_seen(mut seen: AccessSeen, other: AccessSeen) -> AccessSeen {
    seen.ticks = None;
    if let End::Interrupt { vector: 0x380, dsisr, .. } = &mut seen.end {
        // A segment interrupt does not set it.
        *dsisr = 0;
    }
    let untold = other.lookup == Lookup::Unseen || seen.lookup == Lookup::Unseen;
    // An access without progress went through the lookup many times.
    if untold || seen.end == End::Retries {
        seen.lookup = Lookup::Unseen;
    }
    if let Some(exit) = &mut seen.exit {
        exit.data[usize::from(exit.len.min(8))..].fill(0);
    }
    seen
}

/// The first entry in which two tables differ: where, and what each side has there.
pub(super) fn table_difference(
    simulated: &[(PteIndex, Hpte)],
    real: &[(PteIndex, Hpte)],
) -> Option<(PteIndex, Option<Hpte>, Option<Hpte>)> {
    let (mut left, mut right) = (simulated.iter().peekable(), real.iter().peekable());
    loop {
        match (left.peek(), right.peek()) {
            (None, None) => return None,
            (Some((a, x)), Some((b, y))) if a == b => {
                if entry_seen(*x) != entry_seen(*y) {
                    return Some((*a, Some(*x), Some(*y)));
                }
                left.next();
                right.next();
            }
            (Some((a, x)), other) if other.is_none_or(|(b, _)| a < b) => return Some((*a, Some(*x), None)),
            (_, Some((b, y))) => return Some((*b, None, Some(*y))),
            (Some((a, x)), None) => return Some((*a, Some(*x), None)),
        }
    }
}
