//! Column types.

use std::fmt;
use std::sync::Arc;

use crate::Value;

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
    /// A CIDR prefix, host bits zero.
    Net,
    /// An OpenFlow match.
    Match,
    /// A list of OpenFlow actions and instructions.
    Actions,
    /// A set of values of one type.
    Set(Arc<Type>),
    /// A list of values of one type.
    List(Arc<Type>),
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

    /// Whether the value is of this type. An empty set is of every set type, an empty list of every list type.
    pub fn admits(&self, value: &Value) -> bool {
        match (self, value) {
            (Type::Bool, Value::Bool(_))
            | (Type::Int, Value::Int(_))
            | (Type::String, Value::String(_))
            | (Type::Mac, Value::Mac(_))
            | (Type::Ip, Value::Ip(_))
            | (Type::Net, Value::Net(_))
            | (Type::Match, Value::Match(_))
            | (Type::Actions, Value::Actions(_)) => true,
            (Type::Set(of), Value::Set(values)) | (Type::List(of), Value::List(values)) => {
                values.iter().all(|value| of.admits(value))
            }
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
            Type::Match => f.write_str("match"),
            Type::Actions => f.write_str("actions"),
            Type::Set(of) => write!(f, "set<{of}>"),
            Type::List(of) => write!(f, "list<{of}>"),
        }
    }
}
