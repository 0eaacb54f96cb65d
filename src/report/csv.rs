//! CSV (RFC 4180): one long table, so that every report has the same columns.

/// A figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it belongs to: a run, a benchmark, a file.
    pub subject: String,
    /// What it is.
    pub quantity: String,
    /// The figure.
    pub value: String,
    /// Its unit, empty for a count.
    pub unit: String,
    /// assumed, fitted, predicted, published, or empty.
    pub standing: String,
}

impl Row {
    /// A row of anything that can be shown.
    pub fn new(subject: &str, quantity: &str, value: impl ToString, unit: &str, standing: &str) -> Self {
        Self {
            subject: subject.to_owned(),
            quantity: quantity.to_owned(),
            value: value.to_string(),
            unit: unit.to_owned(),
            standing: standing.to_owned(),
        }
    }
}

fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Header and rows.
pub(super) fn render(rows: &[Row]) -> String {
    let mut text = "subject,quantity,value,unit,standing\n".to_owned();
    for row in rows {
        let fields = [&row.subject, &row.quantity, &row.value, &row.unit, &row.standing].map(|text| field(text));
        text += &fields.join(",");
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_commas_or_quotes_is_quoted() {
        let rows = [Row::new("a \"b\", c", "hits", 3, "", "")];
        assert_eq!(render(&rows), "subject,quantity,value,unit,standing\n\"a \"\"b\"\", c\",hits,3,,\n");
    }
}
