//! The path of a packet through routers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::addresses::{is_group, is_link_local, is_martian};
use super::objects::RouterPort;
use super::packet::{Routed, address};
use super::table::Way;
use crate::Model;
use crate::frame::Frame;
use crate::model::{Arrival, Sent};

/// How many routers a frame and the answer to it may enter. A frame that enters more is dropped: with a chain of at most half
/// as many routers, everything passes, also echoes of the last one. Packets on a ring of routers end here, or by their TTL.
pub const ROUTER_BUDGET: usize = 16;

/// A packet that a router has dropped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dropped {
    /// The router.
    pub router: String,
    /// Why.
    pub why: Why,
}

/// Why a router has dropped a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// It is not IP, or damaged.
    NotIp,
    /// Nobody can have its source or destination.
    Martian,
    /// It is from or to a group, or to all hosts of a connected network.
    Group,
    /// It is from or to an address of one link, or a message of neighbour discovery, which stays on its link.
    LinkLocal,
    /// It is to the router, which offers nothing but echoes.
    ForRouter,
    /// Its TTL ended.
    Expired,
    /// The policy of this id drops it.
    Policy(String),
    /// It has no route.
    NoRoute,
    /// Its route says so.
    Discarded,
    /// No port is known to have the address of its destination or next hop, or no network of the router contains it.
    Unresolved,
    /// The next switch carries no packet as large.
    TooLarge,
    /// It has entered [`ROUTER_BUDGET`] routers.
    Budget,
}

impl Why {
    /// Whether an ICMP error should tell the sender, except about what RFC 1812, 4.3.2.7, and RFC 4443, 2.4 (e), exclude.
    /// None is sent; the packet is counted. What the configuration drops is dropped silently.
    pub fn owes_error(&self) -> bool {
        match self {
            // Time exceeded, unreachable, and packet too big or fragmentation needed.
            Why::Expired | Why::NoRoute | Why::Unresolved | Why::ForRouter | Why::TooLarge => true,
            Why::NotIp | Why::Martian | Why::Group | Why::LinkLocal => false,
            Why::Policy(_) | Why::Discarded | Why::Budget => false,
        }
    }
}

impl Model {
    /// The packets of the last injected frame that routers have dropped, in order.
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }

    /// Everything that may become of a frame, depending on which of several next hops its flow takes: the state of the network
    /// after it, and what is delivered. The next hop of a flow is chosen once: whoever watches the network goes on with the state
    /// in which was delivered what was seen. [`Model::inject`] takes the first possibility.
    pub fn outcomes(&self, at: &crate::Tap, bytes: &[u8]) -> Vec<(Model, Vec<Arrival>)> {
        let mut outcomes = Vec::new();
        let mut plan = Some(Vec::new());
        while let Some(choices) = plan {
            let mut model = self.clone();
            model.choices.plan(choices);
            let out = model.inject(at, bytes);
            plan = model.choices.next_plan();
            outcomes.push((model, out));
        }
        outcomes
    }

    /// How many times routers have sent the last injected frame, or an answer to it, on its way.
    pub fn routed(&self) -> usize {
        self.routed
    }

    /// The states of a network, of which one is the true one: those that differ only in the next hops that flows have taken
    /// become one, in which they may have taken any of these, and so do those that differ in the connections that are known. So whoever cannot tell what became of each packet need not follow
    /// all possibilities.
    pub fn unite(states: Vec<Model>) -> Vec<Model> {
        let mut united: Vec<Model> = Vec::new();
        for state in states {
            match united.iter_mut().find(|other| other.differs_in_choices_alone(&state)) {
                Some(other) => {
                    other.choices.unite(state.choices);
                    other.tracking.unite(state.tracking);
                }
                None => united.push(state),
            }
        }
        united
    }

    /// A frame reaches a port of a router.
    pub(crate) fn enter_router(&mut self, sent: &Sent<'_>, port: &RouterPort, out: &mut Vec<Arrival>) {
        if let Err(why) = self.route(sent, port, out) {
            self.dropped.push(Dropped { router: port.router.clone(), why });
        }
    }

    fn route(&mut self, sent: &Sent<'_>, port: &RouterPort, out: &mut Vec<Arrival>) -> Result<(), Why> {
        if sent.routers == ROUTER_BUDGET {
            return Err(Why::Budget);
        }
        let packet = Routed::read(sent.frame, sent.bytes).ok_or(Why::NotIp)?;
        if is_martian(packet.src) || is_martian(packet.dst) {
            return Err(Why::Martian);
        }
        if is_group(packet.src) || is_group(packet.dst) {
            return Err(Why::Group);
        }
        if port.has(packet.dst) || self.is_address_of(&port.router, packet.dst) {
            return self.receive(sent, port, &packet, sent.bytes, out);
        }
        if self.is_anycast_of(&port.router, packet.dst) {
            let (packet, bytes) = packet.to_unicast(port, sent.bytes).ok_or(Why::ForRouter)?;
            return self.receive(sent, port, &packet, &bytes, out);
        }
        if is_link_local(packet.src) || is_link_local(packet.dst) || packet.is_discovery {
            return Err(Why::LinkLocal);
        }
        if packet.hops <= 1 {
            return Err(Why::Expired);
        }
        self.send(sent, &port.router, &packet, packet.forwarded(sent.bytes), out)
    }

    /// Whether an address is configured on a port of the router.
    fn is_address_of(&self, router: &str, ip: IpAddr) -> bool {
        self.world.ports_of_router(router).any(|(_, port)| port.networks.iter().any(|own| own.ip == ip))
    }

    /// Whether an address is that of any router of a network that is connected to the router.
    fn is_anycast_of(&self, router: &str, ip: IpAddr) -> bool {
        self.world
            .ports_of_router(router)
            .any(|(_, port)| port.networks.iter().any(|network| network.is_anycast(ip)))
    }

    /// A packet to the router itself. The answer is a packet like any: policies and routes send it, and ACLs and port security concern it.
    /// But nothing is routed to an address of a link, so the answer to one goes back to where the question came from.
    fn receive(
        &mut self,
        sent: &Sent<'_>,
        port: &RouterPort,
        packet: &Routed,
        bytes: &[u8],
        out: &mut Vec<Arrival>,
    ) -> Result<(), Why> {
        let (answer, mut bytes) = packet.echo(bytes).ok_or(Why::ForRouter)?;
        if is_link_local(packet.src) || is_link_local(packet.dst) {
            address(&mut bytes, port.mac, sent.frame.src);
            if let Some(frame) = Frame::read(&bytes) {
                self.deliver(sent.host, sent.port, &Sent { frame: &frame, bytes: &bytes, ..*sent }, out);
            }
            return Ok(());
        }
        self.send(sent, &port.router, &answer, bytes, out)
    }

    /// Sends a packet from a router: to its next hop, on the switch that leads there.
    fn send(
        &mut self,
        sent: &Sent<'_>,
        router: &str,
        packet: &Routed,
        mut bytes: Vec<u8>,
        out: &mut Vec<Arrival>,
    ) -> Result<(), Why> {
        let hop = self.next_hop(router, packet)?;
        let (egress, mac) = self.world.neighbour(router, hop).ok_or(Why::Unresolved)?;
        let (egress, port) = (egress.to_owned(), self.world.router_ports[egress].clone());
        let mtu = self.world.mtu(&port.switch);
        if mtu.is_some_and(|mtu| packet.length() > usize::from(mtu)) {
            return Err(Why::TooLarge);
        }
        address(&mut bytes, port.mac, mac);
        self.routed += 1;
        if let Some(frame) = Frame::read(&bytes) {
            let (switch, routers) = (port.switch.as_str(), sent.routers + 1);
            let sent = Sent { switch, port: &egress, frame: &frame, bytes: &bytes, routers, ..*sent };
            self.forward(&sent, out);
        }
        Ok(())
    }

    /// The next hop of a packet. Of several, only those count whose MAC is known, or the flows of the others would be lost.
    /// If none is known, the packet is dropped: a less specific route may lead elsewhere.
    fn next_hop(&mut self, router: &str, packet: &Routed) -> Result<IpAddr, Why> {
        match self.world.way(router, packet)? {
            Way::Connected => Ok(packet.dst),
            Way::Via(by, hops) => {
                let is_known = |hop: &IpAddr| {
                    hop.is_ipv4() == packet.dst.is_ipv4() && self.world.neighbour(router, *hop).is_some()
                };
                let known: BTreeSet<IpAddr> = hops.into_iter().filter(is_known).collect();
                self.choices.choose(router, by, packet.flow, &known).ok_or(Why::Unresolved)
            }
        }
    }
}
