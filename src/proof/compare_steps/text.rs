//! Steps, answers and states in words.

use crate::book3s::Hpte;
use crate::book3s::insn::{Direction, Insn, decode};
use crate::kvm_hv::cache::CacheEntry;
use crate::kvm_hv::number;
use crate::workload::script::effective_address;
use crate::workload::steps::{AccessSeen, Answer, Attach, End, ExitSeen, GuestAccess, GuestOp, Lookup, Step, VmmOp};

fn hcall_name(number: u64) -> String {
    let name = match number {
        number::H_REMOVE => "H_REMOVE",
        number::H_ENTER => "H_ENTER",
        number::H_READ => "H_READ",
        number::H_CLEAR_MOD => "H_CLEAR_MOD",
        number::H_CLEAR_REF => "H_CLEAR_REF",
        number::H_PROTECT => "H_PROTECT",
        number::H_BULK_REMOVE => "H_BULK_REMOVE",
        other => return format!("hypercall {other:#x}"),
    };
    name.to_owned()
}

fn words(values: &[u64]) -> String {
    values.iter().map(|value| format!("{value:#x}")).collect::<Vec<_>>().join(" ")
}

/// Arguments that a hypercall has; the rest is left alone.
pub(super) const fn arguments(number: u64) -> usize {
    match number {
        number::H_ENTER => 4,
        number::H_REMOVE | number::H_PROTECT => 3,
        number::H_READ | number::H_CLEAR_MOD | number::H_CLEAR_REF => 2,
        _ => 8,
    }
}

/// A step.
pub(super) fn step_text(step: &Step) -> String {
    match step {
        Step::Guest(GuestOp::Access(access)) => access_text(access),
        Step::Guest(GuestOp::Hcall { number, args }) => {
            format!("{} {}", hcall_name(*number), words(&args[..arguments(*number)]))
        }
        Step::Guest(GuestOp::Slbmte { rs, rb }) => format!("slbmte {rs:#x}, {rb:#x}"),
        Step::Guest(GuestOp::Slbie { rb }) => format!("slbie {rb:#x}"),
        Step::Guest(GuestOp::Mtamr { value }) => format!("AMR = {value:#x}"),
        Step::Vmm(op) => vmm_text(op),
    }
}

fn access_text(access: &GuestAccess) -> String {
    let name = decode(access.word).map_or("?", |insn| insn.name());
    let (rt, ra, rb) = (access.rt, access.ra, access.rb);
    match (decode(access.word), effective_address(access)) {
        (Some(insn), Some(ea)) if insn.direction() == Direction::Store => format!("{name} of {rt:#x} to {ea}"),
        (Some(Insn::CacheOp(_)), Some(ea)) => format!("{name} at {ea}"),
        (_, Some(ea)) => format!("{name} from {ea}"),
        (_, None) => format!("{name} with RA {ra:#x}, RB {rb:#x}"),
    }
}

fn vmm_text(op: &VmmOp) -> String {
    match op {
        VmmOp::SetMemslot { id, base, size, dirty_log } => {
            format!("memslot {id} at {base}, {size:#x} bytes, dirty log {dirty_log:?}")
        }
        VmmOp::DeleteMemslot { id } => format!("memslot {id} deleted"),
        VmmOp::PageOut { gpa } => format!("page-out at {gpa}"),
        VmmOp::PageIn { gpa } => format!("page-in at {gpa}"),
        VmmOp::AllocateHtab { order } => format!("new table of order {order}"),
        VmmOp::ResizeHpt { order } => format!("table resized to order {order}"),
        VmmOp::WriteHtab { index, entry } => format!("entry {index} of the table written: {}", hpte_text(*entry)),
        VmmOp::Ioeventfd { gpa, length, datamatch, attach } => {
            let data = datamatch.map_or_else(String::new, |data| format!(" of {data:#x}"));
            let come = if *attach == Attach::Assign { "assigned" } else { "deassigned" };
            format!("ioeventfd at {gpa}, length {length}{data}, {come}")
        }
    }
}

/// Both doublewords.
pub(super) fn hpte_text(entry: Hpte) -> String {
    format!("{:#018x} {:#018x}", entry.v, entry.r)
}

/// An answer; of a hypercall the values that its arguments' registers and the results have.
pub(super) fn answer_text(answer: &Answer) -> String {
    match answer {
        Answer::Access(seen) => seen_text(seen),
        Answer::Hcall { code, values } => format!("r3 {code}, r4.. {}", words(values)),
        Answer::Done => "done".to_owned(),
        Answer::Vmm { errno: 0 } => "done".to_owned(),
        Answer::Vmm { errno } => format!("refused, errno {errno}"),
    }
}

/// What an access was, in one or two words: what a label in a sequence says.
pub(super) const fn short(seen: &AccessSeen) -> &'static str {
    match (seen.end, seen.lookup) {
        (End::Interrupt { .. }, _) => "reflected",
        (End::Retries, _) => "retries",
        (End::Completed, Lookup::Hit) => "hit",
        (End::Completed, Lookup::Miss) => "miss",
        (End::Completed, Lookup::NotMmio) => "ram",
        (End::Completed, Lookup::Unseen) => "completed",
    }
}

/// What came of an access.
pub(super) fn seen_text(seen: &AccessSeen) -> String {
    let mut text = match seen.end {
        End::Completed => "completes".to_owned(),
        End::Interrupt { vector, dsisr, dar } => format!("interrupt {vector:#x}, DSISR {dsisr:#x}, DAR {dar:#x}"),
        End::Retries => "retries".to_owned(),
    };
    text += match seen.lookup {
        Lookup::Hit => ", hit",
        Lookup::Miss => ", miss",
        Lookup::NotMmio => ", no MMIO",
        Lookup::Unseen => "",
    };
    if let Some(ExitSeen { gpa, direction, len, data }) = seen.exit {
        let kind = if direction == Direction::Store { "store" } else { "load" };
        let bytes: Vec<_> = data.iter().take(usize::from(len)).map(|byte| format!("{byte:02x}")).collect();
        text += &format!(", exit: {kind} at {gpa}, data {}", bytes.join(" "));
    }
    text + &format!(", RT {:#x}, RA {:#x}", seen.rt, seen.ra)
}

/// An entry of the MMIO HPTE cache.
pub(super) fn cached_text(entry: &CacheEntry) -> String {
    format!("EA {} slb_v {:#x} index {} generation {}", entry.ea, entry.slb_v, entry.index, entry.generation)
}
