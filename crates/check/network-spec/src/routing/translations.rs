//! The rows of address translation (NAT) as users configure them, and the addresses that they name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use super::objects::Network;
use crate::World;

/// A translation of addresses at the ports of a router on physical networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nat {
    /// The router.
    pub router: String,
    /// The addresses, and what is done with them.
    pub kind: NatKind,
}

/// The forms of translation. Internal and external addresses are of one IP version; no external address is that of two rows, except
/// of those that concern other packets, and none is internal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatKind {
    /// Machines inside share addresses.
    Snat {
        /// The first and the last external address, at most 256.
        external: (IpAddr, IpAddr),
        /// The sources.
        internal: Network,
        /// The external ports; all that a source may have, if none are said.
        ports: Option<(u16, u16)>,
        /// The name of the address group of destinations for which nothing is translated.
        except: Option<String>,
    },
    /// Machines outside reach a machine inside.
    Dnat {
        /// The address that they send to.
        external: IpAddr,
        /// That of the machine.
        internal: IpAddr,
        /// The packets; all, if it is not said.
        service: Option<NatService>,
    },
    /// A machine inside has an address outside.
    Floating {
        /// The address outside.
        external: IpAddr,
        /// That of the machine.
        internal: IpAddr,
    },
}

/// The packets that a translation of destinations is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatService {
    /// TCP or UDP.
    pub protocol: u8,
    /// The port outside and the one inside; all stay as they are, if none is said.
    pub ports: Option<(u16, u16)>,
}

impl NatKind {
    /// The external addresses, the first and the last.
    pub fn external(&self) -> (IpAddr, IpAddr) {
        match self {
            NatKind::Snat { external, .. } => *external,
            NatKind::Dnat { external, .. } | NatKind::Floating { external, .. } => (*external, *external),
        }
    }

    /// The length of the prefix of sources that it translates and that has this one; a machine's own address is longer than all.
    fn covers(&self, source: IpAddr) -> Option<u8> {
        match self {
            NatKind::Snat { internal, .. } => internal.contains(source).then_some(internal.length),
            NatKind::Floating { internal, .. } => (*internal == source).then_some(u8::MAX),
            NatKind::Dnat { .. } => None,
        }
    }

    /// How closely it names the destination of a packet of this protocol, to this port if there is one; none if it is not for it.
    fn takes(&self, destination: IpAddr, protocol: u8, port: Option<u16>) -> Option<u8> {
        match self {
            NatKind::Floating { external, .. } => (*external == destination).then_some(0),
            NatKind::Dnat { external, .. } if *external != destination => None,
            NatKind::Dnat { service: None, .. } => Some(1),
            NatKind::Dnat { service: Some(service), .. } if service.protocol != protocol => None,
            NatKind::Dnat { service: Some(NatService { ports: None, .. }), .. } => Some(2),
            NatKind::Dnat { service: Some(NatService { ports: Some((external, _)), .. }), .. } => {
                (port == Some(*external)).then_some(3)
            }
            NatKind::Snat { .. } => None,
        }
    }

    /// The address that a source gets. Of several, each source has one, by its low bits.
    pub(super) fn address_for(&self, source: IpAddr) -> IpAddr {
        let (first, last) = self.external();
        let (IpAddr::V4(first), IpAddr::V4(last), IpAddr::V4(source)) = (first, last, source) else {
            return self.address_for_v6(source);
        };
        let count = u32::from(last) - u32::from(first) + 1;
        let slot = u32::from(source) & (count.next_power_of_two() - 1);
        Ipv4Addr::from(u32::from(first) + slot % count).into()
    }

    fn address_for_v6(&self, source: IpAddr) -> IpAddr {
        let (first, last) = self.external();
        let (IpAddr::V6(start), IpAddr::V6(end), IpAddr::V6(source)) = (first, last, source) else {
            return first;
        };
        let count = u128::from(end) - u128::from(start) + 1;
        let slot = u128::from(source) & (count.next_power_of_two() - 1);
        IpAddr::V6((u128::from(start) + slot % count).into())
    }
}

impl Nat {
    /// Whether an address is one of its external ones.
    pub fn has_external(&self, ip: IpAddr) -> bool {
        let (first, last) = self.kind.external();
        ip.is_ipv4() == first.is_ipv4() && (first..=last).contains(&ip)
    }
}

impl World {
    /// The rows of translation that apply at a port of a router: at those whose networks have an external address of the row; if
    /// there are none, at all on physical networks.
    pub fn nats_at(&self, id: &str) -> Vec<(&str, &Nat)> {
        let Some(port) = self.router_ports.get(id).filter(|_| self.is_outside(id)) else { return Vec::new() };
        let applies =
            |nat: &Nat| nat.router == port.router && (self.is_near(id, nat) || !self.is_near_somewhere(nat));
        let all = self.nats.iter().filter(|(_, nat)| applies(nat));
        all.map(|(name, nat)| (name.as_str(), nat)).collect()
    }

    /// Whether a network of a router's port has an external address of a row.
    fn is_near(&self, id: &str, nat: &Nat) -> bool {
        let (first, last) = nat.kind.external();
        let networks = self.router_ports.get(id).map_or(&[][..], |port| &port.networks);
        networks.iter().any(|network| {
            let prefix = network.prefix().ip;
            let starts_inside = prefix.is_ipv4() == first.is_ipv4() && (first..=last).contains(&prefix);
            network.contains(first) || network.contains(last) || starts_inside
        })
    }

    fn is_near_somewhere(&self, nat: &Nat) -> bool {
        self.ports_of_router(&nat.router).any(|(id, _)| self.is_outside(id) && self.is_near(id, nat))
    }

    /// Whether an address is an external one at a port of a router.
    pub(crate) fn is_external(&self, id: &str, ip: IpAddr) -> bool {
        self.nats_at(id).into_iter().any(|(_, nat)| nat.has_external(ip))
    }

    /// Whether a port of a router is asked for the MAC of an address: it is an external one there, in a network of the port.
    pub(crate) fn is_external_near(&self, id: &str, ip: IpAddr) -> bool {
        let networks = self.router_ports.get(id).map_or(&[][..], |port| &port.networks);
        networks.iter().any(|network| network.contains(ip)) && self.is_external(id, ip)
    }

    /// The address that a machine inside has outside by a port of its router; none if it keeps its own.
    pub fn external_of(&self, id: &str, ip: IpAddr) -> Option<IpAddr> {
        self.nat_of_source(id, ip).map(|nat| nat.kind.address_for(ip))
    }

    /// The row that translates a source at a port: that of its own address, or else the longest prefix.
    pub(super) fn nat_of_source(&self, id: &str, source: IpAddr) -> Option<&Nat> {
        let covering =
            self.nats_at(id).into_iter().filter_map(|(_, nat)| Some((nat.kind.covers(source)?, nat)));
        covering.max_by_key(|(length, _)| *length).map(|(_, nat)| nat)
    }

    /// The row that translates the destination of a packet at a port: the one that names it most closely.
    pub(super) fn nat_of_destination(
        &self,
        id: &str,
        destination: IpAddr,
        protocol: u8,
        port: Option<u16>,
    ) -> Option<&Nat> {
        let taking = self
            .nats_at(id)
            .into_iter()
            .filter_map(|(_, nat)| Some((nat.kind.takes(destination, protocol, port)?, nat)));
        taking.max_by_key(|(closeness, _)| *closeness).map(|(_, nat)| nat)
    }

    /// Whether a row leaves packets to a destination as they are.
    pub(super) fn is_excepted(&self, nat: &Nat, destination: IpAddr) -> bool {
        let NatKind::Snat { except: Some(group), .. } = &nat.kind else { return false };
        let networks = self.address_groups.get(group).map_or(&[][..], |group| group);
        networks.iter().any(|network| network.contains(destination))
    }
}

impl fmt::Display for Nat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of {}: ", self.router)?;
        match &self.kind {
            NatKind::Snat { external: (first, last), internal, ports, except } => {
                write!(f, "sources of {internal} become {first}-{last}")?;
                ports.iter().try_for_each(|(least, most)| write!(f, ", ports {least}-{most}"))?;
                except.iter().try_for_each(|group| write!(f, ", except to {group}"))
            }
            NatKind::Dnat { external, internal, service } => {
                write!(f, "what is for {external} goes to {internal}")?;
                let Some(NatService { protocol, ports }) = service else { return Ok(()) };
                write!(f, ", protocol {protocol}")?;
                ports.iter().try_for_each(|(from, to)| write!(f, ", port {from} becomes {to}"))
            }
            NatKind::Floating { external, internal } => write!(f, "{internal} is {external} outside"),
        }
    }
}
