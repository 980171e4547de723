//! The tables between rules and switches: what switches report, what they are to do, and what rules say of places.
//!
//! `rules/interface/` declares these tables. Here are their names and columns as Rust expects them, once for everything that
//! stands in the place of a switch; a [`SwitchTable`] finds itself in a program, or says what is different there. `rows` reads
//! and writes their rows.
//!
//! ```
//! use nlog_data::Schema;
//! use switch_tables::FLOWS;
//!
//! assert_eq!(FLOWS.find(&Schema::default()), Ok(None));
//! assert_eq!(FLOWS.to_string(), "output table of_flow(string, int, int, match, actions)");
//! ```
#![forbid(unsafe_code)]

pub mod rows;

use std::fmt;

use nlog_data::{Role, Schema, TableId, Type};
use tunnel_encap::Encap;

/// A table that rules and Rust share.
#[derive(Debug)]
pub struct SwitchTable {
    /// Its name.
    pub name: &'static str,
    /// Its role.
    pub role: Role,
    /// Its columns.
    pub columns: &'static [ColumnType],
}

/// The type of a column.
#[derive(Debug)]
pub enum ColumnType {
    /// This type.
    Exactly(Type),
    /// A name from this list: a string, or an enumeration with all these members.
    Name(fn() -> Vec<&'static str>),
}

const INT: ColumnType = ColumnType::Exactly(Type::Int);
const STRING: ColumnType = ColumnType::Exactly(Type::String);
const MAC: ColumnType = ColumnType::Exactly(Type::Mac);
const IP: ColumnType = ColumnType::Exactly(Type::Ip);
const MATCH: ColumnType = ColumnType::Exactly(Type::Match);
const ACTIONS: ColumnType = ColumnType::Exactly(Type::Actions);
const ENCAP: ColumnType = ColumnType::Name(|| Encap::ALL.map(Encap::name).to_vec());

/// Declares tables as constants.
macro_rules! tables {
    ($($(#[doc = $doc:literal])* $constant:ident = $role:ident $name:literal [$($column:expr),*];)*) => {
        $($(#[doc = $doc])* pub const $constant: SwitchTable =
            SwitchTable { name: $name, role: Role::$role, columns: &[$($column),*] };)*
    };
}

tables! {
    /// The hosts whose flows are computed.
    MANAGED = Input "managed" [STRING];
    /// Interfaces of ports.
    VIF = Input "vif" [STRING, STRING, INT, STRING, INT];
    /// Tunnel ports that exist.
    TUNNEL_PORT = Input "tunnel_port" [STRING, STRING, INT];
    /// Patch ports that exist.
    PATCH_PORT = Input "patch_port" [STRING, STRING, INT];

    /// Flows.
    FLOWS = Output "of_flow" [STRING, INT, INT, MATCH, ACTIONS];
    /// Buckets of groups.
    BUCKETS = Output "of_bucket" [STRING, INT, INT, ACTIONS];
    /// Tunnel ports that are wanted.
    TUNNELS = Output "ovsdb_tunnel" [STRING, STRING, ENCAP, STRING];
    /// Patch ports that are wanted.
    PATCHES = Output "ovsdb_patch" [STRING, STRING, STRING, STRING];

    /// The addresses of hosts on the underlay.
    ENDPOINTS = Internal "tunnel_endpoint" [STRING, IP];
    /// The bridges of hosts to physical networks.
    BRIDGES = Internal "node_bridge" [STRING, STRING, STRING];
    /// Ports behind the interface of a parent, told apart by a VLAN tag.
    PARENTS = Internal "port_parent" [STRING, STRING, INT];
    /// Ports that are a VLAN of a physical network.
    LOCALNETS = Internal "localnet" [STRING, STRING, STRING, INT];
    /// The MAC addresses of ports.
    MACS = Internal "port_mac" [STRING, MAC];
    /// The IP addresses of ports.
    IPS = Internal "port_ip" [STRING, IP, MAC];
}

/// A table of the rules that differs from Rust's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the rules declare {declared}, and not {ours}; see rules/interface/")]
pub struct Misfit {
    /// The declaration of the rules.
    pub declared: String,
    /// That of Rust.
    pub ours: String,
}

impl SwitchTable {
    /// The table in a program; none if the program does not have it.
    ///
    /// # Errors
    /// The program has another table of this name.
    pub fn find(&self, schema: &Schema) -> Result<Option<TableId>, Misfit> {
        let Some(id) = schema.find(self.name) else { return Ok(None) };
        let table = schema.table(id);
        let types = || table.columns.iter().map(|column| &column.ty);
        let fits = table.columns.len() == self.columns.len()
            && self.columns.iter().zip(types()).all(|(own, ty)| own.accepts(ty));
        if table.role == self.role && fits {
            return Ok(Some(id));
        }
        let types: Vec<String> = types().map(ToString::to_string).collect();
        let declared = format!("{}{}({})", role_name(table.role), self.name, types.join(", "));
        Err(Misfit { declared, ours: self.to_string() })
    }
}

impl fmt::Display for SwitchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<String> = self.columns.iter().map(ToString::to_string).collect();
        write!(f, "{}{}({})", role_name(self.role), self.name, types.join(", "))
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Input => "input table ",
        Role::Internal | Role::Hidden => "table ",
        Role::Output => "output table ",
        Role::Forbid => "forbid table ",
    }
}

impl ColumnType {
    /// Whether a column with this declared type qualifies.
    fn accepts(&self, ty: &Type) -> bool {
        match (self, ty) {
            (ColumnType::Exactly(own), ty) => own == ty.base(),
            (ColumnType::Name(_), Type::String) => true,
            (ColumnType::Name(names), Type::Enum(of)) => {
                names().iter().all(|name| of.members.iter().any(|member| member == name))
            }
            (ColumnType::Name(_), _) => false,
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnType::Exactly(ty) => write!(f, "{ty}"),
            ColumnType::Name(names) => write!(f, "string, or an enum of {}", names().join(", ")),
        }
    }
}
