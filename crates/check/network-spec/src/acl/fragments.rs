//! Fragments that wait for the rest of their datagram.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::checksum::is_intact;
use super::connections::At;
use super::headers::{Fragment, Headers};
use super::objects::Direction;
use crate::World;
use crate::frame::{Body, Frame, chunk};

/// Bytes up to the header of IP, without a tag.
const ETHERNET: usize = 14;
const IPV6_HEADER: usize = 40;
const FRAGMENT_HEADER: usize = 8;
const FRAGMENT_PROTOCOL: u8 = 44;

/// Fragments, by the datagram that they are of and the port where they wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    datagrams: BTreeMap<(At, Direction, Datagram), Parts>,
}

/// What all fragments of a datagram say (RFC 791, 3.2; RFC 8200, 4.5).
type Datagram = (IpAddr, IpAddr, u8, u32);

/// The fragments of a datagram so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Parts {
    /// By the offset of their first byte.
    parts: BTreeMap<usize, Part>,
    /// Whether time has passed, so that the network may have dropped them.
    is_old: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    frame: Vec<u8>,
    /// Everything before the payload, as an unfragmented packet would have it.
    head: Vec<u8>,
    payload: Vec<u8>,
    has_more: bool,
}

/// A datagram whose fragments are all there.
pub(super) struct Whole {
    /// The frame that it would be in, unfragmented.
    pub(super) frame: Vec<u8>,
    /// The frames of its fragments.
    pub(super) fragments: Vec<Vec<u8>>,
    /// Whether the network may have dropped some of them.
    pub(super) is_old: bool,
}

impl Waiting {
    /// Time passes.
    pub(super) fn age(&mut self) {
        self.datagrams.values_mut().for_each(|parts| parts.is_old = true);
    }

    /// Forgets what waits at ports that are gone from their host, are others now, or do not wait any more.
    pub(super) fn revise(&mut self, world: &World, others: &BTreeSet<String>) {
        self.datagrams.retain(|((host, port), ..), _| {
            !others.contains(port)
                && world.is_stateful(port)
                && world.hosts_with(port).contains(host.as_str())
        });
    }

    /// A fragment comes to a port. Returns its datagram if that is complete.
    pub(super) fn add(&mut self, at: At, direction: Direction, frame: &Frame, bytes: &[u8]) -> Option<Whole> {
        let (datagram, offset, part) = read(frame, bytes)?;
        let key = (at, direction, datagram);
        let parts = self.datagrams.entry(key.clone()).or_default();
        parts.parts.insert(offset, part);
        let frame = parts.whole()?;
        let parts = self.datagrams.remove(&key)?;
        let fragments = parts.parts.into_values().map(|part| part.frame).collect();
        Some(Whole { frame, fragments, is_old: parts.is_old })
    }
}

impl Parts {
    /// The frame of the whole datagram, if the parts join without gaps and overlaps (RFC 5722).
    fn whole(&self) -> Option<Vec<u8>> {
        let (mut payload, mut is_last) = (Vec::new(), false);
        for (offset, part) in &self.parts {
            if *offset != payload.len() || is_last {
                return None;
            }
            payload.extend(&part.payload);
            is_last = !part.has_more;
        }
        let head = &self.parts.first_key_value()?.1.head;
        is_last.then(|| with_lengths(head, &payload)).flatten()
    }
}

/// The head of a packet with a payload, and the lengths that follow. A damaged header stays damaged.
fn with_lengths(head: &[u8], payload: &[u8]) -> Option<Vec<u8>> {
    let mut frame = [head, payload].concat();
    let is_ipv4 = frame.get(ETHERNET)? >> 4 == 4;
    if is_ipv4 {
        let was_intact = is_intact(&[&head[ETHERNET..]]);
        let total = u16::try_from(frame.len() - ETHERNET).ok()?;
        frame[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&total.to_be_bytes());
        if was_intact {
            set_checksum(&mut frame[ETHERNET..head.len()]);
        }
    } else {
        let length = u16::try_from(frame.len() - ETHERNET - IPV6_HEADER).ok()?;
        frame[ETHERNET + 4..ETHERNET + 6].copy_from_slice(&length.to_be_bytes());
    }
    Some(frame)
}

/// Writes the checksum of a header of IPv4.
fn set_checksum(header: &mut [u8]) {
    const AT: usize = 10;
    header[AT..AT + 2].fill(0);
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = header.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[AT..AT + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// The datagram, the offset and the contents of a fragment. A packet whose type stands in an LLC header has no fragments here.
fn read(frame: &Frame, bytes: &[u8]) -> Option<(Datagram, usize, Part)> {
    let headers = Headers::read(frame, bytes);
    let is_later = headers.fragment? == Fragment::Later;
    let (src, dst) = headers.addresses?;
    let packet_of = |head: Vec<u8>, payload: &[u8], has_more| Part {
        frame: bytes.to_vec(),
        head,
        payload: payload.to_vec(),
        has_more,
    };
    match &frame.body {
        Body::Ipv4(Some(packet)) if packet.header == ETHERNET => {
            let field = |at| chunk(bytes, packet.header + at).map(u16::from_be_bytes);
            let (identification, word) = (field(4)?, field(6)?);
            let mut head = bytes[..packet.carried.start].to_vec();
            let was_intact = is_intact(&[&head[ETHERNET..]]);
            head[ETHERNET + 6..ETHERNET + 8].fill(0);
            if was_intact {
                set_checksum(&mut head[ETHERNET..]);
            }
            let datagram = (src, dst, headers.protocol?, u32::from(identification));
            let part = packet_of(head, &bytes[packet.carried.clone()], word & 0x2000 != 0);
            Some((datagram, usize::from(word & 0x1fff) * 8, part))
        }
        Body::Ipv6(Some(packet)) if packet.header == ETHERNET => {
            let (named_at, header) = fragment_header(bytes)?;
            let fields: [u8; FRAGMENT_HEADER] = chunk(bytes, header)?;
            let word = u16::from_be_bytes([fields[2], fields[3]]);
            let identification = u32::from_be_bytes([fields[4], fields[5], fields[6], fields[7]]);
            let mut head = bytes[..header].to_vec();
            head[named_at] = fields[0];
            let payload = bytes.get(header + FRAGMENT_HEADER..packet.carried.end)?;
            let offset = usize::from(word >> 3) * 8;
            debug_assert_eq!(is_later, offset > 0);
            Some((
                (src, dst, FRAGMENT_PROTOCOL, identification),
                offset,
                packet_of(head, payload, word & 1 == 1),
            ))
        }
        _ => None,
    }
}

/// Where the fragment header of an IPv6 packet is named, and where it is.
fn fragment_header(bytes: &[u8]) -> Option<(usize, usize)> {
    const SKIPPED: [u8; 3] = [0, 43, 60];
    let (mut named_at, mut at) = (ETHERNET + 6, ETHERNET + IPV6_HEADER);
    loop {
        match *bytes.get(named_at)? {
            FRAGMENT_PROTOCOL => return Some((named_at, at)),
            kind if SKIPPED.contains(&kind) => {
                let length = (usize::from(*bytes.get(at + 1)?) + 1) * 8;
                (named_at, at) = (at, at + length);
            }
            _ => return None,
        }
    }
}
