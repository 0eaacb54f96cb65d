//! Reports: tables, JSON and CSV from the records that the rooms above return. One look for all.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod compare;
mod compared;
pub mod csv;
mod exits;
mod host;
mod host_model;
#[cfg(all(target_os = "linux", target_arch = "powerpc64", target_endian = "little"))]
mod host_ppc64;
mod kinds;
mod lists;
mod measured;
mod on_host;
mod proof;
mod proof_x86;
mod recorded;
mod run;
mod sequence;
mod steps;
mod svg;
mod sweep;
mod table;
mod trace;
mod what_if;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use compare::{CompareReport, ComparedPart};
pub use exits::perf_kvm_stat;
#[cfg(all(target_os = "linux", target_arch = "powerpc64", target_endian = "little"))]
pub use host_ppc64::{StoreReport, StoreRow};
pub use lists::list;
pub use proof::{CalibrationReport, ReproduceReport};
pub use proof_x86::X86CalibrationReport;
pub use run::RunReport;
pub use sequence::SequencesReport;
pub use steps::{CompareStepsReport, ComparedStreams, WatchReport, WatchedStream};
pub use svg::{SvgError, curves};
pub use sweep::SweepReport;
pub use trace::TraceReport;

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Tables for people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One CSV table with a header.
    Csv,
}

impl Format {
    /// Name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Csv => "csv",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = [Self::Table, Self::Json, Self::Csv].into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| format!("no format is named `{name}`: table, json or csv"))
    }
}

/// What every report can do.
pub trait Report: Serialize {
    /// For people.
    fn table(&self) -> String;

    /// Rows of (subject, quantity, value, unit, standing): the same columns for every report.
    fn rows(&self) -> Vec<csv::Row>;

    /// In a format.
    ///
    /// # Errors
    /// JSON that cannot be formed; no report of this crate gives any.
    fn render(&self, format: Format) -> Result<String, serde_json::Error> {
        match format {
            Format::Table => Ok(self.table()),
            Format::Json => Ok(serde_json::to_string_pretty(self)? + "\n"),
            Format::Csv => Ok(csv::render(&self.rows())),
        }
    }
}

/// A count with thousands set apart.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate with thousands set apart: no decimals from 1,000 up, two below.
fn rate(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    let whole = value.round() as u64;
    if value >= 1000.0 { grouped(whole) } else { format!("{value:.2}") }
}

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_rates_are_easy_to_read() {
        assert_eq!([grouped(0), grouped(999), grouped(1000), grouped(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([rate(32_051.6), rate(12.345)], ["32,052", "12.35"]);
    }
}
