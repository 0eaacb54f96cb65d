//! PCI configuration as a workload: a boot's scan or one register read over and over, by each method that a guest may have.

use std::str::FromStr;

use serde::Deserialize;

use crate::addr::named;
use crate::io::pci::{Attachment, ConfigMethod, ReadOnlySlots, Register};

named! {
    /// How a guest reaches configuration space, and what the VMM lets wait in the coalesced ring.
    pub enum PciMethod {
        /// Ports 0xcf8 and 0xcfc: two exits an access; nothing from 0x100 up.
        Type1 = "type1",
        /// The same with 0xcf8 coalesced, as QEMU has it: one exit an access, which drains the ring first.
        Type1Coalesced = "type1-coalesced",
        /// Ports below 0x100 and ECAM from there, as Linux has it where both are there (`raw_pci_ops`, `raw_pci_ext_ops`).
        Type1Ecam = "type1-ecam",
        /// ECAM: one exit an access.
        Ecam = "ecam",
        /// ECAM over a read-only memslot: reads are plain memory, writes exit.
        EcamReadOnly = "ecam-read-only",
    }
}

impl PciMethod {
    /// The method for registers below 0x100 and the one from there, on a host with or without read-only memslots.
    #[must_use]
    pub const fn on(self, slots: ReadOnlySlots) -> [ConfigMethod; 2] {
        match self {
            Self::Type1 | Self::Type1Coalesced => [ConfigMethod::Type1; 2],
            Self::Type1Ecam => [ConfigMethod::Type1, ConfigMethod::Ecam],
            Self::Ecam => [ConfigMethod::Ecam; 2],
            Self::EcamReadOnly => [ConfigMethod::EcamReadOnly.on(slots); 2],
        }
    }
}

impl FromStr for PciMethod {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|method| method.name() == name);
        found.ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|method| method.name()).collect();
            format!("no configuration method is named `{name}`: {}", known.join(", "))
        })
    }
}

impl<'de> Deserialize<'de> for PciMethod {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What the guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PciTask {
    /// A boot's scan of bus 0, then the virtio drivers' look at the structures ([`super::pci_scan::Scan`]).
    Scan,
    /// One register of 00:01.0 read over and over ([`super::pci_scan::RawReads`]).
    RawReads {
        /// Which.
        register: Register,
        /// How often.
        count: u64,
    },
}

/// The workload. How many virtio functions there are says the scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciConfig {
    /// What the guest does.
    pub task: PciTask,
    /// What kind of bus the functions are on.
    pub attachment: Attachment,
    /// Whether the host has read-only memslots.
    pub slots: ReadOnlySlots,
    /// The method in a run.
    pub method: PciMethod,
    /// The methods that `hvmmio run` compares.
    pub methods: Vec<PciMethod>,
}
