//! The frames that a port may send and receive.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::frame::{Arp, Body, Frame, Packet, Payload, is_group, link_local};
use crate::world::{Address, Port};

/// Whether a port may send a frame. Without port security, it may send any frame; with it, only frames from its MACs.
pub(crate) fn may_send(port: &Port, frame: &Frame) -> bool {
    if !port.port_security {
        return true;
    }
    let Some(address) = port.addresses.iter().find(|address| address.mac == frame.src) else {
        return false;
    };
    if address.ips.is_empty() { may_send_any(address, frame) } else { may_send_own(address, frame) }
}

/// Whether a MAC without IP addresses may send a frame: anything that contains no other MAC. ARP that cannot be read might
/// contain one.
fn may_send_any(address: &Address, frame: &Frame) -> bool {
    match &frame.body {
        Body::Arp(arp) => arp.is_some_and(|arp| arp.sender.0 == address.mac),
        Body::Ipv6(Some(Packet { payload: Payload::Solicitation(said), .. })) => {
            said.source.is_none_or(|mac| mac == address.mac)
        }
        Body::Ipv6(Some(Packet { payload: Payload::Advertisement(said), .. })) => {
            said.own.is_none_or(|mac| mac == address.mac)
        }
        _ => true,
    }
}

/// Whether a MAC with IP addresses may send a frame: only IP and ARP from those addresses.
fn may_send_own(address: &Address, frame: &Frame) -> bool {
    match &frame.body {
        Body::Arp(Some(arp)) => may_send_arp(address, arp),
        Body::Ipv4(Some(packet)) => may_send_ipv4(address, packet),
        Body::Ipv6(Some(packet)) => may_send_ipv6(address, packet),
        _ => false,
    }
}

/// ARP must be from its MAC and an IPv4 address at it, or from 0.0.0.0 (a probe for duplicates).
fn may_send_arp(address: &Address, arp: &Arp) -> bool {
    let (mac, ip) = arp.sender;
    let own = has(address, ip) || ip == Ipv4Addr::UNSPECIFIED;
    has_ipv4(address) && mac == address.mac && own
}

/// IPv4 must be from an address of it; a port without an address may request one by DHCP.
fn may_send_ipv4(address: &Address, packet: &Packet<Ipv4Addr>) -> bool {
    let asks = packet.src == Ipv4Addr::UNSPECIFIED
        && packet.dst == Ipv4Addr::BROADCAST
        && packet.payload == Payload::Udp(68, 67);
    has_ipv4(address) && (has(address, packet.src) || asks)
}

/// IPv6 must be from an address of it, including the link-local one, if it has IPv6 addresses.
///
/// From the unspecified address it may detect duplicates (135) and report multicast groups (131, 143). A solicitation
/// contains its MAC or none; so does an advertisement, whose target must be an address of it.
fn may_send_ipv6(address: &Address, packet: &Packet<Ipv6Addr>) -> bool {
    let before_address = match packet.payload {
        Payload::Icmpv6(kind, _) => matches!(kind, 131 | 135 | 143),
        Payload::Solicitation(_) => true,
        _ => false,
    };
    let own = has_or_makes(address, packet.src) || (packet.src == Ipv6Addr::UNSPECIFIED && before_address);
    let inside = match packet.payload {
        Payload::Solicitation(said) => said.source.is_none_or(|mac| mac == address.mac),
        Payload::Advertisement(said) => {
            has_or_makes(address, said.target) && said.own.is_none_or(|mac| mac == address.mac)
        }
        _ => true,
    };
    has_ipv6(address) && own && inside
}

/// Whether a port may receive a frame. Without port security, it receives any frame. With it, it receives group traffic,
/// and unicast only to its MACs and, if these have IP addresses, only to those.
pub(crate) fn may_receive(port: &Port, frame: &Frame) -> bool {
    if !port.port_security || is_group(frame.dst) {
        return true;
    }
    let Some(address) = port.addresses.iter().find(|address| address.mac == frame.dst) else {
        return false;
    };
    address.ips.is_empty()
        || match &frame.body {
            Body::Arp(Some(arp)) => has(address, arp.target.1),
            Body::Ipv4(Some(packet)) => has(address, packet.dst),
            Body::Ipv6(Some(packet)) => may_receive_ipv6(address, packet),
            _ => false,
        }
}

/// IPv6 must be to an address of it, including the link-local one, or to a group. For a solicitation, the target counts.
fn may_receive_ipv6(address: &Address, packet: &Packet<Ipv6Addr>) -> bool {
    let meant = match packet.payload {
        Payload::Solicitation(said) => has_or_makes(address, said.target),
        _ => has_or_makes(address, packet.dst) || packet.dst.is_multicast(),
    };
    has_ipv6(address) && meant
}

fn has(address: &Address, ip: impl Into<IpAddr>) -> bool {
    address.ips.contains(&ip.into())
}

/// Whether an address is configured or derived from the MAC.
fn has_or_makes(address: &Address, ip: Ipv6Addr) -> bool {
    has(address, ip) || link_local(address.mac) == IpAddr::from(ip)
}

fn has_ipv4(address: &Address) -> bool {
    address.ips.iter().any(IpAddr::is_ipv4)
}

fn has_ipv6(address: &Address) -> bool {
    address.ips.iter().any(IpAddr::is_ipv6)
}
