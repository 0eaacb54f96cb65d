//! "introduce coalesced pio support", 2018: `perf kvm stat` without and with, simulated with as many samples as published.

use crate::sim::{ExitStat, RunResult, Scenario, Workload};
use crate::workload::pci_config::{PciConfig, PciMethod, PciTask};
use crate::workload::ports::PortMode;

use super::benchmark::Benchmark;
use super::comparison::{Comparison, Figure, PerfPair, PerfTable, ReproduceError, Standing};
use super::published::{CoalescedPio, PerfRow};
use super::reproduce::Runs;

/// The exits of other ports in the recording that a row is from. The publication shows none of them: how many there are to one exit
/// of the row and how long they take on average is fitted to the row's shares without coalescing.
struct Others {
    per_sample: f64,
    mean_us: f64,
}

impl Others {
    fn fitted(row: &PerfRow) -> Self {
        let own_us = row.samples as f64 * row.avg_us;
        let others = row.samples as f64 * (100.0 / row.samples_pct - 1.0);
        let others_us = own_us * (100.0 / row.time_pct - 1.0);
        Self { per_sample: others / row.samples as f64, mean_us: others_us / others }
    }

    /// `row` with its shares among them.
    fn beside(&self, row: ExitStat) -> ExitStat {
        let own = row.mean_ns / 1000.0;
        let samples_percent = 100.0 / (1.0 + self.per_sample);
        let time_percent = own / (own + self.per_sample * self.mean_us) * 100.0;
        ExitStat { samples_percent, time_percent, ..row }
    }
}

/// The RTC's index written once a tick, so many times.
fn ticks(mut scenario: Scenario, mode: PortMode, samples: u64) -> Result<Scenario, ReproduceError> {
    let Workload::Rtc(tick) = &mut scenario.workload else {
        return Err(ReproduceError::Workload { scenario: scenario.name });
    };
    // Half a period after the last tick.
    tick.duration_ns = (samples * 2 + 1) * 500_000_000 / u64::from(tick.rate_hz);
    Ok(Scenario { mode, ..scenario })
}

/// The latch written once a configuration read, so many times; the read of the data that follows drains the ring.
fn reads(mut scenario: Scenario, method: PciMethod, samples: u64) -> Result<Scenario, ReproduceError> {
    match &mut scenario.workload {
        Workload::Pci(PciConfig { task: PciTask::RawReads { count, .. }, method: by, .. }) => {
            (*count, *by) = (samples, method);
            Ok(scenario)
        }
        _ => Err(ReproduceError::Workload { scenario: scenario.name }),
    }
}

fn row_of(run: &RunResult, event: &str) -> Result<ExitStat, ReproduceError> {
    let found = run.exit_stats.iter().find(|row| row.event == event).cloned();
    found.ok_or_else(|| ReproduceError::NoRow { scenario: run.scenario.clone(), event: event.to_owned() })
}

/// Shares, least, greatest and mean of a row, in the order of perf's columns, each with its standing.
fn figures(table: &str, row: &PerfRow, pair: &PerfPair, variant: &str, standings: [Standing; 5]) -> Vec<Figure> {
    let (seen, us) = (&pair.simulated, |ns: f64| ns / 1000.0);
    let columns = [
        ("samples", "%", row.samples_pct, seen.samples_percent, None),
        ("time", "%", row.time_pct, seen.time_percent, None),
        ("min", "us", row.min_us, us(seen.min_ns), Some(row.resolution_us())),
        ("max", "us", row.max_us, us(seen.max_ns), Some(row.resolution_us())),
        ("avg", "us", row.avg_us, us(seen.mean_ns), None),
    ];
    let figure = |((column, unit, published, simulated, resolution), standing)| {
        let label = format!("{table}, {} {column}", row.access);
        let figure = Figure::new(&label, unit, variant, [published, simulated], standing);
        let published_error = (column == "avg").then(|| row.avg_us * row.avg_spread_pct / 100.0);
        Figure { published_error, resolution, ..figure }
    };
    columns.into_iter().zip(standings).map(figure).collect()
}

pub(super) fn reproduce(published: &CoalescedPio, runs: &mut Runs<'_>) -> Result<Comparison, ReproduceError> {
    use Standing::{Fitted, Predicted};
    let (rtc, pci) = (runs.scenario("rtc-tick")?, runs.scenario("pci-raw-read")?);
    let others = published.without.each_ref().map(Others::fitted);
    // What the fit has seen, by row and column: shares, least, greatest, mean.
    let without = [[Fitted, Fitted, Fitted, Predicted, Predicted], [Fitted, Fitted, Fitted, Predicted, Fitted]];
    let with = [[Predicted; 5], [Predicted, Predicted, Fitted, Predicted, Predicted]];
    let (mut list, mut perf, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for (name, mode, method, rows, standings) in [
        ("without", PortMode::RegsWhenNeeded, PciMethod::Type1, &published.without, without),
        ("with", PortMode::Coalesced, PciMethod::Type1Coalesced, &published.with, with),
    ] {
        let [index, latch] = rows;
        let scenarios = [ticks(rtc.clone(), mode, index.samples)?, reads(pci.clone(), method, latch.samples)?];
        let mut table = PerfTable { name, rows: Vec::new() };
        for (i, (scenario, row)) in scenarios.iter().zip(rows).enumerate() {
            let run = runs.run(scenario, 4)?;
            let pair = PerfPair { published: row.into(), simulated: others[i].beside(row_of(&run, &row.access)?) };
            list.extend(figures(name, row, &pair, &run.variant, standings[i]));
            table.rows.push(pair);
            all.push(run);
        }
        perf.push(table);
    }
    let [index, latch] = &others;
    let notes = vec![
        format!(
            "shares: other exits are not published; fitted to the shares without, and the same with: {:.2} of {:.2} us to one of 0x70, {:.1} of {:.2} us to one of 0xcf8",
            index.per_sample, index.mean_us, latch.per_sample, latch.mean_us
        ),
        "0x70: least and greatest look like whole microseconds, so 0us says no more than: less than 1 us; 0xcf8 has steps of 0.01 us. Against 0 the difference is given".to_owned(),
        "as many samples as published: means scatter by their own spread, and the greatest of a long tail is mostly chance".to_owned(),
    ];
    Ok(Comparison {
        benchmark: Benchmark::CoalescedPio.name(),
        source: published.source.clone(),
        machine: runs.machine.name.clone(),
        kind: runs.machine.kind,
        figures: list,
        published_saving_ns: None,
        simulated_saving_ns: None,
        perf,
        notes,
        runs: all,
    })
}
