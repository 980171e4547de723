//! The text of worlds and changes.

use std::fmt;

use super::{
    Acl, AclPlace, Action, Change, Filtering, Learning, Localnet, Network, Node, Policy, Port, Route, Router,
    RouterPort, Trees, World, Zone, of_policy, of_route, routed,
};
use crate::frames::{Addresses, Mac};
use crate::rows::{filter_text, peers_text};

/// A MAC as people write it.
fn mac(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn addresses((at, ips): &Addresses) -> String {
    let ips: Vec<String> = ips.iter().map(ToString::to_string).collect();
    format!("{}[{}]", mac(*at), ips.join(" "))
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tunnels by {:?}, MTU {}", self.form, self.mtu)?;
        f.write_str(if self.check_sources { "" } else { ", sources unchecked" })
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} in zone {:?}, {:?}", self.ip, self.zone, self.encaps)?;
        write!(f, ", {}", self.roles.join(" and "))?;
        self.mappings.iter().try_for_each(|(network, bridge)| write!(f, ", {network} behind {bridge}"))
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {}", self.switch)?;
        self.addresses.iter().try_for_each(|one| write!(f, " {}", addresses(one)))?;
        f.write_str(if self.security { ", secured" } else { "" })?;
        f.write_str(if self.unknown { ", unknown addresses" } else { "" })?;
        self.trust.iter().try_for_each(|name| write!(f, ", trusted with {name}"))?;
        self.parent.iter().try_for_each(|(parent, tag)| write!(f, ", behind {parent} with tag {tag}"))?;
        f.write_str(if self.enabled { "" } else { ", disabled" })?;
        self.requested.iter().try_for_each(|host| write!(f, ", may be on {host}"))
    }
}

impl fmt::Display for Learning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "learns {} addresses a port, for {} s", self.limit, self.age)
    }
}

impl fmt::Display for Localnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} on VLAN {} of {}", self.switch, self.tag, self.network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.length)
    }
}

fn joined<T: fmt::Display>(all: &[T]) -> String {
    let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
    texts.join(" ")
}

impl fmt::Display for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of tenant {:?}, reach {:?}", self.tenant, self.reach)?;
        if self.proxy.is_empty() { Ok(()) } else { write!(f, ", answers for {}", joined(&self.proxy)) }
    }
}

impl fmt::Display for RouterPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} on {}, {} at {}", self.router, self.switch, joined(&self.networks), mac(self.mac))
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hops = if self.hops.is_empty() { "nowhere".to_owned() } else { joined(&self.hops) };
        write!(f, "of {} to {} by {hops}", self.router, self.destination)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {}, priority {}", self.router, self.priority)?;
        self.source.iter().try_for_each(|from| write!(f, ", from {from}"))?;
        self.destination.iter().try_for_each(|to| write!(f, ", to {to}"))?;
        self.protocol.iter().try_for_each(|protocol| write!(f, ", protocol {protocol}"))?;
        match &self.action {
            Action::Drop => f.write_str(": drop"),
            Action::Allow => f.write_str(": allow"),
            Action::Reroute(hops) => write!(f, ": reroute by {}", joined(hops)),
        }
    }
}

impl fmt::Display for Trees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trees { hosts, slack } = self;
        write!(f, "trees for switches on more than {hosts} hosts, with a slack of {slack} %")
    }
}

/// An ACL, as texts show it: its type belongs to the model.
struct Shown<'a>(&'a Acl);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Acl { place, direction, tier, priority, matches, from, to, action } = self.0;
        match place {
            AclPlace::Switch(switch) => write!(f, "at switch {switch}")?,
            AclPlace::Port(port) => write!(f, "at port {port}")?,
            AclPlace::PortGroup(group) => write!(f, "at port group {group}")?,
        }
        write!(f, " {direction:?}, tier {tier}, priority {priority}, match [{}]", filter_text(matches))?;
        from.iter().try_for_each(|from| write!(f, ", from {}", peers_text(from)))?;
        to.iter().try_for_each(|to| write!(f, ", to {}", peers_text(to)))?;
        write!(f, ": {action:?}")
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Zone(name, zone) => write!(f, "zone {name:?}: {zone}"),
            Change::NoZone(name) => write!(f, "no zone {name:?}"),
            Change::Node(name, node) => write!(f, "node {name} {node}"),
            Change::NoNode(name) => write!(f, "no node {name}"),
            Change::Switch(name, tenant) => write!(f, "switch {name} of tenant {tenant:?}"),
            Change::NoSwitch(name) => write!(f, "no switch {name}"),
            Change::Learning(name, learning) => write!(f, "switch {name} {learning}"),
            Change::Port(name, port) => write!(f, "port {name} {port}"),
            Change::NoPort(name) => write!(f, "no port {name}"),
            Change::Localnet(name, localnet) => write!(f, "localnet port {name} {localnet}"),
            Change::NoLocalnet(name) => write!(f, "no localnet port {name}"),
            Change::Router(name, router) => write!(f, "router {name} {router}"),
            Change::NoRouter(name) => write!(f, "no router {name}"),
            Change::RouterPort(name, port) => write!(f, "router port {name} {port}"),
            Change::NoRouterPort(name) => write!(f, "no router port {name}"),
            Change::Route(name, route) => write!(f, "route {name} {route}"),
            Change::NoRoute(name) => write!(f, "no route {name}"),
            Change::Policy(name, policy) => write!(f, "policy {name} {policy}"),
            Change::NoPolicy(name) => write!(f, "no policy {name}"),
            Change::Acl(name, acl) => write!(f, "ACL {name} {}", Shown(acl)),
            Change::NoAcl(name) => write!(f, "no ACL {name}"),
            Change::AddressGroup(name, addresses) => {
                write!(f, "address group {name} of [{}]", joined(addresses))
            }
            Change::NoAddressGroup(name) => write!(f, "no address group {name}"),
            Change::PortGroup(name, ports) => {
                let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
                write!(f, "port group {name} of [{}]", ports.join(" "))
            }
            Change::NoPortGroup(name) => write!(f, "no port group {name}"),
            Change::AclDefault(switch, drops) => {
                write!(f, "switch {switch} {} what no ACL matches", if *drops { "drops" } else { "allows" })
            }
            Change::Label(port, key, Some(value)) => write!(f, "port {port} is labelled {key}={value}"),
            Change::Label(port, key, None) => write!(f, "port {port} has no label {key}"),
            Change::Plug(host, port) => write!(f, "{host} reports {port}"),
            Change::Renumber(host, port) => write!(f, "{host} reports {port} with another number"),
            Change::Unplug(host, port) => write!(f, "{host} reports {port} no more"),
            Change::Announce(host, port) => write!(f, "the controller hears that {port} is on {host}"),
            Change::Fail((host, encap, peer)) => {
                let to = peer.as_ref().map_or(String::new(), |peer| format!(" to {peer}"));
                write!(f, "{host} fails to make tunnel ports of {}{to}", encap.name())
            }
            Change::Heal((host, encap, peer)) => {
                let to = peer.as_ref().map_or(String::new(), |peer| format!(" to {peer}"));
                write!(f, "{host} makes tunnel ports of {}{to} again", encap.name())
            }
            Change::Trees(trees) => write!(f, "{trees}"),
            Change::FloodLimit(port, Some(limit)) => write!(f, "{port} may flood {limit} frames a second"),
            Change::FloodLimit(port, None) => write!(f, "{port} may flood any number of frames"),
            Change::Exhaust(host, port, true) => write!(f, "{port} has used up its limit on {host}"),
            Change::Exhaust(host, port, false) => write!(f, "{port} may flood on {host} again"),
        }
    }
}

impl World {
    fn write_routing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, router) in &self.routing.routers {
            writeln!(f, "router {name} (label {:#x}) {router}", self.labels.datapath(name))?;
        }
        for (name, port) in &self.routing.ports {
            let [own, switch] = [name, &routed(&port.switch)].map(|name| self.labels.port(name));
            writeln!(f, "router port {name} (label {own:#x}, of the switch {switch:#x}) {port}")?;
        }
        for (name, route) in &self.routing.routes {
            writeln!(f, "route {name} (label {:#x}) {route}", self.labels.port(&of_route(name)))?;
        }
        for (name, policy) in &self.routing.policies {
            writeln!(f, "policy {name} (label {:#x}) {policy}", self.labels.port(&of_policy(name)))?;
        }
        Ok(())
    }
}

impl World {
    fn write_filtering(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Filtering { acls, address_groups, port_groups, dropping, labels } = &self.filtering;
        let groups = address_groups.iter().map(|(name, of)| Change::AddressGroup(name.clone(), of.clone()));
        let of_ports = port_groups.iter().map(|(name, of)| Change::PortGroup(name.clone(), of.clone()));
        let defaults = dropping.iter().map(|switch| Change::AclDefault(switch.clone(), true));
        let labels = labels.iter().flat_map(|(port, labels)| {
            labels.iter().map(|(key, value)| Change::Label(port.clone(), key.clone(), Some(value.clone())))
        });
        let acls = acls.iter().map(|(name, acl)| Change::Acl(name.clone(), acl.clone()));
        let all = groups.chain(of_ports).chain(defaults).chain(labels).chain(acls);
        all.into_iter().try_for_each(|change| writeln!(f, "{change}"))
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, zone) in &self.zones {
            writeln!(f, "zone {name:?}: {zone}")?;
        }
        for (name, node) in &self.nodes {
            writeln!(f, "node {name} (label {:#x}) {node}", self.labels.node(name))?;
        }
        for (name, tenant) in &self.switches {
            writeln!(f, "switch {name} (label {:#x}) of tenant {tenant:?}", self.labels.datapath(name))?;
        }
        for (name, learning) in &self.learning {
            writeln!(f, "switch {name} {learning}")?;
        }
        for (name, port) in &self.ports {
            let place = self.place(name).unwrap_or("nowhere");
            writeln!(f, "port {name} (label {:#x}) {port}: {place}", self.labels.port(name))?;
        }
        for (name, localnet) in &self.localnets {
            writeln!(f, "localnet port {name} (label {:#x}) {localnet}", self.labels.port(name))?;
        }
        self.write_routing(f)?;
        self.write_filtering(f)?;
        for ((host, port), vif) in &self.vifs {
            writeln!(f, "vNIC of {port} on {host}: OpenFlow port {}, since {}", vif.ofport, vif.since)?;
        }
        for ((host, port), since) in &self.announced {
            writeln!(f, "{port} is announced on {host} since {since}")?;
        }
        writeln!(f, "{}", self.trees)?;
        for (port, limit) in &self.flood_limits {
            let meter = self.labels.meter(port).unwrap_or_default();
            writeln!(f, "{} (meter {meter})", Change::FloodLimit(port.clone(), Some(*limit)))?;
        }
        for (host, port) in &self.exhausted {
            writeln!(f, "{}", Change::Exhaust(host.clone(), port.clone(), true))?;
        }
        for failing in &self.failing {
            writeln!(f, "{}", Change::Fail(failing.clone()))?;
        }
        Ok(())
    }
}
