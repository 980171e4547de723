//! Routers, their ports, routes and policies.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::World;
use crate::frames::{Addresses, Mac};

/// An address with the length of its prefix: a prefix, or the address of an interface in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    /// The address.
    pub ip: IpAddr,
    /// The length of the prefix.
    pub length: u8,
}

/// How hosts send to switches that they reach through a router alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// As the number of ports says.
    Auto,
    /// To each port's host.
    Direct,
    /// By way of a host that has ports of the switch.
    Relay,
}

/// A router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// Its tenant, or nothing.
    pub tenant: String,
    /// How hosts send behind it.
    pub reach: Reach,
    /// The prefixes that it answers for.
    pub proxy: Vec<Network>,
}

/// A port of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterPort {
    /// The router.
    pub router: String,
    /// The switch.
    pub switch: String,
    /// Its MAC address.
    pub mac: Mac,
    /// Its addresses, each in its network.
    pub networks: Vec<Network>,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The router.
    pub router: String,
    /// The destinations.
    pub destination: Network,
    /// The next hops; a route without any discards.
    pub hops: Vec<IpAddr>,
}

/// A policy route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The router.
    pub router: String,
    /// Of policies that match, that of the highest priority decides.
    pub priority: u16,
    /// The prefix of the source.
    pub source: Option<Network>,
    /// The prefix of the destination.
    pub destination: Option<Network>,
    /// The protocol.
    pub protocol: Option<u8>,
    /// What happens.
    pub action: Action,
}

/// What a policy does with packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It drops them.
    Drop,
    /// It sends them to one of these next hops.
    Reroute(Vec<IpAddr>),
    /// It leaves them to routes.
    Allow,
}

/// Routers and what belongs to them, each by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Routers.
    pub routers: BTreeMap<String, Router>,
    /// Ports of routers.
    pub ports: BTreeMap<String, RouterPort>,
    /// Static routes.
    pub routes: BTreeMap<String, Route>,
    /// Policy routes.
    pub policies: BTreeMap<String, Policy>,
}

/// The name under which [`super::Labels::port`] has the label by which hosts send packets into a switch that they reach through
/// routers.
pub fn routed(switch: &str) -> String {
    format!("{switch}/routed")
}

/// The name under which [`super::Labels::port`] has the label of the next hops of a route.
pub fn of_route(route: &str) -> String {
    format!("{route} of routes")
}

/// The name under which [`super::Labels::port`] has the label of the next hops of a policy.
pub fn of_policy(policy: &str) -> String {
    format!("{policy} of policies")
}

impl Network {
    /// The prefix with this address in it.
    pub fn of(ip: impl Into<IpAddr>, length: u8) -> Network {
        Network { ip: ip.into(), length }
    }

    /// The prefix without the bits of hosts.
    #[must_use]
    pub fn prefix(self) -> Network {
        let ip = match self.ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V4((u32::from(ip) & mask).into())
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V6((u128::from(ip) & mask).into())
            }
        };
        Network { ip, ..self }
    }

    /// Whether two prefixes have addresses in common.
    pub fn overlaps(self, other: Network) -> bool {
        let length = self.length.min(other.length);
        let [one, other] = [self, other].map(|network| Network { length, ..network }.prefix());
        one.ip == other.ip
    }
}

impl RouterPort {
    /// Its MAC and addresses, as those of a machine.
    pub fn addresses(&self) -> Addresses {
        (self.mac, self.networks.iter().map(|network| network.ip).collect())
    }
}

impl Policy {
    /// The next hops.
    pub fn hops(&self) -> &[IpAddr] {
        match &self.action {
            Action::Reroute(hops) => hops,
            Action::Drop | Action::Allow => &[],
        }
    }
}

impl Routing {
    /// The ports of a router.
    pub fn ports_of<'a>(&'a self, router: &'a str) -> impl Iterator<Item = (&'a str, &'a RouterPort)> {
        let ports = self.ports.iter().filter(move |(_, port)| port.router == router);
        ports.map(|(name, port)| (name.as_str(), port))
    }

    /// The ports of routers on a switch.
    pub fn on<'a>(&'a self, switch: &'a str) -> impl Iterator<Item = (&'a str, &'a RouterPort)> {
        let ports = self.ports.iter().filter(move |(_, port)| port.switch == switch);
        ports.map(|(name, port)| (name.as_str(), port))
    }

    /// Whether some packets may take one of several next hops.
    pub fn has_choices(&self) -> bool {
        self.choices().next().is_some()
    }

    /// The next hops of routes and policies that name several.
    pub fn choices(&self) -> impl Iterator<Item = IpAddr> {
        let routes = self.routes.values().map(|route| &route.hops[..]);
        let all = routes.chain(self.policies.values().map(Policy::hops));
        all.filter(|hops| hops.len() > 1).flatten().copied()
    }

    /// Whether packets may go over hosts that neither sent them nor receive them.
    pub fn relays(&self) -> bool {
        self.routers.values().any(|router| router.reach == Reach::Relay)
    }

    /// Whether a port of a router on the switch has the MAC, or one of the addresses.
    pub(super) fn takes(&self, switch: &str, (mac, ips): &Addresses) -> bool {
        self.on(switch).any(|(_, port)| {
            port.mac == *mac || port.networks.iter().any(|network| ips.contains(&network.ip))
        })
    }
}

impl World {
    /// Whether a port of a router can be as it is said.
    pub(super) fn accepts_router_port(&self, name: &str, port: &RouterPort) -> bool {
        let (Some(router), Some(tenant)) =
            (self.routing.routers.get(&port.router), self.switches.get(&port.switch))
        else {
            return false;
        };
        let (mac, ips) = port.addresses();
        let on_switch = self.ports_of(&port.switch).flat_map(|(_, port)| port.addresses.clone());
        let of_routers = self.routing.on(&port.switch).filter(|(other, _)| *other != name);
        let free = on_switch
            .chain(of_routers.map(|(_, other)| other.addresses()))
            .all(|(other, at)| other != mac && !at.iter().any(|ip| ips.contains(ip)));
        let others = self.routing.ports_of(&port.router).filter(|(other, _)| *other != name);
        let others: Vec<&RouterPort> = others.map(|(_, other)| other).collect();
        let apart = |at: usize| {
            let network = port.networks[at];
            let earlier = &port.networks[..at];
            let theirs = others.iter().flat_map(|other| &other.networks);
            !theirs.chain(earlier).any(|other| network.overlaps(*other))
        };
        let tenants = others.iter().filter_map(|other| self.switches.get(&other.switch));
        free && !port.networks.is_empty()
            && (0..port.networks.len()).all(apart)
            && !self.ports.contains_key(name)
            && !self.localnets.contains_key(name)
            && one_tenant(tenants.chain([tenant, &router.tenant]))
    }

    /// Whether the switches of each router belong to one tenant once this switch, or this router, belongs to another.
    pub(super) fn routers_agree(&self, renamed: &str, tenant: &str) -> bool {
        self.routing.routers.iter().all(|(name, router)| {
            let switches = self.routing.ports_of(name).filter_map(|(_, port)| {
                let own = self.switches.get(&port.switch)?;
                Some(if port.switch == renamed { tenant } else { own })
            });
            one_tenant(switches.chain([if name == renamed { tenant } else { &router.tenant }]))
        })
    }

    /// Whether a route can be as it is said.
    pub(super) fn accepts_route(&self, name: &str, route: &Route) -> bool {
        let alike = |(other, of): (&String, &Route)| {
            other != name && of.router == route.router && of.destination == route.destination
        };
        self.routing.routers.contains_key(&route.router)
            && route.destination == route.destination.prefix()
            && route.hops.iter().all(|hop| hop.is_ipv4() == route.destination.ip.is_ipv4())
            && distinct(&route.hops)
            && !self.routing.routes.iter().any(alike)
    }

    /// Whether a policy can be as it is said.
    pub(super) fn accepts_policy(&self, policy: &Policy) -> bool {
        let prefixes = || policy.source.iter().chain(&policy.destination);
        self.routing.routers.contains_key(&policy.router)
            && prefixes().all(|network| *network == network.prefix())
            && (prefixes().all(|network| network.ip.is_ipv4())
                || prefixes().all(|network| network.ip.is_ipv6()))
            && distinct(policy.hops())
            && policy.action != Action::Reroute(Vec::new())
            && policy.hops().iter().all(|hop| hop.is_ipv4() == policy.hops()[0].is_ipv4())
    }
}

fn distinct(hops: &[IpAddr]) -> bool {
    (0..hops.len()).all(|at| !hops[..at].contains(&hops[at]))
}

/// Whether all that have a tenant have the same.
fn one_tenant<'a>(tenants: impl Iterator<Item = impl AsRef<str> + 'a>) -> bool {
    let mut named: Vec<String> =
        tenants.map(|tenant| tenant.as_ref().to_owned()).filter(|tenant| !tenant.is_empty()).collect();
    named.dedup();
    named.len() <= 1
}
