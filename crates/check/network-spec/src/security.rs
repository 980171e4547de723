//! The frames that a port may send and receive. An address of a port here is one that it may use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::allowed::Usable;
use crate::frame::{Arp, Body, Frame, Packet, Payload, is_group, link_local};
use crate::world::Port;

/// Whether a port may send a frame. Without port security, it may send any frame; with it, only frames from its MACs.
pub(crate) fn may_send(port: &Port, frame: &Frame) -> bool {
    if !port.port_security {
        return true;
    }
    let Some(address) = port.usable(frame.src) else {
        return false;
    };
    if let Body::Ipv6(Some(packet)) = &frame.body
        && packet.src.is_unspecified()
    {
        let has = address.any || address.has_ipv6();
        return has && may_send_without_address(&address, packet);
    }
    if address.any { may_send_any(&address, frame) } else { may_send_own(&address, frame) }
}

/// Whether a packet is one that a host sends before it has an IPv6 address.
///
/// - A solicitation asks whether another has the address that the host wants (RFC 4862, 5.4.2), which must be one that it may have:
///   who asks for an address of others keeps them from it. It goes to a solicited-node group and contains no link-layer address
///   (RFC 4861, 7.1.1).
/// - A solicitation of routers has code 0 (RFC 4861, 6.1.1) and goes to all of them (6.3.7).
/// - Reports of multicast listeners (RFC 3590) have a hop limit of 1. One of version 1 goes to its group (RFC 2710, 3 and 4), here one of
///   the link, one of version 2 to all routers that listen (RFC 3810, 5.2.13 and 5.2.14). Receivers ignore the code.
fn may_send_without_address(address: &Usable, packet: &Packet<Ipv6Addr>) -> bool {
    const SOLICITED_NODES: [u8; 13] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];
    const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
    const MLD_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
    let to = packet.dst;
    match packet.payload {
        Payload::Solicitation(said) => {
            let may_want = address.any || has_or_makes(address, said.target);
            to.octets().starts_with(&SOLICITED_NODES) && said.source.is_none() && may_want
        }
        Payload::Icmpv6(133, code) => to == ALL_ROUTERS && code == 0,
        Payload::Icmpv6(131, _) => to.segments()[0] == 0xff02 && packet.hops == 1,
        Payload::Icmpv6(143, _) => to == MLD_ROUTERS && packet.hops == 1,
        _ => false,
    }
}

/// Whether a MAC without IP addresses may send a frame: anything that contains no other MAC. ARP that cannot be read might
/// contain one, and IPv6 that cannot be read has no source.
fn may_send_any(address: &Usable, frame: &Frame) -> bool {
    match &frame.body {
        Body::Arp(arp) => arp.is_some_and(|arp| arp.sender.0 == address.mac),
        Body::Ipv6(Some(Packet { payload: Payload::Solicitation(said), .. })) => {
            said.source.is_none_or(|mac| mac == address.mac)
        }
        Body::Ipv6(Some(Packet { payload: Payload::Advertisement(said), .. })) => {
            said.own.is_none_or(|mac| mac == address.mac)
        }
        Body::Ipv6(None) => false,
        _ => true,
    }
}

/// Whether a MAC with IP addresses may send a frame: only IP and ARP from those addresses, and RARP that asks for them.
fn may_send_own(address: &Usable, frame: &Frame) -> bool {
    match &frame.body {
        Body::Arp(Some(arp)) => may_send_arp(address, frame, arp),
        Body::Rarp(Some(arp)) => asks_for_own_address(address, arp),
        Body::Ipv4(Some(packet)) => may_send_ipv4(address, packet),
        Body::Ipv6(Some(packet)) => may_send_ipv6(address, packet),
        _ => false,
    }
}

/// ARP must be from its MAC and an IPv4 address at it, or probe for duplicates of one.
fn may_send_arp(address: &Usable, frame: &Frame, arp: &Arp) -> bool {
    let (mac, ip) = arp.sender;
    address.has_ipv4() && mac == address.mac && (address.has(ip) || probes_for_own(address, frame, arp))
}

/// Whether ARP is a probe for an address of its sender: a request to all, without a sender's address (RFC 5227, 2.1.1). Whoever hears a
/// probe for the address that it is about to take gives that up, so nobody probes for addresses of others.
fn probes_for_own(address: &Usable, frame: &Frame, arp: &Arp) -> bool {
    let is_probe = arp.operation == 1 && arp.sender.1.is_unspecified() && frame.dst == [0xff; 6];
    is_probe && address.has(arp.target.1)
}

/// RARP may ask for an address in the name of its MAC (RFC 903), which says nothing but where the machine is: hypervisors send
/// this for a machine that they have moved. Answers are a server's. A machine that waits for an address has none to ask for.
fn asks_for_own_address(address: &Usable, arp: &Arp) -> bool {
    (address.has_ipv4() || address.has_ipv6()) && arp.operation == 3 && arp.sender.0 == address.mac
}

/// IPv4 must be from an address of it. A host without an address may ask for one by DHCP (RFC 2131, 4.1), and report the groups that
/// it listens to (RFC 3376, 4.2.13).
fn may_send_ipv4(address: &Usable, packet: &Packet<Ipv4Addr>) -> bool {
    let without = packet.src.is_unspecified() && (asks_for_address(packet) || reports_groups(packet));
    address.has_ipv4() && (address.has(packet.src) || without)
}

fn asks_for_address(packet: &Packet<Ipv4Addr>) -> bool {
    packet.dst.is_broadcast() && packet.payload == Payload::Udp(68, 67)
}

/// Whether a packet is a report of version 3, which alone goes to this group (RFC 3376, 4.2.14). All messages of IGMP have a TTL of 1
/// (section 4).
fn reports_groups(packet: &Packet<Ipv4Addr>) -> bool {
    const REPORTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
    packet.dst == REPORTS && packet.protocol == Some(2) && packet.hops == 1 && !packet.is_fragment
}

/// IPv6 must be from an address of it, including the link-local one, if it has IPv6 addresses.
///
/// A solicitation contains its MAC or none; so does an advertisement, whose target must be an address of it.
fn may_send_ipv6(address: &Usable, packet: &Packet<Ipv6Addr>) -> bool {
    let own = has_or_makes(address, packet.src);
    let inside = match packet.payload {
        Payload::Solicitation(said) => said.source.is_none_or(|mac| mac == address.mac),
        Payload::Advertisement(said) => {
            has_or_makes(address, said.target) && said.own.is_none_or(|mac| mac == address.mac)
        }
        _ => true,
    };
    address.has_ipv6() && own && inside
}

/// Whether a port may receive a frame. Without port security, it receives any frame. With it, it receives group traffic,
/// and unicast only to its MACs and, if these have IP addresses, only to those. Group traffic is what has a group as its
/// destination in the frame or in the packet: a switch may send the packet for a group to one interface alone.
pub(crate) fn may_receive(port: &Port, frame: &Frame) -> bool {
    if !port.port_security || is_group(frame.dst) {
        return true;
    }
    let address = port.usable(frame.dst);
    let at = |has: &dyn Fn(&Usable) -> bool| address.as_ref().is_some_and(has);
    if at(&|address| address.any) {
        return true;
    }
    match &frame.body {
        Body::Arp(Some(arp)) => answers_probe(arp) || at(&|address| address.has(arp.target.1)),
        Body::Ipv4(Some(packet)) => {
            let to_group = packet.dst.is_multicast() || packet.dst.is_broadcast();
            to_group || at(&|address| address.has(packet.dst))
        }
        // For a solicitation, the target counts.
        Body::Ipv6(Some(Packet { payload: Payload::Solicitation(said), .. })) => {
            at(&|address| address.has_ipv6() && has_or_makes(address, said.target))
        }
        Body::Ipv6(Some(packet)) => {
            let own = |address: &Usable| address.has_ipv6() && has_or_makes(address, packet.dst);
            packet.dst.is_multicast() || at(&own)
        }
        _ => false,
    }
}

/// Whether ARP says who has an address to a host that has none yet: the answer to a probe has the probe's sender, 0.0.0.0,
/// as its target (RFC 5227, 2.1; RFC 826).
fn answers_probe(arp: &Arp) -> bool {
    arp.operation == 2 && arp.target.1 == Ipv4Addr::UNSPECIFIED
}

/// Whether an address may be used, or is derived from the MAC.
fn has_or_makes(address: &Usable, ip: Ipv6Addr) -> bool {
    address.has(ip) || link_local(address.mac) == IpAddr::from(ip)
}
