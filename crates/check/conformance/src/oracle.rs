//! What simulated hosts are and observe, in the terms of the model: the ports that their switches lack, those that rules ask them for, and
//! places.

use std::collections::{BTreeMap, BTreeSet};

use network_spec::{Encap, Tap, Tunnel, World};

use crate::generate::Place;
use crate::simulation::Hosts;

/// The world of the model: that of the rules, on hosts whose switches have no ports of STT. No switch does, and neither do the simulated
/// ones.
pub fn world(world: &World) -> World {
    let mut world = world.clone();
    let without = |host: &String| Tunnel { host: host.clone(), encap: Encap::Stt, peer: None };
    world.failing.extend(world.nodes.keys().map(without));
    world
}

/// The ports that hosts must have, by the model, as texts.
pub(crate) fn wanted_ports(world: &World) -> BTreeSet<String> {
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
        format!("a tunnel port of {host} for {kind:?}{to}")
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
