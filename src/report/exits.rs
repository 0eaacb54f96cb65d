//! Exits in the layout that users of `perf kvm stat report` know (`print_result` in `tools/perf/builtin-kvm.c`).

use crate::sim::ExitStat;

/// perf's column for names.
const NAME: usize = 20;

/// Header and rows. Times are in microseconds; the term behind `+-` is the standard error of the mean, relative to it.
#[must_use]
pub fn perf_kvm_stat(rows: &[ExitStat]) -> String {
    rows.iter().fold(perf_header(), |text, row| text + &perf_row(row) + "\n")
}

/// The columns' names, and the empty line below them.
pub(super) fn perf_header() -> String {
    format!(
        "{:>NAME$} {:>10} {:>9} {:>9} {:>11} {:>11} {:>16}\n\n",
        "IO Port Access", "Samples", "Samples%", "Time%", "Min Time", "Max Time", "Avg time"
    )
}

/// A row, without the line's end.
pub(super) fn perf_row(row: &ExitStat) -> String {
    let us = |ns: f64| ns / 1000.0;
    format!(
        "{:>NAME$} {:>10} {:>8.2}% {:>8.2}% {:>9.2}us {:>9.2}us {:>9.2}us ( +-{:>7.2}% )",
        row.event,
        row.samples,
        row.samples_percent,
        row.time_percent,
        us(row.min_ns),
        us(row.max_ns),
        us(row.mean_ns),
        row.spread_percent
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case perf-kvm-stat: rows are a subset, so their percentages need not add up to 100; the last term is relative.
    #[test]
    fn a_row_looks_as_perf_prints_it() {
        let row = ExitStat {
            event: "0x70:POUT".to_owned(),
            samples: 86,
            samples_percent: 30.99,
            time_percent: 74.59,
            min_ns: 9000.0,
            max_ns: 29_000.0,
            mean_ns: 10_750.0,
            spread_percent: 3.41,
        };
        let text = perf_kvm_stat(&[row]);
        let last = text.lines().last().unwrap();
        let expected = "0x70:POUT         86    30.99%    74.59%      9.00us     29.00us     10.75us ( +-   3.41% )";
        assert_eq!(last.trim_start(), expected);
        let header: Vec<_> = text.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(header.join(" "), "IO Port Access Samples Samples% Time% Min Time Max Time Avg time");
    }
}
