//! A network and its places, as users configure it and switches report it, and changes of both.

mod change;
mod filtering;
mod routing;
mod text;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

pub use change::Change;
pub use filtering::{
    Acl, AclAction, AclPlace, AclProtocol, Direction, EtherType, Filtering, Labelled, PacketMatch, Peers,
};
pub use routing::{
    Action, Network, Policy, Reach, Route, Router, RouterPort, Routing, of_policy, of_route, routed,
};
pub use tunnel_encap::Encap;

use crate::frames::{Addresses, Mac};

/// The form of a zone's tunnel ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// A port for each encapsulation.
    Flow,
    /// A port for each peer and encapsulation.
    Port,
}

/// A transport zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The form of its tunnel ports.
    pub form: Form,
    /// The MTU of the network between its nodes.
    pub mtu: u16,
    /// Whether nodes check the source of what arrives in tunnels.
    pub check_sources: bool,
}

impl Zone {
    /// The zone of nodes that name none.
    pub const DEFAULT: Zone = Zone { form: Form::Flow, mtu: 1500, check_sources: true };
}

/// A transport node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its tunnel endpoint.
    pub ip: IpAddr,
    /// Its zone.
    pub zone: String,
    /// The encapsulations that it supports, in order of preference.
    pub encaps: Vec<Encap>,
    /// The bridge of each physical network.
    pub mappings: BTreeMap<String, String>,
    /// Its roles, of [`ROLES`], which have no effect.
    pub roles: Vec<&'static str>,
}

/// The roles of nodes.
pub(crate) const ROLES: [&str; 3] = ["hypervisor", "gateway", "service_node"];

/// A port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The switch.
    pub switch: String,
    /// The MAC and IP addresses that it sends from.
    pub addresses: Vec<Addresses>,
    /// Whether port security drops frames from other addresses.
    pub security: bool,
    /// Whether it receives frames for unknown addresses.
    pub unknown: bool,
    /// The names of what it may send although it is secured: some of [`TRUSTS`].
    pub trust: BTreeSet<&'static str>,
    /// The parent port and the VLAN tag there, of a trunk member.
    pub parent: Option<(String, u16)>,
    /// Whether it sends and receives.
    pub enabled: bool,
    /// The hosts that may have its vNIC; all if there are none. Of several, each may have one, and the first is preferred.
    pub requested: Vec<String>,
}

impl Node {
    /// A hypervisor in the default zone with geneve tunnels and no physical network.
    pub fn at(ip: impl Into<IpAddr>) -> Node {
        Node {
            ip: ip.into(),
            zone: String::new(),
            encaps: vec![Encap::Geneve],
            mappings: BTreeMap::new(),
            roles: vec![ROLES[0]],
        }
    }
}

impl Port {
    /// An enabled port of a switch, with an interface of its own, without addresses or anything else that is optional.
    pub fn of(switch: &str) -> Port {
        Port {
            switch: switch.to_owned(),
            addresses: Vec::new(),
            security: false,
            unknown: false,
            trust: BTreeSet::new(),
            parent: None,
            enabled: true,
            requested: Vec::new(),
        }
    }
}

/// What a port can be trusted with, by its names in rows.
pub(crate) const TRUSTS: [&str; 3] = ["ra", "redirect", "dhcp_server"];

/// The limits of learning of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learning {
    /// The most addresses that a host learns on a port.
    pub limit: u32,
    /// The seconds after which an address ages out.
    pub age: u16,
}

/// A localnet port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Localnet {
    /// The switch.
    pub switch: String,
    /// The physical network.
    pub network: String,
    /// The VLAN; 0 for untagged frames.
    pub tag: u16,
}

/// A vNIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vif {
    /// Its `OpenFlow` port.
    pub ofport: u16,
    /// The number of the change in which it appeared.
    pub since: u64,
}

/// The limits of floods without trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trees {
    /// A switch on more hosts has a tree.
    pub hosts: u64,
    /// The percentage of hosts that a tree may be too large for.
    pub slack: u64,
}

impl Trees {
    /// Those of the rules.
    pub const DEFAULT: Trees = Trees { hosts: 64, slack: 25 };
}

impl Default for Trees {
    fn default() -> Trees {
        Trees::DEFAULT
    }
}

/// A tunnel port that a switch fails to create: host, encapsulation, and the peer if only the port for this peer fails.
pub(crate) type Failing = (String, Encap, Option<String>);

/// The network objects in force and the reports of switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct World {
    /// Zones by name; "" always exists.
    pub zones: BTreeMap<String, Zone>,
    /// Nodes by name, each of which is a host.
    pub nodes: BTreeMap<String, Node>,
    /// Switches by name, with their tenants.
    pub switches: BTreeMap<String, String>,
    /// The limits of learning of switches that have other ones than the default.
    pub learning: BTreeMap<String, Learning>,
    /// Ports by name.
    pub ports: BTreeMap<String, Port>,
    /// Localnet ports by name.
    pub localnets: BTreeMap<String, Localnet>,
    /// Routers and what belongs to them.
    pub routing: Routing,
    /// ACLs and what they refer to.
    pub filtering: Filtering,
    /// vNICs by host and port.
    pub vifs: BTreeMap<(String, String), Vif>,
    /// The vNICs by which the controller knows that their machines run there, and the number of the change since which it does.
    pub announced: BTreeMap<(String, String), u64>,
    /// Tunnel ports that switches fail to create.
    pub failing: BTreeSet<Failing>,
    /// The limits of floods without trees.
    pub trees: Trees,
    /// The frames a second that ports and localnet ports may flood, of those with a limit.
    pub flood_limits: BTreeMap<String, u32>,
    /// Those that have used up their limits on a host, by host and port.
    pub exhausted: BTreeSet<(String, String)>,
    /// The labels of objects.
    pub labels: Labels,
    /// The number of changes so far.
    pub changes: u64,
    next_ofport: u16,
}

/// Labels in use. A released label is never reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// Whether labels are spread over their 24 bits instead of consecutive.
    pub scattered: bool,
    datapaths: BTreeMap<String, u32>,
    ports: BTreeMap<String, u32>,
    nodes: BTreeMap<String, u32>,
    meters: BTreeMap<String, u32>,
    hops: BTreeMap<IpAddr, u32>,
    given: u32,
    meters_given: u32,
    hops_given: u32,
}

impl Labels {
    fn next(&mut self) -> u32 {
        self.given += 1;
        // An odd factor makes a permutation of all numbers of 24 bits.
        if self.scattered { self.given.wrapping_mul(0x9e_3779) & 0xff_ffff } else { self.given }
    }

    /// The label of a datapath: of a switch, or of a router.
    pub fn datapath(&self, datapath: &str) -> u32 {
        self.datapaths.get(datapath).copied().unwrap_or(0)
    }

    /// The label of a port of any kind, or of one of the names of [`audience`], [`routed`], [`of_route`] and [`of_policy`].
    pub fn port(&self, port: &str) -> u32 {
        self.ports.get(port).copied().unwrap_or(0)
    }

    /// The meter of a port with a limit.
    pub fn meter(&self, port: &str) -> Option<u32> {
        self.meters.get(port).copied()
    }

    /// The port of a meter.
    pub fn metered(&self, meter: u32) -> Option<&str> {
        self.meters.iter().find(|(_, number)| **number == meter).map(|(port, _)| port.as_str())
    }

    /// The numbers of next hops.
    pub fn hops(&self) -> impl Iterator<Item = (IpAddr, u32)> {
        self.hops.iter().map(|(hop, number)| (*hop, *number))
    }

    /// A node's label.
    pub fn node(&self, node: &str) -> u32 {
        self.nodes.get(node).copied().unwrap_or(0)
    }
}

/// The audiences of a switch, by their names in rows.
pub(crate) const AUDIENCES: [&str; 2] = ["all", "unknown"];

/// The name under which [`Labels::port`] has an audience's label.
pub fn audience(switch: &str, audience: &str, relay: bool) -> String {
    format!("{switch}/{audience}{}", if relay { "/relay" } else { "" })
}

impl World {
    /// A world with nothing but the default zone.
    pub fn new(scattered: bool) -> World {
        World {
            zones: BTreeMap::from([(String::new(), Zone::DEFAULT)]),
            labels: Labels { scattered, ..Labels::default() },
            ..World::default()
        }
    }

    /// The host whose vNIC carries a port's frames: the requested host where the port, or its parent port, appeared last; of
    /// several requested hosts, the one where it was announced last, or the first of the list. A port that is disabled, or whose
    /// parent port is, has none.
    pub fn place(&self, port: &str) -> Option<&str> {
        let outer = self.outer(port);
        let [own, of_outer] = [self.ports.get(port)?, self.ports.get(outer)?];
        if !own.enabled || !of_outer.enabled {
            return None;
        }
        let requested = &of_outer.requested;
        let place = |host: &String| requested.iter().position(|other| other == host);
        let here = self
            .vifs
            .iter()
            .filter(|((host, named), _)| named == outer && (requested.is_empty() || place(host).is_some()));
        // The second number decides between those that are not announced.
        let rank = |(key, vif): &(&(String, String), &Vif)| {
            if requested.len() <= 1 {
                return (vif.since, Reverse(0));
            }
            let announced = self.announced.get(*key).filter(|since| **since >= vif.since);
            (announced.copied().unwrap_or(0), Reverse(place(&key.0).unwrap_or(0)))
        };
        here.max_by_key(rank).map(|((host, _), _)| host.as_str())
    }

    /// The port whose vNIC carries a port's frames: itself or its parent port.
    pub fn outer<'a>(&'a self, port: &'a str) -> &'a str {
        let parent = self.ports.get(port).and_then(|port| port.parent.as_ref());
        parent.map_or(port, |(parent, _)| parent)
    }

    /// The trunk members of a port, with their tags.
    pub fn children<'a>(&'a self, parent: &'a str) -> impl Iterator<Item = (u16, &'a str)> {
        self.ports.iter().filter_map(move |(name, port)| match &port.parent {
            Some((of, tag)) if of == parent => Some((*tag, name.as_str())),
            _ => None,
        })
    }

    /// The names of a switch's ports.
    pub fn ports_of<'a>(&'a self, switch: &'a str) -> impl Iterator<Item = (&'a str, &'a Port)> {
        self.ports
            .iter()
            .filter(move |(_, port)| port.switch == switch)
            .map(|(name, port)| (name.as_str(), port))
    }

    /// A switch's localnet port.
    pub fn localnet_of(&self, switch: &str) -> Option<(&str, &Localnet)> {
        let found = self.localnets.iter().find(|(_, localnet)| localnet.switch == switch);
        found.map(|(name, localnet)| (name.as_str(), localnet))
    }

    /// All MACs and addresses of a switch, except those of one port.
    pub(crate) fn addresses_but(&self, switch: &str, but: &str) -> Vec<Addresses> {
        let others = self.ports_of(switch).filter(|(name, _)| *name != but);
        others.flat_map(|(_, port)| port.addresses.clone()).collect()
    }

    /// Whether another port of the switch, or one of a router, already has this MAC or one of these addresses.
    fn taken(&self, switch: &str, but: &str, addresses: &Addresses) -> bool {
        let (mac, ips): &(Mac, Vec<IpAddr>) = addresses;
        let others = self.ports_of(switch).filter(|(name, _)| *name != but);
        others
            .flat_map(|(_, port)| &port.addresses)
            .any(|(other, at)| other == mac || at.iter().any(|ip| ips.contains(ip)))
            || self.routing.takes(switch, addresses)
    }
}
