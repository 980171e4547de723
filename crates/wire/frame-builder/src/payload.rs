//! Payloads of IP packets, with checksums.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::checksum::Sum16BitWords;
use etherparse::{TcpHeader, UdpHeader};

use crate::{ICMPV6, Mac, TCP, UDP};

/// Source and destination of a packet, which the checksum of its payload covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the protocols'")]
pub enum Endpoints {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl Endpoints {
    fn octets(self) -> Vec<u8> {
        match self {
            Endpoints::V4(src, dst) => [src.octets(), dst.octets()].concat(),
            Endpoints::V6(src, dst) => [src.octets(), dst.octets()].concat(),
        }
    }

    /// The checksum of a payload and its pseudo header.
    fn checksum(self, protocol: u8, payload: &[u8]) -> u16 {
        let length = (payload.len() as u32).to_be_bytes();
        checksum(&[&self.octets(), &length, &[0, 0, 0, protocol], payload])
    }
}

/// The Internet checksum (RFC 1071) of the parts, one after the other.
pub fn checksum(parts: &[&[u8]]) -> u16 {
    u16::from_be(Sum16BitWords::new().add_slice(&parts.concat()).ones_complement())
}

/// A UDP datagram.
pub fn udp(from: u16, to: u16, payload: &[u8], endpoints: Endpoints) -> Vec<u8> {
    let datagram = udp_without_checksum(from, to, payload);
    // 0 means "no checksum" in UDP.
    let sum = match endpoints.checksum(UDP, &datagram) {
        0 => 0xffff,
        sum => sum,
    };
    with_checksum(datagram, 6, sum)
}

/// A UDP datagram without a checksum, which IPv4 allows.
pub fn udp_without_checksum(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let header = UdpHeader { source_port: from, destination_port: to, length, checksum: 0 };
    [&header.to_bytes(), payload].concat()
}

/// A TCP segment with these flags: 1 is FIN, 2 SYN, 4 RST, 8 PSH, 16 ACK.
pub fn tcp(from: u16, to: u16, flags: u8, payload: &[u8], endpoints: Endpoints) -> Vec<u8> {
    const SEQUENCE: u32 = 1;
    const ACKNOWLEDGMENT: u32 = 2;
    const WINDOW: u16 = 256;
    let mut header = TcpHeader::new(from, to, SEQUENCE, WINDOW);
    header.acknowledgment_number = ACKNOWLEDGMENT;
    [header.fin, header.syn, header.rst, header.psh, header.ack] =
        [1, 2, 4, 8, 16].map(|flag| flags & flag != 0);
    let segment = [&header.to_bytes(), payload].concat();
    let sum = endpoints.checksum(TCP, &segment);
    with_checksum(segment, 16, sum)
}

/// An ICMP message with code 0: its type, and the rest after the checksum.
pub fn icmp(kind: u8, rest: &[u8]) -> Vec<u8> {
    let message = [&[kind, 0, 0, 0], rest].concat();
    let sum = checksum(&[&message]);
    with_checksum(message, 2, sum)
}

/// An ICMP message for IPv6: the bytes of `message`, with the checksum that belongs there.
///
/// # Panics
/// When the message is shorter than 4 bytes.
pub fn icmpv6(mut message: Vec<u8>, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    message[2..4].fill(0);
    let sum = Endpoints::V6(src, dst).checksum(ICMPV6, &message);
    with_checksum(message, 2, sum)
}

/// A neighbour solicitation or advertisement without a checksum: type, flags, target, options.
pub fn neighbour(kind: u8, flags: u8, target: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, flags, 0, 0, 0][..], &target.octets(), options].concat()
}

/// A link-layer address option of neighbour discovery: 1 for the source's, 2 for the target's.
pub fn link_layer(kind: u8, mac: Mac) -> Vec<u8> {
    [&[kind, 1][..], &mac].concat()
}

fn with_checksum(mut message: Vec<u8>, at: usize, sum: u16) -> Vec<u8> {
    message[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOUR: Endpoints = Endpoints::V4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn the_checksum_is_the_one_of_rfc_1071() {
        // RFC 1071 section 3: these sum to ddf2.
        assert_eq!(checksum(&[&[0x00, 0x01, 0xf2, 0x03], &[0xf4, 0xf5, 0xf6, 0xf7]]), !0xddf2);
        assert_eq!(checksum(&[&[0x12]]), !0x1200, "a byte alone is the upper one");
    }

    #[test]
    fn payloads_with_their_pseudo_header_sum_to_0() {
        let six = (Ipv6Addr::LOCALHOST, "fd00::1".parse().expect("an address"));
        for payload in [&b""[..], b"x", b"an even number!!"] {
            assert_eq!(FOUR.checksum(UDP, &udp(1, 2, payload, FOUR)), 0);
            assert_eq!(FOUR.checksum(TCP, &tcp(1, 2, 0x12, payload, FOUR)), 0);
            assert_eq!(checksum(&[&icmp(8, payload)]), 0);
            let message = icmpv6([&[135, 0, 9, 9], payload].concat(), six.0, six.1);
            assert_eq!(Endpoints::V6(six.0, six.1).checksum(ICMPV6, &message), 0);
        }
    }

    #[test]
    fn a_udp_checksum_of_0_is_sent_as_ffff() {
        let zero = udp(1, 2, &[0, 0], FOUR);
        let missing = u16::from_be_bytes([zero[6], zero[7]]);
        let datagram = udp(1, 2, &missing.to_be_bytes(), FOUR);
        assert_eq!(datagram[6..8], [0xff, 0xff]);
        assert_eq!(udp_without_checksum(1, 2, b"x"), [0, 1, 0, 2, 0, 9, 0, 0, b'x']);
    }

    #[test]
    fn a_tcp_header_has_its_flags() {
        let segment = tcp(80, 81, 0x12, b"x", FOUR);
        assert_eq!(segment[..16], [0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 1, 0]);
    }
}
