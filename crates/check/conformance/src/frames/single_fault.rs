//! Messages of ARP, neighbour discovery, IGMP and DHCP as a host sends them, with one fault at most. Security checks several fields of each:
//! only a message that is right in all the others shows that a field is checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{Arp, BROADCAST, Endpoints, Ipv4, Ipv6, TCP, UDP, link_layer, solicited_node, tcp, udp};
use test_random::Random;

use super::{Address, Mac, link_local, stranger};

/// All nodes and all routers of the link (RFC 4291, 2.7.1), and all routers that listen to multicast reports (RFC 3810, 5.2.14).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const REPORTS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// A group that reaches farther than the link.
const FAR_GROUP: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 1);

/// Options of neighbour discovery: the link-layer address of the source, and of the target (RFC 4861, 4.6.1).
const SOURCE_OPTION: u8 = 1;
const TARGET_OPTION: u8 = 2;

/// A random message from `own` on its way to `near`: the destination and source MAC, and what follows them.
pub(super) fn message(random: &mut Random, own: &Address, near: &Address) -> (Mac, Mac, Vec<u8>) {
    let faulty = random.chance(65);
    match random.below(10) {
        0..3 => arp(random, own, near, faulty),
        3 => dhcp(random, own, near, faulty),
        4 => igmp(random, own, near, faulty),
        5 => dhcpv6(random, own, near, faulty),
        _ => neighbour_discovery(random, own, near, faulty),
    }
}

fn arp(random: &mut Random, own: &Address, near: &Address, faulty: bool) -> (Mac, Mac, Vec<u8>) {
    let (here, there) = (ipv4_of(random, own), ipv4_of(random, near));
    let nobody = Ipv4Addr::UNSPECIFIED;
    let mut src = own.mac;
    let (mut dst, mut arp) = *random.pick(&[
        (BROADCAST, Arp { operation: 1, sender: (own.mac, here), target: ([0; 6], there) }),
        (BROADCAST, Arp { operation: 1, sender: (own.mac, nobody), target: ([0; 6], here) }),
        (BROADCAST, Arp { operation: 1, sender: (own.mac, nobody), target: ([0; 6], there) }),
        (near.mac, Arp { operation: 1, sender: (own.mac, here), target: (near.mac, there) }),
        (near.mac, Arp { operation: 2, sender: (own.mac, here), target: (near.mac, there) }),
        (near.mac, Arp { operation: 2, sender: (own.mac, here), target: (near.mac, nobody) }),
    ]);
    if faulty {
        match random.below(6) {
            0 => src = other_mac(random, near),
            1 => arp.sender.0 = other_mac(random, near),
            2 => arp.sender.1 = *random.pick(&[there, Ipv4Addr::new(10, 9, 9, 1)]),
            3 => arp.target.1 = *random.pick(&[here, nobody, Ipv4Addr::new(10, 9, 9, 1)]),
            4 => arp.operation = *random.pick(&[2, 3, 0]),
            _ => dst = *random.pick(&[near.mac, BROADCAST]),
        }
    }
    (dst, src, [vec![8, 6], frame_builder::arp(arp)].concat())
}

fn dhcp(random: &mut Random, own: &Address, near: &Address, faulty: bool) -> (Mac, Mac, Vec<u8>) {
    let (here, there) = (ipv4_of(random, own), ipv4_of(random, near));
    let (nobody, everybody) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
    let (mut mac, mut protocol) = (own.mac, UDP);
    let (dst, mut from, mut to, (mut source, mut destination)) = *random.pick(&[
        (BROADCAST, nobody, everybody, (68, 67)),
        (BROADCAST, nobody, everybody, (68, 67)),
        (BROADCAST, here, everybody, (67, 68)),
        (near.mac, here, there, (67, 68)),
        (near.mac, here, everybody, (67, 68)),
    ]);
    if faulty {
        match random.below(6) {
            0 => mac = other_mac(random, near),
            1 => from = *random.pick(&[here, there, nobody]),
            2 => to = *random.pick(&[there, everybody]),
            3 => source = *random.pick(&[67, 69, 1]),
            4 => destination = *random.pick(&[68, 66, 1]),
            _ => protocol = TCP,
        }
    }
    let endpoints = Endpoints::V4(from, to);
    let inside = match protocol {
        TCP => tcp(source, destination, 2, b"no lease", endpoints),
        _ => udp(source, destination, b"a lease", endpoints),
    };
    let (identification, fragment) = (7, *random.pick(&[0, 0, 0, 0x4000, 0x2000]));
    let packet =
        Ipv4 { src: from, dst: to, protocol, tos: 0, identification, fragment, ttl: 64, options: vec![] };
    (dst, mac, [vec![8, 0], packet.packet(&inside)].concat())
}

/// A report of the groups that a host listens to (RFC 3376, 4.2), mostly before it has an address.
fn igmp(random: &mut Random, own: &Address, near: &Address, faulty: bool) -> (Mac, Mac, Vec<u8>) {
    let (here, there) = (ipv4_of(random, own), ipv4_of(random, near));
    let (nobody, reports) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(224, 0, 0, 22));
    let mut mac = own.mac;
    let from = *random.pick(&[nobody, nobody, here]);
    let mut packet = Ipv4 { ttl: 1, ..Ipv4::new(from, reports, 2) };
    if faulty {
        match random.below(6) {
            0 => mac = other_mac(random, near),
            1 => packet.src = *random.pick(&[there, nobody]),
            2 => {
                packet.dst =
                    *random.pick(&[there, Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::new(224, 0, 0, 23)]);
            }
            3 => packet.ttl = *random.pick(&[0, 2, 64]),
            4 => packet.fragment = *random.pick(&[0x2000, 0x4000, 1]),
            _ => packet.protocol = *random.pick(&[1, 3, UDP]),
        }
    }
    ([1, 0, 0x5e, 0, 0, 22], mac, [vec![8, 0], packet.packet(&[0x22, 0, 0xdd, 0xff, 0, 0, 0, 0])].concat())
}

fn dhcpv6(random: &mut Random, own: &Address, near: &Address, faulty: bool) -> (Mac, Mac, Vec<u8>) {
    let (mut from, to) = (link_local(own.mac), link_local(near.mac));
    let (mut source, mut destination) = (547, 546);
    if faulty {
        match random.below(3) {
            0 => from = ipv6_of(random, near),
            1 => source = 546,
            _ => destination = *random.pick(&[547, 545]),
        }
    }
    let inside = udp(source, destination, b"a lease", Endpoints::V6(from, to));
    let packet = Ipv6 { src: from, dst: to, next: UDP, tos: 0, label: 0, hops: 64 };
    (near.mac, own.mac, [vec![0x86, 0xdd], packet.packet(&inside)].concat())
}

/// A message of neighbour discovery, or a report of a multicast listener.
#[derive(Clone, Copy)]
struct Discovery {
    mac: Mac,
    /// None: that of the group that the IPv6 destination is.
    to_mac: Option<Mac>,
    src: Ipv6Addr,
    dst: Ipv6Addr,
    hops: u8,
    kind: u8,
    code: u8,
    target: Option<Ipv6Addr>,
    option: Option<(u8, Mac)>,
}

fn neighbour_discovery(
    random: &mut Random,
    own: &Address,
    near: &Address,
    faulty: bool,
) -> (Mac, Mac, Vec<u8>) {
    let (here, there) = (ipv6_of(random, own), ipv6_of(random, near));
    let nobody = Ipv6Addr::UNSPECIFIED;
    let usual = Discovery {
        mac: own.mac,
        to_mac: None,
        src: here,
        dst: solicited_node(there).0,
        hops: 255,
        kind: 135,
        code: 0,
        target: Some(there),
        option: Some((SOURCE_OPTION, own.mac)),
    };
    let advertisement = Discovery {
        kind: 136,
        dst: ALL_NODES,
        target: Some(here),
        option: Some((TARGET_OPTION, own.mac)),
        ..usual
    };
    let without_target = Discovery { target: None, dst: ALL_ROUTERS, ..usual };
    let mut message = *random.pick(&[
        usual,
        Discovery { to_mac: Some(near.mac), dst: there, ..usual },
        Discovery { option: None, ..usual },
        // Duplicate address detection (RFC 4862, 5.4.2).
        Discovery { src: nobody, dst: solicited_node(here).0, target: Some(here), option: None, ..usual },
        advertisement,
        Discovery { to_mac: Some(near.mac), dst: there, ..advertisement },
        Discovery { option: None, ..advertisement },
        Discovery { kind: 133, ..without_target },
        Discovery { kind: 133, src: nobody, option: None, ..without_target },
        Discovery { kind: 134, dst: ALL_NODES, ..without_target },
        Discovery { kind: 143, src: nobody, dst: REPORTS, hops: 1, option: None, ..without_target },
        Discovery {
            kind: 131,
            src: nobody,
            dst: solicited_node(here).0,
            hops: 1,
            option: None,
            ..without_target
        },
    ]);
    if faulty {
        fault(random, &mut message, near, (here, there));
    }
    message.frame()
}

fn fault(random: &mut Random, message: &mut Discovery, near: &Address, (here, there): (Ipv6Addr, Ipv6Addr)) {
    let other = other_mac(random, near);
    match random.below(9) {
        0 => message.mac = other,
        1 => message.src = *random.pick(&[Ipv6Addr::UNSPECIFIED, there, link_local(other)]),
        2 => message.dst = *random.pick(&[there, FAR_GROUP, ALL_NODES, REPORTS]),
        3 => message.hops = *random.pick(&[254, 64, 0, 1]),
        4 => message.kind = *random.pick(&[128, 130, 132, 133, 134, 135, 136, 144]),
        5 => message.code = 1,
        6 => message.target = message.target.map(|_| *random.pick(&[here, there, link_local(other)])),
        7 => {
            let kind = message.option.map_or(SOURCE_OPTION, |(kind, _)| kind);
            message.option = Some((kind, *random.pick(&[other, [0; 6]])));
        }
        _ => message.option = message.option.map(|(kind, mac)| (SOURCE_OPTION + TARGET_OPTION - kind, mac)),
    }
}

impl Discovery {
    fn frame(self) -> (Mac, Mac, Vec<u8>) {
        let mut body = vec![self.kind, self.code, 0, 0, 0, 0, 0, 0];
        if self.kind == 134 {
            body.extend([0; 8]);
        }
        body.extend(self.target.iter().flat_map(Ipv6Addr::octets));
        body.extend(self.option.iter().flat_map(|(kind, mac)| link_layer(*kind, *mac)));
        let inside = frame_builder::icmpv6(body, self.src, self.dst);
        let packet = Ipv6 { src: self.src, dst: self.dst, next: 58, tos: 0, label: 0, hops: self.hops };
        let [.., a, b, c, d] = self.dst.octets();
        let dst = self.to_mac.unwrap_or([0x33, 0x33, a, b, c, d]);
        (dst, self.mac, [vec![0x86, 0xdd], packet.packet(&inside)].concat())
    }
}

fn other_mac(random: &mut Random, near: &Address) -> Mac {
    let nobody = stranger(random);
    *random.pick(&[near.mac, nobody])
}

fn ipv4_of(random: &mut Random, of: &Address) -> Ipv4Addr {
    let all: Vec<_> =
        of.ips.iter().filter_map(|ip| if let IpAddr::V4(ip) = ip { Some(*ip) } else { None }).collect();
    if all.is_empty() { Ipv4Addr::new(10, 9, 9, 2) } else { *random.pick(&all) }
}

fn ipv6_of(random: &mut Random, of: &Address) -> Ipv6Addr {
    let mut all = vec![link_local(of.mac)];
    all.extend(of.ips.iter().filter_map(|ip| if let IpAddr::V6(ip) = ip { Some(*ip) } else { None }));
    *random.pick(&all)
}
