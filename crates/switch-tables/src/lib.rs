//! The tables between rules and switches: what switches report, what they are to do, and what rules say of places.
//!
//! `rules/interface/` declares these tables. Here are their names and columns as Rust expects them, once for everything that
//! stands in the place of a switch; a [`SwitchTable`] finds itself in a program, or says what is different there. `rows` reads
//! and writes their rows.
//!
//! ```
//! use nlog_data::Schema;
//! use switch_tables::BUCKETS;
//!
//! assert_eq!(BUCKETS.find(&Schema::default()), Ok(None));
//! assert_eq!(BUCKETS.to_string(), "output table of_bucket(hv: string, group: int, bucket: int, actions: actions)");
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
    /// The names and types of its columns. The names are checked since two columns of one type are easily exchanged.
    pub columns: &'static [(&'static str, ColumnType)],
}

/// The type of a column.
#[derive(Debug)]
pub enum ColumnType {
    /// This type.
    Exactly(Type),
    /// A name from this list: a string, or an enumeration with all these members.
    Name(fn() -> Vec<&'static str>),
    /// A text, which may be constrained or an enumeration, or none.
    OptionalText,
    /// A reference to objects of one kind.
    Reference,
}

const INT: ColumnType = ColumnType::Exactly(Type::Int);
const STRING: ColumnType = ColumnType::Exactly(Type::String);
const MAC: ColumnType = ColumnType::Exactly(Type::Mac);
const IP: ColumnType = ColumnType::Exactly(Type::Ip);
const MATCH: ColumnType = ColumnType::Exactly(Type::Match);
const ACTIONS: ColumnType = ColumnType::Exactly(Type::Actions);
const ENCAP: ColumnType = ColumnType::Name(|| Encap::ALL.map(Encap::name).to_vec());
const TEXT: ColumnType = ColumnType::OptionalText;

/// Declares tables as constants.
macro_rules! tables {
    ($($(#[doc = $doc:literal])* $constant:ident = $role:ident $name:literal ($($column:ident: $type:expr),*);)*) => {
        $($(#[doc = $doc])* pub const $constant: SwitchTable = SwitchTable {
            name: $name,
            role: Role::$role,
            columns: &[$((stringify!($column), $type)),*],
        };)*
    };
}

// Between the rules and the driver.
tables! {
    /// The hosts whose flows are computed.
    MANAGED = Input "managed" (hv: STRING);
    /// The labels of objects.
    OBJECT_LABELS = Input "object_label" (kind: STRING, id: STRING, label: STRING, value: STRING);
    /// Interfaces of ports.
    VIF = Input "vif" (hv: STRING, port: STRING, ofport: INT, mac: STRING, since: INT);
    /// Tunnel ports that exist.
    TUNNEL_PORT = Input "tunnel_port" (hv: STRING, tunnel: STRING, ofport: INT);
    /// Patch ports that exist.
    PATCH_PORT = Input "patch_port" (hv: STRING, patch: STRING, ofport: INT);

    /// Flows.
    FLOWS = Output "of_flow" (hv: STRING, table_id: INT, priority: INT, match: MATCH, actions: ACTIONS);
    /// Buckets of groups.
    BUCKETS = Output "of_bucket" (hv: STRING, group: INT, bucket: INT, actions: ACTIONS);
    /// Tunnel ports that are wanted.
    TUNNELS = Output "ovsdb_tunnel" (hv: STRING, tunnel: STRING, encap: ENCAP, remote: STRING);
    /// Patch ports that are wanted.
    PATCHES = Output "ovsdb_patch" (hv: STRING, patch: STRING, bridge: STRING, peer: STRING);
    /// Where switches listen. The kind that `hv` refers to is that of transport nodes.
    ADDRESSES = Output "switch_address"
        (hv: ColumnType::Reference, ovsdb: TEXT, openflow: TEXT, datapath_type: TEXT);
    /// What is wrong with objects.
    PROBLEMS = Output "problem" (kind: STRING, id: STRING, code: STRING, text: STRING);
}

/// The tables that a driver fills, makes true or shows, besides those of objects and of their state.
pub const DRIVER: [&SwitchTable; 11] = [
    &MANAGED,
    &OBJECT_LABELS,
    &VIF,
    &TUNNEL_PORT,
    &PATCH_PORT,
    &FLOWS,
    &BUCKETS,
    &TUNNELS,
    &PATCHES,
    &ADDRESSES,
    &PROBLEMS,
];

// Within the rules.
tables! {
    /// The number of each datapath in metadata.
    DATAPATH_LABELS = Input "datapath_label" (datapath: STRING, label: INT);

    /// The addresses of hosts on the underlay.
    ENDPOINTS = Internal "tunnel_endpoint" (node: STRING, ip: IP);
    /// The bridges of hosts to physical networks.
    BRIDGES = Internal "node_bridge" (node: STRING, network: STRING, bridge: STRING);
    /// Ports behind the interface of a parent, told apart by a VLAN tag.
    PARENTS = Internal "port_parent" (port: STRING, parent: STRING, tag: INT);
    /// Ports that are a VLAN of a physical network.
    LOCALNETS = Internal "localnet" (port: STRING, sw: STRING, network: STRING, tag: INT);
    /// The MAC addresses of ports.
    MACS = Internal "port_mac" (port: STRING, mac: MAC);
    /// The IP addresses of ports.
    IPS = Internal "port_ip" (port: STRING, ip: IP, mac: MAC);
}

/// A declaration of the rules that does not fit Rust's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}; {remedy}")]
pub struct Misfit {
    /// The name of the table.
    pub table: &'static str,
    /// The column, if it is about one that the rules declare.
    pub column: Option<String>,
    /// The difference.
    pub text: String,
    /// What to declare instead.
    pub remedy: String,
}

impl SwitchTable {
    /// The table in a program; none if the program does not have it.
    ///
    /// # Errors
    /// The program has another table of this name.
    pub fn find(&self, schema: &Schema) -> Result<Option<TableId>, Misfit> {
        let Some(id) = schema.find(self.name) else { return Ok(None) };
        let (table, name) = (schema.table(id), self.name);
        if table.role != self.role {
            let text =
                format!("{name} is {}, but it must be {}", described(table.role), described(self.role));
            return Err(self.misfit(None, text));
        }
        for (number, ((wanted, ty), column)) in (1..).zip(self.columns.iter().zip(&table.columns)) {
            let text = if column.name != *wanted {
                format!("column {number} of table {name} is `{}`, but it must be `{wanted}`", column.name)
            } else if !ty.accepts(&column.ty) {
                format!("column `{wanted}` of table {name} has type {}, but it must be {ty}", column.ty)
            } else {
                continue;
            };
            return Err(self.misfit(Some(&column.name), text));
        }
        let (declared, wanted) = (table.columns.len(), self.columns.len());
        if declared != wanted {
            let beyond = table.columns.get(wanted).map(|column| column.name.as_str());
            return Err(self
                .misfit(beyond, format!("table {name} has {declared} columns, but it must have {wanted}")));
        }
        Ok(Some(id))
    }

    fn misfit(&self, column: Option<&str>, text: String) -> Misfit {
        Misfit { table: self.name, column: column.map(str::to_owned), text, remedy: self.remedy() }
    }

    /// The advice to declare the table.
    pub fn remedy(&self) -> String {
        format!("declare `{self}`")
    }
}

/// A declaration of the table, with a type that qualifies for each column.
impl fmt::Display for SwitchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Input => "input ",
            Role::Internal | Role::Hidden => "",
            Role::Output => "output ",
            Role::Forbid => "forbid ",
        };
        let columns: Vec<String> =
            self.columns.iter().map(|(name, ty)| format!("{name}: {}", ty.declared())).collect();
        write!(f, "{role}table {}({})", self.name, columns.join(", "))
    }
}

fn described(role: Role) -> &'static str {
    match role {
        Role::Input => "an input table",
        Role::Internal | Role::Hidden => "an internal table",
        Role::Output => "an output table",
        Role::Forbid => "a table that forbids its rows",
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
            (ColumnType::OptionalText, Type::Opt(of)) => matches!(of.base(), Type::String | Type::Enum(_)),
            (ColumnType::OptionalText, _) => false,
            (ColumnType::Reference, ty) => ty.kinds().is_some_and(|kinds| kinds.len() == 1),
        }
    }

    /// A type that qualifies, as a declaration writes it.
    fn declared(&self) -> String {
        match self {
            ColumnType::Exactly(ty) => ty.to_string(),
            ColumnType::Name(_) => "string".to_owned(),
            ColumnType::OptionalText => "opt<string>".to_owned(),
            ColumnType::Reference => "ref KIND".to_owned(),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnType::Exactly(ty) => write!(f, "{ty}"),
            ColumnType::Name(names) => write!(f, "string, or an enum of {}", names().join(", ")),
            ColumnType::OptionalText => f.write_str("opt<string>, or opt of an enum"),
            ColumnType::Reference => f.write_str("a reference to one kind of objects"),
        }
    }
}
