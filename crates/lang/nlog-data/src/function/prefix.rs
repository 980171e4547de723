//! Prefixes of IP addresses (CIDR, RFC 4632).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use openflow_rs::MacAddr;

use super::address::step;
use super::define::entry;
use super::ethernet::interface_identifier;
use super::{Failure, Function};
use crate::InterfaceAddress;

fn net_of(ip: IpAddr, length: i64) -> Result<IpNet, Failure> {
    let net = u8::try_from(length).ok().and_then(|length| IpNet::new(ip, length).ok());
    net.map(|net| net.trunc()).ok_or_else(|| {
        let most = if ip.is_ipv4() { 32 } else { 128 };
        Failure::range(format!("net_of: {ip}/{length} is not a prefix; the length must be 0 to {most}"))
    })
}

/// The broadcast address of the prefix; point-to-point links have none (RFC 3021).
fn broadcast(net: IpNet) -> Option<IpAddr> {
    match net {
        IpNet::V4(net) if net.prefix_len() < 31 => Some(IpAddr::V4(net.broadcast())),
        _ => None,
    }
}

fn host(net: IpNet, n: i64) -> Result<IpAddr, Failure> {
    let ip = u64::try_from(n).ok().and_then(|n| step(net.network(), n.into()));
    ip.filter(|ip| net.contains(ip))
        .ok_or_else(|| Failure::range(format!("host: {net} has no address number {n}")))
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

fn host_number(net: IpNet, ip: IpAddr) -> Result<Option<i64>, Failure> {
    if !net.contains(&ip) {
        return Ok(None);
    }
    let number = bits(ip) - bits(net.network());
    number.try_into().map(Some).map_err(|_| {
        Failure::range(format!("host_number: the number of {ip} in {net} does not fit in an int (64 bits)"))
    })
}

/// The `n`th prefix of a given length within a prefix.
fn subnet(net: IpNet, length: i64, n: i64) -> Result<IpNet, Failure> {
    let found = || {
        let length = u8::try_from(length).ok().filter(|length| *length >= net.prefix_len())?;
        // The first one exists for every length that the IP version allows.
        let free = net.max_prefix_len().checked_sub(length)?;
        let number = u128::from(u64::try_from(n).ok()?);
        let fits = number.checked_shr(u32::from(length - net.prefix_len())).unwrap_or(0) == 0;
        let distance = number.checked_shl(free.into()).unwrap_or(0);
        let first = fits.then(|| bits(net.network()) + distance)?;
        let ip = match net {
            IpNet::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(first.try_into().ok()?)),
            IpNet::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(first)),
        };
        IpNet::new(ip, length).ok()
    };
    found()
        .ok_or_else(|| Failure::range(format!("subnet: {net} has no subnet number {n} of length {length}")))
}

/// The address that a host forms from its prefix and its Ethernet address (RFC 4862, 5.5.3; RFC 2464, 4).
fn eui64(net: IpNet, mac: MacAddr) -> Result<IpAddr, Failure> {
    match net {
        IpNet::V6(net) if net.prefix_len() == 64 => {
            let identifier = u64::from_be_bytes(interface_identifier(mac));
            Ok(IpAddr::V6(Ipv6Addr::from_bits(net.network().to_bits() | u128::from(identifier))))
        }
        _ => Err(Failure::range(format!("eui64: {net} is not an IPv6 prefix of length 64"))),
    }
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = parts();
    functions.extend(relations());
    functions.extend(inside());
    functions.extend(interfaces());
    functions
}

fn parts() -> Vec<Function> {
    vec![
        entry("net_of(ip, length) -> net", "The prefix of this length that contains the address.")
            .example(r#"ip"10.1.2.3", 24"#, r#"net"10.1.2.0/24""#)
            .example(r#"ip"fe80::1", 128"#, r#"net"fe80::1/128""#)
            .example(r#"ip"10.1.2.3", 0"#, r#"net"0.0.0.0/0""#)
            .example(r#"ip"10.1.2.3", 33"#, "error range")
            .example(r#"ip"10.1.2.3", -1"#, "error range")
            .binary(net_of),
        entry("network_of(net) -> ip", "The first address of the prefix: its bits, then zeros.")
            .example(r#"net"10.1.2.0/24""#, r#"ip"10.1.2.0""#)
            .example(r#"net"::/0""#, r#"ip"::""#)
            .unary(|net: IpNet| net.network()),
        entry("last_address(net) -> ip", "The last address of the prefix: its bits, then ones.")
            .example(r#"net"10.1.2.0/24""#, r#"ip"10.1.2.255""#)
            .example(r#"net"10.1.2.3/32""#, r#"ip"10.1.2.3""#)
            .example(r#"net"2001:db8::/64""#, r#"ip"2001:db8::ffff:ffff:ffff:ffff""#)
            .unary(|net: IpNet| net.broadcast()),
        entry(
            "broadcast(net) -> ip",
            "The directed broadcast address of an IPv4 prefix (RFC 922). No result for /31 and /32 (RFC \
            3021) and for IPv6, which have none.",
        )
        .example(r#"net"10.1.2.0/24""#, r#"ip"10.1.2.255""#)
        .example(r#"net"10.1.2.4/30""#, r#"ip"10.1.2.7""#)
        .example(r#"net"10.1.2.4/31""#, "none")
        .example(r#"net"2001:db8::/64""#, "none")
        .unary(broadcast),
        entry("netmask(net) -> ip", "The netmask of the prefix.")
            .example(r#"net"10.1.0.0/20""#, r#"ip"255.255.240.0""#)
            .example(r#"net"0.0.0.0/0""#, r#"ip"0.0.0.0""#)
            .example(r#"net"fe80::/10""#, r#"ip"ffc0::""#)
            .unary(|net: IpNet| net.netmask()),
        entry("prefix_length(net) -> length", "The length of the prefix in bits.")
            .example(r#"net"10.1.2.0/24""#, "24")
            .example(r#"net"fe80::/10""#, "10")
            .unary(|net: IpNet| i64::from(net.prefix_len())),
        entry("to_string(net) -> text", "The prefix as a string.")
            .example(r#"net"10.0.0.0/24""#, r#""10.0.0.0/24""#)
            .example(r#"net"::/0""#, r#""::/0""#)
            .unary(|net: IpNet| net.to_string()),
    ]
}

fn interfaces() -> Vec<Function> {
    vec![
        entry("interface_ip(address) -> ip", "The address of an interface without the length of its prefix.")
            .example(r#"interface_address"10.0.0.254/24""#, r#"ip"10.0.0.254""#)
            .example(r#"interface_address"fd00::1/64""#, r#"ip"fd00::1""#)
            .unary(InterfaceAddress::ip),
        entry("interface_net(address) -> net", "The prefix that contains the address of an interface.")
            .example(r#"interface_address"10.0.0.254/24""#, r#"net"10.0.0.0/24""#)
            .example(r#"interface_address"fd00::1/64""#, r#"net"fd00::/64""#)
            .unary(InterfaceAddress::net),
        entry(
            "to_string(address) -> text",
            "The address of an interface as a string, in the form of RFC 5952.",
        )
        .example(r#"interface_address"10.0.0.254/24""#, r#""10.0.0.254/24""#)
        .example(r#"interface_address"FD00:0::1/64""#, r#""fd00::1/64""#)
        .unary(|address: InterfaceAddress| address.to_string()),
    ]
}

fn relations() -> Vec<Function> {
    vec![
        entry(
            "in_net(ip, net) -> holds",
            "True if the address is in the prefix. False if the IP versions \
        differ.",
        )
        .example(r#"ip"10.1.2.255", net"10.1.2.0/24""#, "true")
        .example(r#"ip"10.1.3.0", net"10.1.2.0/24""#, "false")
        .example(r#"ip"::1", net"0.0.0.0/0""#, "false")
        .binary(|ip: IpAddr, net: IpNet| net.contains(&ip)),
        entry(
            "is_subnet(net, of) -> holds",
            "True if every address of the first prefix is in the second. A prefix is a subnet of itself.",
        )
        .example(r#"net"10.1.2.0/24", net"10.1.0.0/16""#, "true")
        .example(r#"net"10.1.0.0/16", net"10.1.2.0/24""#, "false")
        .example(r#"net"10.1.2.0/24", net"10.1.2.0/24""#, "true")
        .example(r#"net"::/128", net"0.0.0.0/0""#, "false")
        .binary(|net: IpNet, of: IpNet| of.contains(&net)),
        entry("overlaps(a, b) -> holds", "True if the prefixes overlap.")
            .example(r#"net"10.1.2.0/24", net"10.1.0.0/16""#, "true")
            .example(r#"net"10.1.0.0/16", net"10.1.2.0/24""#, "true")
            .example(r#"net"10.1.2.0/24", net"10.1.3.0/24""#, "false")
            .example(r#"net"::/0", net"0.0.0.0/0""#, "false")
            .binary(|a: IpNet, b: IpNet| a.contains(&b) || b.contains(&a)),
        entry("is_ipv4(net) -> holds", "True if the prefix is an IPv4 prefix.")
            .example(r#"net"10.0.0.0/8""#, "true")
            .example(r#"net"::/0""#, "false")
            .unary(|net: IpNet| net.network().is_ipv4()),
        entry("is_ipv6(net) -> holds", "True if the prefix is an IPv6 prefix.")
            .example(r#"net"::/0""#, "true")
            .example(r#"net"10.0.0.0/8""#, "false")
            .unary(|net: IpNet| net.network().is_ipv6()),
    ]
}

fn inside() -> Vec<Function> {
    vec![
        entry(
            "host(net, n) -> ip",
            "The address with this number in the prefix, where 0 is the first address. `host(net, n), \
            range(10, 20, n)` yields ten addresses.",
        )
        .example(r#"net"10.1.2.0/24", 1"#, r#"ip"10.1.2.1""#)
        .example(r#"net"10.1.2.0/24", 255"#, r#"ip"10.1.2.255""#)
        .example(r#"net"2001:db8::/64", 0x1f"#, r#"ip"2001:db8::1f""#)
        .example(r#"net"10.1.2.0/24", 256"#, "error range")
        .example(r#"net"10.1.2.0/24", -1"#, "error range")
        .example(r#"net"255.255.255.0/24", 256"#, "error range")
        .binary(host),
        entry(
            "host_number(net, ip) -> n",
            "The number of the address in the prefix, starting at 0. No result if the address is not in the \
            prefix.",
        )
        .example(r#"net"10.1.2.0/24", ip"10.1.2.7""#, "7")
        .example(r#"net"2001:db8::/64", ip"2001:db8::""#, "0")
        .example(r#"net"10.1.2.0/24", ip"10.1.3.0""#, "none")
        .example(r#"net"2001:db8::/64", ip"2001:db8:0:0:8000::""#, "error range")
        .binary(host_number),
        entry(
            "subnet(net, length, n) -> net",
            "The subnet with number n, starting at 0, among the subnets of this length in the prefix.",
        )
        .example(r#"net"10.1.0.0/16", 24, 2"#, r#"net"10.1.2.0/24""#)
        .example(r#"net"10.1.0.0/16", 16, 0"#, r#"net"10.1.0.0/16""#)
        .example(r#"net"::/0", 128, 1"#, r#"net"::1/128""#)
        .example(r#"net"2001:db8::/32", 64, 4294967295"#, r#"net"2001:db8:ffff:ffff::/64""#)
        .example(r#"net"10.1.0.0/16", 24, 256"#, "error range")
        .example(r#"net"10.1.0.0/16", 15, 0"#, "error range")
        .example(r#"net"10.1.0.0/16", 33, 0"#, "error range")
        .example(r#"net"10.1.0.0/16", 24, -1"#, "error range")
        .ternary(subnet),
        entry(
            "eui64(net, mac) -> ip",
            "The address that a host forms from an IPv6 prefix of length 64 and its Ethernet address (RFC \
            4862, 5.5.3; RFC 2464, 4).",
        )
        .example(r#"net"2001:db8::/64", mac"34:56:78:9a:bc:de""#, r#"ip"2001:db8::3656:78ff:fe9a:bcde""#)
        .example(r#"net"fe80::/64", mac"02:00:00:00:00:01""#, r#"ip"fe80::ff:fe00:1""#)
        .example(r#"net"2001:db8::/48", mac"02:00:00:00:00:01""#, "error range")
        .example(r#"net"10.0.0.0/24", mac"02:00:00:00:00:01""#, "error range")
        .binary(eui64),
    ]
}
