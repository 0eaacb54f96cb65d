//! One register read many times: the published benchmark.

use super::AccessCounts;
use crate::io::pci::{Bdf, ConfigAccess, Register, Unreachable};

/// `raw_pci_read` of one register in a loop ("Prefer MMIO over PIO on VMware hypervisor", 2022: 100,000 times).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawReads {
    /// Which function.
    pub bdf: Bdf,
    /// Which register.
    pub register: Register,
    /// How often.
    pub count: u64,
}

/// What such a loop did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawReadsResult {
    /// Reads made; no writes.
    pub counts: AccessCounts,
    /// What the last one gave, if there was one.
    pub last: Option<u32>,
}

impl RawReads {
    /// Reads.
    ///
    /// # Errors
    /// The register is out of reach; nothing was read then.
    pub fn run<C: ConfigAccess + ?Sized>(&self, config: &mut C) -> Result<RawReadsResult, Unreachable> {
        let mut last = None;
        for _ in 0..self.count {
            last = Some(config.read(self.bdf, self.register)?);
        }
        Ok(RawReadsResult { counts: AccessCounts { reads: self.count, writes: 0 }, last })
    }
}
