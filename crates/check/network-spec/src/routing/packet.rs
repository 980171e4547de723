//! A packet as a router sees it, and what a router writes into it.

use std::net::IpAddr;
use std::ops::Range;

use super::objects::RouterPort;
use crate::frame::{Body, Frame, Packet, Payload, chunk};
use crate::world::Mac;

/// The TTL of packets of a router's own, as they leave it (RFC 1700).
const OWN_HOPS: u8 = 64;

/// The fields of a packet that a router looks at.
#[derive(Clone, Debug)]
pub(crate) struct Routed {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) hops: u8,
    pub(crate) protocol: u8,
    /// The ports of TCP, UDP and SCTP, and for other protocols none. A fragment has no flow, because most show no ports.
    pub(crate) flow: Option<Flow>,
    /// Whether it asks for an echo, and is whole.
    asks_for_echo: bool,
    /// Whether a routing header names other destinations.
    has_segments_left: bool,
    /// Whether it is a message of neighbour discovery.
    pub(crate) is_discovery: bool,
    /// The offset of its header.
    pub(super) header: usize,
    pub(super) carried: Range<usize>,
}

/// The five-tuple of a packet. Packets with the same one are of one connection and must not overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flow {
    src: IpAddr,
    dst: IpAddr,
    protocol: u8,
    ports: [u8; 4],
}

impl Routed {
    /// Reads the packet in a frame; none if the frame contains no IP packet that can be read up to its payload.
    pub(crate) fn read(frame: &Frame, bytes: &[u8]) -> Option<Routed> {
        match &frame.body {
            // Nothing in it would change.
            Body::Ipv4(Some(Packet { protocol: Some(0), .. })) => None,
            Body::Ipv4(Some(packet)) => {
                let asks = matches!(packet.payload, Payload::Icmp(8));
                Routed::of(packet, bytes, asks, false)
            }
            Body::Ipv6(Some(packet)) => {
                let asks = matches!(packet.payload, Payload::Icmpv6(128, _));
                let is_discovery = matches!(
                    packet.payload,
                    Payload::Solicitation(_) | Payload::Advertisement(_) | Payload::Icmpv6(133..=137, _)
                );
                Routed::of(packet, bytes, asks, is_discovery)
            }
            _ => None,
        }
    }

    fn of<A: Copy + Into<IpAddr>>(
        packet: &Packet<A>,
        bytes: &[u8],
        asks_for_echo: bool,
        is_discovery: bool,
    ) -> Option<Routed> {
        const WITH_PORTS: [u8; 3] = [6, 17, 132];
        let (src, dst, protocol) = (packet.src.into(), packet.dst.into(), packet.protocol?);
        let (header, carried, hops) = (packet.header, packet.carried.clone(), packet.hops);
        let shown = chunk(&bytes[carried.clone()], 0).filter(|_| WITH_PORTS.contains(&protocol));
        let flow = Flow { src, dst, protocol, ports: shown.unwrap_or_default() };
        let flow = (!packet.is_fragment).then_some(flow);
        let has_segments_left = packet.routed;
        Some(Routed {
            src,
            dst,
            hops,
            protocol,
            flow,
            asks_for_echo,
            has_segments_left,
            is_discovery,
            header,
            carried,
        })
    }

    /// Whether it asks for an echo, and is whole.
    pub(crate) fn asks_for_echo(&self) -> bool {
        self.asks_for_echo
    }

    /// Whether it is a message of ICMP, of the version that the router speaks.
    pub(crate) fn is_icmp(&self) -> bool {
        self.protocol == if self.src.is_ipv4() { 1 } else { 58 }
    }

    /// The length of the packet, without padding that follows it in the frame.
    pub(crate) fn length(&self) -> usize {
        self.carried.end - self.header
    }

    /// The frame with a TTL that is one less.
    pub(crate) fn forwarded(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        self.write_hops(&mut bytes, self.hops - 1);
        bytes
    }

    /// The packet as one for an address of a router's port, the least of IPv6 ones: the answer to an anycast address is from an address of
    /// the interface that the packet has come by (RFC 4443, 4.2). None if the port has none.
    pub(crate) fn to_unicast(&self, port: &RouterPort, bytes: &[u8]) -> Option<(Routed, Vec<u8>)> {
        let IpAddr::V6(old) = self.dst else { return None };
        let new = port
            .networks
            .iter()
            .filter_map(|network| if let IpAddr::V6(ip) = network.ip { Some(ip) } else { None })
            .min()?;
        let mut bytes = bytes.to_vec();
        bytes[self.header + 24..self.header + 40].copy_from_slice(&new.octets());
        if !self.has_segments_left {
            // The checksum covers this destination.
            correct(&mut bytes, self.carried.start + 2, &old.segments(), &new.segments());
        }
        let flow = self.flow.map(|flow| Flow { dst: new.into(), ..flow });
        Some((Routed { dst: new.into(), flow, ..self.clone() }, bytes))
    }

    /// The answer to an echo request, and the fields of it that matter: from the address that was asked to the one that has
    /// asked, with the same contents (RFC 1812, 4.3.3.6; RFC 4443, 4.2).
    pub(crate) fn echo(&self, bytes: &[u8]) -> Option<(Routed, Vec<u8>)> {
        if !self.asks_for_echo {
            return None;
        }
        let mut bytes = bytes.to_vec();
        let (addresses, length, answer) = match self.src {
            IpAddr::V4(_) => (self.header + 12, 4, 0),
            IpAddr::V6(_) => (self.header + 8, 16, 129),
        };
        bytes[addresses..addresses + 2 * length].rotate_left(length);
        let kind = self.carried.start;
        update(&mut bytes, kind, answer, kind + 2);
        if let (IpAddr::V6(old), IpAddr::V6(new)) = (self.src, self.dst)
            && self.has_segments_left
        {
            // The destination is none of those that the checksum covers.
            correct(&mut bytes, kind + 2, &old.segments(), &new.segments());
        }
        self.write_hops(&mut bytes, OWN_HOPS);
        let flow = self.flow.map(|flow| Flow { src: flow.dst, dst: flow.src, ..flow });
        let answer = Routed { src: self.dst, dst: self.src, hops: OWN_HOPS, flow, ..self.clone() };
        Some((answer, bytes))
    }

    fn write_hops(&self, bytes: &mut [u8], hops: u8) {
        match self.src {
            IpAddr::V4(_) => update(bytes, self.header + 8, hops, self.header + 10),
            IpAddr::V6(_) => bytes[self.header + 7] = hops,
        }
    }
}

/// Writes the first byte of the word at `at`, and updates the checksum at `sum`, right or wrong.
fn update(bytes: &mut [u8], at: usize, value: u8, sum: usize) {
    let word = |bytes: &[u8]| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let old = word(bytes);
    bytes[at] = value;
    let new = word(bytes);
    correct(bytes, sum, &[old], &[new]);
}

/// Updates the checksum at `sum` for words that have changed (RFC 1624, equation 3).
pub(super) fn correct(bytes: &mut [u8], sum: usize, old: &[u16], new: &[u16]) {
    let of = u16::from_be_bytes([bytes[sum], bytes[sum + 1]]);
    let mut total = u32::from(!of);
    total += old.iter().map(|word| u32::from(!word)).sum::<u32>();
    total += new.iter().map(|word| u32::from(*word)).sum::<u32>();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    bytes[sum..sum + 2].copy_from_slice(&(!(total as u16)).to_be_bytes());
}

/// Writes the addresses of a frame.
pub(crate) fn address(bytes: &mut [u8], from: Mac, to: Mac) {
    bytes[..6].copy_from_slice(&to);
    bytes[6..12].copy_from_slice(&from);
}
