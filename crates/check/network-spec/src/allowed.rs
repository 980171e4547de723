//! The addresses that a port may use: its own, and those that it is allowed besides.

use std::net::IpAddr;

use crate::World;
use crate::frame::link_local;
use crate::routing::Network;
use crate::world::{Mac, Port};

/// Addresses that a port is allowed beside its own, and may share with other ports. They belong to nobody: nobody answers for them in the
/// name of the port, and no router knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The MAC; none for the port's own ones.
    pub mac: Option<Mac>,
    /// The prefixes of IP addresses at this MAC; if there are none, the port may use any there.
    pub ips: Vec<Network>,
}

/// The addresses that a port may use at a MAC.
#[derive(Clone, Debug)]
pub(crate) struct Usable {
    pub(crate) mac: Mac,
    /// Whether it may use any IP address there.
    pub(crate) any: bool,
    prefixes: Vec<Network>,
}

impl Usable {
    /// Whether the port may use an IP address here, other than the link-local one of the MAC. The unspecified address is none, whatever the
    /// prefix around it.
    pub(crate) fn has(&self, ip: impl Into<IpAddr>) -> bool {
        let ip = ip.into();
        !ip.is_unspecified() && self.prefixes.iter().any(|prefix| prefix.contains(ip))
    }

    /// Whether it may use IPv4 addresses here.
    pub(crate) fn has_ipv4(&self) -> bool {
        self.prefixes.iter().any(|prefix| prefix.ip.is_ipv4())
    }

    /// Whether it may use IPv6 addresses here.
    pub(crate) fn has_ipv6(&self) -> bool {
        self.prefixes.iter().any(|prefix| prefix.ip.is_ipv6())
    }
}

impl Port {
    /// What the port may use at a MAC; none if it may not use the MAC.
    ///
    /// At its own MACs it may use its own addresses there, and at those that it shares all its own addresses: what machines that share a
    /// MAC say of that comes from an address of their own (RFC 9568, 5.1.1.1). At both, it may use what it is allowed besides.
    pub(crate) fn usable(&self, mac: Mac) -> Option<Usable> {
        let is_for = |allowed: &&Allowed| allowed.mac.map_or(self.has_mac(mac), |named| named == mac);
        let allowed: Vec<&Allowed> = self.allowed.iter().filter(is_for).collect();
        let mut prefixes: Vec<Network> = allowed.iter().flat_map(|one| one.ips.iter().copied()).collect();
        let hosts = |ips: &[IpAddr]| ips.iter().map(|ip| Network::host(*ip)).collect::<Vec<_>>();
        let Some(own) = self.addresses.iter().find(|address| address.mac == mac) else {
            let any = allowed.iter().any(|one| one.ips.is_empty());
            for address in &self.addresses {
                prefixes.extend(hosts(&address.ips));
                if address.ips.iter().any(IpAddr::is_ipv6) {
                    prefixes.push(Network::host(link_local(address.mac)));
                }
            }
            return (!allowed.is_empty()).then_some(Usable { mac, any, prefixes });
        };
        let any = own.ips.is_empty() && !self.dynamic.contains(&mac);
        prefixes.extend(hosts(&own.ips));
        Some(Usable { mac, any, prefixes })
    }

    /// Whether the port is allowed a MAC that is not its own.
    pub(crate) fn shares(&self, mac: Mac) -> bool {
        !self.has_mac(mac) && self.allowed.iter().any(|one| one.mac == Some(mac))
    }

    fn has_mac(&self, mac: Mac) -> bool {
        self.addresses.iter().any(|address| address.mac == mac)
    }
}

impl World {
    /// Whether ports of a switch share a MAC.
    pub(crate) fn is_shared(&self, switch: &str, mac: Mac) -> bool {
        self.ports_of(switch).any(|(_, port)| port.shares(mac))
    }
}
