//! Ethernet addresses, IP addresses and prefixes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use openflow_rs::MacAddr;

use super::define::entry;
use super::{Failure, Function};

/// The link-local address with the modified EUI-64 identifier of an Ethernet address (RFC 4291, appendix A).
fn link_local(mac: MacAddr) -> IpAddr {
    let [a, b, c, d, e, f] = mac.0;
    IpAddr::V6(Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 0x02, b, c, 0xff, 0xfe, d, e, f]))
}

fn net_of(ip: IpAddr, length: i64) -> Result<IpNet, Failure> {
    let net = u8::try_from(length).ok().and_then(|length| IpNet::new(ip, length).ok());
    net.map(|net| net.trunc()).ok_or_else(|| {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        Failure::range(format!("net_of: {ip}/{length} is no prefix, whose length is 0 to {most}"))
    })
}

fn int_to_mac(n: i64) -> Result<MacAddr, Failure> {
    let bits = u64::try_from(n).ok().filter(|bits| bits >> 48 == 0);
    bits.map(MacAddr::from_u64).ok_or_else(|| {
        Failure::range(format!("int_to_mac: {n} does not fit an Ethernet address, which has 48 bits"))
    })
}

fn int_to_ip(n: i64) -> Result<IpAddr, Failure> {
    let bits = u32::try_from(n);
    bits.map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))).map_err(|_| {
        Failure::range(format!("int_to_ip: {n} does not fit an IPv4 address, which has 32 bits"))
    })
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = conversions();
    functions.extend(nets());
    functions
}

fn nets() -> Vec<Function> {
    vec![
        entry("network_of(net) -> ip", "The prefix's address: its bits, then zeros.")
            .example(r#"net"10.1.2.0/24""#, r#"ip"10.1.2.0""#)
            .example(r#"net"::/0""#, r#"ip"::""#)
            .unary(|net: IpNet| net.network()),
        entry("prefix_length(net) -> length", "How many bits the prefix fixes.")
            .example(r#"net"10.1.2.0/24""#, "24")
            .example(r#"net"fe80::/10""#, "10")
            .unary(|net: IpNet| i64::from(net.prefix_len())),
        entry("net_of(ip, length) -> net", "The prefix of this length that the address is in.")
            .example(r#"ip"10.1.2.3", 24"#, r#"net"10.1.2.0/24""#)
            .example(r#"ip"fe80::1", 128"#, r#"net"fe80::1/128""#)
            .example(r#"ip"10.1.2.3", 0"#, r#"net"0.0.0.0/0""#)
            .example(r#"ip"10.1.2.3", 33"#, "error range")
            .example(r#"ip"10.1.2.3", -1"#, "error range")
            .binary(net_of),
        entry("in_net(ip, net) -> holds", "Whether the address is in the prefix; never across IP versions.")
            .example(r#"ip"10.1.2.255", net"10.1.2.0/24""#, "true")
            .example(r#"ip"10.1.3.0", net"10.1.2.0/24""#, "false")
            .example(r#"ip"::1", net"0.0.0.0/0""#, "false")
            .binary(|ip: IpAddr, net: IpNet| net.contains(&ip)),
        entry("is_ipv4(ip) -> holds", "Whether the address is an IPv4 address.")
            .example(r#"ip"10.0.0.1""#, "true")
            .example(r#"ip"::ffff:10.0.0.1""#, "false")
            .unary(|ip: IpAddr| ip.is_ipv4()),
        entry("is_ipv4(net) -> holds", "Whether the prefix is one of IPv4 addresses.")
            .example(r#"net"10.0.0.0/8""#, "true")
            .example(r#"net"::/0""#, "false")
            .unary(|net: IpNet| net.network().is_ipv4()),
        entry("is_ipv6(ip) -> holds", "Whether the address is an IPv6 address.")
            .example(r#"ip"::1""#, "true")
            .example(r#"ip"10.0.0.1""#, "false")
            .unary(|ip: IpAddr| ip.is_ipv6()),
        entry("is_ipv6(net) -> holds", "Whether the prefix is one of IPv6 addresses.")
            .example(r#"net"::/0""#, "true")
            .example(r#"net"10.0.0.0/8""#, "false")
            .unary(|net: IpNet| net.network().is_ipv6()),
    ]
}

fn conversions() -> Vec<Function> {
    vec![
        entry("ip_to_int(ip) -> n", "An IPv4 address as a number of 32 bits; none of an IPv6 address.")
            .example(r#"ip"10.0.0.1""#, "167772161")
            .example(r#"ip"255.255.255.255""#, "4294967295")
            .example(r#"ip"::1""#, "none")
            .unary(|ip: IpAddr| match ip {
                IpAddr::V4(ip) => Some(i64::from(ip.to_bits())),
                IpAddr::V6(_) => None,
            }),
        entry("int_to_ip(n) -> ip", "The IPv4 address with this number of 32 bits.")
            .example("167772161", r#"ip"10.0.0.1""#)
            .example("4294967295", r#"ip"255.255.255.255""#)
            .example("4294967296", "error range")
            .example("-1", "error range")
            .unary(int_to_ip),
        entry("mac_to_int(mac) -> n", "An Ethernet address as a number of 48 bits.")
            .example(r#"mac"02:00:00:00:00:0a""#, "2199023255562")
            .example(r#"mac"ff:ff:ff:ff:ff:ff""#, "281474976710655")
            .unary(|mac: MacAddr| mac.to_u64() as i64),
        entry("int_to_mac(n) -> mac", "The Ethernet address with this number of 48 bits.")
            .example("2199023255562", r#"mac"02:00:00:00:00:0a""#)
            .example("281474976710656", "error range")
            .example("-1", "error range")
            .unary(int_to_mac),
        entry(
            "link_local(mac) -> ip",
            "The IPv6 link-local address that a host makes of its Ethernet address (EUI-64).",
        )
        .example(r#"mac"02:00:00:00:00:01""#, r#"ip"fe80::ff:fe00:1""#)
        .example(r#"mac"34:56:78:9a:bc:de""#, r#"ip"fe80::3656:78ff:fe9a:bcde""#)
        .unary(link_local),
        entry("to_string(mac) -> text", "The Ethernet address as text.")
            .example(r#"mac"02:00:00:00:00:0a""#, r#""02:00:00:00:00:0a""#)
            .example(r#"mac"FF:FF:FF:FF:FF:FF""#, r#""ff:ff:ff:ff:ff:ff""#)
            .unary(|mac: MacAddr| mac.to_string()),
        entry("to_string(ip) -> text", "The address as text: RFC 5952.")
            .example(r#"ip"10.0.0.1""#, r#""10.0.0.1""#)
            .example(r#"ip"2001:db8:0:0:1:0:0:1""#, r#""2001:db8::1:0:0:1""#)
            .unary(|ip: IpAddr| ip.to_string()),
        entry("to_string(net) -> text", "The prefix as text.")
            .example(r#"net"10.0.0.0/24""#, r#""10.0.0.0/24""#)
            .example(r#"net"::/0""#, r#""::/0""#)
            .unary(|net: IpNet| net.to_string()),
    ]
}
