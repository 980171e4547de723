//! Encodes numbers, texts, values and columns.

use std::net::IpAddr;

use super::Kind;
use crate::{Columns, Value};

/// Whether the reader of a value knows its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The reader knows the type, as in a state.
    Typed,
    /// The reader does not know the type, so a record includes the number of its fields.
    Alone,
}

/// Appends a variable-length number.
pub(super) fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a text: its length and its bytes.
pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// The number of bytes of a cell in a column with this many distinct values.
pub(super) fn cell_bytes(values: usize) -> usize {
    match values {
        0..=1 => 0,
        values => (usize::BITS - (values - 1).leading_zeros()).div_ceil(8) as usize,
    }
}

/// Appends the rows of a table.
pub(super) fn columns(out: &mut Vec<u8>, rows: &Columns) {
    number(out, rows.len() as u64);
    for (column, dictionary) in rows.dictionaries().iter().enumerate() {
        number(out, dictionary.len() as u64);
        for item in dictionary {
            value(out, item, Form::Typed);
        }
        let bytes = cell_bytes(dictionary.len());
        out.push(bytes as u8);
        out.reserve(bytes * rows.len());
        for cell in rows.cells().iter().skip(column).step_by(rows.width()) {
            out.extend_from_slice(&cell.to_le_bytes()[..bytes]);
        }
    }
}

/// Appends a value as in a state, but with the number of a record's fields before them, so that
/// [`read_value`](super::read_value) needs no type. Equal values have equal bytes, on every machine.
pub fn write_value(value: &Value, out: &mut Vec<u8>) {
    self::value(out, value, Form::Alone);
}

fn value(out: &mut Vec<u8>, value: &Value, form: Form) {
    let kind = match value {
        Value::None => Kind::None,
        Value::Bool(false) => Kind::False,
        Value::Bool(true) => Kind::True,
        Value::Int(_) => Kind::Int,
        Value::String(_) => Kind::String,
        Value::Mac(_) => Kind::Mac,
        Value::Ip(IpAddr::V4(_)) => Kind::Ipv4,
        Value::Ip(IpAddr::V6(_)) => Kind::Ipv6,
        Value::Net(net) if net.addr().is_ipv4() => Kind::Net4,
        Value::Net(_) => Kind::Net6,
        Value::Match(_) => Kind::Match,
        Value::Actions(_) => Kind::Actions,
        Value::Set(_) => Kind::Set,
        Value::List(_) => Kind::List,
        Value::Record(_) => Kind::Record,
        Value::InterfaceAddress(address) if address.ip().is_ipv4() => Kind::Interface4,
        Value::InterfaceAddress(_) => Kind::Interface6,
        Value::PacketFilter(_) => Kind::PacketFilter,
    };
    out.push(kind as u8);
    match value {
        Value::None | Value::Bool(_) => {}
        // Zigzag encoding keeps small numbers of either sign short.
        Value::Int(value) => number(out, (value << 1 ^ value >> 63) as u64),
        Value::String(value) => text(out, value),
        Value::Mac(value) => out.extend_from_slice(&value.0),
        Value::Ip(value) => address(out, *value),
        Value::Net(value) => {
            address(out, value.addr());
            out.push(value.prefix_len());
        }
        Value::InterfaceAddress(value) => {
            address(out, value.ip());
            out.push(value.length());
        }
        Value::Match(value) => text(out, &value.text()),
        Value::Actions(value) => text(out, &value.text()),
        Value::PacketFilter(value) => text(out, value.text()),
        Value::Set(values) | Value::List(values) => {
            number(out, values.len() as u64);
            fields(out, values, form);
        }
        Value::Record(values) => {
            if form == Form::Alone {
                number(out, values.len() as u64);
            }
            fields(out, values, form);
        }
    }
}

fn fields(out: &mut Vec<u8>, values: &[Value], form: Form) {
    for item in values {
        value(out, item, form);
    }
}

fn address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}
