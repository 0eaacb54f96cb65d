//! The simulator beside a real kernel.

use serde::Serialize;

use crate::addr::KernelBehaviour;
use crate::kvm_x86::FastMmio;
use crate::proof::compare::{Compared, Counts};

use super::csv::Row;
use super::table::figures;
use super::{Report, grouped};

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
        let mut text = format!("real kernel {kernel} beside the simulated linux-6.12{switches}, {fast}\n\n");
        let mut header = vec!["compared"];
        header.extend(self.parts.iter().map(|part| part.name.as_str()));
        let mut table = figures(&header);
        let columns: Vec<_> = self.parts.iter().map(|part| quantities(&part.compared.counts)).collect();
        for line in 0..columns.first().map_or(0, |column| column.len()) {
            let cells = columns.iter().map(|column| grouped(column[line].1));
            table.add_row(std::iter::once(columns[0][line].0.to_owned()).chain(cells));
        }
        let found = |part: &ComparedPart| if part.compared.difference.is_some() { "DIFFERENT" } else { "equal" };
        table.add_row(std::iter::once("outcome").chain(self.parts.iter().map(found)));
        text += &format!("{table}\n");
        for part in &self.parts {
            if let Some(difference) = &part.compared.difference {
                text += &format!("\n{}: {difference}", part.name);
            }
        }
        text
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for part in &self.parts {
            for (quantity, count) in quantities(&part.compared.counts) {
                rows.push(Row::new(&part.name, quantity.trim(), count, "", ""));
            }
            let difference = part.compared.difference.as_ref().map_or_else(|| "equal".to_owned(), ToString::to_string);
            rows.push(Row::new(&part.name, "outcome", difference, "", ""));
        }
        rows
    }
}
