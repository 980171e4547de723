//! Frames to send through a tap, built by `frame-builder`.

use std::net::{Ipv4Addr, Ipv6Addr};

use frame_builder::{
    ADVERTISEMENT, ARP, Arp, Endpoints, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, Mac, SOLICITATION, UDP, VLAN, icmpv6,
    link_layer, neighbour, solicited_node, udp_without_checksum,
};
pub use frame_builder::{BROADCAST, ethernet};

use crate::Error;

/// Ports of every datagram.
const FROM_PORT: u16 = 4000;
const TO_PORT: u16 = 7;

/// Reads `02:00:00:00:00:01`.
pub fn mac(text: &str) -> Result<Mac, Error> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    bytes
        .and_then(|bytes| <[u8; 6]>::try_from(bytes).ok())
        .ok_or_else(|| Error::invalid("mac address", text, "write it as 02:00:00:00:00:01"))
}

/// Inserts a VLAN tag after the addresses of a frame.
pub fn tagged(frame: &[u8], tag: u16) -> Vec<u8> {
    frame_builder::tagged(frame, VLAN, tag)
}

/// UDP in IPv4, from port 4000 to port 7.
pub fn udp4(to: Mac, from: Mac, ip_to: Ipv4Addr, ip_from: Ipv4Addr, data: &[u8]) -> Vec<u8> {
    let datagram = udp_without_checksum(FROM_PORT, TO_PORT, data);
    ethernet(to, from, IPV4, &Ipv4::new(ip_from, ip_to, UDP).packet(&datagram))
}

/// UDP in IPv6, from port 4000 to port 7.
pub fn udp6(to: Mac, from: Mac, ip_to: Ipv6Addr, ip_from: Ipv6Addr, data: &[u8]) -> Vec<u8> {
    let datagram = frame_builder::udp(FROM_PORT, TO_PORT, data, Endpoints::V6(ip_from, ip_to));
    ethernet(to, from, IPV6, &Ipv6::new(ip_from, ip_to, UDP).packet(&datagram))
}

/// An ARP packet; `operation` is 1 for a request, 2 for a reply.
pub fn arp(to: Mac, operation: u16, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Vec<u8> {
    ethernet(to, sender.0, ARP, &frame_builder::arp(Arp { operation, sender, target }))
}

/// The frame by which QEMU announces a machine that has migrated: a reverse ARP request for its own MAC address (RFC 903), without
/// IP addresses, of the least length of a frame (`announce_self_create` in QEMU's `net/announce.c`).
pub fn announcement(from: Mac) -> Vec<u8> {
    const RARP: u16 = 0x8035;
    const REVERSE_REQUEST: u16 = 3;
    const LEAST: usize = 60;
    let itself = (from, Ipv4Addr::UNSPECIFIED);
    let request = frame_builder::arp(Arp { operation: REVERSE_REQUEST, sender: itself, target: itself });
    let mut frame = ethernet(BROADCAST, from, RARP, &request);
    frame.resize(LEAST, 0);
    frame
}

/// Gratuitous ARP: a request for the sender's own address (RFC 5227, 3).
pub fn gratuitous_arp(from: Mac, ip: Ipv4Addr) -> Vec<u8> {
    arp(BROADCAST, 1, (from, ip), ([0; 6], ip))
}

/// An unsolicited neighbour advertisement to all nodes, which overrides what they know (RFC 4861, 7.2.6).
pub fn unsolicited_advertisement(from: Mac, ip: Ipv6Addr) -> Vec<u8> {
    const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    const OVERRIDE: u8 = 0x20;
    let message = icmpv6(neighbour(ADVERTISEMENT, OVERRIDE, ip, &link_layer(2, from)), ip, ALL_NODES);
    let to = [0x33, 0x33, 0, 0, 0, 1];
    ethernet(to, from, IPV6, &Ipv6::new(ip, ALL_NODES, ICMPV6).packet(&message))
}

/// A neighbour solicitation for `target`, with the sender's MAC as an option if `option`.
pub fn solicitation(from: Mac, ip_from: Ipv6Addr, target: Ipv6Addr, option: bool) -> Vec<u8> {
    let (ip_to, to) = solicited_node(target);
    let option = if option { link_layer(1, from) } else { Vec::new() };
    let message = icmpv6(neighbour(SOLICITATION, 0, target, &option), ip_from, ip_to);
    ethernet(to, from, IPV6, &Ipv6::new(ip_from, ip_to, ICMPV6).packet(&message))
}
