//! The kinds of objects.
//!
//! To add one: a file beside `switch.rs` with its type and its `Described`, one line in `kinds!` below, and the tables
//! of its rows in `rules/interface/objects.nlog`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use nlog_data::Row;
use openflow_rs::{MacAddr, nearest};
use serde::Serialize;

use crate::field::{Fields, list};
use crate::{LocalnetPort, Switch, SwitchPort, TransportNode, TransportZone};

/// What every kind of object says about itself.
pub(crate) trait Described: Sized {
    /// Reads an object whose fields `kind` and `id` are read already.
    fn read(id: String, fields: &mut Fields) -> Option<Self>;

    /// The object's id.
    fn id(&self) -> &str;

    /// The rows that the object is to rules, each with its table.
    fn rows(&self) -> Vec<(&'static str, Row)>;

    /// Other objects that must exist, each with the path of the field that names it.
    fn references(&self) -> Vec<(String, ObjectKey)>;

    /// What no other object may have, each with the path of the field that has it.
    fn claims(&self) -> Vec<(String, Claim)>;

    /// The object of the same kind that it is a part of, with the path of the field that names it. What is a part has no
    /// parts itself.
    fn whole(&self) -> Option<(&'static str, ObjectKey)> {
        None
    }
}

/// Something that one object alone can have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    /// A transport node's tunnel end point.
    TunnelEndPoint(IpAddr),
    /// A switch's OVSDB or OpenFlow end point.
    EndPoint(String),
    /// A MAC address on a switch.
    Mac(String, MacAddr),
    /// An IP address on a switch.
    Ip(String, IpAddr),
    /// What is plugged in, and labelled, as a port: ids of ports of all kinds are one name space.
    PortId(String),
    /// A VLAN tag behind a port.
    Tag(String, u16),
    /// The way of a switch to a physical network.
    Localnet(String),
    /// A VLAN of a physical network; 0: its untagged frames.
    Vlan(String, u16),
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claim::TunnelEndPoint(ip) => write!(f, "tunnel end point {ip}"),
            Claim::EndPoint(endpoint) => write!(f, "end point {endpoint}"),
            Claim::Mac(switch, mac) => write!(f, "{mac} on switch {switch}"),
            Claim::Ip(switch, ip) => write!(f, "{ip} on switch {switch}"),
            Claim::PortId(id) => write!(f, "port id {id}"),
            Claim::Tag(parent, tag) => write!(f, "tag {tag} behind switch_port {parent}"),
            Claim::Vlan(network, 0) => write!(f, "what is untagged on physical network {network}"),
            Claim::Vlan(network, tag) => write!(f, "VLAN {tag} of physical network {network}"),
            Claim::Localnet(switch) => write!(f, "the one way of switch {switch} to a physical network"),
        }
    }
}

macro_rules! kinds {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// A kind of object.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = concat!("A [`", stringify!($variant), "`].")] $variant,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &[Kind] = &[$(Kind::$variant),*];

            /// Its name in documents.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$variant => $name,)*
                }
            }
        }

        /// An object: valid by itself, but not yet judged beside others.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        #[serde(tag = "kind")]
        pub enum Object {
            $(
                #[doc = concat!("A [`", stringify!($variant), "`].")]
                #[serde(rename = $name)]
                $variant($variant),
            )*
        }

        impl Object {
            /// What kind of object it is.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Object::$variant(_) => Kind::$variant,)*
                }
            }

            /// Its id, unique in its kind.
            pub fn id(&self) -> &str {
                match self {
                    $(Object::$variant(object) => object.id(),)*
                }
            }

            /// The rows that it is to rules, each with its table of `rules/interface/objects.nlog`.
            pub fn rows(&self) -> Vec<(&'static str, Row)> {
                match self {
                    $(Object::$variant(object) => object.rows(),)*
                }
            }

            pub(crate) fn references(&self) -> Vec<(String, ObjectKey)> {
                match self {
                    $(Object::$variant(object) => object.references(),)*
                }
            }

            pub(crate) fn claims(&self) -> Vec<(String, Claim)> {
                match self {
                    $(Object::$variant(object) => object.claims(),)*
                }
            }

            pub(crate) fn whole(&self) -> Option<(&'static str, ObjectKey)> {
                match self {
                    $(Object::$variant(object) => object.whole(),)*
                }
            }

            pub(crate) fn read(kind: Kind, id: String, fields: &mut Fields) -> Option<Self> {
                match kind {
                    $(Kind::$variant => $variant::read(id, fields).map(Object::$variant),)*
                }
            }
        }
    };
}

kinds! {
    TransportZone = "transport_zone",
    TransportNode = "transport_node",
    Switch = "switch",
    SwitchPort = "switch_port",
    LocalnetPort = "localnet_port",
}

/// Kinds that the contract names and this version does not have.
const PLANNED: &[&str] = &["acl", "router", "router_port"];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a name is no [`Kind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownKind {
    /// It will be one.
    #[error("objects of kind `{0}` are known, but not supported yet")]
    Planned(String),
    /// It is none.
    #[error("no such kind; {hint}")]
    Unknown {
        /// What may be meant.
        hint: String,
    },
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        if let Some(kind) = Kind::ALL.iter().find(|kind| kind.name() == text) {
            Ok(*kind)
        } else if PLANNED.contains(&text) {
            Err(UnknownKind::Planned(text.to_owned()))
        } else if let Some(near) = nearest(text, names.iter().chain(PLANNED).copied()) {
            Err(UnknownKind::Unknown { hint: format!("did you mean `{near}`?") })
        } else {
            Err(UnknownKind::Unknown { hint: format!("there are {}", list(&names)) })
        }
    }
}

impl Object {
    /// Names it.
    pub fn key(&self) -> ObjectKey {
        ObjectKey { kind: self.kind(), id: self.id().to_owned() }
    }

    /// Its canonical JSON, on one line: fields in the order of their kind, values that have a default included.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| unreachable!("maps have text keys alone: {error}"))
    }

    /// Its canonical YAML, one document.
    pub fn to_yaml(&self) -> String {
        serde_norway::to_string(self).unwrap_or_else(|error| unreachable!("objects have no tags: {error}"))
    }
}

/// Names an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// What kind.
    pub kind: Kind,
    /// Which of them.
    pub id: String,
}

impl ObjectKey {
    /// The object of this kind with this id.
    pub fn new(kind: Kind, id: impl Into<String>) -> Self {
        ObjectKey { kind, id: id.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}
