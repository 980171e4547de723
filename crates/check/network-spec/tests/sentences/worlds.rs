//! Small worlds, and their output in a short form.

use std::collections::BTreeMap;
use std::net::IpAddr;

use network_spec::{Address, Encap, Localnet, Model, Node, Port, Switch, Tap, World};

use crate::sentences::frames::{ipv4, ipv6, mac};

/// An interface `name` of switch `switch`, with MAC and addresses of its number.
pub(crate) fn port(switch: &str, number: u8) -> Port {
    let addresses = vec![Address { mac: mac(number), ips: vec![ipv4(number).into(), ipv6(number).into()] }];
    Port { switch: switch.into(), addresses, ..Port::default() }
}

/// A port that receives frames to unknown addresses and has no known address.
pub(crate) fn unknown(switch: &str) -> Port {
    Port { switch: switch.into(), unknown_addresses: true, ..Port::default() }
}

/// A port with port security and these addresses at the MAC of its number.
pub(crate) fn secured(switch: &str, number: u8, ips: &[IpAddr]) -> Port {
    let addresses = vec![Address { mac: mac(number), ips: ips.to_vec() }];
    Port { switch: switch.into(), addresses, port_security: true, ..Port::default() }
}

/// A world with these ports: (name, host, port). Hosts are in one zone and have these encapsulations.
pub(crate) fn world(encaps: &[Encap], ports: &[(&str, &str, Port)]) -> World {
    let mut world = World::default();
    for (name, host, port) in ports {
        world.switches.insert(port.switch.clone(), Switch::default());
        world.ports.insert((*name).into(), port.clone());
        if port.parent.is_none() && !host.is_empty() {
            world.vnics.insert(((*host).into(), (*name).into()), 1);
        }
        if !host.is_empty() {
            let encaps = encaps.to_vec();
            world.nodes.insert((*host).into(), Node { encaps, ..Node::default() });
        }
    }
    world
}

/// All hosts are on physical network `physnet`, where `switch` is this VLAN.
pub(crate) fn on_vlan(mut world: World, switch: &str, tag: u16) -> World {
    let network = "physnet".to_owned();
    let localnet = Localnet { switch: switch.into(), network: network.clone(), tag };
    world.switches.insert(switch.into(), Switch::default());
    world.localnets.insert(format!("{switch}-net"), localnet);
    for node in world.nodes.values_mut() {
        node.mappings.insert(network.clone(), "br-phys".into());
    }
    world
}

/// Sends a frame from the interface of `port`, on its host. Returns the ports that output the same bytes, sorted.
pub(crate) fn send(model: &mut Model, port: &str, frame: &[u8]) -> Vec<String> {
    let out = send_any(model, port, frame);
    assert!(out.iter().all(|(_, bytes)| bytes == frame), "changed: {out:x?}");
    out.into_iter().map(|(port, _)| port).collect()
}

/// As [`send`], and returns all output frames.
pub(crate) fn send_any(model: &mut Model, port: &str, frame: &[u8]) -> Vec<(String, Vec<u8>)> {
    let at = match model.world().location(port) {
        Some(host) => Tap::vnic(host, port),
        None => Tap::physical(port),
    };
    let out = model.inject(&at, frame);
    // Every interface is where its port is.
    let places: BTreeMap<&String, &String> =
        model.world().vnics.keys().map(|(host, port)| (port, host)).collect();
    let name = |tap: Tap| match tap {
        Tap::Vnic { host, port } => {
            assert_eq!(places.get(&port), Some(&&host));
            port
        }
        Tap::Physical { network } => network,
    };
    let mut out: Vec<_> = out.iter().map(|one| (name(one.at.clone()), one.frame.clone())).collect();
    out.sort();
    out
}
