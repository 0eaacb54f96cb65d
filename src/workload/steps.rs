//! Steps: what a hash guest and its VMM do, one after another, in numbers that the simulator and a real kernel take alike.
//!
//! The guest performs [`GuestOp`]s from a queue in its memory. Its runtime works with MSR\[IR\] and MSR\[DR\] off (through the
//! VRMA) and turns both on for an access alone, which it makes from a stub page. What must hold for that is part of the stream:
//! SLB slot [`RUNTIME_SLB`] and the HPTE of the page at [`STUB_EA`] belong to the runtime; a stream enters them before its first
//! access, and again after a new table.
//!
//! | memslot | guest physical | holds |
//! |---|---|---|
//! | [`RUNTIME_SLOT`] | 0 to [`RUNTIME_BYTES`] | runtime, queue, stub page; behind the VRMA; never paged out or deleted |
//! | others | from [`STREAM_GPA`] | the stream's own |

use crate::addr::{EffectiveAddr, GuestPhysAddr, PteIndex};
use crate::book3s::Hpte;
use crate::book3s::insn::Direction;
use crate::kvm_hv::memslot::DirtyLog;

/// Memslot of the runtime.
pub const RUNTIME_SLOT: u32 = 0;
/// Bytes of the runtime's memslot, from guest physical address 0.
pub const RUNTIME_BYTES: u64 = 16 << 20;
/// SLB slot of the runtime's segment.
pub const RUNTIME_SLB: u64 = 0;
/// Effective and guest physical address of the stub page, 64 KiB.
pub const STUB_EA: EffectiveAddr = EffectiveAddr(0x10_0000);
/// First guest physical address of a stream's own memslots and MMIO pages.
pub const STREAM_GPA: GuestPhysAddr = GuestPhysAddr(0x1000_0000);

/// Where the kernel takes a hash guest's hypercalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HcallMode {
    /// In its virtual mode: POWER9 and later, from Linux 5.14 on.
    Virtual,
    /// In hypervisor real mode, where an address from vmalloc is none. A [`DirtyLog`] is at such an address, and
    /// H_REMOVE, H_BULK_REMOVE, H_CLEAR_MOD and H_PAGE_INIT write to it untranslated (`kvmppc_update_dirty_map`): the
    /// machine check that follows finds the kernel at work for a guest (`kvmppc_bad_host_intr`), and this processor loops
    /// from there on, with interrupts off.
    Real,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The guest's.
    Guest(GuestOp),
    /// The VMM's, between two accesses of the guest.
    Vmm(VmmOp),
}

/// What the guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuestOp {
    /// A load or store, with MSR\[IR\] and MSR\[DR\] on, in supervisor state.
    Access(GuestAccess),
    /// `sc 1` with `number` in r3 and `args` in r4 to r12.
    Hcall {
        /// PAPR number.
        number: u64,
        /// Arguments.
        args: [u64; 9],
    },
    /// `slbmte rs,rb`.
    Slbmte {
        /// VSID doubleword.
        rs: u64,
        /// ESID doubleword, V and index.
        rb: u64,
    },
    /// `slbie rb`.
    Slbie {
        /// ESID and class.
        rb: u64,
    },
    /// `mtspr AMR`.
    Mtamr {
        /// Two bits a key.
        value: u64,
    },
}

/// A load or store and its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GuestAccess {
    /// The instruction word. It names [`Self::RT`], [`Self::RA`] and, in indexed forms, [`Self::RB`].
    pub word: u32,
    /// RA before: the base.
    pub ra: u64,
    /// RB before: the index.
    pub rb: u64,
    /// RT before: what a store writes.
    pub rt: u64,
}

impl GuestAccess {
    /// Register RT of an access.
    pub const RT: u8 = 14;
    /// Register RA of an access.
    pub const RA: u8 = 15;
    /// Register RB of an access.
    pub const RB: u8 = 16;
}

/// What the VMM does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VmmOp {
    /// KVM_SET_USER_MEMORY_REGION: creates a slot, moves it (other base), or switches its dirty log. New RAM is zero and in memory.
    SetMemslot {
        /// Slot number, 1 to 31.
        id: u32,
        /// First address.
        base: GuestPhysAddr,
        /// Bytes.
        size: u64,
        /// KVM_MEM_LOG_DIRTY_PAGES.
        dirty_log: DirtyLog,
    },
    /// KVM_SET_USER_MEMORY_REGION with size 0.
    DeleteMemslot {
        /// Slot number.
        id: u32,
    },
    /// The host page that holds `gpa` leaves the process (its data are lost: it comes back as zeroes).
    PageOut {
        /// Anywhere in the page.
        gpa: GuestPhysAddr,
    },
    /// The VMM touches the page: it is in memory, but unmapped in the guest.
    PageIn {
        /// Anywhere in the page.
        gpa: GuestPhysAddr,
    },
    /// KVM_PPC_ALLOCATE_HTAB: an empty table of this order.
    AllocateHtab {
        /// 18 to 46.
        order: u32,
    },
    /// KVM_PPC_RESIZE_HPT_PREPARE until it is ready, then KVM_PPC_RESIZE_HPT_COMMIT.
    ResizeHpt {
        /// 18 to 46.
        order: u32,
    },
    /// KVM_PPC_GET_HTAB_FD for writing: one entry, as migration would restore it.
    WriteHtab {
        /// Which.
        index: PteIndex,
        /// The guest's view of it; invalid: without V.
        entry: Hpte,
    },
    /// KVM_IOEVENTFD on KVM_MMIO_BUS.
    Ioeventfd {
        /// Address.
        gpa: GuestPhysAddr,
        /// 0, 1, 2, 4 or 8.
        length: u32,
        /// Only this value.
        datamatch: Option<u64>,
        /// Assign or deassign.
        attach: Attach,
    },
}

/// Whether an ioeventfd comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attach {
    /// Assigned.
    Assign,
    /// Deassigned: the one that was assigned with the same address, length and datamatch.
    Deassign,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Of an access.
    Access(AccessSeen),
    /// Of a hypercall.
    Hcall {
        /// r3.
        code: i64,
        /// r4 to r12.
        values: [u64; 9],
    },
    /// Of another guest operation.
    Done,
    /// Of a VMM's step: 0, or errno.
    Vmm {
        /// 0 is success.
        errno: i32,
    },
}

/// What came of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccessSeen {
    /// How it ended.
    pub end: End,
    /// Who emulated it, if anyone did; `None` with `lookup` [`Lookup::Unseen`] may be RAM or the kernel's.
    pub exit: Option<ExitSeen>,
    /// What the MMIO HPTE cache did.
    pub lookup: Lookup,
    /// RT after.
    pub rt: u64,
    /// RA after.
    pub ra: u64,
    /// Time base ticks, from before the stub to after it; none in the simulator.
    pub ticks: Option<u64>,
}

/// How an access ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// The instruction completed.
    Completed,
    /// The guest took an interrupt.
    Interrupt {
        /// 0x300, 0x380, ...
        vector: u16,
        /// DSISR.
        dsisr: u32,
        /// DAR.
        dar: u64,
    },
    /// It made no progress; the VMM moved the guest past it.
    Retries,
}

/// KVM_EXIT_MMIO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExitSeen {
    /// `phys_addr`.
    pub gpa: GuestPhysAddr,
    /// `is_write`.
    pub direction: Direction,
    /// `len`.
    pub len: u8,
    /// The first `len` bytes of `data`; for a load what the VMM answered ([`answer_to_load`]).
    pub data: [u8; 8],
}

/// What the MMIO HPTE cache did with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// Emulated as MMIO, from a cached entry.
    Hit,
    /// Emulated as MMIO, by the slow form.
    Miss,
    /// Not emulated as MMIO.
    NotMmio,
    /// The executor cannot tell.
    Unseen,
}

/// Bytes that both executors' VMM answers a load from `gpa` with: its address, so that a wrong one shows.
#[must_use]
pub fn answer_to_load(gpa: GuestPhysAddr) -> [u8; 8] {
    (gpa.0 ^ 0x5aa5_c33c_0ff0_9669).to_le_bytes()
}

/// Performs steps: the simulator, or a real kernel.
pub trait StepExecutor {
    /// Why it could not.
    type Error: std::error::Error;

    /// Performs steps in order, one answer each.
    ///
    /// # Errors
    /// The executor itself failed: what a guest or kernel refuses is an answer.
    fn perform(&mut self, steps: &[Step]) -> Result<Vec<Answer>, Self::Error>;

    /// The table in the guest's view: entries with V (or ABSENT) by ascending index.
    ///
    /// # Errors
    /// It cannot be read.
    fn table(&mut self) -> Result<Vec<(PteIndex, Hpte)>, Self::Error>;

    /// Counts of the ioeventfds assigned so far, in order of assignment.
    ///
    /// # Errors
    /// They cannot be read.
    fn eventfds(&mut self) -> Result<Vec<u64>, Self::Error>;
}
