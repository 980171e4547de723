//! Random migrations: a port may be on two hosts at once, and its machine moves from one to the other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{
    ADVERTISEMENT, ARP, Arp, BROADCAST, ICMPV6, IPV6, Ipv6, RARP, VLAN, arp, ethernet, icmpv6, link_layer,
    neighbour, tagged,
};
use network_spec::{Address, Port};
use test_random::Random;

use super::traffic::vnic;
use super::{Generator, Place, Step};
use crate::frames::{frame, nobody, stranger};
use crate::world::Change;

/// The operation of RARP by which one asks for one's own address (RFC 903).
const REVERSE_REQUEST: u16 = 3;

impl Generator<'_> {
    /// A port requests two hosts, is plugged in at the second, announces itself there, and is left alone by the first: each of
    /// these steps may be left out or come early, with frames from and to the port between any two.
    pub(super) fn migrate(&mut self) {
        let plain = |(name, port): (&String, &Port)| port.parent.is_none().then(|| name.clone());
        let mut ports: Vec<String> = self.world.ports.iter().filter_map(plain).collect();
        let parents: Vec<String> =
            ports.iter().filter(|name| self.world.children(name).next().is_some()).cloned().collect();
        if !parents.is_empty() && self.moves.chance(35) {
            ports = parents;
        }
        let mut hosts: Vec<String> = self.world.nodes.keys().cloned().collect();
        if ports.is_empty() || hosts.len() < 2 {
            return;
        }
        let name = self.moves.pick(&ports).clone();
        self.moves.shuffle(&mut hosts);
        let home = self.world.location(&name).map(str::to_owned);
        if let Some(at) = home.and_then(|home| hosts.iter().position(|host| *host == home)) {
            hosts.swap(0, at);
        }
        let (old, new) = (hosts[0].clone(), hosts[1].clone());
        let mut requested_hosts = hosts;
        requested_hosts.truncate(*self.moves.pick(&[2, 2, 2, 3]));
        if self.moves.chance(25) {
            self.moves.shuffle(&mut requested_hosts);
        }
        self.step_of(&name, |name, port| Change::Port(name, Port { requested_hosts, ..port }));
        for host in [&old, &new] {
            self.follow(vec![Change::Plug(host.clone(), name.clone())]);
            self.traffic(&name);
        }
        for _ in 0..*self.moves.pick(&[1, 1, 2, 3]) {
            let host = if self.moves.chance(85) { &new } else { &old };
            let (host, bytes) = (host.clone(), self.announcement(&name));
            self.steps.push(Step::Send(Place::Vnic(host.clone(), name.clone()), bytes));
            self.traffic(&name);
            if self.moves.chance(50) {
                self.follow(vec![Change::Announce(host, name.clone())]);
                self.traffic(&name);
            }
        }
        let (stays, goes) = if self.moves.chance(70) { (new, old) } else { (old, new) };
        let mut ends = [true, false];
        self.moves.shuffle(&mut ends);
        for shrinks in ends {
            match self.moves.below(3) {
                0 => continue,
                _ if shrinks => {
                    let requested_hosts = vec![stays.clone()];
                    self.step_of(&name, |name, port| Change::Port(name, Port { requested_hosts, ..port }));
                }
                _ => self.follow(vec![Change::Unplug(goes.clone(), name.clone())]),
            }
            self.traffic(&name);
        }
    }

    /// Changes a port, if it is still there.
    fn step_of(&mut self, name: &str, change: impl FnOnce(String, Port) -> Change) {
        if let Some(port) = self.world.ports.get(name).cloned() {
            self.follow(vec![change(name.to_owned(), port)]);
            self.traffic(name);
        }
    }

    /// Adds a transaction that hosts follow together or one after another.
    fn follow(&mut self, changes: Vec<Change>) {
        if !self.moves.chance(40) || self.style.relayed {
            return self.change(changes);
        }
        let before = self.steps.len();
        let name = changes.iter().find_map(|change| match change {
            Change::Port(name, _)
            | Change::Plug(_, name)
            | Change::Unplug(_, name)
            | Change::Announce(_, name) => Some(name.clone()),
            _ => None,
        });
        self.change(changes);
        let frames: Vec<_> = (0..4).filter_map(|_| self.talk(name.as_deref()?)).collect();
        if self.steps.len() > before
            && let Some(Step::Change(changes)) = self.steps.pop()
        {
            let order = self.moves.below(1 << 32);
            self.steps.push(Step::OneByOne { changes, order, frames });
        }
    }

    /// A few frames from and to a port.
    fn traffic(&mut self, name: &str) {
        for _ in 0..self.moves.below(4) {
            let frame = self.talk(name);
            self.steps.extend(frame.map(|(place, bytes)| Step::Send(place, bytes)));
        }
    }

    /// A frame from a port, from wherever it has an interface, or to it from a port of its switch.
    fn talk(&mut self, name: &str) -> Option<(Place, Vec<u8>)> {
        if self.style.routed && self.routes.chance(50) {
            let routed = self.routed_frame(Some(name));
            if routed.is_some() {
                return routed;
            }
        }
        let world = &self.world;
        let port = world.ports.get(name)?;
        let near = |(_, other): &&(String, String)| {
            world
                .ports
                .get(other)
                .is_some_and(|of| other == name || (of.switch == port.switch && of.parent.is_none()))
        };
        let places: Vec<&(String, String)> = world.vnics.keys().filter(near).collect();
        if places.is_empty() {
            return None;
        }
        let (host, from) = (*self.moves.pick(&places)).clone();
        let mut book = vnic(world, &from);
        if from != name && !port.addresses.is_empty() && self.moves.chance(70) {
            book.near = port.addresses.clone();
        }
        if world.ports.get(&from).is_some_and(|port| port.unknown_addresses) {
            book.own.push(nobody(&mut self.moves));
        }
        // An address that was heard behind the port.
        if port.unknown_addresses && self.moves.chance(30) {
            book.near.push(nobody(&mut self.moves));
        }
        Some((Place::Vnic(host, from), frame(&mut self.moves, &book)))
    }

    /// A frame by which a machine, or its hypervisor, announces where it runs; now and then one that is not quite that.
    fn announcement(&mut self, name: &str) -> Vec<u8> {
        let port = self.world.ports.get(name);
        let mut addresses: Vec<Address> = port.map(|port| port.addresses.clone()).unwrap_or_default();
        let mut tags: Vec<u16> = vec![0, 7];
        for (tag, child) in self.world.children(name) {
            tags.push(tag);
            addresses.extend(self.world.ports.get(child).into_iter().flat_map(|port| port.addresses.clone()));
        }
        let random = &mut self.moves;
        if addresses.is_empty() || random.chance(10) {
            addresses = vec![nobody(random)];
        }
        let Address { mac, ips } = random.pick(&addresses).clone();
        let bytes = announcement(random, mac, &ips);
        if random.chance(25) { tagged(&bytes, VLAN, *random.pick(&tags)) } else { bytes }
    }
}

/// An announcement of a machine with these addresses.
fn announcement(random: &mut Random, mac: [u8; 6], ips: &[IpAddr]) -> Vec<u8> {
    let four = ips.iter().find_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None });
    let six = ips.iter().find_map(|ip| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None });
    let inner = if random.chance(10) { stranger(random) } else { mac };
    let to = if random.chance(90) { BROADCAST } else { stranger(random) };
    match random.below(3) {
        0 => {
            let operation = if random.chance(90) { REVERSE_REQUEST } else { random.below(5) as u16 };
            let own = (inner, Ipv4Addr::UNSPECIFIED);
            ethernet(to, mac, RARP, &arp(Arp { operation, sender: own, target: own }))
        }
        1 => {
            let own = (inner, four.unwrap_or(Ipv4Addr::new(10, 0, 0, 250)));
            let operation = *random.pick(&[1, 2]);
            ethernet(to, mac, ARP, &arp(Arp { operation, sender: own, target: own }))
        }
        _ => {
            const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            let from = six.unwrap_or(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x250));
            let to_all = random.chance(90);
            let dst = if to_all { ALL_NODES } else { Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2) };
            let hops = if random.chance(90) { 255 } else { 64 };
            let said = neighbour(ADVERTISEMENT, 0x20, from, &link_layer(2, inner));
            let packet = Ipv6 { hops, ..Ipv6::new(from, dst, ICMPV6) }.packet(&icmpv6(said, from, dst));
            ethernet([0x33, 0x33, 0, 0, 0, if to_all { 1 } else { 2 }], mac, IPV6, &packet)
        }
    }
}
