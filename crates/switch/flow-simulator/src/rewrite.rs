//! Writes fields back to bytes: the fields that differ between two keys, and the checksums over them.
//!
//! As in the switch, checksums are updated incrementally (RFC 1624), not recomputed: a wrong one stays wrong, and the
//! zero of a UDP packet without a checksum stays zero. The exception is a changed option type or flag word of neighbour
//! discovery, for which Open vSwitch computes the whole checksum.

use openflow_rs::{PortNo, Prerequisite};

use crate::extract::{Layout, VlanLimit, extract};
use crate::key::*;

/// The bytes of a packet in processing, with their current fields.
///
/// Fields are written when the packet leaves by a port, on top of earlier writes, as in the datapath. This is visible:
/// a tag that is popped for one port and pushed again for the next loses the bit that the switch uses for "present".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    layout: Layout,
    key: FlowKey,
}

impl Frame {
    /// Reads a packet.
    pub(crate) fn new(bytes: Vec<u8>, in_port: PortNo, limit: VlanLimit) -> Frame {
        let (key, layout) = extract(&bytes, in_port, limit);
        Frame { bytes, layout, key }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The length that `check_pkt_larger` compares: without the padding behind an IP packet.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len() - self.layout.padding
    }

    pub(crate) fn key(&self) -> &FlowKey {
        &self.key
    }

    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    /// The network header, and the transport header with its payload.
    pub(crate) fn headers_mut(&mut self) -> Option<(&mut [u8], &mut [u8])> {
        let (l3, l4, end) = (self.layout.l3?, self.layout.l4?, self.layout.end);
        self.bytes.get_mut(l3..end)?.split_at_mut_checked(l4 - l3)
    }

    /// The same bytes, with these fields to compare later ones with.
    pub(crate) fn with_key(self, key: FlowKey) -> Frame {
        Frame { key, ..self }
    }

    /// The packet as a switch reads it that gets these bytes.
    pub(crate) fn read_again(self, limit: VlanLimit) -> Frame {
        Frame::new(self.bytes, PortNo(self.key.in_port), limit)
    }

    /// Writes the fields of `to` that differ from the bytes.
    pub(crate) fn commit(&mut self, to: &FlowKey) {
        if *to == self.key || self.bytes.len() < 14 {
            return;
        }
        let from = std::mem::replace(&mut self.key, to.clone());
        self.put(0, &to.eth_dst.to_be_bytes()[2..]);
        self.put(6, &to.eth_src.to_be_bytes()[2..]);
        // Without a protocol nothing more is written: the header was missing or not understood. However, an ARP
        // operation that was not understood can be set.
        let understood = self.layout.l4.is_some() && from.nw_proto != 0;
        match from.eth_type {
            _ if to.nw_proto == 0 => {}
            ETH_IPV4 if understood => {
                self.ipv4(&from, to);
                self.transport(&from, to);
            }
            ETH_IPV6 if understood => {
                self.ipv6(&from, to);
                self.transport(&from, to);
            }
            ETH_ARP => self.arp(&from, to),
            _ => {}
        }
        self.tags(&from, to);
    }

    fn put(&mut self, at: usize, value: &[u8]) {
        self.bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// Writes at an even distance from the start of a checksummed header, and changes the checksum by the difference.
    fn put_summed(&mut self, at: usize, value: &[u8], checksum: Option<usize>) {
        let old = self.bytes[at..at + value.len()].to_vec();
        if old == value {
            return;
        }
        self.put(at, value);
        if let Some(checksum) = checksum {
            let sum = u16::from_be_bytes([self.bytes[checksum], self.bytes[checksum + 1]]);
            self.put(checksum, &adjusted(sum, &old, value).to_be_bytes());
        }
    }

    fn l4_size(&self) -> usize {
        self.layout.l4.map_or(0, |l4| self.layout.end - l4)
    }

    /// The position of the checksum that also covers addresses.
    fn pseudo_checksum(&self, proto: u8) -> Option<usize> {
        let (l4, size) = (self.layout.l4?, self.l4_size());
        match proto {
            TCP if size >= 20 => Some(l4 + 16),
            UDP if size >= 8 && self.bytes[l4 + 6..l4 + 8] != [0, 0] => Some(l4 + 6),
            ICMPV6 if size >= 4 => Some(l4 + 2),
            _ => None,
        }
    }

    /// Writes an address that an inner checksum also covers.
    fn put_address(&mut self, at: usize, value: &[u8], proto: u8) {
        let old = self.bytes[at..at + value.len()].to_vec();
        if let Some(place) = self.pseudo_checksum(proto)
            && old != value
        {
            let sum = u16::from_be_bytes([self.bytes[place], self.bytes[place + 1]]);
            self.put_checksum(place, adjusted(sum, &old, value), proto);
        }
        self.put(at, value);
    }

    /// Writes a checksum. UDP writes a zero sum as 0xffff, because zero means no checksum.
    fn put_checksum(&mut self, place: usize, sum: u16, proto: u8) {
        let sum = if proto == UDP && sum == 0 { 0xffff } else { sum };
        self.put(place, &sum.to_be_bytes());
    }

    fn ipv4(&mut self, from: &FlowKey, to: &FlowKey) {
        let Some(l3) = self.layout.l3 else { return };
        let proto = if from.nw_proto == ICMPV6 { 0 } else { from.nw_proto };
        for (at, old, new) in [(12, from.nw_src, to.nw_src), (16, from.nw_dst, to.nw_dst)] {
            if old != new {
                // The bytes differ from the old field if they were translated.
                let bytes = self.bytes[l3 + at..l3 + at + 4].to_vec();
                self.put_address(l3 + at, &new.to_be_bytes(), proto);
                self.adjust(l3 + 10, &bytes, &new.to_be_bytes());
            }
        }
        let (version, proto) = (self.bytes[l3], self.bytes[l3 + 9]);
        self.put_summed(l3, &[version, to.nw_tos], Some(l3 + 10));
        self.put_summed(l3 + 8, &[to.nw_ttl, proto], Some(l3 + 10));
    }

    fn adjust(&mut self, checksum: usize, old: &[u8], new: &[u8]) {
        let sum = u16::from_be_bytes([self.bytes[checksum], self.bytes[checksum + 1]]);
        self.put(checksum, &adjusted(sum, old, new).to_be_bytes());
    }

    fn ipv6(&mut self, from: &FlowKey, to: &FlowKey) {
        let Some(l3) = self.layout.l3 else { return };
        let proto = from.nw_proto;
        if from.ipv6_src != to.ipv6_src {
            self.put_address(l3 + 8, &to.ipv6_src.to_be_bytes(), proto);
        }
        if from.ipv6_dst != to.ipv6_dst {
            if self.layout.routed {
                self.put(l3 + 24, &to.ipv6_dst.to_be_bytes());
            } else {
                self.put_address(l3 + 24, &to.ipv6_dst.to_be_bytes(), proto);
            }
        }
        let version = u32::from(self.bytes[l3] >> 4) << 28;
        let first = version | u32::from(to.nw_tos) << 20 | to.ipv6_label;
        self.put(l3, &first.to_be_bytes());
        self.put(l3 + 7, &[to.nw_ttl]);
    }

    fn arp(&mut self, from: &FlowKey, to: &FlowKey) {
        let Some(l3) = self.layout.l3.filter(|l3| self.bytes.len() >= l3 + 28) else { return };
        // One by one, because parts that were not understood were read as 0 and must not be written back.
        if from.nw_proto != to.nw_proto {
            self.put(l3 + 6, &u16::from(to.nw_proto).to_be_bytes());
        }
        for (at, old, new) in [(8, from.arp_sha, to.arp_sha), (18, from.arp_tha, to.arp_tha)] {
            if old != new {
                self.put(l3 + at, &new.to_be_bytes()[2..]);
            }
        }
        for (at, old, new) in [(14, from.nw_src, to.nw_src), (24, from.nw_dst, to.nw_dst)] {
            if old != new {
                self.put(l3 + at, &new.to_be_bytes());
            }
        }
    }

    fn transport(&mut self, from: &FlowKey, to: &FlowKey) {
        let Some(l4) = self.layout.l4.filter(|_| from.nw_frag & LATER_FRAGMENT == 0) else { return };
        let had_ports = from.tp_src != 0 || from.tp_dst != 0;
        let size = self.l4_size();
        match from.nw_proto {
            TCP if had_ports && size >= 20 => self.ports(l4, from, to, Some(l4 + 16)),
            UDP if had_ports && size >= 8 => {
                let checksum = self.pseudo_checksum(UDP);
                self.ports(l4, from, to, checksum);
                if checksum.is_some() && self.bytes[l4 + 6..l4 + 8] == [0, 0] {
                    self.put(l4 + 6, &[0xff, 0xff]);
                }
            }
            ICMP if from.eth_type == ETH_IPV4 && size >= 8 => self.icmp(l4, to),
            ICMPV6 if from.eth_type == ETH_IPV6 && size >= 8 => {
                let is_nd = to.meets(Prerequisite::Nd) && size >= 24;
                if is_nd {
                    self.neighbour_discovery(l4, from, to);
                }
                self.icmp(l4, to);
            }
            _ => {}
        }
    }

    fn ports(&mut self, l4: usize, from: &FlowKey, to: &FlowKey, checksum: Option<usize>) {
        for (at, old, new) in [(l4, from.tp_src, to.tp_src), (l4 + 2, from.tp_dst, to.tp_dst)] {
            if old != new {
                self.put_summed(at, &new.to_be_bytes(), checksum);
            }
        }
    }

    fn icmp(&mut self, l4: usize, to: &FlowKey) {
        self.put_summed(l4, &[to.tp_src as u8, to.tp_dst as u8], Some(l4 + 2));
    }

    fn neighbour_discovery(&mut self, l4: usize, from: &FlowKey, to: &FlowKey) {
        if (from.nd_reserved, from.tcp_flags) != (to.nd_reserved, to.tcp_flags) {
            self.put(l4 + 4, &to.nd_reserved.to_be_bytes());
            // The byte where an option would begin, whatever option is there, and however little of it.
            if self.l4_size() > 24 {
                self.bytes[l4 + 24] = to.tcp_flags as u8;
            }
            self.sum_icmpv6(l4);
        }
        if from.nd_target != to.nd_target {
            self.put_summed(l4 + 8, &to.nd_target.to_be_bytes(), Some(l4 + 2));
        }
        let mut at = l4 + 24;
        while at + 8 <= self.layout.end && self.bytes[at + 1] != 0 {
            let (old, new) = match self.bytes[at..at + 2] {
                [1, 1] => (from.arp_sha, to.arp_sha),
                [2, 1] => (from.arp_tha, to.arp_tha),
                _ => {
                    at += usize::from(self.bytes[at + 1]) * 8;
                    continue;
                }
            };
            // If an option occurs twice, its address is not the one that was read.
            if old != new {
                self.put_summed(at + 2, &new.to_be_bytes()[2..], Some(l4 + 2));
            }
            break;
        }
    }

    /// Recomputes the checksum, with the current addresses. With IPv6 extension headers the switch gets it wrong, and
    /// so does this function: it uses length and protocol of the IPv6 header.
    fn sum_icmpv6(&mut self, l4: usize) {
        let Some(l3) = self.layout.l3 else { return };
        self.put(l4 + 2, &[0, 0]);
        let header = &self.bytes[l3..l3 + 40];
        let pseudo = [&header[8..], &header[4..6], &[0, header[6]]].concat();
        let sum = !folded(ones_sum(&pseudo) + ones_sum(&self.bytes[l4..self.layout.end]));
        self.put(l4 + 2, &sum.to_be_bytes());
    }

    /// Removes surplus tags from the outside, and adds missing ones.
    fn tags(&mut self, from: &FlowKey, to: &FlowKey) {
        let (old, new) = (from.tags(), to.tags());
        let common = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
        let removed = 4 * (old.len() - common);
        let mut added = Vec::new();
        for tag in &new[..new.len() - common] {
            added.extend(tag.tpid.to_be_bytes());
            added.extend((tag.tci & !VLAN_PRESENT).to_be_bytes());
        }
        let shifted = |at: usize| at + added.len() - removed;
        self.layout.l3 = self.layout.l3.map(shifted);
        self.layout.l4 = self.layout.l4.map(shifted);
        self.layout.end = shifted(self.layout.end);
        self.bytes.splice(12..12 + removed, added);
    }
}

/// The checksum after a change of words that it covers.
pub(crate) fn adjusted(sum: u16, old: &[u8], new: &[u8]) -> u16 {
    let complement: Vec<u8> = old.iter().map(|byte| !byte).collect();
    !folded(u32::from(!sum) + ones_sum(&complement) + ones_sum(new))
}

/// The sum of 16-bit words; an odd last byte is the high byte of a word.
fn ones_sum(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | word.get(1).copied().map_or(0, u32::from))
        .fold(0u32, |sum, word| folded(sum + word).into())
}

/// The sum of the words of several parts; all but the last have an even number of bytes.
pub(crate) fn ones_sum_of(parts: &[&[u8]]) -> u16 {
    parts.iter().fold(0, |sum, part| folded(u32::from(sum) + ones_sum(part)))
}

fn folded(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_random::Random;

    /// Random bytes that begin like known protocols, so that all parsers and writers are reached.
    fn bytes(random: &mut Random) -> Vec<u8> {
        let kinds: [&[u8]; 7] = [
            &[0x08, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 9, 6],
            &[0x81, 0, 0, 7, 0x08, 0, 0x46, 0, 0, 60, 0, 0, 0, 0, 9, 17],
            &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 0x08, 0, 0x46, 0, 0, 60, 0, 0, 0, 0, 9, 17],
            &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 9],
            &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 48, 43, 9],
            &[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1],
            &[0, 9, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0],
        ];
        let mut bytes = [&[2; 12][..], *random.pick(&kinds)].concat();
        bytes.extend((0..random.below(80)).map(|_| *random.pick(&[0, 1, 2, 44, 60, 135, 136, 255])));
        bytes.truncate(random.below(120) as usize);
        bytes
    }

    #[test]
    fn any_bytes_are_read_and_take_the_fields_of_any_others() {
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let (one, other) = (bytes(&mut random), bytes(&mut random));
            let limit = VlanLimit::new(random.below(3) as u8);
            let mut frame = Frame::new(one.clone(), PortNo(1), limit);
            let mut key = Frame::new(other, PortNo(2), limit).key().clone();
            // No action writes it.
            key.eth_type = frame.key().eth_type;
            frame.commit(&frame.key().clone());
            assert_eq!(frame.bytes(), one, "nothing changed");
            if random.chance(50) {
                key.push_vlan(0x88a8);
            }
            frame.commit(&key);
            frame.commit(&Frame::new(one, PortNo(1), limit).key().clone());
        }
    }

    #[test]
    fn a_checksum_of_zero_in_udp_means_none_and_none_stays() {
        let mut packet = vec![2; 12];
        packet.extend([
            8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 0, 8, 0, 0,
        ]);
        for (checksum, address, expected) in [
            ([0, 0], 0x0b00_0001, [0, 0]),
            // The sum would become 0, which is written as ffff.
            ([1, 0], 0x0b00_0001, [0xff, 0xff]),
            ([2, 0], 0x0b00_0001, [1, 0]),
        ] {
            packet[40..42].copy_from_slice(&checksum);
            let mut frame = Frame::new(packet.clone(), PortNo(1), VlanLimit::default());
            let mut key = frame.key().clone();
            key.nw_src = address;
            frame.commit(&key);
            assert_eq!(frame.bytes()[40..42], expected);
        }
    }
}
