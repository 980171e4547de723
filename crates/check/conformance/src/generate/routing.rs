//! Random routers, ports, routes and policies, and changes of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use network_spec::{
    Address, Network, PolicyAction, PolicyMatch, Reach, Route, RoutePolicy, Router, RouterPort, Target,
};

use super::Generator;
use crate::frames::Mac;
use crate::world::{Change, may_be_gateway};

/// The protocols that policies name: ICMP, TCP, UDP, ICMP of IPv6, SCTP, and the fragments of IPv6.
const PROTOCOLS: [u8; 6] = [1, 6, 17, 58, 132, 44];

/// The number of networks that machines are in. Less than there may be switches, so that tenants have the same.
const NETWORKS: u64 = 6;

/// The arrangements of routers at the start.
#[derive(Clone, Copy)]
enum Shape {
    /// One router.
    Star,
    /// Some, each joined to the next by a switch without machines.
    Chain,
    /// As a chain, and the last is joined to the first.
    Ring,
}

/// A machine on the physical network of a router's port, in each of its networks.
pub(super) fn outside_machine(port: &RouterPort, number: u8) -> Address {
    let ip = |network: &Network| -> Option<IpAddr> {
        let all = [77, 3, 100, 130, 200].map(|last: u8| last + number);
        all.into_iter()
            .map(|last| with_last(network.ip, last))
            .find(|ip| network.contains(*ip) && *ip != network.ip)
    };
    Address { mac: [2, 0xdd, 0, 0, 0, number + 1], ips: port.networks.iter().filter_map(ip).collect() }
}

/// The address with other last bits.
pub(super) fn with_last(ip: IpAddr, last: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            Ipv4Addr::new(a, b, c, last).into()
        }
        IpAddr::V6(ip) => {
            let mut bytes = ip.octets();
            (bytes[14], bytes[15]) = (0, last);
            Ipv6Addr::from(bytes).into()
        }
    }
}

/// The last part of IPv4 addresses of routers' ports, which no machine has.
const LAST: u8 = 254;

impl Generator<'_> {
    /// The number of the network that the machines of a switch are in.
    pub(super) fn network_of(switch: &str) -> u8 {
        let number: u64 = switch.trim_start_matches(char::is_alphabetic).parse().unwrap_or(0);
        (number % NETWORKS) as u8
    }

    /// Routers at the start: for each tenant's network at least one.
    pub(super) fn routers(&mut self) {
        if !self.style.routed {
            return;
        }
        let mut switches: Vec<String> = self.world.switches.keys().cloned().collect();
        self.routes.shuffle(&mut switches);
        let mut changes = Vec::new();
        for _ in 0..3 {
            let shape =
                *self.routes.pick(&[Shape::Star, Shape::Star, Shape::Chain, Shape::Chain, Shape::Ring]);
            switches = self.island(shape, switches, &mut changes);
            if switches.is_empty() {
                break;
            }
        }
        self.change(changes);
        if self.style.outside {
            self.routes_outside();
        }
        for _ in 0..self.routes.below(4) {
            let more = self.some_routing();
            self.change(more);
        }
    }

    /// Routers in an arrangement, for as many of the switches as they can join. Returns the others.
    fn island(&mut self, shape: Shape, switches: Vec<String>, changes: &mut Vec<Change>) -> Vec<String> {
        let count = match shape {
            Shape::Star => 1,
            Shape::Chain => *self.routes.pick(&[2, 2, 3, 4]),
            Shape::Ring => *self.routes.pick(&[2, 3]),
        };
        let routers: Vec<String> = (0..count).map(|_| self.new_name("r")).collect();
        let mut scratch = self.world.clone();
        for change in changes.iter() {
            scratch.apply(change);
        }
        let mut make = |change: Change, changes: &mut Vec<Change>| {
            let made = scratch.apply(&change);
            if made {
                changes.push(change);
            }
            made
        };
        for router in &routers {
            let router_is = self.router(&switches);
            make(Change::Router(router.clone(), router_is), changes);
        }
        let mut rest = Vec::new();
        // The networks behind each router.
        let mut behind: Vec<(usize, Vec<Network>)> = Vec::new();
        for switch in switches {
            let at = self.routes.below(count) as usize;
            let port = self.router_port(&routers[at], &switch);
            let networks = port.networks.iter().map(|network| network.prefix()).collect();
            let name = self.new_name("a");
            if make(Change::RouterPort(name, port), changes) {
                behind.push((at, networks));
            } else {
                rest.push(switch);
            }
        }
        let mut links = Vec::new();
        let ends: Vec<(usize, usize)> = match shape {
            Shape::Ring => (0..routers.len()).map(|at| (at, (at + 1) % routers.len())).collect(),
            _ => (1..routers.len()).map(|at| (at - 1, at)).collect(),
        };
        for (one, other) in ends {
            let switch = self.new_name("s");
            let transit = links.len() as u8;
            make(Change::Switch(switch.clone(), String::new()), changes);
            let length = *self.routes.pick(&[(24, 64), (30, 127), (31, 64)]);
            for (router, side) in [(one, 0), (other, 1)] {
                let networks = vec![
                    Network::of(Ipv4Addr::new(10, 1, transit, side + u8::from(length.0 != 31)), length.0),
                    Network::of(Ipv6Addr::new(0xfd01, 0, 0, transit.into(), 0, 0, 0, side.into()), length.1),
                ];
                let mac = [2, 0, 0, 0, 0xfe, side];
                let port = RouterPort {
                    router: routers[router].clone(),
                    switch: switch.clone(),
                    mac,
                    networks,
                    gateways: Vec::new(),
                };
                let name = self.new_name("a");
                make(Change::RouterPort(name, port), changes);
            }
            let hop = |side: u8| -> [IpAddr; 2] {
                [
                    Ipv4Addr::new(10, 1, transit, side + u8::from(length.0 != 31)).into(),
                    Ipv6Addr::new(0xfd01, 0, 0, transit.into(), 0, 0, 0, side.into()).into(),
                ]
            };
            links.push((one, other, hop(0), hop(1)));
        }
        for change in self.routes_between(&routers, &behind, &links) {
            make(change, changes);
        }
        rest
    }

    /// Routes to the networks behind other routers of a chain or ring, and defaults along it.
    fn routes_between(
        &mut self,
        routers: &[String],
        behind: &[(usize, Vec<Network>)],
        links: &[(usize, usize, [IpAddr; 2], [IpAddr; 2])],
    ) -> Vec<Change> {
        let mut wanted: Vec<(usize, Network, IpAddr)> = Vec::new();
        for (one, other, of_one, of_other) in links {
            for (at, networks) in behind {
                for network in networks {
                    let version = usize::from(network.ip.is_ipv6());
                    // Ascending along the chain; a ring has its last link besides, which leads on.
                    if one < other && at >= other {
                        wanted.push((*one, *network, of_other[version]));
                    }
                    if one < other && at <= one {
                        wanted.push((*other, *network, of_one[version]));
                    }
                }
            }
            let all: [Network; 2] =
                [Network::of(Ipv4Addr::UNSPECIFIED, 0), Network::of(Ipv6Addr::UNSPECIFIED, 0)];
            for (version, network) in all.into_iter().enumerate() {
                if self.routes.chance(40) {
                    wanted.push((*one, network, of_other[version]));
                }
                if self.routes.chance(15) {
                    wanted.push((*other, network, of_one[version]));
                }
            }
        }
        let mut changes = Vec::new();
        for (at, destination, hop) in wanted {
            if self.routes.chance(92) {
                let name = self.new_name("w");
                let route = Route { router: routers[at].clone(), destination, target: Target::of(vec![hop]) };
                changes.push(Change::Route(name, route));
            }
        }
        changes
    }

    /// A router, most often of no tenant: then its switches say which.
    fn router(&mut self, switches: &[String]) -> Router {
        let tenants: Vec<String> = switches
            .iter()
            .filter_map(|switch| Some(self.world.switches.get(switch)?.tenant.clone()))
            .collect();
        let of_switch = if tenants.is_empty() { String::new() } else { self.routes.pick(&tenants).clone() };
        let tenant = if self.routes.chance(30) { of_switch } else { String::new() };
        let direct = *self.routes.pick(&[Reach::Auto, Reach::Direct]);
        let reach = if self.style.relayed && self.routes.chance(80) { Reach::Relay } else { direct };
        let mut proxy_arp = Vec::new();
        for _ in 0..*self.routes.pick(&[0, 0, 0, 1, 2]) {
            let network = *self.routes.pick(&[
                Network::of(Ipv4Addr::new(10, 9, 9, 0), 24),
                Network::of(Ipv4Addr::new(10, 0, 0, 0), 30),
                Network::of(Ipv4Addr::new(10, 0, 0, 0), 22),
                Network::of(Ipv4Addr::UNSPECIFIED, 0),
                Network::of(Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 0), 64),
                Network::of(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 48),
            ]);
            if !proxy_arp.contains(&network) {
                proxy_arp.push(network);
            }
        }
        Router { tenant, reach, proxy_arp }
    }

    /// A port of a router in the network that the machines of a switch are in.
    fn router_port(&mut self, router: &str, switch: &str) -> RouterPort {
        let network = Generator::network_of(switch);
        let number = self.routes.below(3) as u8;
        let (four, six) = *self.routes.pick(&[(1, 0), (1, 1), (1, 1), (1, 1), (0, 1), (2, 1)]);
        let mut networks = Vec::new();
        if four > 0 {
            let length = *self.routes.pick(&[24, 24, 24, 24, 25, 28, 23]);
            let last = if length == 28 { 14 - number } else { LAST - number };
            let last = if length == 25 { last - 128 } else { last };
            networks.push(Network::of(Ipv4Addr::new(10, 0, network, last), length));
        }
        if four > 1 {
            networks.push(Network::of(Ipv4Addr::new(10, 2, network, LAST - number), 24));
        }
        if six > 0 {
            let ip = Ipv6Addr::new(0xfd00, 0, 0, network.into(), 0, 0, 0, 0xfe - u16::from(number));
            networks.push(Network::of(ip, *self.routes.pick(&[64, 64, 64, 120, 48])));
        }
        // Sometimes that of a machine on another switch.
        let mac: Mac = if self.routes.chance(5) {
            [2, 0, 0, 0, 0, self.routes.below(12) as u8 + 1]
        } else {
            [2, 0, 0, 0, 0xff, number + 1]
        };
        let gateways = self.gateways(switch);
        RouterPort { router: router.to_owned(), switch: switch.to_owned(), mac, networks, gateways }
    }

    /// Gateways for a port on a switch: mostly if it is on a physical network.
    fn gateways(&mut self, switch: &str) -> Vec<(String, i64)> {
        let usual = if self.world.localnet_of(switch).is_some() { 85 } else { 3 };
        if !self.style.outside || !self.routes.chance(usual) {
            return Vec::new();
        }
        let nodes = self.world.nodes.iter().filter(|(_, node)| may_be_gateway(node));
        let mut nodes: Vec<String> = nodes.map(|(name, _)| name.clone()).collect();
        self.routes.shuffle(&mut nodes);
        nodes.truncate(*self.routes.pick(&[1, 2, 2, 3]));
        nodes.into_iter().map(|name| (name, self.routes.below(3) as i64)).collect()
    }

    /// Routes by machines on physical networks.
    pub(super) fn routes_outside(&mut self) {
        let ports: Vec<RouterPort> = self.world.router_ports.values().cloned().collect();
        for port in ports.into_iter().filter(|port| !port.gateways.is_empty()) {
            let hops = outside_machine(&port, 0).ips;
            for hop in hops {
                let all: IpAddr =
                    if hop.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
                let (router, target) = (port.router.clone(), Target::of(vec![hop]));
                let name = self.new_name("w");
                self.change(vec![Change::Route(
                    name,
                    Route { router, destination: Network::of(all, 0), target },
                )]);
            }
        }
    }

    fn some_router(&mut self) -> Option<String> {
        let all: Vec<String> = self.world.routers.keys().cloned().collect();
        (!all.is_empty()).then(|| self.routes.pick(&all).clone())
    }

    /// A change of routers or of what belongs to them.
    pub(super) fn some_routing(&mut self) -> Vec<Change> {
        match self.routes.below(100) {
            0..8 => self.changed_router(),
            8..30 => self.changed_router_port(),
            30..70 => self.changed_route(),
            70..95 => self.changed_policy(),
            _ => self.removed_router(),
        }
    }

    fn changed_router(&mut self) -> Vec<Change> {
        let switches: Vec<String> = self.world.switches.keys().cloned().collect();
        let router = self.router(&switches);
        let name = self.some_router().filter(|_| self.routes.chance(80));
        let name = name.unwrap_or_else(|| self.new_name("r"));
        vec![Change::Router(name, router)]
    }

    fn removed_router(&mut self) -> Vec<Change> {
        let Some(name) = self.some_router() else { return vec![] };
        let world = &self.world;
        let ports = world.ports_of_router(&name).map(|(port, _)| Change::NoRouterPort(port.to_owned()));
        let routes = world.routes.iter().filter(|(_, route)| route.router == name);
        let policies = world.route_policies.iter().filter(|(_, policy)| policy.router == name);
        let nats = world.nats.iter().filter(|(_, nat)| nat.router == name);
        ports
            .chain(routes.map(|(route, _)| Change::NoRoute(route.clone())))
            .chain(policies.map(|(policy, _)| Change::NoPolicy(policy.clone())))
            .chain(nats.map(|(nat, _)| Change::NoNat(nat.clone())))
            .chain([Change::NoRouter(name.clone())])
            .collect()
    }

    fn changed_router_port(&mut self) -> Vec<Change> {
        let Some(router) = self.some_router() else { return vec![] };
        let all: Vec<String> = self.world.router_ports.keys().cloned().collect();
        let there = (!all.is_empty()).then(|| self.routes.pick(&all).clone());
        let switches: Vec<String> = self.world.switches.keys().cloned().collect();
        match (there, self.routes.below(10)) {
            (Some(name), 0..2) => vec![Change::NoRouterPort(name)],
            (Some(name), 2..6) => {
                let mut port = self.world.router_ports[&name].clone();
                let other = self.router_port(&port.router, &port.switch);
                match self.routes.below(if self.style.outside { 5 } else { 3 }) {
                    0 => port.mac = other.mac,
                    1 => port.networks = other.networks,
                    2 => port.router = router,
                    _ => port.gateways = other.gateways,
                }
                vec![Change::RouterPort(name, port)]
            }
            _ if !switches.is_empty() => {
                let switch = self.routes.pick(&switches).clone();
                let port = self.router_port(&router, &switch);
                vec![Change::RouterPort(self.new_name("a"), port)]
            }
            _ => vec![],
        }
    }

    /// A prefix that packets go to, of one IP version or any.
    fn destination(&mut self, is_ipv4: Option<bool>) -> Network {
        let mut all = vec![
            Network::of(Ipv4Addr::UNSPECIFIED, 0),
            Network::of(Ipv4Addr::new(192, 0, 2, 0), 24),
            Network::of(Ipv4Addr::new(10, 0, 0, 0), 8),
            Network::of(Ipv6Addr::UNSPECIFIED, 0),
            Network::of(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
            Network::of(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0), 16),
        ];
        let connected = self.world.router_ports.values().flat_map(|port| &port.networks);
        all.extend(connected.map(|network| network.prefix()));
        let machines =
            self.world.ports.values().flat_map(|port| &port.addresses).flat_map(|address| &address.ips);
        all.extend(machines.map(|ip| Network::host(*ip)));
        all.retain(|network| is_ipv4.is_none_or(|four| network.ip.is_ipv4() == four));
        *self.routes.pick(&all)
    }

    /// Next hops of an IP version: mostly of neighbours of the router.
    fn hops(&mut self, router: &str, is_ipv4: bool) -> Vec<IpAddr> {
        let world = &self.world;
        let mut all: Vec<IpAddr> = Vec::new();
        for (_, port) in world.ports_of_router(router) {
            let machines = self.world.ports_of(&port.switch).flat_map(|(_, port)| &port.addresses);
            all.extend(machines.flat_map(|address| &address.ips));
            let others = world.router_ports_on(&port.switch).flat_map(|(_, other)| &other.networks);
            all.extend(others.map(|network| network.ip));
        }
        // Nobody has the last two.
        all.extend(["10.0.0.77", "10.0.1.77", "203.0.113.1", "fd00::77", "2001:db8::1"].map(address));
        all.retain(|ip| ip.is_ipv4() == is_ipv4);
        all.sort();
        all.dedup();
        self.routes.shuffle(&mut all);
        all.truncate(*self.routes.pick(&[1, 1, 2, 2, 3]));
        all
    }

    fn changed_route(&mut self) -> Vec<Change> {
        let all: Vec<String> = self.world.routes.keys().cloned().collect();
        let there = (!all.is_empty()).then(|| self.routes.pick(&all).clone());
        match (there, self.routes.below(10)) {
            (Some(name), 0..2) => vec![Change::NoRoute(name)],
            (Some(name), 2..7) => {
                let mut route = self.world.routes[&name].clone();
                let more = self.hops(&route.router, route.destination.ip.is_ipv4());
                let mut hops = route.hops().to_vec();
                match self.routes.below(4) {
                    0 => hops = more,
                    1 => drop(hops.pop()),
                    _ => hops.extend(more),
                }
                hops.dedup();
                route.target = Target::of(hops);
                vec![Change::Route(name, route)]
            }
            _ => {
                let Some(router) = self.some_router() else { return vec![] };
                let destination = self.destination(None);
                let mut hops = self.hops(&router, destination.ip.is_ipv4());
                if self.routes.chance(12) {
                    hops.clear();
                }
                vec![Change::Route(
                    self.new_name("w"),
                    Route { router, destination, target: Target::of(hops) },
                )]
            }
        }
    }

    fn changed_policy(&mut self) -> Vec<Change> {
        let all: Vec<String> = self.world.route_policies.keys().cloned().collect();
        let there = (!all.is_empty()).then(|| self.routes.pick(&all).clone());
        if let Some(name) = there.clone().filter(|_| self.routes.chance(30)) {
            return vec![Change::NoPolicy(name)];
        }
        let Some(router) = self.some_router() else { return vec![] };
        let is_ipv4 = self.routes.chance(60);
        let mut prefix = |percent| {
            let network = self.destination(Some(is_ipv4));
            self.routes.chance(percent).then_some(network)
        };
        let (source, destination) = (prefix(40), prefix(50));
        let protocol = self.routes.chance(40).then(|| *self.routes.pick(&PROTOCOLS));
        let action = match self.routes.below(10) {
            0..3 => PolicyAction::Drop,
            3..5 => PolicyAction::Allow,
            _ => PolicyAction::Reroute(self.hops(&router, is_ipv4)),
        };
        let priority = *self.routes.pick(&[0, 1, 1, 10, 10_000]);
        let matches = PolicyMatch { source, destination, protocol };
        let policy = RoutePolicy { router, priority, matches, action };
        let name = there.filter(|_| self.routes.chance(40)).unwrap_or_else(|| self.new_name("b"));
        vec![Change::Policy(name, policy)]
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
