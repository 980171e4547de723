//! Values, their order and their canonical text.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use ipnet::IpNet;
use openflow_rs::{Actions, MacAddr, Match, Pack, Packed};
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
    Match(Arc<Canonical<Match>>),
    /// `actions`.
    Actions(Arc<Canonical<Actions>>),
    /// A `packet_filter`.
    PacketFilter(Arc<PacketFilter>),
    /// A `set<T>`: ascending, each value once.
    Set(Arc<[Value]>),
    /// A `list<T>`.
    List(Arc<[Value]>),
    /// A record: its fields in declared order.
    Record(Arc<[Value]>),
}

/// A packed OpenFlow value. Its canonical text determines the order. Equal values have equal texts, so the packed
/// bytes determine equality and hash.
pub struct Canonical<T> {
    packed: Packed<T>,
    /// The text, cached by the first comparison.
    compared: OnceLock<Box<str>>,
}

impl<T: Pack + fmt::Display> Canonical<T> {
    /// Packs a value.
    pub fn new(value: T) -> Self {
        Canonical { packed: Packed::new(&value), compared: OnceLock::new() }
    }

    /// The unpacked value.
    pub fn get(&self) -> T {
        self.packed.get()
    }

    /// The number of bytes of the packed value.
    pub(crate) fn bytes(&self) -> usize {
        self.packed.bytes()
    }

    /// Its canonical text, as Open vSwitch prints it.
    pub fn text(&self) -> Cow<'_, str> {
        match self.compared.get() {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(self.packed.get().to_string()),
        }
    }

    /// The text, cached from now on.
    fn compared(&self) -> &str {
        self.compared.get_or_init(|| self.packed.get().to_string().into_boxed_str())
    }
}

impl Canonical<Actions> {
    /// Concatenates two lists, if this needs no decoding: see [`Packed::then`].
    pub(crate) fn then(&self, more: &Self) -> Option<Self> {
        let packed = self.packed.then(&more.packed)?;
        Some(Canonical { packed, compared: OnceLock::new() })
    }
}

impl<T: Pack + fmt::Display> fmt::Debug for Canonical<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

impl<T> Clone for Canonical<T> {
    fn clone(&self) -> Self {
        Canonical { packed: self.packed.clone(), compared: self.compared.clone() }
    }
}

impl<T> PartialEq for Canonical<T> {
    fn eq(&self, other: &Self) -> bool {
        self.packed == other.packed
    }
}

impl<T> Eq for Canonical<T> {}

impl<T> Hash for Canonical<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.packed.hash(state);
    }
}

impl<T: Pack + fmt::Display> PartialOrd for Canonical<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Pack + fmt::Display> Ord for Canonical<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        if self == other {
            return Ordering::Equal;
        }
        self.compared().cmp(other.compared())
    }
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
        Value::Match(Arc::new(Canonical::new(value)))
    }
}

impl From<Actions> for Value {
    fn from(value: Actions) -> Value {
        Value::Actions(Arc::new(Canonical::new(value)))
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
