//! Ethernet, ARP and the IP headers.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{
    ArpEthIpv4Packet, ArpOperation, EtherType, Ethernet2Header, IpDscp, IpEcn, IpFragOffset, IpNumber,
    Ipv4Header, Ipv4Options, Ipv6FlowLabel, Ipv6Header,
};

use crate::Mac;

/// A frame with this payload.
pub fn ethernet(to: Mac, from: Mac, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let header = Ethernet2Header { source: from, destination: to, ether_type: EtherType(ethertype) };
    [&header.to_bytes(), payload].concat()
}

/// The frame with a VLAN tag after its addresses: 0x8100 or another ethertype, priority and VLAN.
pub fn tagged(frame: &[u8], ethertype: u16, control: u16) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(frame.len().min(12));
    [addresses, &ethertype.to_be_bytes(), &control.to_be_bytes(), rest].concat()
}

/// The fields of an ARP packet for Ethernet and IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// 1 for a request, 2 for a reply.
    pub operation: u16,
    /// The sender's addresses.
    pub sender: (Mac, Ipv4Addr),
    /// The target's addresses.
    pub target: (Mac, Ipv4Addr),
}

/// An ARP packet.
pub fn arp(arp: Arp) -> Vec<u8> {
    let packet = ArpEthIpv4Packet {
        operation: ArpOperation(arp.operation),
        sender_mac: arp.sender.0,
        sender_ipv4: arp.sender.1.octets(),
        target_mac: arp.target.0,
        target_ipv4: arp.target.1.octets(),
    };
    packet.to_bytes().to_vec()
}

/// An IPv4 header; its lengths and its checksum follow from the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ipv4 {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Identification, the same for all fragments of a packet.
    pub identification: u16,
    /// Flags and offset: 0x4000 is "don't fragment", 0x2000 "more fragments"; the offset counts 8 bytes.
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// Options: at most 40 bytes, a multiple of 4.
    pub options: Vec<u8>,
}

impl Ipv4 {
    /// An unfragmented packet with a time to live of 64 and without options.
    pub fn new(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8) -> Ipv4 {
        Ipv4 { src, dst, protocol, tos: 0, identification: 1, fragment: 0, ttl: 64, options: Vec::new() }
    }

    /// The packet with this payload.
    ///
    /// # Panics
    /// When the options do not fit into a header.
    pub fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let options = Ipv4Options::try_from(&self.options[..]).expect("options that fit into a header");
        let mut header = Ipv4Header {
            dscp: IpDscp::try_new(self.tos >> 2).expect("6 bits"),
            ecn: IpEcn::try_new(self.tos & 3).expect("2 bits"),
            total_len: (Ipv4Header::MIN_LEN + options.len() + payload.len()) as u16,
            identification: self.identification,
            dont_fragment: self.fragment & 0x4000 != 0,
            more_fragments: self.fragment & 0x2000 != 0,
            fragment_offset: IpFragOffset::try_new(self.fragment & 0x1fff).expect("13 bits"),
            time_to_live: self.ttl,
            protocol: IpNumber(self.protocol),
            header_checksum: 0,
            source: self.src.octets(),
            destination: self.dst.octets(),
            options,
        };
        header.header_checksum = header.calc_header_checksum();
        [&header.to_bytes(), payload].concat()
    }
}

/// An IPv6 header; its length follows from the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Protocol of the payload, or of the first extension header.
    pub next: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Flow label: 20 bits.
    pub label: u32,
    /// Hop limit.
    pub hops: u8,
}

impl Ipv6 {
    /// A packet with the hop limit 255 that neighbour discovery requires.
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, next: u8) -> Ipv6 {
        Ipv6 { src, dst, next, tos: 0, label: 0, hops: 255 }
    }

    /// The packet with this payload.
    ///
    /// # Panics
    /// When the flow label has more than 20 bits.
    pub fn packet(&self, payload: &[u8]) -> Vec<u8> {
        let header = Ipv6Header {
            traffic_class: self.tos,
            flow_label: Ipv6FlowLabel::try_new(self.label).expect("a flow label of 20 bits"),
            payload_length: payload.len() as u16,
            next_header: IpNumber(self.next),
            hop_limit: self.hops,
            source: self.src.octets(),
            destination: self.dst.octets(),
        };
        [&header.to_bytes(), payload].concat()
    }
}

/// The multicast address that neighbour solicitations for an address go to, and its Ethernet address.
pub fn solicited_node(target: Ipv6Addr) -> (Ipv6Addr, Mac) {
    let [.., a, b, c] = target.octets();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]));
    (group, [0x33, 0x33, 0xff, a, b, c])
}

/// Puts a random chain of IPv6 extension headers before a payload: hop-by-hop options (0), routing (43), destination
/// options (60), fragment (44) and authentication (51). Returns the first header's protocol number, and the bytes.
///
/// Another header follows with a probability of `percent`. `below` returns a random number below its argument.
pub fn random_extension_headers(
    protocol: u8,
    payload: Vec<u8>,
    percent: u64,
    mut below: impl FnMut(u64) -> u64,
) -> (u8, Vec<u8>) {
    let (mut next, mut packet) = (protocol, payload);
    while below(100) < percent {
        let (kind, header) = match below(5) {
            0 => (0, options(next, below(2))),
            1 => (43, options(next, below(2))),
            2 => (60, options(next, below(2))),
            3 => {
                let offset = match below(4) {
                    0 => [0, 0],
                    1 => [0, 1],
                    2 => [0, 8],
                    _ => [1, 1],
                };
                (44, [&[next, 0][..], &offset, &[0, 0, 0, 5]].concat())
            }
            _ => (51, [&[next, 1][..], &[0; 10]].concat()),
        };
        packet = [header, packet].concat();
        next = kind;
    }
    (next, packet)
}

/// A header of 8 bytes with options; of a routing header, the fourth byte is the number of segments left.
fn options(next: u8, segments_left: u64) -> Vec<u8> {
    vec![next, 0, 0, u8::from(segments_left != 0), 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BROADCAST, IPV4, VLAN, checksum};

    #[test]
    fn extension_headers_name_what_follows_them() {
        let mut draws = [0, 3, 2, 0, 1, 1, 99].into_iter();
        let below = |limit| draws.next().filter(|draw| *draw < limit).expect("a draw below the limit");
        let (first, packet) = random_extension_headers(crate::UDP, vec![7; 3], 20, below);
        assert_eq!(first, 43);
        assert_eq!(packet[..8], [44, 0, 0, 1, 0, 0, 0, 0], "routing, with a segment left");
        assert_eq!(packet[8..16], [crate::UDP, 0, 0, 8, 0, 0, 0, 5], "a fragment at offset 8");
        assert_eq!(packet[16..], [7; 3]);
        let none = random_extension_headers(crate::UDP, vec![7; 3], 20, |limit| limit - 1);
        assert_eq!(none, (crate::UDP, vec![7; 3]));
    }

    #[test]
    fn a_tag_goes_between_addresses_and_type() {
        let frame = ethernet([1; 6], [2; 6], IPV4, b"data");
        assert_eq!(tagged(&frame, VLAN, 11)[10..18], [2, 2, 0x81, 0, 0, 11, 8, 0]);
        assert_eq!(tagged(b"short", VLAN, 11), b"short\x81\0\0\x0b");
    }

    #[test]
    fn an_arp_request_has_the_bytes_of_the_rfc() {
        let (mac, request) = ([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into());
        let packet =
            arp(Arp { operation: 1, sender: (mac, request), target: ([0; 6], [10, 0, 0, 2].into()) });
        let wanted = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
        assert_eq!(packet, wanted);
        assert_eq!(ethernet(BROADCAST, mac, crate::ARP, &packet)[12..14], [8, 6]);
    }

    #[test]
    fn an_ipv4_header_has_every_field_and_a_checksum() {
        let mut header = Ipv4::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17);
        (header.tos, header.identification, header.fragment, header.ttl) = (0xb9, 7, 0x6003, 5);
        header.options = vec![1; 4];
        let packet = header.packet(b"abc");
        let wanted = [0x46, 0xb9, 0, 27, 0, 7, 0x60, 3, 5, 17];
        assert_eq!((&packet[..10], packet.len()), (&wanted[..], 27));
        assert_eq!(packet[12..], *b"\x0a\0\0\x01\x0a\0\0\x02\x01\x01\x01\x01abc");
        assert_eq!(checksum(&[&packet[..24]]), 0, "a header with its checksum sums to 0");
    }

    #[test]
    fn an_ipv6_header_has_every_field() {
        let mut header = Ipv6::new("fd00::1".parse().expect("an address"), Ipv6Addr::LOCALHOST, 17);
        (header.tos, header.label, header.hops) = (0xb9, 0x12345, 3);
        assert_eq!(header.packet(b"abc")[..8], [0x6b, 0x91, 0x23, 0x45, 0, 3, 17, 3]);
    }

    #[test]
    fn the_solicited_node_has_the_last_three_bytes() {
        let (group, mac) = solicited_node("fd00::aa:bbcc".parse().expect("an address"));
        assert_eq!(
            (group.to_string().as_str(), mac),
            ("ff02::1:ffaa:bbcc", [0x33, 0x33, 0xff, 0xaa, 0xbb, 0xcc])
        );
    }
}
