//! Proof: published figures against simulated ones, and the fit that a machine model rests on.
//!
//! Three words are kept apart everywhere: a figure is **fitted** if the fit used it, **predicted** if the model gives it
//! without having seen it, **measured** if it was read off a real kernel in this run.

mod benchmark;
mod calibrate;
mod calibrate_x86;
mod coalesced_pio;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod compare;
pub mod compare_steps;
mod comparison;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod host_fit;
mod measured_model;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod on_host;
mod pci_config;
mod pio_latency;
mod published;
mod published_x86;
mod ratios;
mod reproduce;
mod rng;
#[cfg(any(test, all(target_os = "linux", any(target_arch = "x86_64", target_arch = "powerpc64"))))]
mod spread;
#[cfg(all(target_os = "linux", target_arch = "powerpc64", target_endian = "little"))]
pub mod store_fit;

pub use benchmark::Benchmark;
pub use calibrate::{Calibration, FitError, FittedCost, calibrate};
pub use calibrate_x86::{X86Calibration, calibrate_x86};
pub use comparison::{Comparison, Figure, PerfPair, PerfTable, ReproduceError, Standing};
pub use measured_model::{HeldOut, HostModel, MeasuredWay};
pub use published::{CoalescedPio, PciConfig, PerfRow, PioLatency, Published, Rows};
pub use ratios::{MeasuredRatio, MeasuredTime, OnHost, Ratio};
pub use reproduce::reproduce;
