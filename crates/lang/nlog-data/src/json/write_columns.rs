//! Writes deltas and contents by columns as JSON text, in pieces.
//!
//! A value that many rows share is converted to text once; each row is assembled from copies of its values' texts.
//! The output equals that of [`write_delta_line`](super::write_delta_line) and
//! [`write_contents_line`](super::write_contents_line) for the same rows.

use std::io::{self, Write};

use super::write::{write_text, write_value};
use crate::{ColumnDelta, Columns, Schema, TableColumns, Value};

/// The amount of text that is gathered before it is written, in bytes.
const PIECE: usize = 1 << 16;

/// Writes an accepted transaction's line, `{"txn":1,"insert":{…},"delete":{…}}` and a line feed.
///
/// Tables are in name order; unchanged tables are absent.
pub fn write_delta_columns(
    out: &mut impl Write,
    txn: u64,
    delta: &ColumnDelta,
    schema: &Schema,
) -> io::Result<()> {
    let mut text = Vec::new();
    write!(text, "{{\"txn\":{txn},\"insert\":")?;
    write_side(out, &mut text, delta, schema, |table| &table.insert)?;
    text.extend_from_slice(b",\"delete\":");
    write_side(out, &mut text, delta, schema, |table| &table.delete)?;
    text.extend_from_slice(b"}\n");
    out.write_all(&text)
}

/// Writes the contents of tables, `{"table":[rows],…}` and a line feed, one table at a time. Callers pass the tables
/// in name order.
pub struct ContentsWriter<'a, W: Write> {
    out: &'a mut W,
    /// The output not written yet.
    text: Vec<u8>,
    empty: bool,
}

impl<'a, W: Write> ContentsWriter<'a, W> {
    /// Begins the line.
    pub fn new(out: &'a mut W) -> Self {
        ContentsWriter { out, text: vec![b'{'], empty: true }
    }

    /// The next table.
    pub fn table(&mut self, name: &str, rows: &Columns) -> io::Result<()> {
        if !std::mem::take(&mut self.empty) {
            self.text.push(b',');
        }
        write_table(self.out, &mut self.text, name, rows)
    }

    /// Ends the line.
    pub fn finish(mut self) -> io::Result<()> {
        self.text.extend_from_slice(b"}\n");
        self.out.write_all(&self.text)
    }
}

fn write_side(
    out: &mut impl Write,
    text: &mut Vec<u8>,
    delta: &ColumnDelta,
    schema: &Schema,
    side: impl Fn(&TableColumns) -> &Columns,
) -> io::Result<()> {
    text.push(b'{');
    let tables = delta.tables.iter().filter(|(_, table)| !side(table).is_empty());
    for (index, (id, table)) in tables.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        write_table(out, text, &schema.table(*id).name, side(table))?;
    }
    text.push(b'}');
    Ok(())
}

/// Writes `"table":[rows]`; less than a full piece remains in `text`.
fn write_table(out: &mut impl Write, text: &mut Vec<u8>, name: &str, rows: &Columns) -> io::Result<()> {
    write_text(text, name);
    text.extend_from_slice(b":[");
    let dictionaries = rows.dictionaries().iter();
    let columns: Vec<Texts<'_>> = dictionaries.map(|values| Texts::new(values, rows.len())).collect();
    for (index, row) in rows.iter().enumerate() {
        text.extend_from_slice(if index > 0 { b",[" } else { b"[" });
        for (index, (column, cell)) in columns.iter().zip(row).enumerate() {
            if index > 0 {
                text.push(b',');
            }
            column.write(text, *cell);
        }
        text.push(b']');
        if text.len() >= PIECE {
            out.write_all(text)?;
            text.clear();
        }
    }
    text.push(b']');
    Ok(())
}

/// The texts of a column's values.
enum Texts<'a> {
    /// All texts, one after the other, and the end of each.
    Written { texts: Vec<u8>, ends: Vec<usize> },
    /// Most values occur once, so each is written in place.
    Values(&'a [Value]),
}

impl<'a> Texts<'a> {
    fn new(values: &'a [Value], rows: usize) -> Self {
        if values.len() > rows / 2 {
            return Texts::Values(values);
        }
        let mut texts = Vec::new();
        let mut write = |value| {
            write_value(&mut texts, value);
            texts.len()
        };
        let ends = values.iter().map(&mut write).collect();
        Texts::Written { texts, ends }
    }

    fn write(&self, out: &mut Vec<u8>, cell: u32) {
        let cell = cell as usize;
        match self {
            Texts::Values(values) => write_value(out, &values[cell]),
            Texts::Written { texts, ends } => {
                let start = if cell == 0 { 0 } else { ends[cell - 1] };
                out.extend_from_slice(&texts[start..ends[cell]]);
            }
        }
    }
}
