//! The network as its users and its switches state it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// All that a frame's way depends on, but what was learned. Everything goes by name, and all fields are free to change:
/// the model asks only that a port's switch and parent are there, and that addresses are unique where they must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// Transport zones. The zone that nodes without one are in is named "", and is there even if not listed.
    pub zones: BTreeMap<String, Zone>,
    /// Hosts.
    pub nodes: BTreeMap<String, Node>,
    /// Logical switches.
    pub switches: BTreeMap<String, Switch>,
    /// Ports of logical switches.
    pub ports: BTreeMap<String, Port>,
    /// Localnet ports. No port and localnet port share a name, and a switch has at most one.
    pub localnets: BTreeMap<String, Localnet>,
    /// Which interfaces hosts report: (host, port), and the number of the transaction in which it appeared there. While a
    /// VM migrates, two hosts report its port, and the one with the greater number has it.
    pub vnics: BTreeMap<(String, String), u64>,
    /// Which tunnel ports there really are.
    pub tunnels: BTreeSet<Tunnel>,
    /// Which hosts really have a patch port for a localnet port: (host, localnet port).
    pub patches: BTreeSet<(String, String)>,
}

/// A transport zone: there are tunnels inside it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// How its tunnels are made.
    pub form: Form,
    /// The largest IP packet that the network between its hosts carries.
    pub mtu: u16,
}

impl Default for Zone {
    fn default() -> Zone {
        Zone { form: Form::Flow, mtu: 1500 }
    }
}

/// How the tunnels of a zone are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A host has one tunnel port for each encapsulation, which serves all peers.
    Flow,
    /// A host has one for each peer and encapsulation.
    Port,
}

/// How hosts carry frames to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encap {
    /// Says which port a frame came from.
    Geneve,
    /// Does not.
    Vxlan,
    /// Does not.
    Gre,
    /// Does not; no switch that we know carries it.
    Stt,
}

impl Encap {
    /// Bytes between the IP packet that is carried and the one that carries it.
    pub fn overhead(self) -> u16 {
        match self {
            // IP, UDP, the tunnel's header, and the Ethernet header inside; geneve has an option of 8 bytes as well.
            Encap::Geneve => 20 + 8 + 8 + 8 + 14,
            Encap::Vxlan => 20 + 8 + 8 + 14,
            // IP, GRE with a key, Ethernet.
            Encap::Gre => 20 + 8 + 14,
            // IP, TCP, STT, Ethernet.
            Encap::Stt => 20 + 20 + 18 + 14,
        }
    }
}

/// A tunnel port of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tunnel {
    /// The host.
    pub host: String,
    /// What it wraps frames in.
    pub encap: Encap,
    /// The host at the other end; none for one that serves all peers.
    pub peer: Option<String>,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The transport zone that it is in.
    pub zone: String,
    /// The encapsulations that it can do, first the one that it prefers.
    pub encaps: Vec<Encap>,
    /// Which physical networks it is on, and the bridge that leads there.
    pub mappings: BTreeMap<String, String>,
}

/// A logical switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// Whose it is; says nothing about any frame.
    pub tenant: String,
}

/// A port of a logical switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Its switch.
    pub switch: String,
    /// Its addresses. No two ports of a switch share a MAC or an IP address.
    pub addresses: Vec<Address>,
    /// Whether it sends from and receives at these alone.
    pub port_security: bool,
    /// Whether it takes what is for addresses nobody knows, and is learned from. Not together with `port_security`.
    pub unknown_addresses: bool,
    /// The port that it is behind, and the VLAN tag of its frames there. That one has no parent itself.
    pub parent: Option<(String, u16)>,
}

/// A MAC address of a port, and the IP addresses at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The MAC address.
    pub mac: Mac,
    /// The IP addresses; if there are none, the port may use any at this MAC.
    pub ips: Vec<IpAddr>,
}

/// A port of a switch that is a VLAN of a physical network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Localnet {
    /// The switch.
    pub switch: String,
    /// The physical network.
    pub network: String,
    /// The VLAN, 0 for untagged frames.
    pub tag: u16,
}
