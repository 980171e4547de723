//! `switch_port`: a port of a logical switch.

use std::net::IpAddr;

use nlog_data::{Row, Value};
use openflow_rs::MacAddr;
use serde::{Serialize, Serializer};

use crate::field::{Fields, Labels, TAG_MAX, flag, ip, mac, name, number};
use crate::object::{Claim, ObjectKind};
use crate::{FaultCode, Kind, ObjectKey};

/// A port of a logical switch. It attaches the virtual interface whose `external_ids:iface-id` equals its id. A trunk
/// member attaches the frames of its parent's interface that carry its tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwitchPort {
    /// Its id.
    pub id: String,
    /// Its labels.
    #[serde(skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// The logical switch.
    pub switch: String,
    /// The addresses of the interface. No two ports of a switch share a MAC or an IP address.
    pub addresses: Vec<Address>,
    /// Whether the interface can only send from its own addresses; `false` by default.
    pub port_security: bool,
    /// Whether the port receives frames to unknown addresses, and the switch learns the addresses that it sends from;
    /// `false` by default. Excludes `port_security`.
    pub unknown_addresses: bool,
    /// The parent port and the VLAN tag of a trunk member.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub trunk_member: Option<TrunkMember>,
}

/// The attachment of a port without its own interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrunkMember {
    /// The parent port, which has the interface. It can belong to another switch.
    pub parent: String,
    /// Its VLAN tag, unique within the trunk.
    pub tag: u16,
}

/// A MAC address of a port and its IP addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Address {
    /// The MAC address; must be unicast.
    #[serde(serialize_with = "mac_text")]
    pub mac: MacAddr,
    /// The IP addresses, without duplicates; must be unicast.
    pub ips: Vec<IpAddr>,
}

// serde passes a reference to serialisers.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn mac_text<S: Serializer>(mac: &MacAddr, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(mac)
}

impl ObjectKind for SwitchPort {
    fn read(id: String, fields: &mut Fields) -> Option<Self> {
        let labels = fields.labels();
        let switch = fields.required("switch", name);
        let addresses = fields.parts("addresses", |address| {
            let mac = address.required("mac", mac);
            let ips = address.list("ips", ip).unwrap_or_default();
            Some(Address { mac: mac?, ips })
        });
        let port_security = fields.optional("port_security", flag).unwrap_or(false);
        let unknown_addresses = fields.optional("unknown_addresses", flag).unwrap_or(false);
        if port_security && unknown_addresses {
            let message = "cannot be `true` together with `port_security`, which restricts the port to its own addresses";
            fields.fault(FaultCode::BadValue, "unknown_addresses", message);
        }
        let trunk_member = trunk_member(&id, fields);
        let addresses = addresses.unwrap_or_default();
        Some(SwitchPort {
            id,
            labels,
            switch: switch?,
            addresses,
            port_security,
            unknown_addresses,
            trunk_member,
        })
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn labels(&self) -> &Labels {
        &self.labels
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
        if let Some(TrunkMember { parent, tag }) = &self.trunk_member {
            let row = vec![port, Value::String(parent.as_str().into()), Value::Int((*tag).into())];
            rows.push(("port_parent", row));
        }
        rows
    }

    fn references(&self) -> Vec<(String, ObjectKey)> {
        let mut references = vec![("switch".to_owned(), ObjectKey::new(Kind::Switch, &self.switch))];
        references.extend(self.parent().map(|(path, parent)| (path.to_owned(), parent)));
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
        if let Some(TrunkMember { parent, tag }) = &self.trunk_member {
            claims.push(("tag".to_owned(), Claim::Tag(parent.clone(), *tag)));
        }
        claims
    }

    fn parent(&self) -> Option<(&'static str, ObjectKey)> {
        self.trunk_member.as_ref().map(|member| ("parent", ObjectKey::new(Kind::SwitchPort, &member.parent)))
    }
}

/// Reads the fields `parent` and `tag`, which must occur together.
fn trunk_member(id: &str, fields: &mut Fields) -> Option<TrunkMember> {
    let parent = fields.optional("parent", |value| {
        let parent = name(value)?;
        if parent == id { Err("a port cannot be its own parent".to_owned()) } else { Ok(parent) }
    });
    let tag = fields.optional("tag", |value| number(value, 1..=TAG_MAX));
    match (fields.has("parent"), fields.has("tag")) {
        (true, false) => {
            let message = "is missing: a port with a parent needs a VLAN tag from 1 to 4094";
            fields.fault(FaultCode::MissingField, "tag", message);
        }
        (false, true) => {
            let message = "is missing: `tag` is only valid together with `parent`";
            fields.fault(FaultCode::MissingField, "parent", message);
        }
        _ => {}
    }
    Some(TrunkMember { parent: parent?, tag: tag? })
}
