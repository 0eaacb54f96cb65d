//! What a POWER host is and does, and what its stores cost.

use serde::Serialize;

use crate::host::ppc64::{PpcProbe, StoreCost};
use crate::proof::store_fit::StoreModel;

use super::Report;
use super::csv::Row;
use super::host::{ability_rows, ability_table, capability_rows, capability_table};
use super::table::{figures, words};

impl PpcProbe {
    fn facts(&self) -> Vec<(&'static str, String)> {
        let or_why =
            |found: &Result<(), String>| found.as_ref().map_or_else(|why| format!("no: {why}"), |()| "yes".to_owned());
        let pages = self.pages.iter().map(|segment| {
            let sizes: Vec<_> = segment.page_shifts.iter().map(|shift| bytes(*shift)).collect();
            format!("{} with pages of {}", bytes(segment.base_shift), sizes.join(", "))
        });
        let or = |text: &str, none: &str| if text.is_empty() { none.to_owned() } else { text.to_owned() };
        vec![
            ("kernel", self.kernel.clone()),
            ("processor", or(&self.processor, "unknown")),
            ("host's own translation", self.host_mmu.clone()),
            ("host page", format!("{} KiB", self.page_size / 1024)),
            ("VMs", or(&self.kinds.join(" and "), "none: load kvm-hv")),
            ("modules", or(&self.modules.join(", "), "unknown")),
            ("guest segments", or(&pages.collect::<Vec<_>>().join("; "), "unknown")),
            ("coalesced MMIO", self.coalesced.clone()),
            ("a hash guest ran", or_why(&self.hash_guest)),
            ("hits told from misses", or_why(&self.tracing)),
        ]
    }
}

/// A power of two in bytes.
fn bytes(shift: u32) -> String {
    match shift {
        ..20 => format!("{} KiB", (1_u64 << shift) >> 10),
        20..30 => format!("{} MiB", 1_u64 << (shift - 20)),
        30..64 => format!("{} GiB", 1_u64 << (shift - 30)),
        _ => format!("2^{shift}"),
    }
}

impl Report for PpcProbe {
    fn table(&self) -> String {
        let mut table = words(&["found", ""]);
        for (what, found) in self.facts() {
            table.add_row([what, &found]);
        }
        let (capabilities, abilities) = (capability_table(&self.capabilities), ability_table(&self.abilities));
        format!("KVM API {}\n\n{table}\n\n{capabilities}\n\n{abilities}\n", self.api_version)
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = vec![Row::new("host", "KVM API version", self.api_version, "", "")];
        rows.extend(self.facts().into_iter().map(|(what, found)| Row::new("host", what, found, "", "measured")));
        rows.extend(capability_rows(&self.capabilities));
        rows.extend(ability_rows(&self.abilities));
        rows
    }
}

/// A measured row of stores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreRow {
    /// What was stored to.
    pub pages: u32,
    /// What it cost.
    #[serde(flatten)]
    pub cost: StoreCost,
}

/// Ticks a store, by number of pages and by way out of the guest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreReport {
    /// The running kernel's release.
    pub kernel: String,
    /// In which order the pages were stored to.
    pub pattern: &'static str,
    /// Rounds of each row.
    pub rounds: u32,
    /// The rows.
    pub rows: Vec<StoreRow>,
}

impl Report for StoreReport {
    fn table(&self) -> String {
        let mut table = figures(&["way out of the guest", "pages", "stores", "ticks a store", "least", "greatest"]);
        for row in &self.rows {
            let [least, greatest] = row.cost.range.map(|ticks| format!("{ticks:.2}"));
            table.add_row([
                row.cost.way.name().to_owned(),
                row.pages.to_string(),
                row.cost.stores.to_string(),
                format!("{:.2}", row.cost.ticks),
                least,
                greatest,
            ]);
        }
        format!(
            "stores of 4 bytes to MMIO pages of 4 KiB, {}, by a hash guest on this machine's real KVM, kernel {}\n\
             measured in ticks of the time base, the median of {} rounds\n\n{table}\n",
            self.pattern, self.kernel, self.rounds
        )
    }

    fn rows(&self) -> Vec<Row> {
        let row = |row: &StoreRow| {
            Row::new(
                &format!("{}, {} pages", row.cost.way.name(), row.pages),
                "ticks a store",
                row.cost.ticks,
                "ticks",
                "measured",
            )
        };
        self.rows.iter().map(row).collect()
    }
}

/// An error within this many percent of miss less hit is what is aimed at.
const AIM_PERCENT: f64 = 10.0;

impl Report for StoreModel {
    fn table(&self) -> String {
        let mut text = format!("stores on this machine's real KVM, kernel {}; ", self.kernel);
        text += &format!(
            "time base {:.0} MHz, 1 tick is {:.3} ns\n\n",
            self.timebase as f64 / 1e6,
            1e9 / self.timebase as f64
        );
        let mut table = figures(&["the fit rests on: ticks a store", "hit", "miss", "miss less hit"]);
        for way in &self.fitted {
            let [hit, miss, less] = [way.hit, way.miss, way.miss - way.hit].map(|ticks| format!("{ticks:.2}"));
            table.add_row([way.way.name().to_owned(), hit, miss, less]);
        }
        text += &format!("{table}\n\n");
        let mut table = figures(&["cost that was set", "template's ns", "fitted ns"]);
        for cost in &self.costs {
            table.add_row([
                format!("{}.{}", cost.table, cost.name),
                format!("{:.1}", cost.was_ns),
                format!("{:.1}", cost.ns),
            ]);
        }
        text += &format!("{table}\n\n");
        let header =
            ["held out: the fit has not seen it", "simulated hits", "predicted ticks", "measured ticks", "error", ""];
        let mut table = figures(&header);
        for mix in &self.held_out {
            table.add_row([
                format!("{}, {}", mix.way.name(), mix.name),
                super::percent(mix.hit_rate),
                format!("{:.2}", mix.predicted),
                format!("{:.2}", mix.measured.ticks),
                format!("{:+.1} %", mix.error_percent),
                if mix.error_percent.abs() <= AIM_PERCENT { "within 10 %" } else { "NOT within 10 %" }.to_owned(),
            ]);
        }
        text + &format!("{table}\nerrors in percent of miss less hit\n")
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for way in &self.fitted {
            rows.push(Row::new(way.way.name(), "ticks of a hit", way.hit, "ticks", "measured"));
            rows.push(Row::new(way.way.name(), "ticks of a miss", way.miss, "ticks", "measured"));
        }
        rows.extend(self.costs.iter().map(|cost| Row::new(&cost.name, "cost", cost.ns, "ns", "fitted")));
        for mix in &self.held_out {
            let subject = format!("{}, {}", mix.way.name(), mix.name);
            rows.push(Row::new(&subject, "ticks a store", mix.predicted, "ticks", "predicted"));
            rows.push(Row::new(&subject, "ticks a store", mix.measured.ticks, "ticks", "measured"));
            rows.push(Row::new(&subject, "error of miss less hit", mix.error_percent, "%", ""));
        }
        rows
    }
}
