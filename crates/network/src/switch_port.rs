//! `switch_port`: a port of a logical switch.

use std::net::IpAddr;

use nlog_data::{Row, Value};
use openflow_rs::MacAddr;
use serde::{Serialize, Serializer};

use crate::field::{Fields, flag, ip, mac, name};
use crate::object::{Claim, Described};
use crate::{Kind, ObjectKey};

/// A port of a logical switch. The virtual interface with `external_ids:iface-id` equal to its id is what it attaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SwitchPort {
    /// Its id.
    pub id: String,
    /// The switch that it is a port of.
    pub switch: String,
    /// What the interface sends from and receives at. No two ports of a switch share a MAC or an IP address.
    pub addresses: Vec<Address>,
    /// Whether the interface is held to its addresses; `false` if not said. To rules it is a row of table
    /// `port_security(port)`; the controller says so in its log where rules do not declare that table.
    pub port_security: bool,
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
        Some(SwitchPort { id, switch: switch?, addresses: addresses.unwrap_or_default(), port_security })
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
            rows.push(("port_security", vec![port]));
        }
        rows
    }

    fn references(&self) -> Vec<(String, ObjectKey)> {
        vec![("switch".to_owned(), ObjectKey::new(Kind::Switch, &self.switch))]
    }

    fn claims(&self) -> Vec<(String, Claim)> {
        let mut claims = Vec::new();
        for (index, address) in self.addresses.iter().enumerate() {
            claims.push((format!("addresses[{index}].mac"), Claim::Mac(self.switch.clone(), address.mac)));
            claims.extend(address.ips.iter().enumerate().map(|(number, ip)| {
                (format!("addresses[{index}].ips[{number}]"), Claim::Ip(self.switch.clone(), *ip))
            }));
        }
        claims
    }
}
