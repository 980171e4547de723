//! The network as users configure it and switches report it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

pub use tunnel_encap::Encap;

use crate::acl::{Acl, AclDefault};
use crate::allowed::Allowed;
use crate::messages::Ra;
use crate::routing::{Nat, Network, Route, RoutePolicy, Router, RouterPort};
use crate::services::{Dhcp, DnsZone};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Everything that the path of a frame depends on, except learned addresses, and the few fields of objects that must have no effect on
/// it. References are by name, and all fields may change: the model requires only that a port's switch and parent exist, and that
/// addresses are unique where they must be.
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
    /// Routers.
    pub routers: BTreeMap<String, Router>,
    /// Ports of routers. None has the name of a port or localnet port.
    pub router_ports: BTreeMap<String, RouterPort>,
    /// What ports of routers advertise, by port. Each has networks of IPv6, and of 64 bits if machines are to make addresses.
    pub ras: BTreeMap<String, Ra>,
    /// DHCP servers. Their addresses are nobody else's on the switch.
    pub dhcps: BTreeMap<String, Dhcp>,
    /// DNS zones. Likewise.
    pub dns_zones: BTreeMap<String, DnsZone>,
    /// Static routes.
    pub routes: BTreeMap<String, Route>,
    /// Policy routes.
    pub route_policies: BTreeMap<String, RoutePolicy>,
    /// Translations of addresses.
    pub nats: BTreeMap<String, Nat>,
    /// ACLs. Each is at a switch, a port or a port group that exists.
    pub acls: BTreeMap<String, Acl>,
    /// Groups of addresses, by name.
    pub address_groups: BTreeMap<String, Vec<Network>>,
    /// Groups of ports of one tenant, by name.
    pub port_groups: BTreeMap<String, BTreeSet<String>>,
    /// The interfaces that hosts report: (host, port), and the number of the transaction in which the host claimed the port:
    /// an interface of the port was plugged into its switch. What happens to an interface that stays plugged is no new
    /// claim. While a VM migrates, two hosts report its port ([`World::location`]).
    pub vnics: BTreeMap<(String, String), u64>,
    /// The interfaces that are known to have announced their VM, as (host, port), and the number of the transaction since which
    /// it is known. An interface that was plugged in after that is another one, which has announced nothing.
    pub announced: BTreeMap<(String, String), u64>,
    /// The announcements that a later word of the operator has overruled, by (host, port): those up to this transaction. The model
    /// keeps them from one change of the world to the next.
    pub overruled: BTreeMap<(String, String), u64>,
    /// The tunnel ports that switches fail to create. Without a peer, all of the host's ports of the encapsulation fail.
    pub failing: BTreeSet<Tunnel>,
    /// The form of floods to many hosts.
    pub trees: Trees,
    /// The frames a second that ports and localnet ports may flood, of those with a limit.
    pub flood_limits: BTreeMap<String, u32>,
    /// Those that have flooded as many frames as they may for now, by host: (host, port). Which ones depends on times, which
    /// the model does not know. A localnet port has its limit on each host anew.
    pub exhausted: BTreeSet<(String, String)>,
}

/// A transport zone: tunnels exist only within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The form of its tunnel ports.
    pub form: Form,
    /// The largest IP packet that the network between its hosts carries.
    pub mtu: u16,
    /// Whether its hosts check the source of what arrives in tunnels ([`World::refuses`]).
    pub check_sources: bool,
}

impl Default for Zone {
    fn default() -> Zone {
        Zone { form: Form::Flow, mtu: 1500, check_sources: true }
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

/// The form of floods to many hosts: a switch copies one frame to a limited number of hosts.
///
/// Hosts may be divided into branches in many ways, and any host may lead a branch: that is for the network to choose.
/// [`World::tree_faults`] says what no choice may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trees {
    /// A flood in a switch on more hosts than these takes a tree.
    pub hosts: usize,
    /// A tree may stay, or keep a branch, until so many percent more hosts would not need it.
    pub slack: usize,
    /// The switches whose floods take trees.
    pub used: BTreeSet<String>,
    /// The branch that each host of a switch is in. There can be branches before floods take them.
    pub branches: BTreeMap<String, BTreeMap<String, String>>,
    /// The rank of a host of a switch, by switch and host: the first of a branch leads it.
    pub ranks: BTreeMap<(String, String), i64>,
}

impl Default for Trees {
    fn default() -> Trees {
        Trees {
            hosts: 64,
            slack: 25,
            used: BTreeSet::new(),
            branches: BTreeMap::new(),
            ranks: BTreeMap::new(),
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The address of its tunnel endpoint.
    pub ip: IpAddr,
    /// Its transport zone.
    pub zone: String,
    /// The encapsulations that it supports, in order of preference.
    pub encaps: Vec<Encap>,
    /// Its bridge mappings: physical network to bridge. No two networks have one bridge, which would carry the frames of one
    /// to the other.
    pub mappings: BTreeMap<String, String>,
    /// Its roles; have no effect on frames.
    pub roles: Vec<String>,
    /// Whether ports may move to it ([`World::location`]). A host that is not schedulable is cordoned.
    pub schedulable: bool,
    /// Whether it is drained of what it does for other hosts ([`Node::serves`]).
    pub drain: bool,
}

impl Default for Node {
    fn default() -> Node {
        let ip = Ipv4Addr::UNSPECIFIED.into();
        let (zone, encaps, mappings, roles) = Default::default();
        Node { ip, zone, encaps, mappings, roles, schedulable: true, drain: false }
    }
}

/// A logical switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// The tenant. Its only effect is on the ports that the labels in an ACL mean.
    pub tenant: String,
    /// The limits of learning.
    pub learning: Learning,
    /// What happens to packets that no ACL matches.
    pub acl_default: AclDefault,
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
    /// The MAC addresses whose IP addresses are for the network to choose. Those that it has chosen are the ones in `addresses`: the model
    /// takes them as they are, and [`World::given_faults`] says what no choice may be.
    pub dynamic: BTreeSet<Mac>,
    /// What it is allowed besides. No entry without a MAC is of a port without MACs, none without prefixes is for one of its own, and no
    /// address in it belongs to anybody on the switch, unless it is one of a shorter prefix.
    pub allowed: Vec<Allowed>,
    /// Whether it may only send from and receive at these addresses.
    pub port_security: bool,
    /// Whether it receives frames to unknown addresses, and the switch learns from it. Excludes `port_security`.
    pub unknown_addresses: bool,
    /// The messages of routers and DHCP servers that it may send although it has `port_security`.
    pub trust: BTreeSet<Trust>,
    /// The parent port, and the VLAN tag of its frames there. The parent has no parent itself.
    pub parent: Option<(String, u16)>,
    /// Whether it sends and receives at all. A port that does not is on no host, like one whose interface is nowhere; its
    /// addresses stay its own. The interface of a disabled parent is dead for its trunk members too.
    pub enabled: bool,
    /// The hosts that may have its interface; if there are none, all may. Reports of others do not count. Of several, all may
    /// have one at once, and the first is preferred. For a trunk member, those of its parent count.
    pub requested_hosts: Vec<String>,
    /// Its labels, by key.
    pub labels: BTreeMap<String, String>,
}

impl Default for Port {
    fn default() -> Port {
        Port {
            switch: String::new(),
            addresses: Vec::new(),
            dynamic: BTreeSet::new(),
            allowed: Vec::new(),
            port_security: false,
            unknown_addresses: false,
            trust: BTreeSet::new(),
            parent: None,
            enabled: true,
            requested_hosts: Vec::new(),
            labels: BTreeMap::new(),
        }
    }
}

/// Messages by which others find their router or their configuration. Whoever sends them can redirect the traffic of a whole
/// switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Router advertisements.
    Ra,
    /// Redirects.
    Redirect,
    /// The messages of DHCP servers to clients.
    DhcpServer,
}

/// A MAC address of a port, and the IP addresses at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The MAC address.
    pub mac: Mac,
    /// The IP addresses; if there are none, the port may use any at this MAC, unless it waits for one ([`Port::dynamic`]).
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

impl Trust {
    /// All of them.
    pub const ALL: [Trust; 3] = [Trust::Ra, Trust::Redirect, Trust::DhcpServer];

    /// Its name in objects.
    pub fn name(self) -> &'static str {
        match self {
            Trust::Ra => "ra",
            Trust::Redirect => "redirect",
            Trust::DhcpServer => "dhcp_server",
        }
    }
}

impl Port {
    /// A port of a switch, without addresses or anything else that is optional.
    pub fn of(switch: &str) -> Port {
        Port { switch: switch.to_owned(), ..Port::default() }
    }
}

impl Node {
    /// A hypervisor in the default zone, with Geneve tunnels and no physical network.
    pub fn at(ip: impl Into<IpAddr>) -> Node {
        let (encaps, roles) = (vec![Encap::Geneve], vec!["hypervisor".to_owned()]);
        Node { ip: ip.into(), encaps, roles, ..Node::default() }
    }

    /// Whether there can be tunnels to another host. They exist only within a zone, and between addresses of one IP version,
    /// since a packet has one outer header.
    pub(crate) fn meets(&self, other: &Node) -> bool {
        self.zone == other.zone && self.ip.is_ipv4() == other.ip.is_ipv4()
    }
}

impl World {
    /// The switch of a port or localnet port.
    pub(crate) fn switch_of(&self, port: &str) -> Option<&str> {
        let of_localnet = || self.localnets.get(port).map(|localnet| localnet.switch.as_str());
        self.ports.get(port).map(|port| port.switch.as_str()).or_else(of_localnet)
    }

    /// The port whose interface carries the frames of `port`: its parent, or itself.
    pub fn owner<'a>(&'a self, port: &'a str) -> Option<&'a str> {
        let parent = &self.ports.get(port)?.parent;
        Some(parent.as_ref().map_or(port, |(parent, _)| parent))
    }

    /// The ports of a switch.
    pub fn ports_of<'a>(&'a self, switch: &'a str) -> impl Iterator<Item = (&'a str, &'a Port)> {
        self.ports.iter().filter(move |(_, port)| port.switch == switch).map(|(id, port)| (id.as_str(), port))
    }

    /// The localnet port of a switch.
    pub fn localnet_of(&self, switch: &str) -> Option<(&str, &Localnet)> {
        let mut localnets = self.localnets.iter().filter(|(_, localnet)| localnet.switch == switch);
        localnets.next().map(|(id, localnet)| (id.as_str(), localnet))
    }

    /// The hosts with ports of a switch, or that stand by for one, or are gateways of a router there.
    pub(crate) fn hosts_of(&self, switch: &str) -> BTreeSet<&str> {
        let gateways = self.nodes.keys().map(String::as_str).filter(|host| self.is_gateway_on(host, switch));
        self.hosts_with_ports_of(switch).into_iter().chain(gateways).collect()
    }

    /// The hosts with ports of a switch, or that stand by for one.
    pub(crate) fn hosts_with_ports_of(&self, switch: &str) -> BTreeSet<&str> {
        self.ports_of(switch).flat_map(|(port, _)| self.hosts_with(port)).collect()
    }

    /// Whether a host has ports of a switch, or stands by for one. Only then does it know the switch and serve its localnet port.
    pub(crate) fn knows(&self, host: &str, switch: &str) -> bool {
        self.ports_of(switch).any(|(port, _)| self.hosts_with(port).contains(host))
            || self.is_gateway_on(host, switch)
    }

    /// Whether the localnet port of a switch is on a host: it knows the switch, and its bridge mappings include the network.
    /// It then has the patch port too ([`World::patches`]).
    pub(crate) fn attached(&self, host: &str, switch: &str) -> bool {
        let mapped =
            |network: &String| self.nodes.get(host).is_some_and(|node| node.mappings.contains_key(network));
        let localnet = self.localnet_of(switch);
        localnet.is_some_and(|(_, localnet)| mapped(&localnet.network)) && self.knows(host, switch)
    }

    /// Whether a port may flood no more frames on a host for now.
    pub(crate) fn is_exhausted(&self, host: &str, port: &str) -> bool {
        self.flood_limits.contains_key(port) && self.exhausted.contains(&(host.to_owned(), port.to_owned()))
    }

    /// Whether a switch learns addresses: it has ports with unknown addresses, or a localnet port.
    pub(crate) fn learns(&self, switch: &str) -> bool {
        self.localnet_of(switch).is_some() || self.ports_of(switch).any(|(_, port)| port.unknown_addresses)
    }

    /// The limits of learning of a switch.
    pub(crate) fn learning(&self, switch: &str) -> Learning {
        self.switches.get(switch).map(|switch| switch.learning).unwrap_or_default()
    }

    /// Whether all source addresses of frames from `port` are learned: whether it may have unknown addresses.
    pub(crate) fn is_learned_from(&self, port: &str) -> bool {
        self.localnets.contains_key(port) || self.ports.get(port).is_some_and(|port| port.unknown_addresses)
    }

    /// Whether an address in frames from `port` is learned: any, or one that the port shares.
    pub(crate) fn is_heard_at(&self, port: &str, mac: Mac) -> bool {
        self.is_learned_from(port) || self.ports.get(port).is_some_and(|port| port.shares(mac))
    }

    /// A zone by its name.
    pub(crate) fn zone(&self, name: &str) -> Option<Zone> {
        let default = name.is_empty().then(Zone::default);
        self.zones.get(name).copied().or(default)
    }

    /// The encapsulation from one host to another: the first of the sender's encapsulations for which both have a tunnel
    /// port, if the two can meet.
    pub fn tunnel(&self, from: &str, to: &str) -> Option<Encap> {
        let (sender, receiver) = (self.nodes.get(from)?, self.nodes.get(to)?);
        let both = |encap: &&Encap| self.has_tunnel(from, **encap, to) && self.has_tunnel(to, **encap, from);
        (sender.meets(receiver) && from != to).then(|| sender.encaps.iter().find(both).copied())?
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tunnels by {:?}, MTU {}", self.form, self.mtu)?;
        f.write_str(if self.check_sources { "" } else { ", sources unchecked" })
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tunnel ports of {}", self.encap)?;
        self.peer.iter().try_for_each(|peer| write!(f, " to {peer}"))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} in zone {:?}, {:?}", self.ip, self.zone, self.encaps)?;
        write!(f, ", {}", self.roles.join(" and "))?;
        self.mappings.iter().try_for_each(|(network, bridge)| write!(f, ", {network} behind {bridge}"))?;
        f.write_str(if self.schedulable { "" } else { ", cordoned" })?;
        f.write_str(if self.drain { ", drained" } else { "" })
    }
}

impl fmt::Display for Learning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "learns {} addresses a port, for {} s", self.limit, self.age.as_secs())
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {}", self.switch)?;
        for Address { mac, ips } in &self.addresses {
            write!(f, " {}[{}]", mac_text(*mac), joined(ips))?;
        }
        for Allowed { mac, ips } in &self.allowed {
            let mac = mac.map_or_else(String::new, mac_text);
            write!(f, ", allowed {mac}[{}]", joined(ips))?;
        }
        f.write_str(if self.port_security { ", secured" } else { "" })?;
        f.write_str(if self.unknown_addresses { ", unknown addresses" } else { "" })?;
        self.trust.iter().try_for_each(|trust| write!(f, ", trusted with {}", trust.name()))?;
        self.parent.iter().try_for_each(|(parent, tag)| write!(f, ", behind {parent} with tag {tag}"))?;
        f.write_str(if self.enabled { "" } else { ", disabled" })?;
        self.requested_hosts.iter().try_for_each(|host| write!(f, ", may be on {host}"))
    }
}

impl fmt::Display for Localnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} on VLAN {} of {}", self.switch, self.tag, self.network)
    }
}

/// A MAC as people write it.
pub(crate) fn mac_text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Some things, with spaces between them.
pub(crate) fn joined<T: fmt::Display>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
