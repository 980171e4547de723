//! A network with the numbers that rules need, and changes of both.

mod change;
mod filtering;
mod routing;
mod services;
mod text;
mod translation;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Deref;

use frame_builder::Mac;
use network_spec::{Address, Port, World, Zone};

pub use change::Change;
pub use routing::{GATEWAY_LABELS, may_be_gateway, of_gateway, of_policy, of_route, routed};

/// A network, and what the specification must not know of it: the numbers that the controller and the switches give.
///
/// Reads as the [`World`] of the specification. It changes by [`NumberedWorld::apply`], which keeps the numbers right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberedWorld {
    /// The network. Its default zone is always listed. What the rules choose, its trees, is not in it.
    pub network: World,
    /// The `OpenFlow` ports of vNICs, by host and port.
    pub ofports: BTreeMap<(String, String), u16>,
    /// The labels of objects.
    pub labels: Labels,
    /// The number of changes so far.
    pub changes: u64,
    next_ofport: u16,
}

impl Deref for NumberedWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.network
    }
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

impl NumberedWorld {
    /// A world with nothing but the default zone.
    pub fn new(scattered: bool) -> NumberedWorld {
        let zones = BTreeMap::from([(String::new(), Zone::default())]);
        NumberedWorld {
            network: World { zones, ..World::default() },
            labels: Labels { scattered, ..Labels::default() },
            ..NumberedWorld::default()
        }
    }

    /// The trunk members of a port, with their tags.
    pub fn children<'a>(&'a self, parent: &'a str) -> impl Iterator<Item = (u16, &'a str)> {
        self.ports.iter().filter_map(move |(name, port)| match &port.parent {
            Some((of, tag)) if of == parent => Some((*tag, name.as_str())),
            _ => None,
        })
    }

    /// All MACs and addresses of a switch, except those of one port.
    pub(crate) fn addresses_but(&self, switch: &str, but: &str) -> Vec<Address> {
        let others = self.ports_of(switch).filter(|(name, _)| *name != but);
        others.flat_map(|(_, port)| port.addresses.clone()).collect()
    }

    /// Takes over the addresses that the rules have given to ports, by port and MAC address.
    pub(crate) fn take_given(&mut self, given: &BTreeMap<(String, Mac), BTreeSet<IpAddr>>) {
        for (name, port) in &mut self.network.ports {
            let Port { addresses, dynamic, .. } = port;
            for address in addresses.iter_mut().filter(|address| dynamic.contains(&address.mac)) {
                let own = given.get(&(name.clone(), address.mac)).into_iter().flatten();
                address.ips = own.copied().collect();
            }
        }
    }

    /// The addresses on a switch that the rules have given.
    pub(crate) fn given_on(&self, switch: &str) -> Vec<IpAddr> {
        let of_port = |port: &Port| {
            let dynamic = port.addresses.iter().filter(|address| port.dynamic.contains(&address.mac));
            dynamic.flat_map(|address| address.ips.clone()).collect::<Vec<_>>()
        };
        self.ports_of(switch).flat_map(|(_, port)| of_port(port)).collect()
    }

    /// A port as it is once it has this name: with the addresses that the rules have given to the one that had it, while it is on the same
    /// switch.
    fn with_given(&self, name: &str, mut port: Port) -> Port {
        let before = self.ports.get(name).filter(|before| before.switch == port.switch);
        for address in port.addresses.iter_mut().filter(|address| port.dynamic.contains(&address.mac)) {
            let before = before.filter(|before| before.dynamic.contains(&address.mac));
            let had = before.and_then(|before| before.addresses.iter().find(|one| one.mac == address.mac));
            address.ips = had.map(|had| had.ips.clone()).unwrap_or_default();
        }
        port
    }

    /// Whether a port of the switch, one of a router, or a server already has this MAC or one of these addresses.
    fn is_taken(&self, switch: &str, but: &str, address: &Address) -> bool {
        let machines = self.addresses_but(switch, but);
        let of_routers = self.router_ports_on(switch).filter(|(name, _)| *name != but);
        let of_servers =
            self.servers_on(switch).map(|server| Address { mac: server.mac, ips: vec![server.ip] });
        let all = machines.into_iter().chain(of_routers.map(|(_, port)| port.address())).chain(of_servers);
        all.into_iter().any(|other| conflict(&other, address))
    }
}

/// Whether two ports of a switch cannot have these addresses.
fn conflict(one: &Address, other: &Address) -> bool {
    one.mac == other.mac || one.ips.iter().any(|ip| other.ips.contains(ip))
}
