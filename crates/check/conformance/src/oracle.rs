//! A world in the types of the network model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use network_spec::{
    AclDefault, Address, Learning, Localnet, Network, Node, PolicyAction, PolicyMatch, Port, Route,
    RoutePolicy, Router, RouterPort, Switch, Tap, Target, Trees, Trust, Tunnel, Zone,
};

use crate::generate::Place;
use crate::simulation::Hosts;
use crate::world::{Action, Encap, Form, Labelled, World};

/// The model's world: the objects, the reports, and the ports that switches fail to create.
pub fn world(world: &World) -> network_spec::World {
    let nodes = world.nodes.iter().map(|(name, node)| {
        let encaps = node.encaps.iter().copied().map(encap).collect();
        let (zone, mappings) = (node.zone.clone(), node.mappings.clone());
        (name.clone(), Node { ip: node.ip, zone, encaps, mappings })
    });
    let failing = world.failing.iter().map(|(host, kind, peer)| Tunnel {
        host: host.clone(),
        encap: encap(*kind),
        peer: peer.clone(),
    });
    // No switch has ports of STT, and neither have the simulated ones.
    let without = |host: &String| Tunnel { host: host.clone(), encap: network_spec::Encap::Stt, peer: None };
    network_spec::World {
        zones: world.zones.iter().map(|(name, one)| (name.clone(), zone(*one))).collect(),
        nodes: nodes.collect(),
        switches: world
            .switches
            .iter()
            .map(|(name, of)| {
                let drops = world.filtering.dropping.contains(name);
                let acl_default = if drops { AclDefault::Drop } else { AclDefault::Allow };
                let switch = Switch { tenant: of.clone(), learning: learning(world, name), acl_default };
                (name.clone(), switch)
            })
            .collect(),
        ports: world
            .ports
            .iter()
            .map(|(name, one)| (name.clone(), port(one, world.filtering.labels.get(name))))
            .collect(),
        localnets: world.localnets.iter().map(|(name, one)| (name.clone(), localnet(one))).collect(),
        vnics: world.vifs.iter().map(|(key, vif)| (key.clone(), vif.since)).collect(),
        announced: world.announced.clone(),
        overruled: BTreeMap::new(),
        failing: failing.chain(world.nodes.keys().map(without)).collect(),
        trees: trees(world),
        flood_limits: world.flood_limits.keys().cloned().collect(),
        exhausted: world.exhausted.clone(),
        routers: world.routing.routers.iter().map(|(name, one)| (name.clone(), router(one))).collect(),
        router_ports: world
            .routing
            .ports
            .iter()
            .map(|(name, one)| (name.clone(), router_port(one)))
            .collect(),
        routes: world.routing.routes.iter().map(|(name, one)| (name.clone(), route(one))).collect(),
        route_policies: world
            .routing
            .policies
            .iter()
            .map(|(name, one)| (name.clone(), policy(one)))
            .collect(),
        acls: world.filtering.acls.clone(),
        address_groups: world
            .filtering
            .address_groups
            .iter()
            .map(|(name, all)| (name.clone(), all.iter().map(|one| network(*one)).collect()))
            .collect(),
        port_groups: world.filtering.port_groups.clone(),
    }
}

/// The limits of floods without trees. Which hosts are branches, and which lead them, is for the rules to choose.
fn trees(world: &World) -> Trees {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Trees { hosts: number(world.trees.hosts), slack: number(world.trees.slack), ..Trees::default() }
}

/// The ports that hosts must have, by the model, as texts.
pub(crate) fn wanted_ports(world: &network_spec::World) -> BTreeSet<String> {
    let tunnels = world.tunnels().into_iter().map(|Tunnel { host, encap, peer }| {
        let to = peer.map_or(String::new(), |peer| format!(" to {peer}"));
        format!("a tunnel port of {host} for {encap:?}{to}")
    });
    let patches = world.patches();
    let patches = patches.iter().map(|(host, network)| format!("a patch port of {host} to {network}"));
    tunnels.chain(patches).collect()
}

/// The ports that the rules want hosts to have, as texts like those of [`wanted_ports`].
pub(crate) fn asked_ports(world: &World, hosts: &Hosts) -> BTreeSet<String> {
    let ends: BTreeMap<_, &String> = world.nodes.iter().map(|(name, node)| (node.ip, name)).collect();
    let tunnels = hosts.wanted_tunnels().map(|(host, kind, remote)| {
        let peer = remote.map(|remote| ends.get(&remote).map_or(remote.to_string(), |name| (*name).clone()));
        let to = peer.map_or(String::new(), |peer| format!(" to {peer}"));
        format!("a tunnel port of {host} for {:?}{to}", encap(kind))
    });
    let none = BTreeMap::new();
    let patches = hosts.wanted_patches().map(|(host, bridge)| {
        let mappings = world.nodes.get(host).map_or(&none, |node| &node.mappings);
        let network = mappings.iter().find(|(_, behind)| *behind == bridge);
        format!("a patch port of {host} to {}", network.map_or(bridge, |(network, _)| network))
    });
    tunnels.chain(patches).collect()
}

/// A place in the model's terms.
pub fn tap(place: &Place) -> Tap {
    match place {
        Place::Vnic(host, port) => Tap::vnic(host, port),
        Place::Tap(network) => Tap::physical(network),
    }
}

/// The place of a tap of the model.
pub fn place(tap: &Tap) -> Place {
    match tap {
        Tap::Vnic { host, port } => Place::Vnic(host.clone(), port.clone()),
        Tap::Physical { network } => Place::Tap(network.clone()),
    }
}

fn learning(world: &World, switch: &str) -> Learning {
    let limits = world.learning.get(switch);
    let of = |limits: &crate::world::Learning| Learning {
        limit: limits.limit,
        age: Duration::from_secs(limits.age.into()),
    };
    limits.map(of).unwrap_or_default()
}

fn zone(zone: crate::world::Zone) -> Zone {
    let form = match zone.form {
        Form::Flow => network_spec::Form::Flow,
        Form::Port => network_spec::Form::Port,
    };
    Zone { form, mtu: zone.mtu, check_sources: zone.check_sources }
}

fn encap(encap: Encap) -> network_spec::Encap {
    match encap {
        Encap::Geneve => network_spec::Encap::Geneve,
        Encap::Vxlan => network_spec::Encap::Vxlan,
        Encap::Gre => network_spec::Encap::Gre,
        Encap::Stt => network_spec::Encap::Stt,
    }
}

fn port(port: &crate::world::Port, labels: Option<&Labelled>) -> Port {
    Port {
        switch: port.switch.clone(),
        addresses: port.addresses.iter().map(|(mac, ips)| Address { mac: *mac, ips: ips.clone() }).collect(),
        port_security: port.security,
        unknown_addresses: port.unknown,
        trust: port.trust.iter().map(|name| trust(name)).collect(),
        parent: port.parent.clone(),
        enabled: port.enabled,
        requested_hosts: port.requested.clone(),
        labels: labels.cloned().unwrap_or_default(),
    }
}

/// Panics on a name that is none of [`crate::world::TRUSTS`], from which generators and tests pick.
fn trust(name: &str) -> Trust {
    match name {
        "ra" => Trust::Ra,
        "redirect" => Trust::Redirect,
        "dhcp_server" => Trust::DhcpServer,
        other => panic!("the model knows no trust `{other}`"),
    }
}

fn localnet(localnet: &crate::world::Localnet) -> Localnet {
    Localnet { switch: localnet.switch.clone(), network: localnet.network.clone(), tag: localnet.tag }
}

/// A prefix of the model.
pub(crate) fn network(network: crate::world::Network) -> Network {
    Network { ip: network.ip, length: network.length }
}

fn router(router: &crate::world::Router) -> Router {
    let proxy_arp = router.proxy.iter().map(|prefix| network(*prefix)).collect();
    Router { tenant: router.tenant.clone(), proxy_arp }
}

fn router_port(port: &crate::world::RouterPort) -> RouterPort {
    RouterPort {
        router: port.router.clone(),
        switch: port.switch.clone(),
        mac: port.mac,
        networks: port.networks.iter().map(|one| network(*one)).collect(),
    }
}

fn route(route: &crate::world::Route) -> Route {
    let target = if route.hops.is_empty() { Target::Discard } else { Target::NextHops(route.hops.clone()) };
    Route { router: route.router.clone(), destination: network(route.destination), target }
}

fn policy(policy: &crate::world::Policy) -> RoutePolicy {
    let action = match &policy.action {
        Action::Drop => PolicyAction::Drop,
        Action::Reroute(hops) => PolicyAction::Reroute(hops.clone()),
        Action::Allow => PolicyAction::Allow,
    };
    let matches = PolicyMatch {
        source: policy.source.map(network),
        destination: policy.destination.map(network),
        protocol: policy.protocol,
    };
    RoutePolicy { router: policy.router.clone(), priority: policy.priority.into(), matches, action }
}
