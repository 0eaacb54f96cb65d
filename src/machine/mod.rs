//! Machine models: what each stage costs, with the source of every figure.
//!
//! A model is a TOML file under `models/machines/`; those shipped are compiled in. It prices the stages that
//! [`crate::kvm_hv`] or, of kind `x86`, [`crate::kvm_x86`] reports and gives the costs around them: guest drivers, back ends.

mod file;
mod fit;
mod kind;
mod model;
mod noise;
mod price;
mod price_x86;

pub use file::{FileError, parse_toml, read_text};
pub use fit::{Fit, PowerFit, X86Figures, X86Fit};
pub use kind::{Kind, X86Extra};
pub use model::{Cost, Extra, Machine, Provenance};
pub use noise::{Factor, Noise};
pub use price::{Prices, SimTime};
pub use price_x86::X86Prices;

/// Machine models shipped with the crate: name and text.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("power8-2016", include_str!("../../models/machines/power8-2016.toml")),
    ("x86-2007-amd-x2", include_str!("../../models/machines/x86-2007-amd-x2.toml")),
    ("x86-2018-qemu-win7", include_str!("../../models/machines/x86-2018-qemu-win7.toml")),
    ("x86-2022-vmware", include_str!("../../models/machines/x86-2022-vmware.toml")),
];

/// The names of the shipped models, for messages.
pub(crate) fn built_in_names() -> String {
    BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}
