//! KVM on x86_64: VMs of a few megabytes whose guest programs the crate writes itself.
//!
//! ```text
//! System (/dev/kvm) -> Vm (memory, slots, ioeventfds, zones) -> Vcpu (KVM_RUN, exits) -> UserSpace (devices)
//!                                                             -> MappedRing (the kernel's own ring page)
//! Asm -> machine code -> the guest's memory, run at CPL 3 in long mode, ended by an OUT
//! ```
//!
//! Exits come in the words of [`crate::kvm_x86`], and the devices behind them are those of [`crate::device`], so that what a
//! real kernel does can be set beside what the simulator says.

#![expect(unsafe_code, reason = "real memory, real system calls; each block answers for itself")]

mod asm;
mod ecam;
mod encode;
mod guest;
mod probe;
mod ring;
pub mod run;
mod run_pages;
mod scan;
mod system;
mod vcpu;
mod vm;

pub use asm::{Asm, Label, Reg};
pub use ecam::EcamMemory;
pub use guest::{CODE, DATA, ECAM, EXIT_PORT, MMIO, RAM_BYTES};
pub use probe::probe;
pub use ring::MappedRing;
pub use scan::scan_accesses;
pub use system::System;
pub use vcpu::Vcpu;
pub use vm::Vm;

pub use super::{Deadline, HostError, HostEventfd, Mapping, OutOfRange, Place};
