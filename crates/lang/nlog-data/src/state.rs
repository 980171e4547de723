//! Saved states: the rows of all input tables in a compact format, and additional sections.
//!
//! Derived rows are not saved, because they follow from the inputs. A state therefore stays valid when rules change.
//! A program with different input tables, or with different columns in them, rejects the state.
//!
//! ```
//! use nlog_data::{Column, Columns, Role, Schema, Table, TableId, Type, state};
//!
//! let column = |name: &str| Column { name: name.to_string(), ty: Type::Int };
//! let schema = Schema::new(vec![Table {
//!     name: "a".to_string(), role: Role::Input, columns: vec![column("x")], key: None, uniques: Vec::new(), doc: String::new(),
//! }]);
//! let rows = Columns::from_rows(&[vec![1.into()], vec![2.into()]])?;
//! let mut writer = state::Writer::new(Vec::new(), &schema)?;
//! writer.table(TableId(0), &rows)?;
//! let bytes = writer.finish(&[("note".to_string(), b"two rows".to_vec())].into())?;
//! let state = state::read(&bytes, &schema)?;
//! assert_eq!(state.tables[&TableId(0)], rows);
//! assert_eq!(state.sections["note"], b"two rows");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Derived rows
//!
//! A state may be followed by derived rows, in a form that belongs to the engine ([`Evaluator::save_derived`](crate::Evaluator::save_derived)), and by a
//! [`Trailer`], which says where they begin. [`read`] ignores them.
//!
//! # Format
//!
//! The bytes `weft-st` and a line feed; the version as four bytes; the body; the CRC-32 of all that. Numbers of four
//! bytes are little-endian. All other numbers are variable-length (seven bits a byte, the lowest first, the highest
//! bit set if more follow; signed numbers zigzag). A text is its length in bytes, then UTF-8.
//!
//! The body begins with the number of input tables and, for each in name order, its name and [signature]. The tables
//! follow, each as one plus its index in this list, its number of rows, and its columns. A column is the number of
//! its distinct values, these values in ascending order, the number of bytes of a cell, and for each row the index of
//! its value in that many bytes, little-endian (no bytes if there is only one value). After the last table come a 0,
//! the number of sections, and for each section its name, its length and its bytes.
//!
//! A value is a byte for its kind ([`Kind`]), then: for an int, the signed number; for an address, its bytes; for a
//! prefix and the address of an interface, its address and length; for a text, a match, actions and a packet filter, the text; for sets and lists, the number of
//! values and the values; for a record, its fields.

mod decode;
mod encode;

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::{Columns, Role, Schema, Table, TableId, Type};

pub use decode::{read, read_value};
pub use encode::write_value;

/// The magic bytes at the start of every state.
const MAGIC: &[u8; 8] = b"weft-st\n";

/// The version of the format; it changes with every change of the format.
const VERSION: u32 = 1;

/// The kind of a value, as a byte before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    None,
    False,
    True,
    Int,
    String,
    Mac,
    Ipv4,
    Ipv6,
    Net4,
    Net6,
    Match,
    Actions,
    Set,
    List,
    Record,
    Interface4,
    Interface6,
    PacketFilter,
}

impl Kind {
    const ALL: [Kind; 18] = [
        Kind::None,
        Kind::False,
        Kind::True,
        Kind::Int,
        Kind::String,
        Kind::Mac,
        Kind::Ipv4,
        Kind::Ipv6,
        Kind::Net4,
        Kind::Net6,
        Kind::Match,
        Kind::Actions,
        Kind::Set,
        Kind::List,
        Kind::Record,
        Kind::Interface4,
        Kind::Interface6,
        Kind::PacketFilter,
    ];
}

/// The end of a file with derived rows: the length of the state before them in eight bytes, little-endian, and a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// The length of the state in bytes.
    pub state: u64,
}

impl Trailer {
    /// The length of a trailer in bytes.
    pub const LENGTH: usize = 16;

    const TEXT: [u8; 8] = *b"weft-dr\n";

    /// The bytes of the trailer.
    pub fn bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.state.to_le_bytes());
        bytes[8..].copy_from_slice(&Self::TEXT);
        bytes
    }

    /// The trailer at the end of a file's last bytes. `None` if the file ends with the state itself.
    pub fn of(last: &[u8]) -> Option<Self> {
        let (state, text) = last.last_chunk::<{ Self::LENGTH }>()?.split_first_chunk::<8>()?;
        (text == Self::TEXT).then_some(Trailer { state: u64::from_le_bytes(*state) })
    }
}

/// The contents of a state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedState {
    /// The rows of input tables, in the [ascending form](Columns::into_ascending).
    pub tables: BTreeMap<TableId, Columns>,
    /// Additional sections, by name.
    pub sections: BTreeMap<String, Vec<u8>>,
}

/// Why bytes are not a valid state for a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The bytes are not a saved state.
    #[error("not a saved state")]
    NoState,
    /// The bytes have another version of the format.
    #[error(
        "format version {found} is not supported, this weft reads version {VERSION}; save the state again \
        with this weft"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// The bytes are damaged or truncated.
    #[error("the state is damaged or truncated: {what}; use an earlier state, or replay the transactions")]
    Damaged {
        /// The fault.
        what: &'static str,
    },
    /// The bytes are the state of a program with different input tables.
    #[error("the state was saved from a program with different input tables: {difference}")]
    OtherProgram {
        /// The first table that differs, and the difference.
        difference: String,
    },
}

/// Writes a state: first the rows of each table, then the sections.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: Summed<W>,
    /// The input tables and their numbers of columns.
    inputs: Vec<(TableId, usize)>,
    /// The output not written yet.
    bytes: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a state of a program with these tables.
    pub fn new(out: W, schema: &Schema) -> io::Result<Self> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        let inputs: Vec<(TableId, &Table)> =
            schema.iter().filter(|(_, table)| table.role == Role::Input).collect();
        encode::number(&mut bytes, inputs.len() as u64);
        for (_, table) in &inputs {
            encode::text(&mut bytes, &table.name);
            encode::text(&mut bytes, &signature(table));
        }
        let inputs = inputs.into_iter().map(|(id, table)| (id, table.columns.len())).collect();
        let mut writer = Writer { out: Summed { out, sum: crc32fast::Hasher::new() }, inputs, bytes };
        writer.spill()?;
        Ok(writer)
    }

    /// Writes the rows of an input table, in the [ascending form](Columns::into_ascending). Must be called at most
    /// once for each table. A table that is not written has no rows.
    ///
    /// # Errors
    /// The underlying writer fails, the table is not an input of the program, or it has another number of columns.
    pub fn table(&mut self, table: TableId, rows: &Columns) -> io::Result<()> {
        let place = self.inputs.iter().position(|(input, _)| *input == table);
        let place =
            place.ok_or_else(|| io::Error::other(format!("table {} is not an input table", table.0)))?;
        // An empty list of rows has no width.
        if rows.is_empty() {
            return Ok(());
        }
        if self.inputs[place].1 != rows.width() {
            return Err(io::Error::other(format!(
                "table {} does not have {} columns",
                table.0,
                rows.width()
            )));
        }
        encode::number(&mut self.bytes, place as u64 + 1);
        encode::columns(&mut self.bytes, rows);
        self.spill()
    }

    /// Ends the state with these sections and returns the underlying writer, which the caller may have to flush.
    pub fn finish(mut self, sections: &BTreeMap<String, Vec<u8>>) -> io::Result<W> {
        encode::number(&mut self.bytes, 0);
        encode::number(&mut self.bytes, sections.len() as u64);
        for (name, bytes) in sections {
            encode::text(&mut self.bytes, name);
            encode::number(&mut self.bytes, bytes.len() as u64);
            self.bytes.extend_from_slice(bytes);
        }
        self.spill()?;
        let Summed { mut out, sum } = self.out;
        out.write_all(&sum.finalize().to_le_bytes())?;
        Ok(out)
    }

    fn spill(&mut self) -> io::Result<()> {
        self.out.write_all(&self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

/// A writer that computes the checksum of the bytes written.
struct Summed<W> {
    out: W,
    sum: crc32fast::Hasher,
}

impl<W: Write> Summed<W> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.out.write_all(bytes)
    }
}

impl<W> std::fmt::Debug for Summed<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Summed")
    }
}

/// The full signature of a table: its columns with their types, its key, and what is unique. Tables with equal signatures accept the
/// same rows.
pub fn signature(table: &Table) -> String {
    let columns = table.columns.iter().map(|column| format!("{}: {}", column.name, type_in_full(&column.ty)));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let mut signature = format!("({columns})");
    let uniques = table.uniques.iter().map(|columns| ("unique", columns));
    for (word, columns) in table.key.iter().map(|key| ("key", key)).chain(uniques) {
        let names = columns.iter().filter_map(|at| table.columns.get(*at)).map(|column| column.name.as_str());
        signature += &format!(" {word}({})", names.collect::<Vec<_>>().join(", "));
    }
    signature
}

/// A type, with its named types spelled out.
fn type_in_full(ty: &Type) -> String {
    match ty {
        Type::Set(of) => format!("set<{}>", type_in_full(of)),
        Type::List(of) => format!("list<{}>", type_in_full(of)),
        Type::Opt(of) => format!("opt<{}>", type_in_full(of)),
        Type::Enum(of) => {
            let members = of.members.iter().map(|member| format!("{member:?}"));
            format!("{}{{{}}}", of.name, members.collect::<Vec<_>>().join(", "))
        }
        Type::Record(of) => {
            let fields = of.fields.iter().map(|(name, ty)| format!("{name}: {}", type_in_full(ty)));
            format!("{}{{{}}}", of.name, fields.collect::<Vec<_>>().join(", "))
        }
        Type::Constrained(of) => {
            let constraint = of.constraint().map(ToString::to_string).unwrap_or_default();
            format!("{}{{{}{constraint}}}", of.name, type_in_full(&of.base))
        }
        ty => ty.to_string(),
    }
}
