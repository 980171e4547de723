//! Random frames of the kinds that tenants send, intact and damaged. Values come from small pools, so that flows
//! generated with them match some.

use std::net::{Ipv4Addr, Ipv6Addr};

use frame_builder::{
    ADVERTISEMENT, Arp, BROADCAST, Endpoints, ICMP, ICMPV6, Ipv4, Ipv6, Mac, SOLICITATION, TCP, UDP, icmp,
    link_layer, neighbour, random_extension_headers, tcp, udp, udp_without_checksum,
};
use test_random::Random;

/// A random frame of at least an Ethernet header.
pub(crate) fn frame(random: &mut Random) -> Vec<u8> {
    let mut frame = [mac(random), mac(random)].concat();
    for _ in 0..*random.pick(&[0, 0, 0, 1, 1, 2]) {
        frame.extend([*random.pick(&[[0x81, 0], [0x81, 0], [0x88, 0xa8]]), tci(random)].concat());
    }
    match random.below(16) {
        0 => frame.extend([&[0x88, 0xcc][..], b"a frame of a type that nobody reads"].concat()),
        1 => frame.extend([&[0, 40, 0x42, 0x42, 3][..], &[7; 37]].concat()),
        2 => {
            let inside = ipv4(random);
            frame.extend([&[0, inside.len() as u8 + 8, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &inside].concat());
        }
        3..=5 => {
            let kind = random.pick(&[[8, 6], [8, 6], [8, 6], [0x80, 0x35]]).to_vec();
            frame.extend([kind, arp(random)].concat());
        }
        6..=10 => frame.extend([vec![8, 0], ipv4(random)].concat()),
        _ => frame.extend([vec![0x86, 0xdd], ipv6(random)].concat()),
    }
    if random.chance(20) {
        frame.extend(vec![0; random.below(40) as usize]);
    }
    if random.chance(15) {
        frame.truncate(14 + random.below(frame.len() as u64 - 13) as usize);
    }
    if random.chance(15) {
        let at = random.below(frame.len() as u64) as usize;
        frame[at] = random.below(256) as u8;
    }
    frame
}

fn mac(random: &mut Random) -> Mac {
    let last = random.below(4) as u8;
    match random.below(8) {
        0 => BROADCAST,
        1 => [0x33, 0x33, 0, 0, 0, last],
        2 => [0; 6],
        _ => [2, 0, 0, 0, 0, last],
    }
}

fn tci(random: &mut Random) -> [u8; 2] {
    [*random.pick(&[0, 0, 0x20, 0xe0, 0x10]), random.below(4) as u8]
}

fn address(random: &mut Random) -> Ipv4Addr {
    (*random.pick(&[[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 1, 1], [192, 168, 3, 255], [0; 4]])).into()
}

fn address6(random: &mut Random) -> Ipv6Addr {
    let last = random.below(3) as u16;
    Ipv6Addr::new(*random.pick(&[0xfe80, 0xfd00, 0xff02]), 0, 0, 0, 0, 0, 0, last)
}

fn arp(random: &mut Random) -> Vec<u8> {
    let operation = *random.pick(&[1, 1, 2, 2, 0, 4, 0x101]);
    let damaged = if random.chance(10) { Some(random.below(6) as usize) } else { None };
    let (sender, target) = ((mac(random), address(random)), (mac(random), address(random)));
    let mut packet = frame_builder::arp(Arp { operation, sender, target });
    if let Some(at) = damaged {
        packet[at] = 9;
    }
    packet
}

fn ipv4(random: &mut Random) -> Vec<u8> {
    let (src, dst) = (address(random), address(random));
    let fragment = *random.pick(&[0, 0x4000, 0, 0x4000, 0x2000, 0x2003, 9]);
    let protocol = *random.pick(&[ICMP, TCP, TCP, UDP, UDP, 2, 132, 89, 0, 58]);
    let inside = transport(random, protocol, Endpoints::V4(src, dst));
    let options = if random.chance(10) { vec![1; 4 * random.below(3) as usize] } else { vec![] };
    let (tos, ttl) = (tos(random), ttl(random));
    Ipv4 { src, dst, protocol, tos, identification: 7, fragment, ttl, options }.packet(&inside)
}

fn ipv6(random: &mut Random) -> Vec<u8> {
    let (src, dst) = (address6(random), address6(random));
    let protocol = *random.pick(&[ICMPV6, ICMPV6, ICMPV6, TCP, UDP, 59, ICMP, 132]);
    let inside = transport(random, protocol, Endpoints::V6(src, dst));
    let (next, inside) = random_extension_headers(protocol, inside, 20, |limit| random.below(limit));
    let (tos, label, hops) = (tos(random), random.below(3) as u32, ttl(random));
    Ipv6 { src, dst, next, tos, label, hops }.packet(&inside)
}

fn tos(random: &mut Random) -> u8 {
    *random.pick(&[0, 0, 0xb8, 3, 0x29])
}

fn ttl(random: &mut Random) -> u8 {
    *random.pick(&[64, 64, 255, 2, 1, 0])
}

/// A transport header and some payload.
fn transport(random: &mut Random, protocol: u8, endpoints: Endpoints) -> Vec<u8> {
    let (from, to) = (*random.pick(&[1, 2, 80]), *random.pick(&[1, 2, 80]));
    let payload = vec![random.below(256) as u8; random.below(20) as usize];
    match (protocol, endpoints) {
        (TCP, _) => tcp(from, to, *random.pick(&[2, 0x10, 0x12, 0x11]), &payload, endpoints),
        (UDP, _) if random.chance(25) => udp_without_checksum(from, to, &payload),
        (UDP, _) => udp(from, to, &payload, endpoints),
        (ICMP, _) => icmp(*random.pick(&[0, 8, 3]), &[&[0, 1, 0, 1], &payload[..]].concat()),
        (ICMPV6, Endpoints::V6(src, dst)) => frame_builder::icmpv6(icmpv6(random, payload), src, dst),
        (ICMPV6, Endpoints::V4(..)) => icmpv6(random, payload),
        (other, _) => {
            let filler = if other == 132 { [0; 8] } else { [3; 8] };
            [&u16::to_be_bytes(from)[..], &u16::to_be_bytes(to), &filler, &payload].concat()
        }
    }
}

/// An `ICMPv6` message without a checksum.
fn icmpv6(random: &mut Random, payload: Vec<u8>) -> Vec<u8> {
    let kind = *random.pick(&[SOLICITATION, SOLICITATION, ADVERTISEMENT, ADVERTISEMENT, 128, 129, 1]);
    let code = u8::from(random.chance(10));
    let flags = *random.pick(&[0, 0x60]);
    if kind < SOLICITATION {
        return [vec![kind, code, 0, 0, flags, 0, 0, 0], payload].concat();
    }
    let mut message = neighbour(kind, flags, address6(random), &[]);
    message[1] = code;
    for _ in 0..*random.pick(&[0, 1, 1, 1, 2]) {
        match *random.pick(&[1, 2, 1, 2, 14]) {
            14 => message.extend([14, 2, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5]),
            option => message.extend(link_layer(option, mac(random))),
        }
    }
    message
}
