//! What a host says unasked, so that physical switches and neighbours learn where an address is.

use std::net::{Ipv4Addr, Ipv6Addr};

use frame_builder::{
    ADVERTISEMENT, ICMPV6, IPV6, Ipv6, Mac, announcement, ethernet, gratuitous_arp, icmpv6, link_layer,
    neighbour,
};

use crate::userdata::{Malformed, Reader, countable};

/// Bits of the format.
const ROUTER: u8 = 0x01;
/// Flags of a neighbour advertisement (RFC 4861, 4.4).
const IS_ROUTER: u8 = 0x80;
const OVERRIDE: u8 = 0x20;

/// An announcement that the responder repeats when its flow appears, and when a port that it watches changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The MAC address that is here.
    pub mac: Mac,
    /// Whether a router has the addresses. Machines take an address whose advertisement says otherwise off their list of routers (RFC 4861, 7.2.5).
    pub router: bool,
    /// The IPv4 addresses that the MAC address has.
    pub ipv4: Vec<Ipv4Addr>,
    /// The IPv6 addresses that the MAC address has.
    pub ipv6: Vec<Ipv6Addr>,
    /// The numbers of the ports that are watched.
    pub watch: Vec<u32>,
}

impl Announcement {
    /// How many frames it takes: one for each address, or one for the MAC address alone.
    pub fn frames(&self) -> usize {
        (self.ipv4.len() + self.ipv6.len()).max(1)
    }

    /// One of the frames: gratuitous ARP for an IPv4 address (RFC 5227, 3), an unsolicited neighbour advertisement for an IPv6 address
    /// (RFC 4861, 7.2.6), or RARP if there is no address; none behind the last one.
    pub fn frame(&self, number: usize) -> Option<Vec<u8>> {
        if self.ipv4.is_empty() && self.ipv6.is_empty() {
            return (number == 0).then(|| announcement(self.mac));
        }
        if let Some(address) = self.ipv4.get(number) {
            return Some(gratuitous_arp(self.mac, *address));
        }
        let address = self.ipv6.get(number.checked_sub(self.ipv4.len())?)?;
        Some(self.advertisement(*address))
    }

    fn advertisement(&self, address: Ipv6Addr) -> Vec<u8> {
        const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        const TO: Mac = [0x33, 0x33, 0, 0, 0, 1];
        const TARGET_LINK_LAYER: u8 = 2;
        let flags = if self.router { IS_ROUTER | OVERRIDE } else { OVERRIDE };
        let message = neighbour(ADVERTISEMENT, flags, address, &link_layer(TARGET_LINK_LAYER, self.mac));
        let message = icmpv6(message, address, ALL_NODES);
        ethernet(TO, self.mac, IPV6, &Ipv6::new(address, ALL_NODES, ICMPV6).packet(&message))
    }

    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (ipv4, ipv6, watch) = (countable(&self.ipv4), countable(&self.ipv6), countable(&self.watch));
        out.extend_from_slice(&self.mac);
        out.push(if self.router { ROUTER } else { 0 });
        out.extend_from_slice(&[ipv4.len() as u8, ipv6.len() as u8, watch.len() as u8]);
        out.extend(ipv4.iter().flat_map(Ipv4Addr::octets));
        out.extend(ipv6.iter().flat_map(Ipv6Addr::octets));
        out.extend(watch.iter().flat_map(|port| port.to_be_bytes()));
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Announcement, Malformed> {
        let (mac, flags) = (reader.mac()?, reader.u8()?);
        if flags & !ROUTER != 0 {
            return Err(Malformed::Flags(flags));
        }
        let [ipv4, ipv6, watch] = reader.take()?;
        Ok(Announcement {
            mac,
            router: flags & ROUTER != 0,
            ipv4: reader.list(ipv4, Reader::ipv4)?,
            ipv6: reader.list(ipv6, Reader::ipv6)?,
            watch: reader.list(watch, Reader::u32)?,
        })
    }
}
