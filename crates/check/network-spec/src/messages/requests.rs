//! The requests that the servers of a switch take from its ports, in the place of whoever they are for.
//!
//! - A frame that is a request is for the server alone. No ACL concerns it, nor the answer, and no connection begins.
//! - The answer goes to the port that asked, and to nobody else.
//! - A request that cannot be read has no answer. It is a request all the same, and goes nowhere.

use std::net::IpAddr;

use super::received::headers;
use crate::World;
use crate::acl::{is_intact, is_intact_between};
use crate::frame::{Body, Frame};
use crate::world::{Mac, Port};

/// Bytes up to the packet: servers read no other frames than those of Ethernet's own form (RFC 894).
const ETHERNET: usize = 14;
const UDP: u8 = 17;

/// A frame that a port sends, and which it may send.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) switch: &'a str,
    pub(crate) port: &'a Port,
    pub(crate) frame: &'a Frame,
    pub(crate) bytes: &'a [u8],
}

/// What the servers of the switch do with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// It is no request for them, and goes on as it is.
    GoesOn,
    /// It is a request, which nobody else gets, with its answer if it has any.
    Taken(Option<Vec<u8>>),
}

impl World {
    /// What the servers of the switch do with a frame.
    pub(crate) fn serve(&self, asked: Asked<'_>) -> Served {
        let all = [World::serve_dhcpv4, World::serve_dhcpv6, World::serve_dns];
        let served = all.iter().map(|serve| serve(self, asked));
        served.into_iter().find(|served| *served != Served::GoesOn).unwrap_or(Served::GoesOn)
    }
}

/// A UDP datagram, whole and undamaged.
pub(super) struct Datagram<'a> {
    pub(super) addresses: (IpAddr, IpAddr),
    pub(super) ports: (u16, u16),
    pub(super) payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    pub(super) fn read(frame: &Frame, bytes: &'a [u8]) -> Option<Datagram<'a>> {
        let (addresses, protocol, carried, is_fragment): ((IpAddr, IpAddr), _, _, _) = match &frame.body {
            Body::Ipv4(Some(packet)) if packet.header == ETHERNET && bytes[ETHERNET] >> 4 == 4 => {
                is_intact(&[&bytes[packet.header..packet.carried.start]]).then_some(())?;
                let addresses = (packet.src.into(), packet.dst.into());
                (addresses, packet.protocol?, packet.carried.clone(), packet.is_fragment)
            }
            Body::Ipv6(Some(packet)) if packet.header == ETHERNET && bytes[ETHERNET] >> 4 == 6 => {
                headers(bytes, packet.carried.clone()).1.then_some(())?;
                let addresses = (packet.src.into(), packet.dst.into());
                (addresses, packet.protocol?, packet.carried.clone(), packet.is_fragment)
            }
            _ => return None,
        };
        let whole = &bytes[carried];
        let [s0, s1, d0, d1, l0, l1, c0, c1] = *whole.first_chunk::<8>()?;
        let datagram = whole.get(..u16::from_be_bytes([l0, l1]).into())?;
        // Without a checksum, it is not checked, which IPv4 alone allows (RFC 768; RFC 8200, 8.1).
        let is_sound = match [c0, c1] {
            [0, 0] => addresses.0.is_ipv4(),
            _ => is_intact_between(addresses, UDP, datagram),
        };
        let ports = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
        let payload = datagram.get(8..)?;
        (protocol == UDP && !is_fragment && is_sound).then_some(Datagram { addresses, ports, payload })
    }
}

/// A UDP datagram without its checksum.
pub(super) fn udp((from, to): (u16, u16), payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

/// A frame with a packet.
pub(super) fn ethernet(to: Mac, from: Mac, is_ipv4: bool, packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if is_ipv4 { [8, 0] } else { [0x86, 0xdd] };
    [&to[..], &from, &kind, packet].concat()
}
