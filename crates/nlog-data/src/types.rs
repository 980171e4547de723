//! Column types.

use std::fmt;
use std::sync::Arc;

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
