//! What became of an access.

use crate::addr::{EffectiveAddr, GuestPhysAddr};
use crate::book3s::insn::{Direction, Facility};
use crate::io::EventfdId;

use super::stage::StageLog;

/// Who in the kernel took an MMIO access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handler {
    /// A length-0 ioeventfd on KVM_FAST_MMIO_BUS: nothing decoded.
    FastMmio(EventfdId),
    /// An ioeventfd on KVM_MMIO_BUS.
    Eventfd(EventfdId),
    /// A coalesced zone with room in its ring.
    Coalesced,
    /// The emulator itself: a cache operation (dcbz, dcbf, ...), completed as a no-op.
    NoOp,
}

/// An access that user space must complete: the MMIO part of `struct kvm_run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MmioExit {
    /// Guest physical address (`phys_addr`).
    pub gpa: GuestPhysAddr,
    /// Store or load (`is_write`).
    pub direction: Direction,
    /// Bytes, 1, 2, 4 or 8 (`len`).
    pub len: u8,
    /// Bytes of a store in address order, the first `len` of them (`data`).
    pub data: [u8; 8],
    /// Whether a coalesced zone covers the store but its ring had no room.
    pub ring_full: bool,
}

/// An interrupt given to the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interrupt {
    /// 0x300, data storage.
    DataStorage {
        /// Why.
        dsisr: u32,
        /// Where.
        dar: EffectiveAddr,
    },
    /// 0x700, program: an instruction that the guest has not.
    Program,
    /// 0x800, 0xf20 or 0xf40: a facility that MSR makes unavailable ([`Facility::vector`]).
    Unavailable(Facility),
    /// 0x380, data segment: no SLB entry.
    DataSegment {
        /// Where.
        dar: EffectiveAddr,
    },
}

/// Why an attempt ended with the guest running the instruction again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RetryReason {
    /// A no-HPTE fault found a VALID entry, in the table or (H4) in the cache.
    ValidByNow,
    /// A protection fault found no VALID entry.
    HpteDisappeared,
    /// The HPTE changed between early and full handler.
    HpteChanged,
    /// The instruction word could not be fetched.
    FetchFailed,
    /// The instruction's direction is not the fault's (H7 for lmw and lxv).
    DirectionMismatch,
    /// An invalidation was in progress.
    InvalidationInProgress,
    /// RAM was mapped; the retried access should now go through.
    Mapped,
}

impl RetryReason {
    /// In words.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::ValidByNow => "a no-HPTE fault finds a VALID doubleword",
            Self::HpteDisappeared => "a protection fault finds no VALID HPTE",
            Self::HpteChanged => "the HPTE changed between the early and the full handler",
            Self::FetchFailed => "the instruction word cannot be fetched",
            Self::DirectionMismatch => "the instruction's direction is not the fault's",
            Self::InvalidationInProgress => "an invalidation is in progress",
            Self::Mapped => "the page is mapped but hardware still refuses the access (reserved PP value)",
        }
    }
}

/// What became of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The kernel took the MMIO access.
    Kernel {
        /// Who.
        handler: Handler,
        /// Guest physical address.
        gpa: GuestPhysAddr,
    },
    /// KVM_EXIT_MMIO.
    Exit(MmioExit),
    /// The guest got an interrupt.
    Reflected(Interrupt),
    /// Hardware served it from RAM.
    Ram {
        /// Guest physical address.
        gpa: GuestPhysAddr,
    },
    /// Nothing that the path reads changes between attempts: it would retry for ever.
    RetriesForever(RetryReason),
}

impl Outcome {
    /// The guest physical address, if the access was emulated as MMIO.
    #[must_use]
    pub const fn mmio_gpa(&self) -> Option<GuestPhysAddr> {
        match self {
            Self::Kernel { gpa, .. } => Some(*gpa),
            Self::Exit(exit) => Some(exit.gpa),
            _ => None,
        }
    }
}

/// Why an emulated access was no hit, the first that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MissClass {
    /// The host doubleword's key is not 31, so nothing is filled (H6).
    NeverCacheable,
    /// This page was never cached on this vCPU.
    Cold,
    /// It was cached under another slb_v only.
    Segment,
    /// It would be a hit but for a generation bump.
    Generation,
    /// It was evicted.
    Capacity,
}

impl MissClass {
    /// Every class, in the order they apply.
    pub const ALL: [Self; 5] = [Self::NeverCacheable, Self::Cold, Self::Segment, Self::Generation, Self::Capacity];

    /// Name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NeverCacheable => "never cacheable",
            Self::Cold => "cold",
            Self::Segment => "segment",
            Self::Generation => "generation",
            Self::Capacity => "capacity",
        }
    }
}

/// What the MMIO HPTE cache did for an emulated access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheUse {
    /// Not an emulated MMIO access.
    None,
    /// The full handler trusted a cached entry.
    Hit,
    /// It took the slow form (`kvm_page_fault_enter` fires); the class is known if the vCPU has a cache and classifies.
    Miss(Option<MissClass>),
}

/// All that is known of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// What became of it.
    pub outcome: Outcome,
    /// What the cache did.
    pub cache: CacheUse,
    /// The stages of each attempt.
    pub stages: StageLog,
    /// Emulated as MMIO at an address that a memslot backs (H3, or key kept on page-out).
    pub ram_as_mmio: bool,
}
