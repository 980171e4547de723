//! Frames to send through a tap, built by `frame-builder`.

use std::net::{Ipv4Addr, Ipv6Addr};

use frame_builder::{
    ARP, Arp, Endpoints, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, Mac, SOLICITATION, UDP, VLAN, icmpv6, link_layer,
    neighbour, solicited_node, udp_without_checksum,
};
pub use frame_builder::{BROADCAST, announcement, ethernet, gratuitous_arp, unsolicited_advertisement};

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

/// A neighbour solicitation for `target`, with the sender's MAC as an option if `option`.
pub fn solicitation(from: Mac, ip_from: Ipv6Addr, target: Ipv6Addr, option: bool) -> Vec<u8> {
    let (ip_to, to) = solicited_node(target);
    let option = if option { link_layer(1, from) } else { Vec::new() };
    let message = icmpv6(neighbour(SOLICITATION, 0, target, &option), ip_from, ip_to);
    ethernet(to, from, IPV6, &Ipv6::new(ip_from, ip_to, ICMPV6).packet(&message))
}
