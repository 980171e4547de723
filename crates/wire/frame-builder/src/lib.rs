//! Ethernet frames for tests and labs, as bytes with correct lengths and checksums.
//!
//! A frame is built from the inside out, because tests often damage one layer on purpose:
//!
//! ```
//! use frame_builder::{Endpoints, Ipv4, UDP, ethernet, udp, IPV4};
//!
//! let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
//! let datagram = udp(4000, 7, b"hello", Endpoints::V4(from, to));
//! let frame = ethernet([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], IPV4, &Ipv4::new(from, to, UDP).packet(&datagram));
//! assert_eq!(frame.len(), 14 + 20 + 8 + 5);
//! ```
//!
//! In reading order: [`ethernet`] and [`tagged`]; [`arp`]; the packets [`Ipv4`] and [`Ipv6`]; their payloads [`udp`],
//! [`tcp`], [`icmp`], [`icmpv6`] and [`neighbour`]; [`Wrapped`], a frame inside a tunnel; [`captured`], the frames
//! that tcpdump wrote.
//!
//! `etherparse` writes the headers. It has no tunnels and no message of neighbour discovery with arbitrary options, which
//! are here. Tests that need damaged frames damage the bytes themselves.
#![forbid(unsafe_code)]

mod announce;
mod capture;
mod packet;
mod payload;
mod tunnel;

pub use announce::{announcement, gratuitous_arp, unsolicited_advertisement};
pub use capture::{CaptureError, captured};
pub use packet::{Arp, Ipv4, Ipv6, arp, ethernet, random_extension_headers, solicited_node, tagged};
pub use payload::{Endpoints, checksum, icmp, icmpv6, link_layer, neighbour, tcp, udp, udp_without_checksum};
pub use tunnel::{Encapsulation, GENEVE_OPTION, Wrapped, unwrap, wrap};

/// A MAC address.
pub type Mac = [u8; 6];

/// The broadcast MAC address.
pub const BROADCAST: Mac = [0xff; 6];

/// Ethertype of IPv4.
pub const IPV4: u16 = 0x0800;
/// Ethertype of ARP.
pub const ARP: u16 = 0x0806;
/// Ethertype of a VLAN tag.
pub const VLAN: u16 = 0x8100;
/// Ethertype of reverse ARP.
pub const RARP: u16 = 0x8035;
/// Ethertype of IPv6.
pub const IPV6: u16 = 0x86dd;

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of ICMP for IPv6.
pub const ICMPV6: u8 = 58;

/// Type of a neighbour solicitation.
pub const SOLICITATION: u8 = 135;
/// Type of a neighbour advertisement.
pub const ADVERTISEMENT: u8 = 136;
