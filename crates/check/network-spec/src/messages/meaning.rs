//! What a message says to whoever gets it. Two messages that differ in what no RFC fixes, such as the TTL, mean the same.

mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::acl::is_intact;
use crate::acl::is_intact_between;
use crate::frame::{Body, Frame, untagged};
use crate::world::Mac;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// A message as its receiver reads it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Heard {
    /// The VLAN of a trunk member.
    pub vlan: Option<u16>,
    /// The MAC addresses that it is to and from.
    pub macs: (Mac, Mac),
    /// The addresses that it is from and to.
    pub addresses: (IpAddr, IpAddr),
    /// What it says.
    pub says: Says,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Says {
    /// An error of ICMP.
    Error {
        /// Its type.
        kind: u8,
        /// Its code.
        code: u8,
        /// The four bytes behind, which have the MTU or a place.
        rest: [u8; 4],
        /// The packet that it is about, as much as it quotes.
        about: Vec<u8>,
    },
    /// A TCP segment without data.
    Segment {
        /// The ports that it is from and to.
        ports: (u16, u16),
        /// The sequence number, and the acknowledged one if any is.
        numbers: (u32, Option<u32>),
        /// Its flags.
        flags: u8,
    },
    /// A router advertisement.
    Advertisement {
        /// The hop limit, the flags, the lifetime of the router, and the two timers.
        head: [u8; 12],
        /// The options, in any order.
        options: BTreeSet<Vec<u8>>,
    },
    /// A message of a DHCP server.
    Dhcpv4 {
        /// All fields up to the names of servers and files, which say nothing.
        head: Vec<u8>,
        /// The options by their codes, in any order, without text for people.
        options: BTreeMap<u8, Vec<u8>>,
    },
    /// A message of a `DHCPv6` server.
    Dhcpv6 {
        /// Its type, and the number of the transaction.
        head: [u8; 4],
        /// The options in the order of their codes, without text for people.
        options: Vec<(u16, Vec<u8>)>,
    },
    /// A message of a DNS server.
    Dns {
        /// The port that it is for.
        to: u16,
        /// The number of the query.
        id: [u8; 2],
        /// The flags.
        flags: [u8; 2],
        /// What became of the query.
        code: u16,
        /// The questions as they were asked.
        questions: Vec<u8>,
        /// The records in any order: name in lower case, type, class, time and data.
        records: BTreeSet<(String, u16, u16, u32, Vec<u8>)>,
        /// Whether the server says of itself what it takes.
        is_edns: bool,
    },
}

impl Heard {
    /// Reads a frame that arrives. None if it is no message of a known kind, or a damaged one.
    pub fn read(bytes: &[u8]) -> Option<Heard> {
        let vlan = Frame::read(bytes)?.vlan;
        let own = if vlan.is_some() { untagged(bytes) } else { bytes.to_vec() };
        let frame = Frame::read(&own)?;
        let (addresses, protocol, carried): ((IpAddr, IpAddr), _, _) = match &frame.body {
            Body::Ipv4(Some(packet)) => {
                is_intact(&[&own[packet.header..packet.carried.start]]).then_some(())?;
                ((packet.src.into(), packet.dst.into()), packet.protocol?, packet.carried.clone())
            }
            Body::Ipv6(Some(packet)) => {
                ((packet.src.into(), packet.dst.into()), packet.protocol?, packet.carried.clone())
            }
            _ => return None,
        };
        let payload = &own[carried];
        let is_sound = match protocol {
            ICMP => is_intact(&[payload]),
            _ => is_intact_between(addresses, protocol, payload),
        };
        let says = is_sound.then(|| says(protocol, payload))??;
        Some(Heard { vlan, macs: (frame.dst, frame.src), addresses, says })
    }
}

fn says(protocol: u8, payload: &[u8]) -> Option<Says> {
    match (protocol, payload) {
        (ICMP | ICMPV6, [kind, code, _, _, a, b, c, d, about @ ..]) if is_error(protocol, *kind) => {
            Some(Says::Error { kind: *kind, code: *code, rest: [*a, *b, *c, *d], about: about.to_vec() })
        }
        (ICMPV6, [134, 0, _, _, head @ ..]) => advertisement(head),
        (TCP, [s0, s1, d0, d1, n0, n1, n2, n3, a0, a1, a2, a3, 0x50, flags, _, _, _, _, _, _]) => {
            const ACK: u8 = 0x10;
            let acknowledged = u32::from_be_bytes([*a0, *a1, *a2, *a3]);
            Some(Says::Segment {
                ports: (u16::from_be_bytes([*s0, *s1]), u16::from_be_bytes([*d0, *d1])),
                numbers: (
                    u32::from_be_bytes([*n0, *n1, *n2, *n3]),
                    (flags & ACK != 0).then_some(acknowledged),
                ),
                flags: *flags,
            })
        }
        (UDP, datagram) => services::says(datagram),
        _ => None,
    }
}

fn is_error(protocol: u8, kind: u8) -> bool {
    match protocol {
        ICMP => matches!(kind, 3 | 11 | 12),
        _ => kind < 128,
    }
}

fn advertisement(behind: &[u8]) -> Option<Says> {
    let (head, mut rest) = behind.split_first_chunk::<12>()?;
    let mut options = BTreeSet::new();
    while let [_, units, ..] = rest {
        let (option, behind) = rest.split_at_checked(usize::from(*units) * 8).filter(|_| *units > 0)?;
        options.insert(option.to_vec());
        rest = behind;
    }
    rest.is_empty().then_some(Says::Advertisement { head: *head, options })
}
