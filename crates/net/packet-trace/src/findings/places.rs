//! Where ports live, and whether their hosts can send to each other.

use std::net::IpAddr;

use nlog_data::Value;

use super::Case;
use super::objects::word;
use crate::packet::string;
use crate::{Cause, Network};

impl Case<'_> {
    /// What keeps sender and receiver apart, whatever the packet is.
    pub(super) fn places(&self) -> Vec<String> {
        let network = self.network;
        let from = &self.sent.from;
        if let Some(why) = network.no_host(from) {
            return vec![why];
        }
        let to = self.sent.to.clone().or_else(|| network.port_with(self.sent.sought?));
        let Some(to) = to else { return self.sent.sought.map(nobody_has).into_iter().collect() };
        if let Some(why) = network.no_host(&to) {
            return vec![why];
        }
        let ends = [from, &to].map(|port| network.host_of(port));
        if let [Some(here), Some(there)] = &ends {
            if !network.manages(there) {
                return vec![format!(
                    "the controller does not manage {there}, where port {to} lives, so it has no flows there"
                )];
            }
            let switches = [from, &to].map(|port| network.switch_of(port));
            let localnet = switches[1].as_deref().and_then(|switch| network.localnet_of(switch));
            let found = match localnet {
                Some((_, lab)) if switches[0] == switches[1] => {
                    [here, there].into_iter().find_map(|host| network.no_bridge(host, &lab))
                }
                _ => network.no_tunnel(here, there),
            };
            if let Some(why) = found.filter(|_| here != there) {
                return vec![why];
            }
        }
        self.apart(&to)
    }

    /// Sender and receiver are on different switches, and no router is between them.
    fn apart(&self, to: &str) -> Vec<String> {
        let network = self.network;
        let [Some(here), Some(there)] = [&*self.sent.from, to].map(|port| network.switch_of(port)) else {
            return Vec::new();
        };
        if here == there || !matches!(self.drop.map(|drop| &drop.cause), None | Some(Cause::NoRow { .. })) {
            return self.nobody_hears(&here);
        }
        if network.joined(&here, &there) {
            return self.nobody_hears(&here);
        }
        let tenants = [&here, &there].map(|switch| network.tenant(switch));
        let mut found = vec![match &tenants {
            [one, other] if one != other => format!(
                "port {to} is on switch {there} of {}, and port {} on switch {here} of {}: no router joins tenants",
                tenant(other.as_deref()),
                self.sent.from,
                tenant(one.as_deref())
            ),
            _ => format!(
                "port {to} is on switch {there}, and port {} on switch {here}: only a router with a router_port on both leads there",
                self.sent.from
            ),
        }];
        for switch in [&here, &there] {
            if network.with("router_port", "switch", switch).is_empty() {
                found.push(format!("switch {switch} has no router_port"));
            }
        }
        found.extend(self.nobody_hears(&here));
        found
    }

    /// Routers have no effect on a switch with a localnet port.
    fn nobody_hears(&self, switch: &str) -> Vec<String> {
        let network = self.network;
        let Some((localnet, _)) = network.localnet_of(switch) else { return Vec::new() };
        let ports = network.with("router_port", "switch", switch);
        let one = |port: &super::objects::Named<'_>| {
            format!(
                "router_port {} is on switch {switch}, which has localnet_port {localnet}: there a router neither sends nor receives",
                port.id()
            )
        };
        ports.iter().map(one).collect()
    }
}

/// The finding about an address that no port has.
fn nobody_has(ip: IpAddr) -> String {
    format!(
        "no object has address {ip}: neither the addresses of a switch_port nor the networks of a router_port list it"
    )
}

/// A tenant in a sentence.
pub(super) fn tenant(name: Option<&str>) -> String {
    name.map_or("no tenant".to_owned(), |name| format!("tenant {name}"))
}

impl Network {
    /// Whether some router has ports on both switches.
    fn joined(&self, one: &str, other: &str) -> bool {
        let [one, other] = [one, other].map(|switch| self.with("router_port", "switch", switch));
        one.iter().any(|port| other.iter().any(|far| far.text("router") == port.text("router")))
    }

    /// The localnet port of a switch, and its physical network.
    pub(super) fn localnet_of(&self, switch: &str) -> Option<(String, String)> {
        let port = self.with("localnet_port", "switch", switch).into_iter().next()?;
        Some((port.id().to_owned(), port.text("physical_network")?.to_owned()))
    }

    /// The host of a port, itself or by its parent.
    pub(super) fn host_of(&self, port: &str) -> Option<String> {
        let parent = self.object("switch_port", port).and_then(|port| port.text("parent").map(str::to_owned));
        self.home(parent.as_deref().unwrap_or(port))
    }

    /// Why a switch port is not attached to any host, as far as objects and reports say; none if it is.
    pub(super) fn no_host(&self, port: &str) -> Option<String> {
        let object = self.object("switch_port", port)?;
        if object.is("enabled", false) {
            return Some(format!(
                "switch_port {port} is disabled (enabled: false), so it neither sends nor receives"
            ));
        }
        if let Some(parent) = object.text("parent") {
            let why = self.no_host(parent)?;
            return Some(format!("port {port} uses the interface of its parent {parent}, and {why}"));
        }
        if self.home(port).is_some() {
            return None;
        }
        let reports = self.with("vif", "port", port);
        let hosts: Vec<&str> = reports.iter().filter_map(|row| row.text("hv")).collect();
        let Some(host) = hosts.first() else {
            return Some(format!(
                "no host reports an interface of port {port}: none has external_ids:iface-id={port}"
            ));
        };
        let requested = object.list("requested_hosts");
        if !requested.is_empty()
            && !requested.iter().any(|one| hosts.contains(&string(Some(one)).unwrap_or_default()))
        {
            return Some(format!(
                "the interface of port {port} is on {}, and the port's requested_hosts are {}",
                hosts.join(", "),
                object.words("requested_hosts")
            ));
        }
        if self.object("transport_node", host).is_none() {
            return Some(format!(
                "the interface of port {port} is on {host}, and there is no transport_node {host}, so no tunnel leads there"
            ));
        }
        None
    }

    /// Why two hosts have no tunnel between them, as far as objects and reports say.
    pub(super) fn no_tunnel(&self, here: &str, there: &str) -> Option<String> {
        let ends = [here, there];
        for host in ends {
            if self.object("transport_node", host).is_none() {
                return Some(format!("there is no transport_node {host}, so no tunnel leads there"));
            }
        }
        let [one, other] = ends.map(|host| self.object("transport_node", host));
        let (one, other) = (one?, other?);
        let zone = |node: Option<&str>| {
            node.map_or("the default zone".to_owned(), |zone| format!("transport_zone {zone}"))
        };
        let zones = [&one, &other].map(|node| zone(node.text("transport_zone")));
        if zones[0] != zones[1] {
            return Some(format!(
                "{here} is in {}, and {there} in {}: between zones there are no tunnels",
                zones[0], zones[1]
            ));
        }
        if let (Some(Value::Ip(ip)), Some(Value::Ip(peer))) = (one.get("ip"), other.get("ip"))
            && ip.is_ipv4() != peer.is_ipv4()
        {
            return Some(format!(
                "the tunnel endpoints of {here} ({ip}) and {there} ({peer}) are of different IP versions: between them there is no tunnel"
            ));
        }
        let has = |host: &str, encap: &Value| {
            let name = format!("weft-{}", word(encap));
            self.with("tunnel_port", "hv", host)
                .iter()
                .any(|row| row.text("tunnel").is_some_and(|own| own.starts_with(&name)))
        };
        let common: Vec<&Value> =
            one.list("encaps").iter().filter(|encap| other.list("encaps").contains(encap)).collect();
        if common.is_empty() {
            return Some(format!(
                "{here} and {there} have no tunnel encapsulation in common: {} and {}",
                one.words("encaps"),
                other.words("encaps")
            ));
        }
        let lacks = |host: &str| !common.iter().any(|encap| has(host, encap));
        let host = ends.into_iter().find(|host| lacks(host))?;
        let names: Vec<String> = common.into_iter().map(word).collect();
        Some(format!(
            "{host} reports no tunnel port for {}: no tunnel between {here} and {there}",
            names.join(", ")
        ))
    }

    /// Why a host has no way to a physical network.
    fn no_bridge(&self, host: &str, network: &str) -> Option<String> {
        let bridges = self.with("node_bridge", "node", host);
        if !bridges.iter().any(|row| row.text("network") == Some(network)) {
            return Some(format!(
                "transport_node {host} has no bridge mapping for physical network {network} (bridge_mappings)"
            ));
        }
        let reported = self.with("patch_port", "hv", host);
        let wanted = self.with("physical_network", "hv", host);
        let patch = wanted.iter().find(|row| row.text("network") == Some(network))?.text("patch")?.to_owned();
        (!reported.iter().any(|row| row.text("patch") == Some(&patch))).then(|| {
            format!("{host} reports no patch port {patch} to the bridge of physical network {network}")
        })
    }
}
