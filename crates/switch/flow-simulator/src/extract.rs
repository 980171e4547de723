//! Parses bytes into fields, as Open vSwitch does (`miniflow_extract` in its `lib/flow.c`).
//!
//! A packet is never refused: if a header is truncated or contradicts itself, its fields and those of everything
//! inside stay 0. Padding after the IP packet is not part of the payload.

use openflow_rs::{MacAddr, PortNo};

use crate::key::*;

/// The offsets of a packet's headers; none for a header that is missing or invalid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Network header.
    pub(crate) l3: Option<usize>,
    /// Transport header.
    pub(crate) l4: Option<usize>,
    /// The end of the IP packet by its length field.
    pub(crate) end: usize,
    /// The number of bytes that follow an IP packet: padding.
    pub(crate) padding: usize,
    /// An IPv6 routing header has segments left, so the inner checksum does not cover the destination in the
    /// header.
    pub(crate) routed: bool,
    /// The fragment header of an IPv6 packet. Others may come before and after it (RFC 8200, 4.1).
    pub(crate) fragment: Option<usize>,
}

/// The number of VLAN tags that a switch reads of a packet (`other_config:vlan-limit`). The next one is the packet's Ethernet
/// type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanLimit(usize);

impl VlanLimit {
    /// The limit by its setting; 0 stands for as many as Open vSwitch can read, which are two.
    pub fn new(setting: u8) -> VlanLimit {
        let most = FlowKey::MOST_TAGS;
        VlanLimit(if setting == 0 { most } else { most.min(setting.into()) })
    }

    /// A setting with this limit.
    pub fn setting(self) -> u8 {
        self.0 as u8
    }
}

impl Default for VlanLimit {
    fn default() -> VlanLimit {
        VlanLimit(1)
    }
}

/// The unread bytes, from `at` on.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.bytes[self.at..].first_chunk()
    }

    fn pull<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let chunk = self.peek()?;
        self.at += N;
        Some(chunk)
    }

    /// Skips bytes, if there are that many.
    fn skip(&mut self, count: usize) -> Option<()> {
        (count <= self.left()).then(|| self.at += count)
    }

    /// Drops everything after the next `count` bytes.
    fn limit(&mut self, count: usize) {
        self.bytes = &self.bytes[..self.at + count];
    }
}

/// Reads the fields of a packet.
pub(crate) fn extract(bytes: &[u8], in_port: PortNo, limit: VlanLimit) -> (FlowKey, Layout) {
    let (mut key, mut layout) = (FlowKey::empty(in_port), Layout { end: bytes.len(), ..Layout::default() });
    let mut cursor = Cursor { bytes, at: 0 };
    // Fields read before a missing part are kept.
    let _ = ethernet(&mut cursor, limit, &mut key, &mut layout);
    (key, layout)
}

fn ethernet(cursor: &mut Cursor<'_>, limit: VlanLimit, key: &mut FlowKey, layout: &mut Layout) -> Option<()> {
    if cursor.left() < 14 {
        return None;
    }
    let (dst, src): (&[u8; 6], &[u8; 6]) = (cursor.pull()?, cursor.pull()?);
    (key.eth_dst, key.eth_src) = (MacAddr(*dst).to_u64(), MacAddr(*src).to_u64());
    for vlan in &mut key.vlans[..limit.0] {
        let Some(&[t0, t1, v0, v1, _, _]) = cursor.peek::<6>() else { break };
        let tpid = u16::from_be_bytes([t0, t1]);
        if !matches!(tpid, ETH_VLAN | ETH_SERVICE_VLAN) {
            break;
        }
        *vlan = Vlan { tpid, tci: u16::from_be_bytes([v0, v1]) | VLAN_PRESENT };
        cursor.skip(4)?;
    }
    key.eth_type = ethernet_type(cursor)?;
    layout.l3 = Some(cursor.at);
    match key.eth_type {
        ETH_IPV4 => ipv4(cursor, key, layout)?,
        ETH_IPV6 => ipv6(cursor, key, layout)?,
        ETH_ARP | ETH_RARP => return arp(cursor, key),
        _ => return None,
    }
    layout.end = cursor.bytes.len();
    layout.l4 = Some(cursor.at);
    if key.nw_frag & LATER_FRAGMENT == 0 { transport(cursor, key) } else { None }
}

/// The Ethernet type, also from an LLC and SNAP header.
fn ethernet_type(cursor: &mut Cursor<'_>) -> Option<u16> {
    const LONGEST_LENGTH: u16 = 0x5ff;
    let kind = u16::from_be_bytes(*cursor.pull()?);
    if kind > LONGEST_LENGTH {
        return Some(kind);
    }
    let Some(&[0xaa, 0xaa, 3, 0, 0, 0, s0, s1]) = cursor.peek::<8>() else {
        return Some(ETH_NONE);
    };
    cursor.skip(8)?;
    let kind = u16::from_be_bytes([s0, s1]);
    Some(if kind > LONGEST_LENGTH { kind } else { ETH_NONE })
}

fn ipv4(cursor: &mut Cursor<'_>, key: &mut FlowKey, layout: &mut Layout) -> Option<()> {
    let header: &[u8; 20] = cursor.peek()?;
    let length = usize::from(header[0] & 0x0f) * 4;
    let total = usize::from(u16_at(header, 2));
    if length < 20 || total < length || total > cursor.left() {
        return None;
    }
    layout.padding = cursor.left() - total;
    cursor.limit(total);
    cursor.skip(length)?;
    (key.nw_src, key.nw_dst) = (u32_at(header, 12), u32_at(header, 16));
    (key.nw_tos, key.nw_ttl, key.nw_proto) = (header[1], header[8], header[9]);
    let fragment = u16_at(header, 6);
    if fragment & 0x3fff != 0 {
        key.nw_frag = FRAGMENT | if fragment & 0x1fff != 0 { LATER_FRAGMENT } else { 0 };
    }
    Some(())
}

fn ipv6(cursor: &mut Cursor<'_>, key: &mut FlowKey, layout: &mut Layout) -> Option<()> {
    let header: &[u8; 40] = cursor.peek()?;
    let payload = usize::from(u16_at(header, 4));
    if payload + 40 > cursor.left() {
        return None;
    }
    cursor.skip(40)?;
    layout.padding = cursor.left() - payload;
    cursor.limit(payload);
    (key.ipv6_src, key.ipv6_dst) = (u128_at(header, 8), u128_at(header, 24));
    let (mut proto, mut frag) = (header[6], 0);
    extensions(cursor, &mut proto, &mut frag, layout)?;
    let first = u32_at(header, 0);
    (key.nw_tos, key.nw_ttl, key.ipv6_label) = ((first >> 20) as u8, header[7], first & 0xf_ffff);
    (key.nw_proto, key.nw_frag) = (proto, frag);
    Some(())
}

/// The protocol behind the extension headers of an IPv6 packet, its fragment bits and its offset. The first extension header, of
/// this type, is at `at`.
pub(crate) fn upper_layer(next: u8, bytes: &[u8], at: usize) -> Option<(u8, u8, usize)> {
    let (mut protocol, mut fragment) = (next, 0);
    let mut cursor = Cursor { bytes, at };
    extensions(&mut cursor, &mut protocol, &mut fragment, &mut Layout::default())?;
    Some((protocol, fragment, cursor.at))
}

/// Skips IPv6 extension headers to the protocol inside.
fn extensions(cursor: &mut Cursor<'_>, proto: &mut u8, frag: &mut u8, layout: &mut Layout) -> Option<()> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT_HEADER: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    while matches!(*proto, HOP_BY_HOP | ROUTING | FRAGMENT_HEADER | AUTHENTICATION | DESTINATION) {
        let header: &[u8; 8] = cursor.peek()?;
        let length = usize::from(header[1]);
        match *proto {
            FRAGMENT_HEADER => {
                layout.fragment.get_or_insert(cursor.at);
                cursor.skip(8)?;
                *proto = header[0];
                let offset_and_more = u16_at(header, 2);
                if offset_and_more != 0 {
                    *frag = FRAGMENT;
                    if offset_and_more & 0xfff8 != 0 {
                        *frag |= LATER_FRAGMENT;
                        *proto = FRAGMENT_HEADER;
                        return Some(());
                    }
                }
                continue;
            }
            AUTHENTICATION => cursor.skip((length + 2) * 4)?,
            ROUTING => {
                layout.routed |= header[3] > 0;
                cursor.skip((length + 1) * 8)?;
            }
            _ => cursor.skip((length + 1) * 8)?,
        }
        *proto = header[0];
    }
    Some(())
}

fn arp(cursor: &mut Cursor<'_>, key: &mut FlowKey) -> Option<()> {
    let header: &[u8; 28] = cursor.pull()?;
    // Only ARP for Ethernet and IPv4 is parsed.
    if header[..6] != [0, 1, 8, 0, 6, 4] {
        return None;
    }
    (key.nw_src, key.nw_dst) = (u32_at(header, 14), u32_at(header, 24));
    (key.arp_sha, key.arp_tha) = (mac_at(header, 8), mac_at(header, 18));
    key.nw_proto = u8::try_from(u16_at(header, 6)).unwrap_or(0);
    Some(())
}

fn transport(cursor: &mut Cursor<'_>, key: &mut FlowKey) -> Option<()> {
    match key.nw_proto {
        TCP => {
            let header: &[u8; 20] = cursor.peek()?;
            let length = usize::from(header[12] >> 4) * 4;
            if length < 20 || length > cursor.left() {
                return None;
            }
            (key.tp_src, key.tp_dst) = (u16_at(header, 0), u16_at(header, 2));
            key.tcp_flags = u16_at(header, 12) & 0x0fff;
        }
        UDP => {
            let header: &[u8; 8] = cursor.peek()?;
            (key.tp_src, key.tp_dst) = (u16_at(header, 0), u16_at(header, 2));
        }
        SCTP => {
            let header: &[u8; 12] = cursor.peek()?;
            (key.tp_src, key.tp_dst) = (u16_at(header, 0), u16_at(header, 2));
        }
        ICMP => {
            let header: &[u8; 8] = cursor.peek()?;
            (key.tp_src, key.tp_dst) = (header[0].into(), header[1].into());
        }
        IGMP => {
            let header: &[u8; 8] = cursor.peek()?;
            (key.tp_src, key.tp_dst) = (header[0].into(), header[1].into());
            key.nd_reserved = u32_at(header, 4);
        }
        ICMPV6 => {
            let header: &[u8; 8] = cursor.pull()?;
            (key.tp_src, key.tp_dst) = (header[0].into(), header[1].into());
            if matches!(header[..2], [135 | 136, 0]) {
                key.nd_reserved = u32_at(header, 4);
                neighbour_discovery(cursor, key)?;
            }
        }
        _ => {}
    }
    Some(())
}

/// The target and its options. A link-layer option given twice invalidates all of them.
fn neighbour_discovery(cursor: &mut Cursor<'_>, key: &mut FlowKey) -> Option<()> {
    key.nd_target = u128::from_be_bytes(*cursor.pull()?);
    while let Some(option) = cursor.peek::<8>() {
        let length = usize::from(option[1]) * 8;
        if length == 0 || length > cursor.left() {
            break;
        }
        if length == 8 && matches!(option[0], 1 | 2) {
            let place = if option[0] == 1 { &mut key.arp_sha } else { &mut key.arp_tha };
            if *place != 0 {
                (key.nd_target, key.arp_sha, key.arp_tha) = (0, 0, 0);
                break;
            }
            *place = mac_at(option, 2);
            if key.tcp_flags == 0 {
                key.tcp_flags = option[0].into();
            }
        }
        cursor.skip(length)?;
    }
    Some(())
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> u128 {
    bytes[at..at + N].iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    number::<2>(bytes, at) as u16
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    number::<4>(bytes, at) as u32
}

fn mac_at(bytes: &[u8], at: usize) -> u64 {
    number::<6>(bytes, at) as u64
}

fn u128_at(bytes: &[u8], at: usize) -> u128 {
    number::<16>(bytes, at)
}
