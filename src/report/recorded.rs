//! What a run says of the recording it replayed.

use crate::sim::{Recorded, RunResult};

use super::csv::Row;
use super::table::figures;
use super::{grouped, percent};

/// Rows that a table shows of a list; JSON has all.
const SHOWN: usize = 12;

/// Tables, run by run.
pub(super) fn tables(runs: &[RunResult]) -> String {
    runs.iter().filter_map(|run| run.recorded.as_ref()).map(one).collect()
}

fn share(hits: u64, accesses: u64) -> String {
    if accesses == 0 { "-".to_owned() } else { percent(hits as f64 / accesses as f64) }
}

fn one(recorded: &Recorded) -> String {
    let mut text = String::new();
    if let Some(observed) = &recorded.observed {
        let total = observed.hits + observed.misses;
        let mut table = figures(&["observed by the recording", "accesses"]);
        table.add_row(["hits".to_owned(), grouped(observed.hits)]);
        table.add_row(["misses".to_owned(), grouped(observed.misses)]);
        table.add_row(["observed hit rate".to_owned(), share(observed.hits, total)]);
        table.add_row(["the simulation says the same".to_owned(), grouped(observed.agreeing)]);
        text += &format!("\n{table}\n");
        if let Some(first) = &observed.first_disagreement {
            text += &format!(
                "first difference: access {} (vCPU {}, {} ns, EA {:#x}): observed {}, simulated {}\n",
                first.access, first.vcpu, first.at_ns, first.ea, first.observed, first.simulated
            );
        }
    }
    let list = |header: &str, rows: Vec<(String, u64, u64)>| {
        let more = rows.len().saturating_sub(SHOWN);
        let mut table = figures(&[header, "accesses", "simulated hits", "hit rate"]);
        for (name, accesses, hits) in rows.into_iter().take(SHOWN) {
            table.add_row([name, grouped(accesses), grouped(hits), share(hits, accesses)]);
        }
        let more = if more > 0 { format!("{more} more are in --format json\n") } else { String::new() };
        format!("\n{table}\n{more}")
    };
    if recorded.vcpus.len() > 1 {
        let name = |vcpu: u32| {
            let known = recorded.facts.vcpus.get(usize::try_from(vcpu).unwrap_or(usize::MAX));
            let pid = known.and_then(|known| known.pid).map_or_else(String::new, |pid| format!(" (thread {pid})"));
            format!("{vcpu}{pid}")
        };
        text += &list("vCPU", recorded.vcpus.iter().map(|row| (name(row.vcpu), row.accesses, row.hits)).collect());
    }
    if !recorded.devices.is_empty() {
        let rows = recorded.devices.iter().map(|row| (row.device.clone(), row.accesses, row.hits));
        text += &list("device", rows.collect());
    }
    if !recorded.pages.is_empty() {
        let rows = recorded.pages.iter().map(|row| (format!("{:#x}", row.ea), row.accesses, row.hits));
        text += &list(&format!("page, of {}", grouped(recorded.distinct_pages)), rows.collect());
    }
    if recorded.over_time.len() > 1 {
        // Eight lines tell a trend; JSON has all stretches.
        let step = recorded.over_time.len().div_ceil(8);
        let sum = |rows: &[crate::sim::TimeRow]| {
            let total = rows.iter().fold((0, 0), |sum, row| (sum.0 + row.accesses, sum.1 + row.hits));
            (rows.first().map_or(0, |row| row.from).to_string(), total.0, total.1)
        };
        text += &list("over time, from", recorded.over_time.chunks(step).map(sum).collect());
    }
    text
}

/// The same as CSV rows.
pub(super) fn rows(run: &RunResult, subject: &str, rows: &mut Vec<Row>) {
    let Some(recorded) = &run.recorded else { return };
    if let Some(observed) = &recorded.observed {
        for (quantity, value) in
            [("observed hits", observed.hits), ("observed misses", observed.misses), ("agreeing", observed.agreeing)]
        {
            rows.push(Row::new(subject, quantity, value, "", "measured"));
        }
    }
    let mut pair = |subject: String, accesses: u64, hits: u64| {
        rows.push(Row::new(&subject, "accesses", accesses, "", ""));
        rows.push(Row::new(&subject, "hits", hits, "", ""));
    };
    for row in &recorded.vcpus {
        pair(format!("{subject}, vCPU {}", row.vcpu), row.accesses, row.hits);
    }
    for row in &recorded.devices {
        pair(format!("{subject}, {}", row.device), row.accesses, row.hits);
    }
    for row in &recorded.pages {
        pair(format!("{subject}, page {:#x}", row.ea), row.accesses, row.hits);
    }
    for row in &recorded.over_time {
        pair(format!("{subject}, from {}", row.from), row.accesses, row.hits);
    }
}
