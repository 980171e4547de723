//! The bytes of a packet whose addresses and ports are translated (RFC 3022, 4; RFC 5508, 4.2).

use std::net::IpAddr;

use super::packet::{Routed, correct};
use crate::acl::{Ends, Tuple, checksum_of, octets, upper_layer};
use crate::frame::chunk;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const ICMP_HEADER: usize = 8;
/// Where checksums are in the headers of TCP, UDP and `ICMPv6`.
const TCP_SUM: usize = 16;
const UDP_SUM: usize = 6;
const ICMPV6_SUM: usize = 2;

/// A packet as one of another tuple. Damage stays: checksums change by the difference (RFC 1624).
pub(super) fn translated(packet: &Routed, bytes: &[u8], to: Tuple) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let (header, carried) = (packet.header, packet.carried.clone());
    rewrite(&mut bytes, header, carried.start..carried.end, packet.protocol, to);
    bytes
}

/// An error about a packet as one about a packet of another tuple. Whoever says it speaks for the machine behind the translation.
pub(super) fn translated_error(packet: &Routed, bytes: &[u8], (old, new): (Tuple, Tuple)) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let carried = packet.carried.clone();
    // The error goes the other way than the packet that it is about.
    let from = if old.dst == new.dst { packet.src } else { new.dst };
    write_addresses(&mut bytes, packet.header, carried.clone(), packet.protocol, (from, new.src));
    let inside = carried.start + ICMP_HEADER;
    if let Some((protocol, at)) = upper_layer(packet.src.is_ipv4(), &bytes[inside..carried.end]) {
        rewrite(&mut bytes, inside, inside + at..carried.end, protocol, new);
    }
    // Its own checksum covers what has changed inside.
    let sum = carried.start + 2;
    bytes[sum..sum + 2].fill(0);
    let message = &bytes[carried.clone()];
    let new = if packet.src.is_ipv4() {
        checksum_of(&[message])
    } else {
        let length = (carried.len() as u32).to_be_bytes();
        checksum_of(&[&octets(from), &octets(new.src), &length, &[0, 0, 0, ICMPV6], message])
    };
    bytes[sum..sum + 2].copy_from_slice(&new.to_be_bytes());
    bytes
}

fn words(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect()
}

/// Writes the addresses and ports of a tuple into a packet, whose header and payload are there.
fn rewrite(bytes: &mut [u8], header: usize, carried: std::ops::Range<usize>, protocol: u8, to: Tuple) {
    if let (Ends::Ports(from, dst), TCP | UDP) = (to.ends, protocol)
        && let Some(old) = chunk::<4>(&bytes[carried.clone()], 0)
    {
        let new = [from.to_be_bytes(), dst.to_be_bytes()].concat();
        correct_upper(bytes, carried.clone(), protocol, (&old, &new), 0);
        bytes[carried.start..carried.start + 4].copy_from_slice(&new);
    }
    write_addresses(bytes, header, carried, protocol, (to.src, to.dst));
}

fn write_addresses(
    bytes: &mut [u8],
    header: usize,
    carried: std::ops::Range<usize>,
    protocol: u8,
    (src, dst): (IpAddr, IpAddr),
) {
    const TCP_HEADER: usize = 20;
    let (at, is_ipv4) = if src.is_ipv4() { (header + 12, true) } else { (header + 8, false) };
    let new = [octets(src), octets(dst)].concat();
    let old = bytes[at..at + new.len()].to_vec();
    bytes[at..at + new.len()].copy_from_slice(&new);
    if is_ipv4 && old != new {
        correct(bytes, header + 10, &words(&old), &words(&new));
    }
    let shortest = if protocol == TCP { TCP_HEADER } else { 0 };
    correct_upper(bytes, carried, protocol, (&old, &new), shortest);
}

/// Updates the checksum of what a packet carries, if it is there, and if there is one (RFC 768).
fn correct_upper(
    bytes: &mut [u8],
    carried: std::ops::Range<usize>,
    protocol: u8,
    (old, new): (&[u8], &[u8]),
    shortest: usize,
) {
    let at = match protocol {
        TCP => TCP_SUM,
        UDP => UDP_SUM,
        ICMPV6 => ICMPV6_SUM,
        _ => return,
    };
    let sum = carried.start + at;
    if old == new || carried.len() < (at + 2).max(shortest) {
        return;
    }
    if protocol == UDP && bytes[sum..sum + 2] == [0, 0] {
        return;
    }
    correct(bytes, sum, &words(old), &words(new));
    if protocol == UDP && bytes[sum..sum + 2] == [0, 0] {
        bytes[sum..sum + 2].fill(0xff);
    }
}
