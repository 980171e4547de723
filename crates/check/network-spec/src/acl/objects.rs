//! ACLs as users configure them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use super::headers::{Fragment, Headers};
use crate::World;
use crate::routing::Network;
use crate::world::{Port, Switch};

/// An ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// The ports that it is for.
    pub place: AclPlace,
    /// The packets of which it speaks: those to these ports, or those from them.
    pub direction: Direction,
    /// The tier, 0 to 3; the first is asked first.
    pub tier: u8,
    /// Of the ACLs of a tier that match, those with the highest priority count, and of these the strictest.
    pub priority: i64,
    /// The packets that it matches.
    pub matches: PacketMatch,
    /// The sources that it matches; without, all.
    pub from: Option<Peers>,
    /// The destinations that it matches; without, all.
    pub to: Option<Peers>,
    /// What happens to them.
    pub action: AclAction,
}

/// The ports that an ACL is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclPlace {
    /// All ports of a switch.
    Switch(String),
    /// One port.
    Port(String),
    /// The ports of a port group.
    PortGroup(String),
}

/// The direction of a packet at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the port into the network.
    FromPort,
    /// To the port out of the network.
    ToPort,
}

/// What an ACL does with packets. The stricter action comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclAction {
    /// They are dropped.
    Drop,
    /// They are dropped, and their sender hears of it.
    Reject,
    /// They pass, and what answers them passes too.
    AllowRelated,
    /// They pass.
    Allow,
    /// The next tier decides.
    Pass,
}

/// What happens to packets that no ACL matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Default {
    /// They pass, and what answers them passes too.
    #[default]
    Allow,
    /// They are dropped.
    Drop,
}

/// Packets by their headers: those for which all that is given holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketMatch {
    /// The Ethernet type.
    pub ether_type: Option<EtherType>,
    /// The protocol above IP and its extension headers.
    pub protocol: Option<AclProtocol>,
    /// The prefix of the source address.
    pub source: Option<Network>,
    /// The prefix of the destination address.
    pub destination: Option<Network>,
    /// The first and the last source port of TCP, UDP or SCTP.
    pub source_ports: Option<(u16, u16)>,
    /// The first and the last destination port.
    pub destination_ports: Option<(u16, u16)>,
    /// The type of an `ICMP` or `ICMPv6` message. Without a protocol, of either.
    pub icmp_type: Option<u8>,
    /// The code of one.
    pub icmp_code: Option<u8>,
}

/// An Ethernet type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EtherType {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// ARP.
    Arp,
    /// RARP.
    Rarp,
}

/// A protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AclProtocol {
    /// `ICMP` of the packet's own IP version.
    Icmp,
    /// `ICMPv6`, in IPv6 alone.
    Icmpv6,
    /// The protocol of this number, in either IP version. That of a fragment of an IPv6 packet, except the first, is 44.
    Number(u8),
}

/// Sources or destinations. Ports stand for their declared addresses, and for themselves where a frame is known to be from or to one of
/// them: an ACL acts at one end of a frame's way, so it knows the port at that end and no other ([`World::is_among`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peers {
    /// The addresses of an address group.
    AddressGroup(String),
    /// The ports of a port group.
    PortGroup(String),
    /// The addresses of a prefix.
    Net(Network),
    /// The ports with all these labels that belong to the tenant of the ACL. Ports of switches without a tenant are for ACLs without a
    /// tenant.
    Labels(BTreeMap<String, String>),
}

/// Messages that stay out of the reach of an ACL that does not ask for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exempt {
    /// ARP and RARP.
    Arp,
    /// Solicitations and advertisements of routers and neighbours, and the messages of multicast listeners (RFC 2710, RFC 3810): switches
    /// outside withhold solicitations from machines that report no groups (RFC 4861, 7.2.1; RFC 4541, 3).
    OfLink,
}

/// What ACLs depend on.
#[derive(PartialEq, Eq)]
pub(crate) struct Filtering {
    acls: BTreeMap<String, Acl>,
    address_groups: BTreeMap<String, Vec<Network>>,
    port_groups: BTreeMap<String, BTreeSet<String>>,
    switches: BTreeMap<String, Switch>,
    ports: BTreeMap<String, Port>,
}

impl PacketMatch {
    /// Whether a packet is meant.
    pub(super) fn admits(&self, headers: &Headers) -> bool {
        let within = |prefix: Option<Network>, ip: Option<IpAddr>| {
            prefix.is_none_or(|prefix| ip.is_some_and(|ip| prefix.contains(ip)))
        };
        let port = |range: Option<(u16, u16)>, port: Option<u16>| {
            range.is_none_or(|(first, last)| port.is_some_and(|port| (first..=last).contains(&port)))
        };
        let is = |wanted: Option<u8>, is: Option<u8>| wanted.is_none() || wanted == is;
        let (src, dst) = headers.addresses.unzip();
        let (from, to) = headers.ports.unzip();
        let (kind, code) = headers.icmp.unzip();
        (self.ether_type.is_none() || self.ether_type == headers.ether_type)
            && self.protocol.is_none_or(|protocol| headers.is_of(protocol))
            && within(self.source, src)
            && within(self.destination, dst)
            && port(self.source_ports, from)
            && port(self.destination_ports, to)
            && is(self.icmp_type, kind)
            && is(self.icmp_code, code)
    }

    /// Whether it asks for messages that are exempt otherwise, by an Ethernet type or a type of `ICMPv6`.
    pub(super) fn asks_for(&self, exempt: Exempt) -> bool {
        match exempt {
            Exempt::Arp => matches!(self.ether_type, Some(EtherType::Arp | EtherType::Rarp)),
            Exempt::OfLink => matches!(self.icmp_type, Some(130..=136 | 143)),
        }
    }
}

impl Headers {
    fn is_of(&self, protocol: AclProtocol) -> bool {
        match protocol {
            AclProtocol::Icmp => self.is_icmp(),
            AclProtocol::Icmpv6 => self.is_icmp() && self.ether_type == Some(EtherType::Ipv6),
            AclProtocol::Number(number) => self.protocol == Some(number),
        }
    }

    /// The exempt messages that the packet is one of. A fragment that does not show its type is none.
    pub(super) fn exempt(&self) -> Option<Exempt> {
        match (self.ether_type, self.icmp) {
            (Some(EtherType::Arp | EtherType::Rarp), _) => Some(Exempt::Arp),
            (Some(EtherType::Ipv6), Some((130..=136 | 143, _))) if self.fragment != Some(Fragment::Later) => {
                Some(Exempt::OfLink)
            }
            _ => None,
        }
    }
}

impl World {
    /// Whether an address is one of these, for an ACL at a port of this tenant.
    pub(super) fn are(&self, peers: &Peers, tenant: &str, ip: IpAddr) -> bool {
        match peers {
            Peers::Net(network) => network.contains(ip),
            Peers::AddressGroup(group) => {
                self.address_groups.get(group).into_iter().flatten().any(|network| network.contains(ip))
            }
            Peers::PortGroup(_) | Peers::Labels(_) => {
                self.ports.keys().any(|port| self.is_among(peers, tenant, port) && self.declares(port, ip))
            }
        }
    }

    /// Whether a port itself is one of these, for an ACL at a port of this tenant.
    pub(super) fn is_among(&self, peers: &Peers, tenant: &str, id: &str) -> bool {
        match peers {
            Peers::Net(_) | Peers::AddressGroup(_) => false,
            Peers::PortGroup(group) => self.port_groups.get(group).is_some_and(|ports| ports.contains(id)),
            Peers::Labels(labels) => self.ports.get(id).is_some_and(|port| {
                self.tenant_of(&port.switch) == tenant
                    && labels.iter().all(|(key, value)| port.labels.get(key) == Some(value))
            }),
        }
    }

    /// All that ACLs depend on, to see whether it has changed. Nothing without ACLs.
    pub(crate) fn filtering(&self) -> Option<Filtering> {
        (!self.acls.is_empty()).then(|| Filtering {
            acls: self.acls.clone(),
            address_groups: self.address_groups.clone(),
            port_groups: self.port_groups.clone(),
            switches: self.switches.clone(),
            ports: self.ports.clone(),
        })
    }

    fn declares(&self, port: &str, ip: IpAddr) -> bool {
        let addresses = self.ports.get(port).into_iter().flat_map(|port| &port.addresses);
        addresses.into_iter().any(|address| address.ips.contains(&ip))
    }

    /// The tenant of a switch; "" if there is none.
    pub(super) fn tenant_of(&self, switch: &str) -> &str {
        self.switches.get(switch).map_or("", |switch| switch.tenant.as_str())
    }
}

impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Acl { place, direction, tier, priority, matches, from, to, action } = self;
        match place {
            AclPlace::Switch(switch) => write!(f, "at switch {switch}")?,
            AclPlace::Port(port) => write!(f, "at port {port}")?,
            AclPlace::PortGroup(group) => write!(f, "at port group {group}")?,
        }
        write!(f, " {direction:?}, tier {tier}, priority {priority}, match [{matches}]")?;
        from.iter().try_for_each(|from| write!(f, ", from {from}"))?;
        to.iter().try_for_each(|to| write!(f, ", to {to}"))?;
        write!(f, ": {action:?}")
    }
}

/// As users write it.
impl fmt::Display for PacketMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ether_type = self.ether_type.map(|kind| match kind {
            EtherType::Ipv4 => "eth_type=ip".to_owned(),
            EtherType::Ipv6 => "eth_type=ipv6".to_owned(),
            EtherType::Arp => "eth_type=arp".to_owned(),
            EtherType::Rarp => "eth_type=rarp".to_owned(),
        });
        let protocol = self.protocol.map(|protocol| match protocol {
            AclProtocol::Icmp => "ip_proto=icmp".to_owned(),
            AclProtocol::Icmpv6 => "ip_proto=icmp6".to_owned(),
            AclProtocol::Number(number) => format!("ip_proto={number}"),
        });
        let ports = |name, range: Option<(u16, u16)>| {
            range.map(|(first, last)| {
                if first == last { format!("{name}={first}") } else { format!("{name}={first}-{last}") }
            })
        };
        let items = [
            ether_type,
            protocol,
            self.source.map(|source| format!("ip_src={source}")),
            self.destination.map(|destination| format!("ip_dst={destination}")),
            ports("tp_src", self.source_ports),
            ports("tp_dst", self.destination_ports),
            self.icmp_type.map(|kind| format!("icmp_type={kind}")),
            self.icmp_code.map(|code| format!("icmp_code={code}")),
        ];
        f.write_str(&items.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

impl fmt::Display for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peers::AddressGroup(group) => write!(f, "address group {group}"),
            Peers::PortGroup(group) => write!(f, "port group {group}"),
            Peers::Net(network) => write!(f, "{network}"),
            Peers::Labels(labels) => {
                let labels: Vec<String> =
                    labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "ports labelled [{}]", labels.join(", "))
            }
        }
    }
}
