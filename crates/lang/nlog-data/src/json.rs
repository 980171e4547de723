//! Transactions and deltas as JSON Lines.
//!
//! Values: `bool`, `int` and `string` as in JSON; `mac`, `ip`, `net`, `match` and `actions` as strings in canonical
//! form; sets (ascending) and lists as arrays. Output is always canonical. Reading also accepts other texts with only
//! one possible meaning (capitals, zeros that RFC 5952 omits, another spelling of a match, a set in any order). A
//! `net` with host bits set is refused, because it could mean an address or a prefix. An `int` is a JSON integer
//! within 64 bits: `1.0`, `1e3` and `-0` are not.

mod read;
mod read_columns;
mod write;
mod write_columns;

pub use read::{Line, LineError, Mismatch, from_json, parse_line};
pub use read_columns::{ColumnLine, ordinary, parse_line_columns};
pub(crate) use write::write_text;
pub use write::{to_json, write_contents_line, write_delta_line, write_error_line, write_row, write_value};
pub use write_columns::{ContentsWriter, write_delta_columns};
