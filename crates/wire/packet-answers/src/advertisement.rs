//! Router advertisements (RFC 4861, 4.2 and 6.2).

use std::net::{IpAddr, Ipv6Addr};

use frame_builder::{ICMPV6, IPV6, Ipv6, Mac, checksum, ethernet, icmpv6, link_layer};

use crate::headers::{is_group, is_host, link_local};
use crate::received::Received;
use crate::userdata::{Malformed, Reader, countable};
use crate::{Answer, Answered, Receiver, Silence};

/// The longest advertisement, so that it needs no fragments anywhere: the smallest MTU of IPv6 (RFC 8200, 5).
const LONGEST: usize = 1280;
const IPV6_HEADER_LEN: usize = 40;
/// The hop limit that machines are to use (RFC 4861, 6.2.1: the value of "Assigned Numbers").
pub const HOP_LIMIT: u8 = 64;
/// Seconds between two unsolicited advertisements at most (RFC 4861, 6.2.1: `MaxRtrAdvInterval`).
pub const INTERVAL_MAX: u32 = 600;
/// Seconds for which machines use a DNS server: three times the interval, so that two advertisements may be lost (RFC 8106, 5.1).
pub const DNS_LIFETIME: u32 = 3 * INTERVAL_MAX;
/// Seconds for which addresses of a prefix are valid: 30 days (RFC 4861, 6.2.1: `AdvValidLifetime`).
pub const PREFIX_VALID: u32 = 2_592_000;
/// Seconds for which addresses of a prefix are preferred: 7 days (RFC 4861, 6.2.1: `AdvPreferredLifetime`).
pub const PREFIX_PREFERRED: u32 = 604_800;

const MANAGED: u8 = 0x80;
const OTHER: u8 = 0x40;
const PREFERENCE: u8 = 0x18;
/// Bits of the format of instructions alone.
const AUTONOMOUS: u8 = 0x01;
const PERIODIC: u8 = 0x02;

/// How much a machine with several routers prefers one (RFC 4191, 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Preference {
    /// Before all others.
    High,
    /// As routers that say nothing.
    #[default]
    Medium,
    /// Only where no other router is.
    Low,
}

impl Preference {
    /// The two bits at their place among the flags.
    fn flags(self) -> u8 {
        match self {
            Preference::High => 0x08,
            Preference::Medium => 0x00,
            Preference::Low => 0x18,
        }
    }
}

/// What a router says of itself and its network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertisement {
    /// The MAC address of the router's port. The source is the link-local address that it gives ([`link_local`]).
    pub mac: Mac,
    /// Addresses are available by `DHCPv6`.
    pub managed: bool,
    /// Other configuration is available by `DHCPv6`.
    pub other: bool,
    /// Machines make addresses of their own in prefixes of 64 bits (RFC 4862), which is the length that they can do so in.
    pub autonomous: bool,
    /// Seconds for which the router is a default router; 0 if it is none.
    pub lifetime: u16,
    /// The preference of the default router.
    pub preference: Preference,
    /// The MTU of the network; 0 to say nothing of it.
    pub mtu: u16,
    /// The prefixes of the network, with their lengths. Their addresses are reached without a router.
    pub prefixes: Vec<(Ipv6Addr, u8)>,
    /// The DNS servers (RFC 8106, 5.1).
    pub dns: Vec<Ipv6Addr>,
    /// It is sent to all machines from time to time, and does not answer a packet.
    pub periodic: bool,
}

impl Advertisement {
    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (prefixes, dns) = (countable(&self.prefixes), countable(&self.dns));
        out.extend_from_slice(&self.mac);
        let own = (if self.autonomous { AUTONOMOUS } else { 0 }) | if self.periodic { PERIODIC } else { 0 };
        out.push(self.flags() | self.preference.flags() | own);
        out.extend_from_slice(&self.lifetime.to_be_bytes());
        out.extend_from_slice(&self.mtu.to_be_bytes());
        out.extend_from_slice(&[prefixes.len() as u8, dns.len() as u8]);
        for (prefix, bits) in prefixes {
            out.extend_from_slice(&prefix.octets());
            out.push(*bits);
        }
        out.extend(dns.iter().flat_map(Ipv6Addr::octets));
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Advertisement, Malformed> {
        let (mac, flags) = (reader.mac()?, reader.u8()?);
        let preferences = [Preference::High, Preference::Medium, Preference::Low];
        let preference = preferences.into_iter().find(|one| one.flags() == flags & PREFERENCE);
        let is_known = flags & !(MANAGED | OTHER | PREFERENCE | AUTONOMOUS | PERIODIC) == 0;
        let preference = preference.filter(|_| is_known).ok_or(Malformed::Flags(flags))?;
        let (lifetime, mtu) = (reader.u16()?, reader.u16()?);
        let [prefixes, dns] = reader.take()?;
        Ok(Advertisement {
            mac,
            managed: flags & MANAGED != 0,
            other: flags & OTHER != 0,
            autonomous: flags & AUTONOMOUS != 0,
            lifetime,
            preference,
            mtu,
            prefixes: reader.list(prefixes, |reader| Ok((reader.ipv6()?, reader.prefix(128)?)))?,
            dns: reader.list(dns, Reader::ipv6)?,
            periodic: flags & PERIODIC != 0,
        })
    }

    /// The answer to a router solicitation.
    ///
    /// It goes to the machine that asks, or to all where that has no address yet (RFC 4861, 6.2.6). It is not delayed at random, as it would
    /// be so that several routers do not answer at once: each answer goes to one machine, and its switch delivers it alone.
    pub(crate) fn answer(&self, frame: &[u8]) -> Result<Answer, Silence> {
        let received = Received::read(frame)?;
        let (from, mac) = check(&received)?;
        if mac == self.mac || from == link_local(self.mac) {
            return Err(Silence::FromItself);
        }
        let frame = if from == Ipv6Addr::UNSPECIFIED {
            self.unsolicited()
        } else {
            self.frame(mac, from, self.lifetime, DNS_LIFETIME)
        };
        Ok(Answer::new(frame, Receiver::Mac(mac), Answered::RouterAdvertisement))
    }

    /// The frame to all machines of the network, which a router sends from time to time (RFC 4861, 6.2.4).
    ///
    /// Prefixes and DNS servers that an advertisement of 1,280 bytes has no room for are left out: those after the first 37 prefixes, or
    /// 75 servers without any.
    pub fn unsolicited(&self) -> Vec<u8> {
        self.to_all(self.lifetime, DNS_LIFETIME)
    }

    /// The frame by which the router says that it goes: it is a default router no longer (RFC 4861, 6.2.5), and its DNS servers are not to
    /// be used (RFC 8106, 5.1). Addresses stay valid, because another router may be there.
    pub fn farewell(&self) -> Vec<u8> {
        self.to_all(0, 0)
    }

    fn to_all(&self, lifetime: u16, dns_lifetime: u32) -> Vec<u8> {
        const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        const ALL_NODES_MAC: Mac = [0x33, 0x33, 0, 0, 0, 1];
        self.frame(ALL_NODES_MAC, ALL_NODES, lifetime, dns_lifetime)
    }

    fn flags(&self) -> u8 {
        (if self.managed { MANAGED } else { 0 }) | if self.other { OTHER } else { 0 }
    }

    fn frame(&self, mac: Mac, to: Ipv6Addr, lifetime: u16, dns_lifetime: u32) -> Vec<u8> {
        let from = link_local(self.mac);
        let message = icmpv6(self.message(lifetime, dns_lifetime), from, to);
        ethernet(mac, self.mac, IPV6, &Ipv6::new(from, to, ICMPV6).packet(&message))
    }

    /// The message without its checksum (RFC 4861, 4.2).
    fn message(&self, lifetime: u16, dns_lifetime: u32) -> Vec<u8> {
        const ADVERTISEMENT: u8 = 134;
        const SOURCE_ADDRESS: u8 = 1;
        // What is no default router has no preference as one (RFC 4191, 2.2).
        let preference = if lifetime == 0 { Preference::Medium } else { self.preference };
        let mut out = vec![ADVERTISEMENT, 0, 0, 0, HOP_LIMIT, self.flags() | preference.flags()];
        out.extend_from_slice(&lifetime.to_be_bytes());
        // Reachable time and retransmission timer: not specified by this router.
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&link_layer(SOURCE_ADDRESS, self.mac));
        if self.mtu != 0 {
            out.extend_from_slice(&mtu_option(self.mtu));
        }
        for (prefix, bits) in &self.prefixes {
            let option = self.prefix_option(*prefix, *bits);
            if out.len() + option.len() <= LONGEST - IPV6_HEADER_LEN {
                out.extend_from_slice(&option);
            }
        }
        let room = (LONGEST - IPV6_HEADER_LEN).saturating_sub(out.len());
        out.extend_from_slice(&dns_option(&self.dns, dns_lifetime, room));
        out
    }

    /// Prefix information (RFC 4861, 4.6.2).
    fn prefix_option(&self, prefix: Ipv6Addr, bits: u8) -> Vec<u8> {
        const KIND: u8 = 3;
        const ON_LINK: u8 = 0x80;
        const AUTONOMOUS: u8 = 0x40;
        let flags = ON_LINK | if self.autonomous && bits == 64 { AUTONOMOUS } else { 0 };
        let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
        let network = Ipv6Addr::from_bits(prefix.to_bits() & mask);
        let lifetimes = [PREFIX_VALID.to_be_bytes(), PREFIX_PREFERRED.to_be_bytes()].concat();
        [&[KIND, 4, bits, flags][..], &lifetimes, &[0; 4], &network.octets()].concat()
    }
}

/// The MTU of the network (RFC 4861, 4.6.4).
fn mtu_option(mtu: u16) -> Vec<u8> {
    const KIND: u8 = 5;
    [&[KIND, 1, 0, 0][..], &u32::from(mtu).to_be_bytes()].concat()
}

/// As many DNS servers as have room, or nothing (RFC 8106, 5.1).
fn dns_option(servers: &[Ipv6Addr], lifetime: u32, room: usize) -> Vec<u8> {
    const KIND: u8 = 25;
    const HEAD_LEN: usize = 8;
    const ADDRESS_LEN: usize = 16;
    let most = room.saturating_sub(HEAD_LEN) / ADDRESS_LEN;
    let servers = servers.get(..most).unwrap_or(servers);
    if servers.is_empty() {
        return Vec::new();
    }
    let units = (1 + 2 * servers.len()) as u8;
    let mut out = [&[KIND, units, 0, 0][..], &lifetime.to_be_bytes()].concat();
    out.extend(servers.iter().flat_map(Ipv6Addr::octets));
    out
}

/// The addresses of a machine that solicits advertisements, if the solicitation is valid (RFC 4861, 6.1.1).
fn check(received: &Received<'_>) -> Result<(Ipv6Addr, Mac), Silence> {
    const SOLICITATION: u8 = 133;
    const SOURCE_ADDRESS: u8 = 1;
    let (IpAddr::V6(from), IpAddr::V6(to)) = (received.from, received.to) else {
        return Err(Silence::NoRequest);
    };
    if received.protocol != ICMPV6 {
        return Err(Silence::NoRequest);
    }
    let message = received.whole()?;
    let [kind, code, ..] = *message else { return Err(Silence::Damaged) };
    if kind != SOLICITATION {
        return Err(Silence::NoRequest);
    }
    if received.ttl != u8::MAX {
        return Err(Silence::Forwarded);
    }
    let length = (message.len() as u32).to_be_bytes();
    let pseudo = [&from.octets()[..], &to.octets(), &length, &[0, 0, 0, ICMPV6]].concat();
    if code != 0 || checksum(&[&pseudo, message]) != 0 {
        return Err(Silence::Damaged);
    }
    let mac = received.sender();
    let is_unspecified = from == Ipv6Addr::UNSPECIFIED;
    if is_group(mac) {
        return Err(Silence::GroupFrame);
    }
    if !is_unspecified && !is_host(from.into()) {
        return Err(Silence::FromNobody);
    }
    let kinds = option_kinds(message.get(8..).ok_or(Silence::Damaged)?)?;
    if is_unspecified && kinds.contains(&SOURCE_ADDRESS) {
        return Err(Silence::Damaged);
    }
    Ok((from, mac))
}

/// The types of the options of neighbour discovery (RFC 4861, 4.6), whose lengths count 8 bytes.
fn option_kinds(mut rest: &[u8]) -> Result<Vec<u8>, Silence> {
    let mut kinds = Vec::new();
    while !rest.is_empty() {
        let [kind, units, ..] = *rest else { return Err(Silence::Damaged) };
        if units == 0 {
            return Err(Silence::Damaged);
        }
        rest = rest.get(8 * usize::from(units)..).ok_or(Silence::Damaged)?;
        kinds.push(kind);
    }
    Ok(kinds)
}
