//! Published rows, compiled in.

use serde::Deserialize;

use crate::machine::{FileError, parse_toml};

pub use super::published_x86::{CoalescedPio, PciConfig, PerfRow, PioLatency};

/// Rows of one benchmark.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// Where they were published.
    pub source: String,
    /// Their unit, a rate per second.
    pub unit: String,
    /// Before the series: no cache.
    pub before: Vec<f64>,
    /// After it: four entries, rotating index.
    pub after: Vec<f64>,
}

/// Every published benchmark.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// FIO, 2016.
    pub fio: Rows,
    /// NetPerf, 2016.
    pub netperf: Rows,
    /// Times of one OUT, 2007.
    pub pio_latency_ns: PioLatency,
    /// Coalesced port I/O, 2018.
    pub coalesced_pio: CoalescedPio,
    /// PCI configuration reads, 2022.
    pub pci_config: PciConfig,
}

/// Mean of a list; 0 if it is empty.
#[must_use]
pub(super) fn mean(rows: &[f64]) -> f64 {
    rows.iter().sum::<f64>() / rows.len().max(1) as f64
}

/// Standard error of the mean, from the rows' own spread.
#[must_use]
pub(super) fn standard_error(rows: &[f64]) -> f64 {
    let (n, centre) = (rows.len() as f64, mean(rows));
    let squares: f64 = rows.iter().map(|row| (row - centre).powi(2)).sum();
    if n > 1.0 { (squares / (n - 1.0) / n).sqrt() } else { 0.0 }
}

impl Published {
    /// The figures that are compiled in.
    ///
    /// # Errors
    /// Their file does not parse; a test rules that out.
    pub fn built_in() -> Result<Self, FileError> {
        parse_toml("models/figures.toml", include_str!("../../models/figures.toml"))
    }
}

impl Rows {
    /// Mean time of one request, ns, before and after.
    #[must_use]
    pub fn periods_ns(&self) -> [f64; 2] {
        [1e9 / mean(&self.before), 1e9 / mean(&self.after)]
    }

    /// Time that a hit saves per request, ns, and its standard error.
    #[must_use]
    pub fn saving_ns(&self) -> (f64, f64) {
        let [before, after] = self.periods_ns();
        let error = |rows: &[f64]| standard_error(rows) * 1e9 / mean(rows).powi(2);
        (before - after, error(&self.before).hypot(error(&self.after)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_rows_say_what_a_hit_saves() {
        let published = Published::built_in().unwrap();
        let (fio, fio_error) = published.fio.saving_ns();
        let (net, net_error) = published.netperf.saving_ns();
        assert!((546.0..547.0).contains(&fio) && fio_error < 20.0, "{fio} +- {fio_error}");
        assert!((606.0..608.0).contains(&net) && net_error < 45.0, "{net} +- {net_error}");
    }
}
