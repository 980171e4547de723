//! ACLs: what may enter the network at a port of a VM, and what may leave it there.
//!
//! ACLs act at the ports of VMs alone: from a port after its port security, and to a port before its port security. The ports of
//! routers and those to physical networks have none, so a routed packet meets the ACLs of its sender's port, and then, as its last router
//! has sent it, those of its receiver's.
//!
//! What is decided at a port, in this order:
//! 1. The network delivers its own answers to ARP requests and solicitations, whatever the ACLs say. ARP, RARP and the neighbour discovery without which
//!    nobody sends a packet (RFC 4861: solicitations and advertisements of routers and neighbours) meet only the ACLs that ask
//!    for them, and no default.
//! 2. Of a switch, a port group or the port, the ACLs of the direction are asked tier by tier ([`verdict`]).
//! 3. A port is stateful if any of its ACLs, of either direction, allows what is related. It then knows connections
//!    ([`connections`]): the replies of one that may exist pass without being asked ([`stage`]), and so do the errors about it
//!    (RFC 792, RFC 4443).
//! 4. A frame for a group is one of a known connection or of none: it never begins one.
//! 5. The messages of `ICMP` that neither ask, nor answer, nor complain about a packet belong to no connection, so a stateful port drops
//!    them; `ICMPv6` has exceptions, without which nobody is found: neighbour discovery and multicast listeners.
//! 6. A fragment cannot say what it belongs to, so at a stateful port it waits for the whole datagram ([`fragments`]).
//!
//! Where it is not for this specification to say what happens, a packet has several possibilities, and [`Model::outcomes`] names
//! all: how long a silent connection is remembered, whether a damaged packet can belong to one, whether SCTP has ports, whether
//! what comes in fragments begins a connection where it is only allowed, and the few packets of which two directions of one port could be meant.
//!
//! [`Model::outcomes`]: crate::Model::outcomes

mod checksum;
mod connections;
mod fragments;
mod headers;
mod objects;
mod stage;
mod tuple;
mod verdict;

pub(crate) use checksum::{checksum_of, is_intact, is_intact_between, octets};
pub(crate) use headers::{Headers, Segment, Tracked, upper_layer};
pub use objects::{
    Acl, AclAction, AclPlace, AclProtocol, Default as AclDefault, Direction, EtherType, PacketMatch, Peers,
};
pub use stage::Judged;
pub(crate) use stage::Tracking;
pub(crate) use tuple::{Ends, Tuple};
