//! Measured on this host, beside published and simulated.

use crate::proof::OnHost;

use super::csv::Row;
use super::measured::ns;
use super::table::figures;

/// Ratios in bold: they are what carries over between machines.
pub(super) fn table(host: &OnHost) -> String {
    let mut table = figures(&["ratio", "published", "simulated", "measured", "middle half", "expected here", ""]);
    for row in &host.ratios {
        let (least, most) = row.ratio.expected();
        let expected = most.map_or_else(|| format!(">= {least}"), |most| format!("{least} to {most}"));
        table.add_row([
            row.ratio.label().to_owned(),
            ratio(row.published),
            ratio(row.simulated),
            format!("**{}**", ratio(row.measured)),
            format!("{} to {}", ratio(row.quartiles[0]), ratio(row.quartiles[1])),
            expected,
            if row.as_expected { "met" } else { "NOT met" }.to_owned(),
        ]);
    }
    let mut text = format!(
        "\nmeasured on this machine's real KVM in this run: all ways in turn, {} rounds of about 3 ms each, by the time of their thread\n{table}\n",
        host.rounds
    );
    let mut table = figures(&["this host's own times, an access (a read)", "measured ns", "middle half"]);
    for row in &host.times {
        table.add_row([
            row.label.to_owned(),
            ns(row.ns),
            format!("{} to {}", ns(row.quartiles[0]), ns(row.quartiles[1])),
        ]);
    }
    text += &format!("\n{table}\n");
    text + "times are this host's alone; between machines ratios are what compares\n"
}

fn ratio(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// As CSV.
pub(super) fn rows(host: &OnHost) -> Vec<Row> {
    let mut rows = Vec::new();
    for row in &host.ratios {
        let subject = row.ratio.label();
        for (quantity, value, standing) in [
            ("published", row.published, "published"),
            ("simulated", row.simulated, ""),
            ("measured", row.measured, "measured"),
            ("measured, first quartile", row.quartiles[0], "measured"),
            ("measured, third quartile", row.quartiles[1], "measured"),
        ] {
            rows.push(Row::new(subject, quantity, value, "", standing));
        }
    }
    for row in &host.times {
        rows.push(Row::new(row.label, "this host's time", row.ns, "ns", "measured"));
    }
    rows
}
