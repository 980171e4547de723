//! A packet as it was handed over.

use std::net::IpAddr;

use etherparse::{
    IpNumber, Ipv4HeaderSlice, Ipv6ExtensionSlice, Ipv6ExtensionsSlice, Ipv6HeaderSlice, TcpHeaderSlice,
};
use frame_builder::{ICMP, ICMPV6, IPV4, IPV6, Mac, TCP, ethernet};

use crate::Silence;
use crate::headers::{is_group, is_host};

/// Two MAC addresses and a type.
const ETHERNET_LEN: usize = 14;
const TAG_LEN: usize = 4;
/// 802.1Q and 802.1ad.
const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// More tags than this are no frame of a virtual network.
const TAGS_MAX: usize = 2;
/// ICMP messages that ask or tell something, and are no errors (RFC 792, 950, 1256, 8335): echo, router discovery, timestamps, information,
/// masks, extended echo.
const QUERIES: [u8; 12] = [0, 8, 9, 10, 13, 14, 15, 16, 17, 18, 42, 43];
/// The first type of `ICMPv6` that is no error (RFC 4443, 2.1), and the redirect (RFC 4861).
const ICMPV6_NO_ERROR: u8 = 128;
const ICMPV6_REDIRECT: u8 = 137;

/// A packet that can be read as far as an answer needs.
pub(crate) struct Received<'a> {
    macs: [Mac; 2],
    /// From the IP header on, without what a short frame is padded with.
    pub(crate) packet: &'a [u8],
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    /// The TTL or hop limit.
    pub(crate) ttl: u8,
    /// The protocol behind all headers of IP.
    pub(crate) protocol: u8,
    /// Where the number of the protocol is, in bytes from the IP header on.
    pub(crate) protocol_at: usize,
    /// What is there of the payload of IP.
    pub(crate) payload: &'a [u8],
    /// How long the payload is by the IP header, whether it is there or not.
    pub(crate) payload_len: usize,
    is_fragment: bool,
    is_later_fragment: bool,
}

impl<'a> Received<'a> {
    /// Reads a frame.
    pub(crate) fn read(frame: &'a [u8]) -> Result<Received<'a>, Silence> {
        let (addresses, mut rest) = frame.split_first_chunk::<12>().ok_or(Silence::Damaged)?;
        let [t0, t1, t2, t3, t4, t5, f0, f1, f2, f3, f4, f5] = *addresses;
        let macs = [[t0, t1, t2, t3, t4, t5], [f0, f1, f2, f3, f4, f5]];
        for _ in 0..=TAGS_MAX {
            let (kind, behind) = rest.split_first_chunk::<2>().ok_or(Silence::Damaged)?;
            match u16::from_be_bytes(*kind) {
                IPV4 => return Self::read_ipv4(macs, behind),
                IPV6 => return Self::read_ipv6(macs, behind),
                tag if TAGS.contains(&tag) => rest = rest.get(TAG_LEN..).ok_or(Silence::Damaged)?,
                _ => return Err(Silence::NotIp),
            }
        }
        Err(Silence::NotIp)
    }

    fn read_ipv4(macs: [Mac; 2], bytes: &'a [u8]) -> Result<Received<'a>, Silence> {
        /// Where the protocol is in the header.
        const PROTOCOL_AT: usize = 9;
        let header = Ipv4HeaderSlice::from_slice(bytes).map_err(|_| Silence::Damaged)?;
        if header.to_header().calc_header_checksum() != header.header_checksum() {
            return Err(Silence::Damaged);
        }
        let payload_len = usize::from(header.payload_len().map_err(|_| Silence::Damaged)?);
        let packet = bytes.get(..usize::from(header.total_len())).unwrap_or(bytes);
        Ok(Received {
            macs,
            packet,
            from: header.source_addr().into(),
            to: header.destination_addr().into(),
            ttl: header.ttl(),
            protocol: header.protocol().0,
            protocol_at: PROTOCOL_AT,
            payload: packet.get(header.slice().len()..).unwrap_or_default(),
            payload_len,
            is_fragment: header.is_fragmenting_payload(),
            is_later_fragment: header.fragments_offset().value() != 0,
        })
    }

    fn read_ipv6(macs: [Mac; 2], bytes: &'a [u8]) -> Result<Received<'a>, Silence> {
        /// Where the protocol of the first header behind is in the header.
        const PROTOCOL_AT: usize = 6;
        let header = Ipv6HeaderSlice::from_slice(bytes).map_err(|_| Silence::Damaged)?;
        let (fixed, whole) = (header.slice().len(), usize::from(header.payload_length()));
        let packet = bytes.get(..fixed + whole).unwrap_or(bytes);
        let behind = packet.get(fixed..).unwrap_or_default();
        let (extensions, protocol, payload) =
            Ipv6ExtensionsSlice::from_slice(header.next_header(), behind).map_err(|_| Silence::Damaged)?;
        let (mut protocol_at, mut at, mut is_later_fragment) = (PROTOCOL_AT, fixed, false);
        for extension in extensions.clone() {
            protocol_at = at;
            at += match extension {
                Ipv6ExtensionSlice::Fragment(fragment) => {
                    is_later_fragment |= fragment.fragment_offset().value() != 0;
                    fragment.slice().len()
                }
                Ipv6ExtensionSlice::Authentication(header) => header.slice().len(),
                Ipv6ExtensionSlice::HopByHop(header)
                | Ipv6ExtensionSlice::Routing(header)
                | Ipv6ExtensionSlice::DestinationOptions(header) => header.slice().len(),
            };
        }
        Ok(Received {
            macs,
            packet,
            from: header.source_addr().into(),
            to: header.destination_addr().into(),
            ttl: header.hop_limit(),
            protocol: protocol.0,
            protocol_at,
            payload,
            payload_len: whole.saturating_sub(at - fixed),
            is_fragment: extensions.is_fragmenting_payload(),
            is_later_fragment,
        })
    }

    /// Whether anybody may answer it: what RFC 1812, 4.3.2.7, RFC 1122, 3.2.2, and RFC 4443, 2.4 (e), exclude.
    pub(crate) fn check(&self) -> Result<(), Silence> {
        let [to, from] = self.macs;
        if is_group(to) || is_group(from) {
            return Err(Silence::GroupFrame);
        }
        if !is_host(self.to) {
            return Err(Silence::ToGroup);
        }
        if !is_host(self.from) {
            return Err(Silence::FromNobody);
        }
        if self.is_later_fragment {
            return Err(Silence::LaterFragment);
        }
        if self.is_error() { Err(Silence::IsError) } else { Ok(()) }
    }

    /// Whether it is an ICMP error, or may be one: the type is cut off, or not known.
    fn is_error(&self) -> bool {
        let kind = self.payload.first();
        match self.protocol {
            ICMP if self.from.is_ipv4() => kind.is_none_or(|kind| !QUERIES.contains(kind)),
            ICMPV6 if self.from.is_ipv6() => {
                kind.is_none_or(|kind| *kind < ICMPV6_NO_ERROR || *kind == ICMPV6_REDIRECT)
            }
            _ => false,
        }
    }

    /// The MAC address that the frame is from.
    pub(crate) fn sender(&self) -> Mac {
        let [_, from] = self.macs;
        from
    }

    /// The payload, if all of it is there.
    pub(crate) fn whole(&self) -> Result<&'a [u8], Silence> {
        if self.is_fragment || self.is_later_fragment {
            return Err(Silence::Fragment);
        }
        if self.payload.len() < self.payload_len { Err(Silence::Damaged) } else { Ok(self.payload) }
    }

    /// The header of TCP, if it is a whole segment.
    pub(crate) fn tcp(&self) -> Option<TcpHeaderSlice<'a>> {
        let is_whole_segment = IpNumber(self.protocol) == IpNumber(TCP) && !self.is_fragment;
        is_whole_segment.then(|| TcpHeaderSlice::from_slice(self.payload).ok()).flatten()
    }

    /// A frame with this packet, back to the sender.
    pub(crate) fn returned(&self, packet: &[u8]) -> Vec<u8> {
        let [to, from] = self.macs;
        let kind = if self.from.is_ipv4() { IPV4 } else { IPV6 };
        debug_assert!(packet.len() <= usize::from(u16::MAX) - ETHERNET_LEN);
        ethernet(from, to, kind, packet)
    }
}
