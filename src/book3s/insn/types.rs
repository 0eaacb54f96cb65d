//! What a decoded word is.

/// Which way data goes between register and storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Storage to register.
    Load,
    /// Register to storage.
    Store,
}

/// Width of an integer storage operand (Power ISA 2.07 Book I, 1.10.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Size {
    /// 1 byte.
    Byte = 1,
    /// 2 bytes.
    Halfword = 2,
    /// 4 bytes.
    Word = 4,
    /// 8 bytes.
    Doubleword = 8,
}

impl Size {
    /// All four, ascending.
    pub const ALL: [Self; 4] = [Self::Byte, Self::Halfword, Self::Word, Self::Doubleword];

    /// Number of bytes: 1, 2, 4 or 8.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self as usize
    }
}

/// Computation mode, MSR\[SF\] (Power ISA 2.07 Book I, 1.10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// MSR\[SF\] = 0: storage is addressed by the low 32 bits of the sum.
    ThirtyTwo,
    /// MSR\[SF\] = 1: the whole sum.
    SixtyFour,
}

/// What is added to the base register RA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offset {
    /// D and DS forms: a signed byte count; in DS forms a multiple of 4.
    Displacement(i16),
    /// X forms: the number of register RB, 0 to 31.
    Register(u8),
}

/// An integer load or store of 1, 2, 4 or 8 bytes (Power ISA 2.07 Book I, 3.3.2, 3.3.3 and 3.3.5).
///
/// The value proves that such an opcode was found, **not** that the form is valid: see [`Access::is_valid_form`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Mnemonic, as the assembler spells it.
    pub name: &'static str,
    /// Load or store.
    pub direction: Direction,
    /// Width of the storage operand.
    pub size: Size,
    /// Byte-reversed form (`lhbrx` and its like): opposite to the guest's endianness.
    pub reversed: bool,
    /// Algebraic load (`lha`, `lwa` and forms): the sign bit fills the register.
    pub algebraic: bool,
    /// Update form: RA receives the effective address.
    pub update: bool,
    /// RT of a load, RS of a store: 0 to 31.
    pub rt: u8,
    /// Base register, 0 to 31; 0 stands for the value zero.
    pub ra: u8,
    /// Displacement or index register.
    pub offset: Offset,
}

impl Access {
    /// The effective address with these register contents; sums wrap (Power ISA 2.07 Book I, 1.10.3;
    /// the kernel's `dform_ea`, `dsform_ea` and `xform_ea`).
    ///
    /// In 32-bit mode an update form still writes the *whole* sum to RA by the ISA; KVM writes the address of the
    /// access (`vaddr_accessed`), which is what this returns.
    #[must_use]
    pub fn effective_address(&self, gpr: &[u64; 32], mode: Mode) -> u64 {
        let base = if self.ra == 0 { 0 } else { gpr[usize::from(self.ra & 31)] };
        let offset = match self.offset {
            Offset::Displacement(bytes) => i64::from(bytes) as u64,
            Offset::Register(rb) => gpr[usize::from(rb & 31)],
        };
        let sum = base.wrapping_add(offset);
        match mode {
            Mode::ThirtyTwo => sum & u64::from(u32::MAX),
            Mode::SixtyFour => sum,
        }
    }

    /// Whether the form is valid: an update form needs RA other than 0, and an updating load RA other than RT
    /// (Power ISA 2.07 Book I, 3.3.2 and 3.3.3; `analyse_instr` returns "unknown" for the others).
    #[must_use]
    pub const fn is_valid_form(&self) -> bool {
        match (self.update, self.direction) {
            (false, _) => true,
            (true, Direction::Load) => self.ra != 0 && self.ra != self.rt,
            (true, Direction::Store) => self.ra != 0,
        }
    }
}

/// A cache management instruction (Power ISA 2.07 Book II, 4.3); the emulator completes it without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheOp {
    /// Mnemonic.
    pub name: &'static str,
    /// What the instruction counts as for storage protection: a store for `dcbz` and `dcbtst`, else a load.
    pub direction: Direction,
}

/// A storage access that is not one integer access of at most 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refused {
    /// Mnemonic.
    pub name: &'static str,
    /// What it is instead.
    pub why: Refusal,
    /// Load or store, by what the instruction does (compare [`is_store_by_bit`](super::is_store_by_bit)).
    pub direction: Direction,
    /// Bytes the instruction moves in all; 0 where operands decide.
    pub bytes: u8,
    /// What KVM's MMIO emulator makes of it.
    pub kernel: KernelSupport,
}

/// Whether `kvmppc_emulate_loadstore` takes an instruction that [`decode`](super::decode) refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelSupport {
    /// Emulated by the kernel, in pieces of at most 8 bytes; not by this crate.
    Emulates,
    /// Emulation fails: the guest gets a data storage interrupt.
    Refuses,
}

/// Why an instruction is not a single integer access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// `lmw`, `stmw` (Power ISA 2.07 Book I, 3.3.6).
    Multiple,
    /// `lswi`, `lswx`, `stswi`, `stswx` (Power ISA 2.07 Book I, 3.3.7).
    String,
    /// `lq`, `stq` (Power ISA 2.07 Book I, 3.3.4).
    Quadword,
    /// Load and reserve, store conditional (Power ISA 2.07 Book II, 4.4.2).
    Reservation,
    /// `lwat`, `ldat`, `stwat`, `stdat` (Power ISA 3.0 Book II, 4.5).
    AtomicMemory,
    /// `copy`, `paste.` (Power ISA 3.0 Book II, 4.4).
    CopyPaste,
    /// `eciwx`, `ecowx` (Power ISA 2.07 Book II, external control; gone in 3.0).
    ExternalControl,
    /// `lbzcix` to `stdcix`: hypervisor real mode only (Power ISA 2.07 Book III-S, 4.4.1).
    CachingInhibited,
    /// Floating-point registers (Power ISA 2.07 Book I, 4.6.2 to 4.6.4).
    FloatingPoint,
    /// Vector registers (Power ISA 2.07 Book I, 6.7).
    AltiVec,
    /// Vector-scalar registers (Power ISA 2.07 Book I, 7.6).
    Vsx,
}

/// A word that accesses storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Insn {
    /// One integer load or store.
    Access(Access),
    /// A cache operation, without effect on a device.
    CacheOp(CacheOp),
    /// Another storage access.
    Refused(Refused),
}

impl Insn {
    /// The mnemonic.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Access(access) => access.name,
            Self::CacheOp(op) => op.name,
            Self::Refused(refused) => refused.name,
        }
    }

    /// What the instruction does to storage. The kernel's early test, [`is_store_by_bit`](super::is_store_by_bit),
    /// differs for `lmw`, `lxv` and `icbi`.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        match self {
            Self::Access(access) => access.direction,
            Self::CacheOp(op) => op.direction,
            Self::Refused(refused) => refused.direction,
        }
    }
}
