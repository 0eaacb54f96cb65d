//! Port I/O as a workload: a stream of INs or OUTs, and the ways a VMM can handle them.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::addr::{Port, named};
use crate::kvm_x86::PortWidth;

named! {
    /// How port accesses are handled.
    pub enum PortMode {
        /// In user space, which gets and sets the guest's registers at every exit, as QEMU did in 2007.
        RegsEveryExit = "regs-every-exit",
        /// In user space, which touches registers only when it needs them.
        RegsWhenNeeded = "regs-when-needed",
        /// By a device in the kernel.
        InKernel = "in-kernel",
        /// Writes wait in the coalesced ring; reads, and writes that find it full, go to user space.
        Coalesced = "coalesced",
    }
}

impl FromStr for PortMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|mode| mode.name() == name);
        found.ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|mode| mode.name()).collect();
            format!("no port mode is named `{name}`: {}", known.join(", "))
        })
    }
}

impl<'de> Deserialize<'de> for PortMode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for PortMode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Which way a stream goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortDirection {
    /// OUT, or REP OUTS.
    #[default]
    Out,
    /// IN, or REP INS.
    In,
}

/// A stream of port accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PioStream {
    /// Port.
    pub port: Port,
    /// Which way.
    pub direction: PortDirection,
    /// Bytes of an access, or of an element of a string.
    pub width: PortWidth,
    /// Instructions.
    pub count: u64,
    /// Elements of an instruction: 1 for IN and OUT, more for REP INS and REP OUTS.
    pub string: u32,
    /// Guest time between two instructions, ns.
    pub gap_ns: u64,
}
