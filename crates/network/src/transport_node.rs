//! `transport_node`: an Open vSwitch that the controller manages.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use nlog_data::quotation::quote_text;
use nlog_data::{Row, Value};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;
use tunnel_encap::Encap;

use crate::field::{self, Fields, Labels, name, one_of};
use crate::object::{Claim, ObjectKind};
use crate::{FaultCode, Kind, ObjectKey};

/// An Open vSwitch that the controller manages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransportNode {
    /// Its id.
    pub id: String,
    /// Its labels.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Its role; a hypervisor by default.
    pub role: Role,
    /// Its tunnel endpoint.
    pub ip: IpAddr,
    /// Its encapsulations in order of preference, never empty; geneve by default.
    pub encaps: Vec<Encap>,
    /// Its transport zone; `None` means the default zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport_zone: Option<String>,
    /// For each physical network, the bridge of the same Open vSwitch that connects to it.
    pub bridge_mappings: BTreeMap<String, String>,
    /// Its OVSDB endpoint. With `None`, the switch connects to the controller and is identified by its
    /// `external_ids:system-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ovsdb: Option<Endpoint>,
    /// The OpenFlow endpoint of its `br-int`. With `None`, the bridge connects to the address of the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openflow: Option<Endpoint>,
    /// The datapath type of `br-int` if the controller creates it. With `None`, Open vSwitch's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datapath_type: Option<DatapathType>,
}

/// The role of a transport node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Hosts virtual machines.
    Hypervisor,
    /// Connects logical and physical networks.
    Gateway,
    /// Replicates BUM traffic.
    ServiceNode,
}

impl Role {
    const NAMES: &[(&'static str, Role)] =
        &[("hypervisor", Role::Hypervisor), ("gateway", Role::Gateway), ("service_node", Role::ServiceNode)];

    /// The names of all roles, as in documents and rules.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Role::NAMES.iter().map(|(name, _)| *name)
    }
}

/// The datapath of a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DatapathType {
    /// The kernel datapath.
    System,
    /// The userspace datapath.
    Netdev,
}

impl DatapathType {
    const NAMES: &[(&'static str, DatapathType)] =
        &[("system", DatapathType::System), ("netdev", DatapathType::Netdev)];
}

/// The name of a value in documents and rules.
pub(crate) fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, named)| named == value).map_or("", |(name, _)| name)
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(Role::NAMES, self))
    }
}

impl fmt::Display for DatapathType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(DatapathType::NAMES, self))
    }
}

/// The address at which a switch listens, in the notation of Open vSwitch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// A unix socket, by its absolute path.
    Unix(String),
    /// A TCP port of a host; `host` has no brackets.
    Tcp {
        /// Name or address.
        host: String,
        /// Port number.
        port: u16,
    },
    /// The same with TLS.
    Ssl {
        /// Name or address.
        host: String,
        /// Port number.
        port: u16,
    },
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let forms = "write it as unix:/PATH, tcp:HOST:PORT or ssl:HOST:PORT";
        let (scheme, rest) = text
            .split_once(':')
            .ok_or_else(|| format!("{} is not an endpoint; {forms}", quote_text(text)))?;
        match scheme {
            "unix" if rest.starts_with('/') => Ok(Endpoint::Unix(rest.to_owned())),
            "unix" => Err(format!("{}: the path of a socket must be absolute", quote_text(text))),
            "tcp" | "ssl" => {
                let (host, port) = rest
                    .rsplit_once(':')
                    .ok_or_else(|| format!("{} has no port; {forms}", quote_text(text)))?;
                let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
                if bare.is_none() && host.contains(':') {
                    return Err(format!(
                        "{}: an IPv6 address needs brackets, as tcp:[fd00::1]:6640",
                        quote_text(text)
                    ));
                }
                let host = bare.unwrap_or(host).to_owned();
                if host.is_empty() || host.contains(char::is_whitespace) {
                    return Err(format!("{} has no host; {forms}", quote_text(text)));
                }
                let port = port.parse().ok().filter(|port| *port != 0);
                let port =
                    port.ok_or_else(|| format!("{}: a port is a number from 1 to 65535", quote_text(text)))?;
                Ok(if scheme == "tcp" { Endpoint::Tcp { host, port } } else { Endpoint::Ssl { host, port } })
            }
            _ => Err(format!("{} is not an endpoint; {forms}", quote_text(text))),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host, port) = match self {
            Endpoint::Unix(path) => return write!(f, "unix:{path}"),
            Endpoint::Tcp { host, port } => ("tcp", host, port),
            Endpoint::Ssl { host, port } => ("ssl", host, port),
        };
        if host.contains(':') {
            write!(f, "{scheme}:[{host}]:{port}")
        } else {
            write!(f, "{scheme}:{host}:{port}")
        }
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn endpoint(value: &Json) -> Result<Endpoint, String> {
    field::text(value)?.parse()
}

/// The bridge that the controller programs.
const INTEGRATION_BRIDGE: &str = "br-int";
/// The maximum length of a network device's name.
const BRIDGE_BYTES_MAX: usize = 15;

/// Reads the name of a bridge other than `br-int`.
fn bridge(value: &Json) -> Result<String, String> {
    let bridge = name(value)?;
    if bridge.len() > BRIDGE_BYTES_MAX {
        Err(format!(
            "{} is longer than {BRIDGE_BYTES_MAX} bytes, the maximum for the name of a bridge",
            quote_text(&bridge)
        ))
    } else if bridge == INTEGRATION_BRIDGE {
        Err(format!(
            "{} is managed by the controller; name the bridge that has the interface of the physical network",
            quote_text(&bridge)
        ))
    } else {
        Ok(bridge)
    }
}

impl ObjectKind for TransportNode {
    fn read(id: String, fields: &mut Fields) -> Option<Self> {
        let labels = fields.labels();
        let role = fields.optional("role", |value| one_of(value, Role::NAMES)).unwrap_or(Role::Hypervisor);
        let ip = fields.required("ip", field::ip);
        let encaps =
            fields.list("encaps", |value| one_of(value, &Encap::ALL.map(|encap| (encap.name(), encap))));
        if let Some(encaps) = &encaps {
            check_encaps(encaps, fields);
        }
        let transport_zone = fields.optional("transport_zone", name);
        let bridge_mappings = fields.mapping("bridge_mappings", bridge).unwrap_or_default();
        let ovsdb = fields.optional("ovsdb", endpoint);
        let openflow = fields.optional("openflow", endpoint);
        let datapath_type = fields.optional("datapath_type", |value| one_of(value, DatapathType::NAMES));
        let encaps = encaps.unwrap_or_else(|| vec![Encap::Geneve]);
        let ip = ip?;
        Some(TransportNode {
            id,
            labels,
            role,
            ip,
            encaps,
            transport_zone,
            bridge_mappings,
            ovsdb,
            openflow,
            datapath_type,
        })
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn labels(&self) -> &Labels {
        &self.labels
    }

    fn rows(&self) -> Vec<(&'static str, Row)> {
        let text = |text: &str| Value::String(text.into());
        let node = text(&self.id);
        let mut rows =
            vec![("transport_node", vec![node.clone(), text(&self.role.to_string()), Value::Ip(self.ip)])];
        for (rank, encap) in (0..).zip(&self.encaps) {
            let row = vec![node.clone(), Value::Int(rank), text(encap.name())];
            rows.push(("transport_node_encap", row));
        }
        let zone = self.transport_zone.as_deref().unwrap_or_default();
        rows.push(("transport_node_zone", vec![node.clone(), text(zone)]));
        for (network, bridge) in &self.bridge_mappings {
            rows.push(("bridge_mapping", vec![node.clone(), text(network), text(bridge)]));
        }
        rows
    }

    fn references(&self) -> Vec<(String, ObjectKey)> {
        let zone = |zone: &String| ("transport_zone".to_owned(), ObjectKey::new(Kind::TransportZone, zone));
        self.transport_zone.iter().map(zone).collect()
    }

    fn claims(&self) -> Vec<(String, Claim)> {
        let mut claims = vec![("ip".to_owned(), Claim::TunnelEndPoint(self.ip))];
        for (path, endpoint) in [("ovsdb", &self.ovsdb), ("openflow", &self.openflow)] {
            claims.extend(
                endpoint.iter().map(|endpoint| (path.to_owned(), Claim::EndPoint(endpoint.to_string()))),
            );
        }
        claims
    }
}

fn check_encaps(encaps: &[Encap], fields: &mut Fields) {
    if encaps.is_empty() {
        fields.fault(FaultCode::BadValue, "encaps", "must not be empty; omit it to use `geneve`");
    }
    for (index, encap) in encaps.iter().enumerate() {
        if encaps[..index].contains(encap) {
            fields.fault(FaultCode::BadValue, "encaps", format!("{encap} is listed twice"));
        }
    }
}
