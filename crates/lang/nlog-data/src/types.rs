//! Column types.

use std::fmt;
use std::sync::Arc;

use crate::{Constrained, Value};

/// The type of a column, a variable or an expression.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// `true` or `false`.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// Unicode text.
    String,
    /// An Ethernet address.
    Mac,
    /// An IPv4 or IPv6 address.
    Ip,
    /// A CIDR prefix without host bits.
    Net,
    /// An IP address with the length of its prefix, host bits kept.
    InterfaceAddress,
    /// An OpenFlow match.
    Match,
    /// A list of OpenFlow actions and instructions.
    Actions,
    /// What a user says of packets: values of header fields.
    PacketFilter,
    /// A set of values of one type.
    Set(Arc<Type>),
    /// A list of values of one type.
    List(Arc<Type>),
    /// A value or none. The inner type must not be optional.
    Opt(Arc<Type>),
    /// One of a few texts.
    Enum(Arc<Enumeration>),
    /// Several named values.
    Record(Arc<Record>),
    /// The values of another type that satisfy a constraint. A type of columns and fields alone: expressions have the
    /// [base type](Type::base) at run time, and while they are checked [`Type::in_expressions`].
    Constrained(Arc<Constrained>),
}

/// A declared enumeration, identified by its name, which is unique in the program. Values are [`Value::String`]s.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Enumeration {
    /// Its name.
    pub name: String,
    /// The texts of its members, in declared order.
    pub members: Vec<String>,
}

/// A declared record type, identified by its name, which is unique in the program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    /// Its name.
    pub name: String,
    /// Its fields in declared order, which is the order of the values in a [`Value::Record`].
    pub fields: Vec<(String, Type)>,
}

impl Record {
    /// The index of a field, and its type.
    pub fn field(&self, name: &str) -> Option<(usize, &Type)> {
        let place = self.fields.iter().position(|(own, _)| own == name)?;
        Some((place, &self.fields[place].1))
    }
}

impl Type {
    /// A set of this type.
    pub fn set(of: Type) -> Type {
        Type::Set(Arc::new(of))
    }

    /// A list of this type.
    pub fn list(of: Type) -> Type {
        Type::List(Arc::new(of))
    }

    /// This type or none.
    pub fn opt(of: Type) -> Type {
        Type::Opt(Arc::new(of))
    }

    /// Whether the value has this type. An empty set has every set type, and an empty list every list type.
    pub fn admits(&self, value: &Value) -> bool {
        match (self, value) {
            (Type::Bool, Value::Bool(_))
            | (Type::Int, Value::Int(_))
            | (Type::String, Value::String(_))
            | (Type::Mac, Value::Mac(_))
            | (Type::Ip, Value::Ip(_))
            | (Type::Net, Value::Net(_))
            | (Type::InterfaceAddress, Value::InterfaceAddress(_))
            | (Type::Match, Value::Match(_))
            | (Type::Actions, Value::Actions(_))
            | (Type::PacketFilter, Value::PacketFilter(_)) => true,
            (Type::Set(of), Value::Set(values)) | (Type::List(of), Value::List(values)) => {
                values.iter().all(|value| of.admits(value))
            }
            (Type::Opt(_), Value::None) => true,
            (Type::Opt(of), value) => of.admits(value),
            (Type::Enum(of), Value::String(text)) => of.members.iter().any(|member| **member == **text),
            (Type::Record(of), Value::Record(values)) => {
                of.fields.len() == values.len()
                    && of.fields.iter().zip(values.iter()).all(|((_, ty), value)| ty.admits(value))
            }
            (Type::Constrained(of), value) => of.base.admits(value) && self.violation(value).is_none(),
            _ => false,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::String => f.write_str("string"),
            Type::Mac => f.write_str("mac"),
            Type::Ip => f.write_str("ip"),
            Type::Net => f.write_str("net"),
            Type::InterfaceAddress => f.write_str("interface_address"),
            Type::Match => f.write_str("match"),
            Type::Actions => f.write_str("actions"),
            Type::PacketFilter => f.write_str("packet_filter"),
            Type::Set(of) => write!(f, "set<{of}>"),
            Type::List(of) => write!(f, "list<{of}>"),
            Type::Opt(of) => write!(f, "opt<{of}>"),
            Type::Enum(of) => f.write_str(&of.name),
            Type::Record(of) => f.write_str(&of.name),
            Type::Constrained(of) => f.write_str(&of.name),
        }
    }
}
