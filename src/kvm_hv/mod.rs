//! What Linux KVM Book3S HV does for a hash guest: table, memslots, hypercalls, fault handlers, the MMIO HPTE cache.
//!
//! A [`Vm`] is shared by vCPU threads; each [`Vcpu`] owns its registers, SLB and MMIO HPTE cache. An access goes
//! through [`Vcpu::access`], or step by step through [`Vcpu::early_fault`] and [`Vcpu::full_fault`] with the saved
//! fault state between them, as in the kernel. The room reports the [`Stage`]s an access went through and knows
//! no time.
//!
//! # Lock order
//! HVLOCK of an HPTE before the rmap lock of its page ([`lock`]). `slots_lock` (memslots, new tables) is outermost.
//! The access path takes no lock but HVLOCK and the rmap lock: memslots and the table are read-copy-update
//! snapshots, as under the kernel's SRCU.

mod access;
pub mod cache;
mod classify;
mod early;
mod emulate;
mod full;
mod hcall;
pub mod hpt;
mod htab;
pub mod lock;
pub mod memslot;
mod outcome;
mod page_out;
mod pieces;
mod resize;
pub mod rmap;
pub mod stage;
mod vcpu;
mod vm;
mod vrma;

pub use access::{Access, Fetch};
pub use cache::{CacheDesign, CacheError, KERNEL_ENTRIES, MmioCache, PolicyKind};
pub use early::{EarlyStep, Fault};
pub use full::FullStep;
pub use hcall::{BULK_REQUESTS, H_FUNCTION, HcallError, HcallReturn, ProtectFlags, flags, number};
pub use htab::HtabError;
pub use outcome::{CacheUse, Handler, Interrupt, MissClass, MmioExit, Outcome, Record, RetryReason};
pub use pieces::Completion;
pub use resize::ResizeError;
pub use stage::{Stage, StageLog, StageSet};
pub use vcpu::{Vcpu, VcpuConfig};
pub use vm::{Vm, VmConfig, VmError};
pub use vrma::VRMA_VSID;

/// Bytes of host memory that tables may take: what is available now, or 16 GiB where that cannot be read.
pub(crate) fn host_memory_limit() -> u64 {
    static LIMIT: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *LIMIT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib = available.and_then(|value| value.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.map_or(16 << 30, |kib| kib * 1024)
    })
}
