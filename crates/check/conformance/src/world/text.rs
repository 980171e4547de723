//! The text of worlds and changes.

use std::fmt;

use network_spec::{AclDefault, Learning};

use super::{Change, NumberedWorld, of_policy, of_route, routed};

fn joined<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" ")
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
            Change::Advertise(name, Some(ra)) => write!(f, "router port {name} advertises {ra}"),
            Change::Advertise(name, None) => write!(f, "router port {name} advertises nothing"),
            Change::Dhcp(name, dhcp) => write!(f, "DHCP server {name} {dhcp}"),
            Change::NoDhcp(name) => write!(f, "no DHCP server {name}"),
            Change::DnsZone(name, zone) => write!(f, "DNS zone {name} {zone}"),
            Change::NoDnsZone(name) => write!(f, "no DNS zone {name}"),
            Change::Route(name, route) => write!(f, "route {name} {route}"),
            Change::NoRoute(name) => write!(f, "no route {name}"),
            Change::Policy(name, policy) => write!(f, "policy {name} {policy}"),
            Change::NoPolicy(name) => write!(f, "no policy {name}"),
            Change::Nat(name, nat) => write!(f, "translation {name} {nat}"),
            Change::NoNat(name) => write!(f, "no translation {name}"),
            Change::Acl(name, acl) => write!(f, "ACL {name} {acl}"),
            Change::NoAcl(name) => write!(f, "no ACL {name}"),
            Change::AddressGroup(name, addresses) => {
                write!(f, "address group {name} of [{}]", joined(addresses))
            }
            Change::NoAddressGroup(name) => write!(f, "no address group {name}"),
            Change::PortGroup(name, ports) => {
                write!(f, "port group {name} of [{}]", joined(ports))
            }
            Change::NoPortGroup(name) => write!(f, "no port group {name}"),
            Change::AclDefault(switch, default) => {
                let drops = *default == AclDefault::Drop;
                write!(f, "switch {switch} {} what no ACL matches", if drops { "drops" } else { "allows" })
            }
            Change::Label(port, key, Some(value)) => write!(f, "port {port} is labelled {key}={value}"),
            Change::Label(port, key, None) => write!(f, "port {port} has no label {key}"),
            Change::Plug(host, port) => write!(f, "{host} reports {port}"),
            Change::Renumber(host, port) => write!(f, "{host} reports {port} with another number"),
            Change::Unplug(host, port) => write!(f, "{host} reports {port} no more"),
            Change::Announce(host, port) => write!(f, "the controller hears that {port} is on {host}"),
            Change::Fail(tunnel) => write!(f, "{} fails to make {tunnel}", tunnel.host),
            Change::Heal(tunnel) => write!(f, "{} makes {tunnel} again", tunnel.host),
            Change::Trees { hosts, slack } => {
                write!(f, "trees for switches on more than {hosts} hosts, with a slack of {slack} %")
            }
            Change::FloodLimit(port, Some(limit)) => write!(f, "{port} may flood {limit} frames a second"),
            Change::FloodLimit(port, None) => write!(f, "{port} may flood any number of frames"),
            Change::Exhaust(host, port, true) => write!(f, "{port} has used up its limit on {host}"),
            Change::Exhaust(host, port, false) => write!(f, "{port} may flood on {host} again"),
        }
    }
}

impl NumberedWorld {
    fn write_routing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, router) in &self.routers {
            writeln!(f, "router {name} (label {:#x}) {router}", self.labels.datapath(name))?;
        }
        for (name, port) in &self.router_ports {
            let [own, switch] = [name, &routed(&port.switch)].map(|name| self.labels.port(name));
            writeln!(f, "router port {name} (label {own:#x}, of the switch {switch:#x}) {port}")?;
        }
        for (name, ra) in &self.ras {
            writeln!(f, "{}", Change::Advertise(name.clone(), Some(ra.clone())))?;
        }
        for (name, route) in &self.routes {
            writeln!(f, "route {name} (label {:#x}) {route}", self.labels.port(&of_route(name)))?;
        }
        for (name, policy) in &self.route_policies {
            writeln!(f, "policy {name} (label {:#x}) {policy}", self.labels.port(&of_policy(name)))?;
        }
        self.nats.iter().try_for_each(|(name, nat)| writeln!(f, "translation {name} {nat}"))
    }

    fn write_services(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dhcps = self.dhcps.iter().map(|(name, dhcp)| Change::Dhcp(name.clone(), dhcp.clone()));
        let zones = self.dns_zones.iter().map(|(name, zone)| Change::DnsZone(name.clone(), zone.clone()));
        dhcps.chain(zones).try_for_each(|change| writeln!(f, "{change}"))
    }

    fn write_filtering(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups =
            self.address_groups.iter().map(|(name, of)| Change::AddressGroup(name.clone(), of.clone()));
        let of_ports = self.port_groups.iter().map(|(name, of)| Change::PortGroup(name.clone(), of.clone()));
        let dropping = self.switches.iter().filter(|(_, switch)| switch.acl_default == AclDefault::Drop);
        let defaults = dropping.map(|(name, _)| Change::AclDefault(name.clone(), AclDefault::Drop));
        let labels = self.ports.iter().flat_map(|(name, port)| {
            port.labels
                .iter()
                .map(|(key, value)| Change::Label(name.clone(), key.clone(), Some(value.clone())))
        });
        let acls = self.acls.iter().map(|(name, acl)| Change::Acl(name.clone(), acl.clone()));
        let mut all = groups.chain(of_ports).chain(defaults).chain(labels).chain(acls);
        all.try_for_each(|change| writeln!(f, "{change}"))
    }
}

impl fmt::Display for NumberedWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, zone) in &self.zones {
            writeln!(f, "zone {name:?}: {zone}")?;
        }
        for (name, node) in &self.nodes {
            writeln!(f, "node {name} (label {:#x}) {node}", self.labels.node(name))?;
        }
        for (name, switch) in &self.switches {
            let (label, tenant) = (self.labels.datapath(name), &switch.tenant);
            writeln!(f, "switch {name} (label {label:#x}) of tenant {tenant:?}")?;
        }
        for (name, switch) in
            self.switches.iter().filter(|(_, switch)| switch.learning != Learning::default())
        {
            writeln!(f, "switch {name} {}", switch.learning)?;
        }
        for (name, port) in &self.ports {
            let place = self.location(name).unwrap_or("nowhere");
            writeln!(f, "port {name} (label {:#x}) {port}: {place}", self.labels.port(name))?;
        }
        for (name, localnet) in &self.localnets {
            writeln!(f, "localnet port {name} (label {:#x}) {localnet}", self.labels.port(name))?;
        }
        self.write_routing(f)?;
        self.write_filtering(f)?;
        self.write_services(f)?;
        for (((host, port), since), ofport) in self.vnics.iter().zip(self.ofports.values()) {
            writeln!(f, "vNIC of {port} on {host}: OpenFlow port {ofport}, since {since}")?;
        }
        for ((host, port), since) in &self.announced {
            writeln!(f, "{port} is announced on {host} since {since}")?;
        }
        let (hosts, slack) = (self.trees.hosts, self.trees.slack);
        writeln!(f, "{}", Change::Trees { hosts, slack })?;
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
