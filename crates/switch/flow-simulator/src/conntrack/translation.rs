//! Writes the translation of a connection into a packet (`nat_packet` of `lib/conntrack.c`).
//!
//! Of an ICMP error, the outer header is translated like a packet of the same direction, and the header of the packet inside, which goes
//! the other way, by the opposite (RFC 5508, 4.2). The checksum of the error is computed anew; the checksums inside change by
//! the difference (RFC 3022, 4.2).
//!
//! What surprises, and is so in the switch: of an `ICMPv6` error about UDP or TCP, the new outer address is also summed into the place
//! where UDP or TCP would have its checksum. About UDP, this changes the low half of the MTU in "packet too big" and of the
//! pointer in "parameter problem", unless it is 0; about TCP, the first two bytes of the source address inside.
//!
//! Not simulated: where an ICMP error ends within the checksum of TCP, the switch changes the byte of it that is there, and one of its
//! memory behind.

use std::fmt;

use super::nat::Side;
use super::{Sighting, Tuple};
use crate::extract::upper_layer;
use crate::key::{ICMPV6, TCP, UDP};
use crate::rewrite::{Frame, adjusted, ones_sum_of};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Translation {
    /// The tuple that the packet has after it; of an ICMP error, the one that an answer to the packet inside would have.
    pub(super) to: Tuple,
    /// The address to write.
    pub(super) side: Side,
    /// Whether the packet is an ICMP error.
    pub(super) related: bool,
}

impl fmt::Display for Translation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Sighting { tuple: self.to, related: self.related, transport: &[] }.fmt(f)
    }
}

impl fmt::Display for Sighting<'_> {
    /// The tuple; of an ICMP error, that of the packet inside.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.related { write!(f, "an error about {}", self.tuple.reversed()) } else { self.tuple.fmt(f) }
    }
}

const ICMP_HEADER: usize = 8;
const TCP_SUM: usize = 16;
const UDP_SUM: usize = 6;
const ICMPV6_SUM: usize = 2;

impl Translation {
    /// Translates a packet that consists of a network header and a transport header with its payload.
    pub(crate) fn apply(self, header: &mut [u8], transport: &mut [u8]) {
        write_address(header, transport, self.to, self.side);
        if self.related {
            self.inside(header, transport);
        } else {
            write_ports(transport, self.to);
        }
    }

    /// Translates the packet inside an error.
    fn inside(self, header: &[u8], transport: &mut [u8]) {
        let Some((error, inside)) = transport.split_at_mut_checked(ICMP_HEADER) else { return };
        let length = if self.to.ipv6 {
            inside.get(6).and_then(|next| upper_layer(*next, inside, 40)).map(|(_, _, at)| at)
        } else {
            inside.first().map(|byte| usize::from(byte & 0x0f) * 4)
        };
        if let Some((inner, rest)) = length.and_then(|length| inside.split_at_mut_checked(length)) {
            let to = self.to.reversed();
            write_ports(rest, to);
            write_address(inner, rest, to, self.side.opposite());
        }
        if let Some(sum) = error.get_mut(2..4) {
            sum.fill(0);
        }
        let sum = if self.to.ipv6 {
            let length = (transport.len() as u32).to_be_bytes();
            let addresses = header.get(8..40).unwrap_or_default();
            !ones_sum_of(&[addresses, &length, &[0, ICMPV6], transport])
        } else {
            !ones_sum_of(&[transport])
        };
        put(transport, 2, &sum.to_be_bytes());
    }
}

/// Writes an address, and the checksums that cover it.
fn write_address(header: &mut [u8], transport: &mut [u8], to: Tuple, side: Side) {
    let address = match side {
        Side::Source => to.from.address,
        Side::Destination => to.to.address,
    };
    if to.ipv6 {
        let at = if side == Side::Source { 8 } else { 24 };
        replace_address(header, at, &address.to_be_bytes(), transport, to.protocol);
    } else {
        let at = if side == Side::Source { 12 } else { 16 };
        let protocol = header.get(9).copied().filter(|protocol| *protocol != ICMPV6).unwrap_or(0);
        let new = (address as u32).to_be_bytes();
        let old = replace_address(header, at, &new, transport, protocol);
        change_sum(header, 10, &old, &new);
    }
}

/// Writes an address and changes the checksum of the protocol. Returns the old address.
fn replace_address(header: &mut [u8], at: usize, new: &[u8], transport: &mut [u8], protocol: u8) -> Vec<u8> {
    let old = header.get(at..at + new.len()).unwrap_or_default().to_vec();
    match protocol {
        TCP if transport.len() >= 20 => change_sum(transport, TCP_SUM, &old, new),
        UDP if transport.len() >= 8 => change_udp_sum(transport, &old, new),
        ICMPV6 => change_sum(transport, ICMPV6_SUM, &old, new),
        _ => {}
    }
    put(header, at, new);
    old
}

/// Writes the ports of TCP or UDP. The checksum may be beyond the end of what an error contains.
fn write_ports(transport: &mut [u8], to: Tuple) {
    let new = [to.from.port.to_be_bytes(), to.to.port.to_be_bytes()].concat();
    let old = transport.get(..4).unwrap_or_default().to_vec();
    if old.len() != new.len() {
        return;
    }
    match to.protocol {
        TCP => change_sum(transport, TCP_SUM, &old, &new),
        UDP => change_udp_sum(transport, &old, &new),
        _ => return,
    }
    put(transport, 0, &new);
}

/// A checksum of 0 means none, so UDP writes 0xffff instead.
fn change_udp_sum(transport: &mut [u8], old: &[u8], new: &[u8]) {
    let sum = |transport: &[u8]| transport.get(UDP_SUM..UDP_SUM + 2).map_or([0; 2], |sum| [sum[0], sum[1]]);
    if sum(transport) == [0, 0] {
        return;
    }
    change_sum(transport, UDP_SUM, old, new);
    if sum(transport) == [0, 0] {
        put(transport, UDP_SUM, &[0xff, 0xff]);
    }
}

fn change_sum(bytes: &mut [u8], at: usize, old: &[u8], new: &[u8]) {
    if old != new
        && let Some(sum) = bytes.get(at..at + 2).map(|sum| u16::from_be_bytes([sum[0], sum[1]]))
    {
        put(bytes, at, &adjusted(sum, old, new).to_be_bytes());
    }
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + new.len()) {
        place.copy_from_slice(new);
    }
}

impl Frame {
    /// The packet after a translation. Its fields, which later actions are compared with, stay.
    pub(crate) fn translated(mut self, translation: Translation) -> Frame {
        if let Some((header, transport)) = self.headers_mut() {
            translation.apply(header, transport);
        }
        self
    }

    /// The fragments of a packet after a translation of the whole packet. The first fragment comes first.
    pub(crate) fn translate_fragments(frames: &mut [Frame], translation: Translation) {
        let mut transport: Vec<u8> = frames
            .iter_mut()
            .filter_map(|frame| frame.headers_mut())
            .flat_map(|(_, part)| part.to_vec())
            .collect();
        let Some((header, _)) = frames.first_mut().and_then(Frame::headers_mut) else { return };
        let mut header = header.to_vec();
        translation.apply(&mut header, &mut transport);
        let (size, places) = if translation.to.ipv6 { (16, [8, 24]) } else { (4, [12, 16]) };
        for (number, frame) in frames.iter_mut().enumerate() {
            let Some((own, part)) = frame.headers_mut() else { continue };
            for at in places {
                let old = own.get(at..at + size).unwrap_or_default().to_vec();
                let new = header.get(at..at + size).unwrap_or_default();
                if !translation.to.ipv6 {
                    change_sum(own, 10, &old, new);
                }
                put(own, at, new);
            }
            // The switch copies nothing back into the later ones.
            if number == 0 {
                let length = part.len().min(transport.len());
                put(part, 0, &transport[..length]);
            }
        }
    }
}
