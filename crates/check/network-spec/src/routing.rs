//! Routers: what they do with the packets that come to the MACs of their ports.
//!
//! A router belongs to no host. It forwards a packet where the packet entered the network, whether or not the sender's host
//! has a port of the switch where the packet goes; nothing here asks for hosts.
//!
//! What a router does with a frame to the MAC of one of its ports, in this order:
//! 1. It reads the packet ([`packet`]) and drops what is no IP or damaged (RFC 1812, 5.2.2; RFC 8200, 4), and what no router
//!    forwards because of its addresses ([`addresses`]).
//! 2. A packet to one of its own addresses, or to the anycast address of all routers of a connected network, stays: an echo request is answered, whatever its TTL (RFC 1812, 4.3.3.6 and
//!    5.3.1; RFC 4443, 4.2), everything else is dropped.
//! 3. It decrements the TTL, and drops a packet whose TTL would be 0 (RFC 1812, 5.3.1; RFC 8200, 3).
//! 4. Policies, then routes, choose the next hop ([`table`]); of several, one by the packet's flow ([`choices`]).
//! 5. It looks up the MAC of the next hop, drops what is larger than the next switch carries, and hands the packet to that
//!    switch like any frame from its port there ([`path`]).
//!
//! It also answers ARP requests and neighbour solicitations for its addresses ([`answers`]).
//!
//! Where this deviates from the RFCs, because the switches that do the forwarding cannot do otherwise:
//! - No redirect is sent. [`Why::owes_error`] says which drops a sender hears of, and `messages` what it hears.
//! - IPv4 packets that are too large are dropped, not fragmented (RFC 1812, 5.2.6). Fragments for the router itself are not
//!   reassembled, so none is answered (4.2.2.7).
//! - The version and the checksum of the IPv4 header are not verified (5.2.2). The checksum is updated, not computed anew
//!   (RFC 1624), so that a damaged header stays damaged and its receiver drops it.
//! - IPv4 packets of protocol 0, which is no protocol of IPv4, are dropped: their TTL would not change (5.3.1).
//! - IPv4 options are ignored, source routes too (5.2.4.1; RFC 7126, 4.3, advises to drop these). Hop-by-hop options of IPv6
//!   may be ignored (RFC 8200, 4.3).
//! - Nobody detects duplicates of a router's IPv6 addresses by asking: the answer would be longer than the question.
//! - Proxies answer the announcement of an address that no port declares, as any request for it (RFC 5227, 2.3): switches do not
//!   compare two addresses in a packet.
//! - An echo request with a routing header that has segments left is answered, with a wrong checksum, so that nobody takes the
//!   answer (RFC 5095, 3): switches do not look into routing headers.
//! - A source is not checked against the route back to it (RFC 1812, 5.3.8): paths may be asymmetric, and port security
//!   binds sources where packets enter.
//!
//! At such a port with gateways, a router may translate addresses ([`nat`]).
//!
//! A router's port on a switch with a localnet port is dead without [`gateways`]: it receives, sends and answers nothing. Every host would use
//! its MAC on the physical network, and the bridges there would take it for one that moves all the time.

mod addresses;
mod answers;
mod choices;
mod gateways;
mod nat;
mod objects;
mod packet;
mod path;
mod rewrite;
mod table;
mod translations;

pub(crate) use addresses::{is_link_local, is_martian};
pub(crate) use choices::Choices;
pub(crate) use gateways::Outside;
pub(crate) use nat::Nats;
pub use objects::{
    Network, PolicyAction, PolicyMatch, Reach, Route, RoutePolicy, Router, RouterPort, Target,
};
pub(crate) use packet::Routed;
pub use path::{Dropped, ROUTER_BUDGET, Why};
pub use translations::{Nat, NatKind, NatService};
