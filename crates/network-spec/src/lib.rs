//! What the network does to a frame, said directly: the specification that rules are held against.
//!
//! [`Model::inject`] takes the bytes of a frame at a virtual interface and gives what comes out where. It knows objects
//! and places, and nothing of rules, flow tables, labels or switches; it shares no code with any of them, so that a
//! mistake would have to be made twice to go unnoticed.
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
//! - [`World`]: the objects, where interfaces are, and which tunnels and patch ports there are.
//! - [`Model`]: a frame's way, and what hosts learn from it.
//! - `Frame`: what is read from bytes; `security`: what a port may send and receive; `neighbour`: answers to ARP
//!   requests and neighbour solicitations.
//!
//! Left out on purpose: trees of replication (a copy for each host, however it gets there), labels, the limits of real
//! switches, and whether objects make sense together, which is their validation's business.
#![forbid(unsafe_code)]

mod frame;
mod model;
mod neighbour;
mod security;
mod world;

pub use model::{AGE, Arrival, Model, Tap};
pub use world::{Address, Encap, Form, Localnet, Mac, Node, Port, Switch, Tunnel, World, Zone};
