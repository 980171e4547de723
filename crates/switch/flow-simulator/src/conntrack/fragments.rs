//! Fragments: connection tracking holds them until their packet is complete, and then lets them go on one by one, each with the
//! state of the whole packet.

use std::collections::BTreeMap;

use super::read::{has_valid_header, read};
use super::{Sighting, Tuple};
use crate::key::{ETH_IPV4, LATER_FRAGMENT};
use crate::rewrite::Frame;

/// The least bytes of an IP packet that is a fragment and not the last one (`ipf-set-min-frag`).
const LEAST: usize = 1200;
const LEAST_V6: usize = 1280;

/// The packet that fragments belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Packet {
    tuple: Tuple,
    id: u32,
}

/// The place of a fragment in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    start: usize,
    end: usize,
    is_last: bool,
}

/// What fragments wait for the others of their packet, each with what is to be done with it.
pub(crate) type Held<Rest> = BTreeMap<Packet, Vec<(Piece, Rest)>>;

/// The packet and the place of a fragment; none of what is no fragment, or is too small or damaged.
pub(crate) fn piece(frame: &Frame, zone: u16) -> Option<(Packet, Piece)> {
    let (key, bytes, layout) = (frame.key(), frame.bytes(), frame.layout());
    let (l3, l4) = (layout.l3?, layout.l4?);
    let number = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    if key.nw_frag == 0 || !has_valid_header(frame) {
        return None;
    }
    let is_v4 = key.eth_type == ETH_IPV4;
    let (start, more, id) = if is_v4 {
        let fragment = number(l3 + 6)?;
        (usize::from(fragment & 0x1fff) * 8, fragment & 0x2000 != 0, u32::from(number(l3 + 4)?))
    } else {
        let at = layout.fragment?;
        let fragment = number(at + 2)?;
        let id = u32::from(number(at + 4)?) << 16 | u32::from(number(at + 6)?);
        (usize::from(fragment & 0xfff8), fragment & 1 != 0, id)
    };
    if more && layout.end - l3 < if is_v4 { LEAST } else { LEAST_V6 } {
        return None;
    }
    let mut tuple = Tuple::of_addresses(frame, zone)?;
    if !is_v4 {
        tuple.protocol = 0;
    }
    let piece = Piece { start, end: start + (layout.end - l4), is_last: !more };
    Some((Packet { tuple, id }, piece))
}

impl Piece {
    pub(crate) fn overlaps(self, other: Piece) -> bool {
        self.start < other.end && other.start < self.end
    }

    pub(crate) fn start(self) -> usize {
        self.start
    }
}

/// Whether these, in order, are all pieces of a packet.
pub(crate) fn are_all(pieces: impl Iterator<Item = Piece>) -> bool {
    let (mut at, mut ended) = (0, false);
    for piece in pieces {
        if ended || piece.start != at {
            return false;
        }
        (at, ended) = (piece.end, piece.is_last);
    }
    ended
}

/// The bytes that a fragment carries of its packet.
pub(crate) fn carried(frame: &Frame) -> &[u8] {
    let layout = frame.layout();
    layout.l4.and_then(|l4| frame.bytes().get(l4..layout.end)).unwrap_or_default()
}

/// What the whole packet is to connection tracking, by its first fragment and all that it carries.
pub(crate) fn whole<'a>(first: &Frame, zone: u16, transport: &'a [u8]) -> Option<Sighting<'a>> {
    if first.key().nw_frag & LATER_FRAGMENT != 0 {
        return None;
    }
    read(Tuple::of_addresses(first, zone)?, transport)
}
