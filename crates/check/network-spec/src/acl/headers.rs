//! The headers that ACLs match, and the state of a packet's connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use super::checksum::{is_intact, is_intact_between};
use super::objects::EtherType;
use super::tuple::{Ends, Query, Tuple};
use crate::frame::{Body, Frame, Packet, chunk};

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
const FRAGMENT: u8 = 44;
pub(crate) const ICMPV6: u8 = 58;
pub(crate) const SCTP: u8 = 132;
/// The code of every query of `ICMP` and of its answer.
pub(crate) const NO_CODE: u8 = 0;

/// The lengths of headers, of which nothing can be read if they are cut off.
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const SCTP_HEADER: usize = 12;
const ICMP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;

/// Flags of TCP.
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
const PSH: u8 = 8;
pub(crate) const ACK: u8 = 0x10;
const URG: u8 = 0x20;

/// The headers of a packet; nothing where it does not show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) ether_type: Option<EtherType>,
    /// The source and the destination of IP. Those of an IP packet that cannot be read are nobody's.
    pub(crate) addresses: Option<(IpAddr, IpAddr)>,
    pub(crate) protocol: Option<u8>,
    pub(crate) ports: Option<(u16, u16)>,
    /// The type and code of `ICMP` or `ICMPv6`.
    pub(crate) icmp: Option<(u8, u8)>,
    pub(crate) fragment: Option<Fragment>,
}

/// Which fragment of its datagram a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    First,
    /// It shows none of the headers above IP.
    Later,
}

/// What a packet is to connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tracked {
    /// Nothing: it is not IP, or one of the messages by which machines find each other and groups find their members.
    Stateless,
    /// It belongs to no connection, though it is of a kind that would.
    Stray,
    /// It says that it is IP, but nobody can read it.
    Unreadable,
    /// A part of a datagram.
    Fragment,
    /// A packet of a connection; what it says of itself, and whether it can be trusted: whether it is undamaged.
    Packet(Tuple, Segment, bool),
    /// An error about a packet of a connection, if that can be read; and whether it is undamaged.
    Error(Option<Tuple>, bool),
}

/// What a packet of TCP says of its connection; others say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) flags: Option<u8>,
}

impl Segment {
    fn has(self, flags: u8) -> bool {
        self.flags.is_some_and(|own| own & flags == flags)
    }

    /// Whether a machine sends such a segment (RFC 9293, 3.10): all but the first have an acknowledgement or a reset.
    pub(crate) fn makes_sense(self) -> bool {
        let Some(flags) = self.flags else { return true };
        if flags & SYN != 0 {
            return flags & (FIN | RST) == 0;
        }
        flags & ACK != 0 || (flags & RST != 0 && flags & (FIN | PSH | URG) == 0)
    }

    /// Whether it is to open a connection.
    pub(crate) fn opens(self) -> bool {
        self.has(SYN)
    }

    /// Whether it answers a first segment.
    pub(crate) fn answers_first(self) -> bool {
        self.has(SYN | ACK)
    }

    /// Whether it begins a connection.
    pub(crate) fn is_first(self) -> bool {
        self.has(SYN) && !self.has(ACK)
    }

    /// Whether it ends one.
    pub(crate) fn ends(self) -> bool {
        self.has(FIN) || self.has(RST)
    }
}

impl Headers {
    /// Reads the headers of a frame without a tag.
    pub(crate) fn read(frame: &Frame, bytes: &[u8]) -> Headers {
        let of = |ether_type| Headers {
            ether_type,
            addresses: None,
            protocol: None,
            ports: None,
            icmp: None,
            fragment: None,
        };
        match &frame.body {
            Body::Arp(_) => of(Some(EtherType::Arp)),
            Body::Rarp(_) => of(Some(EtherType::Rarp)),
            Body::Ipv4(packet) => {
                let nobody = (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into());
                let headers = Headers { addresses: Some(nobody), ..of(Some(EtherType::Ipv4)) };
                packet.as_ref().map_or(headers.clone(), |packet| headers.with(packet, bytes))
            }
            Body::Ipv6(packet) => {
                let nobody = (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
                let headers = Headers { addresses: Some(nobody), ..of(Some(EtherType::Ipv6)) };
                packet.as_ref().map_or(headers.clone(), |packet| headers.with(packet, bytes))
            }
            Body::Tag | Body::Other => of(None),
        }
    }

    fn with<A: Copy + Into<IpAddr>>(self, packet: &Packet<A>, bytes: &[u8]) -> Headers {
        let fragment = fragment(packet, bytes);
        let mut headers = Headers {
            addresses: Some((packet.src.into(), packet.dst.into())),
            protocol: packet.protocol,
            fragment,
            ..self
        };
        // Open vSwitch shows no ports and no type of any fragment, even of the first, which has them.
        if fragment.is_none() {
            let payload = &bytes[packet.carried.clone()];
            headers.ports = headers.protocol.and_then(|protocol| ports(protocol, payload));
            let message = headers.is_icmp() && payload.len() >= ICMP_HEADER;
            headers.icmp = message.then(|| (payload[0], payload[1]));
        }
        headers
    }

    /// Whether it is `ICMP` in IPv4 or `ICMPv6` in IPv6.
    pub(crate) fn is_icmp(&self) -> bool {
        match self.ether_type {
            Some(EtherType::Ipv4) => self.protocol == Some(ICMP),
            Some(EtherType::Ipv6) => self.protocol == Some(ICMPV6),
            _ => false,
        }
    }

    /// What a packet with these headers is to connections.
    pub(crate) fn tracked(&self, frame: &Frame, bytes: &[u8]) -> Tracked {
        match &frame.body {
            Body::Ipv4(None) | Body::Ipv6(None) => Tracked::Unreadable,
            Body::Ipv4(Some(packet)) => {
                let header = &bytes[packet.header..packet.carried.start];
                self.tracked_of(bytes, packet.carried.clone(), is_intact(&[header]))
            }
            Body::Ipv6(Some(packet)) => self.tracked_of(bytes, packet.carried.clone(), true),
            _ => Tracked::Stateless,
        }
    }

    fn tracked_of(&self, bytes: &[u8], carried: Range<usize>, is_intact_so_far: bool) -> Tracked {
        let (Some((src, dst)), Some(protocol)) = (self.addresses, self.protocol) else {
            return Tracked::Unreadable;
        };
        // Protocol 0 is none in IPv4, and Open vSwitch shows nothing of such a connection: it may be dropped.
        if protocol == 0 {
            return Tracked::Unreadable;
        }
        if self.exempt().is_some() {
            return Tracked::Stateless;
        }
        if self.fragment.is_some() {
            return Tracked::Fragment;
        }
        let payload = &bytes[carried];
        let sound = is_intact_so_far && is_sound((src, dst), protocol, self.is_icmp(), payload);
        if self.is_icmp() {
            let Some(kind) = self.icmp.map(|(kind, _)| kind) else { return Tracked::Unreadable };
            let is_ipv4 = src.is_ipv4();
            return match (is_ipv4, kind) {
                (true, 3 | 4 | 5 | 11 | 12) | (false, 1..=4) => {
                    let about = about(is_ipv4, &payload[ICMP_HEADER..]);
                    // It goes to whoever sent the packet that it is about.
                    Tracked::Error(about.filter(|about| about.src == dst), sound)
                }
                _ => match query(is_ipv4, payload) {
                    Some(ends) => {
                        Tracked::Packet(Tuple { src, dst, protocol, ends }, Segment::default(), sound)
                    }
                    None => Tracked::Stray,
                },
            };
        }
        let flags = (protocol == TCP).then(|| payload.get(13).copied()).flatten();
        match ends(protocol, payload) {
            Some(ends) => Tracked::Packet(Tuple { src, dst, protocol, ends }, Segment { flags }, sound),
            None => Tracked::Unreadable,
        }
    }
}

fn fragment<A>(packet: &Packet<A>, bytes: &[u8]) -> Option<Fragment> {
    const OFFSET: u16 = 0x1fff;
    if !packet.is_fragment {
        return None;
    }
    let is_ipv4 = bytes[packet.header] >> 4 == 4;
    let at_start = if is_ipv4 {
        chunk(bytes, packet.header + 6).map(u16::from_be_bytes).is_some_and(|word| word & OFFSET == 0)
    } else {
        packet.protocol != Some(FRAGMENT)
    };
    Some(if at_start { Fragment::First } else { Fragment::Later })
}

/// The ports of a payload that shows its whole header.
fn ports(protocol: u8, payload: &[u8]) -> Option<(u16, u16)> {
    let header = match protocol {
        TCP => TCP_HEADER,
        UDP => UDP_HEADER,
        SCTP => SCTP_HEADER,
        _ => return None,
    };
    let [a, b, c, d] = chunk(payload, 0).filter(|_| payload.len() >= header)?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// The ends that a query of `ICMP` names, or its answer.
fn query(is_ipv4: bool, message: &[u8]) -> Option<Ends> {
    let [kind, code, _, _, high, low, ..] = chunk::<ICMP_HEADER>(message, 0)?;
    let (query, is_request) = Query::of(is_ipv4, kind)?;
    let identifier = u16::from_be_bytes([high, low]);
    (code == NO_CODE).then_some(Ends::Query { query, identifier, is_request })
}

/// The ends that a payload names.
fn ends(protocol: u8, payload: &[u8]) -> Option<Ends> {
    match protocol {
        TCP | UDP | SCTP => ports(protocol, payload).map(|(from, to)| Ends::Ports(from, to)),
        _ => Some(Ends::Machines),
    }
}

/// Whether a payload is undamaged, so that nobody doubts to which connection it belongs. The checksum of SCTP is not computed:
/// nobody trusts it. Nor does anybody know what `ICMP` says in IPv6, or `ICMPv6` in IPv4.
fn is_sound(between: (IpAddr, IpAddr), protocol: u8, is_icmp: bool, payload: &[u8]) -> bool {
    match protocol {
        ICMP if is_icmp => is_intact(&[payload]),
        ICMPV6 if is_icmp => is_intact_between(between, protocol, payload),
        TCP => {
            let header = payload.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
            (TCP_HEADER..=payload.len()).contains(&header) && is_intact_between(between, protocol, payload)
        }
        UDP => {
            let field = |at| chunk(payload, at).map(u16::from_be_bytes).map(usize::from);
            let unsaid = between.0.is_ipv4() && field(6) == Some(0);
            field(4) == Some(payload.len()) && (unsaid || is_intact_between(between, protocol, payload))
        }
        SCTP | ICMP | ICMPV6 => false,
        _ => true,
    }
}

/// The connection of the packet that an error contains the beginning of: its header and eight bytes more, or as much as fits
/// (RFC 792; RFC 4443, 2.4 c). Of a fragment, nobody knows the connection.
fn about(is_ipv4: bool, inside: &[u8]) -> Option<Tuple> {
    const IPV6_HEADER: usize = 40;
    const PAYLOAD_SHOWN: usize = 8;
    let (src, dst, protocol, payload): (IpAddr, IpAddr, u8, &[u8]) = if is_ipv4 {
        let header: [u8; IPV4_HEADER] = chunk(inside, 0)?;
        let length = usize::from(header[0] & 0xf) * 4;
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        if header[0] >> 4 != 4 || length < IPV4_HEADER || is_fragment {
            return None;
        }
        let address = |at| chunk::<4>(&header, at).map(|octets| IpAddr::from(Ipv4Addr::from(octets)));
        (address(12)?, address(16)?, header[9], inside.get(length..)?)
    } else {
        let header: [u8; IPV6_HEADER] = chunk(inside, 0)?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let address = |at| chunk::<16>(&header, at).map(|octets| IpAddr::from(Ipv6Addr::from(octets)));
        let (protocol, payload) = behind_extensions(header[6], &inside[IPV6_HEADER..])?;
        (address(8)?, address(24)?, protocol, payload)
    };
    let is_icmp = protocol == if is_ipv4 { ICMP } else { ICMPV6 };
    let shown = || chunk::<PAYLOAD_SHOWN>(payload, 0);
    let ends = match protocol {
        _ if is_icmp => query(is_ipv4, &shown()?)?,
        TCP | UDP | SCTP => {
            let [a, b, c, d, ..] = shown()?;
            Ends::Ports(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
        }
        _ => Ends::Machines,
    };
    Some(Tuple { src, dst, protocol, ends })
}

/// The protocol of what a packet of an error carries, and where that is, if its headers are there.
pub(crate) fn upper_layer(is_ipv4: bool, inside: &[u8]) -> Option<(u8, usize)> {
    const IPV6_HEADER: usize = 40;
    if is_ipv4 {
        let header: [u8; IPV4_HEADER] = chunk(inside, 0)?;
        let length = usize::from(header[0] & 0xf) * 4;
        return (length >= IPV4_HEADER && inside.len() >= length).then_some((header[9], length));
    }
    let header: [u8; IPV6_HEADER] = chunk(inside, 0)?;
    let (protocol, rest) = behind_extensions(header[6], &inside[IPV6_HEADER..])?;
    Some((protocol, inside.len() - rest.len()))
}

/// The protocol and the payload behind the extension headers of IPv6 (RFC 8200, 4). None if they are cut off, or of a fragment.
fn behind_extensions(mut next: u8, mut rest: &[u8]) -> Option<(u8, &[u8])> {
    const AUTHENTICATION: u8 = 51;
    loop {
        let units = rest.get(1).copied().map_or(0, usize::from);
        let length = match next {
            FRAGMENT => {
                let [_, _, high, low, ..] = chunk::<8>(rest, 0)?;
                if u16::from_be_bytes([high, low]) != 0 {
                    return None;
                }
                8
            }
            0 | 43 | 60 => (units + 1) * 8,
            AUTHENTICATION => (units + 2) * 4,
            _ => return Some((next, rest)),
        };
        next = *rest.first()?;
        rest = rest.get(length..)?;
    }
}
