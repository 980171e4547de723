//! What hosts send for a packet that they get: the next one of the connection, or an error about it.

use std::net::{Ipv4Addr, Ipv6Addr};

use frame_builder::{Endpoints, ICMP, ICMPV6, TCP, UDP};

use super::packets::*;

/// A packet without options and extension headers.
pub(super) struct Read<'a> {
    pub(super) between: Endpoints,
    pub(super) protocol: u8,
    pub(super) payload: &'a [u8],
}

impl Read<'_> {
    pub(super) fn of_frame(frame: &[u8]) -> Option<Read<'_>> {
        Read::of_packet(frame.get(14..)?)
    }

    pub(super) fn of_packet(packet: &[u8]) -> Option<Read<'_>> {
        let is_v6 = packet.first()? >> 4 == 6;
        let (header, payload) = packet.split_at_checked(if is_v6 { 40 } else { 20 })?;
        let four = |at: usize| Some(Ipv4Addr::from_octets(*header.get(at..)?.first_chunk()?));
        let six = |at: usize| Some(Ipv6Addr::from_octets(*header.get(at..)?.first_chunk()?));
        Some(if is_v6 {
            Read { between: Endpoints::V6(six(8)?, six(24)?), protocol: header[6], payload }
        } else {
            Read { between: Endpoints::V4(four(12)?, four(16)?), protocol: header[9], payload }
        })
    }

    pub(super) fn word(&self, at: usize) -> u16 {
        self.payload.get(at..at + 2).map_or(0, |word| u16::from_be_bytes([word[0], word[1]]))
    }

    fn number(&self, at: usize) -> u32 {
        u32::from(self.word(at)) << 16 | u32::from(self.word(at + 2))
    }

    /// Whether it is an ICMP error.
    pub(super) fn is_error(&self) -> bool {
        let kind = self.payload.first().copied().unwrap_or(0);
        self.protocol == ICMP && matches!(kind, 3 | 4 | 5 | 11 | 12) || self.protocol == ICMPV6 && kind < 128
    }
}

/// The answer to a frame; none to an error.
pub(super) fn answer(to: &[u8]) -> Option<Vec<u8>> {
    let read = Read::of_frame(to)?;
    let back = match read.between {
        Endpoints::V4(from, to) => Endpoints::V4(to, from),
        Endpoints::V6(from, to) => Endpoints::V6(to, from),
    };
    let ports = (read.word(2), read.word(0));
    if read.is_error() {
        return None;
    }
    let packet = match read.protocol {
        UDP => packet(back, UDP, &frame_builder::udp(ports.0, ports.1, b"x", back)),
        TCP => {
            let flags = read.payload.get(13).copied().unwrap_or(0);
            let length =
                read.payload.len().saturating_sub(usize::from(read.payload.get(12)? >> 4) * 4) as u32;
            let next = read.number(4).wrapping_add(length + u32::from(flags & (SYN | FIN) != 0));
            let (flags, sequence) = match flags {
                flags if flags & ACK == 0 => (SYN | ACK, 500),
                flags if flags & FIN != 0 => (FIN | ACK, read.number(8)),
                _ => (ACK, read.number(8)),
            };
            packet(back, TCP, &Segment::new(ports, flags, sequence, next).bytes(back))
        }
        ICMP | ICMPV6 => {
            let kind = match *read.payload.first()? {
                8 => 0,
                0 => 8,
                13 => 14,
                128 => 129,
                129 => 128,
                _ => return None,
            };
            icmp(back, kind, 0, read.payload.get(4..)?)
        }
        other => packet(back, other, &[0; 12]),
    };
    Some(frame(&packet))
}

/// What a router sends about a frame: an error with the beginning of its packet.
pub(super) fn error(about: &[u8], kind: u8, length: usize) -> Option<Vec<u8>> {
    let read = Read::of_frame(about)?;
    let to_sender = match read.between {
        Endpoints::V4(from, _) => Endpoints::V4(Ipv4Addr::new(10, 0, 0, 9), from),
        Endpoints::V6(from, _) => Endpoints::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9), from),
    };
    let inside = &about[14..about.len().min(14 + length)];
    Some(frame(&icmp(to_sender, kind, 0, &[&[0, 0, 5, 0x78], inside].concat())))
}

/// The ends of a frame's packet, by the last bytes of addresses, and those of the packet in an error.
pub(super) fn ends(frame: &[u8]) -> String {
    Read::of_frame(frame).map_or_else(|| "no packet".to_owned(), |read| text(&read))
}

fn text(read: &Read<'_>) -> String {
    let (from, to) = match read.between {
        Endpoints::V4(from, to) => (from.octets()[3], to.octets()[3]),
        Endpoints::V6(from, to) => (from.octets()[15], to.octets()[15]),
    };
    if read.is_error() {
        let inside = read.payload.get(8..).and_then(Read::of_packet);
        let inside = inside.map_or_else(|| "nothing".to_owned(), |inside| text(&inside));
        return format!("{from}>{to} [{inside}]");
    }
    match read.protocol {
        TCP | UDP => format!("{from}:{}>{to}:{}", read.word(0), read.word(2)),
        _ => format!("{from}>{to}"),
    }
}
