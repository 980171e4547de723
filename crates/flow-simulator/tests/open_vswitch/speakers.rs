//! Frames of hosts that say what they are: ARP, neighbour discovery, DHCP, reports of groups, and some UDP.

use test_random::Random;

use crate::open_vswitch::frames::checksum;

/// A logical port of the network in `pipeline/network.jsonl`: OpenFlow port, VLAN tag or 0, and the last byte of its MAC
/// address and addresses of both versions.
pub(crate) struct Speaker {
    pub(crate) port: u16,
    tag: u8,
    mac: u8,
    four: [u8; 4],
    six: u8,
}

const fn speaker(port: u16, tag: u8, mac: u8, four: [u8; 4], six: u8) -> Speaker {
    Speaker { port, tag, mac, four, six }
}

pub(crate) const SPEAKERS: [Speaker; 9] = [
    speaker(1, 0, 1, [10, 0, 0, 1], 1),
    speaker(2, 0, 3, [10, 0, 1, 9], 9),
    speaker(2, 2, 1, [10, 0, 0, 1], 9),
    speaker(2, 3, 2, [10, 0, 0, 9], 1),
    speaker(3, 0, 3, [10, 0, 0, 9], 9),
    speaker(4, 0, 1, [10, 0, 0, 1], 9),
    speaker(5, 0, 0, [10, 0, 0, 2], 0),
    speaker(6, 0, 0, [10, 0, 0, 7], 7),
    speaker(6, 1, 3, [192, 168, 3, 255], 2),
];

const EVERYBODY: [u8; 6] = [255; 6];

fn mac(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

/// An address that a speaker with this MAC address may have.
fn six(random: &mut Random, last: u8, mac: u8) -> [u8; 16] {
    let mut address = [0; 16];
    if random.chance(70) {
        (address[0], address[15]) = (0xfd, last);
    } else {
        address[..2].copy_from_slice(&[0xfe, 0x80]);
        address[11..13].copy_from_slice(&[0xff, 0xfe]);
        // The link-local address of a MAC address that begins with 02 has a zero there.
        address[15] = mac;
    }
    address
}

/// A frame from the speaker to others of the network, or about itself, with its tag.
pub(crate) fn frame_of(random: &mut Random, speaker: &Speaker) -> Vec<u8> {
    let other = &SPEAKERS[random.below(SPEAKERS.len() as u64) as usize];
    let other = if random.chance(15) { speaker } else { other };
    let (to, kind, inside) = match random.below(8) {
        0 | 1 => arp(random, speaker, other),
        2 | 3 => ipv4(random, speaker, other),
        4 => {
            let head = [0x60, 0, 0, 0, 0, 12, 17, 64];
            let (src, dst) = (six(random, speaker.six, speaker.mac), six(random, other.six, other.mac));
            let inside = [&head[..], &src, &dst, &[0, 7, 0, 9, 0, 12, 1, 1, 1, 2, 3, 4]].concat();
            (mac(other.mac), [0x86, 0xdd], inside)
        }
        _ => icmpv6(random, speaker, other),
    };
    let tag = if speaker.tag == 0 { vec![] } else { vec![0x81, 0, 0, speaker.tag] };
    [&to[..], &mac(speaker.mac), &tag, &kind, &inside].concat()
}

fn arp(random: &mut Random, speaker: &Speaker, other: &Speaker) -> ([u8; 6], [u8; 2], Vec<u8>) {
    let (from, op) = (mac(speaker.mac), 1 + u8::from(random.chance(30)));
    let spa = if random.chance(25) { [0; 4] } else { speaker.four };
    let to = if op == 1 { EVERYBODY } else { mac(other.mac) };
    let head = [0, 1, 8, 0, 6, 4, 0, op];
    (to, [8, 6], [&head[..], &from, &spa, &[0; 6], &other.four].concat())
}

fn ipv4(random: &mut Random, speaker: &Speaker, other: &Speaker) -> ([u8; 6], [u8; 2], Vec<u8>) {
    let (to, src, dst, ports) = if random.chance(40) {
        (EVERYBODY, [0; 4], [255; 4], [0, 68, 0, 67])
    } else {
        (mac(other.mac), speaker.four, other.four, [0, 7, 0, 9])
    };
    let mut header = vec![0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0];
    header.extend([src, dst].concat());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum);
    (to, [8, 0], [&header[..], &ports, &[0, 12, 0, 0, 1, 2, 3, 4]].concat())
}

/// A solicitation for many, an advertisement for one, or a report of groups that says nothing more.
fn icmpv6(random: &mut Random, speaker: &Speaker, other: &Speaker) -> ([u8; 6], [u8; 2], Vec<u8>) {
    let (message, option) = *random.pick(&[(135, 1), (135, 1), (136, 2), (143, 14), (131, 14)]);
    let own = six(random, speaker.six, speaker.mac);
    let target = if message == 136 { own } else { six(random, other.six, other.mac) };
    let src = if message != 136 && random.chance(25) { [0; 16] } else { own };
    let (to, dst) = if message == 136 {
        (mac(other.mac), six(random, other.six, other.mac))
    } else {
        let mut group = target;
        group[..13].copy_from_slice(&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff]);
        ([0x33, 0x33, 0xff, 0, 0, target[15]], group)
    };
    let mut body = vec![message, 0, 0, 0, 0, 0, 0, 0];
    body.extend(target);
    if random.chance(80) {
        let named = if random.chance(90) { speaker.mac } else { other.mac };
        body.extend([&[option, 1][..], &mac(named)].concat());
    }
    let length = body.len() as u8;
    let sum = checksum(&[&src[..], &dst, &[0, length, 0, 58], &body].concat());
    body[2..4].copy_from_slice(&sum);
    let head = [0x60, 0, 0, 0, 0, length, 58, 255];
    (to, [0x86, 0xdd], [&head[..], &src, &dst, &body].concat())
}
