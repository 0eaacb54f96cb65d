//! The part of a comparison's report that is alike for every real kernel: counts a column, the outcome, the first difference.

use super::csv::Row;
use super::grouped;
use super::table::figures;

/// One column: what was compared, how much of it, and the first difference.
pub(super) struct Column {
    /// What.
    pub name: String,
    /// How much; the names are those of every column.
    pub counts: Vec<(&'static str, u64)>,
    /// In words; none if all was equal.
    pub difference: Option<String>,
}

/// For a terminal: counts side by side, then the differences.
pub(super) fn table(columns: &[Column]) -> String {
    let mut header = vec!["compared"];
    header.extend(columns.iter().map(|column| column.name.as_str()));
    let mut table = figures(&header);
    for (line, (name, _)) in columns.first().map_or(&[][..], |column| &column.counts).iter().enumerate() {
        let cells =
            columns.iter().map(|column| column.counts.get(line).map_or_else(String::new, |count| grouped(count.1)));
        table.add_row(std::iter::once((*name).to_owned()).chain(cells));
    }
    let found = |column: &Column| if column.difference.is_some() { "DIFFERENT" } else { "equal" };
    table.add_row(std::iter::once("outcome").chain(columns.iter().map(found)));
    let mut text = format!("{table}\n");
    for column in columns {
        if let Some(difference) = &column.difference {
            text += &format!("\n{}: {difference}", column.name);
        }
    }
    text
}

/// For a spreadsheet: a row a count, and one for the outcome.
pub(super) fn rows(columns: &[Column]) -> Vec<Row> {
    let mut rows = Vec::new();
    for column in columns {
        for (quantity, count) in &column.counts {
            rows.push(Row::new(&column.name, quantity.trim(), *count, "", ""));
        }
        let outcome = column.difference.as_deref().unwrap_or("equal");
        rows.push(Row::new(&column.name, "outcome", outcome, "", ""));
    }
    rows
}
