//! Rows of the tables that are no kinds of things in a switch, as typed values.

use std::net::IpAddr;
use std::sync::Arc;

use nlog_data::{Row, Value};
use openflow_rs::MacAddr;

/// The last number of an ordinary port.
pub const PORT_MAX: u16 = 65279;

/// A row of [`VIF`](crate::interface::VIF).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vif {
    /// The host.
    pub host: String,
    /// The port whose interface it is.
    pub port: String,
    /// The number of the port of the switch.
    pub ofport: u16,
    /// The number of the transaction in which it appeared.
    pub since: i64,
}

/// Reads a row of [`PORT_HOMES`](crate::interface::PORT_HOMES): a port and its host.
pub fn port_home(row: &Row) -> Option<(Arc<str>, Arc<str>)> {
    let [Value::String(port), Value::String(host)] = &row[..] else { return None };
    Some((port.clone(), host.clone()))
}

/// Reads a row; none if no switch can have it.
pub fn vif(row: &Row) -> Option<Vif> {
    let [Value::String(host), Value::String(port), Value::Int(ofport), Value::String(_), Value::Int(since)] =
        &row[..]
    else {
        return None;
    };
    let ofport = u16::try_from(*ofport).ok()?;
    Some(Vif { host: host.to_string(), port: port.to_string(), ofport, since: *since })
}

/// Reads a row of [`TUNNEL_PORT`](crate::interface::TUNNEL_PORT) or [`PATCH_PORT`](crate::interface::PATCH_PORT): host, name and number of a port.
pub fn port(row: &Row) -> Option<((String, String), u16)> {
    let [Value::String(host), Value::String(name), Value::Int(ofport)] = &row[..] else { return None };
    Some(((host.to_string(), name.to_string()), u16::try_from(*ofport).ok()?))
}

/// Reads a row of [`ENDPOINTS`](crate::interface::ENDPOINTS): a host and its address.
pub fn endpoint(row: &Row) -> Option<(String, IpAddr)> {
    let [Value::String(host), Value::Ip(ip)] = &row[..] else { return None };
    Some((host.to_string(), *ip))
}

/// Reads a row of [`UNDERLAY_MTUS`](crate::interface::UNDERLAY_MTUS): a host, and the largest packet in bytes.
pub fn underlay_mtu(row: &Row) -> Option<(String, u32)> {
    let [Value::String(host), Value::Int(mtu)] = &row[..] else { return None };
    Some((host.to_string(), u32::try_from(*mtu).ok()?))
}

/// Reads a row of [`BRIDGES`](crate::interface::BRIDGES): a host, a physical network, and the bridge to it.
pub fn bridge(row: &Row) -> Option<(String, String, String)> {
    let [Value::String(host), Value::String(network), Value::String(bridge)] = &row[..] else { return None };
    Some((host.to_string(), network.to_string(), bridge.to_string()))
}

/// Reads a row of [`PARENTS`](crate::interface::PARENTS): a port, its parent, and the VLAN tag.
pub fn parent(row: &Row) -> Option<(String, String, u16)> {
    let [Value::String(port), Value::String(parent), Value::Int(tag)] = &row[..] else { return None };
    Some((port.to_string(), parent.to_string(), u16::try_from(*tag).ok()?))
}

/// Reads a row of [`LOCALNETS`](crate::interface::LOCALNETS): a port, its physical network, and the VLAN tag, 0 for untagged frames.
pub fn localnet(row: &Row) -> Option<(String, String, u16)> {
    let [Value::String(port), _, Value::String(network), Value::Int(tag)] = &row[..] else { return None };
    Some((port.to_string(), network.to_string(), u16::try_from(*tag).ok()?))
}

/// Reads a row of [`MACS`](crate::interface::MACS): a port and its MAC address.
pub fn port_mac(row: &Row) -> Option<(&str, MacAddr)> {
    let [Value::String(port), Value::Mac(mac)] = &row[..] else { return None };
    Some((port, *mac))
}

/// Reads a row of [`IPS`](crate::interface::IPS): a port, its IP address, and the MAC address there.
pub fn port_ip(row: &Row) -> Option<(&str, IpAddr, MacAddr)> {
    let [Value::String(port), Value::Ip(ip), Value::Mac(mac)] = &row[..] else { return None };
    Some((port, *ip, *mac))
}

/// A row of [`MANAGED`](crate::interface::MANAGED).
pub fn managed_row(host: &str) -> Row {
    vec![text(host)]
}

/// The row of an interface without a MAC address.
pub fn vif_row(vif: &Vif) -> Row {
    let Vif { host, port, ofport, since } = vif;
    vec![text(host), text(port), Value::Int((*ofport).into()), text(""), Value::Int(*since)]
}

/// The row of a tunnel or patch port that exists.
pub fn port_row((host, name): &(String, String), ofport: u16) -> Row {
    vec![text(host), text(name), Value::Int(ofport.into())]
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}
