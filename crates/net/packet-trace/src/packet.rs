//! A packet in words, or as a flow expression: the frame that it means.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::frame::{Addresses, frame, text};
use flow_simulator::{FlowKey, Packet};
use frame_builder::{
    ARP, Arp, BROADCAST, Endpoints, ICMP, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, Mac, RARP, SOLICITATION, TCP, UDP,
    VLAN, arp, ethernet, icmp, icmpv6, link_layer, neighbour, solicited_node, tagged, tcp, udp,
};
use nlog_data::{InterfaceAddress, Value};
use openflow_rs::{Field, MacAddr, Match, PortNo};
use simulated_hosts::Place;

use crate::Network;

/// The first port that no service has: the source of packets whose source port nobody gives.
const CLIENT_PORT: u16 = 49152;
/// The bit of a TCP segment that opens a connection.
const SYN: u8 = 2;
/// The bit of a TCP segment that acknowledges: all but the first have it.
const ACK: u8 = 16;
const ECHO: u8 = 8;
const ECHO_V6: u8 = 128;
const ECHO_REPLY: u8 = 0;
const ECHO_REPLY_V6: u8 = 129;
const UNREACHABLE: u8 = 3;
const UNREACHABLE_V6: u8 = 1;
/// The option of a solicitation with the sender's MAC address.
const SOURCE_ADDRESS: u8 = 1;
/// The hop limit of neighbour discovery.
const ON_LINK: u8 = 255;
/// Usual hop limits are 64 or more.
const TTL: u8 = 64;

/// Where a frame has its type.
const ETHER_TYPE: std::ops::Range<usize> = 12..14;
/// The bytes of an Ethernet header without a VLAN tag, and of the tag.
const ETHERNET: usize = 14;
const TAG: usize = 4;

/// What an IP packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// A TCP segment that opens a connection to this port.
    Tcp(u16),
    /// A UDP datagram to this port.
    Udp(u16),
    /// An echo request.
    Echo,
}

/// Which packet of a connection it is.
pub(crate) enum Part {
    /// The first.
    Opening,
    /// The first in the other direction. The port of the service is where it comes from.
    Answer,
    /// A later one in the direction of the first.
    Later,
    /// An ICMP error about a packet, which begins so.
    Error(Vec<u8>),
}

/// A packet in words. What is left out, the network's objects say.
#[derive(Clone, Debug)]
pub struct Words {
    /// The port that it is for.
    pub to: Option<String>,
    /// The address that it is for.
    pub ip: Option<IpAddr>,
    /// Its source address.
    pub from_ip: Option<IpAddr>,
    /// Its source MAC address.
    pub from_mac: Option<MacAddr>,
    /// Its destination MAC address.
    pub to_mac: Option<MacAddr>,
    /// What it carries.
    pub payload: Payload,
    /// Its hop limit.
    pub ttl: Option<u8>,
    /// The length of the IP packet.
    pub size: Option<u16>,
}

/// A frame, and where it enters the network.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The port that sends it.
    pub from: String,
    /// The port that it is for, if that is known.
    pub to: Option<String>,
    /// Where it enters; none if no host has the interface of the port.
    pub place: Option<Place>,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What the words did not say and the reader should know.
    pub notes: Vec<String>,
    /// The address that the packet is for, if no port is known to have it and the frame only asks for it.
    pub sought: Option<IpAddr>,
}

impl Sent {
    /// The frame's fields, as Open vSwitch prints them.
    pub fn fields(&self) -> String {
        text(&self.bytes)
    }
}

/// A port of a router on a switch.
struct Gateway {
    id: String,
    mac: MacAddr,
    networks: Vec<InterfaceAddress>,
}

/// The addresses between which a packet goes.
struct Ends {
    from: (MacAddr, IpAddr),
    to: (MacAddr, IpAddr),
}

impl Network {
    /// The frame that words mean, from this port.
    ///
    /// # Errors
    /// There is no such port, or the words leave an address open that no object says.
    pub fn packet(&self, from: &str, words: &Words) -> Result<Sent, String> {
        self.packet_of(from, words, &Part::Opening)
    }

    /// The same as a part of a connection.
    pub(crate) fn packet_of(&self, from: &str, words: &Words, part: &Part) -> Result<Sent, String> {
        let switch = self.switch_of(from).ok_or_else(|| self.no_port(from))?;
        let gateways = self.gateways(&switch);
        let (to_ip, to_port) = self.destination(from, words)?;
        let from_ip = self.source(from, words, to_ip)?;
        let own_macs = self.macs(from);
        let at_ip = self.addresses_of(from).into_iter().find(|(ip, _)| *ip == from_ip);
        let from_mac = words.from_mac.or(at_ip.map(|(_, mac)| mac)).or(own_macs.first().copied());
        let from_mac = from_mac.ok_or_else(|| {
            format!("port {from:?} has no addresses: say the packet's with --from-mac and --from-ip")
        })?;
        let mut notes = Vec::new();
        let to_mac = words
            .to_mac
            .or_else(|| self.first_mac(&switch, &gateways, (from_ip, to_ip), to_port.as_deref(), &mut notes));
        let (bytes, sought) = match to_mac {
            Some(to_mac) => {
                (packet(&Ends { from: (from_mac, from_ip), to: (to_mac, to_ip) }, words, part)?, None)
            }
            None => (question(from_mac, from_ip, to_ip)?, Some(to_ip)),
        };
        Ok(Sent { sought, ..self.sent(from, to_port, bytes, notes) })
    }

    /// The frame with these fields, from this port. Fields that are left out have usual values.
    ///
    /// # Errors
    /// There is no such port, or no such frame.
    pub fn packet_of_flow(&self, from: &str, fields: &str) -> Result<Sent, String> {
        self.known(from)?;
        let fields: Match = fields.parse().map_err(|error| format!("--flow {fields:?}: {error}"))?;
        let own = Addresses { macs: self.macs(from), ips: self.addresses_of(from) };
        Ok(self.sent(from, None, frame(&fields, &own)?, Vec::new()))
    }

    /// A frame that a port sends as it is.
    ///
    /// # Errors
    /// There is no such port.
    pub fn packet_of_bytes(&self, from: &str, bytes: Vec<u8>) -> Result<Sent, String> {
        self.known(from)?;
        Ok(self.sent(from, None, bytes, Vec::new()))
    }

    fn known(&self, from: &str) -> Result<(), String> {
        self.switch_of(from).map(drop).ok_or_else(|| self.no_port(from))
    }

    fn sent(&self, from: &str, to: Option<String>, bytes: Vec<u8>, notes: Vec<String>) -> Sent {
        let (place, tag) = self.place(from).map_or((None, 0), |(place, tag)| (Some(place), tag));
        let bytes = if tag == 0 { bytes } else { tagged(&bytes, VLAN, tag) };
        Sent { from: from.to_owned(), to, place, bytes, notes, sought: None }
    }

    /// The switch of a port of any kind.
    pub(crate) fn switch_of(&self, port: &str) -> Option<String> {
        ["switch_port", "localnet_port", "router_port"].iter().find_map(|kind| {
            let row = self.rows_with(self.program().schema.find(kind), 0, port.into()).into_iter().next()?;
            string(self.column(kind, row, "switch")).map(str::to_owned)
        })
    }

    fn no_port(&self, port: &str) -> String {
        let known: Vec<String> = self
            .named("switch_port")
            .iter()
            .filter_map(|row| string(row.first()).map(str::to_owned))
            .filter(|port| self.knows(port))
            .take(SHOWN_PORTS)
            .collect();
        let some = if known.is_empty() {
            "there are none".to_owned()
        } else {
            format!("there are {}", known.join(", "))
        };
        format!("there is no port {port:?}; {some}")
    }

    /// The routers' ports on a switch.
    fn gateways(&self, switch: &str) -> Vec<Gateway> {
        let gateway = |row: &nlog_data::Row| {
            let of = |column| self.column("router_port", row, column);
            let (Some(Value::Mac(mac)), Some(Value::Set(networks) | Value::List(networks))) =
                (of("mac"), of("networks"))
            else {
                return None;
            };
            let mac = *mac;
            let networks = networks.iter().filter_map(|value| match value {
                Value::InterfaceAddress(address) => Some(*address),
                _ => None,
            });
            Some(Gateway { id: string(row.first())?.to_owned(), mac, networks: networks.collect() })
        };
        self.named_with("router_port", "switch", switch.into()).into_iter().filter_map(gateway).collect()
    }

    /// The address that the packet is for, and the port that has it, if one does.
    fn destination(&self, from: &str, words: &Words) -> Result<(IpAddr, Option<String>), String> {
        let Some(to) = &words.to else {
            let ip = words.ip.ok_or("say what the packet is for: --to PORT or --ip ADDRESS")?;
            return Ok((ip, self.owner(from, ip)));
        };
        let switch = self.switch_of(to).ok_or_else(|| self.no_port(to))?;
        let own = self.addresses_of(to).into_iter().map(|(ip, _)| ip);
        let router = self.gateways(&switch).into_iter().filter(|gateway| gateway.id == *to);
        let router = router.flat_map(|gateway| gateway.networks.into_iter().map(InterfaceAddress::ip));
        let all: Vec<IpAddr> = words.ip.into_iter().chain(own).chain(router).collect();
        let ours: Vec<IpAddr> = match words.from_ip {
            Some(ip) => vec![ip],
            None => self.addresses_of(from).into_iter().map(|(ip, _)| ip).collect(),
        };
        let alike = all.iter().find(|ip| ours.iter().any(|own| own.is_ipv4() == ip.is_ipv4()));
        let ip = alike.or(all.first());
        let ip = ip.ok_or_else(|| format!("port {to:?} has no IP address: say one with --ip"))?;
        Ok((*ip, Some(to.clone())))
    }

    /// The port that has an address: one of the same switch if there is one.
    fn owner(&self, from: &str, ip: IpAddr) -> Option<String> {
        let switch = self.switch_of(from);
        let known = self.ports_at(ip).into_iter().map(|(port, _)| port).filter(|port| self.knows(port));
        let owners: Vec<String> = known.collect();
        let here = owners.iter().find(|port| self.switch_of(port) == switch).cloned();
        here.or(owners.first().filter(|_| owners.len() == 1).cloned())
    }

    fn source(&self, from: &str, words: &Words, to: IpAddr) -> Result<IpAddr, String> {
        let own = self.addresses_of(from).into_iter().map(|(ip, _)| ip);
        let ip = words.from_ip.or_else(|| own.into_iter().find(|ip| ip.is_ipv4() == to.is_ipv4()));
        let version = if to.is_ipv4() { "IPv4" } else { "IPv6" };
        ip.ok_or_else(|| format!("port {from:?} has no {version} address: say the packet's with --from-ip"))
    }

    /// The MAC address to which the machine sends the packet: that of the destination if both are on one link, otherwise
    /// that of a router. None if no port has the address, and the machine asks for it in vain.
    fn first_mac(
        &self,
        switch: &str,
        gateways: &[Gateway],
        (from, to): (IpAddr, IpAddr),
        to_port: Option<&str>,
        notes: &mut Vec<String>,
    ) -> Option<MacAddr> {
        let own = gateways.iter().find(|gateway| gateway.networks.iter().any(|address| address.ip() == to));
        if let Some(gateway) = own {
            return Some(gateway.mac);
        }
        let here = |port: &str| self.switch_of(port).as_deref() == Some(switch);
        if let Some(port) = to_port.filter(|port| here(port)) {
            let mac = self.addresses_of(port).into_iter().find(|(ip, _)| *ip == to);
            return mac.map(|(_, mac)| mac).or(self.macs(port).first().copied());
        }
        let with = |ip: IpAddr| {
            gateways
                .iter()
                .find(move |gateway| gateway.networks.iter().any(|address| address.net().contains(&ip)))
        };
        let far = to_port.is_some() || with(to).is_none();
        let Some(gateway) = with(from).or(gateways.first()).filter(|_| far) else {
            let protocol = if to.is_ipv4() { "ARP" } else { "neighbour discovery" };
            notes.push(format!("the machine asks for {to} by {protocol}; this is the path of that request"));
            return None;
        };
        if gateways.len() > 1 {
            notes.push(format!(
                "{switch} has {} routers: the packet goes to {}; --to-mac chooses another one",
                gateways.len(),
                gateway.id
            ));
        }
        Some(gateway.mac)
    }
}

/// The most ports in a message.
const SHOWN_PORTS: usize = 10;

pub(crate) fn string(value: Option<&Value>) -> Option<&str> {
    match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// The bytes of a frame before its packet.
pub(crate) fn link_header(bytes: &[u8]) -> usize {
    let tagged = bytes.get(ETHER_TYPE) == Some(&VLAN.to_be_bytes()[..]);
    if tagged { ETHERNET + TAG } else { ETHERNET }
}

/// The addresses of an IP packet in a frame: from, to.
pub(crate) fn addresses_of(bytes: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let packet = Packet::new(bytes.to_vec(), PortNo(1));
    addresses(packet.key())
}

/// The addresses of a packet: from, to.
pub(crate) fn addresses(key: &FlowKey) -> Option<(IpAddr, IpAddr)> {
    let v4 = |field| u32::try_from(key.get(field)).ok().map(Ipv4Addr::from_bits).map(IpAddr::V4);
    let v6 = |field| IpAddr::V6(Ipv6Addr::from_bits(key.get(field)));
    match u16::try_from(key.get(Field::EthType)) {
        Ok(IPV4) => Some((v4(Field::IpSrc)?, v4(Field::IpDst)?)),
        Ok(IPV6) => Some((v6(Field::Ipv6Src), v6(Field::Ipv6Dst))),
        Ok(ARP | RARP) => Some((v4(Field::ArpSpa)?, v4(Field::ArpTpa)?)),
        _ => None,
    }
}

/// The protocol of a packet and what the IP header is followed by.
fn payload(payload: Payload, part: &Part, rest: &[u8], endpoints: Endpoints) -> (u8, Vec<u8>) {
    if let Part::Error(quoted) = part {
        let body = [&[0; 4], &quoted[..], rest].concat();
        return match endpoints {
            Endpoints::V4(..) => (ICMP, icmp(UNREACHABLE, &body)),
            Endpoints::V6(from, to) => {
                (ICMPV6, icmpv6([&[UNREACHABLE_V6, 0, 0, 0], &body[..]].concat(), from, to))
            }
        };
    }
    let answers = matches!(part, Part::Answer);
    let flags = match part {
        Part::Answer => SYN | ACK,
        Part::Later => ACK,
        Part::Opening | Part::Error(_) => SYN,
    };
    let ports = |service| if answers { (service, CLIENT_PORT) } else { (CLIENT_PORT, service) };
    match (payload, endpoints) {
        (Payload::Tcp(service), _) => {
            let (from, to) = ports(service);
            (TCP, tcp(from, to, flags, rest, endpoints))
        }
        (Payload::Udp(service), _) => {
            let (from, to) = ports(service);
            (UDP, udp(from, to, rest, endpoints))
        }
        (Payload::Echo, Endpoints::V4(..)) => {
            let kind = if answers { ECHO_REPLY } else { ECHO };
            (ICMP, icmp(kind, &[&[0; 4], rest].concat()))
        }
        (Payload::Echo, Endpoints::V6(from, to)) => {
            let kind = if answers { ECHO_REPLY_V6 } else { ECHO_V6 };
            (ICMPV6, icmpv6([&[kind, 0, 0, 0, 0, 0, 0, 0], rest].concat(), from, to))
        }
    }
}

/// The frame with an IP packet.
fn packet(ends: &Ends, words: &Words, part: &Part) -> Result<Vec<u8>, String> {
    let ttl = words.ttl.unwrap_or(TTL);
    let (kind, endpoints) = match (ends.from.1, ends.to.1) {
        (IpAddr::V4(from), IpAddr::V4(to)) => (IPV4, Endpoints::V4(from, to)),
        (IpAddr::V6(from), IpAddr::V6(to)) => (IPV6, Endpoints::V6(from, to)),
        (from, to) => {
            return Err(format!("a packet cannot be from {from} and for {to}: their IP versions differ"));
        }
    };
    let whole = |rest: &[u8]| {
        let (protocol, payload) = payload(words.payload, part, rest, endpoints);
        match endpoints {
            Endpoints::V4(from, to) => {
                let mut header = Ipv4::new(from, to, protocol);
                header.ttl = ttl;
                header.packet(&payload)
            }
            Endpoints::V6(from, to) => {
                let mut header = Ipv6::new(from, to, protocol);
                header.hops = ttl;
                header.packet(&payload)
            }
        }
    };
    let least = whole(&[]).len();
    let size = words.size.map_or(least, usize::from);
    let rest =
        size.checked_sub(least).ok_or_else(|| format!("--size: such a packet has {least} bytes at least"))?;
    Ok(ethernet(ends.to.0.0, ends.from.0.0, kind, &whole(&vec![0; rest])))
}

/// The frame by which a machine asks who has an address.
fn question(mac: MacAddr, from: IpAddr, to: IpAddr) -> Result<Vec<u8>, String> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Ok(request(mac.0, from, to)),
        (IpAddr::V6(from), IpAddr::V6(to)) => Ok(solicitation(mac.0, from, to)),
        _ => Err(format!("a packet cannot be from {from} and for {to}: their IP versions differ")),
    }
}

fn request(mac: Mac, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let asks = Arp { operation: 1, sender: (mac, from), target: (Mac::default(), to) };
    ethernet(BROADCAST, mac, ARP, &arp(asks))
}

fn solicitation(mac: Mac, from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let (group, group_mac) = solicited_node(to);
    let message = neighbour(SOLICITATION, 0, to, &link_layer(SOURCE_ADDRESS, mac));
    let mut header = Ipv6::new(from, group, ICMPV6);
    header.hops = ON_LINK;
    ethernet(group_mac, mac, IPV6, &header.packet(&icmpv6(message, from, group)))
}
