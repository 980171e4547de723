//! The messages that the network itself sends, because of a packet that somebody has sent: errors of routers, and what those hear
//! whose packets ACLs reject. They are sent on the host where the packet was dropped, once the packet has come to all that get it.
//!
//! - A router tells the sender of a packet why it does not forward it ([`Why::owes_error`](crate::Why::owes_error)), from an address that it
//!   has on the switch where the packet came from: the one in whose network the sender is, or else the lowest (RFC 1812, 4.3.2.4; RFC 4443,
//!   2.2 d). What is said of a packet for the router itself comes from the address that was asked (RFC 4443, 2.2 a). The message is a packet of
//!   the router: policies and routes send it, and ACLs and port security concern it. But nothing is routed from or to an address of a link, so
//!   what is said to or from one goes back to where the packet came from. Nobody who claims to be the router hears of it.
//! - An ACL that rejects answers in the place of the destination. Where the packet has entered the network, the answer goes straight back to
//!   its port. Where it was to leave, the answer is a packet from the port that it was for, which has not asked for it: its own ACLs and its
//!   port security are not asked. A port rejects only what is for its own MAC addresses: a copy of a flood may be for others, who take it.
//! - A whole TCP segment for the destination is reset (RFC 9293, 3.10.7.1), everything else is answered by an error ([`error`]).
//! - A router's port that advertises answers each valid solicitation of a port of its switch, whatever ACLs say of the answer
//!   ([`advertisement`]). What it sends to all of them from time to time is left out.
//! - The servers of a switch answer requests of its ports ([`requests`]): DHCP ([`dhcpv4`], [`dhcpv6`]) and DNS ([`dns`]).
//! - Nobody hears of what RFC 1122, 3.2.2, RFC 1812, 4.3.2.7, and RFC 4443, 2.4 (e), exclude ([`received`]).
//!
//! Left out: limits of rate. Here, all responders run, and answer everything that they should.

mod advertisement;
mod dhcpv4;
mod dhcpv6;
mod dns;
mod error;
mod meaning;
mod received;
mod requests;

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::acl::Direction;
use crate::frame::Frame;
use crate::model::{Arrival, Sent};
use crate::routing::{Routed, RouterPort, is_link_local};
use crate::{Model, World};

pub use advertisement::{Ra, RaMode};
pub use meaning::{Heard, Says};
use received::Received;
pub(crate) use requests::{Asked, Served};

/// Whether anybody may be told anything because of a frame.
pub(crate) fn may_be_answered(frame: &[u8]) -> bool {
    Received::read(frame).is_some()
}

/// What a message says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Its TTL has ended.
    Expired,
    /// No route leads to its destination.
    NoRoute,
    /// Nobody has the address of its destination or next hop.
    Unreachable,
    /// Its destination does not listen.
    Closed,
    /// The next network carries only so much.
    TooLarge(u16),
    /// An ACL forbids it.
    Rejected,
}

impl Notice {
    /// Whether the destination says it, and not a router on the way.
    fn is_of_destination(self) -> bool {
        matches!(self, Notice::Closed | Notice::Rejected)
    }
}

/// A packet whose sender is to hear of it.
#[derive(Clone, Debug)]
pub(crate) struct Owed {
    /// The host where it was dropped.
    pub(crate) host: String,
    /// The port that it came from; where it was to leave the network, the port that it was for.
    pub(crate) port: String,
    /// The frame.
    pub(crate) bytes: Vec<u8>,
    pub(crate) notice: Notice,
    pub(crate) by: By,
}

/// Who has dropped a packet.
#[derive(Clone, Debug)]
pub(crate) enum By {
    /// A router, and the switch that the packet came from.
    Router { router: String, switch: String },
    /// The ACLs of a direction.
    Acls(Direction),
}

/// The messages that the last frame has caused.
#[derive(Clone, Debug, Default)]
pub(crate) struct Messages {
    owed: VecDeque<Owed>,
    arrived: Vec<Arrival>,
    /// What goes straight to a port of a host.
    straight: Vec<(String, String, Vec<u8>)>,
    /// What a host asks on the physical network of a switch.
    outside: Vec<(String, String, Vec<u8>)>,
    /// Whether a router could not send one.
    unsent: bool,
}

impl Messages {
    pub(crate) fn clear(&mut self) {
        *self = Messages::default();
    }

    /// A port of a host hears this, and nobody else.
    pub(crate) fn tell(&mut self, host: &str, port: &str, bytes: Vec<u8>) {
        self.straight.push((host.to_owned(), port.to_owned(), bytes));
    }

    /// A host asks this on the physical network of a switch.
    pub(crate) fn ask_outside(&mut self, host: &str, switch: &str, bytes: Vec<u8>) {
        self.outside.push((host.to_owned(), switch.to_owned(), bytes));
    }

    pub(crate) fn owe(&mut self, owed: Owed) {
        self.owed.push_back(owed);
    }
}

impl Model {
    /// The messages of the network that the last injected frame has caused, where they arrive, sorted.
    pub fn messages(&self) -> &[Arrival] {
        &self.messages.arrived
    }

    /// Whether a router had to do with the last injected frame, or with a message about it.
    pub fn met_router(&self) -> bool {
        self.routed > 0 || !self.dropped.is_empty() || self.messages.unsent
    }

    /// The routers of its switch are to answer a frame, if it asks for them.
    pub(crate) fn answer_solicitation(&mut self, sent: &Sent<'_>) {
        for bytes in self.world.advertisements(sent) {
            self.messages.tell(sent.host, sent.port, bytes);
        }
    }

    /// Sends the messages that are owed. One may owe another.
    pub(crate) fn send_messages(&mut self) {
        let mut out = Vec::new();
        for (host, port, bytes) in std::mem::take(&mut self.messages.straight) {
            self.hand_over(&host, &port, &bytes, &mut out);
        }
        while let Some(owed) = self.messages.owed.pop_front() {
            let Some(received) = Received::read(&owed.bytes) else { continue };
            match &owed.by {
                By::Router { router, switch } => self.send_error(&owed, &received, router, switch, &mut out),
                By::Acls(direction) => self.send_rejection(&owed, &received, *direction, &mut out),
            }
        }
        for (host, switch, bytes) in std::mem::take(&mut self.messages.outside) {
            self.say_outside(&host, &switch, &bytes, &mut out);
        }
        self.cross_networks(&mut out);
        out.sort();
        self.messages.arrived = out;
    }

    fn send_error(
        &mut self,
        owed: &Owed,
        received: &Received<'_>,
        router: &str,
        switch: &str,
        out: &mut Vec<Arrival>,
    ) {
        let asked = (owed.notice == Notice::Closed).then_some(received.to);
        let Some(source) = asked.or_else(|| self.world.source_on(router, switch, received.from)) else {
            return;
        };
        // Who speaks for the router is not told what the router has said.
        if self.is_address_of(router, received.from) {
            return;
        }
        let Some(bytes) = error::message(received, owed.notice, source) else { return };
        let Some(frame) = Frame::read(&bytes) else { return };
        let sent =
            Sent { host: &owed.host, switch, port: &owed.port, frame: &frame, bytes: &bytes, routers: 0 };
        if is_link_local(received.from) || is_link_local(source) {
            if self.world.localnets.contains_key(&owed.port) {
                return self.say_outside(&owed.host, switch, &bytes, out);
            }
            return self.deliver(&owed.host, &owed.port, &sent, out);
        }
        let Some(packet) = Routed::read(&frame, &bytes) else { return };
        self.messages.unsent |= self.send(&sent, router, &packet, bytes.clone(), out).is_err();
    }

    fn send_rejection(
        &mut self,
        owed: &Owed,
        received: &Received<'_>,
        direction: Direction,
        out: &mut Vec<Arrival>,
    ) {
        let Some(bytes) = error::message(received, owed.notice, received.to) else { return };
        let (Some(frame), Some(switch)) =
            (Frame::read(&bytes), self.world.switch_of(&owed.port).map(str::to_owned))
        else {
            return;
        };
        match direction {
            Direction::FromPort => self.hand_over(&owed.host, &owed.port, &bytes, out),
            Direction::ToPort => {
                let (switch, routers) = (switch.as_str(), 0);
                let sent = Sent {
                    host: &owed.host,
                    switch,
                    port: &owed.port,
                    frame: &frame,
                    bytes: &bytes,
                    routers,
                };
                self.forward(&sent, out);
            }
        }
    }
}

impl World {
    /// The address of a router on a switch from which it speaks to somebody.
    fn source_on(&self, router: &str, switch: &str, to: IpAddr) -> Option<IpAddr> {
        let ports = self.routers_on(switch).chain(self.outside_ports(switch));
        let ports = ports.filter(|(_, port)| port.router == router);
        let networks = ports.flat_map(|(_, port): (_, &RouterPort)| &port.networks);
        let own = networks.filter(|network| network.ip.is_ipv4() == to.is_ipv4());
        own.min_by_key(|network| (!network.contains(to), network.ip)).map(|network| network.ip)
    }
}
