//! Matches and actions as a rule language writes them: checked once, filled with values many times.
//!
//! A literal such as `match{metadata: dp, eth_dst: mac}` or `actions[set(reg15, label), resubmit(32)]` arrives
//! here as terms: names, constants, and numbered holes for values that are known later. [`actions`] and [`matches()`]
//! check it against the tables of fields and actions, and give a template; [`ActionsTemplate::fill`] and
//! [`MatchTemplate::fill`] put values into the holes, without reading text again.
//!
//! ```
//! use openflow_rs::literal::{self, ActionTerm, Kind, MatchItem, Term, Value};
//!
//! // match{tcp, ip_dst: x, tcp_dst: 80}
//! let items = [
//!     MatchItem::word("tcp"),
//!     MatchItem::field("ip_dst", Term::Hole(0, Kind::Ip)),
//!     MatchItem::field("tcp_dst", Term::Constant(Value::Int(80))),
//! ];
//! let template = literal::matches(&items).map_err(|errors| errors[0].clone())?;
//! let filled = template.fill(&[Value::Ip("10.0.0.1".parse()?)])?;
//! assert_eq!(filled.map(|m| m.to_string()).as_deref(), Some("tcp,nw_dst=10.0.0.1,tp_dst=80"));
//! // No TCP packet over IPv4 goes to an IPv6 address.
//! assert_eq!(template.fill(&[Value::Ip("fe80::1".parse()?)])?, None);
//!
//! // actions[set(reg15, label), resubmit(32)]
//! let set = ActionTerm::call("set", [Term::name("reg15"), Term::Hole(0, Kind::Int)]);
//! let resubmit = ActionTerm::call("resubmit", [Term::Constant(Value::Int(32))]);
//! let template = literal::actions(&[set, resubmit]).map_err(|errors| errors[0].clone())?;
//! assert_eq!(template.fill(&[Value::Int(5)])?.to_string(), "set_field:0x5->reg15,resubmit(,32)");
//! assert!(template.fill(&[Value::Int(1 << 40)]).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In reading order:
//! - [`Term`], [`ActionTerm`], [`MatchItem`]: the input.
//! - [`ActionInfo`]: the table of actions ([`ActionInfo::all`]). Each action's file contains its entry, which determines
//!   the checks, the result and the documentation.
//! - [`Call`] and [`match_item`]: the types that each position of a literal accepts, asked before values have types.
//! - [`ActionsTemplate`], [`MatchTemplate`]: the results. [`TemplateError`], [`FillError`]: the errors.

mod actions;
mod arguments;
mod call;
mod error;
mod field;
mod matches;
mod table;

use std::fmt;
use std::net::IpAddr;

use crate::MacAddr;

pub use actions::{ActionsTemplate, actions};
pub(crate) use arguments::{Arguments, Part, Refusal, placed};
pub use call::{Call, Shape, Wants};
pub use error::{FillError, Problem, TemplateError, Where};
pub(crate) use field::written;
pub use field::{FieldName, Wanted, bits_named, field_names, kinds, match_item};
pub use matches::{MatchTemplate, matches};
pub use table::{Accepts, ActionInfo, Context, Parameter};

/// A value for a field or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// An integer; no field or parameter accepts negative ones.
    Int(i64),
    /// An Ethernet address.
    Mac(MacAddr),
    /// An IP address of either version.
    Ip(IpAddr),
    /// An address prefix with its length in bits.
    Net(IpAddr, u8),
}

/// The types of values. Text stands for constants alone: the flags of `ct_state` and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// [`Value::Int`].
    Int,
    /// [`Value::Mac`].
    Mac,
    /// [`Value::Ip`].
    Ip,
    /// [`Value::Net`].
    Net,
    /// [`Term::Text`].
    Text,
}

/// The term at one position of a literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// A value to fill in later: its index among these values, and its type.
    Hole(usize, Kind),
    /// A constant.
    Constant(Value),
    /// Text in quotes.
    Text(String),
    /// A field or a flag by its name.
    Name(String),
    /// Bits of a field: its name, the first bit and the last, counted from the lowest.
    Bits(String, u16, u16),
    /// `value/mask`; both are holes or constants.
    Masked(Box<Term>, Box<Term>),
    /// An action within another.
    Action(ActionTerm),
}

/// An action with its arguments: `set(reg15, label)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionTerm {
    /// Its name in literals.
    pub name: String,
    /// Its arguments.
    pub arguments: Vec<Argument>,
}

/// One argument of an action: `5` or `zone: 5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The parameter's name if it was given.
    pub name: Option<String>,
    /// The argument.
    pub term: Term,
}

/// One part of a match: `tcp`, `reg0: 5`, `reg5[0..15]: zone`, `reg2: 0x10/0x10`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchItem {
    /// The field's name, or a word that needs no value.
    pub name: String,
    /// The first and the last bit, unless the whole field is meant.
    pub bits: Option<(u16, u16)>,
    /// The value, absent for a word alone.
    pub term: Option<Term>,
}

impl Term {
    /// A field or a flag.
    pub fn name(name: &str) -> Term {
        Term::Name(name.to_owned())
    }

    /// `value/mask`.
    pub fn masked(value: Term, mask: Term) -> Term {
        Term::Masked(Box::new(value), Box::new(mask))
    }

    /// The shape of the term, for [`Call::argument`].
    pub fn shape(&self) -> Shape<'_> {
        match self {
            Term::Name(name) => Shape::Name(name),
            Term::Bits(name, first, last) => Shape::Bits(name, *first, *last),
            Term::Action(action) => Shape::Call(&action.name),
            Term::Text(_) => Shape::Text,
            Term::Hole(..) | Term::Constant(_) | Term::Masked(..) => Shape::Value,
        }
    }
}

impl ActionTerm {
    /// An action with arguments by place.
    pub fn call(name: &str, arguments: impl IntoIterator<Item = Term>) -> ActionTerm {
        let arguments = arguments.into_iter().map(|term| Argument { name: None, term }).collect();
        ActionTerm { name: name.to_owned(), arguments }
    }

    /// The action with one more argument, by name.
    pub fn with(mut self, name: &str, term: Term) -> ActionTerm {
        self.arguments.push(Argument { name: Some(name.to_owned()), term });
        self
    }
}

impl MatchItem {
    /// A word that needs no value: `tcp`.
    pub fn word(name: &str) -> MatchItem {
        MatchItem { name: name.to_owned(), bits: None, term: None }
    }

    /// A field and its value.
    pub fn field(name: &str, term: Term) -> MatchItem {
        MatchItem { name: name.to_owned(), bits: None, term: Some(term) }
    }

    /// Bits of a field and their value.
    pub fn bits(name: &str, first: u16, last: u16, term: Term) -> MatchItem {
        MatchItem { name: name.to_owned(), bits: Some((first, last)), term: Some(term) }
    }
}

impl Value {
    /// The value's type.
    pub fn kind(self) -> Kind {
        match self {
            Value::Int(_) => Kind::Int,
            Value::Mac(_) => Kind::Mac,
            Value::Ip(_) => Kind::Ip,
            Value::Net(..) => Kind::Net,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(n) => write!(f, "{n}"),
            Value::Mac(mac) => write!(f, "{mac}"),
            Value::Ip(ip) => write!(f, "{ip}"),
            Value::Net(ip, len) => write!(f, "{ip}/{len}"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Int => "int",
            Kind::Mac => "mac",
            Kind::Ip => "ip",
            Kind::Net => "net",
            Kind::Text => "a string",
        })
    }
}
