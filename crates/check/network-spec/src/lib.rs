//! The specification that the rules are checked against: how the network forwards a frame, written directly.
//!
//! [`Model::inject`] takes the bytes of a frame at a virtual interface and returns the frames delivered, with their places.
//! It knows objects and places, but no rules, flow tables, labels or switches. It shares no code with any of them but the names of tunnel
//! encapsulations, so a mistake goes unnoticed only if it is made twice.
//!
//! [`World`] is the only description of a network: whoever generates networks or turns them into something else uses it too. It has all
//! that users say of an object, also what has no effect on frames, such as the reach of a router.
//!
//! ```
//! use network_spec::{Address, Model, Node, Port, Switch, Tap, World};
//!
//! let mut world = World::default();
//! world.nodes.insert("hv1".into(), Node::default());
//! world.switches.insert("blue".into(), Switch::default());
//! for (number, port) in [(1, "a"), (2, "b")] {
//!     let addresses = vec![Address { mac: [2, 0, 0, 0, 0, number], ips: vec![] }];
//!     world.ports.insert(port.into(), Port { switch: "blue".into(), addresses, ..Port::default() });
//!     world.vnics.insert(("hv1".into(), port.into()), 1);
//! }
//! let mut model = Model::new(world);
//! let frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5][..], b"hello"].concat();
//! let out = model.inject(&Tap::vnic("hv1", "a"), &frame);
//! assert_eq!(out.len(), 1);
//! assert_eq!((&out[0].at, &out[0].frame), (&Tap::vnic("hv1", "b"), &frame));
//! ```
//!
//! In reading order:
//! - [`World`]: the objects, the places of interfaces, and the tunnel ports that switches fail to create; `underlay`: the
//!   tunnel and patch ports that follow, and the ways of floods.
//! - [`Model`]: the path of a frame; `learned`: the addresses that hosts learn from it.
//! - `migration`: the home of a port and the hosts that stand by for it, and the announcements of machines.
//! - `serving`: the hosts that may lead branches of floods and relay for others.
//! - `overlay`: the MTU of a switch, and the sources whose packets hosts refuse.
//! - `allowed`: the addresses that a port may use, its own and those that it is [`Allowed`] besides.
//! - `Frame`: parsing; `guard`: the frames that no port may send, and those of routers and DHCP servers; `security`: the
//!   frames that a port may send and receive; `neighbour`: answers to ARP requests and neighbour solicitations.
//! - `routing`: routers, from the frame to the MAC of one of their ports to the frame that leaves at another.
//! - [`acl`](Acl): ACLs, address groups and port groups, and the connections that ports know.
//! - `messages`: what the network itself says, because of a frame: errors of routers, and what the sender of a rejected packet hears,
//!   and the answers of `services`, the DHCP servers and DNS zones of switches.
//! - `problems`: what users must see of a network that cannot work as configured.
//! - [`Transition`]: the frames that may arrive while hosts change one after another.
//!
//! Left out on purpose: labels, the limits of real switches, and the validation of objects.
#![forbid(unsafe_code)]

mod acl;
mod allowed;
mod frame;
mod given;
mod guard;
mod identity;
mod learned;
mod messages;
mod migration;
mod model;
mod neighbour;
mod overlay;
mod problems;
mod routing;
mod security;
mod services;
mod serving;
mod transition;
mod underlay;
mod world;

pub use acl::{
    Acl, AclAction, AclDefault, AclPlace, AclProtocol, Direction, EtherType, Judged, PacketMatch, Peers,
};
pub use allowed::Allowed;
pub use messages::{Heard, Ra, RaMode, Says};
pub use model::{Arrival, Model, Tap};
pub use problems::{MOST_LOCAL_PORTS, Problem};
pub use routing::{
    Dropped, Nat, NatKind, NatService, Network, PolicyAction, PolicyMatch, ROUTER_BUDGET, Reach, Route,
    RoutePolicy, Router, RouterPort, Target, Why,
};
pub use services::{Dhcp, DnsData, DnsZone, Server};
pub use transition::Transition;
pub use world::{
    Address, Encap, Form, Learning, Localnet, Mac, Node, Port, Switch, Trees, Trust, Tunnel, World, Zone,
};
