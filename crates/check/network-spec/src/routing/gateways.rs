//! Ports of routers on physical networks, which gateways connect.
//!
//! A physical network sees each MAC at one place, so one host at a time speaks for such a port: the first of its gateways that works.
//! Here all work. What a router sends by the port goes through tunnels to that host, wherever it entered the network, and leaves there.
//! What the network sends to the port enters there. The other gateways stand by: they drop what the network sends to the port, since the
//! active one has it too, but for those that have just been active, which hand it over, since bridges may still believe in them.
//!
//! Machines on the physical network are declared by nobody, so the router asks for their MACs (RFC 826, RFC 4861), or has heard
//! them ask for its own. Answers and questions to all reach every gateway, or those that hear them tell the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::objects::{Network, RouterPort};
use crate::frame::{Body, Frame, Payload, is_group};
use crate::model::{Arrival, Sent};
use crate::neighbour::{Question, ROUTER, question};
use crate::world::{Encap, Mac};
use crate::{Model, World};

/// How long a gateway remembers a neighbour since it has heard it last.
const NEIGHBOUR_AGE: Duration = Duration::from_mins(5);

/// What gateways know of physical networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outside {
    now: Duration,
    /// The MACs of neighbours, and until when they are believed, by gateway, switch and address: all routers there know them.
    neighbours: BTreeMap<(String, String, IpAddr), (Mac, Duration)>,
    /// The gateways that have been active for a port: (gateway, port).
    led: BTreeSet<(String, String)>,
}

impl Outside {
    /// Forgets what nobody is there any more to know, and what was known of ports that are others now.
    pub(crate) fn revise(&mut self, world: &World, others: &BTreeSet<String>) {
        let stays = |host: &str, port: &str| world.gateways(port).contains(&host) && !others.contains(port);
        self.neighbours.retain(|(host, switch, _), _| world.is_gateway_on(host, switch));
        self.led.retain(|(host, port)| stays(host, port));
    }

    pub(crate) fn advance(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        self.neighbours.retain(|_, (_, until)| *until >= now);
    }

    fn find(&self, host: &str, switch: &str, ip: IpAddr) -> Option<Mac> {
        self.neighbours.get(&(host.to_owned(), switch.to_owned(), ip)).map(|(mac, _)| *mac)
    }

    fn hear(&mut self, host: &str, switch: &str, (ip, mac): (IpAddr, Mac)) {
        let until = self.now + NEIGHBOUR_AGE;
        self.neighbours.insert((host.to_owned(), switch.to_owned(), ip), (mac, until));
    }
}

impl World {
    /// The gateways of a router's port, in the order in which they are active: those that serve, by priority, then by name. Those without a
    /// bridge to the physical network are none.
    pub fn gateways(&self, port: &str) -> Vec<&str> {
        let Some(port) = self.router_ports.get(port) else { return Vec::new() };
        let Some((_, localnet)) = self.localnet_of(&port.switch) else { return Vec::new() };
        let able = |(name, _): &&(String, i64)| {
            self.nodes.get(name).is_some_and(|node| node.mappings.contains_key(&localnet.network))
        };
        let mut able: Vec<&(String, i64)> = port.gateways.iter().filter(able).collect();
        able.sort_by_key(|(name, priority)| (!self.nodes[name].serves(), -priority, name));
        able.into_iter().map(|(name, _)| name.as_str()).collect()
    }

    /// The ports of routers on the physical network of a switch.
    pub(crate) fn outside_ports<'a>(
        &'a self,
        switch: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a RouterPort)> {
        let is_outside = self.localnet_of(switch).is_some();
        let ports = self.router_ports.iter().filter(move |(_, port)| is_outside && port.switch == switch);
        ports.filter(|(_, port)| !port.gateways.is_empty()).map(|(id, port)| (id.as_str(), port))
    }

    /// Whether a port of a router is on a physical network by gateways.
    pub(crate) fn is_outside(&self, id: &str) -> bool {
        self.router_ports
            .get(id)
            .is_some_and(|port| !port.gateways.is_empty() && self.localnet_of(&port.switch).is_some())
    }

    /// Whether a port of a router neither sends nor receives: on a physical network without gateways, or with gateways on none.
    pub(crate) fn is_dead(&self, port: &RouterPort) -> bool {
        self.localnet_of(&port.switch).is_some() == port.gateways.is_empty()
    }

    /// Whether a host is a gateway of a router's port on a switch.
    pub(crate) fn is_gateway_on(&self, host: &str, switch: &str) -> bool {
        self.outside_ports(switch).any(|(id, _)| self.gateways(id).contains(&host))
    }

    /// The parts of the network that packets do not leave through tunnels, of which a host knows one: a switch that stands for all that routers
    /// join with it, or a router that joins none.
    pub(crate) fn overlays(&self, host: &str) -> BTreeSet<String> {
        let known = self
            .switches
            .keys()
            .filter(|switch| self.localnet_of(switch).is_none() && self.knows(host, switch));
        let mut overlays: BTreeSet<String> = known.map(|switch| self.overlay_of_switch(switch)).collect();
        let ports = self.router_ports.iter().filter(|(id, _)| self.gateways(id).contains(&host));
        overlays.extend(ports.map(|(_, port)| self.overlay_of_router(&port.router)));
        overlays
    }

    fn overlay_of_switch(&self, switch: &str) -> String {
        self.linked(switch).into_iter().min().unwrap_or(switch).to_owned()
    }

    fn overlay_of_router(&self, router: &str) -> String {
        let mut joined = self
            .ports_of_router(router)
            .filter(|(_, port)| port.gateways.is_empty() && self.localnet_of(&port.switch).is_none());
        let alone = || format!("router {router}");
        joined.next().map_or_else(alone, |(_, port)| self.overlay_of_switch(&port.switch))
    }

    /// The hosts whose packets may come to a router.
    fn hosts_of_router(&self, router: &str) -> BTreeSet<&str> {
        let overlay = self.overlay_of_router(router);
        let hosts = self.nodes.keys().map(String::as_str);
        hosts.filter(|host| self.overlays(host).contains(&overlay)).collect()
    }

    /// Whether one of two hosts is a gateway that the other one sends to, so that they have tunnel ports for each other alone.
    pub(crate) fn are_linked_by_gateway(&self, one: &str, other: &str) -> bool {
        let sends_to = |from: &str, to: &str| {
            self.router_ports.iter().any(|(id, port)| {
                self.gateways(id).contains(&to) && self.hosts_of_router(&port.router).contains(from)
            })
        };
        one != other && (sends_to(one, other) || sends_to(other, one))
    }

    /// The encapsulation of the tunnel of a host to a gateway, by tunnel ports that lead from each of them to the other alone.
    fn tunnel_to_gateway(&self, from: &str, to: &str) -> Option<Encap> {
        if !self.are_linked_by_gateway(from, to) {
            return None;
        }
        let (sender, receiver) = (self.nodes.get(from)?, self.nodes.get(to)?);
        let both = |encap: &&Encap| {
            self.can_make_tunnel_to(from, **encap, to) && self.can_make_tunnel_to(to, **encap, from)
        };
        sender.meets(receiver).then(|| sender.encaps.iter().find(both).copied())?
    }

    /// The first gateway of a port that a host sends to. A gateway sends only to those before it; to none if it is the first.
    fn next_gateway(&self, host: &str, port: &str) -> Option<String> {
        let gateways = self.gateways(port);
        let before = gateways.iter().take_while(|gateway| **gateway != host);
        before.copied().find(|gateway| self.tunnel_to_gateway(host, gateway).is_some()).map(str::to_owned)
    }

    /// The largest IP packet that passes from a router's port to its physical network: through the tunnels to its gateways, and there.
    pub fn outside_mtu(&self, id: &str) -> Option<u16> {
        const ETHERNET: u16 = 1500;
        let port = self.router_ports.get(id)?;
        let mut tunnels: Vec<u16> = Vec::new();
        for gateway in self.gateways(id) {
            let hosts = self.hosts_of_router(&port.router);
            tunnels.extend(hosts.into_iter().filter_map(|from| self.tunnel_mtu(from, gateway)));
        }
        self.is_outside(id).then(|| tunnels.into_iter().chain([ETHERNET]).min())?
    }

    /// The MAC of an address on the switch of a router's port that the network itself knows: of a port that does not live on the
    /// physical network, or of a router.
    fn declared_outside(&self, switch: &str, ip: IpAddr) -> Option<Mac> {
        let routers = self.outside_ports(switch).filter(|(_, port)| port.has(ip)).map(|(_, port)| port.mac);
        let ports = self.ports_of(switch).filter(|(id, _)| !self.lives_outside(id));
        let mut addresses = ports.flat_map(|(_, port)| &port.addresses);
        let of_port = addresses.find(|address| address.ips.contains(&ip)).map(|address| address.mac);
        routers.min().or(of_port)
    }
}

/// What a frame says of its sender, which a router may believe: a MAC is that of one machine (RFC 1812, 3.3.2).
fn says(frame: &Frame, networks: &[Network]) -> Option<(IpAddr, Mac)> {
    let (ip, mac): (IpAddr, Mac) = match &frame.body {
        Body::Arp(Some(arp)) => (arp.sender.1.into(), arp.sender.0),
        Body::Ipv6(Some(packet)) => match packet.payload {
            Payload::Solicitation(neighbour) => (packet.src.into(), neighbour.source?),
            Payload::Advertisement(neighbour) => (neighbour.target.into(), neighbour.own?),
            _ => return None,
        },
        _ => return None,
    };
    let is_near = networks.iter().any(|network| network.contains(ip));
    (is_near && !is_group(mac) && mac != [0; 6]).then_some((ip, mac))
}

/// Whether a frame answers a question about an address.
fn is_answer(frame: &Frame) -> bool {
    match &frame.body {
        Body::Arp(Some(arp)) => arp.operation == 2,
        Body::Ipv6(Some(packet)) => matches!(packet.payload, Payload::Advertisement(_)),
        _ => false,
    }
}

impl Model {
    /// Whether a host is the active gateway of a router's port, as it sees it.
    fn leads(&self, host: &str, id: &str) -> bool {
        self.world.gateways(id).contains(&host) && self.world.next_gateway(host, id).is_none()
    }

    fn copy_to(&mut self, from: &str, to: &str) {
        *self.copies.entry((from.to_owned(), to.to_owned())).or_default() += 1;
    }

    /// A frame from a physical network at a gateway. Returns whether it was a question or an answer for a router's port there, which goes
    /// no further.
    pub(crate) fn hear_outside(&mut self, sent: &Sent<'_>, out: &mut Vec<Arrival>) -> bool {
        let of_host = |id: &str| self.world.gateways(id).contains(&sent.host);
        let ports = self.world.outside_ports(sent.switch).filter(|(id, _)| of_host(id));
        let ports: Vec<(String, RouterPort)> =
            ports.map(|(id, port)| (id.to_owned(), port.clone())).collect();
        for (id, port) in ports {
            let is_own = |ip| port.has(ip) || self.world.is_external_near(&id, ip);
            let question = Question::read(sent.frame).filter(|question| is_own(question.target()));
            if let Some(question) = question {
                if let Some(said) = says(sent.frame, &port.networks) {
                    self.outside.hear(sent.host, &port.switch, said);
                }
                if self.leads(sent.host, &id) {
                    let answer = question.answer(sent.bytes, port.mac, ROUTER);
                    self.say_outside(sent.host, sent.switch, &answer, out);
                }
                return true;
            }
            if sent.frame.dst == port.mac && is_answer(sent.frame) {
                self.hear_answer(sent, &id, &port);
                return true;
            }
        }
        false
    }

    /// A gateway hears an answer, and tells the others.
    fn hear_answer(&mut self, sent: &Sent<'_>, id: &str, port: &RouterPort) {
        let others: Vec<String> = self.world.gateways(id).into_iter().map(str::to_owned).collect();
        for other in others {
            let told = other != sent.host && self.world.tunnel_to_gateway(sent.host, &other).is_some();
            if told {
                self.copy_to(sent.host, &other);
            }
            if let Some(said) = says(sent.frame, &port.networks).filter(|_| told || other == sent.host) {
                self.outside.hear(&other, &port.switch, said);
            }
        }
    }

    /// A frame for the MAC of a router's port on a physical network.
    pub(crate) fn forward_to_gateway(&mut self, sent: &Sent<'_>, id: &str, out: &mut Vec<Arrival>) {
        let is_from_network = self.world.localnets.contains_key(sent.port);
        if !self.world.gateways(id).contains(&sent.host) {
            if !is_from_network {
                self.leave_for_network(sent, out);
            }
            return;
        }
        let Some(next) = self.world.next_gateway(sent.host, id) else {
            return self.enter_by_gateway(sent, id, out);
        };
        // Nobody says how long ago it was active.
        let has_led = self.outside.led.contains(&(sent.host.to_owned(), id.to_owned()));
        if is_from_network && !(has_led && self.choices.decide(2) == 1) {
            return;
        }
        self.hand_over_to(sent, id, next, out);
    }

    /// A gateway hands a frame for a router's port to the one before it, and so on.
    fn hand_over_to(&mut self, sent: &Sent<'_>, id: &str, next: String, out: &mut Vec<Arrival>) {
        let mut host = sent.host.to_owned();
        let mut next = Some(next);
        while let Some(to) = next {
            self.copy_to(&host, &to);
            next = self.world.next_gateway(&to, id);
            host = to;
        }
        let Some((localnet, _)) = self.world.localnet_of(sent.switch) else { return };
        let port = localnet.to_owned();
        self.enter_by_gateway(&Sent { host: &host, port: &port, ..*sent }, id, out);
    }

    /// A frame enters a router at the gateway that is active. The router answers questions to it alone.
    fn enter_by_gateway(&mut self, sent: &Sent<'_>, id: &str, out: &mut Vec<Arrival>) {
        let port = self.world.router_ports[id].clone();
        self.outside.led.insert((sent.host.to_owned(), id.to_owned()));
        let is_own = |ip| port.has(ip) || self.world.is_external_near(id, ip);
        match Question::to_router(sent.frame).filter(|question| is_own(question.target())) {
            Some(question) => {
                let answer = question.answer(sent.bytes, port.mac, ROUTER);
                self.return_to_port(sent.host, sent.switch, sent.port, &answer, out);
            }
            None => self.enter_router(sent, &port, out),
        }
    }

    /// The answer of a router to what came from a port, which goes back there.
    fn return_to_port(&mut self, host: &str, switch: &str, port: &str, bytes: &[u8], out: &mut Vec<Arrival>) {
        if self.world.localnets.contains_key(port) {
            self.say_outside(host, switch, bytes, out);
        } else {
            self.hand_over(host, port, bytes, out);
        }
    }

    /// A host says something on the physical network of a switch.
    pub(crate) fn say_outside(&mut self, host: &str, switch: &str, bytes: &[u8], out: &mut Vec<Arrival>) {
        let Some(frame) = Frame::read(bytes) else { return };
        // From no port, so it is not kept from leaving.
        self.leave_for_network(&Sent { host, switch, port: "", frame: &frame, bytes, routers: 0 }, out);
    }

    /// The gateway where a packet leaves a router by a port, from a host.
    pub(crate) fn leave_by_gateway(&mut self, from: &str, id: &str) -> Option<String> {
        let mut host = from.to_owned();
        while let Some(next) = self.world.next_gateway(&host, id) {
            self.copy_to(&host, &next);
            host = next;
        }
        self.world.gateways(id).contains(&host.as_str()).then_some(host)
    }

    /// A gateway asks for the destination of a packet, if that is in a network of the router's port. Returns whether it is. Errors ask for nothing,
    /// as they cause no errors.
    pub(crate) fn ask_outside(&mut self, host: &str, id: &str, target: IpAddr, about: &[u8]) -> bool {
        let Some(port) = self.world.router_ports.get(id) else { return false };
        let Some(own) = port.networks.iter().find(|network| network.contains(target)) else { return false };
        if crate::messages::may_be_answered(about) {
            let bytes = question(port.mac, own.ip, target).unwrap_or_default();
            let switch = port.switch.clone();
            self.messages.ask_outside(host, &switch, bytes);
        }
        true
    }

    /// The MAC of a next hop on the physical network of a router's port, as a gateway knows it.
    pub(crate) fn neighbour_outside(&self, host: &str, id: &str, ip: IpAddr) -> Option<Mac> {
        let switch = &self.world.router_ports.get(id)?.switch;
        self.world.declared_outside(switch, ip).or_else(|| self.outside.find(host, switch, ip))
    }
}
