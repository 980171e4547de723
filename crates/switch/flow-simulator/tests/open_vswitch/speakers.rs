//! Frames of well-behaved hosts: ARP, neighbour discovery, DHCP, group reports, and some UDP.

use std::net::Ipv6Addr;

use frame_builder::{
    ADVERTISEMENT, ARP, Arp, BROADCAST, Endpoints, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, Mac, SOLICITATION, UDP,
    VLAN, ethernet, link_layer, neighbour, solicited_node, tagged, udp, udp_without_checksum,
};
use test_random::Random;

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

fn mac(last: u8) -> Mac {
    [2, 0, 0, 0, 0, last]
}

/// An address that a speaker with this MAC address may have.
fn six(random: &mut Random, last: u8, mac: u8) -> Ipv6Addr {
    if random.chance(70) {
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into())
    } else {
        // The link-local address of a MAC address that begins with 02 has a zero there.
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, mac.into())
    }
}

/// A frame from the speaker to others of the network, or about itself, with its tag.
pub(crate) fn frame_of(random: &mut Random, speaker: &Speaker) -> Vec<u8> {
    let other = &SPEAKERS[random.below(SPEAKERS.len() as u64) as usize];
    let other = if random.chance(15) { speaker } else { other };
    let (to, kind, inside) = match random.below(8) {
        0 | 1 => arp(random, speaker, other),
        2 | 3 => ipv4(random, speaker, other),
        4 => {
            let (src, dst) = (six(random, speaker.six, speaker.mac), six(random, other.six, other.mac));
            let datagram = udp(7, 9, &[1, 2, 3, 4], Endpoints::V6(src, dst));
            (mac(other.mac), IPV6, Ipv6 { hops: 64, ..Ipv6::new(src, dst, UDP) }.packet(&datagram))
        }
        _ => icmpv6(random, speaker, other),
    };
    let frame = ethernet(to, mac(speaker.mac), kind, &inside);
    if speaker.tag == 0 { frame } else { tagged(&frame, VLAN, speaker.tag.into()) }
}

fn arp(random: &mut Random, speaker: &Speaker, other: &Speaker) -> (Mac, u16, Vec<u8>) {
    let operation = 1 + u16::from(random.chance(30));
    let spa = if random.chance(25) { [0; 4] } else { speaker.four };
    let to = if operation == 1 { BROADCAST } else { mac(other.mac) };
    let (sender, target) = ((mac(speaker.mac), spa.into()), ([0; 6], other.four.into()));
    (to, ARP, frame_builder::arp(Arp { operation, sender, target }))
}

fn ipv4(random: &mut Random, speaker: &Speaker, other: &Speaker) -> (Mac, u16, Vec<u8>) {
    let (to, src, dst, (from_port, to_port)) = if random.chance(40) {
        (BROADCAST, [0; 4], [255; 4], (68, 67))
    } else {
        (mac(other.mac), speaker.four, other.four, (7, 9))
    };
    let datagram = udp_without_checksum(from_port, to_port, &[1, 2, 3, 4]);
    (to, IPV4, Ipv4 { identification: 0, ..Ipv4::new(src.into(), dst.into(), UDP) }.packet(&datagram))
}

/// A solicitation to a group, a unicast advertisement, or an empty group report.
fn icmpv6(random: &mut Random, speaker: &Speaker, other: &Speaker) -> (Mac, u16, Vec<u8>) {
    let kinds = [(SOLICITATION, 1), (SOLICITATION, 1), (ADVERTISEMENT, 2), (143, 14), (131, 14)];
    let (message, option) = *random.pick(&kinds);
    let own = six(random, speaker.six, speaker.mac);
    let advertised = message == ADVERTISEMENT;
    let target = if advertised { own } else { six(random, other.six, other.mac) };
    let src = if !advertised && random.chance(25) { Ipv6Addr::UNSPECIFIED } else { own };
    let (dst, to) =
        if advertised { (six(random, other.six, other.mac), mac(other.mac)) } else { solicited_node(target) };
    let mut options = Vec::new();
    if random.chance(80) {
        options = link_layer(option, mac(if random.chance(90) { speaker.mac } else { other.mac }));
    }
    let body = frame_builder::icmpv6(neighbour(message, 0, target, &options), src, dst);
    (to, IPV6, Ipv6::new(src, dst, ICMPV6).packet(&body))
}
