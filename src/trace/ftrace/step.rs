//! An event without its line: what the bookkeeping needs, owned.

use super::event::{Event, IoDirection, MmioKind};
use super::line::EventLine;
use super::text::Told;
use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::insn::Direction;

/// A hypercall that tells of HPTEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HpteCall {
    Enter,
    Remove,
    Protect,
    BulkRemove,
    /// Any other.
    Other,
}

impl HpteCall {
    fn of(name: &[u8]) -> Self {
        match name {
            b"H_ENTER" => Self::Enter,
            b"H_REMOVE" => Self::Remove,
            b"H_PROTECT" => Self::Protect,
            b"H_BULK_REMOVE" => Self::BulkRemove,
            _ => Self::Other,
        }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Fault {
        hpte_v: u64,
        hpte_r: u64,
        guest_r: u64,
        ea: EffectiveAddr,
        dsisr: u32,
        base_gfn: u64,
    },
    FaultEnd,
    Hcall {
        call: HpteCall,
        args: [u64; 4],
    },
    HcallEnd {
        success: bool,
    },
    Emulate {
        gpa: GuestPhysAddr,
        ea: EffectiveAddr,
        direction: Direction,
    },
    /// The guest runs again.
    Enter {
        tgid: Option<u32>,
    },
    /// x86: an access at a guest physical address.
    X86 {
        gpa: GuestPhysAddr,
        direction: Direction,
        len: u8,
    },
    Lost(u64),
    Other,
}

/// Who, when, what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub pid: u32,
    pub vcpu: Option<u32>,
    pub at: u64,
    pub what: What,
}

impl Step {
    pub(super) fn of(line: &EventLine<'_>) -> Self {
        let (vcpu, what) = match line.event {
            Event::PageFaultEnter { vcpu, hpte_v, hpte_r, guest_r, ea, dsisr, base_gfn, .. } => {
                (Some(vcpu), What::Fault { hpte_v, hpte_r, guest_r, ea, dsisr, base_gfn })
            }
            Event::PageFaultExit { vcpu, .. } => (Some(vcpu), What::FaultEnd),
            Event::HcallEnter { vcpu, hcall, args } => (Some(vcpu), What::Hcall { call: HpteCall::of(hcall.0), args }),
            Event::HcallExit { vcpu, code } => (Some(vcpu), What::HcallEnd { success: code == b"H_SUCCESS" }),
            Event::GuestEnter { vcpu, .. } => (Some(vcpu), What::Enter { tgid: None }),
            Event::RunVcpuEnter { vcpu, tgid } => (Some(vcpu), What::Enter { tgid: Some(tgid) }),
            Event::GuestExit { vcpu, .. } | Event::RunVcpuExit { vcpu } => (Some(vcpu), What::Other),
            Event::EmulateMmio { gpa, ea, direction } => (None, What::Emulate { gpa, ea, direction }),
            // A read that nobody had the value of is told again, as a read, once it is there.
            Event::KvmMmio { kind: MmioKind::UnsatisfiedRead, .. } | Event::Other => (None, What::Other),
            Event::KvmMmio { kind, len, gpa } => {
                let direction = if kind == MmioKind::Write { Direction::Store } else { Direction::Load };
                (None, What::X86 { gpa, direction, len: u8::try_from(len).unwrap_or(0) })
            }
            Event::KvmPio { direction, port, size, .. } => {
                let direction = if direction == IoDirection::Write { Direction::Store } else { Direction::Load };
                let len = u8::try_from(size).unwrap_or(0);
                (None, What::X86 { gpa: GuestPhysAddr(u64::from(port)), direction, len })
            }
            Event::KvmFastMmio { gpa } => (None, What::X86 { gpa, direction: Direction::Store, len: 0 }),
        };
        Self { pid: line.pid, vcpu, at: line.at, what }
    }

    pub(super) const fn lost(events: u64) -> Self {
        Self { pid: 0, vcpu: None, at: 0, what: What::Lost(events) }
    }

    pub(super) const fn told(self) -> Told {
        match self.what {
            What::Lost(events) => Told::Lost(events),
            _ => Told::Step(self),
        }
    }
}
