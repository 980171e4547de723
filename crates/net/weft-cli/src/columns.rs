//! Short lists in columns.

use comfy_table::{Table, presets};

/// Rows below the names of their columns, with two spaces between columns and none at the end of a line.
pub(crate) fn aligned<const N: usize>(
    names: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.add_row(names);
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
