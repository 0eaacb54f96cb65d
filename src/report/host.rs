//! What a host is and does.

use comfy_table::Table;

use crate::host::probe::{Ability, Capability, Execution, Probe};
use crate::kvm_x86::FastMmio;

use super::Report;
use super::csv::Row;
use super::table::{figures, words};

pub(super) fn capability_table(capabilities: &[Capability]) -> Table {
    let mut table = words(&["capability", "value", "enables"]);
    for capability in capabilities {
        let value = if capability.value == 0 { "absent".to_owned() } else { capability.value.to_string() };
        table.add_row([capability.name, &value, capability.enables]);
    }
    table
}

pub(super) fn ability_table(abilities: &[Ability]) -> Table {
    let mut table = words(&["can run", ""]);
    for ability in abilities {
        let answer = ability.missing.map_or_else(|| "yes".to_owned(), |name| format!("no: {name} is absent"));
        table.add_row([ability.what, &answer]);
    }
    table
}

pub(super) fn capability_rows(capabilities: &[Capability]) -> impl Iterator<Item = Row> {
    capabilities.iter().map(|found| Row::new("capability", found.name, found.value, "", ""))
}

pub(super) fn ability_rows(abilities: &[Ability]) -> impl Iterator<Item = Row> {
    let answer = |ability: &Ability| if ability.missing.is_none() { "yes" } else { "no" };
    abilities.iter().map(move |ability| Row::new("can run", ability.what, answer(ability), "", ""))
}

impl Report for Probe {
    fn table(&self) -> String {
        let modules = if self.modules.is_empty() { "modules unknown".to_owned() } else { self.modules.join(", ") };
        let mut text = format!("KVM API {}, kernel {}, {modules}\n\n", self.api_version, self.kernel);
        text += &format!("{}\n\n", capability_table(&self.capabilities));
        let mut table = words(&["found by experiment", ""]);
        for (what, found) in self.findings() {
            table.add_row([what, &found]);
        }
        text += &format!("{table}\n\n");
        let mut table = figures(&["measured on this host", "ns"]);
        table.add_row(["empty loop, one turn".to_owned(), format!("{:.2}", self.loop_ns)]);
        table.add_row(["OUT to user space and back".to_owned(), format!("{:.0}", self.exit_ns)]);
        text += &format!("{table}\n\n");
        text + &format!("{}\n", ability_table(&self.abilities))
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = vec![
            Row::new("host", "KVM API version", self.api_version, "", ""),
            Row::new("host", "kernel", &self.kernel, "", ""),
            Row::new("host", "modules", self.modules.join(" "), "", ""),
        ];
        rows.extend(capability_rows(&self.capabilities));
        rows.extend(
            self.findings().into_iter().map(|(what, found)| Row::new("experiment", what, found, "", "measured")),
        );
        rows.push(Row::new("experiment", "empty loop, one turn", self.loop_ns, "ns", "measured"));
        rows.push(Row::new("experiment", "OUT to user space and back", self.exit_ns, "ns", "measured"));
        rows.extend(ability_rows(&self.abilities));
        rows
    }
}

impl Probe {
    fn findings(&self) -> Vec<(&'static str, String)> {
        let absent = || "not tried: the capability is absent".to_owned();
        let ring = self.ring.as_ref();
        let took = |pairs: &[(u32, u32)]| {
            let words: Vec<_> = pairs.iter().map(|(start, took)| format!("{took} from index {start}")).collect();
            words.join(", ")
        };
        let fast = |fast| match fast {
            FastMmio::BeforeDecoding => "asked before decoding: a load is taken too",
            FastMmio::Never => "not asked before decoding: writes alone, by KVM_MMIO_BUS",
        };
        vec![
            ("ring", ring.map_or_else(absent, |ring| format!("{} slots, page {} of the vCPU", ring.slots, ring.page))),
            ("ring took", ring.map_or_else(absent, |ring| took(&ring.absorbed))),
            (
                "coalesced_room",
                ring.map_or_else(absent, |ring| ring.room.unwrap_or("neither fixed nor legacy").to_owned()),
            ),
            ("zone_lookup", self.zone_lookup.map_or_else(absent, str::to_owned)),
            ("fast MMIO bus", self.fast_mmio.map_or_else(absent, |found| fast(found).to_owned())),
            (
                "guest code at CPL 3",
                match self.execution {
                    Execution::Native => "native",
                    Execution::Interpreted => "interpreted",
                }
                .to_owned(),
            ),
        ]
    }
}
