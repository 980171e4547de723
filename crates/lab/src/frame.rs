//! Frames to send through a tap, as bytes with correct checksums.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Error;

/// The broadcast MAC address.
pub const BROADCAST: [u8; 6] = [0xff; 6];

/// Reads `02:00:00:00:00:01`.
pub fn mac(text: &str) -> Result<[u8; 6], Error> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    bytes
        .and_then(|bytes| <[u8; 6]>::try_from(bytes).ok())
        .ok_or_else(|| Error::invalid("mac address", text, "write it as 02:00:00:00:00:01"))
}

/// An Ethernet frame: destination, source and type before a payload.
pub fn ethernet(to: [u8; 6], from: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &from, &ethertype.to_be_bytes(), payload].concat()
}

/// Inserts a VLAN tag after the addresses of a frame.
pub fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(12.min(frame.len()));
    [addresses, &0x8100_u16.to_be_bytes(), &tag.to_be_bytes(), rest].concat()
}

/// UDP in IPv4, from port 4000 to port 7.
pub fn udp4(to: [u8; 6], from: [u8; 6], ip_to: Ipv4Addr, ip_from: Ipv4Addr, data: &[u8]) -> Vec<u8> {
    let udp = udp(data);
    let mut ip = vec![0x45, 0];
    ip.extend((20 + udp.len() as u16).to_be_bytes());
    ip.extend([0, 1, 0, 0, 64, 17, 0, 0]);
    ip.extend(ip_from.octets());
    ip.extend(ip_to.octets());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ethernet(to, from, 0x0800, &[ip, udp].concat())
}

/// UDP in IPv6, from port 4000 to port 7.
pub fn udp6(to: [u8; 6], from: [u8; 6], ip_to: Ipv6Addr, ip_from: Ipv6Addr, data: &[u8]) -> Vec<u8> {
    let mut udp = udp(data);
    let sum = checksum6(ip_to, ip_from, 17, &udp);
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    ethernet(to, from, 0x86dd, &ipv6(ip_to, ip_from, 17, &udp))
}

/// An ARP packet; `operation` is 1 for a request, 2 for a reply.
pub fn arp(
    to: [u8; 6],
    operation: u16,
    (sender_mac, sender_ip): ([u8; 6], Ipv4Addr),
    (target_mac, target_ip): ([u8; 6], Ipv4Addr),
) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4];
    packet.extend(operation.to_be_bytes());
    packet.extend(sender_mac);
    packet.extend(sender_ip.octets());
    packet.extend(target_mac);
    packet.extend(target_ip.octets());
    ethernet(to, sender_mac, 0x0806, &packet)
}

/// A neighbour solicitation for `target`, with the sender's MAC as an option if `option`.
pub fn solicitation(from: [u8; 6], ip_from: Ipv6Addr, target: Ipv6Addr, option: bool) -> Vec<u8> {
    let [.., a, b, c] = target.octets();
    let ip_to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    if option {
        message.extend([1, 1]);
        message.extend(from);
    }
    let sum = checksum6(ip_to, ip_from, 58, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ethernet([0x33, 0x33, 0xff, a, b, c], from, 0x86dd, &ipv6(ip_to, ip_from, 58, &message))
}

/// UDP without a checksum, which IPv4 allows.
fn udp(data: &[u8]) -> Vec<u8> {
    let mut udp = Vec::new();
    udp.extend(4000_u16.to_be_bytes());
    udp.extend(7_u16.to_be_bytes());
    udp.extend((8 + data.len() as u16).to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(data);
    udp
}

fn ipv6(to: Ipv6Addr, from: Ipv6Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([protocol, 255]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(payload);
    packet
}

fn checksum6(to: Ipv6Addr, from: Ipv6Addr, protocol: u8, payload: &[u8]) -> u16 {
    let length = (payload.len() as u32).to_be_bytes();
    checksum(&[&from.octets()[..], &to.octets(), &length, &[0, 0, 0, protocol], payload].concat())
}

/// The internet's checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_rfc() {
        // RFC 1071 section 3: the sum of these is ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        let packet = udp4([2; 6], [4; 6], [10, 0, 0, 2].into(), [10, 0, 0, 1].into(), b"x");
        assert_eq!(checksum(&packet[14..34]), 0, "a header with its checksum sums to nothing");
    }

    #[test]
    fn a_tag_goes_between_addresses_and_type() {
        let frame = ethernet([1; 6], [2; 6], 0x0800, b"data");
        assert_eq!(tagged(&frame, 11)[10..18], [2, 2, 0x81, 0, 0, 11, 8, 0]);
    }
}
