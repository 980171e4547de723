//! Questions for the MAC addresses of neighbours, whose answers flows learn.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{
    ARP, Arp, BROADCAST, ICMPV6, IPV6, Ipv6, Mac, SOLICITATION, arp, ethernet, icmpv6, link_layer, neighbour,
    solicited_node,
};

use crate::userdata::{Malformed, Reader, countable, put_ip};

/// Bits of the format.
const IS_IPV6: u8 = 0x01;

/// A question that the responder asks when its flow appears or a port that it watches changes, and then again and again, so that the answer
/// is known before it ages out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solicitation {
    /// The MAC address that asks, to which the answer goes.
    pub mac: Mac,
    /// The address that asks. It is of the same IP version as the target.
    pub from: IpAddr,
    /// The address whose MAC address is asked for.
    pub target: IpAddr,
    /// Seconds between two questions: at least 1.
    pub interval: u16,
    /// The numbers of the ports that are watched.
    pub watch: Vec<u32>,
}

impl Solicitation {
    /// The frame: an ARP request (RFC 826), or a neighbour solicitation to the group of the target (RFC 4861, 7.2.2); none if the addresses are
    /// of two IP versions.
    pub fn frame(&self) -> Option<Vec<u8>> {
        match (self.from, self.target) {
            (IpAddr::V4(from), IpAddr::V4(target)) => Some(self.request(from, target)),
            (IpAddr::V6(from), IpAddr::V6(target)) => Some(self.solicitation(from, target)),
            _ => None,
        }
    }

    fn request(&self, from: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
        const REQUEST: u16 = 1;
        let request = Arp { operation: REQUEST, sender: (self.mac, from), target: ([0; 6], target) };
        ethernet(BROADCAST, self.mac, ARP, &arp(request))
    }

    fn solicitation(&self, from: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
        const SOURCE_ADDRESS: u8 = 1;
        let (group, mac) = solicited_node(target);
        let message = neighbour(SOLICITATION, 0, target, &link_layer(SOURCE_ADDRESS, self.mac));
        let message = icmpv6(message, from, group);
        ethernet(mac, self.mac, IPV6, &Ipv6::new(from, group, ICMPV6).packet(&message))
    }

    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let watch = countable(&self.watch);
        out.extend_from_slice(&self.mac);
        out.push(if self.from.is_ipv6() { IS_IPV6 } else { 0 });
        out.extend_from_slice(&self.interval.to_be_bytes());
        out.push(watch.len() as u8);
        put_ip(out, self.from);
        put_ip(out, self.target);
        out.extend(watch.iter().flat_map(|port| port.to_be_bytes()));
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Solicitation, Malformed> {
        let (mac, flags, interval, watch) = (reader.mac()?, reader.u8()?, reader.u16()?, reader.u8()?);
        if flags & !IS_IPV6 != 0 {
            return Err(Malformed::Flags(flags));
        }
        let is_ipv6 = flags & IS_IPV6 != 0;
        let (from, target) = (reader.ip(is_ipv6)?, reader.ip(is_ipv6)?);
        let watch = reader.list(watch, Reader::u32)?;
        // 0 would be a question without end.
        Ok(Solicitation { mac, from, target, interval: interval.max(1), watch })
    }
}
