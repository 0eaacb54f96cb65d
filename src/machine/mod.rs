//! Machine models: what each stage costs, with the source of every figure.
//!
//! A model is a TOML file under `models/machines/`; those shipped are compiled in. It prices the stages that
//! [`crate::kvm_hv`] reports and gives the costs around them: guest drivers, back ends.

mod file;
mod model;
mod price;

pub use file::{FileError, parse_toml, read_text};
pub use model::{Cost, Extra, Fit, Machine, Provenance};
pub use price::{Prices, SimTime};

/// Machine models shipped with the crate: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[("power8-2016", include_str!("../../models/machines/power8-2016.toml"))];
