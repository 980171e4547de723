//! The bytes of errors and resets.
//!
//! An error quotes as much of the packet as has room in 576 bytes (RFC 1812, 4.3.2.3), or in 1,280 bytes for IPv6 (RFC 4443, 2.4 c).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Notice;
use super::received::Received;
use crate::acl::checksum_of;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const HOPS: u8 = 64;

/// The frame that says this to the sender of a packet, from an address. None if there is nothing to say: nobody answers a reset.
pub(super) fn message(received: &Received<'_>, notice: Notice, source: IpAddr) -> Option<Vec<u8>> {
    let segment = received.segment().filter(|_| notice.is_of_destination());
    let (protocol, inside) = match segment {
        Some(header) => (TCP, reset(received, header)?),
        None if source.is_ipv4() => (ICMP, icmp(received, notice)),
        None => (ICMPV6, icmpv6(received, notice)),
    };
    // A reset comes from the address that was spoken to.
    let source = if segment.is_some() { received.to } else { source };
    let packet = match (source, received.from) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(from, to, protocol, inside),
        (IpAddr::V6(from), IpAddr::V6(to)) => ipv6(from, to, protocol, inside, HOPS),
        _ => return None,
    };
    let ethernet = &received.frame[..14];
    Some([&ethernet[6..12], &ethernet[..6], &ethernet[12..], &packet].concat())
}

/// The reset of a segment (RFC 9293, 3.10.7.1).
fn reset(received: &Received<'_>, header: usize) -> Option<Vec<u8>> {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const ACK: u8 = 0x10;
    let segment = received.payload;
    let word =
        |at: usize| u32::from_be_bytes([segment[at], segment[at + 1], segment[at + 2], segment[at + 3]]);
    let flags = segment[13];
    if flags & RST != 0 {
        return None;
    }
    let (sequence, acknowledged, own) = if flags & ACK != 0 {
        (word(8), 0, RST)
    } else {
        let bits = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let length = u32::try_from(segment.len() - header).ok()? + bits;
        (0, word(4).wrapping_add(length), RST | ACK)
    };
    let ports = [&segment[2..4], &segment[..2]].concat();
    let numbers = [sequence.to_be_bytes(), acknowledged.to_be_bytes()].concat();
    Some([&ports[..], &numbers, &[5 << 4, own, 0, 0, 0, 0, 0, 0]].concat())
}

/// An error of ICMP (RFC 792, with the codes of RFC 1812, 5.2.7.1, and the MTU of RFC 1191), without its checksum.
fn icmp(received: &Received<'_>, notice: Notice) -> Vec<u8> {
    const LONGEST: usize = 576 - 20 - 8;
    let (kind, code, rest) = match notice {
        Notice::Expired => (11, 0, 0),
        Notice::NoRoute => (3, 0, 0),
        Notice::Unreachable => (3, 1, 0),
        Notice::Closed if received.protocol == UDP => (3, 3, 0),
        Notice::Closed => (3, 2, 0),
        Notice::TooLarge(mtu) => (3, 4, u32::from(mtu)),
        Notice::Rejected => (3, 13, 0),
    };
    head(kind, code, rest, received.packet, LONGEST)
}

/// An error of `ICMPv6` (RFC 4443), without its checksum. What has no use for a protocol names the place where it is said (RFC 8200, 4).
fn icmpv6(received: &Received<'_>, notice: Notice) -> Vec<u8> {
    const LONGEST: usize = 1280 - 40 - 8;
    let (kind, code, rest) = match notice {
        Notice::Expired => (3, 0, 0),
        Notice::NoRoute => (1, 0, 0),
        Notice::Unreachable => (1, 3, 0),
        Notice::Closed if received.protocol == UDP => (1, 4, 0),
        Notice::Closed => (4, 1, received.protocol_at as u32),
        Notice::TooLarge(mtu) => (2, 0, u32::from(mtu)),
        Notice::Rejected => (1, 1, 0),
    };
    head(kind, code, rest, received.packet, LONGEST)
}

fn head(kind: u8, code: u8, rest: u32, packet: &[u8], longest: usize) -> Vec<u8> {
    [&[kind, code, 0, 0][..], &rest.to_be_bytes(), &packet[..packet.len().min(longest)]].concat()
}

/// A packet of IPv4, with the checksum of what it carries.
pub(super) fn ipv4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, mut inside: Vec<u8>) -> Vec<u8> {
    let addresses = [from.octets(), to.octets()].concat();
    let sum = if protocol == ICMP {
        checksum_of(&[&inside])
    } else {
        checksum_of(&[&addresses, &[0, protocol], &(inside.len() as u16).to_be_bytes(), &inside])
    };
    put_sum(&mut inside, protocol, sum);
    let total = (20 + inside.len()) as u16;
    let mut header =
        [&[0x45, 0][..], &total.to_be_bytes(), &[0, 0, 0x40, 0, HOPS, protocol, 0, 0], &addresses].concat();
    let sum = checksum_of(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header, inside].concat()
}

/// A packet of IPv6, with the checksum of what it carries.
pub(super) fn ipv6(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, mut inside: Vec<u8>, hops: u8) -> Vec<u8> {
    let addresses = [from.octets(), to.octets()].concat();
    let length = inside.len() as u16;
    let sum = checksum_of(&[&addresses, &u32::from(length).to_be_bytes(), &[0, 0, 0, protocol], &inside]);
    put_sum(&mut inside, protocol, sum);
    [&[0x60, 0, 0, 0][..], &length.to_be_bytes(), &[protocol, hops], &addresses, &inside].concat()
}

/// Writes the checksum of a message of ICMP, of a segment, or of a datagram.
fn put_sum(inside: &mut [u8], protocol: u8, sum: u16) {
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        _ => 2,
    };
    // A datagram with 0 has no checksum (RFC 768).
    let sum = if protocol == UDP && sum == 0 { u16::MAX } else { sum };
    inside[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
