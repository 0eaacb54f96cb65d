//! Machine state register and storage-interrupt status bits (Power ISA 2.07 Book III-S, 3.2.1 and 6.5.3).

/// 64-bit mode.
pub const MSR_SF: u64 = 1 << 63;
/// Machine check interrupts are taken.
pub const MSR_ME: u64 = 1 << 12;
/// An interrupt can be returned from.
pub const MSR_RI: u64 = 1 << 1;
/// Vector available: off, `lvx` and its like interrupt.
pub const MSR_VEC: u64 = 1 << 25;
/// Vector-scalar available: off, `lxvd2x` and its like interrupt.
pub const MSR_VSX: u64 = 1 << 23;
/// Problem state: Kp decides instead of Ks.
pub const MSR_PR: u64 = 1 << 14;
/// Floating point available: off, `lfd` and its like interrupt.
pub const MSR_FP: u64 = 1 << 13;
/// Instruction relocation: the kernel can load the instruction word for emulation only with this on.
pub const MSR_IR: u64 = 1 << 5;
/// Data relocation: EAs go through SLB and HPT, and storage keys apply.
pub const MSR_DR: u64 = 1 << 4;
/// Little-endian mode.
pub const MSR_LE: u64 = 1;

/// DSISR: no HPTE translates the address (`DSISR_NOHPTE`).
pub const DSISR_NOHPTE: u32 = 0x4000_0000;
/// DSISR: PP bits forbid the access (`DSISR_PROTFAULT`).
pub const DSISR_PROTFAULT: u32 = 0x0800_0000;
/// DSISR: an attempt the implementation cannot do (`DSISR_BADACCESS`).
pub const DSISR_BADACCESS: u32 = 0x0400_0000;
/// DSISR: the access was a store (`DSISR_ISSTORE`).
pub const DSISR_ISSTORE: u32 = 0x0200_0000;
/// DSISR: the virtual page class key forbids the access (`DSISR_KEYFAULT`).
pub const DSISR_KEYFAULT: u32 = 0x0020_0000;
/// SRR1 of an instruction storage interrupt: no-execute or guarded (`SRR1_ISI_N_G_OR_CIP`).
pub const SRR1_ISI_N_G_OR_CIP: u32 = 0x1000_0000;
/// SRR1 of an instruction storage interrupt: protection (`SRR1_ISI_PROT`).
pub const SRR1_ISI_PROT: u32 = 0x0800_0000;
