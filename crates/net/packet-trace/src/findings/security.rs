//! What ports may not send or receive, and who has an address.

use openflow_rs::{Field, MacAddr};

use super::Case;
use super::objects::Named;
use crate::packet::addresses;
use crate::{Cause, LookupView, Nearest, Network};

const ICMPV6: u128 = 58;
const UDP: u128 = 17;
const ROUTER_ADVERTISEMENT: u128 = 134;
const REDIRECT: u128 = 137;
/// The bits of an Ethernet address in a number.
const MAC_BYTES: usize = 6;

impl Case<'_> {
    /// The secured port that sends uses an address that it does not have.
    pub(super) fn sender(&self, lookup: &LookupView) -> Vec<String> {
        let network = self.network;
        let port = &self.sent.from;
        let mac = mac(lookup.key.get(Field::EthSrc));
        let ip = addresses(&lookup.key).map(|(from, _)| from);
        let own = network.addresses_of(port);
        let own_mac = network.macs(port).contains(&mac);
        let own_ip = ip.is_none_or(|ip| own.contains(&(ip, mac)));
        let known = format!("its addresses are {}", network.own_addresses(port));
        if !own_mac {
            return vec![format!("port {port} has port_security and sends from MAC address {mac}: {known}")];
        }
        if let (Some(ip), false) = (ip, own_ip) {
            return vec![format!(
                "port {port} has port_security and sends from IP address {ip} at {mac}: {known}"
            )];
        }
        self.unfit_rule(&format!("port {port} has the addresses that the packet is from"))
    }

    /// A flow for the packet is there and asks for more than the packet has, although objects allow the packet.
    fn unfit_rule(&self, although: &str) -> Vec<String> {
        let Some(Cause::Missing(_, nearest)) = self.drop.map(|drop| &drop.cause) else { return Vec::new() };
        let Some(Nearest { flow, unmet, .. }) = nearest.first() else { return Vec::new() };
        let unmet: Vec<&str> = unmet.iter().map(|(asked, _)| asked.as_str()).collect();
        vec![format!(
            "{although}, and the flow that is for it asks for {} besides: rule {}",
            unmet.join(", "),
            flow.rule.as_deref().unwrap_or_default()
        )]
    }

    /// A secured port says what only routers and DHCP servers say.
    pub(super) fn guard(&self, lookup: &LookupView) -> Vec<String> {
        let key = &lookup.key;
        let protocol = key.get(Field::IpProto);
        let (what, trust) = match (protocol, key.get(Field::Icmpv6Type)) {
            (ICMPV6, ROUTER_ADVERTISEMENT) => ("sends a router advertisement", "ra"),
            (ICMPV6, REDIRECT) => ("sends a redirect", "redirect"),
            (UDP, _) => ("sends an answer of a DHCP server", "dhcp_server"),
            _ => return Vec::new(),
        };
        let port = &self.sent.from;
        let Some(object) = self.network.object("switch_port", port) else { return Vec::new() };
        let trusted = object.list("trust").iter().any(|one| super::objects::word(one) == trust);
        if trusted || !object.is("port_security", true) {
            return Vec::new();
        }
        vec![format!(
            "port {port} has port_security and {what}, and its trust {} lacks {trust}",
            object.words("trust")
        )]
    }

    /// The secured port that the packet comes to does not have its address.
    pub(super) fn receiver(&self, lookup: &LookupView) -> Vec<String> {
        let network = self.network;
        let mac = mac(lookup.key.get(Field::EthDst));
        let Some(switch) = &lookup.datapath else { return Vec::new() };
        let here = network.with("switch_port", "switch", switch);
        let Some(port) = here.iter().map(Named::id).find(|port| network.macs(port).contains(&mac)) else {
            return Vec::new();
        };
        let ip = addresses(&lookup.key).map(|(_, to)| to);
        let own = network.addresses_of(port).into_iter().any(|(at, _)| Some(at) == ip);
        match ip {
            Some(ip) if !own => vec![format!(
                "port {port} has port_security and does not get packets for {ip}: its addresses are {}",
                network.own_addresses(port)
            )],
            _ => self.unfit_rule(&format!("port {port} has the addresses that the packet is for")),
        }
    }

    /// No port of the switch has the MAC address that the packet is for.
    pub(super) fn no_mac(&self, lookup: &LookupView) -> Vec<String> {
        let network = self.network;
        let mac = mac(lookup.key.get(Field::EthDst));
        let Some(switch) = &lookup.datapath else { return Vec::new() };
        if network.has_mac(switch, mac) {
            return Vec::new();
        }
        let routers = network.with("router_port", "switch", switch);
        let routers: Vec<String> = routers
            .iter()
            .filter_map(|port| Some(format!("{} {}", port.id(), super::objects::word(port.get("mac")?))))
            .collect();
        let routers = if routers.is_empty() {
            String::new()
        } else {
            format!("; its router_ports are {}", routers.join(", "))
        };
        vec![format!(
            "no port of switch {switch} has MAC address {mac}, and no port there has unknown_addresses{routers}"
        )]
    }
}

impl Network {
    /// Whether a port of a switch, of any kind, has a MAC address.
    fn has_mac(&self, switch: &str, mac: MacAddr) -> bool {
        let own = |port: &Named<'_>| self.macs(port.id()).contains(&mac);
        let of_router = |port: &Named<'_>| port.get("mac") == Some(&nlog_data::Value::Mac(mac));
        self.with("switch_port", "switch", switch).iter().any(own)
            || self.with("router_port", "switch", switch).iter().any(of_router)
    }
}

/// The address in a number.
fn mac(number: u128) -> MacAddr {
    let bytes = number.to_be_bytes();
    let mut mac = [0; MAC_BYTES];
    mac.copy_from_slice(&bytes[bytes.len() - MAC_BYTES..]);
    MacAddr(mac)
}
