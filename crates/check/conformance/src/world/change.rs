//! Changes of a world. Each can come at any time; a change that is invalid at that time is not made.

use std::collections::BTreeSet;
use std::net::IpAddr;

use network_spec::{
    Acl, AclDefault, Dhcp, DnsZone, Learning, Localnet, Nat, Network, Node, Port, Ra, Route, RoutePolicy,
    Router, RouterPort, Switch, Tunnel, Zone,
};

use super::routing::may_advertise;
use super::{
    AUDIENCES, GATEWAY_LABELS, NumberedWorld, audience, conflict, may_be_gateway, of_gateway, of_policy,
    of_route, routed,
};

/// One change. An object of the same name is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a zone.
    Zone(String, Zone),
    /// Removes a zone.
    NoZone(String),
    /// Adds a node.
    Node(String, Node),
    /// Removes a node and its reports.
    NoNode(String),
    /// Adds a switch of a tenant.
    Switch(String, String),
    /// Removes a switch.
    NoSwitch(String),
    /// Gives a switch limits of learning.
    Learning(String, Learning),
    /// Adds a port. Its labels stay what they are: [`Change::Label`] changes them.
    Port(String, Port),
    /// Removes a port. Its vNIC may remain.
    NoPort(String),
    /// Adds a localnet port.
    Localnet(String, Localnet),
    /// Removes a localnet port.
    NoLocalnet(String),
    /// Adds a router.
    Router(String, Router),
    /// Removes a router.
    NoRouter(String),
    /// Adds a port of a router.
    RouterPort(String, RouterPort),
    /// Removes a port of a router.
    NoRouterPort(String),
    /// What a port of a router advertises, or that it advertises nothing.
    Advertise(String, Option<Ra>),
    /// Adds a DHCP server.
    Dhcp(String, Dhcp),
    /// Removes a DHCP server.
    NoDhcp(String),
    /// Adds a DNS zone.
    DnsZone(String, DnsZone),
    /// Removes a DNS zone.
    NoDnsZone(String),
    /// Adds a route.
    Route(String, Route),
    /// Removes a route.
    NoRoute(String),
    /// Adds a policy.
    Policy(String, RoutePolicy),
    /// Removes a policy.
    NoPolicy(String),
    /// Adds a translation of addresses.
    Nat(String, Nat),
    /// Removes a translation of addresses.
    NoNat(String),
    /// Adds an ACL.
    Acl(String, Acl),
    /// Removes an ACL.
    NoAcl(String),
    /// Adds a group of addresses.
    AddressGroup(String, Vec<Network>),
    /// Removes a group of addresses.
    NoAddressGroup(String),
    /// Adds a group of ports.
    PortGroup(String, BTreeSet<String>),
    /// Removes a group of ports.
    NoPortGroup(String),
    /// What a switch does with what no ACL matches.
    AclDefault(String, AclDefault),
    /// Gives a port a label, by key and value, or removes the label of a key.
    Label(String, String, Option<String>),
    /// A host reports a vNIC of a port.
    Plug(String, String),
    /// A host reports a vNIC with another number. It has not plugged it in again, so it wins no port from another host.
    Renumber(String, String),
    /// A host no longer reports a vNIC.
    Unplug(String, String),
    /// The controller hears that the machine of a vNIC runs there.
    Announce(String, String),
    /// A host fails to create a tunnel port, or loses it.
    Fail(Tunnel),
    /// A host can create the tunnel port again.
    Heal(Tunnel),
    /// Floods take trees beyond these limits.
    Trees {
        /// A switch on more hosts has a tree.
        hosts: usize,
        /// The percentage of hosts that a tree may be too large for.
        slack: usize,
    },
    /// Gives a port or localnet port a limit of what it may flood, or none.
    FloodLimit(String, Option<u32>),
    /// A port uses up its limit on a host, or may flood there again.
    Exhaust(String, String, bool),
}

impl NumberedWorld {
    /// Makes a change if it is valid. Returns whether it is.
    pub fn apply(&mut self, change: &Change) -> bool {
        let mut change = change.clone();
        if let Change::Port(name, port) = &mut change {
            *port = self.with_given(name, std::mem::take(port));
        }
        if !self.accepts(&change) || !self.keeps_nats(&change) {
            return false;
        }
        self.make(change);
        true
    }

    /// Makes a valid change.
    pub(super) fn make(&mut self, change: Change) {
        self.changes += 1;
        match change.clone() {
            Change::Zone(name, zone) => {
                self.network.zones.insert(name, zone);
            }
            Change::NoZone(name) => {
                self.network.zones.remove(&name);
            }
            Change::Node(name, node) => {
                if !self.nodes.contains_key(&name) {
                    let label = self.labels.next();
                    self.labels.nodes.insert(name.clone(), label);
                }
                self.network.nodes.insert(name, node);
            }
            Change::NoNode(name) => {
                self.network.nodes.remove(&name);
                self.labels.nodes.remove(&name);
                self.network.vnics.retain(|(host, _), _| *host != name);
                self.ofports.retain(|(host, _), _| *host != name);
                self.network.announced.retain(|(host, _), _| *host != name);
                self.network.failing.retain(|tunnel| tunnel.host != name);
                self.network.exhausted.retain(|(host, _)| *host != name);
            }
            Change::Switch(name, tenant) => self.add_switch(name, tenant),
            Change::NoSwitch(name) => {
                self.network.switches.remove(&name);
                self.labels.datapaths.remove(&name);
                let of_it = format!("{name}/");
                self.labels.ports.retain(|label, _| !label.starts_with(&of_it));
            }
            Change::Learning(name, learning) => {
                self.network.switches.entry(name).or_default().learning = learning;
            }
            Change::Port(name, mut port) => {
                let is = |port: &Port| (port.switch.clone(), port.parent.clone());
                let before = self.ports.get(&name);
                port.labels = before.map(|before| before.labels.clone()).unwrap_or_default();
                if before.is_some_and(|before| is(before) != is(&port)) {
                    self.label_anew(&name);
                }
                self.label_port(&name);
                self.network.ports.insert(name, port);
            }
            Change::NoPort(name) => {
                self.network.ports.remove(&name);
                self.labels.ports.remove(&name);
                self.limit_floods(name, None);
            }
            Change::Localnet(name, localnet) => {
                if self.localnets.get(&name).is_some_and(|before| *before != localnet) {
                    self.label_anew(&name);
                }
                self.label_port(&name);
                self.network.localnets.insert(name, localnet);
            }
            Change::NoLocalnet(name) => {
                self.network.localnets.remove(&name);
                self.labels.ports.remove(&name);
                self.limit_floods(name, None);
            }
            Change::Router(..)
            | Change::NoRouter(_)
            | Change::RouterPort(..)
            | Change::NoRouterPort(_)
            | Change::Advertise(..)
            | Change::Route(..)
            | Change::NoRoute(_)
            | Change::Policy(..)
            | Change::NoPolicy(_) => self.change_routing(change.clone()),
            Change::Nat(name, nat) => {
                self.network.nats.insert(name, nat);
            }
            Change::NoNat(name) => {
                self.network.nats.remove(&name);
            }
            Change::Dhcp(..) | Change::NoDhcp(_) | Change::DnsZone(..) | Change::NoDnsZone(_) => {
                self.change_services(change.clone());
            }
            Change::Acl(..)
            | Change::NoAcl(_)
            | Change::AddressGroup(..)
            | Change::NoAddressGroup(_)
            | Change::PortGroup(..)
            | Change::NoPortGroup(_)
            | Change::AclDefault(..)
            | Change::Label(..) => self.change_filtering(change.clone()),
            Change::Plug(host, port) => {
                self.network.vnics.insert((host.clone(), port.clone()), self.changes);
                self.number(host, port);
            }
            Change::Renumber(host, port) => self.number(host, port),
            // What was announced by the vNIC may stay: it says nothing of another one that is plugged in later.
            Change::Unplug(host, port) => {
                let vnic = (host, port);
                self.network.vnics.remove(&vnic);
                self.ofports.remove(&vnic);
            }
            Change::Announce(host, port) => {
                self.network.announced.insert((host, port), self.changes);
            }
            Change::Fail(failing) => {
                self.network.failing.insert(failing);
            }
            Change::Heal(failing) => {
                self.network.failing.remove(&failing);
            }
            Change::Trees { hosts, slack } => {
                (self.network.trees.hosts, self.network.trees.slack) = (hosts, slack);
            }
            Change::FloodLimit(port, limit) => self.limit_floods(port, limit),
            Change::Exhaust(host, port, true) => {
                self.network.exhausted.insert((host, port));
            }
            Change::Exhaust(host, port, false) => {
                self.network.exhausted.remove(&(host, port));
            }
        }
    }

    /// Makes a change of routers or of what belongs to them.
    fn change_routing(&mut self, change: Change) {
        match change {
            Change::Router(name, router) => {
                if !self.routers.contains_key(&name) {
                    let label = self.labels.next();
                    self.labels.datapaths.insert(name.clone(), label);
                }
                self.network.routers.insert(name, router);
            }
            Change::NoRouter(name) => {
                self.network.routers.remove(&name);
                self.labels.datapaths.remove(&name);
            }
            Change::RouterPort(name, port) => {
                let is = |port: &RouterPort| (port.switch.clone(), port.router.clone());
                if self.router_ports.get(&name).is_some_and(|before| is(before) != is(&port)) {
                    self.label_anew(&name);
                }
                self.label_port(&name);
                self.label_port(&routed(&port.switch));
                for of_gateways in GATEWAY_LABELS {
                    self.label_gateways(&name, of_gateways, !port.gateways.is_empty());
                }
                self.network.router_ports.insert(name, port);
            }
            Change::Advertise(name, ra) => {
                self.network.ras.remove(&name);
                self.network.ras.extend(ra.map(|ra| (name, ra)));
            }
            Change::NoRouterPort(name) => {
                self.network.router_ports.remove(&name);
                self.network.ras.remove(&name);
                self.labels.ports.remove(&name);
                for of_gateways in GATEWAY_LABELS {
                    self.label_gateways(&name, of_gateways, false);
                }
            }
            Change::Route(name, route) => {
                self.label_port(&of_route(&name));
                self.network.routes.insert(name, route);
            }
            Change::NoRoute(name) => {
                self.labels.ports.remove(&of_route(&name));
                self.network.routes.remove(&name);
            }
            Change::Policy(name, policy) => {
                self.label_port(&of_policy(&name));
                self.network.route_policies.insert(name, policy);
            }
            Change::NoPolicy(name) => {
                self.labels.ports.remove(&of_policy(&name));
                self.network.route_policies.remove(&name);
            }
            _ => {}
        }
        self.number_hops();
    }

    /// Gives a vNIC an `OpenFlow` port that none has had.
    fn number(&mut self, host: String, port: String) {
        self.next_ofport += 1;
        self.ofports.insert((host, port), self.next_ofport);
    }

    /// Gives each next hop that is one of several a number.
    fn number_hops(&mut self) {
        let wanted: BTreeSet<IpAddr> = self.choices().collect();
        self.labels.hops.retain(|hop, _| wanted.contains(hop));
        for hop in wanted {
            if !self.labels.hops.contains_key(&hop) {
                self.labels.hops_given += 1;
                self.labels.hops.insert(hop, self.labels.hops_given);
            }
        }
    }

    fn limit_floods(&mut self, port: String, limit: Option<u32>) {
        let Some(limit) = limit else {
            self.network.flood_limits.remove(&port);
            self.labels.meters.remove(&port);
            self.network.exhausted.retain(|(_, of)| *of != port);
            return;
        };
        if self.network.flood_limits.insert(port.clone(), limit).is_none() {
            self.labels.meters_given += 1;
            self.labels.meters.insert(port, self.labels.meters_given);
        }
    }

    fn add_switch(&mut self, name: String, tenant: String) {
        if !self.switches.contains_key(&name) {
            let label = self.labels.next();
            self.labels.datapaths.insert(name.clone(), label);
            for who in AUDIENCES {
                for relay in [false, true] {
                    self.label_port(&audience(&name, who, relay));
                }
            }
        }
        let Switch { tenant: now, .. } = self.network.switches.entry(name.clone()).or_default();
        if std::mem::replace(now, tenant.clone()) != tenant {
            let ports = self.ports_of(&name).map(|(port, _)| port.to_owned());
            let localnets = self.localnet_of(&name).map(|(localnet, _)| localnet.to_owned());
            let of_routers = self.router_ports_on(&name).map(|(port, _)| port.to_owned());
            let all: Vec<String> = ports.chain(localnets).chain(of_routers).collect();
            for port in &all {
                self.label_anew(port);
            }
        }
    }

    /// A port is another one now: its numbers are others too.
    fn label_anew(&mut self, port: &str) {
        let label = self.labels.next();
        self.labels.ports.insert(port.to_owned(), label);
        if let Some(meter) = self.labels.meters.get_mut(port) {
            self.labels.meters_given += 1;
            *meter = self.labels.meters_given;
            self.network.exhausted.retain(|(_, of)| of != port);
        }
    }

    /// Gives a port of a router a label for its gateways, or takes it back.
    fn label_gateways(&mut self, port: &str, label_use: &str, has: bool) {
        let name = of_gateway(port, label_use);
        if has {
            self.label_port(&name);
        } else {
            self.labels.ports.remove(&name);
        }
    }

    fn label_port(&mut self, name: &str) {
        if !self.labels.ports.contains_key(name) {
            let label = self.labels.next();
            self.labels.ports.insert(name.to_owned(), label);
        }
    }

    /// Whether a change is valid now, as the controller and the switches would judge it.
    fn accepts(&self, change: &Change) -> bool {
        match change {
            Change::Zone(..) => true,
            Change::NoZone(name) => {
                !name.is_empty()
                    && self.zones.contains_key(name)
                    && self.nodes.values().all(|node| node.zone != *name)
            }
            Change::Node(name, node) => {
                let bridges: BTreeSet<&String> = node.mappings.values().collect();
                self.zones.contains_key(&node.zone)
                    && bridges.len() == node.mappings.len()
                    && !node.encaps.is_empty()
                    && (may_be_gateway(node) || !self.has_as_gateway(name))
                    && self.nodes.iter().all(|(other, there)| other == name || there.ip != node.ip)
            }
            Change::NoNode(name) => {
                self.nodes.contains_key(name)
                    && self.ports.values().all(|port| !port.requested_hosts.contains(name))
                    && !self.has_as_gateway(name)
            }
            Change::Switch(name, tenant) => {
                self.switches.get(name).map(|switch| &switch.tenant) != Some(tenant)
                    && self.trunks_agree(name, tenant)
                    && self.routers_agree(name, tenant)
                    && self.zones_agree(name, tenant)
                    && self.filters_agree(&mut |_| None, &|switch| (switch == name).then_some(tenant))
                    && !self.routers.contains_key(name)
            }
            Change::NoSwitch(name) => {
                self.switches.contains_key(name)
                    && self.ports_of(name).next().is_none()
                    && self.localnet_of(name).is_none()
                    && self.router_ports_on(name).next().is_none()
                    && !self.refers_to_switch(name)
            }
            Change::Learning(name, learning) => {
                self.switches.get(name).is_some_and(|switch| switch.learning != *learning)
            }
            Change::Port(name, port) => self.accepts_port(name, port),
            Change::NoPort(name) => {
                self.ports.contains_key(name)
                    && self.children(name).next().is_none()
                    && !self.refers_to_port(name)
            }
            Change::Localnet(name, localnet) => {
                self.switches.contains_key(&localnet.switch)
                    && !self.ports.contains_key(name)
                    && !self.router_ports.contains_key(name)
                    && self.localnets.iter().all(|(other, there)| {
                        other == name
                            || (there.switch != localnet.switch
                                && (&there.network, there.tag) != (&localnet.network, localnet.tag))
                    })
            }
            Change::NoLocalnet(name) => self.localnets.contains_key(name),
            Change::Router(name, router) => {
                self.routers.get(name) != Some(router)
                    && !self.switches.contains_key(name)
                    && self.routers_agree(name, &router.tenant)
            }
            Change::NoRouter(name) => {
                self.routers.contains_key(name)
                    && self.ports_of_router(name).next().is_none()
                    && self.routes.values().all(|route| route.router != *name)
                    && self.route_policies.values().all(|policy| policy.router != *name)
            }
            Change::RouterPort(name, port) => {
                !self.ports.contains_key(name)
                    && !self.localnets.contains_key(name)
                    && self.accepts_router_port(name, port)
            }
            Change::NoRouterPort(name) => self.router_ports.contains_key(name),
            Change::Route(name, route) => self.accepts_route(name, route),
            Change::NoRoute(name) => self.routes.contains_key(name),
            Change::Policy(_, policy) => self.accepts_policy(policy),
            Change::NoPolicy(name) => self.route_policies.contains_key(name),
            Change::Nat(name, nat) => self.nats.get(name) != Some(nat),
            Change::NoNat(name) => self.nats.contains_key(name),
            Change::Advertise(name, ra) => {
                let port = self.router_ports.get(name);
                self.ras.get(name) != ra.as_ref()
                    && port.is_some_and(|port| ra.as_ref().is_none_or(|ra| may_advertise(port, ra)))
            }
            Change::Dhcp(..) | Change::NoDhcp(_) | Change::DnsZone(..) | Change::NoDnsZone(_) => {
                self.accepts_services(change)
            }
            Change::Acl(..)
            | Change::NoAcl(_)
            | Change::AddressGroup(..)
            | Change::NoAddressGroup(_)
            | Change::PortGroup(..)
            | Change::NoPortGroup(_)
            | Change::AclDefault(..)
            | Change::Label(..) => self.accepts_filtering(change),
            Change::Plug(host, port) => {
                self.nodes.contains_key(host) && !self.vnics.contains_key(&(host.clone(), port.clone()))
            }
            Change::Renumber(host, port) | Change::Unplug(host, port) | Change::Announce(host, port) => {
                self.vnics.contains_key(&(host.clone(), port.clone()))
            }
            Change::Fail(failing) => {
                self.nodes.contains_key(&failing.host) && !self.failing.contains(failing)
            }
            Change::Heal(failing) => self.failing.contains(failing),
            Change::Trees { hosts, slack } => (self.trees.hosts, self.trees.slack) != (*hosts, *slack),
            Change::FloodLimit(port, limit) => {
                (self.ports.contains_key(port) || self.localnets.contains_key(port))
                    && self.flood_limits.get(port) != limit.as_ref()
            }
            Change::Exhaust(host, port, exhausted) => {
                self.flood_limits.contains_key(port)
                    && self.nodes.contains_key(host)
                    && self.exhausted.contains(&(host.clone(), port.clone())) != *exhausted
            }
        }
    }

    /// Whether no trunk reaches into another tenant once a switch belongs to this one.
    fn trunks_agree(&self, switch: &str, tenant: &str) -> bool {
        let tenant_of = |of: &str| -> Option<&str> {
            if of == switch { Some(tenant) } else { self.switches.get(of).map(|switch| &*switch.tenant) }
        };
        self.ports.values().all(|port| {
            let parent = port.parent.as_ref().and_then(|(parent, _)| self.ports.get(parent));
            parent.is_none_or(|parent| agree(tenant_of(&port.switch), tenant_of(&parent.switch)))
        })
    }

    /// Whether nothing of one tenant refers to what belongs to another once a port is in this switch.
    fn may_move(&self, name: &str, switch: &str) -> bool {
        let Some(port) = self.ports.get(name).filter(|port| port.switch != switch) else { return true };
        let tenant_of = |switch: &str| self.switches.get(switch).map(|switch| &*switch.tenant);
        let mut after = self.clone();
        after.network.ports.insert(name.to_owned(), Port { switch: switch.to_owned(), ..port.clone() });
        let mut children = self.children(name).filter_map(|(_, child)| self.ports.get(child));
        children.all(|child| agree(tenant_of(&child.switch), tenant_of(switch)))
            && after.filters_agree(&mut |_| None, &|_| None)
    }

    fn accepts_port(&self, name: &str, port: &Port) -> bool {
        let behind = port.parent.as_ref().is_none_or(|(parent, tag)| {
            parent != name
                && self.ports.get(parent).is_some_and(|parent| {
                    let tenant_of = |switch: &str| self.switches.get(switch).map(|switch| &*switch.tenant);
                    parent.parent.is_none() && agree(tenant_of(&port.switch), tenant_of(&parent.switch))
                })
                && self.children(name).next().is_none()
                && self.children(parent).all(|(other, child)| child == name || other != *tag)
        });
        let distinct =
            |at: usize| port.addresses[..at].iter().all(|earlier| !conflict(earlier, &port.addresses[at]));
        let named = self.localnets.contains_key(name) || self.router_ports.contains_key(name);
        behind
            && self.may_move(name, &port.switch)
            && !named
            && !(port.port_security && port.unknown_addresses)
            && self.switches.contains_key(&port.switch)
            && port.requested_hosts.iter().all(|host| self.nodes.contains_key(host))
            && (0..port.addresses.len()).all(distinct)
            && !port.addresses.iter().any(|addresses| self.is_taken(&port.switch, name, addresses))
    }
}

/// Whether objects of these tenants can refer to each other: no tenant is no other tenant.
pub(super) fn agree(one: Option<&str>, other: Option<&str>) -> bool {
    let [one, other] = [one, other].map(|tenant| tenant.filter(|tenant| !tenant.is_empty()));
    one.is_none() || other.is_none() || one == other
}
