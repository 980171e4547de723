//! Values, their one order and their canonical text.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use openflow_rs::{Actions, MacAddr, Match};

/// A value of one of the [types](crate::Type).
///
/// Values of one type are ordered as the language's `<` orders them: integers and addresses by number (every IPv4
/// address before every IPv6 one), text by Unicode scalar values, matches and actions by their canonical text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Value {
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
    /// A `net`; host bits are zero.
    Net(IpNet),
    /// A `match`.
    Match(Arc<Canonical<Match>>),
    /// `actions`.
    Actions(Arc<Canonical<Actions>>),
    /// A `set<T>`: ascending, each value once.
    Set(Arc<[Value]>),
    /// A `list<T>`.
    List(Arc<[Value]>),
}

/// An OpenFlow value beside its canonical text, which alone decides equality, order and hash.
#[derive(Debug, Clone)]
pub struct Canonical<T> {
    value: T,
    text: Box<str>,
}

impl<T: fmt::Display> Canonical<T> {
    /// Pairs a value with the text that it prints.
    pub fn new(value: T) -> Self {
        let text = value.to_string().into_boxed_str();
        Canonical { value, text }
    }

    /// The value itself.
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Its canonical text, as Open vSwitch prints it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl<T> PartialEq for Canonical<T> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<T> Eq for Canonical<T> {}

impl<T> Hash for Canonical<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl<T> PartialOrd for Canonical<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Canonical<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}
