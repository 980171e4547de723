//! `switch_port`: a port of a logical switch.

use std::net::IpAddr;

use nlog_data::{Row, Value};
use openflow_rs::MacAddr;
use serde::{Serialize, Serializer};

use crate::field::{Fields, TAG_MAX, flag, ip, mac, name, number};
use crate::object::{Claim, Described};
use crate::{FaultCode, Kind, ObjectKey};

/// A port of a logical switch. The virtual interface with `external_ids:iface-id` equal to its id is what it attaches, or
/// the frames of its parent's interface that carry its tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwitchPort {
    /// Its id.
    pub id: String,
    /// The switch that it is a port of.
    pub switch: String,
    /// What the interface sends from and receives at. No two ports of a switch share a MAC or an IP address.
    pub addresses: Vec<Address>,
    /// Whether the interface is held to its addresses; `false` if not said.
    pub port_security: bool,
    /// Whether it takes what is for addresses that nobody knows, and the switch learns the addresses that it sends from;
    /// `false` if not said. Not together with `port_security`.
    pub unknown_addresses: bool,
    /// The port whose interface it is behind, with the VLAN tag that is its own there.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Behind>,
}

/// Where a port is that has no interface of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Behind {
    /// The port with the interface, of the same or another switch.
    pub parent: String,
    /// Its VLAN tag; no other port behind that parent has it.
    pub tag: u16,
}

/// A MAC address of a port, and the IP addresses that are at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Address {
    /// The MAC address; no group's.
    #[serde(serialize_with = "mac_text")]
    pub mac: MacAddr,
    /// The IP addresses, each once; none is a group's.
    pub ips: Vec<IpAddr>,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn mac_text<S: Serializer>(mac: &MacAddr, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(mac)
}

impl Described for SwitchPort {
    fn read(id: String, fields: &mut Fields) -> Option<Self> {
        let switch = fields.required("switch", name);
        let addresses = fields.parts("addresses", |address| {
            let mac = address.required("mac", mac);
            let ips = address.list("ips", ip).unwrap_or_default();
            Some(Address { mac: mac?, ips })
        });
        let port_security = fields.optional("port_security", flag).unwrap_or(false);
        let unknown_addresses = fields.optional("unknown_addresses", flag).unwrap_or(false);
        if port_security && unknown_addresses {
            let message =
                "cannot be `true` beside `port_security`: what is held to its own addresses has no others";
            fields.fault(FaultCode::BadValue, "unknown_addresses", message);
        }
        let behind = behind(&id, fields);
        let addresses = addresses.unwrap_or_default();
        Some(SwitchPort { id, switch: switch?, addresses, port_security, unknown_addresses, behind })
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn rows(&self) -> Vec<(&'static str, Row)> {
        let port = Value::String(self.id.as_str().into());
        let mut rows =
            vec![("logical_switch_port", vec![port.clone(), Value::String(self.switch.as_str().into())])];
        for address in &self.addresses {
            let mac = Value::Mac(address.mac);
            rows.push(("port_mac", vec![port.clone(), mac.clone()]));
            rows.extend(
                address.ips.iter().map(|ip| ("port_ip", vec![port.clone(), Value::Ip(*ip), mac.clone()])),
            );
        }
        if self.port_security {
            rows.push(("port_security", vec![port.clone()]));
        }
        if self.unknown_addresses {
            rows.push(("unknown_addresses", vec![port.clone()]));
        }
        if let Some(Behind { parent, tag }) = &self.behind {
            let row = vec![port, Value::String(parent.as_str().into()), Value::Int((*tag).into())];
            rows.push(("port_parent", row));
        }
        rows
    }

    fn references(&self) -> Vec<(String, ObjectKey)> {
        let mut references = vec![("switch".to_owned(), ObjectKey::new(Kind::Switch, &self.switch))];
        references.extend(self.whole().map(|(path, parent)| (path.to_owned(), parent)));
        references
    }

    fn claims(&self) -> Vec<(String, Claim)> {
        let mut claims = vec![("id".to_owned(), Claim::PortId(self.id.clone()))];
        for (index, address) in self.addresses.iter().enumerate() {
            claims.push((format!("addresses[{index}].mac"), Claim::Mac(self.switch.clone(), address.mac)));
            claims.extend(address.ips.iter().enumerate().map(|(number, ip)| {
                (format!("addresses[{index}].ips[{number}]"), Claim::Ip(self.switch.clone(), *ip))
            }));
        }
        if let Some(Behind { parent, tag }) = &self.behind {
            claims.push(("tag".to_owned(), Claim::Tag(parent.clone(), *tag)));
        }
        claims
    }

    fn whole(&self) -> Option<(&'static str, ObjectKey)> {
        self.behind.as_ref().map(|behind| ("parent", ObjectKey::new(Kind::SwitchPort, &behind.parent)))
    }
}

/// The fields `parent` and `tag`, which are there both or neither.
fn behind(id: &str, fields: &mut Fields) -> Option<Behind> {
    let parent = fields.optional("parent", |value| {
        let parent = name(value)?;
        if parent == id { Err("a port cannot be behind itself".to_owned()) } else { Ok(parent) }
    });
    let tag = fields.optional("tag", |value| number(value, 1..=TAG_MAX));
    match (fields.has("parent"), fields.has("tag")) {
        (true, false) => {
            let message = "is missing: a port behind a parent has a VLAN tag of its own, from 1 to 4094";
            fields.fault(FaultCode::MissingField, "tag", message);
        }
        (false, true) => {
            let message = "is missing: a tag is for a port behind a parent";
            fields.fault(FaultCode::MissingField, "parent", message);
        }
        _ => {}
    }
    Some(Behind { parent: parent?, tag: tag? })
}
