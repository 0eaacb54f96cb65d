//! The simulator beside a real kernel.

use serde::Serialize;

use crate::addr::KernelBehaviour;
use crate::kvm_x86::FastMmio;
use crate::proof::compare::{Compared, Counts};

use super::Report;
use super::compared::{self, Column};
use super::csv::Row;

/// Something that was compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedPart {
    /// What.
    pub name: String,
    /// What was found.
    pub compared: Compared,
}

/// A comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompareReport {
    /// The real kernel's release.
    pub kernel: String,
    /// Switches of the simulated kernel that differ from Linux 6.12's.
    pub switches: Vec<(&'static str, &'static str)>,
    /// Whether it asks the fast MMIO bus before decoding.
    pub fast_mmio: FastMmio,
    /// What was compared.
    pub parts: Vec<ComparedPart>,
}

impl CompareReport {
    /// Of parts compared with a kernel simulated so.
    #[must_use]
    pub fn new(kernel: &str, simulated: (KernelBehaviour, FastMmio), parts: Vec<ComparedPart>) -> Self {
        let switches = simulated.0.differences(&KernelBehaviour::default());
        Self { kernel: kernel.to_owned(), switches, fast_mmio: simulated.1, parts }
    }

    fn columns(&self) -> Vec<Column> {
        let column = |part: &ComparedPart| Column {
            name: part.name.clone(),
            counts: quantities(&part.compared.counts).to_vec(),
            difference: part.compared.difference.as_ref().map(ToString::to_string),
        };
        self.parts.iter().map(column).collect()
    }
}

fn quantities(counts: &Counts) -> [(&'static str, u64); 11] {
    [
        ("streams", counts.streams),
        ("accesses", counts.accesses),
        ("exits to user space", counts.exits),
        ("  because the ring was full", counts.ring_full),
        ("writes into the ring", counts.coalesced),
        ("ioeventfds signalled", counts.signals),
        ("loads from the read-only slot", counts.memory),
        ("changes of buses and memory", counts.changes),
        ("  refused, by the same errno", counts.refused),
        ("bytes read, compared", counts.bytes_read),
        ("ring entries compared", counts.entries),
    ]
}

impl Report for CompareReport {
    fn table(&self) -> String {
        let switches: Vec<_> = self.switches.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let fast = match self.fast_mmio {
            FastMmio::BeforeDecoding => "fast MMIO bus asked before decoding",
            FastMmio::Never => "fast MMIO bus not asked before decoding",
        };
        let (kernel, switches) = (&self.kernel, switches.concat());
        let text = format!("real kernel {kernel} beside the simulated linux-6.12{switches}, {fast}\n\n");
        text + &compared::table(&self.columns())
    }

    fn rows(&self) -> Vec<Row> {
        compared::rows(&self.columns())
    }
}
