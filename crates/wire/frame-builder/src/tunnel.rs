//! Frames inside tunnels.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{IPV4, IPV6, Ipv4, Ipv6, Mac, UDP, ethernet, udp_without_checksum};

const GENEVE_PORT: u16 = 6081;
const VXLAN_PORT: u16 = 4789;
/// Tunnels take their source port from a hash of the frame inside; peers ignore it.
const SOURCE_PORT: u16 = 0xc000;
const GRE_PROTOCOL: u8 = 47;
/// Ethertype of a frame inside a tunnel.
const TRANSPARENT_ETHERNET: [u8; 2] = [0x65, 0x58];
const DONT_FRAGMENT: u16 = 0x4000;

/// The encapsulation of a tunnel; prints as the type of an Open vSwitch interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the protocols'")]
pub enum Encapsulation {
    Geneve,
    Vxlan,
    Gre,
}

impl fmt::Display for Encapsulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encapsulation::Geneve => "geneve",
            Encapsulation::Vxlan => "vxlan",
            Encapsulation::Gre => "gre",
        })
    }
}

/// The class and the type of the option in geneve headers. It is the tests' own: what matters is that the switch of a test
/// maps it to `tun_metadata0`.
pub const GENEVE_OPTION: (u16, u8) = (0x102, 0x80);

/// A frame inside a tunnel, and the tunnel's headers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wrapped {
    /// The tunnel's encapsulation.
    pub encapsulation: Encapsulation,
    /// The sender's address.
    pub from: IpAddr,
    /// The receiver's address, of the same IP version.
    pub to: IpAddr,
    /// The tunnel's key.
    pub key: u32,
    /// Geneve's option that `tun_metadata0` is mapped to.
    pub option: Option<u32>,
    /// The frame inside.
    pub inner: Vec<u8>,
}

/// The frame on the underlay, between these Ethernet addresses.
pub fn wrap(to: Mac, from: Mac, wrapped: &Wrapped) -> Vec<u8> {
    let [_, key @ ..] = wrapped.key.to_be_bytes();
    let (protocol, payload) = match wrapped.encapsulation {
        Encapsulation::Geneve => {
            let (class, kind) = GENEVE_OPTION;
            let start = [&class.to_be_bytes()[..], &[kind, 1]].concat();
            let option = wrapped.option.map(|value| [&start[..], &value.to_be_bytes()].concat());
            let option = option.unwrap_or_default();
            let critical = if option.is_empty() { 0 } else { 0x40 };
            let head = [(option.len() / 4) as u8, critical];
            let header = [&head[..], &TRANSPARENT_ETHERNET, &key, &[0], &option, &wrapped.inner].concat();
            (UDP, udp_without_checksum(SOURCE_PORT, GENEVE_PORT, &header))
        }
        Encapsulation::Vxlan => {
            let header = [&[8, 0, 0, 0][..], &key, &[0], &wrapped.inner].concat();
            (UDP, udp_without_checksum(SOURCE_PORT, VXLAN_PORT, &header))
        }
        Encapsulation::Gre => {
            let key = wrapped.key.to_be_bytes();
            (GRE_PROTOCOL, [&[0x20, 0][..], &TRANSPARENT_ETHERNET, &key, &wrapped.inner].concat())
        }
    };
    match (wrapped.from, wrapped.to) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut header = Ipv4::new(src, dst, protocol);
            header.fragment = DONT_FRAGMENT;
            ethernet(to, from, IPV4, &header.packet(&payload))
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            ethernet(to, from, IPV6, &Ipv6::new(src, dst, protocol).packet(&payload))
        }
        (src, dst) => panic!("a tunnel from {src} to {dst}: both must be of one IP version"),
    }
}

/// Decapsulates a frame on the underlay; `None` if it is not a tunnelled frame.
pub fn unwrap(frame: &[u8]) -> Option<Wrapped> {
    let (from, to, protocol, inside) = outer(frame)?;
    let word = |bytes: &[u8], at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let (encapsulation, key, option, inner) = match protocol {
        GRE_PROTOCOL => (Encapsulation::Gre, word(inside, 4)?, None, inside.get(8..)?),
        UDP => {
            let (port, header) = (inside.get(2..4)?, inside.get(8..)?);
            let key = word(header, 4)? >> 8;
            if port == VXLAN_PORT.to_be_bytes() {
                (Encapsulation::Vxlan, key, None, header.get(8..)?)
            } else {
                let options = usize::from(header[0] & 0x3f) * 4;
                let option = if options == 8 { Some(word(header, 12)?) } else { None };
                (Encapsulation::Geneve, key, option, header.get(8 + options..)?)
            }
        }
        _ => return None,
    };
    let inner = inner.to_vec();
    Some(Wrapped { encapsulation, from, to, key, option, inner })
}

/// The addresses and the protocol of the outer IP header, and what is inside it.
fn outer(frame: &[u8]) -> Option<(IpAddr, IpAddr, u8, &[u8])> {
    let packet = frame.get(14..)?;
    if frame[12..14] == IPV6.to_be_bytes() {
        let address = |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
        return Some((address(8)?.into(), address(24)?.into(), packet[6], packet.get(40..)?));
    }
    let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
    Some((address(12)?.into(), address(16)?.into(), packet[9], packet.get(20..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_out_of_every_tunnel() {
        for encapsulation in [Encapsulation::Geneve, Encapsulation::Vxlan, Encapsulation::Gre] {
            let option = Some(0x0102_0304).filter(|_| encapsulation == Encapsulation::Geneve);
            for [from, to] in [["172.31.0.1", "172.31.0.2"], ["fd00::1", "fd00::2"]] {
                let [from, to] = [from, to].map(|address| address.parse().expect("an address"));
                let wrapped = Wrapped { encapsulation, from, to, key: 0xabcdef, option, inner: vec![7; 60] };
                assert_eq!(unwrap(&wrap([2; 6], [4; 6], &wrapped)), Some(wrapped));
            }
        }
        assert_eq!(unwrap(&[0; 60]), None);
    }

    #[test]
    fn a_geneve_header_has_the_bytes_of_the_rfc() {
        let (from, to) = ([172, 31, 0, 1].into(), [172, 31, 0, 2].into());
        let encapsulation = Encapsulation::Geneve;
        let wrapped = Wrapped { encapsulation, from, to, key: 0x010203, option: Some(5), inner: Vec::new() };
        let wanted = [2, 0x40, 0x65, 0x58, 1, 2, 3, 0, 1, 2, 0x80, 1, 0, 0, 0, 5];
        assert_eq!(wrap([2; 6], [4; 6], &wrapped)[14 + 20 + 8..], wanted);
    }
}
