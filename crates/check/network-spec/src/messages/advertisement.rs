//! What routers advertise to machines that ask (RFC 4861, 4.2 and 6.2).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use super::error::ipv6;
use super::received::headers;
use crate::World;
use crate::acl::is_intact_between;
use crate::frame::{Body, Frame, Payload, is_group, link_local};
use crate::model::Sent;
use crate::routing::{RouterPort, is_martian};
use crate::world::joined;

/// What a router's port advertises on its switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ra {
    /// How machines get their addresses.
    pub mode: RaMode,
    /// The MTU that machines are to use; without, that of the switch.
    pub mtu: Option<u16>,
    /// The DNS servers.
    pub dns: Vec<Ipv6Addr>,
}

/// How machines get IPv6 addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RaMode {
    /// They make their own.
    #[default]
    Slaac,
    /// From a server.
    Stateful,
    /// They make their own, and ask a server for the rest.
    Stateless,
}

impl RaMode {
    /// Its name in objects.
    pub fn name(self) -> &'static str {
        match self {
            RaMode::Slaac => "slaac",
            RaMode::Stateful => "dhcpv6_stateful",
            RaMode::Stateless => "dhcpv6_stateless",
        }
    }
}

impl fmt::Display for Ra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, DNS [{}]", self.mode.name(), joined(&self.dns))?;
        self.mtu.iter().try_for_each(|mtu| write!(f, ", MTU {mtu}"))
    }
}

/// Bytes up to the packet.
const ETHERNET: usize = 14;
const ICMPV6: u8 = 58;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

impl World {
    /// The advertisements that answer a frame, if it is a valid solicitation: one of each router on its switch that has something to say. They
    /// go to the asker alone, but by the address of all where it has none yet (RFC 4861, 6.2.6).
    pub(super) fn advertisements(&self, sent: &Sent<'_>) -> Vec<Vec<u8>> {
        let Some(from) = asker(sent.frame, sent.bytes) else { return Vec::new() };
        let mac = sent.frame.src;
        let (to, to_mac) = if from.is_unspecified() { (ALL_NODES, ALL_NODES_MAC) } else { (from, mac) };
        let ports = self.routers_on(sent.switch).filter_map(|(id, port)| Some((port, self.ras.get(id)?)));
        // Nobody who claims to be the router is answered.
        let others = ports.filter(|(port, _)| port.mac != mac && link_local(port.mac) != IpAddr::V6(from));
        others
            .filter_map(|(port, ra)| {
                let IpAddr::V6(own) = link_local(port.mac) else { return None };
                let message = message(port, ra, ra.mtu.or_else(|| self.mtu(sent.switch)));
                let packet = ipv6(own, to, ICMPV6, message, 255);
                Some([&to_mac[..], &port.mac, &[0x86, 0xdd], &packet].concat())
            })
            .collect()
    }
}

/// Who asks by a valid solicitation (RFC 4861, 6.1.1); the unspecified address has nobody who has none.
fn asker(frame: &Frame, bytes: &[u8]) -> Option<Ipv6Addr> {
    const SOURCE: u8 = 1;
    let Body::Ipv6(Some(packet)) = &frame.body else { return None };
    let message = &bytes[packet.carried.clone()];
    let is_solicitation = packet.payload == Payload::Icmpv6(133, 0) && packet.hops == 255;
    let (src, dst) = (IpAddr::V6(packet.src), IpAddr::V6(packet.dst));
    let is_whole = packet.header == ETHERNET
        && bytes[packet.header] >> 4 == 6
        && headers(bytes, packet.carried.clone()).1
        && is_intact_between((src, dst), ICMPV6, message);
    if !is_solicitation || !is_whole || is_group(frame.src) {
        return None;
    }
    let (mut rest, mut says_mac) = (&message[8..], false);
    while let [kind, units, ..] = rest {
        rest = rest.get(usize::from(*units) * 8..).filter(|_| *units > 0)?;
        says_mac |= *kind == SOURCE;
    }
    if packet.src.is_unspecified() {
        return (rest.is_empty() && !says_mac).then_some(packet.src);
    }
    let is_single = !is_martian(src) && !packet.src.is_multicast();
    (rest.is_empty() && is_single).then_some(packet.src)
}

/// The message, without its checksum: it says what RFC 4861, 6.2.1, has as defaults, and that the port is a default router for 30 minutes.
fn message(port: &RouterPort, ra: &Ra, mtu: Option<u16>) -> Vec<u8> {
    const HOPS: u8 = 64;
    const ROUTER: u16 = 1800;
    let flags = match ra.mode {
        RaMode::Slaac => 0,
        RaMode::Stateful => 0x80,
        RaMode::Stateless => 0x40,
    };
    let mut out =
        [&[134, 0, 0, 0, HOPS, flags][..], &ROUTER.to_be_bytes(), &[0; 8], &[1, 1], &port.mac].concat();
    if let Some(mtu) = mtu {
        out.extend([&[5, 1, 0, 0][..], &u32::from(mtu).to_be_bytes()].concat());
    }
    for network in &port.networks {
        let IpAddr::V6(prefix) = network.prefix().ip else { continue };
        // Machines make addresses in networks of 64 bits alone (RFC 4862, 5.5.3 d).
        let makes = ra.mode != RaMode::Stateful && network.length == 64;
        let flags = 0x80 | if makes { 0x40 } else { 0 };
        let (valid, preferred) = (2_592_000_u32.to_be_bytes(), 604_800_u32.to_be_bytes());
        out.extend(
            [&[3, 4, network.length, flags][..], &valid, &preferred, &[0; 4], &prefix.octets()].concat(),
        );
    }
    if !ra.dns.is_empty() {
        // For three intervals of 10 minutes (RFC 8106, 5.1).
        let units = 1 + 2 * ra.dns.len() as u8;
        out.extend([&[25, units, 0, 0][..], &1800_u32.to_be_bytes()].concat());
        out.extend(ra.dns.iter().flat_map(Ipv6Addr::octets));
    }
    out
}
