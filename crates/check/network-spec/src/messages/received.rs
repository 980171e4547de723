//! A packet that its sender may hear of.

use std::net::IpAddr;
use std::ops::Range;

use crate::acl::is_intact;
use crate::frame::{Body, Frame, Packet, chunk, is_group};
use crate::routing::is_martian;

/// Bytes up to the packet: in a frame of another form than Ethernet's own (RFC 894), nobody hears of it.
const ETHERNET: usize = 14;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const FRAGMENT: u8 = 44;
const ICMPV6: u8 = 58;

/// A packet that its sender may hear of.
///
/// Not those for groups, or in frames for groups; not those from what is no single machine; no fragments but the first; no errors, nor
/// what may be an error of a kind that is not known; nothing whose header is damaged.
pub(super) struct Received<'a> {
    pub(super) frame: &'a [u8],
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
    pub(super) protocol: u8,
    /// Where the header says which protocol it is, from the start of the packet.
    pub(super) protocol_at: usize,
    /// The packet, without padding behind it.
    pub(super) packet: &'a [u8],
    /// What follows the headers of IP.
    pub(super) payload: &'a [u8],
    is_fragment: bool,
}

impl<'a> Received<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Option<Received<'a>> {
        let frame = Frame::read(bytes)?;
        if is_group(frame.dst) || is_group(frame.src) {
            return None;
        }
        let received = match &frame.body {
            Body::Ipv4(Some(packet)) => {
                const PROTOCOL_AT: usize = 9;
                let header = &bytes[packet.header..packet.carried.start];
                let is_later = chunk(bytes, packet.header + 6).map(u16::from_be_bytes)? & 0x1fff != 0;
                let is_sound = header[0] >> 4 == 4 && is_intact(&[header]) && !is_later;
                is_sound.then(|| Received::of(bytes, packet, PROTOCOL_AT))??
            }
            Body::Ipv6(Some(packet)) => {
                let (protocol_at, is_sound) = headers(bytes, packet.carried.clone());
                let is_later = packet.protocol == Some(FRAGMENT);
                let is_sound = is_sound && bytes[packet.header] >> 4 == 6 && !is_later;
                is_sound.then(|| Received::of(bytes, packet, protocol_at))??
            }
            _ => return None,
        };
        let is_single = |ip| !is_martian(ip) && !is_of_many(ip);
        (is_single(received.from) && is_single(received.to) && !received.may_be_error()).then_some(received)
    }

    fn of<A: Copy + Into<IpAddr>>(
        bytes: &'a [u8],
        packet: &Packet<A>,
        protocol_at: usize,
    ) -> Option<Received<'a>> {
        (packet.header == ETHERNET).then_some(())?;
        Some(Received {
            frame: bytes,
            from: packet.src.into(),
            to: packet.dst.into(),
            protocol: packet.protocol?,
            protocol_at,
            packet: &bytes[packet.header..packet.carried.end],
            payload: &bytes[packet.carried.clone()],
            is_fragment: packet.is_fragment,
        })
    }

    /// Whether it is a message of ICMP that is an error or a redirect, or of a kind that is not known to be something else (RFC 792, 950,
    /// 1256 and 8335; RFC 4443, 2.1; RFC 4861, 4.5).
    fn may_be_error(&self) -> bool {
        const KNOWN: [u8; 12] = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18, 42, 43];
        const REDIRECT: u8 = 137;
        let kind = self.payload.first();
        match (self.from, self.protocol) {
            (IpAddr::V4(_), ICMP) => kind.is_none_or(|kind| !KNOWN.contains(kind)),
            (IpAddr::V6(_), ICMPV6) => kind.is_none_or(|kind| *kind < 128 || *kind == REDIRECT),
            _ => false,
        }
    }

    /// The length of the header of TCP, if it is a whole segment.
    pub(super) fn segment(&self) -> Option<usize> {
        const SHORTEST: usize = 20;
        let length = usize::from(self.payload.get(12)? >> 4) * 4;
        let is_whole = self.protocol == TCP && !self.is_fragment;
        (is_whole && (SHORTEST..=self.payload.len()).contains(&length)).then_some(length)
    }
}

/// Addresses of groups and of all, which are those of no single machine, and the reserved ones behind.
pub(super) fn is_of_many(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[0] >= 224,
        IpAddr::V6(ip) => ip.is_multicast(),
    }
}

/// Where the extension headers of an IPv6 packet say which protocol follows them, and whether they are in an order that may be: hop-by-hop
/// options come first (RFC 8200, 4.1).
pub(super) fn headers(bytes: &[u8], carried: Range<usize>) -> (usize, bool) {
    const IPV6_HEADER: usize = 40;
    const AUTHENTICATION: u8 = 51;
    let (mut named_at, mut at, mut is_sound) = (ETHERNET + 6, ETHERNET + IPV6_HEADER, true);
    while at < carried.start {
        let kind = bytes[named_at];
        let units = usize::from(bytes[at + 1]);
        is_sound &= kind != 0 || at == ETHERNET + IPV6_HEADER;
        named_at = at;
        at += match kind {
            FRAGMENT => 8,
            AUTHENTICATION => (units + 2) * 4,
            _ => (units + 1) * 8,
        };
    }
    (named_at - ETHERNET, is_sound)
}
