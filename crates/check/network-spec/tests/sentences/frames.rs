//! Frames of the tests, built by `frame-builder`.

use std::net::{Ipv4Addr, Ipv6Addr};

use frame_builder::{
    ARP, Arp, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, UDP, ethernet, neighbour, udp_without_checksum,
};
pub(crate) use frame_builder::{BROADCAST, link_layer, tagged as tag};
use network_spec::Mac;

/// The MAC of a test's interface.
pub(crate) fn mac(number: u8) -> Mac {
    [2, 0, 0, 0, 0, number]
}

/// Its IPv4 address.
pub(crate) fn ipv4(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

/// Its IPv6 address.
pub(crate) fn ipv6(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into())
}

/// The link-local address of [`mac`].
pub(crate) fn link_local(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, number.into())
}

/// A frame of any kind.
pub(crate) fn frame(src: Mac, dst: Mac, kind: u16, inside: &[u8]) -> Vec<u8> {
    ethernet(dst, src, kind, inside)
}

/// A frame of an unknown protocol.
pub(crate) fn unknown(src: Mac, dst: Mac) -> Vec<u8> {
    frame(src, dst, 0x88b5, b"of a kind for experiments")
}

/// ARP.
pub(crate) fn arp(
    src: Mac,
    dst: Mac,
    operation: u16,
    sender: (Mac, Ipv4Addr),
    target: (Mac, Ipv4Addr),
) -> Vec<u8> {
    frame(src, dst, ARP, &frame_builder::arp(Arp { operation, sender, target }))
}

/// UDP over IPv4; a fragment if `fragment` is not 0.
pub(crate) fn udp4(
    (src, dst): (Mac, Mac),
    (from, to): (Ipv4Addr, Ipv4Addr),
    ports: (u16, u16),
    fragment: u16,
) -> Vec<u8> {
    let datagram = udp_without_checksum(ports.0, ports.1, b"said");
    frame(src, dst, IPV4, &Ipv4 { fragment, ..Ipv4::new(from, to, UDP) }.packet(&datagram))
}

/// IPv6 with anything inside.
pub(crate) fn packet6(
    (src, dst): (Mac, Mac),
    (from, to): (Ipv6Addr, Ipv6Addr),
    next: u8,
    inside: &[u8],
) -> Vec<u8> {
    frame(src, dst, IPV6, &Ipv6::new(from, to, next).packet(inside))
}

/// The message with its checksum in place.
pub(crate) fn icmpv6((from, to): (Ipv6Addr, Ipv6Addr), message: &[u8]) -> Vec<u8> {
    frame_builder::icmpv6(message.to_vec(), from, to)
}

/// A neighbour solicitation or advertisement: type, flags, target, options.
pub(crate) fn discovery(
    macs: (Mac, Mac),
    addresses: (Ipv6Addr, Ipv6Addr),
    (kind, flags): (u8, u8),
    target: Ipv6Addr,
    options: &[u8],
) -> Vec<u8> {
    packet6(macs, addresses, ICMPV6, &icmpv6(addresses, &neighbour(kind, flags, target, options)))
}
