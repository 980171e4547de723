//! Everything after the Ethernet addresses and tags: the ethertype and the payload.

use std::net::{Ipv4Addr, Ipv6Addr};

use frame_builder::{
    Arp, BROADCAST, Endpoints, ICMP, ICMPV6, Ipv4, Ipv6, TCP, UDP, icmp, link_layer,
    random_extension_headers, solicited_node, tcp, udp, udp_without_checksum,
};
use test_random::Random;

use super::{Mac, Talk, link_local, stranger};

/// A random ethertype with its content.
pub(super) fn payload(random: &mut Random, talk: &Talk) -> Vec<u8> {
    match random.below(100) {
        0..4 => [&[0x88, 0xcc][..], b"a type that nobody reads"].concat(),
        4..6 => [&[0, 40, 0x42, 0x42, 3][..], &[7; 37]].concat(),
        6..8 => {
            let inside = ipv4(random, talk);
            [&[0, inside.len() as u8 + 8, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &inside].concat()
        }
        8..10 => [vec![0x80, 0x35], arp(random, talk)].concat(),
        10..33 => [vec![8, 6], arp(random, talk)].concat(),
        33..60 => [vec![8, 0], ipv4(random, talk)].concat(),
        _ => [vec![0x86, 0xdd], ipv6(random, talk)].concat(),
    }
}

/// The group that a payload is for: all hosts for ARP, and that of its IPv6 destination (RFC 2464, 7).
pub(super) fn group(payload: &[u8]) -> Option<Mac> {
    const IPV6_DESTINATION: usize = 2 + 24;
    match *payload {
        [8, 6, ..] => Some(BROADCAST),
        [0x86, 0xdd, ..] => match payload.get(IPV6_DESTINATION..)?.first_chunk::<16>()? {
            [0xff, .., a, b, c, d] => Some([0x33, 0x33, *a, *b, *c, *d]),
            _ => None,
        },
        _ => None,
    }
}

/// A MAC in the payload: nearly always the outer one.
fn inner_mac(random: &mut Random, outside: Mac) -> Mac {
    let other = stranger(random);
    if random.chance(8) { *random.pick(&[other, [0; 6], [0xff; 6]]) } else { outside }
}

fn arp(random: &mut Random, talk: &Talk) -> Vec<u8> {
    let operation = *random.pick(&[1_u16, 1, 1, 1, 1, 2, 2, 0, 3, 0x101]);
    let damaged = if random.chance(3) { Some(random.below(6) as usize) } else { None };
    let spa = if random.chance(10) { Ipv4Addr::UNSPECIFIED } else { talk.src4 };
    let tpa = match (operation, random.below(100)) {
        // The answer to a probe.
        (2, 0..20) => Ipv4Addr::UNSPECIFIED,
        (_, 0..8) => talk.src4,
        _ => talk.dst4,
    };
    let other = stranger(random);
    let tha = *random.pick(&[[0; 6], [0; 6], talk.dst, other]);
    let sha = inner_mac(random, talk.src);
    let mut packet = frame_builder::arp(Arp { operation, sender: (sha, spa), target: (tha, tpa) });
    if let Some(at) = damaged {
        packet[at] = 9;
    }
    packet
}

fn ipv4(random: &mut Random, talk: &Talk) -> Vec<u8> {
    let dhcp = random.chance(10);
    let (src, dst) = match (dhcp, random.below(4)) {
        (true, 0) => (talk.src4, Ipv4Addr::BROADCAST),
        (true, 1) => (Ipv4Addr::UNSPECIFIED, talk.dst4),
        (true, _) => (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST),
        (false, _) => (talk.src4, talk.dst4),
    };
    let fragment = *random.pick(&[0, 0x4000, 0, 0x4000, 0, 0x2000, 0x2003, 9]);
    let protocol = if dhcp { UDP } else { *random.pick(&[ICMP, ICMP, TCP, UDP, UDP, 2, 132, 58, 0]) };
    let dhcp_ports = *random.pick(&[(68, 67), (68, 67), (67, 68), (1, 68)]);
    let ports = if dhcp && random.chance(85) { Some(dhcp_ports) } else { None };
    let inside = transport(random, protocol, Endpoints::V4(src, dst), ports);
    let options = if random.chance(6) { vec![1; 4 * random.below(3) as usize] } else { vec![] };
    let (tos, ttl) = (tos(random), ttl(random));
    Ipv4 { src, dst, protocol, tos, identification: 7, fragment, ttl, options }.packet(&inside)
}

fn ipv6(random: &mut Random, talk: &Talk) -> Vec<u8> {
    let (mut src, mut dst) = (talk.src6, talk.dst6);
    let proto = *random.pick(&[ICMPV6, ICMPV6, ICMPV6, ICMPV6, ICMPV6, TCP, UDP, 59, ICMP, 132]);
    let mut message = Vec::new();
    if proto == ICMPV6 {
        let kind = *random
            .pick(&[135, 135, 135, 135, 136, 136, 136, 128, 133, 133, 134, 134, 137, 137, 130, 131, 143]);
        if matches!(kind, 130 | 131 | 133 | 135 | 143) && random.chance(15) {
            src = Ipv6Addr::UNSPECIFIED;
        }
        let target = match (kind, random.below(10)) {
            (136, 0..8) | (135, 0) => talk.src6,
            (_, 1) => link_local(talk.dst),
            _ => talk.dst6,
        };
        let groups = [0xff02, 0xff02, 0xff05].map(|scope| Ipv6Addr::new(scope, 0, 0, 0, 0, 0, 0, 1));
        let group = *random.pick(&groups);
        dst = *random.pick(&[dst, solicited_node(target).0, group]);
        message = icmpv6(random, kind, target, talk);
    }
    let inside = if proto == ICMPV6 {
        frame_builder::icmpv6(message, src, dst)
    } else {
        let ports = if random.chance(15) { Some((547, 546)) } else { None };
        transport(random, proto, Endpoints::V6(src, dst), ports)
    };
    let (next, inside) = random_extension_headers(proto, inside, 7, |limit| random.below(limit));
    let (tos, label) = (tos(random), random.below(3) as u32);
    let hops = if proto == ICMPV6 && random.chance(80) { 255 } else { ttl(random) };
    Ipv6 { src, dst, next, tos, label, hops }.packet(&inside)
}

/// A message without its checksum.
fn icmpv6(random: &mut Random, kind: u8, target: Ipv6Addr, talk: &Talk) -> Vec<u8> {
    let code = u8::from(random.chance(4));
    let mut body = vec![kind, code, 0, 0, *random.pick(&[0, 0, 0x60, 0x20]), 0, 0, 0];
    if matches!(kind, 130 | 131) {
        body.extend(target.octets());
        return body;
    }
    if !(133..=137).contains(&kind) {
        body.extend(vec![random.below(256) as u8; random.below(20) as usize]);
        return body;
    }
    if kind == 134 {
        body.extend([0; 8]);
    } else if kind != 133 {
        body.extend(target.octets());
    }
    if kind == 137 {
        body.extend(talk.dst6.octets());
    }
    let usual = if kind == 136 { 2 } else { 1 };
    let options: &[u8] = match random.below(12) {
        0..2 => &[],
        2 => &[1, 2],
        3 => &[14, usual],
        4 => &[usual, usual],
        5 => &[3 - usual],
        _ => &[usual],
    };
    for option in options {
        match option {
            14 => body.extend([14, 2, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5]),
            option => body.extend(link_layer(*option, inner_mac(random, talk.src))),
        }
    }
    if random.chance(2) {
        body.extend([1, 0, 0, 0]);
    }
    body
}

fn tos(random: &mut Random) -> u8 {
    *random.pick(&[0, 0, 0xb8, 3, 0x29])
}

fn ttl(random: &mut Random) -> u8 {
    *random.pick(&[64, 64, 255, 2, 1, 0])
}

/// A transport header and some payload.
fn transport(random: &mut Random, protocol: u8, endpoints: Endpoints, ports: Option<(u16, u16)>) -> Vec<u8> {
    let (from, to) = ports.unwrap_or((*random.pick(&[1, 67, 68, 80]), *random.pick(&[1, 67, 68, 80])));
    let payload = vec![random.below(256) as u8; random.below(20) as usize];
    match protocol {
        TCP => tcp(from, to, *random.pick(&[2, 0x10, 0x12, 0x11]), &payload, endpoints),
        UDP if random.chance(25) => udp_without_checksum(from, to, &payload),
        UDP => udp(from, to, &payload, endpoints),
        ICMP => icmp(*random.pick(&[8, 3, 5, 5, 9, 9]), &[&[0, 1, 0, 1], &payload[..]].concat()),
        other => {
            let filler = if other == 132 { [0; 8] } else { [3; 8] };
            [&from.to_be_bytes()[..], &to.to_be_bytes(), &filler, &payload].concat()
        }
    }
}
