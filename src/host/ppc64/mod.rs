//! KVM Book3S HV on POWER: a hash guest that performs [steps](crate::workload::steps) on the real kernel.
//!
//! ```text
//! System (/dev/kvm) -> HashGuest: program in guest memory, queue of records -> KVM_RUN -> answers
//!                      Vm (HPT, memslots, ioeventfds), Vcpu, Tracer (hit or miss, by the kernel's own trace)
//! ```
//!
//! No kvm crate knows POWER: structures and constants come from bindgen ([`uapi`], written by `uapi.sh`), numbers of ioctls from
//! [`ioctl`]. What needs no POWER kernel is tested on x86_64 too.

#![expect(unsafe_code, reason = "real system calls; each block answers for itself")]

mod attribute;
mod call;
mod guest;
mod host_table;
mod htab;
mod ioctl;
mod probe;
mod program;
mod record;
mod run_call;
mod stores;
mod system;
mod tracer;
#[expect(nonstandard_style, dead_code, reason = "the kernel's names and structures, as bindgen writes them")]
mod uapi;
mod vcpu;
mod vm;

pub use guest::{HashGuest, Tracing};
pub use probe::{PpcProbe, SegmentPages, probe, timebase};
pub use stores::{StoreBench, StoreCost, Way};
pub use system::System;
