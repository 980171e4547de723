//! Random frames for the routers of an existing network.

use std::net::IpAddr;

use frame_builder::{
    ARP, Arp, BROADCAST, ICMPV6, IPV6, Ipv6, arp, ethernet, icmpv6, link_layer, neighbour, solicited_node,
};
use network_spec::{Address, Port, RouterPort};
use test_random::Random;

use super::routing::outside_machine;
use super::{Generator, Place};
use crate::frames::{Ways, nobody, routed};
use crate::oracle;
use crate::world::NumberedWorld;

impl Generator<'_> {
    /// A frame for a router, and where it is sent: from or to a port, if it is said which.
    pub(super) fn routed_frame(&mut self, about: Option<&str>) -> Option<(Place, Vec<u8>)> {
        let usual = self.routes.chance(93);
        let dead = self.routes.chance(5);
        let world = &self.world;
        let has_router = |port: &str| {
            let Some(Port { switch, .. }) = world.ports.get(port) else { return false };
            world.routers_on(switch).next().is_some()
                || (dead && world.router_ports_on(switch).next().is_some())
        };
        // The vNICs, each with the port that sends there and its tag.
        let mut senders: Vec<(&(String, String), &str, Option<u16>)> = Vec::new();
        for key in world.vnics.keys() {
            let (host, outer) = key;
            if usual && (world.owner(outer) != Some(outer) || world.location(outer) != Some(host)) {
                continue;
            }
            let behind = world.children(outer).map(|(tag, child)| (key, child, Some(tag)));
            let all = [(key, outer.as_str(), None)].into_iter().chain(behind);
            senders.extend(all.filter(|(_, port, _)| has_router(port)));
        }
        let of_it: Vec<_> =
            senders.iter().filter(|(_, port, _)| about == world.owner(port)).copied().collect();
        let from_it = !of_it.is_empty() && self.routes.chance(50);
        let senders = if from_it { of_it } else { senders };
        if senders.is_empty() {
            return None;
        }
        let ((host, outer), port, tag) = *self.routes.pick(&senders);
        let place = Place::Vnic(host.clone(), outer.clone());
        let mut ways = ways(world, port);
        if world.ports.get(port).is_some_and(|port| port.unknown_addresses) || ways.own.is_empty() {
            ways.own.push(nobody(&mut self.routes));
        }
        if let Some(port) = about.filter(|_| !from_it).and_then(|about| world.ports.get(about)) {
            let ips: Vec<IpAddr> = port.addresses.iter().flat_map(|one| one.ips.clone()).collect();
            ways.wanted = if ips.is_empty() { ways.wanted } else { ips };
        }
        if self.routes.chance(10) {
            let model = oracle::world(world);
            ways.largest = world.switches.keys().filter_map(|switch| model.mtu(switch)).collect();
        }
        let bytes = routed(&mut self.routes, &ways);
        let bytes = match tag {
            Some(tag) => frame_builder::tagged(&bytes, frame_builder::VLAN, tag),
            None if self.routes.chance(4) => frame_builder::tagged(&bytes, frame_builder::VLAN, 0),
            None => bytes,
        };
        Some((place, bytes))
    }
}

impl Generator<'_> {
    /// A frame of a machine on a physical network, for a router there.
    pub(super) fn outside_frame(&mut self) -> Option<(Place, Vec<u8>)> {
        let ports = self.world.router_ports.values().filter(|port| !port.gateways.is_empty());
        let ports: Vec<RouterPort> = ports.cloned().collect();
        if ports.is_empty() {
            return None;
        }
        let port = self.routes.pick(&ports).clone();
        let (_, localnet) = self.world.localnet_of(&port.switch)?;
        let (network, tag) = (localnet.network.clone(), localnet.tag);
        let machines = self.world.ports.values().filter(|machine| machine.switch != port.switch);
        let wanted = machines.flat_map(|machine| machine.addresses.iter().flat_map(|one| one.ips.clone()));
        let number = self.routes.below(2) as u8;
        let own = outside_machine(&port, number);
        let near =
            [self.world.addresses_but(&port.switch, ""), vec![outside_machine(&port, 1 - number)]].concat();
        let ways = Ways {
            own: vec![own.clone()],
            gateways: vec![port.address()],
            wanted: wanted.collect(),
            routers: self.world.router_ports.values().flat_map(|other| other.address().ips).collect(),
            near,
            largest: Vec::new(),
        };
        let bytes = match self.routes.below(10) {
            0..4 => speaks(&mut self.routes, &own, &port),
            _ => routed(&mut self.routes, &ways),
        };
        let bytes = if tag == 0 { bytes } else { frame_builder::tagged(&bytes, frame_builder::VLAN, tag) };
        Some((Place::Tap(network), bytes))
    }
}

/// A machine asks for the router, answers its question, or says where it is.
pub(super) fn speaks(random: &mut Random, own: &Address, port: &RouterPort) -> Vec<u8> {
    let is_answer = random.chance(50);
    let dst = if is_answer && random.chance(90) { port.mac } else { BROADCAST };
    let own_ip = if own.ips.is_empty() { port.networks[0].ip } else { *random.pick(&own.ips) };
    let alike = port.networks.iter().map(|network| network.ip).find(|ip| ip.is_ipv4() == own_ip.is_ipv4());
    let inner = if random.chance(95) { own.mac } else { *random.pick(&[[0; 6], [3, 0xdd, 0, 0, 0, 1]]) };
    match (own_ip, alike.unwrap_or(own_ip)) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (operation, target) = if is_answer { (2, port.mac) } else { (1, [0; 6]) };
            let said = arp(Arp { operation, sender: (inner, from), target: (target, to) });
            ethernet(dst, own.mac, ARP, &said)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let (kind, about, option) = if is_answer { (136, from, 2) } else { (135, to, 1) };
            let (group, of_group) = solicited_node(to);
            let (to, dst) = if is_answer { (to, dst) } else { (group, of_group) };
            let message = icmpv6(neighbour(kind, 0, about, &link_layer(option, inner)), from, to);
            ethernet(dst, own.mac, IPV6, &Ipv6 { hops: 255, ..Ipv6::new(from, to, ICMPV6) }.packet(&message))
        }
        _ => Vec::new(),
    }
}

/// The addresses for frames from a port to the routers of its switch.
fn ways(world: &NumberedWorld, name: &str) -> Ways {
    let Some(port) = world.ports.get(name) else { return Ways::default() };
    let gateways: Vec<Address> =
        world.router_ports_on(&port.switch).map(|(_, gateway)| gateway.address()).collect();
    // The switches behind these routers and the next ones.
    let mut switches = vec![port.switch.as_str()];
    for _ in 0..world.router_ports.len() {
        let routers = world.router_ports.values().filter(|port| switches.contains(&port.switch.as_str()));
        let beside = routers.flat_map(|port| world.ports_of_router(&port.router));
        let beside: Vec<&str> = beside.map(|(_, port)| port.switch.as_str()).collect();
        let before = switches.len();
        switches.extend(beside);
        switches.sort_unstable();
        switches.dedup();
        if switches.len() == before {
            break;
        }
    }
    let is_beyond = |switch: &str| switch != port.switch && switches.contains(&switch);
    // Machines that run, and whose addresses their router knows how to reach.
    let machines =
        world.ports.iter().filter(|(name, other)| is_beyond(&other.switch) && world.location(name).is_some());
    let wanted = machines.flat_map(|(_, other)| {
        let ips = other.addresses.iter().flat_map(|one| one.ips.clone());
        ips.filter(|ip| {
            let mut networks = world.router_ports_on(&other.switch).flat_map(|(_, port)| &port.networks);
            networks.any(|network| network.contains(*ip))
        })
    });
    let outside =
        world.router_ports.values().filter(|other| is_beyond(&other.switch) && !other.gateways.is_empty());
    let outside = outside.flat_map(|port| outside_machine(port, 0).ips);
    let wanted = wanted.chain(outside);
    let routers = world.router_ports.values().filter(|other| switches.contains(&other.switch.as_str()));
    Ways {
        own: port.addresses.clone(),
        gateways,
        wanted: wanted.collect(),
        // With the addresses that any router of a network has (RFC 4291, 2.6.1).
        routers: routers
            .flat_map(|port| {
                let prefixes = port.networks.iter().map(|network| network.prefix().ip);
                port.address().ips.into_iter().chain(prefixes).collect::<Vec<_>>()
            })
            .collect(),
        near: world.addresses_but(&port.switch, name),
        largest: Vec::new(),
    }
}
