//! Reads the tuple of a packet, and refuses packets that belong to no connection.

use super::{End, Tuple};
use crate::extract::upper_layer;
use crate::key::*;
use crate::rewrite::{Frame, ones_sum_of};

/// A packet as connection tracking sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting<'a> {
    /// That of the packet; of an ICMP error, that of an answer to the packet inside.
    pub(super) tuple: Tuple,
    /// Whether it is an ICMP error.
    pub(super) related: bool,
    /// The packet's transport header and payload.
    pub(super) transport: &'a [u8],
}

/// How much of a transport header is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// All of it, with a valid checksum.
    Checked,
    /// All of it, inside an error.
    Whole,
    /// The 8 bytes that an error carries at least.
    Beginning,
}

const BEGINNING: usize = 8;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const ICMP_HEADER: usize = 8;

/// Reads a packet; none if it is invalid: a fragment, damaged, or of an ICMP type that opens or answers nothing.
pub(crate) fn sighting(frame: &Frame, zone: u16) -> Option<Sighting<'_>> {
    let (key, bytes, layout) = (frame.key(), frame.bytes(), frame.layout());
    let transport = bytes.get(layout.l4?..layout.end)?;
    if key.nw_frag != 0 || !has_valid_header(frame) {
        return None;
    }
    read(Tuple::of_addresses(frame, zone)?, transport)
}

/// Whether the checksum of an IPv4 header is right. IPv6 has none.
pub(super) fn has_valid_header(frame: &Frame) -> bool {
    let (Some(l3), bytes) = (frame.layout().l3, frame.bytes()) else { return false };
    let length = bytes.get(l3).map_or(0, |byte| usize::from(byte & 0x0f) * 4);
    frame.key().eth_type != ETH_IPV4 || bytes.get(l3..l3 + length).is_some_and(|header| is_valid(&[header]))
}

impl Tuple {
    /// The tuple without what the transport header adds.
    pub(super) fn of_addresses(frame: &Frame, zone: u16) -> Option<Tuple> {
        let key = frame.key();
        let end = |address| End { address, ..End::default() };
        let (ipv6, from, to) = match key.eth_type {
            ETH_IPV4 => (false, end(key.nw_src.into()), end(key.nw_dst.into())),
            ETH_IPV6 => (true, end(key.ipv6_src), end(key.ipv6_dst)),
            _ => return None,
        };
        Some(Tuple { zone, ipv6, protocol: key.nw_proto, from, to })
    }
}

/// Reads the transport header of a packet between these addresses.
pub(super) fn read(tuple: Tuple, transport: &[u8]) -> Option<Sighting<'_>> {
    let is_error = match (tuple.ipv6, tuple.protocol) {
        (false, ICMP) => matches!(transport.first()?, 3 | 4 | 5 | 11 | 12),
        (true, ICMPV6) => matches!(transport.first()?, 1..=4),
        _ => false,
    };
    let tuple = if is_error {
        if transport.len() < ICMP_HEADER || !is_checked(tuple, transport) {
            return None;
        }
        answered(tuple, &transport[ICMP_HEADER..])?.reversed()
    } else {
        with_ports(tuple, transport, Part::Checked)?
    };
    Some(Sighting { tuple, related: is_error, transport })
}

/// The tuple of the packet in an error. It came from where the error goes to.
fn answered(error: Tuple, inside: &[u8]) -> Option<Tuple> {
    let end = |bytes: &[u8]| End {
        address: bytes.iter().fold(0, |address, byte| address << 8 | u128::from(*byte)),
        ..End::default()
    };
    let (protocol, from, to, transport, part) = if error.ipv6 {
        let header = inside.first_chunk::<40>()?;
        let (protocol, fragment, at) = upper_layer(header[6], inside, header.len())?;
        if fragment != 0 {
            return None;
        }
        (protocol, end(&header[8..24]), end(&header[24..40]), inside.get(at..)?, Part::Whole)
    } else {
        let header = inside.first_chunk::<20>()?;
        let length = usize::from(header[0] & 0x0f) * 4;
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        if length < header.len() || is_fragment {
            return None;
        }
        (header[9], end(&header[12..16]), end(&header[16..20]), inside.get(length..)?, Part::Beginning)
    };
    if from.address != error.to.address {
        return None;
    }
    with_ports(Tuple { protocol, from, to, ..error }, transport, part)
}

/// The tuple with what its transport header adds; none if the header is damaged or says too little.
fn with_ports(mut tuple: Tuple, transport: &[u8], part: Part) -> Option<Tuple> {
    let needed = |header| if part == Part::Beginning { BEGINNING } else { header };
    let has = |header| transport.len() >= needed(header);
    let number = |at: usize| Some(u16::from_be_bytes([*transport.get(at)?, *transport.get(at + 1)?]));
    if part == Part::Checked && !is_sound(tuple, transport) {
        return None;
    }
    match (tuple.protocol, tuple.ipv6) {
        (TCP | UDP, _) => {
            let header = if tuple.protocol == TCP { TCP_HEADER } else { UDP_HEADER };
            if !has(header) {
                return None;
            }
            (tuple.from.port, tuple.to.port) = (number(0)?, number(2)?);
            (tuple.from.port != 0 && tuple.to.port != 0).then_some(tuple)
        }
        (ICMP, false) | (ICMPV6, true) => {
            let (kind, code) = (*transport.first()?, *transport.get(1)?);
            let other = other_icmp_type(tuple.ipv6, kind)?;
            if code != 0 || !has(ICMP_HEADER) {
                return None;
            }
            let id = number(4)?;
            tuple.from = End { port: id, icmp_type: kind, ..tuple.from };
            tuple.to = End { port: id, icmp_type: other, ..tuple.to };
            Some(tuple)
        }
        _ => Some(tuple),
    }
}

/// The type of the answer to an ICMP question, or of the question.
pub(super) fn other_icmp_type(ipv6: bool, kind: u8) -> Option<u8> {
    const PAIRS: [(u8, u8); 3] = [(8, 0), (13, 14), (15, 16)];
    const PAIRS_V6: [(u8, u8); 1] = [(128, 129)];
    let pairs: &[(u8, u8)] = if ipv6 { &PAIRS_V6 } else { &PAIRS };
    pairs.iter().find_map(|(question, answer)| match kind {
        kind if kind == *question => Some(*answer),
        kind if kind == *answer => Some(*question),
        _ => None,
    })
}

/// Whether lengths and checksum of a transport header are right.
fn is_sound(tuple: Tuple, transport: &[u8]) -> bool {
    match (tuple.protocol, tuple.ipv6) {
        (TCP, _) => {
            let length = usize::from(transport.get(12).copied().unwrap_or(0) >> 4) * 4;
            (TCP_HEADER..=transport.len()).contains(&length) && is_checked(tuple, transport)
        }
        (UDP, ipv6) => {
            let Some(header) = transport.first_chunk::<UDP_HEADER>() else { return false };
            let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
            let unchecked = !ipv6 && header[6..8] == [0, 0];
            (UDP_HEADER..=transport.len()).contains(&length) && (unchecked || is_checked(tuple, transport))
        }
        (ICMP, false) | (ICMPV6, true) => is_checked(tuple, transport),
        _ => true,
    }
}

/// Whether the checksum is right, with that of the addresses where the protocol includes them.
fn is_checked(tuple: Tuple, transport: &[u8]) -> bool {
    if tuple.protocol == ICMP {
        return is_valid(&[transport]);
    }
    let length = (transport.len() as u32).to_be_bytes();
    let addresses = [tuple.from.address, tuple.to.address].map(u128::to_be_bytes).concat();
    is_valid(&[&addresses, &length, &[0, tuple.protocol], transport])
}

/// Whether the checksum within these parts is right; all but the last have an even length.
fn is_valid(parts: &[&[u8]]) -> bool {
    ones_sum_of(parts) == u16::MAX
}
