//! What a decoded word is.

use super::facility::{Facility, FacilityAccess};

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

impl Mode {
    const fn truncate(self, sum: u64) -> u64 {
        match self {
            Self::ThirtyTwo => sum & u32::MAX as u64,
            Self::SixtyFour => sum,
        }
    }
}

/// The displacement of a prefixed form: 34 bits, signed (Power ISA 3.1 Book I, 1.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LongDisplacement {
    // In two parts, so that an offset is no wider than the commonest need.
    high: i32,
    low: u16,
}

impl LongDisplacement {
    /// That many bytes, -2^33 to 2^33 - 1; `None` outside.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "checked to be 34 bits")]
    pub const fn new(bytes: i64) -> Option<Self> {
        if bytes < -(1 << 33) || bytes >= 1 << 33 {
            return None;
        }
        Some(Self { high: (bytes >> 16) as i32, low: bytes as u16 })
    }

    /// Its number of bytes.
    #[must_use]
    pub const fn bytes(self) -> i64 {
        (self.high as i64) << 16 | self.low as i64
    }

    /// From the 18-bit field of the prefix and the 16-bit field of the suffix.
    pub(super) const fn from_fields(d0: u32, d1: u16) -> Self {
        Self { high: ((d0 << 14) as i32) >> 14, low: d1 }
    }

    /// The fields of prefix and suffix.
    pub(super) const fn fields(self) -> (u32, u16) {
        (self.high as u32 & 0x3_ffff, self.low)
    }
}

/// What is added to the base register RA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offset {
    /// D and DS forms: a signed byte count; in DS forms a multiple of 4.
    Displacement(i16),
    /// X forms: the number of register RB, 0 to 31.
    Register(u8),
    /// Prefixed forms.
    Long(LongDisplacement),
    /// Prefixed forms relative to the instruction's own address; RA is 0.
    Relative(LongDisplacement),
}

impl Offset {
    /// The sum with base register `ra`, as much of it as the mode looks at.
    pub(super) const fn effective_address(self, ra: u8, gpr: &[u64; 32], mode: Mode) -> u64 {
        let base = if ra == 0 { 0 } else { gpr[(ra & 31) as usize] };
        let offset = match self {
            Self::Displacement(bytes) => bytes as i64 as u64,
            Self::Register(rb) => gpr[(rb & 31) as usize],
            Self::Long(displacement) | Self::Relative(displacement) => displacement.bytes() as u64,
        };
        mode.truncate(base.wrapping_add(offset))
    }
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
    /// access (`vaddr_accessed`), which is what this returns. Of [`Offset::Relative`] it is the distance from the
    /// instruction: see [`Insn::effective_address`].
    #[must_use]
    pub const fn effective_address(&self, gpr: &[u64; 32], mode: Mode) -> u64 {
        self.offset.effective_address(self.ra, gpr, mode)
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

/// A storage access that KVM's emulator does not take: the guest gets a data storage interrupt.
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
}

/// Why KVM's emulator does not take an access.
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
    /// `lfdp`, `stfdp` and their x forms: a pair of floating-point registers (Power ISA 2.07 Book I, 4.6.4).
    FloatingPoint,
    /// Vector-scalar registers in elements that are neither words nor doublewords (Power ISA 3.0 Book I, 7.6).
    Vsx,
    /// `plxvp`, `pstxvp`: a pair of vector-scalar registers (Power ISA 3.1 Book I, 7.6).
    VectorPair,
}

impl Refusal {
    /// What the kernel asks for before it refuses: with that unavailable the guest gets the interrupt for it instead.
    #[must_use]
    pub const fn facility(self) -> Option<Facility> {
        match self {
            Self::FloatingPoint => Some(Facility::FloatingPoint),
            Self::Vsx => Some(Facility::Vector),
            Self::VectorPair => Some(Facility::VectorScalar),
            _ => None,
        }
    }
}

/// An instruction that accesses storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Insn {
    /// One integer load or store.
    Access(Access),
    /// A load or store of another register.
    Facility(FacilityAccess),
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
            Self::Facility(access) => access.name,
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
            Self::Facility(access) => access.direction,
            Self::CacheOp(op) => op.direction,
            Self::Refused(refused) => refused.direction,
        }
    }
    /// The effective address of a load or store at address `pc` with these register contents; `None` for others.
    #[must_use]
    pub const fn effective_address(&self, pc: u64, gpr: &[u64; 32], mode: Mode) -> Option<u64> {
        let (offset, sum) = match self {
            Self::Access(access) => (access.offset, access.effective_address(gpr, mode)),
            Self::Facility(access) => (access.offset, access.effective_address(gpr, mode)),
            Self::CacheOp(_) | Self::Refused(_) => return None,
        };
        Some(if matches!(offset, Offset::Relative(_)) { mode.truncate(pc.wrapping_add(sum)) } else { sum })
    }
}
