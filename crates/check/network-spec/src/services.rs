//! The servers that the network itself is: DHCP servers and DNS zones, as users declare them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use crate::World;
use crate::routing::Network;
use crate::world::{Mac, joined, mac_text};

/// The addresses of a server on its switches, which belong to no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    /// Its address.
    pub ip: IpAddr,
    /// The MAC address that it is at.
    pub mac: Mac,
}

/// A DHCP server for the ports of a switch, of the IP version of its network. Networks of one switch do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dhcp {
    /// The switch.
    pub switch: String,
    /// The network of the addresses that it gives.
    pub net: Network,
    /// The default router that it tells machines, for IPv4 alone.
    pub router: Option<Ipv4Addr>,
    /// Its addresses.
    pub server: Server,
    /// The seconds of a lease; `u32::MAX` is for ever.
    pub lease: u32,
    /// The DNS servers that it tells machines.
    pub dns: Vec<IpAddr>,
    /// The MTU that it tells machines instead of that of the switch, for IPv4 alone.
    pub mtu: Option<u16>,
    /// The domain that it tells machines, for IPv4 alone.
    pub domain_name: Option<String>,
    /// Other options by their numbers, for IPv4 alone.
    pub other: BTreeMap<u8, Vec<u8>>,
}

/// Names for the ports of switches. No two zones of a switch have the same name, and what a name is another name for is none itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsZone {
    /// The switches.
    pub switches: BTreeSet<String>,
    /// The server that machines ask. Without one, the zone answers whoever they ask.
    pub server: Option<Server>,
    /// What is known of each name, as users write it.
    pub records: BTreeMap<String, DnsData>,
    /// The seconds for which a machine may remember it.
    pub ttl: u32,
}

/// What is known of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsData {
    /// Its addresses.
    Addresses(Vec<IpAddr>),
    /// It is another name for this one.
    Alias(String),
}

impl World {
    /// The servers of a switch.
    pub fn servers_on(&self, switch: &str) -> impl Iterator<Item = &Server> {
        let dhcp = self.dhcps.values().filter(move |dhcp| dhcp.switch == switch);
        dhcp.map(|dhcp| &dhcp.server).chain(self.zones_on(switch).filter_map(|zone| zone.server.as_ref()))
    }

    /// The zones that the ports of a switch have names from.
    pub(crate) fn zones_on(&self, switch: &str) -> impl Iterator<Item = &DnsZone> {
        self.dns_zones.values().filter(move |zone| zone.switches.contains(switch))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.ip, mac_text(self.mac))
    }
}

impl fmt::Display for Dhcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {} for {}, server {}, lease {} s", self.switch, self.net, self.server, self.lease)?;
        self.router.iter().try_for_each(|router| write!(f, ", router {router}"))?;
        write!(f, ", DNS [{}]", joined(&self.dns))?;
        self.mtu.iter().try_for_each(|mtu| write!(f, ", MTU {mtu}"))?;
        self.domain_name.iter().try_for_each(|name| write!(f, ", domain {name}"))?;
        self.other.iter().try_for_each(|(code, value)| write!(f, ", option {code} {value:02x?}"))
    }
}

impl fmt::Display for DnsZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {:?}, TTL {} s", self.switches, self.ttl)?;
        self.server.iter().try_for_each(|server| write!(f, ", server {server}"))?;
        self.records.iter().try_for_each(|(name, data)| match data {
            DnsData::Addresses(ips) => write!(f, ", {name} [{}]", joined(ips)),
            DnsData::Alias(target) => write!(f, ", {name} is {target}"),
        })
    }
}
