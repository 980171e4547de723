//! The next hop of a packet: policies, routes, and the MACs of neighbours.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::objects::{Network, PolicyAction, Reach, RoutePolicy, RouterPort, Target};
use super::packet::Routed;
use super::path::Why;
use crate::World;
use crate::world::{Mac, Port};

/// The way of a packet from a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To its destination, in a connected network.
    Connected,
    /// To one of these next hops.
    Via(By, BTreeSet<IpAddr>),
}

/// The object that names next hops.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    /// The route of this id.
    Route(String),
    /// The policy of this id.
    Policy(String),
}

impl World {
    /// The way of a packet: a policy decides, else the most specific route.
    pub(crate) fn way(&self, router: &str, packet: &Routed) -> Result<Way, Why> {
        match self.policy_for(router, packet) {
            Some((id, policy)) => match &policy.action {
                PolicyAction::Drop => Err(Why::Policy(id.to_owned())),
                PolicyAction::Reroute(hops) => {
                    Ok(Way::Via(By::Policy(id.to_owned()), hops.iter().copied().collect()))
                }
                PolicyAction::Allow => self.route_to(router, packet.dst),
            },
            None => self.route_to(router, packet.dst),
        }
    }

    /// The policy that counts for a packet.
    fn policy_for(&self, router: &str, packet: &Routed) -> Option<(&str, &RoutePolicy)> {
        let strictness = |action: &PolicyAction| match action {
            PolicyAction::Drop => 0,
            PolicyAction::Reroute(_) => 1,
            PolicyAction::Allow => 2,
        };
        let policies = self.route_policies.iter().filter(|(_, policy)| policy.router == router);
        let matching = policies.filter(|(_, policy)| policy.is_for(packet));
        let first = matching.min_by_key(|(id, policy)| (-policy.priority, strictness(&policy.action), *id));
        first.map(|(id, policy)| (id.as_str(), policy))
    }

    /// The way to a destination: the longest prefix wins (RFC 1812, 5.2.4.3), and a connected network beats a route of the
    /// same length. A packet to all hosts of a connected network is not forwarded (RFC 2644).
    fn route_to(&self, router: &str, destination: IpAddr) -> Result<Way, Why> {
        let routes = self.routes.iter().filter(|(_, route)| route.router == router);
        let routes = routes.filter(|(_, route)| route.destination.contains(destination));
        let mut longest: Option<(&String, u8, &Target)> = None;
        for (id, route) in routes {
            let length = route.destination.length;
            if longest.is_none_or(|(_, longest, _)| length > longest) {
                longest = Some((id, length, &route.target));
            }
        }
        let connected = self.connected(router, destination).map(|(_, network)| network);
        match (connected, longest) {
            (Some(network), static_route)
                if static_route.is_none_or(|(_, length, _)| network.length >= length) =>
            {
                if network.is_broadcast(destination) { Err(Why::Group) } else { Ok(Way::Connected) }
            }
            (_, Some((id, _, Target::NextHops(hops)))) => {
                Ok(Way::Via(By::Route(id.clone()), hops.iter().copied().collect()))
            }
            (_, Some((_, _, Target::Discard))) => Err(Why::Discarded),
            (_, None) => Err(Why::NoRoute),
        }
    }

    /// The port of a router with the connected network that an address is in, and the network.
    pub(crate) fn connected<'a>(&'a self, router: &'a str, ip: IpAddr) -> Option<(&'a str, Network)> {
        let networks = self.ports_of_router(router);
        let networks =
            networks.flat_map(|(id, port)| port.networks.iter().map(move |network| (id, *network)));
        let containing = networks.filter(|(_, network)| network.contains(ip));
        containing.max_by_key(|(id, network)| (network.length, std::cmp::Reverse(*id)))
    }

    /// The port of a router through which a neighbour is reached, and the MAC of the neighbour. A next hop is always a
    /// neighbour: routes to next hops are not followed further.
    pub(crate) fn neighbour<'a>(&'a self, router: &'a str, ip: IpAddr) -> Option<(&'a str, Mac)> {
        let (id, _) = self.connected(router, ip)?;
        let port = &self.router_ports[id];
        let mac = self.declared(port, ip)?;
        Some((id, mac))
    }

    /// Whether a router sends to a next hop. On a physical network, that is for the gateway to find out.
    pub(crate) fn may_have_neighbour(&self, router: &str, ip: IpAddr) -> bool {
        let is_outside = self.connected(router, ip).is_some_and(|(id, _)| self.is_outside(id));
        let is_own =
            self.ports_of_router(router).any(|(_, port)| port.networks.iter().any(|own| own.ip == ip));
        (is_outside && !is_own) || self.neighbour(router, ip).is_some()
    }

    /// Whether a router that sends from a host says that nobody has an address in a connected network. It does not where that is for another
    /// host to know, and where the port is dead.
    pub(crate) fn says_unreachable(&self, host: &str, router: &str, ip: IpAddr) -> bool {
        let Some((id, _)) = self.connected(router, ip) else { return true };
        let switch = &self.router_ports[id].switch;
        !self.is_dead(&self.router_ports[id]) && !self.sends_to_relay(host, switch)
    }

    /// Whether a router that sends from a host may say that nobody has an address, although a port declares it: the port is on no host that the
    /// sender's host, which has no port of the switch, can send to.
    pub(crate) fn may_say_nobody(&self, host: &str, switch: &str, ip: IpAddr) -> bool {
        let declares = |port: &&Port| port.addresses.iter().any(|address| address.ips.contains(&ip));
        let mut ports = self.ports_of(switch).filter(|(_, port)| declares(port));
        let is_near = |port: &str| {
            self.hosts_with(port).into_iter().any(|to| to == host || self.tunnel(host, to).is_some())
        };
        !self.knows(host, switch) && ports.next().is_some_and(|(port, _)| !is_near(port))
    }

    /// Whether a host sends what is for a switch to another host with ports of it. That is so if it has no ports of it itself, and all routers
    /// there want it.
    fn sends_to_relay(&self, host: &str, switch: &str) -> bool {
        const MOST_DIRECT_PORTS: usize = 256;
        let wants = |router: &str| match self.routers.get(router).map(|router| router.reach) {
            Some(Reach::Relay) => true,
            Some(Reach::Auto) => {
                let switches: BTreeSet<&str> =
                    self.ports_of_router(router).map(|(_, port)| port.switch.as_str()).collect();
                switches.iter().map(|switch| self.ports_of(switch).count()).sum::<usize>() > MOST_DIRECT_PORTS
            }
            Some(Reach::Direct) | None => false,
        };
        !self.knows(host, switch)
            && self.routers_on(switch).all(|(_, port)| wants(&port.router))
            && self.hosts_of(switch).into_iter().any(|relay| self.tunnel(host, relay).is_some())
    }

    /// The MAC of an address on the switch of a router's port: of a port that declares the address, on whatever host it is or on
    /// none, or of a port of another router. No router asks: what is not declared is not known.
    fn declared(&self, port: &RouterPort, ip: IpAddr) -> Option<Mac> {
        if self.is_dead(port) || self.localnet_of(&port.switch).is_some() {
            return None;
        }
        let mut addresses = self.ports_of(&port.switch).flat_map(|(_, of)| &of.addresses);
        let at_port = addresses.find(|address| address.ips.contains(&ip)).map(|address| address.mac);
        let mut others = self.routers_on(&port.switch).filter(|(_, other)| other.router != port.router);
        at_port.or_else(|| {
            let has = |other: &RouterPort| other.networks.iter().any(|network| network.ip == ip);
            others.find(|(_, other)| has(other)).map(|(_, other)| other.mac)
        })
    }
}

impl RoutePolicy {
    fn is_for(&self, packet: &Routed) -> bool {
        let within = |network: Option<Network>, ip| network.is_none_or(|network| network.contains(ip));
        let matches = &self.matches;
        let same_version = match &self.action {
            PolicyAction::Reroute(hops) => hops.iter().any(|hop| hop.is_ipv4() == packet.dst.is_ipv4()),
            PolicyAction::Drop | PolicyAction::Allow => true,
        };
        within(matches.source, packet.src)
            && within(matches.destination, packet.dst)
            && matches.protocol.is_none_or(|protocol| protocol == packet.protocol)
            && same_version
    }
}
