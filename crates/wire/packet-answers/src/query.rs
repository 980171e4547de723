//! Queries of multicast routers, by which switches that snoop learn who listens (RFC 3376; RFC 3810).

use std::net::{Ipv4Addr, Ipv6Addr};

use frame_builder::{ICMPV6, IPV4, IPV6, Ipv4, Ipv6, Mac, checksum, ethernet, icmpv6};

use crate::headers::link_local;
use crate::userdata::{Malformed, Reader};

/// Bits of the format.
const IGMP: u8 = 0x01;
const MLD: u8 = 0x02;

/// Seconds between two queries (RFC 3376, 8.2; RFC 3810, 9.2: Query Interval).
pub const QUERY_INTERVAL: u16 = 125;
/// How many queries may be lost before a machine counts as gone (RFC 3376, 8.1; RFC 3810, 9.1: Robustness Variable).
const ROBUSTNESS: u8 = 2;

/// General queries that the responder sends every few minutes, and soon after their flow appears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The MAC address of the querier.
    pub mac: Mac,
    /// The source of queries of IGMP; none to send none.
    pub igmp: Option<Ipv4Addr>,
    /// Whether queries of MLD are sent, whose source is the link-local address that the MAC address gives ([`link_local`]).
    pub mld: bool,
    /// Seconds between two queries: at least 1.
    pub interval: u16,
}

impl Query {
    /// How many frames it takes: one for each protocol.
    pub fn frames(&self) -> usize {
        usize::from(self.igmp.is_some()) + usize::from(self.mld)
    }

    /// One of the frames: a query of `IGMPv3` (RFC 3376, 4.1), which older hosts read as one of their version, or of `MLDv2` (RFC 3810, 5.1);
    /// none behind the last one.
    pub fn frame(&self, number: usize) -> Option<Vec<u8>> {
        let igmp = self.igmp.map(|from| self.of_igmp(from));
        let mld = self.mld.then(|| self.of_mld());
        igmp.into_iter().chain(mld).nth(number)
    }

    fn of_igmp(&self, from: Ipv4Addr) -> Vec<u8> {
        const PROTOCOL: u8 = 2;
        const QUERY: u8 = 0x11;
        const ALL_HOSTS: (Ipv4Addr, Mac) = (Ipv4Addr::new(224, 0, 0, 1), [1, 0, 0x5e, 0, 0, 1]);
        /// Internetwork control (RFC 3376, 4).
        const TOS: u8 = 0xc0;
        const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];
        /// A unit of the time in which hosts answer is a tenth of a second (RFC 3376, 4.1.1).
        const UNIT: u16 = 100;
        let within = (self.answered_within() / UNIT) as u8;
        let mut message =
            [&[QUERY, within, 0, 0][..], &[0; 4], &[ROBUSTNESS, code(self.interval), 0, 0]].concat();
        let sum = checksum(&[&message]).to_be_bytes();
        message.splice(2..4, sum);
        let header = Ipv4 {
            tos: TOS,
            identification: 0,
            ttl: 1,
            options: ROUTER_ALERT.to_vec(),
            ..Ipv4::new(from, ALL_HOSTS.0, PROTOCOL)
        };
        ethernet(ALL_HOSTS.1, self.mac, IPV4, &header.packet(&message))
    }

    fn of_mld(&self) -> Vec<u8> {
        const QUERY: u8 = 130;
        const HOP_BY_HOP: u8 = 0;
        const ALL_NODES: (Ipv6Addr, Mac) =
            (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), [0x33, 0x33, 0, 0, 0, 1]);
        /// A message of MLD is in the packet (RFC 2711, 2.1), and padding.
        const ROUTER_ALERT: [u8; 8] = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];
        let from = link_local(self.mac);
        let within = self.answered_within().to_be_bytes();
        let head = [&[QUERY, 0, 0, 0][..], &within, &[0; 2], &[0; 16]].concat();
        let message = [&head[..], &[ROBUSTNESS, code(self.interval), 0, 0]].concat();
        let message = icmpv6(message, from, ALL_NODES.0);
        let header = Ipv6 { hops: 1, ..Ipv6::new(from, ALL_NODES.0, HOP_BY_HOP) };
        let payload = [&ROUTER_ALERT[..], &message].concat();
        ethernet(ALL_NODES.1, self.mac, IPV6, &header.packet(&payload))
    }

    /// Milliseconds in which hosts answer: less than the interval (RFC 3376, 8.3; RFC 3810, 9.3: Query Response Interval).
    fn answered_within(&self) -> u16 {
        const USUAL: u16 = 10_000;
        USUAL.min(self.interval.saturating_mul(1000) / 2)
    }

    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.mac);
        out.push(self.igmp.map_or(0, |_| IGMP) | if self.mld { MLD } else { 0 });
        out.extend_from_slice(&self.interval.to_be_bytes());
        out.extend(self.igmp.iter().flat_map(Ipv4Addr::octets));
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Query, Malformed> {
        let (mac, flags, interval) = (reader.mac()?, reader.u8()?, reader.u16()?);
        if flags & !(IGMP | MLD) != 0 {
            return Err(Malformed::Flags(flags));
        }
        let igmp = (flags & IGMP != 0).then(|| reader.ipv4()).transpose()?;
        // 0 would be a query without end.
        Ok(Query { mac, igmp, mld: flags & MLD != 0, interval: interval.max(1) })
    }
}

/// The code of a number of seconds, or of the next smaller one that has a code (RFC 3376, 4.1.7; RFC 3810, 5.1.9): from 128 on, an exponent
/// of three bits and a mantissa of four.
fn code(seconds: u16) -> u8 {
    const FIRST_WITH_EXPONENT: u16 = 128;
    const LARGEST: u16 = 31_744;
    if seconds < FIRST_WITH_EXPONENT {
        return seconds as u8;
    }
    let seconds = seconds.min(LARGEST);
    // The mantissa has an implied fifth bit, which is set.
    let exponent = (seconds.ilog2() - 7) as u8;
    0x80 | exponent << 4 | (seconds >> (exponent + 3)) as u8 & 0x0f
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_the_codes_of_the_standard() {
        let seconds = |code: u8| -> u32 {
            let (exponent, mantissa) = (code >> 4 & 7, code & 0x0f);
            if code < 128 { code.into() } else { u32::from(mantissa | 0x10) << (exponent + 3) }
        };
        for interval in 0..=u16::MAX {
            let (this, next) = (code(interval), code(interval).checked_add(1));
            assert!(seconds(this) <= interval.into(), "{interval}");
            assert!(next.is_none_or(|next| seconds(next) > interval.into()), "{interval}");
        }
        assert_eq!([125, 128, 250, 31_744, 65_535].map(code), [125, 0x80, 0x8f, 0xff, 0xff]);
    }
}
