//! The cache lab: the MMIO HPTE cache alone, at memory speed, over a recording or a synthetic trace.
//!
//! A [`Simulator`] is one design: it takes keys and counts hits. [`replay`] runs one over a recording and tells why
//! accesses missed; [`sweep`] runs many sizes and policies over it in one pass. Where mathematics gives all sizes at once
//! it is used: [`Stacks`] for LRU and the optimum, [`FifoSizes`] for round-robin.
//!
//! A key is what the cache compares. For recordings it is a number given to (page, segment) with the generation above
//! it: an entry from before a bump keeps its slot but is never hit again, as in the kernel.

mod advice;
mod cost;
mod details;
mod emulated;
mod fifo_sizes;
mod index;
mod indexed;
mod intern;
mod key;
mod lru_list;
mod policy;
mod replay;
mod simulator;
mod small_fifo;
mod stacks;
mod sweep;
mod why;

pub use advice::Advice;
pub use cost::AccessCost;
pub use details::DeviceRange;
pub use emulated::{EmulateConfig, emulate};
pub use fifo_sizes::FifoSizes;
pub use intern::{Interner, Tag};
pub use key::{KeyDesign, KeyKind};
pub use policy::{LabError, LabPolicy};
pub use replay::{LabFailure, ReplayConfig, replay};
pub use simulator::{Simulator, simulator};
pub use stacks::{Depths, Stacks};
pub use sweep::{Sweep, SweepConfig, SweepRow, sweep};

#[cfg(test)]
mod tests;
