//! The kinds of objects.
//!
//! To add a kind, add a file beside `switch.rs` with its type and its `ObjectKind`, one line in `kinds!` below, and
//! the tables of its rows in `rules/interface/objects.nlog`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use nlog_data::{Row, Value};
use openflow_rs::{MacAddr, nearest};
use serde::Serialize;

use crate::field::{Fields, Labels, list};
use crate::{LocalnetPort, Switch, SwitchPort, TransportNode, TransportZone};

/// A kind of network object.
pub(crate) trait ObjectKind: Sized {
    /// Reads an object whose fields `kind` and `id` have been read.
    fn read(id: String, fields: &mut Fields) -> Option<Self>;

    /// The object's id.
    fn id(&self) -> &str;

    /// The object's labels.
    fn labels(&self) -> &Labels;

    /// The rows of the object but for its labels, each with its input table.
    fn rows(&self) -> Vec<(&'static str, Row)>;

    /// Other objects that must exist, each with the path of the field that names it.
    fn references(&self) -> Vec<(String, ObjectKey)>;

    /// Values that must be unique, each with the path of its field.
    fn claims(&self) -> Vec<(String, Claim)>;

    /// The parent of the same kind, with the path of the field that names it. A parent cannot have a parent itself.
    fn parent(&self) -> Option<(&'static str, ObjectKey)> {
        None
    }
}

/// A value that at most one object can have.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Claim {
    /// The tunnel endpoint of a transport node.
    TunnelEndPoint(IpAddr),
    /// The OVSDB or OpenFlow endpoint of a switch.
    EndPoint(String),
    /// A MAC address on a switch.
    Mac(String, MacAddr),
    /// An IP address on a switch.
    Ip(String, IpAddr),
    /// The id of a port. Ports of all kinds share one name space.
    PortId(String),
    /// A VLAN tag of a trunk.
    Tag(String, u16),
    /// The connection of a switch to a physical network.
    Localnet(String),
    /// A VLAN of a physical network; 0 means untagged frames.
    Vlan(String, u16),
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claim::TunnelEndPoint(ip) => write!(f, "tunnel endpoint {ip}"),
            Claim::EndPoint(endpoint) => write!(f, "endpoint {endpoint}"),
            Claim::Mac(switch, mac) => write!(f, "{mac} on switch {switch}"),
            Claim::Ip(switch, ip) => write!(f, "{ip} on switch {switch}"),
            Claim::PortId(id) => write!(f, "port id {id}"),
            Claim::Tag(parent, tag) => write!(f, "tag {tag} on parent switch_port {parent}"),
            Claim::Vlan(network, 0) => write!(f, "untagged traffic of physical network {network}"),
            Claim::Vlan(network, tag) => write!(f, "VLAN {tag} of physical network {network}"),
            Claim::Localnet(switch) => write!(f, "the connection of switch {switch} to a physical network"),
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

        /// An object without faults of its own. [`ObjectStore`](crate::ObjectStore) checks references and uniqueness.
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
            /// Its kind.
            pub fn kind(&self) -> Kind {
                match self {
                    $(Object::$variant(_) => Kind::$variant,)*
                }
            }

            /// Its id, unique within its kind.
            pub fn id(&self) -> &str {
                match self {
                    $(Object::$variant(object) => object.id(),)*
                }
            }

            /// Its labels.
            pub fn labels(&self) -> &Labels {
                match self {
                    $(Object::$variant(object) => object.labels(),)*
                }
            }

            fn own_rows(&self) -> Vec<(&'static str, Row)> {
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

            pub(crate) fn parent(&self) -> Option<(&'static str, ObjectKey)> {
                match self {
                    $(Object::$variant(object) => object.parent(),)*
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

/// Planned kinds that this version does not support.
const PLANNED: &[&str] = &["acl", "router", "router_port"];

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not a [`Kind`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownKind {
    /// The kind is planned.
    #[error("kind `{0}` is not supported yet")]
    Planned(String),
    /// The kind is unknown.
    #[error("unknown kind; {hint}")]
    Unknown {
        /// A suggestion.
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
            Err(UnknownKind::Unknown { hint: format!("valid kinds are {}", list(&names)) })
        }
    }
}

impl Object {
    /// Its rows, each with its table in `rules/interface/objects.nlog`.
    pub fn rows(&self) -> Vec<(&'static str, Row)> {
        let mut rows = self.own_rows();
        rows.extend(self.labels().iter().map(|(key, value)| {
            let row = [self.kind().name(), self.id(), key, value].map(Value::from);
            ("object_label", row.to_vec())
        }));
        rows
    }

    /// Its key.
    pub fn key(&self) -> ObjectKey {
        ObjectKey { kind: self.kind(), id: self.id().to_owned() }
    }

    /// Its canonical JSON, on one line: fields in the order of their kind, including defaults.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| unreachable!("maps have text keys alone: {error}"))
    }

    /// Its canonical YAML, one document.
    pub fn to_yaml(&self) -> String {
        serde_norway::to_string(self).unwrap_or_else(|error| unreachable!("objects have no tags: {error}"))
    }
}

/// Identifies an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: Kind,
    /// Its id.
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
