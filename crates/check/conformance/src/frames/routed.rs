//! Frames for routers: packets on their way through one, questions for its addresses, and what it must drop.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{
    ARP, Arp, BROADCAST, Endpoints, ICMP, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, TCP, UDP, ethernet, icmp,
    link_layer, neighbour, random_extension_headers, solicited_node, tcp, udp, udp_without_checksum,
};
use test_random::Random;

use super::{Address, Book, Mac, damage, frame, link_local, nobody, stranger};

/// The addresses used in frames for routers.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    /// The sender's.
    pub own: Vec<Address>,
    /// Those of routers' ports on its switch.
    pub gateways: Vec<Address>,
    /// The addresses that packets should get to.
    pub wanted: Vec<IpAddr>,
    /// Those of routers.
    pub routers: Vec<IpAddr>,
    /// Those of the other machines of its switch.
    pub near: Vec<Address>,
    /// The lengths of the largest packets that pass somewhere.
    pub largest: Vec<u16>,
}

/// Destinations and sources that are routed nowhere, or seldom.
const STRANGE: [&str; 22] = [
    "192.0.2.1",
    "192.0.2.9",
    "203.0.113.1",
    "10.0.1.255",
    "10.0.2.255",
    "10.1.0.255",
    "224.0.0.5",
    "255.255.255.255",
    "169.254.1.1",
    "127.0.0.1",
    "0.1.2.3",
    "0.0.0.0",
    "240.0.0.1",
    "2001:db8::1",
    "2001:db8::9",
    "ff02::1",
    "ff0e::1",
    "fe80::99",
    "::",
    "::1",
    "::ffff:10.0.2.2",
    "fd99::1",
];

/// A random frame of a machine with a router.
pub fn routed(random: &mut Random, ways: &Ways) -> Vec<u8> {
    let bytes = match random.below(100) {
        0..76 => packet(random, ways),
        76..88 => question(random, ways),
        88..95 => echo(random, ways),
        _ => {
            // Anything, as from and to the router.
            let (near, own) = (ways.gateways.clone(), ways.own.clone());
            return frame(random, &Book { own, near, ..Book::default() });
        }
    };
    damage(random, bytes)
}

/// The sender, and a router on its switch; mostly with addresses of one version.
fn ends(random: &mut Random, ways: &Ways) -> (Address, Address) {
    let one = |random: &mut Random, of: &[Address]| match of {
        [] => nobody(random),
        all => random.pick(all).clone(),
    };
    (one(random, &ways.own), one(random, &ways.gateways))
}

/// An address of this list and version.
fn of_version(random: &mut Random, all: &[IpAddr], is_ipv4: bool) -> Option<IpAddr> {
    let all: Vec<IpAddr> = all.iter().copied().filter(|ip| ip.is_ipv4() == is_ipv4).collect();
    (!all.is_empty()).then(|| *random.pick(&all))
}

fn strange(random: &mut Random, is_ipv4: bool) -> IpAddr {
    let all: Vec<IpAddr> = STRANGE.iter().map(|text| text.parse().expect("an address")).collect();
    of_version(random, &all, is_ipv4).expect("there are some of either version")
}

/// The IP version of a packet from a machine: one that it has an address of.
fn version(random: &mut Random, own: &Address) -> bool {
    if own.ips.is_empty() { random.chance(60) } else { random.pick(&own.ips).is_ipv4() }
}

/// The source of a packet: the sender's, or one that is not.
fn source(random: &mut Random, own: &Address, ways: &Ways, is_ipv4: bool) -> IpAddr {
    let other = match random.below(100) {
        0..94 => None,
        94..96 => of_version(random, &ways.wanted, is_ipv4),
        96..98 => of_version(random, &ways.routers, is_ipv4),
        _ => Some(strange(random, is_ipv4)),
    };
    let usual = of_version(random, &own.ips, is_ipv4);
    // A machine without addresses may have any.
    let any = if is_ipv4 { "10.9.9.9" } else { "fd99::9" };
    other.or(usual).unwrap_or_else(|| any.parse().expect("an address"))
}

/// A packet to somewhere behind the router.
fn packet(random: &mut Random, ways: &Ways) -> Vec<u8> {
    let (own, gateway) = ends(random, ways);
    let mut is_ipv4 = version(random, &own);
    let of = |all: &[IpAddr], is_ipv4: bool| all.iter().any(|ip| ip.is_ipv4() == is_ipv4);
    let may_send = own.ips.is_empty() || of(&own.ips, !is_ipv4);
    if !of(&ways.wanted, is_ipv4) && may_send && random.chance(90) {
        is_ipv4 = !is_ipv4;
    }
    let from = source(random, &own, ways, is_ipv4);
    let to = match random.below(100) {
        0..82 => of_version(random, &ways.wanted, is_ipv4),
        82..86 => of_version(random, &ways.routers, is_ipv4),
        86..88 => of_version(random, &own.ips, is_ipv4),
        _ => Some(strange(random, is_ipv4)),
    };
    let to = to.or_else(|| of_version(random, &ways.routers, is_ipv4));
    let to = to.unwrap_or_else(|| strange(random, is_ipv4));
    let ttl = *random.pick(&[64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 255, 17, 3, 2, 2, 1, 0]);
    let dst = match random.below(30) {
        0 => BROADCAST,
        1 => [2, 0, 0, 0, 0xff, 1],
        _ => gateway.mac,
    };
    let protocol = *random.pick(&[
        UDP, UDP, UDP, UDP, UDP, UDP, TCP, TCP, TCP, TCP, ICMP, ICMP, ICMPV6, ICMPV6, 132, 132, 47, 89, 0,
    ]);
    let fill = if !ways.largest.is_empty() && random.chance(5) {
        // The packet is as long as passes, or a little longer or shorter.
        let header = if is_ipv4 { 20 } else { 40 };
        let length = i32::from(*random.pick(&ways.largest)) + random.pick(&[-1, 0, 0, 1, 1, 100]) - header;
        Some(length.max(0) as usize)
    } else {
        None
    };
    address(random, dst, own.mac, (from, to), Inside { protocol, ttl, fill })
}

/// What a packet carries.
struct Inside {
    protocol: u8,
    ttl: u8,
    /// Its length, if that matters; the packet then has no other header.
    fill: Option<usize>,
}

fn address(random: &mut Random, dst: Mac, src: Mac, ends: (IpAddr, IpAddr), inside: Inside) -> Vec<u8> {
    let Inside { protocol, ttl, fill } = inside;
    match ends {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let content = content(random, protocol, Endpoints::V4(from, to), fill);
            let fragment = *random.pick(&[0, 0, 0, 0x4000, 0x4000, 0x4000, 0x2000, 0x2003, 9]);
            let options = if fill.is_none() && random.chance(5) {
                vec![1; 4 * random.below(3) as usize]
            } else {
                vec![]
            };
            let tos = *random.pick(&[0, 0, 0xb8, 3]);
            let packet = Ipv4 { fragment, ttl, options, tos, ..Ipv4::new(from, to, protocol) };
            ethernet(dst, src, IPV4, &packet.packet(&content))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let content = content(random, protocol, Endpoints::V6(from, to), fill);
            let chance = if fill.is_none() { 7 } else { 0 };
            let (next, content) =
                random_extension_headers(protocol, content, chance, |limit| random.below(limit));
            let (tos, label) = (*random.pick(&[0, 0, 0xb8, 3]), random.below(3) as u32);
            let packet = Ipv6 { hops: ttl, tos, label, ..Ipv6::new(from, to, next) };
            ethernet(dst, src, IPV6, &packet.packet(&content))
        }
        // The callers pick addresses of one version.
        (from, to) => panic!("from {from} to {to}"),
    }
}

/// The contents of a packet: few ports, so that flows come again.
fn content(random: &mut Random, protocol: u8, ends: Endpoints, fill: Option<usize>) -> Vec<u8> {
    if let Some(length) = fill {
        return vec![0; length];
    }
    let (from, to) = (*random.pick(&[1, 68, 80, 5000]), *random.pick(&[1, 80, 443]));
    let payload = vec![7; random.below(12) as usize];
    match protocol {
        TCP => tcp(from, to, *random.pick(&[2, 0x10, 0x11]), &payload, ends),
        UDP if random.chance(20) && matches!(ends, Endpoints::V4(..)) => {
            udp_without_checksum(from, to, &payload)
        }
        UDP => udp(from, to, &payload, ends),
        ICMP => icmp(*random.pick(&[8, 0, 3, 5]), &[0, 7, 0, 1, 9, 9]),
        ICMPV6 => match ends {
            Endpoints::V6(src, dst) => {
                let kind = *random.pick(&[128, 129, 1, 135, 136, 133, 134, 143]);
                let message = if kind == 135 || kind == 136 {
                    neighbour(kind, 0, dst, &link_layer(1, [2, 0, 0, 0, 0, 1]))
                } else {
                    vec![kind, 0, 0, 0, 0, 7, 0, 1, 9, 9]
                };
                frame_builder::icmpv6(message, src, dst)
            }
            Endpoints::V4(..) => payload,
        },
        _ => [&from.to_be_bytes()[..], &to.to_be_bytes(), &[0; 8], &payload].concat(),
    }
}

/// An echo request or reply to an address of a router.
fn echo(random: &mut Random, ways: &Ways) -> Vec<u8> {
    let (own, gateway) = ends(random, ways);
    let is_ipv4 = version(random, &own);
    let mut from = source(random, &own, ways, is_ipv4);
    let all = if random.chance(60) { &gateway.ips } else { &ways.routers };
    let mut to = of_version(random, all, is_ipv4).unwrap_or_else(|| strange(random, is_ipv4));
    if !is_ipv4 && random.chance(25) {
        to = link_local(gateway.mac).into();
        if random.chance(70) {
            from = link_local(own.mac).into();
        }
    }
    let ttl = *random.pick(&[64, 64, 255, 2, 1, 0]);
    let asks = random.chance(85);
    let rest = [0, 7, 0, 1, 9, 9];
    let protocol = if random.chance(90) == is_ipv4 { ICMP } else { ICMPV6 };
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let message = icmp(if asks { 8 } else { 0 }, &rest);
            let fragment = *random.pick(&[0, 0, 0, 0x4000, 0x2000, 1]);
            let options = if random.chance(8) { vec![1; 4] } else { vec![] };
            let packet = Ipv4 { ttl, fragment, options, ..Ipv4::new(from, to, protocol) };
            ethernet(gateway.mac, own.mac, IPV4, &packet.packet(&message))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let kind = if asks { 128 } else { 129 };
            let code = u8::from(random.chance(5));
            let message = frame_builder::icmpv6([&[kind, code, 0, 0][..], &rest].concat(), from, to);
            let (next, message) = random_extension_headers(protocol, message, 8, |limit| random.below(limit));
            let packet = Ipv6 { hops: ttl, ..Ipv6::new(from, to, next) };
            ethernet(gateway.mac, own.mac, IPV6, &packet.packet(&message))
        }
        (from, to) => panic!("from {from} to {to}"),
    }
}

/// A question for the MAC of an address, most often of a router.
fn question(random: &mut Random, ways: &Ways) -> Vec<u8> {
    let (own, gateway) = ends(random, ways);
    let is_ipv4 = version(random, &own);
    let target = match random.below(100) {
        0..45 => of_version(random, &gateway.ips, is_ipv4),
        45..55 => of_version(random, &own.ips, is_ipv4),
        55..70 => of_version(random, &ways.wanted, is_ipv4),
        70..80 => {
            let near: Vec<IpAddr> = ways.near.iter().flat_map(|one| one.ips.clone()).collect();
            of_version(random, &near, is_ipv4)
        }
        80..85 => of_version(random, &ways.routers, is_ipv4),
        85..93 if !is_ipv4 => Some(link_local(gateway.mac).into()),
        85..93 => Some(Ipv4Addr::new(10, 9, 9, random.below(3) as u8).into()),
        _ => None,
    };
    let target = target.unwrap_or_else(|| strange(random, is_ipv4));
    let from = source(random, &own, ways, is_ipv4);
    let to_all = random.chance(60);
    let near: Vec<Mac> = ways.near.iter().map(|one| one.mac).chain([gateway.mac]).collect();
    let alone = if random.chance(85) { gateway.mac } else { *random.pick(&near) };
    match (from, target) {
        (IpAddr::V4(from), IpAddr::V4(target)) => {
            let nobody = random.chance(15);
            let from = if nobody { Ipv4Addr::UNSPECIFIED } else { from };
            let operation = *random.pick(&[1, 1, 1, 1, 1, 1, 2, 3]);
            let inner = if random.chance(95) { own.mac } else { stranger(random) };
            let asked =
                frame_builder::arp(Arp { operation, sender: (inner, from), target: ([0; 6], target) });
            ethernet(if to_all { BROADCAST } else { alone }, own.mac, ARP, &asked)
        }
        (IpAddr::V6(from), IpAddr::V6(target)) => {
            let local = random.chance(25);
            let from = if local { link_local(own.mac) } else { from };
            let from = if random.chance(12) { Ipv6Addr::UNSPECIFIED } else { from };
            let inner = if random.chance(95) { own.mac } else { stranger(random) };
            let option = match random.below(10) {
                0..3 => vec![],
                3 => [link_layer(1, inner), link_layer(1, inner)].concat(),
                4 => [&[14, 1, 5, 5, 5, 5, 5, 5][..], &link_layer(1, inner)].concat(),
                _ => link_layer(1, inner),
            };
            let (group, of_group) = solicited_node(target);
            let (to, dst) = if to_all { (group, of_group) } else { (target, alone) };
            let kind = if random.chance(90) { 135 } else { 136 };
            let message = frame_builder::icmpv6(neighbour(kind, 0, target, &option), from, to);
            let hops = if random.chance(92) { 255 } else { 64 };
            ethernet(dst, own.mac, IPV6, &Ipv6 { hops, ..Ipv6::new(from, to, ICMPV6) }.packet(&message))
        }
        (from, target) => panic!("{from} asks for {target}"),
    }
}
