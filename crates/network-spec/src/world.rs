//! The network as users configure it and switches report it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Everything that the path of a frame depends on, except learned addresses. References are by name, and all fields may
/// change: the model requires only that a port's switch and parent exist, and that addresses are unique where they must be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// Transport zones. The default zone is named "" and exists even if it is not listed.
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
    /// The interfaces that hosts report: (host, port), and the number of the transaction in which the interface appeared.
    /// While a VM migrates, two hosts report its port, and the one with the greater number has it.
    pub vnics: BTreeMap<(String, String), u64>,
    /// The tunnel ports that exist.
    pub tunnels: BTreeSet<Tunnel>,
    /// The patch ports that exist between br-int and the bridge of a physical network: (host, network).
    pub patches: BTreeSet<(String, String)>,
}

/// A transport zone: tunnels exist only within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The form of its tunnel ports.
    pub form: Form,
    /// The largest IP packet that the network between its hosts carries.
    pub mtu: u16,
}

impl Default for Zone {
    fn default() -> Zone {
        Zone { form: Form::Flow, mtu: 1500 }
    }
}

/// The form of the tunnel ports of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A host has one tunnel port for each encapsulation, which serves all peers.
    Flow,
    /// A host has one tunnel port for each peer and encapsulation.
    Port,
}

/// The tunnel encapsulations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encap {
    /// Carries the ingress port of every frame.
    Geneve,
    /// Does not.
    Vxlan,
    /// Does not.
    Gre,
    /// Does not carry the ingress port; no known switch supports it.
    Stt,
}

impl Encap {
    /// Whether a receiver knows the ingress port of a frame.
    pub(crate) fn carries_ingress_port(self) -> bool {
        self == Encap::Geneve
    }

    /// The overhead in bytes between the inner and the outer IP packet. It does not depend on the switch: the MTU of
    /// machines that run must not shrink because a port of their switch changes.
    fn overhead(self) -> u16 {
        match self {
            // IP, UDP, the tunnel's header, its option with the ingress port, and the Ethernet header inside.
            Encap::Geneve => 20 + 8 + 8 + 8 + 14,
            // IP, UDP, the tunnel's header, Ethernet.
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
    /// Its encapsulation.
    pub encap: Encap,
    /// The host at the other end; none for a port that serves all peers.
    pub peer: Option<String>,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its transport zone.
    pub zone: String,
    /// The encapsulations that it supports, in order of preference.
    pub encaps: Vec<Encap>,
    /// Its bridge mappings: physical network to bridge.
    pub mappings: BTreeMap<String, String>,
}

/// A logical switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// The tenant; has no effect on frames.
    pub tenant: String,
    /// The limits of learning.
    pub learning: Learning,
}

/// The limits of the addresses that a switch learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learning {
    /// The most addresses that a host learns on a port; with 0, nothing is learned.
    pub limit: u32,
    /// A learned address is forgotten when more time than this has passed since the last frame from it.
    pub age: Duration,
}

impl Default for Learning {
    /// The age is that of IEEE 802.1D.
    fn default() -> Learning {
        Learning { limit: 4096, age: Duration::from_mins(5) }
    }
}

/// A port of a logical switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its switch.
    pub switch: String,
    /// Its addresses. No two ports of a switch share a MAC or an IP address.
    pub addresses: Vec<Address>,
    /// Whether it may only send from and receive at these addresses.
    pub port_security: bool,
    /// Whether it receives frames to unknown addresses, and the switch learns from it. Excludes `port_security`.
    pub unknown_addresses: bool,
    /// The parent port, and the VLAN tag of its frames there. The parent has no parent itself.
    pub parent: Option<(String, u16)>,
    /// Whether it sends and receives at all. A port that does not is on no host, like one whose interface is nowhere; its
    /// addresses stay its own. The interface of a disabled parent is dead for its trunk members too.
    pub enabled: bool,
    /// The hosts that may have its interface; if there are none, all may. Reports of others do not count. For a trunk
    /// member, those of its parent count.
    pub requested_hosts: BTreeSet<String>,
}

impl Default for Port {
    fn default() -> Port {
        Port {
            switch: String::new(),
            addresses: Vec::new(),
            port_security: false,
            unknown_addresses: false,
            parent: None,
            enabled: true,
            requested_hosts: BTreeSet::new(),
        }
    }
}

/// A MAC address of a port, and the IP addresses at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The MAC address.
    pub mac: Mac,
    /// The IP addresses; if there are none, the port may use any at this MAC.
    pub ips: Vec<IpAddr>,
}

/// A localnet port: connects a switch to a VLAN of a physical network.
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
    /// The host that `port` is on: where its interface, or its parent's, appeared last. Reports of hosts that are not nodes
    /// do not count, nor do reports of a trunk member, nor those of hosts that the interface's port does not request. A
    /// disabled port is nowhere, and so is a port behind one.
    pub fn location(&self, port: &str) -> Option<&str> {
        let owner = self.owner(port)?;
        let of_owner = self.ports.get(owner)?;
        if !self.ports.get(port)?.enabled || !of_owner.enabled {
            return None;
        }
        let may = |host: &String| {
            let requested = &of_owner.requested_hosts;
            self.nodes.contains_key(host) && (requested.is_empty() || requested.contains(host))
        };
        let reported = self.vnics.iter().filter(|((host, of), _)| of == owner && may(host));
        reported.max_by_key(|(_, since)| **since).map(|((host, _), _)| host.as_str())
    }

    /// The ports with a problem: a host that the port does not request reports its interface. The port is enabled, and has
    /// an interface of its own.
    pub fn reported_elsewhere(&self) -> BTreeSet<&str> {
        let elsewhere = |host: &String, port: &Port| {
            let requested = &port.requested_hosts;
            port.enabled && port.parent.is_none() && !requested.is_empty() && !requested.contains(host)
        };
        let ignored = self
            .vnics
            .keys()
            .filter(|(host, port)| self.ports.get(port).is_some_and(|port| elsewhere(host, port)));
        ignored.map(|(_, port)| port.as_str()).collect()
    }

    /// The switch of a port or localnet port.
    pub(crate) fn switch_of(&self, port: &str) -> Option<&str> {
        let of_localnet = || self.localnets.get(port).map(|localnet| localnet.switch.as_str());
        self.ports.get(port).map(|port| port.switch.as_str()).or_else(of_localnet)
    }

    /// The port whose interface carries the frames of `port`: its parent, or itself.
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

    /// Whether a host has ports of a switch. Only then does it know the switch and serve its localnet port.
    pub(crate) fn knows(&self, host: &str, switch: &str) -> bool {
        self.ports_of(switch).any(|(port, _)| self.location(port) == Some(host))
    }

    /// Whether the localnet port of a switch is on a host: it knows the switch, its bridge mappings include the network, and
    /// the patch port exists.
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

    /// The limits of learning of a switch.
    pub(crate) fn learning(&self, switch: &str) -> Learning {
        self.switches.get(switch).map(|switch| switch.learning).unwrap_or_default()
    }

    /// Whether source addresses of frames from `port` are learned: whether it may have unknown addresses.
    pub(crate) fn is_learned_from(&self, port: &str) -> bool {
        self.localnets.contains_key(port) || self.ports.get(port).is_some_and(|port| port.unknown_addresses)
    }

    /// A zone by its name.
    fn zone(&self, name: &str) -> Option<Zone> {
        let default = name.is_empty().then(Zone::default);
        self.zones.get(name).copied().or(default)
    }

    /// The largest IP packet that passes between all hosts with ports of a switch; none if the switch uses no tunnels. It
    /// has no meaning if only one host has ports.
    pub fn mtu(&self, switch: &str) -> Option<u16> {
        if self.localnet_of(switch).is_some() {
            return None;
        }
        let hosts: BTreeSet<&str> =
            self.ports_of(switch).filter_map(|(port, _)| self.location(port)).collect();
        let pairs = hosts.iter().flat_map(|from| hosts.iter().map(move |to| (*from, *to)));
        let mtu = |(from, to)| {
            let encap = self.tunnel(from, to)?;
            Some(self.zone(&self.nodes.get(from)?.zone)?.mtu - encap.overhead())
        };
        pairs.filter_map(mtu).min()
    }

    /// The encapsulation from one host to another: the first of the sender's encapsulations for which both have a tunnel
    /// port. Tunnels exist only within a zone.
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
