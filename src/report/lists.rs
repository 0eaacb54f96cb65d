//! What there is: scenarios, machines, policies, kernel presets and switches.

use serde::Serialize;

use crate::addr::{KernelBehaviour, Preset};
use crate::kvm_hv::PolicyKind;
use crate::machine::{self, Machine};
use crate::sim::{Scenario, scenario};

use super::Report;
use super::csv::Row;
use super::table::words;

/// A named thing and a sentence on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Item {
    kind: &'static str,
    name: String,
    description: String,
}

/// Everything with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Everything {
    items: Vec<Item>,
}

/// Everything that has a name on the command line.
#[must_use]
pub fn list() -> impl Report {
    let mut items = Vec::new();
    let mut add = |kind, name: &str, description: String| {
        items.push(Item { kind, name: name.to_owned(), description });
    };
    for (name, _) in scenario::BUILT_IN {
        let description = Scenario::load(name).map_or_else(|error| error.to_string(), |found| found.description);
        add("scenario", name, description);
    }
    for (name, _) in machine::BUILT_IN {
        let description = Machine::built_in(name).map_or_else(String::new, |found| found.description);
        add("machine model", name, description);
    }
    for preset in [Preset::Linux6_1, Preset::Linux6_12] {
        let differing = preset.behaviour().differences(&KernelBehaviour::default());
        let differing: Vec<_> = differing.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let description = match differing.as_slice() {
            [] => "every switch at its default".to_owned(),
            list => format!("the default but {}", list.join(", ")),
        };
        add("kernel", preset.name(), description);
    }
    for policy in PolicyKind::ALL {
        let words = match policy {
            PolicyKind::RoundRobin => "rotating index, the kernel's",
            PolicyKind::Lru => "least recently used",
            PolicyKind::Clock => "second chance by a reference bit",
            PolicyKind::Sieve => "insertion order, visited bit, moving hand",
            PolicyKind::Random => "a slot drawn at random",
        };
        add("policy", policy.name(), words.to_owned());
    }
    for switch in KernelBehaviour::SWITCHES {
        add("switch", switch.name, format!("{}:{}", switch.values.join(" | "), switch.doc));
    }
    Everything { items }
}

impl Report for Everything {
    fn table(&self) -> String {
        let mut table = words(&["", "name", ""]);
        for item in &self.items {
            table.add_row([item.kind, &item.name, &item.description]);
        }
        format!("{table}\n")
    }

    fn rows(&self) -> Vec<Row> {
        self.items.iter().map(|item| Row::new(&item.name, item.kind, &item.description, "", "")).collect()
    }
}
