//! The look of every table.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, TableComponent, presets};

/// Lines around header and table, none between rows or columns.
fn plain() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for line in [
        TableComponent::TopBorder,
        TableComponent::TopBorderIntersections,
        TableComponent::HeaderLines,
        TableComponent::MiddleHeaderIntersections,
        TableComponent::BottomBorder,
        TableComponent::BottomBorderIntersections,
    ] {
        table.set_style(line, '─');
    }
    table
}

/// A table with a header; the first column is text, the others are figures.
pub(super) fn figures(header: &[&str]) -> Table {
    let mut table = plain();
    table.set_header(header.iter().enumerate().map(|(i, name)| Cell::new(name).set_alignment(alignment(i))));
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_cell_alignment(alignment(i));
    }
    table
}

/// A table whose columns are all text.
pub(super) fn words(header: &[&str]) -> Table {
    let mut table = plain();
    table.set_header(header);
    table
}

const fn alignment(column: usize) -> CellAlignment {
    if column == 0 { CellAlignment::Left } else { CellAlignment::Right }
}
