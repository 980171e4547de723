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

use nlog_data::{Role, Schema, Table, TableId, Type};
use openflow_rs::Field;
use tunnel_encap::Encap;

/// A table that rules and Rust share.
#[derive(Debug)]
pub struct SwitchTable {
    /// Its name.
    pub name: &'static str,
    /// Its role.
    pub role: Role,
    /// Names and types of its columns.
    pub columns: &'static [(&'static str, ColumnType)],
}

/// The type of a column.
#[derive(Debug)]
pub enum ColumnType {
    /// This type.
    Exactly(Type),
    /// A name from this list: a string, or an enumeration with all these members.
    Name(fn() -> Vec<&'static str>),
    /// A set of names from this list: of strings, or of an enumeration with no other members.
    Names(fn() -> Vec<&'static str>),
    /// A text, which may be constrained or an enumeration, or none.
    OptionalText,
    /// A set of texts, which may be constrained.
    Texts,
    /// A reference to objects of one kind.
    Reference,
}

const BOOL: ColumnType = ColumnType::Exactly(Type::Bool);
const INT: ColumnType = ColumnType::Exactly(Type::Int);
const STRING: ColumnType = ColumnType::Exactly(Type::String);
const MATCH: ColumnType = ColumnType::Exactly(Type::Match);
const ACTIONS: ColumnType = ColumnType::Exactly(Type::Actions);
const MAC: ColumnType = ColumnType::Exactly(Type::Mac);
const IP: ColumnType = ColumnType::Exactly(Type::Ip);
const ENCAP: ColumnType = ColumnType::Name(|| Encap::ALL.map(Encap::name).to_vec());
const GROUP_TYPE: ColumnType = ColumnType::Name(|| vec![SELECT, FAST_FAILOVER]);
const HASH_FIELDS: ColumnType = ColumnType::Names(|| {
    // The switch decides the length of an option.
    Field::all().filter(|field| *field != Field::TunMetadata0).map(Field::name).collect()
});
const TEXT: ColumnType = ColumnType::OptionalText;
const TEXTS: ColumnType = ColumnType::Texts;
const NET: ColumnType = ColumnType::Exactly(Type::Net);
const ROUTE_KIND: ColumnType = ColumnType::Name(|| vec!["connected", "static", "discard"]);
const REFERENCE: ColumnType = ColumnType::Reference;

/// The type of a group that chooses a bucket by a hash.
pub const SELECT: &str = "select";
/// The type of a group that uses the first bucket whose port is live.
pub const FAST_FAILOVER: &str = "fast_failover";

/// Declares tables as constants.
macro_rules! tables {
    ($($(#[doc = $doc:literal])* $constant:ident = $role:ident $name:literal [$($column:literal: $ty:expr),*];)*) => {
        $($(#[doc = $doc])* pub const $constant: SwitchTable =
            SwitchTable { name: $name, role: Role::$role, columns: &[$(($column, $ty)),*] };)*
    };
}

tables! {
    /// The hosts whose flows are computed.
    MANAGED = Input "managed" ["hv": STRING];
    /// Labels of objects.
    OBJECT_LABELS = Input "object_label" ["kind": STRING, "id": STRING, "label": STRING, "value": STRING];
    /// Interfaces of ports.
    VIF = Input "vif" ["hv": STRING, "port": STRING, "ofport": INT, "mac": STRING, "since": INT];
    /// Interfaces that have announced themselves.
    ANNOUNCED = Input "announced" ["hv": STRING, "port": STRING, "since": INT];
    /// Ports that several interfaces of one host claim.
    CONTESTED = Input "contested" ["hv": STRING, "port": STRING, "interfaces": STRING];
    /// Tunnel ports that exist.
    TUNNEL_PORT = Input "tunnel_port" ["hv": STRING, "tunnel": STRING, "ofport": INT];
    /// Patch ports that exist.
    PATCH_PORT = Input "patch_port" ["hv": STRING, "patch": STRING, "ofport": INT];
    /// Whether the controller has a switch again that it had lost.
    NODE_CONNECTION = Input "node_connection" ["hv": STRING, "connected": BOOL, "since": INT];

    /// Flows.
    FLOWS = Output "of_flow"
        ["hv": STRING, "table_id": INT, "priority": INT, "match": MATCH, "actions": ACTIONS];
    /// Groups that give a packet to one of their buckets.
    GROUPS = Output "of_group" ["hv": STRING, "group": INT, "type": GROUP_TYPE, "fields": HASH_FIELDS];
    /// Their buckets.
    CANDIDATES = Output "of_candidate"
        ["hv": STRING, "group": INT, "bucket": INT, "weight": INT, "watch_port": INT, "watch_group": INT,
            "actions": ACTIONS];
    /// Buckets of groups that give each a copy.
    BUCKETS = Output "of_bucket" ["hv": STRING, "group": INT, "bucket": INT, "actions": ACTIONS];
    /// Meters.
    METERS = Output "of_meter" ["hv": STRING, "meter": INT, "rate": INT, "burst": INT];
    /// Whose connections conntrack zones have.
    CONNTRACK_ZONES = Output "conntrack_zone" ["hv": STRING, "zone": INT, "owner": STRING];
    /// What bounds the connections of conntrack zones.
    CONNTRACK_LIMITS = Output "conntrack_limit"
        ["hv": STRING, "zone": INT, "connections": INT, "unanswered": INT, "answered": INT, "established": INT,
            "closing": INT];
    /// Where switches send what actions `sample` report.
    COLLECTOR_SETS = Output "collector_set"
        ["hv": STRING, "number": INT, "targets": TEXTS, "active_timeout": INT, "flows_max": INT];
    /// Tunnel ports that are wanted.
    TUNNELS = Output "ovsdb_tunnel" ["hv": STRING, "tunnel": STRING, "encap": ENCAP, "remote": STRING];
    /// BFD sessions of tunnel ports.
    BFD_SESSIONS = Output "bfd_session" ["hv": STRING, "tunnel": STRING, "interval": INT];
    /// Patch ports that are wanted.
    PATCHES = Output "ovsdb_patch" ["hv": STRING, "patch": STRING, "bridge": STRING, "peer": STRING];
    /// Flows that switches learn, and the interfaces that announce themselves by them.
    AWAITED_FLOWS = Output "awaited_flow" ["hv": STRING, "table_id": INT, "cookie": INT, "port": STRING];
    /// Addresses of ports that the physical network reaches through a host.
    ANNOUNCEMENTS = Output "announcement"
        ["hv": STRING, "port": STRING, "mac": MAC, "ofport": INT, "tag": INT];
    /// The hosts on which ports live.
    PORT_HOMES = Output "port_home" ["port": STRING, "hv": STRING];
    /// Where switches are. The kind that the first column refers to is that of transport nodes.
    ADDRESSES = Output "switch_address"
        ["hv": REFERENCE, "ovsdb": TEXT, "openflow": TEXT, "datapath_type": TEXT];
    /// What objects ask and the network cannot do.
    PROBLEMS = Output "problem" ["kind": STRING, "id": STRING, "code": STRING, "text": STRING];

    /// Which learned flows are whose.
    LEARNED_ADDRESSES = Output "learned_addresses"
        ["sw": STRING, "cookie": INT, "port": STRING, "limit": INT];
    /// The hosts that learn addresses of a switch.
    LEARNING_HOSTS = Output "learning_host" ["hv": STRING, "sw": STRING];

    /// Whose frames meters limit.
    FLOOD_METERS = Output "flood_meter" ["hv": STRING, "port": STRING, "meter": INT, "rate": INT];

    /// Whose new connections meters limit.
    CONNECTION_METERS = Output "connection_meter" ["hv": STRING, "port": STRING, "meter": INT, "rate": INT];

    /// Flows whose counters are those of objects.
    COUNTED_FLOWS = Output "counted_flow"
        ["kind": STRING, "id": STRING, "table_id": INT, "priority": INT, "match": MATCH];
    /// Why packets are dropped.
    DROP_CAUSES = Output "drop_cause" ["cause": STRING, "text": STRING];
    /// The flows that drop packets, and why.
    DROPPING_FLOWS = Output "dropping_flow" ["cause": STRING, "table_id": INT, "first": INT, "last": INT];
    /// The meters of what is dropped, and why.
    DROPPING_METERS = Output "dropping_meter" ["cause": STRING, "meter": INT];

    /// Routes of routers as they take effect. The kind that the first column refers to is that of routers.
    EFFECTIVE_ROUTES = Output "effective_route"
        ["router": REFERENCE, "destination": NET, "kind": ROUTE_KIND, "by": STRING, "next_hop": STRING, "port": STRING,
            "mac": STRING, "why": STRING];

    /// The number of each datapath in metadata.
    DATAPATH_LABELS = Input "datapath_label" ["datapath": STRING, "label": INT];
    /// The addresses of hosts on the underlay.
    ENDPOINTS = Internal "tunnel_endpoint" ["node": STRING, "ip": IP];
    /// The bridges of hosts to physical networks.
    BRIDGES = Internal "node_bridge" ["node": STRING, "network": STRING, "bridge": STRING];
    /// Ports behind the interface of a parent, told apart by a VLAN tag.
    PARENTS = Internal "port_parent" ["port": STRING, "parent": STRING, "tag": INT];
    /// Ports that are a VLAN of a physical network.
    LOCALNETS = Internal "localnet" ["port": STRING, "sw": STRING, "network": STRING, "tag": INT];
    /// The MAC addresses of ports.
    MACS = Internal "port_mac" ["port": STRING, "mac": MAC];
    /// The IP addresses of ports.
    IPS = Internal "port_ip" ["port": STRING, "ip": IP, "mac": MAC];
}

/// All that the controller does with tables besides those of objects and of their state: inputs that it fills, and outputs that
/// it makes true or shows.
pub const INTERFACE: &[SwitchTable] = &[
    MANAGED,
    OBJECT_LABELS,
    VIF,
    ANNOUNCED,
    CONTESTED,
    TUNNEL_PORT,
    PATCH_PORT,
    NODE_CONNECTION,
    FLOWS,
    BUCKETS,
    GROUPS,
    CANDIDATES,
    METERS,
    CONNTRACK_ZONES,
    CONNTRACK_LIMITS,
    COLLECTOR_SETS,
    BFD_SESSIONS,
    TUNNELS,
    PATCHES,
    AWAITED_FLOWS,
    ANNOUNCEMENTS,
    PORT_HOMES,
    ADDRESSES,
    PROBLEMS,
    LEARNED_ADDRESSES,
    LEARNING_HOSTS,
    FLOOD_METERS,
    CONNECTION_METERS,
    COUNTED_FLOWS,
    DROP_CAUSES,
    DROPPING_FLOWS,
    DROPPING_METERS,
    EFFECTIVE_ROUTES,
];

/// A table of the rules that differs from Rust's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}; {remedy}")]
pub struct Misfit {
    /// The table.
    pub table: &'static str,
    /// The column that differs, as the rules call it, if one does.
    pub column: Option<String>,
    /// The difference.
    pub text: String,
    /// What to do.
    pub remedy: String,
}

impl SwitchTable {
    /// The table in a program; none if the program does not have it.
    ///
    /// # Errors
    /// The program has another table of this name.
    pub fn find(&self, schema: &Schema) -> Result<Option<TableId>, Misfit> {
        let Some(id) = schema.find(self.name) else { return Ok(None) };
        let table = schema.table(id);
        let name = self.name;
        let misfit = |column: Option<&str>, text: String| {
            let column = column.map(str::to_owned);
            Err(Misfit { table: name, column, text, remedy: self.remedy() })
        };
        if table.role != self.role {
            let (declared, ours) = (role_name(table.role), role_name(self.role));
            return misfit(None, format!("{name} is declared as `{declared}`, but must be `{ours}`"));
        }
        if let Some((column, text)) = self.different_column(table) {
            return misfit(Some(column), text);
        }
        let (declared, ours) = (table.columns.len(), self.columns.len());
        if declared != ours {
            let beyond = table.columns.get(ours).map(|column| column.name.as_str());
            return misfit(beyond, format!("table {name} has {declared} columns, but must have {ours}"));
        }
        Ok(Some(id))
    }

    /// The first column that differs, and how. The names of inputs and outputs count, since two columns of one type are easily
    /// exchanged; those of other tables are the rules' own.
    fn different_column<'t>(&self, table: &'t Table) -> Option<(&'t str, String)> {
        let name = self.name;
        let pairs = self.columns.iter().zip(&table.columns).zip(1..);
        pairs.into_iter().find_map(|(((ours, ty), column), number)| {
            let declared = column.name.as_str();
            let text = if self.role != Role::Internal && declared != *ours {
                format!("column {number} of table {name} is `{declared}`, but must be `{ours}`")
            } else if !ty.accepts(&column.ty) {
                format!("column `{declared}` of table {name} has type {}, but must have {ty}", column.ty)
            } else {
                return None;
            };
            Some((declared, text))
        })
    }

    /// What to do about a program without this table.
    pub fn remedy(&self) -> String {
        format!("declare `{self}`, as rules/interface/ does")
    }
}

/// The declaration.
impl fmt::Display for SwitchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> =
            self.columns.iter().map(|(name, ty)| format!("{name}: {}", ty.declared())).collect();
        write!(f, "{} {}({})", role_name(self.role), self.name, columns.join(", "))
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Input => "input table",
        Role::Internal | Role::Hidden => "table",
        Role::Output => "output table",
        Role::Forbid => "forbid table",
    }
}

impl ColumnType {
    /// Whether a column with this declared type qualifies.
    pub fn accepts(&self, ty: &Type) -> bool {
        match (self, ty) {
            (ColumnType::Exactly(own), ty) => own == ty.base(),
            (ColumnType::Name(_), Type::String) => true,
            (ColumnType::Name(names), Type::Enum(of)) => {
                names().iter().all(|name| of.members.iter().any(|member| member == name))
            }
            (ColumnType::Name(_), _) => false,
            (ColumnType::Names(names), Type::Set(of)) => match of.base() {
                Type::String => true,
                Type::Enum(of) => of.members.iter().all(|member| names().contains(&member.as_str())),
                _ => false,
            },
            (ColumnType::Names(_), _) => false,
            (ColumnType::OptionalText, Type::Opt(of)) => matches!(of.base(), Type::String | Type::Enum(_)),
            (ColumnType::OptionalText, _) => false,
            (ColumnType::Texts, Type::Set(of)) => matches!(of.base(), Type::String),
            (ColumnType::Texts, _) => false,
            (ColumnType::Reference, ty) => ty.kinds().is_some_and(|kinds| kinds.len() == 1),
        }
    }

    /// A type that qualifies, as a declaration writes it.
    fn declared(&self) -> String {
        match self {
            ColumnType::Exactly(ty) => ty.to_string(),
            ColumnType::Name(_) => "string".to_owned(),
            ColumnType::Names(_) => "set<string>".to_owned(),
            ColumnType::OptionalText => "opt<string>".to_owned(),
            ColumnType::Texts => "set<string>".to_owned(),
            ColumnType::Reference => "ref KIND".to_owned(),
        }
    }
}

/// All types that qualify.
impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnType::Exactly(ty) => write!(f, "{ty}"),
            ColumnType::Name(names) => write!(f, "string, or an enum of {}", names().join(", ")),
            ColumnType::Names(_) => f.write_str("set<string>, or a set of an enum of names of fields"),
            ColumnType::OptionalText => f.write_str("opt<string>, or opt of an enum"),
            ColumnType::Texts => f.write_str("set<string>"),
            ColumnType::Reference => f.write_str("a reference to one kind of objects"),
        }
    }
}
