//! Frames by which a machine says where it is, as after a migration.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::{
    ADVERTISEMENT, ARP, Arp, BROADCAST, ICMPV6, IPV6, Ipv6, Mac, RARP, arp, ethernet, icmpv6, link_layer,
    neighbour,
};

/// The frame by which QEMU announces a machine that has migrated: a reverse ARP request for its own MAC address (RFC 903), without
/// IP addresses, of the least length of a frame (`announce_self_create` in QEMU's `net/announce.c`). Every switch on its way
/// learns from its source address; nobody answers it.
pub fn announcement(from: Mac) -> Vec<u8> {
    const REVERSE_REQUEST: u16 = 3;
    const LEAST: usize = 60;
    let itself = (from, Ipv4Addr::UNSPECIFIED);
    let request = arp(Arp { operation: REVERSE_REQUEST, sender: itself, target: itself });
    let mut frame = ethernet(BROADCAST, from, RARP, &request);
    frame.resize(LEAST, 0);
    frame
}

/// Gratuitous ARP: a request for the sender's own address (RFC 5227, 3).
pub fn gratuitous_arp(from: Mac, ip: Ipv4Addr) -> Vec<u8> {
    let request = arp(Arp { operation: 1, sender: (from, ip), target: ([0; 6], ip) });
    ethernet(BROADCAST, from, ARP, &request)
}

/// An unsolicited neighbour advertisement to all nodes, which overrides what they know (RFC 4861, 7.2.6).
pub fn unsolicited_advertisement(from: Mac, ip: Ipv6Addr) -> Vec<u8> {
    const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    const OVERRIDE: u8 = 0x20;
    let message = icmpv6(neighbour(ADVERTISEMENT, OVERRIDE, ip, &link_layer(2, from)), ip, ALL_NODES);
    let to = [0x33, 0x33, 0, 0, 0, 1];
    ethernet(to, from, IPV6, &Ipv6::new(ip, ALL_NODES, ICMPV6).packet(&message))
}
