//! The path of a packet through routers.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::addresses::{is_group, is_link_local, is_martian};
use super::nat::Entered;
use super::objects::RouterPort;
use super::packet::{Routed, address};
use super::table::Way;
use crate::Model;
use crate::frame::Frame;
use crate::messages::{By, Notice, Owed};
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
    /// Nobody inside has the external address that it is for, or it would leave untranslated from an address that is to be translated.
    Translation,
    /// It has entered [`ROUTER_BUDGET`] routers.
    Budget,
}

impl Why {
    /// Whether an ICMP error tells the sender, except about what RFC 1812, 4.3.2.7, and RFC 4443, 2.4 (e), exclude, and:
    ///
    /// - A router knows what ICMP is: what it has no answer to, it drops silently (RFC 1122, 3.2.2; RFC 4443, 2.4 b).
    /// - Whether a machine has the address of a destination may be for a host to know to which its switch sends all that is for the network
    ///   ([`Reach::Relay`](crate::Reach)). That host does not say.
    /// - A port that is nowhere keeps its addresses. Where the sender's host has no port of its switch, the router may say that nobody has them.
    /// - Nothing is said of what is for an anycast address, nor of what a router itself sends, nor of what goes to a network whose port is dead.
    ///
    /// What the configuration drops is dropped silently.
    pub fn owes_error(&self) -> bool {
        match self {
            // Time exceeded, unreachable, and packet too big or fragmentation needed.
            Why::Expired | Why::NoRoute | Why::Unresolved | Why::ForRouter | Why::TooLarge => true,
            Why::NotIp | Why::Martian | Why::Group | Why::LinkLocal => false,
            Why::Policy(_) | Why::Discarded | Why::Budget | Why::Translation => false,
        }
    }
}

/// Why a router does not send a packet, and what it says of it.
pub(crate) struct Unsent {
    why: Why,
    notice: Option<Notice>,
}

impl From<Why> for Unsent {
    fn from(why: Why) -> Unsent {
        let notice = match why {
            Why::NoRoute => Some(Notice::NoRoute),
            Why::Unresolved => Some(Notice::Unreachable),
            _ => None,
        };
        Unsent { why, notice }
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
                    other.nats.unite(&state.nats);
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

    /// The sender of a packet is to hear why the router of a port drops it.
    fn owe(&mut self, sent: &Sent<'_>, port: &RouterPort, bytes: &[u8], notice: Notice) {
        let by = By::Router { router: port.router.clone(), switch: sent.switch.to_owned() };
        let (host, port) = (sent.host.to_owned(), sent.port.to_owned());
        self.messages.owe(Owed { host, port, bytes: bytes.to_vec(), notice, by });
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
        let outside = self.outside_id(port);
        let may_translate = !packet.is_discovery && !is_link_local(packet.src);
        if let Some(id) = outside.filter(|id| may_translate && self.world.is_external(id, packet.dst)) {
            if packet.hops > 1
                && let Entered::Inside(bytes) =
                    self.translate_entering(sent.host, &id, &packet, sent.bytes)?
            {
                return self.send_translated(sent, port, &bytes, out);
            }
            if packet.hops > 1 && !self.is_address_of(&port.router, packet.dst) {
                return Err(Why::Translation);
            }
        }
        if port.has(packet.dst) || self.is_address_of(&port.router, packet.dst) {
            if may_translate && self.is_for_gateway(port, &packet) {
                return self.receive_external(sent, port, &packet, out);
            }
            return self.receive(sent, port, &packet, sent.bytes, out);
        }
        if self.is_anycast_of(&port.router, packet.dst) {
            // Of an address that is of many, no router says that it offers nothing there.
            let unicast = packet.asks_for_echo().then(|| packet.to_unicast(port, sent.bytes)).flatten();
            let (packet, bytes) = unicast.ok_or(Why::ForRouter)?;
            return self.receive(sent, port, &packet, &bytes, out);
        }
        if is_link_local(packet.src) || is_link_local(packet.dst) || packet.is_discovery {
            return Err(Why::LinkLocal);
        }
        if packet.hops <= 1 {
            self.owe(sent, port, sent.bytes, Notice::Expired);
            return Err(Why::Expired);
        }
        self.send_on(sent, port, &packet, out)
    }

    /// Sends a packet on its way, with a TTL that is one less. The sender may hear why that cannot be.
    fn send_on(
        &mut self,
        sent: &Sent<'_>,
        port: &RouterPort,
        packet: &Routed,
        out: &mut Vec<Arrival>,
    ) -> Result<(), Why> {
        self.send(sent, &port.router, packet, packet.forwarded(sent.bytes), out).map_err(|unsent| {
            if let Some(notice) = unsent.notice {
                self.owe(sent, port, sent.bytes, notice);
            }
            unsent.why
        })
    }

    /// A packet that has entered goes on translated. What its sender hears of it is translated back, like any error about it.
    fn send_translated(
        &mut self,
        sent: &Sent<'_>,
        port: &RouterPort,
        bytes: &[u8],
        out: &mut Vec<Arrival>,
    ) -> Result<(), Why> {
        let frame = Frame::read(bytes).ok_or(Why::NotIp)?;
        let packet = Routed::read(&frame, bytes).ok_or(Why::NotIp)?;
        self.send_on(&Sent { frame: &frame, bytes, ..*sent }, port, &packet, out)
    }

    /// Whether a packet from inside for an address of the router is for the gateway, since the address is an external one too. The router
    /// answers echo requests itself.
    fn is_for_gateway(&self, port: &RouterPort, packet: &Routed) -> bool {
        let is_external = |id: &str| self.world.is_external(id, packet.dst);
        let from_outside = self.outside_id(port).is_some_and(|id| is_external(&id));
        let mut ports = self.world.ports_of_router(&port.router).filter(|(_, other)| other.has(packet.dst));
        !from_outside && !packet.asks_for_echo() && ports.any(|(id, _)| is_external(id))
    }

    /// A packet from inside to an address of the router that is an external one too. If nothing takes it, its sender may hear of it or not.
    fn receive_external(
        &mut self,
        sent: &Sent<'_>,
        port: &RouterPort,
        packet: &Routed,
        out: &mut Vec<Arrival>,
    ) -> Result<(), Why> {
        if packet.hops <= 1 {
            self.may_owe(sent, port, packet, &[Notice::Closed, Notice::Expired]);
            return Err(Why::Expired);
        }
        let unsent = self.send(sent, &port.router, packet, packet.forwarded(sent.bytes), out);
        unsent.map_err(|unsent| {
            if unsent.why == Why::Translation {
                self.may_owe(sent, port, packet, &[Notice::Closed]);
            }
            unsent.why
        })
    }

    /// The sender of a packet may hear one of these, or nothing.
    fn may_owe(&mut self, sent: &Sent<'_>, port: &RouterPort, packet: &Routed, notices: &[Notice]) {
        if packet.is_icmp() && notices == [Notice::Closed] {
            return;
        }
        let number = self.choices.decide(notices.len() + 1);
        if let Some(notice) = notices.get(number) {
            self.owe(sent, port, sent.bytes, *notice);
        }
    }

    /// The port of a router on a physical network that this is, by its name.
    fn outside_id(&self, port: &RouterPort) -> Option<String> {
        let mut ports = self.world.outside_ports(&port.switch).filter(|(_, other)| other.mac == port.mac);
        ports.next().map(|(id, _)| id.to_owned())
    }

    /// Whether an address is configured on a port of the router.
    pub(crate) fn is_address_of(&self, router: &str, ip: IpAddr) -> bool {
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
        let Some((answer, mut bytes)) = packet.echo(bytes) else {
            if !packet.is_icmp() {
                self.owe(sent, port, bytes, Notice::Closed);
            }
            return Err(Why::ForRouter);
        };
        if is_link_local(packet.src) || is_link_local(packet.dst) {
            address(&mut bytes, port.mac, sent.frame.src);
            if self.world.localnets.contains_key(sent.port) {
                self.say_outside(sent.host, sent.switch, &bytes, out);
            } else if let Some(frame) = Frame::read(&bytes) {
                self.deliver(sent.host, sent.port, &Sent { frame: &frame, bytes: &bytes, ..*sent }, out);
            }
            return Ok(());
        }
        self.send(sent, &port.router, &answer, bytes, out).map_err(|unsent| unsent.why)
    }

    /// Sends a packet from a router: to its next hop, on the switch that leads there.
    pub(crate) fn send(
        &mut self,
        sent: &Sent<'_>,
        router: &str,
        packet: &Routed,
        mut bytes: Vec<u8>,
        out: &mut Vec<Arrival>,
    ) -> Result<(), Unsent> {
        let hop = self.next_hop(router, packet)?;
        if let Some((egress, _)) =
            self.world.connected(router, hop).filter(|(id, _)| self.world.is_outside(id))
        {
            let egress = egress.to_owned();
            return self.send_outside(sent, &egress, (hop, packet), bytes, out);
        }
        let Some((egress, mac)) = self.world.neighbour(router, hop) else {
            let says = self.world.says_unreachable(sent.host, router, hop);
            return Err(Unsent { why: Why::Unresolved, notice: says.then_some(Notice::Unreachable) });
        };
        let (egress, port) = (egress.to_owned(), self.world.router_ports[egress].clone());
        if let Some(mtu) = self.world.mtu(&port.switch).filter(|mtu| packet.length() > usize::from(*mtu)) {
            return Err(Unsent { why: Why::TooLarge, notice: Some(Notice::TooLarge(mtu)) });
        }
        let may_be_nobody = hop == packet.dst && self.world.may_say_nobody(sent.host, &port.switch, hop);
        if may_be_nobody && self.choices.decide(2) == 1 {
            return Err(Why::Unresolved.into());
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

    /// Sends a packet from a router to a next hop on a physical network, from the gateway that is active. Where that is not the host at which
    /// the packet entered the network, nobody hears that the next hop is unknown. Nobody hears either that a machine in the network of the port is: the
    /// gateway asks for it (RFC 1812, 3.3.2).
    fn send_outside(
        &mut self,
        sent: &Sent<'_>,
        egress: &str,
        (hop, packet): (IpAddr, &Routed),
        mut bytes: Vec<u8>,
        out: &mut Vec<Arrival>,
    ) -> Result<(), Unsent> {
        if let Some(mtu) = self.world.outside_mtu(egress).filter(|mtu| packet.length() > usize::from(*mtu)) {
            return Err(Unsent { why: Why::TooLarge, notice: Some(Notice::TooLarge(mtu)) });
        }
        let unsent = |notice| Unsent { why: Why::Unresolved, notice };
        let host = self.leave_by_gateway(sent.host, egress).ok_or_else(|| unsent(None))?;
        if self.world.is_external(egress, packet.dst) {
            return self.turn_back(sent, &host, egress, (packet, &bytes), out);
        }
        let Some(mac) = self.neighbour_outside(&host, egress, hop) else {
            let asks = self.ask_outside(&host, egress, packet.dst, &bytes);
            return Err(unsent((!asks && host == sent.host).then_some(Notice::Unreachable)));
        };
        let port = self.world.router_ports[egress].clone();
        bytes = self.translate_leaving(&host, egress, packet, bytes)?;
        address(&mut bytes, port.mac, mac);
        self.routed += 1;
        if let Some(frame) = Frame::read(&bytes) {
            let (host, switch, routers) = (host.as_str(), port.switch.as_str(), sent.routers + 1);
            self.forward(&Sent { host, switch, port: egress, frame: &frame, bytes: &bytes, routers }, out);
        }
        Ok(())
    }

    /// A packet from inside for an external address comes back from the gateway, translated, and is routed again. Nobody hears of it if that
    /// cannot be.
    fn turn_back(
        &mut self,
        sent: &Sent<'_>,
        host: &str,
        egress: &str,
        (packet, bytes): (&Routed, &[u8]),
        out: &mut Vec<Arrival>,
    ) -> Result<(), Unsent> {
        let router = self.world.router_ports[egress].router.clone();
        let routers = sent.routers + 1;
        if routers >= ROUTER_BUDGET {
            return Err(Why::Budget.into());
        }
        let bytes = self.translate_hairpin(host, egress, packet, bytes)?;
        let frame = Frame::read(&bytes).ok_or(Why::NotIp)?;
        let packet = Routed::read(&frame, &bytes).ok_or(Why::NotIp)?;
        let sent = Sent { host, frame: &frame, bytes: &bytes, routers, ..*sent };
        self.send(&sent, &router, &packet, bytes.clone(), out)
            .map_err(|unsent| Unsent { notice: None, ..unsent })
    }

    /// The next hop of a packet. Of several, only those count whose MAC is known, or the flows of the others would be lost.
    /// If none is known, the packet is dropped: a less specific route may lead elsewhere.
    fn next_hop(&mut self, router: &str, packet: &Routed) -> Result<IpAddr, Why> {
        match self.world.way(router, packet)? {
            Way::Connected => Ok(packet.dst),
            Way::Via(by, hops) => {
                let is_known = |hop: &IpAddr| {
                    hop.is_ipv4() == packet.dst.is_ipv4() && self.world.may_have_neighbour(router, *hop)
                };
                let known: BTreeSet<IpAddr> = hops.into_iter().filter(is_known).collect();
                self.choices.choose(router, by, packet.flow, &known).ok_or(Why::Unresolved)
            }
        }
    }
}
