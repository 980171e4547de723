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
    /// Localnet ports. No port and localnet port share a name, a switch has at most one, and no two have the same VLAN of a
    /// physical network.
    pub localnets: BTreeMap<String, Localnet>,
    /// Which interfaces hosts report: (host, port), and the number of the transaction in which it appeared there. While a
    /// VM migrates, two hosts report its port, and the one with the greater number has it.
    pub vnics: BTreeMap<(String, String), u64>,
    /// Which tunnel ports there really are.
    pub tunnels: BTreeSet<Tunnel>,
    /// Which hosts' br-int really has a patch port to the bridge of a physical network: (host, network).
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
    /// Bytes between the IP packet that is carried and the one that carries it; `labelled` if the latter says which port the
    /// frame came from, where it can.
    fn overhead(self, labelled: bool) -> u16 {
        match self {
            // IP, UDP, the tunnel's header, and the Ethernet header inside.
            Encap::Geneve if labelled => 20 + 8 + 8 + 8 + 14,
            Encap::Geneve => 20 + 8 + 8 + 14,
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

impl World {
    /// The host that `port` is on: where its interface appeared last, its parent's if it is behind one. What others than
    /// nodes report does not count, nor do reports of a port that is behind another.
    pub fn location(&self, port: &str) -> Option<&str> {
        let owner = self.owner(port)?;
        let reported =
            self.vnics.iter().filter(|((host, of), _)| of == owner && self.nodes.contains_key(host));
        reported.max_by_key(|(_, since)| **since).map(|((host, _), _)| host.as_str())
    }

    /// The switch of a port or localnet port.
    pub(crate) fn switch_of(&self, port: &str) -> Option<&str> {
        let of_localnet = || self.localnets.get(port).map(|localnet| localnet.switch.as_str());
        self.ports.get(port).map(|port| port.switch.as_str()).or_else(of_localnet)
    }

    /// The port whose interface `port` is behind: its parent, or itself.
    pub(crate) fn owner<'a>(&'a self, port: &'a str) -> Option<&'a str> {
        let parent = &self.ports.get(port)?.parent;
        Some(parent.as_ref().map_or(port, |(parent, _)| parent))
    }

    /// The ports of a switch.
    pub(crate) fn ports_of<'a>(&'a self, switch: &'a str) -> impl Iterator<Item = (&'a str, &'a Port)> {
        self.ports.iter().filter(move |(_, port)| port.switch == switch).map(|(id, port)| (id.as_str(), port))
    }

    /// The localnet port of a switch.
    pub(crate) fn localnet_of(&self, switch: &str) -> Option<(&str, &Localnet)> {
        let mut localnets = self.localnets.iter().filter(|(_, localnet)| localnet.switch == switch);
        localnets.next().map(|(id, localnet)| (id.as_str(), localnet))
    }

    /// Whether a host has ports of a switch. Only then it knows the switch, and takes part in its localnet port.
    pub(crate) fn knows(&self, host: &str, switch: &str) -> bool {
        self.ports_of(switch).any(|(port, _)| self.location(port) == Some(host))
    }

    /// Whether the localnet port of a switch is on a host: it knows the switch, its bridge mapping names the network, and the
    /// patch port is there.
    pub(crate) fn attached(&self, host: &str, switch: &str) -> bool {
        let mapped =
            |network: &String| self.nodes.get(host).is_some_and(|node| node.mappings.contains_key(network));
        let patched = |network: &String| self.patches.contains(&(host.to_owned(), network.clone()));
        let localnet = self.localnet_of(switch);
        localnet.is_some_and(|(_, localnet)| mapped(&localnet.network) && patched(&localnet.network))
            && self.knows(host, switch)
    }

    /// Whether a switch learns addresses: it has ports with unknown addresses, or a localnet port.
    pub(crate) fn learns(&self, switch: &str) -> bool {
        self.localnet_of(switch).is_some() || self.ports_of(switch).any(|(_, port)| port.unknown_addresses)
    }

    /// Whether the addresses that frames of `port` are from are learned: whether it may have some that nobody knows.
    pub(crate) fn is_learned_from(&self, port: &str) -> bool {
        self.localnets.contains_key(port) || self.ports.get(port).is_some_and(|port| port.unknown_addresses)
    }

    /// A zone by its name.
    fn zone(&self, name: &str) -> Option<Zone> {
        let default = name.is_empty().then(Zone::default);
        self.zones.get(name).copied().or(default)
    }

    /// The largest IP packet that passes between all hosts with ports of a switch; none if it goes through no tunnels.
    /// It need not be asked where only one host has ports.
    pub fn mtu(&self, switch: &str) -> Option<u16> {
        if self.localnet_of(switch).is_some() {
            return None;
        }
        let labelled = self.learns(switch);
        let hosts: BTreeSet<&str> =
            self.ports_of(switch).filter_map(|(port, _)| self.location(port)).collect();
        let pairs = hosts.iter().flat_map(|from| hosts.iter().map(move |to| (*from, *to)));
        let mtu = |(from, to)| {
            let encap = self.tunnel(from, to)?;
            Some(self.zone(&self.nodes.get(from)?.zone)?.mtu - encap.overhead(labelled))
        };
        pairs.filter_map(mtu).min()
    }

    /// What one host wraps frames to another in: the first of its encapsulations, in its order, that both have a tunnel
    /// port for. There are tunnels inside a zone alone.
    pub fn tunnel(&self, from: &str, to: &str) -> Option<Encap> {
        let (sender, receiver) = (self.nodes.get(from)?, self.nodes.get(to)?);
        let form = self.zone(&sender.zone)?.form;
        let has = |host: &str, encap, peer: &str| {
            let peer = (form == Form::Port).then(|| peer.to_owned());
            self.tunnels.contains(&Tunnel { host: host.to_owned(), encap, peer })
        };
        let both = |encap: &&Encap| {
            receiver.encaps.contains(encap) && has(from, **encap, to) && has(to, **encap, from)
        };
        (sender.zone == receiver.zone && from != to).then(|| sender.encaps.iter().find(both).copied())?
    }
}
