//! What a tracepoint prints behind its name.

use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::insn::Direction;

use super::scan::Scan;

/// A hypercall as `kvm_hcall_enter` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hcall<'a>(
    /// Its PAPR name (`H_REMOVE`), or its number in hexadecimal where the kernel has no name for it.
    pub &'a [u8],
);

/// Whether an x86 port or MMIO access reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoDirection {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// What `kvm_mmio` tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmioKind {
    /// `unsatisfied-read`: nobody in the kernel had the value.
    UnsatisfiedRead,
    /// `read`: the value is there.
    Read,
    /// `write`.
    Write,
}

/// An event that this crate knows, with its fields. Doublewords and addresses are as printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event<'a> {
    /// `kvm_page_fault_enter`: the full handler took the slow form.
    PageFaultEnter {
        /// VCPU.
        vcpu: u32,
        /// Host doublewords (`hpte_v`, `hpte_r`).
        hpte_v: u64,
        /// Second host doubleword.
        hpte_r: u64,
        /// The guest's own second doubleword.
        guest_r: u64,
        /// Faulting address.
        ea: EffectiveAddr,
        /// DSISR.
        dsisr: u32,
        /// First frame of the memslot, all ones without one.
        base_gfn: u64,
        /// Its pages, 0 without one.
        pages: u64,
    },
    /// `kvm_page_fault_exit`: the page was mapped, or not (`ret`).
    PageFaultExit {
        /// VCPU.
        vcpu: u32,
        /// `ret`, a resume code or an error.
        ret: u64,
    },
    /// `kvm_hcall_enter`.
    HcallEnter {
        /// VCPU.
        vcpu: u32,
        /// Which.
        hcall: Hcall<'a>,
        /// GPR4 to GPR7.
        args: [u64; 4],
    },
    /// `kvm_hcall_exit`.
    HcallExit {
        /// VCPU.
        vcpu: u32,
        /// Return code, `H_SUCCESS`, `H_NOT_FOUND`, `H_TOO_HARD` or a number.
        code: &'a [u8],
    },
    /// `kvm_guest_enter`.
    GuestEnter {
        /// VCPU.
        vcpu: u32,
        /// Next instruction.
        pc: u64,
    },
    /// `kvm_guest_exit`.
    GuestExit {
        /// VCPU.
        vcpu: u32,
        /// Why, as printed: `H_DATA_STORAGE`, `SYSCALL`, a number.
        trap: &'a [u8],
        /// Instruction.
        pc: u64,
        /// MSR.
        msr: u64,
    },
    /// `kvmppc_run_vcpu_enter`.
    RunVcpuEnter {
        /// VCPU.
        vcpu: u32,
        /// Thread group: the VMM's process.
        tgid: u32,
    },
    /// `kvmppc_run_vcpu_exit`.
    RunVcpuExit {
        /// VCPU.
        vcpu: u32,
    },
    /// A probe on `kvmppc_hv_emulate_mmio` with `gpa=`, `ea=`, `is_store=`, whatever its name: an MMIO access is
    /// about to be emulated.
    EmulateMmio {
        /// Guest physical address, as the function has it: the fault's page and offset.
        gpa: GuestPhysAddr,
        /// Faulting address.
        ea: EffectiveAddr,
        /// The raw argument is DSISR's ISSTORE bit, 0x200_0000, or 0.
        direction: Direction,
    },
    /// x86 `kvm_mmio`.
    KvmMmio {
        /// Read or write.
        kind: MmioKind,
        /// Bytes.
        len: u32,
        /// Guest physical address.
        gpa: GuestPhysAddr,
    },
    /// x86 `kvm_pio`.
    KvmPio {
        /// Read (IN) or write (OUT).
        direction: IoDirection,
        /// Port.
        port: u16,
        /// Bytes an element.
        size: u32,
        /// Elements.
        count: u32,
    },
    /// x86 `kvm_fast_mmio`: a length-0 ioeventfd took a store, nothing was decoded.
    KvmFastMmio {
        /// Guest physical address.
        gpa: GuestPhysAddr,
    },
    /// Any other event.
    Other,
}

impl<'a> Event<'a> {
    /// Parses what stands behind `name:`. `name` is without its system.
    ///
    /// `None`: an event that is known by its name but whose fields are not those it prints.
    pub(super) fn parse(name: &[u8], body: &'a [u8]) -> Option<Self> {
        let mut scan = Scan::new(body);
        scan.skip_spaces();
        if scan.rest().first() == Some(&b'(') {
            return parse_probe(scan);
        }
        match name {
            b"kvm_page_fault_enter" => parse_page_fault_enter(scan),
            b"kvm_page_fault_exit" => parse_page_fault_exit(scan),
            b"kvm_hcall_enter" => parse_hcall_enter(scan),
            b"kvm_hcall_exit" => parse_hcall_exit(scan),
            b"kvm_guest_enter" => parse_guest_enter(scan),
            b"kvm_guest_exit" => parse_guest_exit(scan),
            b"kvmppc_run_vcpu_enter" => parse_run_enter(scan),
            b"kvmppc_run_vcpu_exit" => parse_run_exit(scan),
            b"kvm_mmio" => parse_mmio(scan),
            b"kvm_pio" => parse_pio(scan),
            b"kvm_fast_mmio" => parse_fast_mmio(scan),
            _ => Some(Self::Other),
        }
    }
}

/// `VCPU 0: `.
fn vcpu(scan: &mut Scan<'_>) -> Option<u32> {
    let vcpu = scan.field(b"VCPU ")?;
    scan.literal(b":")?;
    u32::try_from(vcpu).ok()
}

fn parse_page_fault_enter(mut scan: Scan<'_>) -> Option<Event<'_>> {
    let vcpu = vcpu(&mut scan)?;
    let hpte_v = scan.field(b"hpte=")?;
    scan.literal(b":")?;
    let hpte_r = scan.number()?;
    let guest_r = scan.field(b"guest=")?;
    let ea = EffectiveAddr(scan.field(b"ea=")?);
    scan.literal(b",")?;
    let dsisr = u32::try_from(scan.hex()?).ok()?;
    let base_gfn = scan.field(b"slot=")?;
    scan.literal(b",")?;
    let pages = scan.number()?;
    scan.end()?;
    Some(Event::PageFaultEnter { vcpu, hpte_v, hpte_r, guest_r, ea, dsisr, base_gfn, pages })
}

fn parse_page_fault_exit(mut scan: Scan<'_>) -> Option<Event<'_>> {
    let vcpu = vcpu(&mut scan)?;
    scan.field(b"hpte=")?;
    scan.literal(b":")?;
    scan.number()?;
    let ret = scan.field(b"ret=")?;
    scan.end()?;
    Some(Event::PageFaultExit { vcpu, ret })
}

fn parse_hcall_enter(mut scan: Scan<'_>) -> Option<Event<'_>> {
    let vcpu = vcpu(&mut scan)?;
    let hcall = Hcall(scan.text(b"hcall=")?);
    let mut args = [scan.field(b"GPR4-7=")?, 0, 0, 0];
    for arg in &mut args[1..] {
        scan.literal(b",")?;
        *arg = scan.number()?;
    }
    scan.end()?;
    Some(Event::HcallEnter { vcpu, hcall, args })
}

fn parse_hcall_exit(mut scan: Scan<'_>) -> Option<Event<'_>> {
    let vcpu = vcpu(&mut scan)?;
    scan.text(b"ret=")?;
    let code = scan.text(b"hcall_rc=")?;
    scan.end()?;
    Some(Event::HcallExit { vcpu, code })
}

fn parse_guest_enter(mut scan: Scan<'_>) -> Option<Event<'_>> {
    let vcpu = vcpu(&mut scan)?;
    let pc = scan.field(b"pc=")?;
    scan.field(b"pexcp=")?;
    scan.field(b"ceded=")?;
    scan.end()?;
    Some(Event::GuestEnter { vcpu, pc })
}

fn parse_guest_exit(mut scan: Scan<'_>) -> Option<Event<'_>> {
    let vcpu = vcpu(&mut scan)?;
    let trap = scan.text(b"trap=")?;
    let pc = scan.field(b"pc=")?;
    let msr = scan.field(b"msr=")?;
    scan.literal(b",")?;
    scan.field(b"ceded=")?;
    scan.end()?;
    Some(Event::GuestExit { vcpu, trap, pc, msr })
}

fn parse_run_enter(mut scan: Scan<'_>) -> Option<Event<'_>> {
    let vcpu = vcpu(&mut scan)?;
    let tgid = u32::try_from(scan.field(b"tgid=")?).ok()?;
    scan.end()?;
    Some(Event::RunVcpuEnter { vcpu, tgid })
}

fn parse_run_exit(mut scan: Scan<'_>) -> Option<Event<'_>> {
    let vcpu = vcpu(&mut scan)?;
    scan.text(b"exit=")?;
    scan.literal(b",")?;
    scan.text(b"ret=")?;
    scan.end()?;
    Some(Event::RunVcpuExit { vcpu })
}

/// `(kvmppc_hv_emulate_mmio+0xc/0x220 [kvm_hv]) gpa=... ea=... is_store=...`; any other probe is an event like any other.
fn parse_probe(mut scan: Scan<'_>) -> Option<Event<'_>> {
    scan.word(|byte| byte != b')')?;
    scan.literal(b")")?;
    let mut named = scan;
    named.skip_spaces();
    if named.literal(b"gpa=").is_none() {
        // Cut before its fields, it could have been the one that is looked for.
        return (!named.rest().is_empty() && !b"gpa=".starts_with(named.rest())).then_some(Event::Other);
    }
    let gpa = GuestPhysAddr(scan.field(b"gpa=")?);
    let ea = EffectiveAddr(scan.field(b"ea=")?);
    let direction = if scan.field(b"is_store=")? == 0 { Direction::Load } else { Direction::Store };
    scan.end()?;
    Some(Event::EmulateMmio { gpa, ea, direction })
}

/// `mmio unsatisfied-read len 4 gpa 0xfebf0000 val 0x0`.
fn parse_mmio(mut scan: Scan<'_>) -> Option<Event<'_>> {
    let kind = match scan.text(b"mmio ")? {
        b"unsatisfied-read" => MmioKind::UnsatisfiedRead,
        b"read" => MmioKind::Read,
        b"write" => MmioKind::Write,
        _ => return None,
    };
    let len = u32::try_from(scan.field(b"len ")?).ok()?;
    let gpa = GuestPhysAddr(scan.field(b"gpa ")?);
    scan.field(b"val ")?;
    scan.end()?;
    Some(Event::KvmMmio { kind, len, gpa })
}

/// `pio_write at 0x70 size 1 count 1 val 0x0`, with ` (...)` behind if there are more elements.
fn parse_pio(mut scan: Scan<'_>) -> Option<Event<'_>> {
    let direction = match scan.text(b"pio_")? {
        b"read" => IoDirection::Read,
        b"write" => IoDirection::Write,
        _ => return None,
    };
    let port = u16::try_from(scan.field(b"at ")?).ok()?;
    let size = u32::try_from(scan.field(b"size ")?).ok()?;
    let count = u32::try_from(scan.field(b"count ")?).ok()?;
    scan.field(b"val ")?;
    scan.skip_spaces();
    let _ = scan.literal(b"(...)");
    scan.end()?;
    Some(Event::KvmPio { direction, port, size, count })
}

/// `fast mmio at gpa 0xfe003000`.
fn parse_fast_mmio(mut scan: Scan<'_>) -> Option<Event<'_>> {
    let gpa = GuestPhysAddr(scan.field(b"fast mmio at gpa ")?);
    scan.end()?;
    Some(Event::KvmFastMmio { gpa })
}
