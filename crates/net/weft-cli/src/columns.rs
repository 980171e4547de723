//! Short lists in columns.

use comfy_table::{Table, presets};

/// Rows, of which the first has the names of columns, with two spaces between columns and none at the end of a line.
pub(crate) fn aligned<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
