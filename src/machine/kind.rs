//! What kind of machine a model is of, and which costs it therefore has.

use serde::{Deserialize, Serialize};

use crate::addr::named;
use crate::kvm_hv;
use crate::kvm_x86;

use super::model::Extra;

/// A kind of machine: which path through the hypervisor its stages price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// POWER with KVM Book3S HV: [`crate::kvm_hv`].
    #[default]
    Book3sHv,
    /// x86: [`crate::kvm_x86`].
    X86,
}

impl Kind {
    /// Name in machine models.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Book3sHv => "book3s-hv",
            Self::X86 => "x86",
        }
    }

    /// Names of the stages of its path, in path order.
    #[must_use]
    pub fn stage_names(self) -> Vec<&'static str> {
        match self {
            Self::Book3sHv => kvm_hv::Stage::ALL.iter().map(|stage| stage.name()).collect(),
            Self::X86 => kvm_x86::Stage::ALL.iter().map(|stage| stage.name()).collect(),
        }
    }

    /// Names of the costs around its path.
    #[must_use]
    pub fn around_names(self) -> Vec<&'static str> {
        match self {
            Self::Book3sHv => Extra::ALL.iter().map(|extra| extra.name()).collect(),
            Self::X86 => X86Extra::ALL.iter().map(|extra| extra.name()).collect(),
        }
    }
}

named! {
    /// A cost around the path on x86: guest software and device models.
    pub enum X86Extra {
        /// Guest interrupt: raised by a device until its handler runs, if the vCPU waits for it.
        Interrupt = "interrupt",
        /// User space: the PCI host's own part of a configuration access, beyond finding it.
        PciConfig = "pci-config",
        /// Guest: a boot's PCI scan beside its configuration accesses, once a scan.
        BootRest = "boot-rest",
    }
}
