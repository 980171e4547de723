//! Random frames of the kinds that tenants send, whole and damaged. Values come from small pools, so that flows made
//! beside them meet some.

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

fn mac(random: &mut Random) -> Vec<u8> {
    let last = random.below(4) as u8;
    match random.below(8) {
        0 => vec![0xff; 6],
        1 => vec![0x33, 0x33, 0, 0, 0, last],
        2 => vec![0; 6],
        _ => vec![2, 0, 0, 0, 0, last],
    }
}

fn tci(random: &mut Random) -> [u8; 2] {
    [*random.pick(&[0, 0, 0x20, 0xe0, 0x10]), random.below(4) as u8]
}

fn address(random: &mut Random) -> Vec<u8> {
    random
        .pick(&[vec![10, 0, 0, 1], vec![10, 0, 0, 2], vec![10, 0, 1, 1], vec![192, 168, 3, 255], vec![0; 4]])
        .clone()
}

fn address6(random: &mut Random) -> Vec<u8> {
    let last = random.below(3) as u8;
    let first = *random.pick(&[[0xfe, 0x80], [0xfd, 0], [0xff, 2]]);
    [&first[..], &[0; 13], &[last]].concat()
}

fn arp(random: &mut Random) -> Vec<u8> {
    let op = random.pick(&[[0, 1], [0, 1], [0, 2], [0, 2], [0, 0], [0, 4], [1, 1]]).to_vec();
    let mut kind = vec![0, 1, 8, 0, 6, 4];
    if random.chance(10) {
        kind[random.below(6) as usize] = 9;
    }
    [kind, op, mac(random), address(random), mac(random), address(random)].concat()
}

fn ipv4(random: &mut Random) -> Vec<u8> {
    let (src, dst) = (address(random), address(random));
    let fragment = *random.pick(&[[0, 0], [0x40, 0], [0, 0], [0x40, 0], [0x20, 0], [0x20, 3], [0, 9]]);
    let proto = *random.pick(&[1, 6, 6, 17, 17, 2, 132, 89, 0, 58]);
    let inside = transport(random, proto, &[&src[..], &dst].concat());
    let options = if random.chance(10) { vec![1; 4 * random.below(3) as usize] } else { vec![] };
    let length = 20 + options.len();
    let total = ((length + inside.len()) as u16).to_be_bytes();
    let mut header = vec![0x40 | (length / 4) as u8, tos(random), total[0], total[1], 0, 7];
    header.extend([&fragment[..], &[ttl(random), proto, 0, 0], &src, &dst, &options].concat());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum);
    [header, inside].concat()
}

fn ipv6(random: &mut Random) -> Vec<u8> {
    let (src, dst) = (address6(random), address6(random));
    let proto = *random.pick(&[58, 58, 58, 6, 17, 59, 1, 132]);
    let mut inside = transport(random, proto, &[&src[..], &dst].concat());
    let mut next = proto;
    while random.chance(20) {
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
    let first = [0x60 | tos >> 4, tos << 4, 0, label, length[0], length[1], next, ttl(random)];
    [&first[..], &src, &dst, &inside].concat()
}

fn tos(random: &mut Random) -> u8 {
    *random.pick(&[0, 0, 0xb8, 3, 0x29])
}

fn ttl(random: &mut Random) -> u8 {
    *random.pick(&[64, 64, 255, 2, 1, 0])
}

/// A transport header and some payload, with the checksum over them and the pseudo header.
fn transport(random: &mut Random, proto: u8, addresses: &[u8]) -> Vec<u8> {
    let ports = [0, *random.pick(&[1, 2, 80]), 0, *random.pick(&[1, 2, 80])];
    let payload = vec![random.below(256) as u8; random.below(20) as usize];
    let (mut inside, sum_at) = match proto {
        6 => {
            let flags = *random.pick(&[2, 0x10, 0x12, 0x11]);
            let head = [&ports[..], &[0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 1, 0, 0, 0, 0, 0]].concat();
            ([head, payload].concat(), 16)
        }
        17 => {
            let length = (8 + payload.len()) as u8;
            ([&ports[..], &[0, length, 0, 0], &payload].concat(), 6)
        }
        1 => ([vec![*random.pick(&[0, 8, 3]), 0, 0, 0, 0, 1, 0, 1], payload].concat(), 2),
        58 => (icmpv6(random, payload), 2),
        132 => ([&ports[..], &[0; 8], &payload].concat(), usize::MAX),
        _ => ([&ports[..], &[3; 8], &payload].concat(), usize::MAX),
    };
    let no_checksum = proto == 17 && random.chance(25);
    if sum_at != usize::MAX && !no_checksum {
        let pseudo = match proto {
            1 => vec![],
            _ => [addresses, &(inside.len() as u16).to_be_bytes(), &[0, proto]].concat(),
        };
        let mut sum = checksum(&[&pseudo[..], &inside].concat());
        if proto == 17 && sum == [0, 0] {
            sum = [0xff, 0xff];
        }
        inside[sum_at..sum_at + 2].copy_from_slice(&sum);
    }
    inside
}

fn icmpv6(random: &mut Random, payload: Vec<u8>) -> Vec<u8> {
    let kind = *random.pick(&[135, 135, 136, 136, 128, 129, 1]);
    let code = u8::from(random.chance(10));
    let mut body = vec![kind, code, 0, 0, *random.pick(&[0, 0x60]), 0, 0, 0];
    if kind < 135 {
        return [body, payload].concat();
    }
    body.extend(address6(random));
    for _ in 0..*random.pick(&[0, 1, 1, 1, 2]) {
        match *random.pick(&[1, 2, 1, 2, 14]) {
            14 => body.extend([14, 2, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5]),
            option => body.extend([vec![option, 1], mac(random)].concat()),
        }
    }
    body
}

/// The Internet checksum (RFC 1071).
pub(crate) fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}
