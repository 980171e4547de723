//! Routers: what changes of them are valid, and what their packets may do.

use std::collections::BTreeSet;
use std::net::IpAddr;

use network_spec::{Node, PolicyAction, Ra, RaMode, Reach, Route, RoutePolicy, RouterPort, Target};

use super::NumberedWorld;

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

/// The uses of the labels of a router's port with gateways, besides that of the port.
pub const GATEWAY_LABELS: [&str; 3] = ["gateway_entry", "gateway_lead", "gateway_share"];

/// The name under which [`super::Labels::port`] has one of these labels of a port.
pub fn of_gateway(port: &str, label_use: &str) -> String {
    format!("{port} {label_use}")
}

impl NumberedWorld {
    /// The ports of routers on a switch, dead ones too.
    pub fn router_ports_on<'a>(&'a self, switch: &'a str) -> impl Iterator<Item = (&'a str, &'a RouterPort)> {
        let ports = self.router_ports.iter().filter(move |(_, port)| port.switch == switch);
        ports.map(|(name, port)| (name.as_str(), port))
    }

    /// The next hops of routes and policies that name several.
    pub fn choices(&self) -> impl Iterator<Item = IpAddr> {
        let routes = self.routes.values().map(Route::hops);
        let all = routes.chain(self.route_policies.values().map(RoutePolicy::hops));
        all.filter(|hops| hops.len() > 1).flatten().copied()
    }

    /// Whether packets may go over hosts that neither sent them nor receive them.
    pub fn relays(&self) -> bool {
        self.routers.values().any(|router| router.reach == Reach::Relay)
    }

    /// Whether a port of a router can be as it is said.
    pub(super) fn accepts_router_port(&self, name: &str, port: &RouterPort) -> bool {
        let (Some(router), Some(switch)) = (self.routers.get(&port.router), self.switches.get(&port.switch))
        else {
            return false;
        };
        let others = self.ports_of_router(&port.router).filter(|(other, _)| *other != name);
        let others: Vec<&RouterPort> = others.map(|(_, other)| other).collect();
        let apart = |at: usize| {
            let network = port.networks[at];
            let earlier = &port.networks[..at];
            let theirs = others.iter().flat_map(|other| &other.networks);
            !theirs.chain(earlier).any(|other| network.overlaps(*other))
        };
        let tenants = others.iter().filter_map(|other| self.switches.get(&other.switch));
        let tenants = tenants.chain([switch]).map(|switch| &switch.tenant);
        !self.is_taken(&port.switch, name, &port.address())
            && !self.is_shared(&port.switch, &port.address())
            && !port.networks.is_empty()
            && (0..port.networks.len()).all(apart)
            && self.ras.get(name).is_none_or(|ra| may_advertise(port, ra))
            && self.accepts_gateways(port)
            && one_tenant(tenants.chain([&router.tenant]))
    }

    /// Whether the gateways of a port of a router are nodes of this role, each named once.
    fn accepts_gateways(&self, port: &RouterPort) -> bool {
        let is_gateway = |name: &String| self.nodes.get(name).is_some_and(may_be_gateway);
        let names: BTreeSet<&String> = port.gateways.iter().map(|(name, _)| name).collect();
        names.len() == port.gateways.len() && names.into_iter().all(is_gateway)
    }

    /// Whether a port of a router names a node as gateway.
    pub(super) fn has_as_gateway(&self, node: &str) -> bool {
        self.router_ports.values().any(|port| port.gateways.iter().any(|(name, _)| name == node))
    }

    /// Whether the switches of each router belong to one tenant once this switch, or this router, belongs to another.
    pub(super) fn routers_agree(&self, renamed: &str, tenant: &str) -> bool {
        self.routers.iter().all(|(name, router)| {
            let switches = self.ports_of_router(name).filter_map(|(_, port)| {
                let own = &self.switches.get(&port.switch)?.tenant;
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
        self.routers.contains_key(&route.router)
            && route.destination == route.destination.prefix()
            && route.target != Target::NextHops(Vec::new())
            && route.hops().iter().all(|hop| hop.is_ipv4() == route.destination.ip.is_ipv4())
            && distinct(route.hops())
            && !self.routes.iter().any(alike)
    }

    /// Whether a policy can be as it is said.
    pub(super) fn accepts_policy(&self, policy: &RoutePolicy) -> bool {
        let prefixes = || policy.matches.source.iter().chain(&policy.matches.destination);
        self.routers.contains_key(&policy.router)
            && prefixes().all(|network| *network == network.prefix())
            && (prefixes().all(|network| network.ip.is_ipv4())
                || prefixes().all(|network| network.ip.is_ipv6()))
            && distinct(policy.hops())
            && policy.action != PolicyAction::Reroute(Vec::new())
            && policy.hops().iter().all(|hop| hop.is_ipv4() == policy.hops()[0].is_ipv4())
    }
}

/// Whether a node has the role of a gateway.
pub fn may_be_gateway(node: &Node) -> bool {
    node.roles.iter().any(|role| role == "gateway")
}

/// Whether a port has the networks for what it advertises, and is on a logical network.
pub(super) fn may_advertise(port: &RouterPort, ra: &Ra) -> bool {
    if !port.gateways.is_empty() {
        return false;
    }
    let mut v6 = port.networks.iter().filter(|network| network.ip.is_ipv6());
    if ra.mode == RaMode::Stateful { v6.next().is_some() } else { v6.any(|network| network.length == 64) }
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
