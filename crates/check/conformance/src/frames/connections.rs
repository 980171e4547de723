//! The packets of connections: what two machines say to each other, and the errors about it.

use std::net::IpAddr;

use frame_builder::{
    Endpoints, ICMP, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, TCP, UDP, ethernet, icmp, icmpv6, tcp, udp,
};
use test_random::Random;

use super::Mac;

/// Flags of TCP: the first segment, its answer, and further ones.
pub const SYN: u8 = 2;
/// The answer to the first segment.
pub(crate) const SYN_ACK: u8 = 0x12;
/// A segment that only acknowledges, and one with data.
pub const ACK: u8 = 0x10;
/// A segment with data.
pub const DATA: u8 = 0x18;
/// The last segment of a machine.
pub(crate) const FIN_ACK: u8 = 0x11;

/// The next header of an IPv6 fragment, and the length of its header.
const FRAGMENT: u8 = 44;
/// A length of fragments that every network carries and no switch takes for an attack (RFC 8200, 5).
const FRAGMENT_LENGTH: usize = 1280;
/// A protocol without ports (RFC 2784).
const SOME_PROTOCOL: u8 = 47;

/// One end of a conversation: its addresses, and the MAC to which it sends to get to the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Its MAC.
    pub mac: Mac,
    /// Its address, of the same version as that of the other end.
    pub ip: IpAddr,
    /// The next MAC on the way to the other end: the other end's, or a router's.
    pub next: Mac,
}

/// What is said in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Talk {
    /// TCP between these ports.
    Tcp(u16, u16),
    /// UDP between these ports.
    Udp(u16, u16),
    /// Echoes of this identifier.
    Echo(u16),
    /// Timestamps of this identifier; echoes in IPv6, which has none.
    Timestamp(u16),
    /// A protocol without ports.
    Other,
}

/// A random subject: few ports, so that ACLs concern them.
pub fn subject(random: &mut Random) -> Talk {
    let (from, to) = (*random.pick(&[68, 1, 5000, 5001]), *random.pick(&[80, 80, 443, 1, 5002]));
    match random.below(100) {
        0..40 => Talk::Tcp(from, to),
        40..75 => Talk::Udp(from, to),
        75..90 => Talk::Echo(*random.pick(&[7, 7, 8])),
        90..94 => Talk::Timestamp(7),
        _ => Talk::Other,
    }
}

/// The same, but another connection.
pub(crate) fn other_subject(talk: Talk) -> Talk {
    match talk {
        Talk::Tcp(from, to) => Talk::Tcp(from + 7, to),
        Talk::Udp(from, to) => Talk::Udp(from + 7, to),
        Talk::Echo(identifier) => Talk::Echo(identifier + 7),
        Talk::Timestamp(identifier) => Talk::Timestamp(identifier + 7),
        Talk::Other => Talk::Udp(9, 9),
    }
}

/// What one end says to the other: as the first of a connection, which asks, or as the second, which answers. `flags` are those
/// of TCP.
pub fn say(from: End, to: End, talk: Talk, asks: bool, flags: u8) -> Vec<u8> {
    let (protocol, inside) = inside(from, to, talk, asks, flags, 5);
    ethernet_of(from, &packet(from, to, protocol, &inside))
}

/// The fragments of a large datagram of UDP.
pub fn large(from: End, to: End, ports: (u16, u16), identification: u16) -> Vec<Vec<u8>> {
    let (_, whole) = inside(from, to, Talk::Udp(ports.0, ports.1), true, 0, 3000);
    let count = whole.len().div_ceil(FRAGMENT_LENGTH);
    let part = |(number, part): (usize, &[u8])| {
        let offset = (number * FRAGMENT_LENGTH / 8) as u16;
        let has_more = number + 1 < count;
        let packet = match (from.ip, to.ip) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let fragment = offset | if has_more { 0x2000 } else { 0 };
                Ipv4 { fragment, identification, ..Ipv4::new(src, dst, UDP) }.packet(part)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let word = (offset << 3 | u16::from(has_more)).to_be_bytes();
                let header = [&[UDP, 0][..], &word, &u32::from(identification).to_be_bytes(), part].concat();
                Ipv6 { hops: 64, ..Ipv6::new(src, dst, FRAGMENT) }.packet(&header)
            }
            (src, dst) => panic!("from {src} to {dst}"),
        };
        ethernet_of(from, &packet)
    };
    whole.chunks(FRAGMENT_LENGTH).enumerate().map(part).collect()
}

/// The error of this type about a frame, from whoever has dropped its packet to the machine that has sent it: the packet's header
/// and the next bytes.
pub fn error(by: End, to: End, about: &[u8], kind: u8) -> Vec<u8> {
    const ETHERNET: usize = 14;
    const QUOTED: usize = 60;
    let quoted = &about[ETHERNET..about.len().min(ETHERNET + QUOTED)];
    let (protocol, message) = match (by.ip, to.ip) {
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            (ICMPV6, icmpv6([&[kind, 0, 0, 0, 0, 0, 0, 0][..], quoted].concat(), src, dst))
        }
        _ => (ICMP, icmp(kind, &[&[0; 4][..], quoted].concat())),
    };
    ethernet_of(by, &packet(by, to, protocol, &message))
}

fn ethernet_of(from: End, packet: &[u8]) -> Vec<u8> {
    ethernet(from.next, from.mac, if from.ip.is_ipv4() { IPV4 } else { IPV6 }, packet)
}

fn packet(from: End, to: End, protocol: u8, inside: &[u8]) -> Vec<u8> {
    match (from.ip, to.ip) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Ipv4::new(src, dst, protocol).packet(inside),
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            Ipv6 { hops: 64, ..Ipv6::new(src, dst, protocol) }.packet(inside)
        }
        // Ends are of one version.
        (src, dst) => panic!("from {src} to {dst}"),
    }
}

fn inside(from: End, to: End, talk: Talk, asks: bool, flags: u8, length: usize) -> (u8, Vec<u8>) {
    let endpoints = match (from.ip, to.ip) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Endpoints::V4(src, dst),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Endpoints::V6(src, dst),
        (src, dst) => panic!("from {src} to {dst}"),
    };
    let data = vec![7; length];
    let turned = |(one, other)| if asks { (one, other) } else { (other, one) };
    match talk {
        Talk::Tcp(one, other) => {
            let (source, destination) = turned((one, other));
            let data = if flags == DATA { &data[..] } else { &[] };
            (TCP, tcp(source, destination, flags, data, endpoints))
        }
        Talk::Udp(one, other) => {
            let (source, destination) = turned((one, other));
            (UDP, udp(source, destination, &data, endpoints))
        }
        Talk::Echo(identifier) | Talk::Timestamp(identifier) => {
            let (request, reply) = if matches!(talk, Talk::Echo(_)) { (8, 0) } else { (13, 14) };
            let rest = [&identifier.to_be_bytes()[..], &[0, 1, 9, 9]].concat();
            match endpoints {
                Endpoints::V4(..) => (ICMP, icmp(if asks { request } else { reply }, &rest)),
                Endpoints::V6(src, dst) => {
                    let kind = if asks { 128 } else { 129 };
                    (ICMPV6, icmpv6([&[kind, 0, 0, 0][..], &rest].concat(), src, dst))
                }
            }
        }
        Talk::Other => (SOME_PROTOCOL, data),
    }
}
