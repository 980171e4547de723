//! A world in the types of the network model.

use std::time::Duration;

use network_spec::{Address, Learning, Localnet, Node, Port, Switch, Tap, Tunnel, Zone};

use crate::generate::Place;
use crate::simulation::Hosts;
use crate::world::{Encap, Form, World};

/// The model's world: the objects, and the ports that hosts actually have.
pub fn world(world: &World, hosts: &Hosts) -> network_spec::World {
    let nodes = world.nodes.iter().map(|(name, node)| {
        let encaps = node.encaps.iter().copied().map(encap).collect();
        (name.clone(), Node { zone: node.zone.clone(), encaps, mappings: node.mappings.clone() })
    });
    let peer = |ip| world.nodes.iter().find(|(_, node)| node.ip == ip).map(|(name, _)| name.clone());
    let tunnels = hosts.tunnels().filter_map(|(host, kind, remote)| {
        // A tunnel to an address of no host leads nowhere.
        let peer = if let Some(remote) = remote { Some(peer(remote)?) } else { None };
        Some(Tunnel { host: host.to_owned(), encap: encap(kind), peer })
    });
    let attached = hosts.attached().map(|(host, network)| (host.to_owned(), network.to_owned()));
    network_spec::World {
        zones: world.zones.iter().map(|(name, one)| (name.clone(), zone(*one))).collect(),
        nodes: nodes.collect(),
        switches: world
            .switches
            .iter()
            .map(|(name, of)| (name.clone(), Switch { tenant: of.clone(), learning: learning(world, name) }))
            .collect(),
        ports: world.ports.iter().map(|(name, one)| (name.clone(), port(one))).collect(),
        localnets: world.localnets.iter().map(|(name, one)| (name.clone(), localnet(one))).collect(),
        vnics: world.vifs.iter().map(|(key, vif)| (key.clone(), vif.since)).collect(),
        tunnels: tunnels.collect(),
        patches: attached.collect(),
    }
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
    Zone { form, mtu: zone.mtu }
}

fn encap(encap: Encap) -> network_spec::Encap {
    match encap {
        Encap::Geneve => network_spec::Encap::Geneve,
        Encap::Vxlan => network_spec::Encap::Vxlan,
        Encap::Gre => network_spec::Encap::Gre,
        Encap::Stt => network_spec::Encap::Stt,
    }
}

fn port(port: &crate::world::Port) -> Port {
    Port {
        switch: port.switch.clone(),
        addresses: port.addresses.iter().map(|(mac, ips)| Address { mac: *mac, ips: ips.clone() }).collect(),
        port_security: port.security,
        unknown_addresses: port.unknown,
        parent: port.parent.clone(),
        enabled: port.enabled,
        requested_hosts: port.requested.clone(),
    }
}

fn localnet(localnet: &crate::world::Localnet) -> Localnet {
    Localnet { switch: localnet.switch.clone(), network: localnet.network.clone(), tag: localnet.tag }
}
