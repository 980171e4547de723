//! Answers to ARP requests and neighbour solicitations.

use std::net::{IpAddr, Ipv6Addr};

use crate::acl::checksum_of;
use crate::frame::{Arp, Body, Frame, Neighbour, Packet, Payload, is_group};
use crate::world::Mac;

/// The flags of an advertisement (RFC 4861, 4.4) of a machine: solicited, and to override what the asker knows.
pub(crate) const MACHINE: u8 = 0x60;
/// Those of a router's.
pub(crate) const ROUTER: u8 = 0x80 | MACHINE;
/// Those that an advertisement for others may have: it does not override what the asker knows (RFC 4861, 7.2.4 and 7.2.8).
pub(crate) const PROXY: u8 = !OVERRIDE;
const OVERRIDE: u8 = 0x20;

/// A frame that asks for the MAC of an address.
pub(crate) enum Question {
    /// An ARP request.
    Arp(Arp),
    /// A neighbour solicitation, with or without the MAC of the asker.
    Solicitation { target: Ipv6Addr, packet: Packet<Ipv6Addr>, says_mac: bool },
}

impl Question {
    /// The question in a frame, if it can be answered. A solicitation without a source link-layer address is not answered: a
    /// host that detects duplicates waits only for the owner of the address. Neither is a question in a unicast frame: by it
    /// a host asks whether a neighbour that it knows is still there (RFC 1122, 2.3.2.1; RFC 4861, 7.3.3), which only the
    /// neighbour can answer.
    pub(crate) fn read(frame: &Frame) -> Option<Question> {
        match &frame.body {
            _ if !is_group(frame.dst) => None,
            Body::Arp(Some(arp)) if arp.operation == 1 => Some(Question::Arp(*arp)),
            Body::Ipv6(Some(packet)) => match packet.payload {
                Payload::Solicitation(Neighbour { target, source: Some(_), .. }) => {
                    Some(Question::Solicitation { target, packet: packet.clone(), says_mac: true })
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The question in a frame, if a router can answer it: also one to the router alone, and then also a solicitation without
    /// a source link-layer address from a host that has an address (RFC 4861, 4.3).
    pub(crate) fn to_router(frame: &Frame) -> Option<Question> {
        if is_group(frame.dst) {
            return Question::read(frame);
        }
        match &frame.body {
            Body::Arp(Some(arp)) if arp.operation == 1 => Some(Question::Arp(*arp)),
            Body::Ipv6(Some(packet)) => match packet.payload {
                Payload::Solicitation(Neighbour { target, source, .. }) => {
                    let can_answer = source.is_some() || !packet.src.is_unspecified();
                    let (packet, says_mac) = (packet.clone(), source.is_some());
                    can_answer.then_some(Question::Solicitation { target, packet, says_mac })
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the asker asks if an address is free, which it wants: by ARP without a sender address, or from `::`.
    pub(crate) fn is_probe(&self) -> bool {
        match self {
            Question::Arp(arp) => arp.sender.1.is_unspecified(),
            Question::Solicitation { packet, .. } => packet.src.is_unspecified(),
        }
    }

    /// Whether it asks for nothing but says that the address it names is the sender's: an ARP announcement (RFC 5227, 1.1 and 2.3).
    pub(crate) fn is_announcement(&self) -> bool {
        matches!(self, Question::Arp(arp) if arp.sender.1 == arp.target.1)
    }

    /// The address asked for.
    pub(crate) fn target(&self) -> IpAddr {
        match self {
            Question::Arp(arp) => arp.target.1.into(),
            Question::Solicitation { target, .. } => (*target).into(),
        }
    }

    /// The answer to the frame with this question: the address is at `mac`. It goes to the sender of the frame. An advertisement
    /// has these flags.
    pub(crate) fn answer(&self, frame: &[u8], mac: Mac, flags: u8) -> Vec<u8> {
        let mut answer = frame.to_vec();
        answer.copy_within(6..12, 0);
        answer[6..12].copy_from_slice(&mac);
        match self {
            Question::Arp(arp) => answer_arp(&mut answer, arp, mac),
            Question::Solicitation { target, packet, says_mac: true } => {
                advertise(&mut answer, *target, packet, flags, Some(mac));
            }
            Question::Solicitation { target, packet, says_mac: false } => {
                advertise(&mut answer, *target, packet, flags & !OVERRIDE, None);
            }
        }
        answer
    }
}

/// Turns the request into a reply by swapping the roles. Only padding follows it in the frame, and stays.
fn answer_arp(answer: &mut [u8], arp: &Arp, mac: Mac) {
    let at = arp.at;
    answer[at + 6..at + 8].copy_from_slice(&[0, 2]);
    answer[at + 8..at + 14].copy_from_slice(&mac);
    answer[at + 14..at + 18].copy_from_slice(&arp.target.1.octets());
    answer[at + 18..at + 24].copy_from_slice(&arp.sender.0);
    answer[at + 24..at + 28].copy_from_slice(&arp.sender.1.octets());
}

/// Turns the solicitation into a solicited advertisement with these flags (RFC 4861, 4.4). Its source is the requested
/// address, and if it says the MAC, its first option becomes the target link-layer address. Other options stay.
fn advertise(answer: &mut [u8], target: Ipv6Addr, packet: &Packet<Ipv6Addr>, flags: u8, mac: Option<Mac>) {
    const ADVERTISEMENT: u8 = 136;
    let (ip, icmp) = (packet.header, packet.carried.start);
    answer[ip + 7] = 255;
    answer[ip + 8..ip + 24].copy_from_slice(&target.octets());
    answer[ip + 24..ip + 40].copy_from_slice(&packet.src.octets());
    answer[icmp] = ADVERTISEMENT;
    answer[icmp + 4..icmp + 8].copy_from_slice(&[flags, 0, 0, 0]);
    let options = &mut answer[icmp + 24..packet.carried.end];
    match mac {
        Some(mac) => write_target(options, mac),
        None => write_type(options),
    }
    answer[icmp + 2..icmp + 4].fill(0);
    let sum = checksum(&answer[ip..ip + 40], &answer[icmp..packet.carried.end]);
    answer[icmp + 2..icmp + 4].copy_from_slice(&sum.to_be_bytes());
}

/// The question for the MAC of an address: an ARP request (RFC 826), or a neighbour solicitation to the group of the address (RFC 4861, 7.2.2);
/// none between two versions of IP.
pub(crate) fn question(mac: Mac, from: IpAddr, target: IpAddr) -> Option<Vec<u8>> {
    match (from, target) {
        (IpAddr::V4(from), IpAddr::V4(target)) => {
            let header = [&[0xff; 6][..], &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
            Some([&header[..], &mac, &from.octets(), &[0; 6], &target.octets()].concat())
        }
        (IpAddr::V6(from), IpAddr::V6(target)) => Some(solicitation(mac, from, target)),
        _ => None,
    }
}

fn solicitation(mac: Mac, from: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    const ICMPV6: u8 = 58;
    const SOLICITATION: u8 = 135;
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    // The option of the sender's link-layer address follows the target.
    let mut message = [&[SOLICITATION, 0, 0, 0, 0, 0, 0, 0][..], &target.octets(), &[1, 1], &mac].concat();
    let ip = [&[0x60, 0, 0, 0, 0, 32, ICMPV6, 255][..], &from.octets(), &group.octets()].concat();
    let sum = checksum(&ip, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    [&[0x33, 0x33, 0xff, a, b, c][..], &mac, &[0x86, 0xdd], &ip, &message].concat()
}

/// Writes the MAC into the options of the former solicitation. Open vSwitch gives the first option the type of a target
/// link-layer address, whatever its length; the MAC itself it writes only into an option of the length of one.
fn write_target(options: &mut [u8], mac: Mac) {
    const TARGET: u8 = 2;
    if let Some(first) = options.first_mut() {
        *first = TARGET;
    }
    let mut at = 0;
    while at + 8 <= options.len() && options[at + 1] != 0 {
        match options[at..at + 2] {
            [TARGET, 1] => return options[at + 2..at + 8].copy_from_slice(&mac),
            [1, 1] => return,
            _ => at += usize::from(options[at + 1]) * 8,
        }
    }
}

/// Writes the type of the first option, as Open vSwitch does with the flags: that of the first link-layer address, even if it is all zeros,
/// or 0, which no receiver knows.
fn write_type(options: &mut [u8]) {
    let (mut at, mut kind) = (0, 0);
    while at + 8 <= options.len() && options[at + 1] != 0 {
        if kind == 0 && matches!(options[at..at + 2], [1 | 2, 1]) {
            kind = options[at];
        }
        at += usize::from(options[at + 1]) * 8;
    }
    if let Some(first) = options.first_mut() {
        *first = kind;
    }
}

/// The checksum of an `ICMPv6` message. Length and protocol are those of the IP header. With extension headers this is
/// wrong, but it is what Open vSwitch computes.
fn checksum(ip: &[u8], message: &[u8]) -> u16 {
    checksum_of(&[&ip[8..40], &ip[4..6], &[0, ip[6]], message])
}
