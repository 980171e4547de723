//! Parses the bytes of a frame.
//!
//! No frame is refused: if a header is truncated or contradicts itself, its fields and the fields of all headers inside it
//! are missing. A real switch sees no more than this either, and must not trust what it cannot parse.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::world::Mac;

/// Bytes up to the end of the Ethernet type.
const HEADER: usize = 14;

/// A frame, with one VLAN tag read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The destination.
    pub(crate) dst: Mac,
    /// The source.
    pub(crate) src: Mac,
    /// The VLAN of the outer tag, if there is one.
    pub(crate) vlan: Option<u16>,
    /// The body.
    pub(crate) body: Body,
}

/// The body of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// A tag inside the tag that was read, or one that was cut off.
    Tag,
    /// ARP; `None` if the packet cannot be read.
    Arp(Option<Arp>),
    /// RARP (RFC 903), which has the form of ARP; likewise.
    Rarp(Option<Arp>),
    /// IP; `None` if the header cannot be read.
    Ipv4(Option<Packet<Ipv4Addr>>),
    /// Likewise.
    Ipv6(Option<Packet<Ipv6Addr>>),
    /// Any other Ethernet type, or none.
    Other,
}

/// An ARP packet for Ethernet and IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arp {
    /// Its offset in the frame.
    pub(crate) at: usize,
    /// In ARP, 1 asks and 2 answers; in RARP, 3 asks and 4 answers.
    pub(crate) operation: u16,
    /// The sender's addresses.
    pub(crate) sender: (Mac, Ipv4Addr),
    /// The target.
    pub(crate) target: (Mac, Ipv4Addr),
}

/// An IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet<A> {
    /// The source.
    pub(crate) src: A,
    /// The destination.
    pub(crate) dst: A,
    /// The hop limit (TTL).
    pub(crate) hops: u8,
    /// Its payload.
    pub(crate) payload: Payload,
    /// The offset of its header in the frame.
    pub(crate) header: usize,
    /// The range of its payload in the frame; bytes after it are padding.
    pub(crate) carried: Range<usize>,
    /// Whether a routing header names further destinations.
    pub(crate) routed: bool,
    /// The protocol of the payload; none if the headers before it are truncated.
    pub(crate) protocol: Option<u8>,
    /// Whether it is a fragment.
    pub(crate) is_fragment: bool,
}

/// The payload of an IP packet, as far as forwarding depends on it. The payload of fragments cannot be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// UDP, from and to these ports.
    Udp(u16, u16),
    /// `ICMP` in IPv4, of this type.
    Icmp(u8),
    /// `ICMPv6`, of this type and code.
    Icmpv6(u8, u8),
    /// A neighbour solicitation.
    Solicitation(Neighbour),
    /// A neighbour advertisement.
    Advertisement(Neighbour),
    /// Anything else.
    Other,
}

/// The contents of a neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbour {
    /// The target.
    pub(crate) target: Ipv6Addr,
    /// The source link-layer address. The all-zeros address counts as absent.
    pub(crate) source: Option<Mac>,
    /// The target link-layer address.
    pub(crate) own: Option<Mac>,
}

/// Whether an address is multicast or broadcast.
pub(crate) fn is_group(mac: Mac) -> bool {
    mac[0] & 1 == 1
}

/// Whether an address is one of the sixteen that no bridge forwards to, because protocols between neighbouring bridges and
/// stations use them (IEEE 802.1Q, 8.6.3).
pub(crate) fn is_reserved(mac: Mac) -> bool {
    matches!(mac, [0x01, 0x80, 0xc2, 0, 0, 0..=15])
}

impl Frame {
    /// Reads a frame; none if the bytes are shorter than an Ethernet header.
    pub(crate) fn read(bytes: &[u8]) -> Option<Frame> {
        let (dst, src) = (chunk(bytes, 0)?, chunk(bytes, 6)?);
        number16(bytes, 12)?;
        let vlan = tag(bytes);
        let kind_at = if vlan.is_some() { 16 } else { 12 };
        Some(Frame { dst, src, vlan, body: Body::read(bytes, kind_at) })
    }
}

/// The VLAN of a frame's tag. A tag includes the Ethernet type after it.
fn tag(bytes: &[u8]) -> Option<u16> {
    let is_tag = is_tag_type(number16(bytes, 12)?) && bytes.len() >= HEADER + 4;
    is_tag.then(|| number16(bytes, 14).map(|control| control & 0xfff))?
}

fn is_tag_type(kind: u16) -> bool {
    matches!(kind, 0x8100 | 0x88a8)
}

/// The frame without its tag.
pub(crate) fn untagged(bytes: &[u8]) -> Vec<u8> {
    [&bytes[..12], &bytes[16..]].concat()
}

/// The frame in this VLAN.
pub(crate) fn tagged(bytes: &[u8], vlan: u16) -> Vec<u8> {
    [&bytes[..12], &[0x81, 0x00], &vlan.to_be_bytes(), &bytes[12..]].concat()
}

impl Body {
    /// Reads the body; its Ethernet type is at `at`.
    fn read(bytes: &[u8], at: usize) -> Body {
        let (kind, at) = ether_type(bytes, at);
        match kind {
            Some(kind) if is_tag_type(kind) => Body::Tag,
            Some(0x0806) => Body::Arp(Arp::read(bytes, at)),
            Some(0x8035) => Body::Rarp(Arp::read(bytes, at)),
            Some(0x0800) => Body::Ipv4(ipv4(bytes, at)),
            Some(0x86dd) => Body::Ipv6(ipv6(bytes, at)),
            _ => Body::Other,
        }
    }
}

/// The Ethernet type at `at`, and the offset of the payload. If there is a length instead, an LLC header follows, and only a SNAP
/// header contains an Ethernet type.
fn ether_type(bytes: &[u8], at: usize) -> (Option<u16>, usize) {
    const SNAP: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];
    let is_type = |kind: &u16| *kind >= 0x600;
    let Some(kind) = number16(bytes, at) else {
        return (None, at);
    };
    if is_type(&kind) {
        return (Some(kind), at + 2);
    }
    match chunk::<6>(bytes, at + 2) {
        Some(SNAP) => (number16(bytes, at + 8).filter(is_type), at + 10),
        _ => (None, at + 2),
    }
}

impl Arp {
    fn read(bytes: &[u8], at: usize) -> Option<Arp> {
        const ETHERNET_AND_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
        let address = |at| chunk::<4>(bytes, at).map(Ipv4Addr::from);
        if chunk::<6>(bytes, at)? != ETHERNET_AND_IPV4 {
            return None;
        }
        Some(Arp {
            at,
            operation: number16(bytes, at + 6)?,
            sender: (chunk(bytes, at + 8)?, address(at + 14)?),
            target: (chunk(bytes, at + 18)?, address(at + 24)?),
        })
    }
}

fn ipv4(bytes: &[u8], at: usize) -> Option<Packet<Ipv4Addr>> {
    const DONT_FRAGMENT: u16 = 0x4000;
    const RESERVED: u16 = 0x8000;
    const ICMP: u8 = 1;
    const UDP: u8 = 17;
    let header: [u8; 20] = chunk(bytes, at)?;
    let (length, total) = (usize::from(header[0] & 0xf) * 4, usize::from(number16(&header, 2)?));
    if length < 20 || total < length || bytes.len() < at + total {
        return None;
    }
    let payload_at = at + length;
    let is_fragment = number16(&header, 6)? & !(DONT_FRAGMENT | RESERVED) != 0;
    let payload = match header[9] {
        UDP if !is_fragment => udp(&bytes[payload_at..at + total]),
        ICMP if !is_fragment => icmp(&bytes[payload_at..at + total]),
        _ => Payload::Other,
    };
    let (src, dst) = (Ipv4Addr::from(chunk::<4>(&header, 12)?), Ipv4Addr::from(chunk::<4>(&header, 16)?));
    let (hops, carried) = (header[8], payload_at..at + total);
    let protocol = Some(header[9]);
    Some(Packet { src, dst, hops, payload, header: at, carried, routed: false, protocol, is_fragment })
}

fn icmp(bytes: &[u8]) -> Payload {
    chunk::<8>(bytes, 0).map_or(Payload::Other, |[kind, ..]| Payload::Icmp(kind))
}

fn udp(bytes: &[u8]) -> Payload {
    match chunk::<8>(bytes, 0) {
        Some([s0, s1, d0, d1, ..]) => {
            Payload::Udp(u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]))
        }
        None => Payload::Other,
    }
}

fn ipv6(bytes: &[u8], at: usize) -> Option<Packet<Ipv6Addr>> {
    const UDP: u8 = 17;
    const ICMPV6: u8 = 58;
    let header: [u8; 40] = chunk(bytes, at)?;
    let end = at + 40 + usize::from(number16(&header, 4)?);
    if bytes.len() < end {
        return None;
    }
    let (src, dst) = (Ipv6Addr::from(chunk::<16>(&header, 8)?), Ipv6Addr::from(chunk::<16>(&header, 24)?));
    let bytes = &bytes[..end];
    let (hops, carried) = (header[7], at + 40..end);
    let mut packet = Packet {
        src,
        dst,
        hops,
        payload: Payload::Other,
        header: at,
        carried,
        routed: false,
        protocol: None,
        is_fragment: false,
    };
    let Some((protocol, is_fragment)) = extensions(bytes, header[6], &mut packet) else {
        // The addresses precede the truncated part.
        return Some(packet);
    };
    (packet.protocol, packet.is_fragment) = (Some(protocol), is_fragment);
    packet.payload = match protocol {
        UDP if !is_fragment => udp(&bytes[packet.carried.start..]),
        ICMPV6 if !is_fragment => icmpv6(&bytes[packet.carried.start..]),
        _ => Payload::Other,
    };
    Some(packet)
}

/// Skips extension headers. Returns the protocol after them, and whether the packet is a fragment.
fn extensions(bytes: &[u8], mut next: u8, packet: &mut Packet<Ipv6Addr>) -> Option<(u8, bool)> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    let mut is_fragment = false;
    loop {
        let units = |header: [u8; 8]| usize::from(header[1]);
        let header = || chunk::<8>(bytes, packet.carried.start);
        let length = match next {
            FRAGMENT => {
                let offset_and_more = number16(&header()?, 2)?;
                is_fragment |= offset_and_more != 0;
                if offset_and_more & 0xfff8 != 0 {
                    return Some((next, true));
                }
                8
            }
            HOP_BY_HOP | ROUTING | DESTINATION => (units(header()?) + 1) * 8,
            AUTHENTICATION => (units(header()?) + 2) * 4,
            _ => return Some((next, is_fragment)),
        };
        packet.routed |= next == ROUTING && header()?[3] > 0;
        next = header()?[0];
        if packet.carried.start + length > bytes.len() {
            return None;
        }
        packet.carried.start += length;
    }
}

fn icmpv6(bytes: &[u8]) -> Payload {
    match chunk::<8>(bytes, 0) {
        Some([135, 0, ..]) => Payload::Solicitation(Neighbour::read(bytes)),
        Some([136, 0, ..]) => Payload::Advertisement(Neighbour::read(bytes)),
        Some([kind, code, ..]) => Payload::Icmpv6(kind, code),
        None => Payload::Other,
    }
}

impl Neighbour {
    /// Reads the target and the options, up to the first that cannot be read. A duplicate link-layer address invalidates the
    /// whole message.
    fn read(bytes: &[u8]) -> Neighbour {
        const NOTHING: Neighbour = Neighbour { target: Ipv6Addr::UNSPECIFIED, source: None, own: None };
        let Some(target) = chunk::<16>(bytes, 8).map(Ipv6Addr::from) else {
            return NOTHING;
        };
        let mut read = Neighbour { target, source: None, own: None };
        let mut at = 24;
        while let Some([kind, units, mac @ ..]) = chunk::<8>(bytes, at) {
            let length = usize::from(units) * 8;
            if length == 0 || at + length > bytes.len() {
                break;
            }
            let place = match (kind, units) {
                (1, 1) => Some(&mut read.source),
                (2, 1) => Some(&mut read.own),
                _ => None,
            };
            if let Some(place) = place {
                if place.is_some() {
                    return NOTHING;
                }
                *place = (mac != [0; 6]).then_some(mac);
            }
            at += length;
        }
        read
    }
}

/// The link-local address that an interface derives from its MAC (RFC 4291, appendix A).
pub(crate) fn link_local(mac: Mac) -> IpAddr {
    let [a, b, c, d, e, f] = mac;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]).into()
}

/// The `N` bytes at `at`, if all of them exist.
pub(crate) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    chunk(bytes, at).map(u16::from_be_bytes)
}
