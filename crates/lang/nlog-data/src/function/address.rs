//! IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use openflow_rs::MacAddr;

use super::define::entry;
use super::{Failure, Function};

fn int_to_ip(n: i64) -> Result<IpAddr, Failure> {
    let bits = u32::try_from(n);
    bits.map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)))
        .map_err(|_| Failure::range(format!("int_to_ip: {n} does not fit in an IPv4 address (32 bits)")))
}

/// The address `n` after this one; none outside its IP version's range.
pub(super) fn step(ip: IpAddr, n: i128) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) => {
            let bits = i128::from(ip.to_bits()).checked_add(n)?;
            Some(IpAddr::V4(Ipv4Addr::from_bits(bits.try_into().ok()?)))
        }
        IpAddr::V6(ip) => Some(IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits().checked_add_signed(n)?))),
    }
}

fn offset(ip: IpAddr, n: i64) -> Result<IpAddr, Failure> {
    step(ip, n.into()).ok_or_else(|| {
        let version = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        Failure::range(format!("offset: {ip} and {n} give no {version} address"))
    })
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private(),
        IpAddr::V6(ip) => ip.is_unique_local(),
    }
}

/// Whether an interface that other hosts reach can have the address.
fn is_unicast(ip: IpAddr) -> bool {
    let other = match ip {
        IpAddr::V4(ip) => ip.is_broadcast(),
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_some(),
    };
    !other && !ip.is_multicast() && !ip.is_unspecified() && !ip.is_loopback()
}

/// The solicited-node multicast address (RFC 4291, 2.7.1).
fn solicited_node(ip: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(ip) = ip else { return None };
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 0);
    Some(IpAddr::V6(Ipv6Addr::from_bits(group.to_bits() | ip.to_bits() & 0xff_ffff)))
}

fn multicast_mac(group: IpAddr) -> Option<MacAddr> {
    match group {
        _ if !group.is_multicast() => None,
        IpAddr::V4(ip) => Some(MacAddr::from_u64(0x0100_5e00_0000 | u64::from(ip.to_bits() & 0x7f_ffff))),
        IpAddr::V6(ip) => Some(MacAddr::from_u64(0x3333 << 32 | u64::from(ip.to_bits() as u32))),
    }
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = conversions();
    functions.extend(kinds());
    functions.extend(groups());
    functions
}

fn conversions() -> Vec<Function> {
    vec![
        entry("ip_to_int(ip) -> n", "The IPv4 address as a 32-bit number. No result for an IPv6 address.")
            .example(r#"ip"10.0.0.1""#, "167772161")
            .example(r#"ip"255.255.255.255""#, "4294967295")
            .example(r#"ip"::1""#, "none")
            .unary(|ip: IpAddr| match ip {
                IpAddr::V4(ip) => Some(i64::from(ip.to_bits())),
                IpAddr::V6(_) => None,
            }),
        entry("int_to_ip(n) -> ip", "The IPv4 address for this 32-bit number.")
            .example("167772161", r#"ip"10.0.0.1""#)
            .example("4294967295", r#"ip"255.255.255.255""#)
            .example("4294967296", "error range")
            .example("-1", "error range")
            .unary(int_to_ip),
        entry(
            "offset(ip, n) -> ip",
            "The address `n` after this one (before it if `n` is negative), of the same IP version.",
        )
        .example(r#"ip"10.0.0.255", 1"#, r#"ip"10.0.1.0""#)
        .example(r#"ip"fe80::1", -1"#, r#"ip"fe80::""#)
        .example(r#"ip"255.255.255.255", 1"#, "error range")
        .example(r#"ip"0.0.0.0", -1"#, "error range")
        .example(r#"ip"::", -1"#, "error range")
        .example(r#"ip"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 1"#, "error range")
        .binary(offset),
        entry("to_string(ip) -> text", "The address as a string, in the form of RFC 5952.")
            .example(r#"ip"10.0.0.1""#, r#""10.0.0.1""#)
            .example(r#"ip"2001:db8:0:0:1:0:0:1""#, r#""2001:db8::1:0:0:1""#)
            .unary(|ip: IpAddr| ip.to_string()),
    ]
}

fn kinds() -> Vec<Function> {
    vec![
        entry("is_ipv4(ip) -> holds", "True if the address is an IPv4 address.")
            .example(r#"ip"10.0.0.1""#, "true")
            .example(r#"ip"::ffff:10.0.0.1""#, "false")
            .unary(|ip: IpAddr| ip.is_ipv4()),
        entry("is_ipv6(ip) -> holds", "True if the address is an IPv6 address.")
            .example(r#"ip"::1""#, "true")
            .example(r#"ip"10.0.0.1""#, "false")
            .unary(|ip: IpAddr| ip.is_ipv6()),
        entry(
            "is_link_local(ip) -> holds",
            "True if the address is link-local: 169.254.0.0/16 (RFC 3927), fe80::/10 (RFC 4291, 2.5.6).",
        )
        .example(r#"ip"169.254.1.1""#, "true")
        .example(r#"ip"febf::1""#, "true")
        .example(r#"ip"fec0::1""#, "false")
        .example(r#"ip"169.253.255.255""#, "false")
        .unary(is_link_local),
        entry(
            "is_private(ip) -> holds",
            "True if the address is private: 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 (RFC 1918), fc00::/7 \
            (RFC 4193).",
        )
        .example(r#"ip"172.31.255.255""#, "true")
        .example(r#"ip"172.32.0.0""#, "false")
        .example(r#"ip"fd00::1""#, "true")
        .example(r#"ip"2001:db8::1""#, "false")
        .unary(is_private),
        entry(
            "is_loopback(ip) -> holds",
            "True if the address is a loopback address: 127.0.0.0/8 (RFC 1122, 3.2.1.3), ::1 (RFC 4291, \
            2.5.3).",
        )
        .example(r#"ip"127.1.2.3""#, "true")
        .example(r#"ip"::1""#, "true")
        .example(r#"ip"::2""#, "false")
        .unary(|ip: IpAddr| ip.is_loopback()),
        entry(
            "is_unspecified(ip) -> holds",
            "True if the address is unspecified: 0.0.0.0 or ::, the source address of a host without an \
            address.",
        )
        .example(r#"ip"0.0.0.0""#, "true")
        .example(r#"ip"::""#, "true")
        .example(r#"ip"0.0.0.1""#, "false")
        .unary(|ip: IpAddr| ip.is_unspecified()),
        entry(
            "is_broadcast(ip) -> holds",
            "True if the address is the limited broadcast address 255.255.255.255 (RFC 919). For the \
            directed broadcast address of a prefix see `broadcast(net)`.",
        )
        .example(r#"ip"255.255.255.255""#, "true")
        .example(r#"ip"10.255.255.255""#, "false")
        .example(r#"ip"ff02::1""#, "false")
        .unary(|ip: IpAddr| ip == IpAddr::V4(Ipv4Addr::BROADCAST)),
        entry(
            "is_unicast(ip) -> holds",
            "True if the address can be that of an interface that other hosts reach: not multicast, limited \
            broadcast, unspecified or loopback, and not an IPv4 address in the form of an IPv6 address \
            (::ffff:0:0/96; RFC 4291, 2.5.5.2).",
        )
        .example(r#"ip"10.0.0.1""#, "true")
        .example(r#"ip"fe80::1""#, "true")
        .example(r#"ip"224.0.0.1""#, "false")
        .example(r#"ip"ff02::1""#, "false")
        .example(r#"ip"255.255.255.255""#, "false")
        .example(r#"ip"0.0.0.0""#, "false")
        .example(r#"ip"::""#, "false")
        .example(r#"ip"127.0.0.1""#, "false")
        .example(r#"ip"::1""#, "false")
        .example(r#"ip"::ffff:10.0.0.1""#, "false")
        .unary(is_unicast),
    ]
}

fn groups() -> Vec<Function> {
    vec![
        entry(
            "is_multicast(ip) -> holds",
            "True if the address is multicast: 224.0.0.0/4 (RFC 5771), ff00::/8 (RFC 4291, 2.7).",
        )
        .example(r#"ip"239.255.255.255""#, "true")
        .example(r#"ip"240.0.0.0""#, "false")
        .example(r#"ip"ff02::1""#, "true")
        .example(r#"ip"fe80::1""#, "false")
        .unary(|ip: IpAddr| ip.is_multicast()),
        entry(
            "solicited_node(ip) -> group",
            "The solicited-node multicast address of an IPv6 address (RFC 4291, 2.7.1). No result for an \
            IPv4 address.",
        )
        .example(r#"ip"4037::01:800:200e:8c6c""#, r#"ip"ff02::1:ff0e:8c6c""#)
        .example(r#"ip"fe80::1""#, r#"ip"ff02::1:ff00:1""#)
        .example(r#"ip"10.0.0.1""#, "none")
        .unary(solicited_node),
        entry(
            "multicast_mac(group) -> mac",
            "The Ethernet multicast address for a multicast group: 01:00:5e and 23 bits of an IPv4 address \
            (RFC 1112, 6.4), 33:33 and 32 bits of an IPv6 address (RFC 2464, 7). No result for an address that is not multicast.",
        )
        .example(r#"ip"224.0.0.251""#, r#"mac"01:00:5e:00:00:fb""#)
        .example(r#"ip"239.255.255.250""#, r#"mac"01:00:5e:7f:ff:fa""#)
        .example(r#"ip"ff02::1:ff0e:8c6c""#, r#"mac"33:33:ff:0e:8c:6c""#)
        .example(r#"ip"10.0.0.1""#, "none")
        .unary(multicast_mac),
    ]
}
