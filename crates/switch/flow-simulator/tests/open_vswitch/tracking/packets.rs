//! The packets of connections.

use std::net::{Ipv4Addr, Ipv6Addr};

use frame_builder::{Endpoints, ICMP, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, Mac, TCP, UDP, checksum, ethernet};

pub(super) const TO: Mac = [2, 0, 0, 0, 0, 2];
const FROM: Mac = [2, 0, 0, 0, 0, 1];

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const PSH: u8 = 8;
pub(super) const ACK: u8 = 16;

/// Two hosts, by the last bytes of their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) ipv6: bool,
    pub(super) from: u8,
    pub(super) to: u8,
}

pub(super) const AB: Pair = Pair { ipv6: false, from: 1, to: 2 };
pub(super) const BA: Pair = Pair { ipv6: false, from: 2, to: 1 };
/// From a router in between.
pub(super) const CA: Pair = Pair { ipv6: false, from: 9, to: 1 };

impl Pair {
    pub(super) fn v6(self) -> Pair {
        Pair { ipv6: true, ..self }
    }

    pub(super) fn endpoints(self) -> Endpoints {
        let four = |last| Ipv4Addr::new(10, 0, 0, last);
        let six = |last: u8| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into());
        if self.ipv6 {
            Endpoints::V6(six(self.from), six(self.to))
        } else {
            Endpoints::V4(four(self.from), four(self.to))
        }
    }

    /// The IP packet with this payload.
    pub(super) fn packet(self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        packet(self.endpoints(), protocol, payload)
    }

    /// The frame with an IP packet.
    pub(super) fn frame(self, packet: &[u8]) -> Vec<u8> {
        ethernet(TO, FROM, if self.ipv6 { IPV6 } else { IPV4 }, packet)
    }

    pub(super) fn udp(self, from: u16, to: u16) -> Vec<u8> {
        self.packet(UDP, &frame_builder::udp(from, to, b"x", self.endpoints()))
    }

    pub(super) fn tcp(self, segment: Segment) -> Vec<u8> {
        self.packet(TCP, &segment.bytes(self.endpoints()))
    }

    /// An ICMP message with a code: what follows the checksum is `rest`.
    pub(super) fn icmp(self, kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
        icmp(self.endpoints(), kind, code, rest)
    }

    /// An echo request or reply with this identifier.
    pub(super) fn echo(self, is_reply: bool, id: u16) -> Vec<u8> {
        let kind = match (self.ipv6, is_reply) {
            (false, false) => 8,
            (false, true) => 0,
            (true, false) => 128,
            (true, true) => 129,
        };
        self.icmp(kind, 0, &[&id.to_be_bytes()[..], &[0, 1]].concat())
    }

    /// An error with a packet, or the beginning of one, inside.
    pub(super) fn error(self, kind: u8, inside: &[u8]) -> Vec<u8> {
        self.icmp(kind, 0, &[&[0; 4], inside].concat())
    }
}

/// The IP packet with this payload.
pub(super) fn packet(between: Endpoints, protocol: u8, payload: &[u8]) -> Vec<u8> {
    match between {
        Endpoints::V4(from, to) => Ipv4::new(from, to, protocol).packet(payload),
        Endpoints::V6(from, to) => Ipv6::new(from, to, protocol).packet(payload),
    }
}

/// The frame with an IP packet.
pub(super) fn frame(packet: &[u8]) -> Vec<u8> {
    ethernet(TO, FROM, if packet[0] >> 4 == 6 { IPV6 } else { IPV4 }, packet)
}

/// An ICMP message with a code: what follows the checksum is `rest`.
pub(super) fn icmp(between: Endpoints, kind: u8, code: u8, rest: &[u8]) -> Vec<u8> {
    match between {
        Endpoints::V4(..) => {
            let mut message = frame_builder::icmp(kind, rest);
            message[1] = code;
            message[2..4].fill(0);
            let sum = checksum(&[&message]);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
            packet(between, ICMP, &message)
        }
        Endpoints::V6(from, to) => {
            let message = [&[kind, code, 0, 0], rest].concat();
            packet(between, ICMPV6, &frame_builder::icmpv6(message, from, to))
        }
    }
}

/// A TCP segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) ports: (u16, u16),
    pub(super) flags: u8,
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    pub(super) window: u16,
    pub(super) payload: usize,
    /// The window scale option.
    pub(super) scale: Option<u8>,
}

impl Segment {
    pub(super) fn new(ports: (u16, u16), flags: u8, sequence: u32, acknowledged: u32) -> Segment {
        Segment { ports, flags, sequence, acknowledged, window: 256, payload: 0, scale: None }
    }

    pub(super) fn bytes(self, endpoints: Endpoints) -> Vec<u8> {
        let options = self.scale.map_or(Vec::new(), |shift| vec![1, 3, 3, shift]);
        let payload = vec![7; self.payload];
        let mut segment = [&[0; 20][..], &options, &payload].concat();
        segment[0..2].copy_from_slice(&self.ports.0.to_be_bytes());
        segment[2..4].copy_from_slice(&self.ports.1.to_be_bytes());
        segment[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        segment[8..12].copy_from_slice(&self.acknowledged.to_be_bytes());
        segment[12] = ((20 + options.len()) as u8 / 4) << 4;
        segment[13] = self.flags;
        segment[14..16].copy_from_slice(&self.window.to_be_bytes());
        let addresses = match endpoints {
            Endpoints::V4(from, to) => [&from.octets()[..], &to.octets()].concat(),
            Endpoints::V6(from, to) => [&from.octets()[..], &to.octets()].concat(),
        };
        let length = (segment.len() as u32).to_be_bytes();
        let sum = checksum(&[&addresses, &length, &[0, 0, 0, TCP], &segment]);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
        segment
    }
}
