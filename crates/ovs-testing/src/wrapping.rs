//! Frames inside tunnels: built as a peer sends them, taken apart as the switch sends them.

use std::fmt;
use std::net::Ipv4Addr;

/// MAC addresses on the underlay: of the switch, and of all its peers.
pub(crate) const OWN_MAC: [u8; 6] = [2, 0xaa, 0, 0, 0, 1];
pub(crate) const PEER_MAC: [u8; 6] = [2, 0xaa, 0, 0, 0, 2];

const GENEVE: u16 = 6081;
const VXLAN: u16 = 4789;
const UDP: u8 = 17;
const GRE: u8 = 47;
const ETHERNET_INSIDE: [u8; 2] = [0x65, 0x58];

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

/// A frame inside a tunnel, and the tunnel's headers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wrapped {
    /// The tunnel's encapsulation.
    pub encapsulation: Encapsulation,
    /// The sender's address.
    pub from: Ipv4Addr,
    /// The receiver's address.
    pub to: Ipv4Addr,
    /// The tunnel's key.
    pub key: u32,
    /// Geneve's option that `tun_metadata0` is mapped to.
    pub option: Option<u32>,
    /// The frame inside.
    pub inner: Vec<u8>,
}

/// The frame on the underlay, from a peer to the switch.
pub fn wrap(wrapped: &Wrapped) -> Vec<u8> {
    let key = wrapped.key.to_be_bytes();
    let (proto, header) = match wrapped.encapsulation {
        Encapsulation::Geneve => {
            let option = wrapped.option.map(|value| [&[1, 2, 0x80, 1][..], &value.to_be_bytes()].concat());
            let option = option.unwrap_or_default();
            let critical = if option.is_empty() { 0 } else { 0x40 };
            let head = [(option.len() / 4) as u8, critical, 0x65, 0x58, key[1], key[2], key[3], 0];
            (UDP, udp(GENEVE, &[&head[..], &option, &wrapped.inner].concat()))
        }
        Encapsulation::Vxlan => {
            let head = [8, 0, 0, 0, key[1], key[2], key[3], 0];
            (UDP, udp(VXLAN, &[&head[..], &wrapped.inner].concat()))
        }
        Encapsulation::Gre => (GRE, [&[0x20, 0][..], &ETHERNET_INSIDE, &key, &wrapped.inner].concat()),
    };
    let total = (20 + header.len() as u16).to_be_bytes();
    let mut ip = vec![0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, proto, 0, 0];
    ip.extend([wrapped.from.octets(), wrapped.to.octets()].concat());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    [&OWN_MAC[..], &PEER_MAC, &[8, 0], &ip, &header].concat()
}

fn udp(port: u16, inside: &[u8]) -> Vec<u8> {
    let length = 8 + inside.len() as u16;
    [&[0xc0, 0][..], &port.to_be_bytes(), &length.to_be_bytes(), &[0, 0], inside].concat()
}

/// Takes a frame on the underlay apart; `None` if it is no tunnelled frame.
pub fn unwrap(frame: &[u8]) -> Option<Wrapped> {
    let (ip, inside) = (frame.get(14..34)?, frame.get(34..)?);
    let address = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
    let word = |bytes: &[u8], at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let (encapsulation, key, option, inner) = match ip[9] {
        GRE => (Encapsulation::Gre, word(inside, 4)?, None, inside.get(8..)?),
        UDP => {
            let (port, header) = (inside.get(2..4)?, inside.get(8..)?);
            let key = word(header, 4)? >> 8;
            if port == VXLAN.to_be_bytes() {
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
    Some(Wrapped { encapsulation, from: address(12), to: address(16), key, option, inner })
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}
