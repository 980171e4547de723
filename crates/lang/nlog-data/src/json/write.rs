//! Writes values, deltas, errors and contents as JSON text directly into a buffer.

use std::io::Write as _;

use serde::{Serialize, Serializer};

use crate::{Delta, Row, Schema, TableDelta, TransactionError, Value};

/// Writes a value in its JSON form.
pub fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::None => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Int(value) => write_serialized(out, value),
        Value::String(value) => write_text(out, value),
        Value::Mac(value) => write_plain(out, format_args!("\"{value}\"")),
        Value::Ip(value) => write_plain(out, format_args!("\"{value}\"")),
        Value::Net(value) => write_plain(out, format_args!("\"{value}\"")),
        Value::InterfaceAddress(value) => write_plain(out, format_args!("\"{value}\"")),
        Value::Match(value) => write_text(out, &value.text()),
        Value::Actions(value) => write_text(out, &value.text()),
        Value::PacketFilter(value) => write_text(out, value.text()),
        Value::Set(values) | Value::List(values) | Value::Record(values) => write_row(out, values),
    }
}

/// Writes a row (or any sequence of values) as an array.
pub fn write_row(out: &mut Vec<u8>, row: &[Value]) {
    out.push(b'[');
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_value(out, value);
    }
    out.push(b']');
}

/// Writes an accepted transaction's line, `{"txn":1,"insert":{…},"delete":{…}}` and a line feed.
///
/// Tables are in name order; unchanged tables are absent.
pub fn write_delta_line(out: &mut Vec<u8>, txn: u64, delta: &Delta, schema: &Schema) {
    write_plain(out, format_args!("{{\"txn\":{txn},\"insert\":"));
    write_side(out, delta, schema, |table| &table.insert);
    out.extend_from_slice(b",\"delete\":");
    write_side(out, delta, schema, |table| &table.delete);
    out.extend_from_slice(b"}\n");
}

/// Writes a refused transaction's line, `{"txn":1,"error":{"code":…,"message":…}}` and a line feed.
pub fn write_error_line(out: &mut Vec<u8>, txn: u64, error: &TransactionError) {
    write_plain(
        out,
        format_args!("{{\"txn\":{txn},\"error\":{{\"code\":\"{}\",\"message\":", error.code.name()),
    );
    write_text(out, &error.message);
    out.extend_from_slice(b"}}\n");
}

/// Writes the contents of tables, `{"table":[rows],…}` and a line feed, in the order given (callers give name order).
pub fn write_contents_line<'a>(out: &mut Vec<u8>, tables: impl IntoIterator<Item = (&'a str, &'a [Row])>) {
    write_tables(out, tables);
    out.push(b'\n');
}

/// A value in its JSON form as a document, for callers that build a larger one.
pub fn to_json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_else(|error| unreachable!("a value has no keys: {error}"))
}

/// In the JSON form.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::None => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Int(value) => serializer.serialize_i64(*value),
            Value::String(value) => serializer.serialize_str(value),
            Value::Mac(value) => serializer.collect_str(value),
            Value::Ip(value) => serializer.collect_str(value),
            Value::Net(value) => serializer.collect_str(value),
            Value::InterfaceAddress(value) => serializer.collect_str(value),
            Value::Match(value) => serializer.serialize_str(&value.text()),
            Value::Actions(value) => serializer.serialize_str(&value.text()),
            Value::PacketFilter(value) => serializer.serialize_str(value.text()),
            Value::Set(values) | Value::List(values) | Value::Record(values) => {
                serializer.collect_seq(values.iter())
            }
        }
    }
}

fn write_side(out: &mut Vec<u8>, delta: &Delta, schema: &Schema, side: impl Fn(&TableDelta) -> &Vec<Row>) {
    let tables =
        delta.tables.iter().map(|(id, table)| (schema.table(*id).name.as_str(), side(table).as_slice()));
    write_tables(out, tables.filter(|(_, rows)| !rows.is_empty()));
}

fn write_tables<'a>(out: &mut Vec<u8>, tables: impl IntoIterator<Item = (&'a str, &'a [Row])>) {
    out.push(b'{');
    for (index, (name, rows)) in tables.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_text(out, name);
        out.extend_from_slice(b":[");
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_row(out, row);
        }
        out.push(b']');
    }
    out.push(b'}');
}

pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    write_serialized(out, text);
}

/// Serialises a number or string, which cannot fail, as writing to a vector cannot either.
fn write_serialized<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok(), "a number or string is JSON");
}

fn write_plain(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let written = out.write_fmt(text);
    debug_assert!(written.is_ok(), "a vector takes all bytes");
}
