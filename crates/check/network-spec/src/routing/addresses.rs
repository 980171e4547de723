//! The addresses that no router forwards from or to.

use std::net::{IpAddr, Ipv6Addr};

/// Whether no interface can have an address, except those of groups: this network and this host (0.0.0.0/8), loopback, and the
/// reserved class E (RFC 1812, 5.3.7); for IPv6 the unspecified address and loopback (RFC 4291, 2.5.2 and 2.5.3), and IPv4
/// addresses in the form that only programs use (RFC 6890, 2.2.3).
///
/// Routers forward nothing from and to such addresses. Private and documentation addresses are addresses as good as any.
pub(crate) fn is_martian(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => matches!(ip.octets()[0], 0 | 127 | 240..=255) && !ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unspecified() || ip.is_loopback() || is_mapped(ip),
    }
}

fn is_mapped(ip: Ipv6Addr) -> bool {
    ip.to_ipv4_mapped().is_some()
}

/// Whether an address is that of many: a multicast group, or all hosts. Nothing comes from one. Routers forward packets to
/// groups by protocols of their own, which these do not have.
pub(crate) fn is_group(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast(),
    }
}

/// Whether an address means something on its own link only: no router forwards packets from or to it (RFC 3927, 7; RFC 4291,
/// 2.5.6).
pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}
