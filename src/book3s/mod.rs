//! What the Power ISA says of Book3S hash translation: segments, HPTEs, hash, protection, loads and stores.
//!
//! Nothing here knows a kernel. Sources: Power ISA 2.07 Book III-S chapter 5 (storage control), Book I
//! chapter 3 (fixed-point storage access); names of bits are the kernel's (`book3s/64/mmu-hash.h`).

pub mod float;
pub mod hash;
pub mod hpte;
pub mod insn;
pub mod msr;
pub mod page_size;
pub mod protect;
pub mod slb;
mod vsr;

pub use hash::HashKey;
pub use hpte::Hpte;
pub use page_size::{PageSize, PageSizes};
pub use slb::{SegmentSize, Slb, SlbEntry, SlbError};
pub use vsr::Vsr;
