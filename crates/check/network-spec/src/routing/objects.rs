//! Routers as users configure them.

use std::fmt;
use std::net::IpAddr;

use crate::World;
use crate::frame::link_local;
use crate::world::{Address, Mac, joined, mac_text};

/// An IP address and the length of its prefix: a prefix, whose other bits do not count, or the address of an interface in its
/// network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// The address.
    pub ip: IpAddr,
    /// The length of the prefix.
    pub length: u8,
}

/// A router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Router {
    /// The tenant; has no effect on frames.
    pub tenant: String,
    /// How hosts send behind it; does not matter for frames.
    pub reach: Reach,
    /// The prefixes that its ports answer ARP requests and neighbour solicitations for.
    pub proxy_arp: Vec<Network>,
}

/// How hosts send packets to switches that they reach through a router alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// As the number of ports says.
    #[default]
    Auto,
    /// To the host of each port.
    Direct,
    /// Over a host that has ports of the switch.
    Relay,
}

/// A port of a router, on a logical switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterPort {
    /// The router.
    pub router: String,
    /// The switch.
    pub switch: String,
    /// Its MAC, which is no other port's of the switch.
    pub mac: Mac,
    /// Its addresses, each in a network that is connected to the router. No other port of the switch has one of the
    /// addresses, and no two networks of a router overlap.
    pub networks: Vec<Network>,
    /// The hosts that connect it to the physical network of its switch, each with a priority. None on a switch without one.
    pub gateways: Vec<(String, i64)>,
}

/// A static route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The router.
    pub router: String,
    /// The destinations. No other route of the router has the same.
    pub destination: Network,
    /// Where packets go.
    pub target: Target,
}

/// The target of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One of these next hops, by flow.
    NextHops(Vec<IpAddr>),
    /// Nowhere.
    Discard,
}

/// A policy route: decides before routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePolicy {
    /// The router.
    pub router: String,
    /// Of several that match, the one with the highest priority counts; then drop comes before reroute and reroute before
    /// allow; then the first by id counts.
    pub priority: i64,
    /// The packets that it is for.
    pub matches: PolicyMatch,
    /// What happens to them.
    pub action: PolicyAction,
}

/// The packets that a policy is for: those for which all that is given holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyMatch {
    /// The prefix of the source.
    pub source: Option<Network>,
    /// The prefix of the destination.
    pub destination: Option<Network>,
    /// The protocol above IP and its extension headers. That of a fragment of an IPv6 packet, except the first, is 44.
    pub protocol: Option<u8>,
}

/// The action of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyAction {
    /// They are dropped.
    Drop,
    /// They go to one of these next hops, by flow. The policy is only for packets of the IP versions of the next hops.
    Reroute(Vec<IpAddr>),
    /// Routes decide.
    Allow,
}

impl Network {
    /// The prefix of this length with this address in it, or the address in its network.
    pub fn of(ip: impl Into<IpAddr>, length: u8) -> Network {
        Network { ip: ip.into(), length }
    }

    /// The address alone.
    pub fn host(ip: IpAddr) -> Network {
        Network { ip, length: if ip.is_ipv4() { 32 } else { 128 } }
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
        let wider = if self.length < other.length { self } else { other };
        wider.contains(self.ip) && wider.contains(other.ip)
    }

    /// Whether an address is in the prefix.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ((own, width), (other, of_other)) = (bits(self.ip), bits(ip));
        let host_bits = width.saturating_sub(self.length);
        width == of_other && (own ^ other).checked_shr(host_bits.into()).unwrap_or(0) == 0
    }

    /// The address of any router of an IPv6 network (RFC 4291, 2.6.1). In a network of two addresses it would be that of one of them (RFC
    /// 6164, 5.1).
    pub(crate) fn is_anycast(&self, ip: IpAddr) -> bool {
        let IpAddr::V6(address) = ip else { return false };
        let host_bits = u128::MAX.checked_shr(self.length.into()).unwrap_or(0);
        self.length < 127 && self.contains(ip) && u128::from(address) & host_bits == 0
    }

    /// The address of all hosts of an IPv4 network. Networks of one or two addresses have none (RFC 3021).
    pub(crate) fn is_broadcast(&self, ip: IpAddr) -> bool {
        let IpAddr::V4(address) = ip else { return false };
        let host_bits = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
        self.length < 31 && self.contains(ip) && u32::from(address) & host_bits == host_bits
    }
}

impl Target {
    /// To these next hops; without any, nowhere.
    pub fn of(hops: Vec<IpAddr>) -> Target {
        if hops.is_empty() { Target::Discard } else { Target::NextHops(hops) }
    }
}

impl Route {
    /// Its next hops.
    pub fn hops(&self) -> &[IpAddr] {
        match &self.target {
            Target::NextHops(hops) => hops,
            Target::Discard => &[],
        }
    }
}

impl RoutePolicy {
    /// Its next hops.
    pub fn hops(&self) -> &[IpAddr] {
        match &self.action {
            PolicyAction::Reroute(hops) => hops,
            PolicyAction::Drop | PolicyAction::Allow => &[],
        }
    }
}

/// The bits of an address, and their number.
fn bits(ip: IpAddr) -> (u128, u8) {
    match ip {
        IpAddr::V4(ip) => (u32::from(ip).into(), 32),
        IpAddr::V6(ip) => (ip.into(), 128),
    }
}

impl RouterPort {
    /// Its MAC and its configured addresses, as those of a machine.
    pub fn address(&self) -> Address {
        Address { mac: self.mac, ips: self.networks.iter().map(|network| network.ip).collect() }
    }

    /// Whether an address is one of this port's own: a configured one, or the link-local address that every interface with
    /// IPv6 has (RFC 4291, 2.1).
    pub(crate) fn has(&self, ip: IpAddr) -> bool {
        let has_ipv6 = self.networks.iter().any(|network| network.ip.is_ipv6());
        self.networks.iter().any(|network| network.ip == ip) || (has_ipv6 && link_local(self.mac) == ip)
    }
}

impl World {
    /// The ports of a router.
    pub fn ports_of_router<'a>(&'a self, router: &'a str) -> impl Iterator<Item = (&'a str, &'a RouterPort)> {
        let ports = self.router_ports.iter().filter(move |(_, port)| port.router == router);
        ports.map(|(id, port)| (id.as_str(), port))
    }

    /// The ports of routers on a switch that are on all hosts, without dead ones.
    pub fn routers_on<'a>(&'a self, switch: &'a str) -> impl Iterator<Item = (&'a str, &'a RouterPort)> {
        let ports = self
            .router_ports
            .iter()
            .filter(|(_, port)| self.localnet_of(&port.switch).is_none() && port.gateways.is_empty());
        ports.filter(move |(_, port)| port.switch == switch).map(|(id, port)| (id.as_str(), port))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.length)
    }
}

impl fmt::Display for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of tenant {:?}, reach {:?}", self.tenant, self.reach)?;
        if self.proxy_arp.is_empty() {
            Ok(())
        } else {
            write!(f, ", answers for {}", joined(&self.proxy_arp))
        }
    }
}

impl fmt::Display for RouterPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (networks, mac) = (joined(&self.networks), mac_text(self.mac));
        write!(f, "of {} on {}, {networks} at {mac}", self.router, self.switch)?;
        self.gateways.iter().try_for_each(|(node, priority)| write!(f, ", gateway {node} ({priority})"))
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hops = self.hops();
        let hops = if hops.is_empty() { "nowhere".to_owned() } else { joined(hops) };
        write!(f, "of {} to {} by {hops}", self.router, self.destination)
    }
}

impl fmt::Display for RoutePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyMatch { source, destination, protocol } = &self.matches;
        write!(f, "of {}, priority {}", self.router, self.priority)?;
        source.iter().try_for_each(|from| write!(f, ", from {from}"))?;
        destination.iter().try_for_each(|to| write!(f, ", to {to}"))?;
        protocol.iter().try_for_each(|protocol| write!(f, ", protocol {protocol}"))?;
        match &self.action {
            PolicyAction::Drop => f.write_str(": drop"),
            PolicyAction::Allow => f.write_str(": allow"),
            PolicyAction::Reroute(hops) => write!(f, ": reroute by {}", joined(hops)),
        }
    }
}
