//! Random frames for an existing network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow_simulator::{Encapsulation, Tunnelled};
use frame_builder::BROADCAST;
use network_spec::{Address, Port, World};
use test_random::Random;

use super::allowed::allowed_to;
use super::objects::NETWORKS;
use super::{Generator, Place, Step};
use crate::frames::{Book, frame, nobody};
use crate::world::{AUDIENCES, NumberedWorld, audience, routed};

impl Generator<'_> {
    pub(super) fn send(&mut self) {
        let frame = self.some_frame();
        self.steps.extend(frame.map(|(place, bytes)| Step::Send(place, bytes)));
    }

    /// A frame, and where it is sent.
    pub(super) fn some_frame(&mut self) -> Option<(Place, Vec<u8>)> {
        if self.style.outside && self.routes.chance(30) {
            let from_outside = self.outside_frame();
            if from_outside.is_some() {
                return from_outside;
            }
        }
        if self.style.routed && self.routes.chance(self.style.to_routers) {
            let routed = self.routed_frame(None);
            if routed.is_some() {
                return routed;
            }
        }
        let taps = if self.world.localnets.is_empty() { 0 } else { 12 };
        let place = if self.random.chance(taps) {
            Place::Tap(self.random.pick(&NETWORKS).0.to_owned())
        } else {
            let usual = self.random.chance(90);
            let own = |world: &World| {
                let vifs = world.vnics.keys().filter(|(host, port)| {
                    let port_there = world.ports.get(port).is_some_and(|port| port.parent.is_none());
                    !usual || (port_there && world.location(port) == Some(host))
                });
                vifs.cloned().collect()
            };
            let (host, port) = self.some(own)?;
            Place::Vnic(host, port)
        };
        let mut book = match &place {
            Place::Vnic(_, port) => vnic(&self.world, port),
            Place::Tap(network) => tap(&self.world, network),
        };
        let strangers: Vec<Address> = (0..2).map(|_| nobody(self.random)).collect();
        let learns = |port: &str| self.world.ports.get(port).is_some_and(|port| port.unknown_addresses);
        if matches!(&place, Place::Vnic(_, port) if learns(port)) {
            book.own.extend(strangers);
        }
        let mut bytes = frame(self.random, &book);
        if self.random.chance(2) {
            // Jumbo frames, and those that just fit; the rest is padding.
            bytes.resize(*self.random.pick(&[1514, 1518, 9000]), 0);
        }
        Some((place, bytes))
    }

    /// A packet in a tunnel to some host, from a node or a stranger, with a key that some host knows.
    pub(super) fn forge(&mut self) {
        let Some(host) = self.some_host() else { return };
        let at = self.world.nodes[&host].ip;
        let nodes = |world: &World| {
            let alike = world.nodes.values().filter(|node| node.ip.is_ipv4() == at.is_ipv4());
            alike.map(|node| node.ip).collect()
        };
        let stranger: IpAddr = match at {
            IpAddr::V4(_) => Ipv4Addr::new(172, 16, 9, 9).into(),
            IpAddr::V6(_) => Ipv6Addr::new(0xfd00, 0, 0, 0xbad, 0, 0, 0, 9).into(),
        };
        let from = self.some(nodes).filter(|_| self.random.chance(60)).unwrap_or(stranger);
        let Some(key) = self.some_key() else { return };
        let encapsulation = *self.random.pick(&[
            Encapsulation::Geneve,
            Encapsulation::Geneve,
            Encapsulation::Vxlan,
            Encapsulation::Gre,
        ]);
        let option = self.some_key().filter(|_| self.random.chance(80));
        let far = self.world.ports.values().flat_map(|port| port.addresses.clone()).collect();
        let inner = frame(self.random, &Book { far, ..Book::default() });
        self.steps.push(Step::Forge(host, Tunnelled { encapsulation, from, key, option, inner }));
    }

    /// The label of a port, or of the copies for ports of a switch.
    fn some_key(&mut self) -> Option<u32> {
        if self.style.routed && self.routes.chance(40) {
            let keys = self.world.router_ports.iter();
            let keys = keys.flat_map(|(name, port)| [name.clone(), routed(&port.switch)]);
            let keys: Vec<u32> = keys.map(|name| self.world.labels.port(&name)).collect();
            return (!keys.is_empty()).then(|| *self.routes.pick(&keys));
        }
        if self.random.chance(60) {
            let port = self.some(|world| world.ports.keys().cloned().collect())?;
            return Some(self.world.labels.port(&port));
        }
        let switch = self.some(|world| world.switches.keys().cloned().collect())?;
        let (who, relay) = (*self.random.pick(&AUDIENCES), self.random.chance(30));
        Some(self.world.labels.port(&audience(&switch, who, relay)))
    }

    /// Sends a frame from or to one of a few addresses that move between the learning ports of a switch. They send to all, to
    /// each other, where only one host hears them, and to ports.
    pub(super) fn roam(&mut self) {
        let world = &self.world;
        let learns = |switch: &str| world.ports_of(switch).any(|(_, port)| port.unknown_addresses);
        let there = |(host, name): &&(String, String)| {
            let usual = |port: &Port| port.parent.is_none() && learns(&port.switch);
            world.location(name) == Some(host) && world.ports.get(name).is_some_and(usual)
        };
        let places: Vec<&(String, String)> = world.vnics.keys().filter(there).collect();
        if places.is_empty() {
            return;
        }
        let (host, name) = (*self.limits.pick(&places)).clone();
        let port = &world.ports[&name];
        let roamer = |random: &mut Random| [0x02, 0xee, 0, 0, 0, random.below(3) as u8];
        let own = port.addresses.first().map(|one| one.mac);
        let src = own.filter(|_| !port.unknown_addresses || self.limits.chance(10));
        let src = src.unwrap_or_else(|| roamer(&mut self.limits));
        let near = world.addresses_but(&port.switch, &name);
        let dst = match self.limits.below(10) {
            0..2 => BROADCAST,
            2..5 if !near.is_empty() => self.limits.pick(&near).mac,
            _ => roamer(&mut self.limits),
        };
        let bytes = [&dst[..], &src, &[0x88, 0xb5], b"roaming"].concat();
        self.steps.push(Step::Send(Place::Vnic(host, name), bytes));
    }
}

/// The addresses for frames from a port's vNIC.
pub(super) fn vnic(world: &NumberedWorld, name: &str) -> Book {
    let far = world.ports.values().flat_map(|port| port.addresses.clone()).collect();
    let Some(port) = world.ports.get(name) else {
        return Book { near: far, ..Book::default() };
    };
    let behind = world.children(name).filter_map(|(tag, child)| {
        let port = world.ports.get(child)?;
        Some((tag, port.addresses.clone(), world.addresses_but(&port.switch, child)))
    });
    let others = world.ports_of(&port.switch).filter(|(other, _)| *other != name);
    let near = others.flat_map(|(_, other)| allowed_to(other));
    Book {
        own: port.addresses.iter().cloned().chain(allowed_to(port)).collect(),
        near: world.addresses_but(&port.switch, name).into_iter().chain(near).collect(),
        far,
        tags: behind.collect(),
        tagged: false,
    }
}

/// The addresses for frames from a machine on a physical network.
fn tap(world: &NumberedWorld, network: &str) -> Book {
    let ips = vec!["10.0.0.77".parse().expect("an address")];
    let machine = Address { mac: [2, 0xdd, 0, 0, 0, 1], ips };
    let mut book = Book { own: vec![machine.clone()], tagged: true, ..Book::default() };
    for localnet in world.localnets.values().filter(|localnet| localnet.network == network) {
        let near = world.addresses_but(&localnet.switch, "");
        if localnet.tag == 0 {
            book.near = near;
            book.tagged = false;
        } else {
            book.tags.push((localnet.tag, vec![machine.clone()], near));
        }
    }
    book
}
