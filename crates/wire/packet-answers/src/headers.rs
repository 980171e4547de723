//! What the headers of all answers have in common.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{Ipv4, Ipv6, Mac};

/// The TTL and hop limit of answers.
const TTL: u8 = 64;

/// An IPv4 header of an atomic packet, whose identification means nothing (RFC 6864, 4.1).
pub(crate) fn ipv4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8) -> Ipv4 {
    const DONT_FRAGMENT: u16 = 0x4000;
    Ipv4 { identification: 0, fragment: DONT_FRAGMENT, ttl: TTL, ..Ipv4::new(from, to, protocol) }
}

/// An IPv6 header of a packet that routers may forward.
pub(crate) fn ipv6(from: Ipv6Addr, to: Ipv6Addr, protocol: u8) -> Ipv6 {
    Ipv6 { hops: TTL, ..Ipv6::new(from, to, protocol) }
}

/// The link-local address that a MAC address gives: `fe80::/64` and the modified EUI-64 (RFC 4291, appendix A; RFC 2464, 5).
pub fn link_local(mac: Mac) -> Ipv6Addr {
    /// The bit that says that an identifier is globally unique, with the reverse meaning in interface identifiers.
    const UNIVERSAL: u8 = 2;
    let [a, b, c, d, e, f] = mac;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ UNIVERSAL, b, c, 0xff, 0xfe, d, e, f])
}

pub(crate) fn is_group(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

/// Whether an address is that of one host, as far as the address itself says. What is everybody on a network follows from the
/// network, and is for flows to exclude.
pub(crate) fn is_host(address: IpAddr) -> bool {
    match address {
        // 0.0.0.0/8 and 240.0.0.0/4, which contains the broadcast address, are no hosts' (RFC 6890).
        IpAddr::V4(v4) => v4.octets()[0] != 0 && v4.octets()[0] < 224 && !Ipv4Addr::is_loopback(&v4),
        IpAddr::V6(v6) => {
            !v6.is_multicast()
                && v6 != Ipv6Addr::UNSPECIFIED
                && !v6.is_loopback()
                && v6.to_ipv4_mapped().is_none()
        }
    }
}
