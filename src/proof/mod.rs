//! Proof: published figures against simulated ones, and the fit that a machine model rests on.
//!
//! Three words are kept apart everywhere: a figure is **fitted** if the fit used it, **predicted** if the model gives it
//! without having seen it, **measured** if it was read off a real kernel in this run.

mod calibrate;
mod calibrate_x86;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod compare;
mod published;
mod published_x86;
mod reproduce;

pub use calibrate::{Calibration, FitError, FittedCost, calibrate};
pub use calibrate_x86::{X86Calibration, X86Figure, calibrate_x86, x86_figures};
pub use published::{Benchmark, Published, Rows};
pub use published_x86::{CoalescedPio, PciConfig, PerfRow, PioLatency};
pub use reproduce::{Comparison, Figure, ReproduceError, Standing, reproduce};
