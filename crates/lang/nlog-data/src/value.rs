//! Values, their order and their canonical text.

use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use openflow_rs::{Actions, MacAddr, Match, Packed};
use packet_filter::PacketFilter;

use crate::InterfaceAddress;

/// A value of one of the [types](crate::Type).
///
/// Values of one type are ordered as the language's `<` orders them: integers and addresses by number (every IPv4
/// address before every IPv6 one), text by Unicode scalar values, matches, actions
/// and packet filters by their canonical text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
    /// An `opt<T>` without a value. An `opt<T>` with a value is represented by that value.
    None,
    /// A `bool`.
    Bool(bool),
    /// An `int`.
    Int(i64),
    /// A `string`.
    String(Arc<str>),
    /// A `mac`.
    Mac(MacAddr),
    /// An `ip`.
    Ip(IpAddr),
    /// A `net` without host bits.
    Net(IpNet),
    /// An `interface_address`.
    InterfaceAddress(InterfaceAddress),
    /// A `match`.
    Match(Packed<Match>),
    /// `actions`.
    Actions(Packed<Actions>),
    /// A `packet_filter`.
    PacketFilter(Arc<PacketFilter>),
    /// A `set<T>`: ascending, each value once.
    Set(Arc<[Value]>),
    /// A `list<T>`.
    List(Arc<[Value]>),
    /// A record: its fields in declared order.
    Record(Arc<[Value]>),
}

impl Value {
    /// A set of these values, in any order and with duplicates allowed.
    pub fn set(values: impl IntoIterator<Item = Value>) -> Value {
        let mut values: Vec<Value> = values.into_iter().collect();
        values.sort_unstable();
        values.dedup();
        Value::Set(values.into())
    }

    /// A list of these values.
    pub fn list(values: impl IntoIterator<Item = Value>) -> Value {
        Value::List(values.into_iter().collect())
    }

    /// A record of these fields, in declared order.
    pub fn record(fields: impl IntoIterator<Item = Value>) -> Value {
        Value::Record(fields.into_iter().collect())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::String(value.into())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::String(value.into())
    }
}

impl From<Arc<str>> for Value {
    fn from(value: Arc<str>) -> Value {
        Value::String(value)
    }
}

impl From<MacAddr> for Value {
    fn from(value: MacAddr) -> Value {
        Value::Mac(value)
    }
}

impl From<IpAddr> for Value {
    fn from(value: IpAddr) -> Value {
        Value::Ip(value)
    }
}

impl From<IpNet> for Value {
    /// Clears host bits.
    fn from(value: IpNet) -> Value {
        Value::Net(value.trunc())
    }
}

impl From<InterfaceAddress> for Value {
    fn from(value: InterfaceAddress) -> Value {
        Value::InterfaceAddress(value)
    }
}

impl From<Match> for Value {
    fn from(value: Match) -> Value {
        Value::Match(Packed::new(&value))
    }
}

impl From<Actions> for Value {
    fn from(value: Actions) -> Value {
        Value::Actions(Packed::new(&value))
    }
}

impl From<PacketFilter> for Value {
    fn from(value: PacketFilter) -> Value {
        Value::PacketFilter(Arc::new(value))
    }
}

/// The value as an nlog literal, which [`literal`](crate::literal) can parse.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => f.write_str("none"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::String(value) => write_quoted(f, value),
            Value::Mac(value) => write!(f, "mac\"{value}\""),
            Value::Ip(value) => write!(f, "ip\"{value}\""),
            Value::Net(value) => write!(f, "net\"{value}\""),
            Value::InterfaceAddress(value) => write!(f, "interface_address\"{value}\""),
            Value::Match(value) => f.write_str("match").and_then(|()| write_quoted(f, &value.text())),
            Value::Actions(value) => f.write_str("actions").and_then(|()| write_quoted(f, &value.text())),
            Value::PacketFilter(value) => {
                f.write_str("packet_filter").and_then(|()| write_quoted(f, value.text()))
            }
            Value::Set(values) => write_sequence(f, '{', values, '}'),
            Value::List(values) => write_sequence(f, '[', values, ']'),
            Value::Record(values) => write_sequence(f, '(', values, ')'),
        }
    }
}

fn write_sequence(f: &mut fmt::Formatter<'_>, open: char, values: &[Value], close: char) -> fmt::Result {
    f.write_char(open)?;
    for (index, value) in values.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{value}")?;
    }
    f.write_char(close)
}

/// Text between quotes, with the escapes of nlog: `\"`, `\\`, `\n`, `\r`, `\t`, and `\u{1b}` for other control
/// characters.
fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\""),
            '\\' => f.write_str("\\\\"),
            '\n' => f.write_str("\\n"),
            '\r' => f.write_str("\\r"),
            '\t' => f.write_str("\\t"),
            c if c.is_control() => write!(f, "\\u{{{:x}}}", u32::from(c)),
            c => f.write_char(c),
        }?;
    }
    f.write_char('"')
}
