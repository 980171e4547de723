//! ICMP errors for both IP versions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{ICMP, ICMPV6, Ipv4, UDP, checksum, icmpv6};

use crate::headers::{ipv4, ipv6};
use crate::received::Received;
use crate::{Reason, Silence};

/// Type, code, checksum, and four bytes that depend on both.
const HEAD_LEN: usize = 8;
/// The longest error of IPv4, so that it needs no fragments anywhere (RFC 1812, 4.3.2.3).
const IPV4_MAX: usize = 576;
const IPV4_HEADER_LEN: usize = 20;
/// The longest error of IPv6: its smallest MTU (RFC 4443, 2.4 (c)).
const IPV6_MAX: usize = 1280;
const IPV6_HEADER_LEN: usize = 40;
/// Precedence "internetwork control" (RFC 1812, 4.3.2.5).
const INTERNETWORK_CONTROL: u8 = 0xc0;

/// The packet of an error from this address to the sender.
pub(crate) fn error(
    received: &Received<'_>,
    source: IpAddr,
    reason: Reason,
    mtu: u32,
) -> Result<Vec<u8>, Silence> {
    match (source, received.from) {
        (IpAddr::V4(source), IpAddr::V4(to)) => Ok(of_ipv4(received, source, to, reason, mtu)),
        (IpAddr::V6(source), IpAddr::V6(to)) => Ok(of_ipv6(received, source, to, reason, mtu)),
        _ => Err(Silence::NoAddress),
    }
}

/// An error of RFC 792, with the codes of RFC 1812, 5.2.7, and the MTU of RFC 1191.
fn of_ipv4(received: &Received<'_>, source: Ipv4Addr, to: Ipv4Addr, reason: Reason, mtu: u32) -> Vec<u8> {
    const UNREACHABLE: u8 = 3;
    const TIME_EXCEEDED: u8 = 11;
    let (kind, code, rest) = match reason {
        Reason::TimeExceeded => (TIME_EXCEEDED, 0, 0),
        Reason::NoRoute => (UNREACHABLE, 0, 0),
        Reason::HostUnreachable => (UNREACHABLE, 1, 0),
        Reason::Closed if received.protocol == UDP => (UNREACHABLE, 3, 0),
        Reason::Closed => (UNREACHABLE, 2, 0),
        Reason::TooBig => (UNREACHABLE, 4, mtu.min(u32::from(u16::MAX))),
        Reason::Rejected => (UNREACHABLE, 13, 0),
    };
    let mut message = message(kind, code, rest, received.packet, IPV4_MAX - IPV4_HEADER_LEN);
    let sum = checksum(&[&message]).to_be_bytes();
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum);
    }
    let header = Ipv4 { tos: INTERNETWORK_CONTROL, ..ipv4(source, to, ICMP) };
    header.packet(&message)
}

/// An error of RFC 4443.
fn of_ipv6(received: &Received<'_>, source: Ipv6Addr, to: Ipv6Addr, reason: Reason, mtu: u32) -> Vec<u8> {
    const UNREACHABLE: u8 = 1;
    const TOO_BIG: u8 = 2;
    const TIME_EXCEEDED: u8 = 3;
    const PARAMETER_PROBLEM: u8 = 4;
    const UNKNOWN_NEXT_HEADER: u8 = 1;
    let (kind, code, rest) = match reason {
        Reason::TimeExceeded => (TIME_EXCEEDED, 0, 0),
        Reason::NoRoute => (UNREACHABLE, 0, 0),
        Reason::HostUnreachable => (UNREACHABLE, 3, 0),
        Reason::Closed if received.protocol == UDP => (UNREACHABLE, 4, 0),
        // RFC 8200, 4: this is what a node says that has no use for a protocol.
        Reason::Closed => (PARAMETER_PROBLEM, UNKNOWN_NEXT_HEADER, received.protocol_at as u32),
        Reason::TooBig => (TOO_BIG, 0, mtu),
        Reason::Rejected => (UNREACHABLE, 1, 0),
    };
    let message = message(kind, code, rest, received.packet, IPV6_MAX - IPV6_HEADER_LEN);
    ipv6(source, to, ICMPV6).packet(&icmpv6(message, source, to))
}

/// A message of at most so many bytes without its checksum, which quotes as much of the packet as has room.
fn message(kind: u8, code: u8, rest: u32, packet: &[u8], longest: usize) -> Vec<u8> {
    let quoted = packet.get(..longest - HEAD_LEN).unwrap_or(packet);
    [&[kind, code, 0, 0][..], &rest.to_be_bytes(), quoted].concat()
}
