//! What the Power ISA says, independent of any hypervisor.

pub mod insn;
