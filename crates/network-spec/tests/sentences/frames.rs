//! Frames, byte by byte.

use std::net::{Ipv4Addr, Ipv6Addr};

use network_spec::Mac;

pub(crate) const BROADCAST: Mac = [0xff; 6];

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
    [&dst[..], &src, &kind.to_be_bytes(), inside].concat()
}

/// A frame of no protocol that is known.
pub(crate) fn unknown(src: Mac, dst: Mac) -> Vec<u8> {
    frame(src, dst, 0x88b5, b"of a kind for experiments")
}

/// The frame with a tag of type `kind`.
pub(crate) fn tag(frame: &[u8], kind: u16, control: u16) -> Vec<u8> {
    [&frame[..12], &kind.to_be_bytes(), &control.to_be_bytes(), &frame[12..]].concat()
}

/// ARP.
pub(crate) fn arp(
    src: Mac,
    dst: Mac,
    operation: u16,
    sender: (Mac, Ipv4Addr),
    target: (Mac, Ipv4Addr),
) -> Vec<u8> {
    let inside = [
        &[0, 1, 8, 0, 6, 4][..],
        &operation.to_be_bytes(),
        &sender.0,
        &sender.1.octets(),
        &target.0,
        &target.1.octets(),
    ];
    frame(src, dst, 0x0806, &inside.concat())
}

/// UDP over IPv4; a fragment if `fragment` is not 0.
pub(crate) fn udp4(
    (src, dst): (Mac, Mac),
    (from, to): (Ipv4Addr, Ipv4Addr),
    ports: (u16, u16),
    fragment: u16,
) -> Vec<u8> {
    let data = b"said";
    let total = 20 + 8 + data.len() as u16;
    let inside = [
        &[0x45, 0][..],
        &total.to_be_bytes(),
        &[0, 1],
        &fragment.to_be_bytes(),
        &[64, 17, 0, 0],
        &from.octets(),
        &to.octets(),
        &ports.0.to_be_bytes(),
        &ports.1.to_be_bytes(),
        &(total - 20).to_be_bytes(),
        &[0, 0],
        data,
    ];
    frame(src, dst, 0x0800, &inside.concat())
}

/// IPv6 with anything inside.
pub(crate) fn packet6(
    (src, dst): (Mac, Mac),
    (from, to): (Ipv6Addr, Ipv6Addr),
    next: u8,
    inside: &[u8],
) -> Vec<u8> {
    let length = (inside.len() as u16).to_be_bytes();
    let packet = [&[0x60, 0, 0, 0][..], &length, &[next, 255], &from.octets(), &to.octets(), inside].concat();
    frame(src, dst, 0x86dd, &packet)
}

/// The message with its checksum in place.
pub(crate) fn icmpv6((from, to): (Ipv6Addr, Ipv6Addr), message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u32).to_be_bytes();
    let summed = [&from.octets()[..], &to.octets(), &length, &[0, 0, 0, 58], message].concat();
    let mut sum: u32 =
        summed.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let mut message = message.to_vec();
    message[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    message
}

/// A neighbour solicitation or advertisement: type, flags, target, options.
pub(crate) fn discovery(
    macs: (Mac, Mac),
    addresses: (Ipv6Addr, Ipv6Addr),
    (kind, flags): (u8, u8),
    target: Ipv6Addr,
    options: &[u8],
) -> Vec<u8> {
    let message = [&[kind, 0, 0, 0, flags, 0, 0, 0][..], &target.octets(), options].concat();
    packet6(macs, addresses, 58, &icmpv6(addresses, &message))
}

/// A link-layer address option: 1 for the source's, 2 for the target's.
pub(crate) fn link_layer(kind: u8, mac: Mac) -> Vec<u8> {
    [&[kind, 1][..], &mac].concat()
}
