//! What is behind the Ethernet header: its type and everything after it.

use std::net::{Ipv4Addr, Ipv6Addr};

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

/// A MAC inside: nearly always the one outside.
fn inner_mac(random: &mut Random, outside: Mac) -> Mac {
    let other = stranger(random);
    if random.chance(8) { *random.pick(&[other, [0; 6], [0xff; 6]]) } else { outside }
}

fn arp(random: &mut Random, talk: &Talk) -> Vec<u8> {
    let op = *random.pick(&[1_u16, 1, 1, 1, 1, 2, 2, 0, 3, 0x101]);
    let mut kind = vec![0, 1, 8, 0, 6, 4];
    if random.chance(3) {
        kind[random.below(6) as usize] = 9;
    }
    let spa = if random.chance(10) { Ipv4Addr::UNSPECIFIED } else { talk.src4 };
    let tpa = if random.chance(8) { talk.src4 } else { talk.dst4 };
    let other = stranger(random);
    let tha = *random.pick(&[[0; 6], [0; 6], talk.dst, other]);
    let sha = inner_mac(random, talk.src);
    [&kind, &op.to_be_bytes()[..], &sha, &spa.octets(), &tha, &tpa.octets()].concat()
}

fn ipv4(random: &mut Random, talk: &Talk) -> Vec<u8> {
    let dhcp = random.chance(8);
    let (src, dst) = match (dhcp, random.below(4)) {
        (true, 0) => (talk.src4, Ipv4Addr::BROADCAST),
        (true, 1) => (Ipv4Addr::UNSPECIFIED, talk.dst4),
        (true, _) => (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST),
        (false, _) => (talk.src4, talk.dst4),
    };
    let fragment =
        *random.pick(&[[0, 0], [0x40, 0], [0, 0], [0x40, 0], [0, 0], [0x20, 0], [0x20, 3], [0, 9]]);
    let proto = if dhcp { 17 } else { *random.pick(&[1, 6, 6, 17, 17, 2, 132, 58, 0]) };
    let ports = if dhcp && random.chance(80) { Some((68, 67)) } else { None };
    let inside = transport(random, proto, &[src.octets(), dst.octets()].concat(), ports);
    let options = if random.chance(6) { vec![1; 4 * random.below(3) as usize] } else { vec![] };
    let length = 20 + options.len();
    let total = ((length + inside.len()) as u16).to_be_bytes();
    let mut header = vec![0x40 | (length / 4) as u8, tos(random), total[0], total[1], 0, 7];
    header.extend([&fragment[..], &[ttl(random), proto, 0, 0]].concat());
    header.extend([src.octets(), dst.octets()].concat());
    header.extend(options);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum);
    [header, inside].concat()
}

/// The multicast address that solicitations for an address go to.
fn solicited(of: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b] = of.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a & 0xff, b)
}

fn ipv6(random: &mut Random, talk: &Talk) -> Vec<u8> {
    let (mut src, mut dst) = (talk.src6, talk.dst6);
    let proto = *random.pick(&[58, 58, 58, 58, 58, 6, 17, 59, 1, 132]);
    let mut message = Vec::new();
    if proto == 58 {
        let kind =
            *random.pick(&[135, 135, 135, 135, 136, 136, 136, 128, 129, 1, 133, 134, 137, 130, 131, 143]);
        if matches!(kind, 130 | 131 | 133 | 135 | 143) && random.chance(15) {
            src = Ipv6Addr::UNSPECIFIED;
        }
        let target = match (kind, random.below(10)) {
            (136, 0..8) | (135, 0) => talk.src6,
            (_, 1) => link_local(talk.dst),
            _ => talk.dst6,
        };
        dst = *random.pick(&[dst, solicited(target), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)]);
        message = icmpv6(random, kind, target, talk);
    }
    let addresses = [src.octets(), dst.octets()].concat();
    let mut inside = if proto == 58 {
        with_sum(message, 2, 58, &addresses)
    } else {
        transport(random, proto, &addresses, None)
    };
    let mut next = proto;
    while random.chance(7) {
        let kind = *random.pick(&[0, 43, 60, 44, 51]);
        let header = match kind {
            44 => {
                let offset = *random.pick(&[[0, 0], [0, 1], [0, 8], [1, 1]]);
                [&[next, 0][..], &offset, &[0, 0, 0, 5]].concat()
            }
            51 => [&[next, 1][..], &[0; 10]].concat(),
            _ => vec![next, 0, 0, random.below(2) as u8, 0, 0, 0, 0],
        };
        inside = [header, inside].concat();
        next = kind;
    }
    let (tos, label) = (tos(random), random.below(3) as u8);
    let length = (inside.len() as u16).to_be_bytes();
    let hops = if proto == 58 && random.chance(90) { 255 } else { ttl(random) };
    let first = [0x60 | tos >> 4, tos << 4, 0, label, length[0], length[1], next, hops];
    [&first[..], &addresses, &inside].concat()
}

/// A message whose checksum is not there yet.
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
            option => body.extend([&[*option, 1][..], &inner_mac(random, talk.src)].concat()),
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

/// A transport header and some payload, with the checksum over them and the pseudo header.
fn transport(random: &mut Random, proto: u8, addresses: &[u8], ports: Option<(u8, u8)>) -> Vec<u8> {
    let ports = ports.unwrap_or((*random.pick(&[1, 68, 80]), *random.pick(&[1, 67, 80])));
    let ports = [0, ports.0, 0, ports.1];
    let payload = vec![random.below(256) as u8; random.below(20) as usize];
    match proto {
        6 => {
            let flags = *random.pick(&[2, 0x10, 0x12, 0x11]);
            let head = [&ports[..], &[0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 1, 0, 0, 0, 0, 0]].concat();
            with_sum([head, payload].concat(), 16, 6, addresses)
        }
        17 => {
            let length = (8 + payload.len()) as u8;
            let datagram = [&ports[..], &[0, length, 0, 0], &payload].concat();
            if random.chance(25) { datagram } else { with_sum(datagram, 6, 17, addresses) }
        }
        1 => with_sum([vec![*random.pick(&[0, 8, 3]), 0, 0, 0, 0, 1, 0, 1], payload].concat(), 2, 1, &[]),
        132 => [&ports[..], &[0; 8], &payload].concat(),
        _ => [&ports[..], &[3; 8], &payload].concat(),
    }
}

fn with_sum(mut message: Vec<u8>, at: usize, proto: u8, addresses: &[u8]) -> Vec<u8> {
    let pseudo = match addresses {
        [] => vec![],
        _ => [addresses, &(message.len() as u16).to_be_bytes(), &[0, proto]].concat(),
    };
    let mut sum = checksum(&[&pseudo[..], &message].concat());
    if proto == 17 && sum == [0, 0] {
        sum = [0xff, 0xff];
    }
    message[at..at + 2].copy_from_slice(&sum);
    message
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}
