//! Ethernet addresses.

use std::net::{IpAddr, Ipv6Addr};

use openflow_rs::MacAddr;

use super::define::entry;
use super::{Failure, Function};

/// The modified EUI-64 interface identifier of an Ethernet address (RFC 4291, appendix A).
pub(super) fn interface_identifier(mac: MacAddr) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac.0;
    [a ^ 0x02, b, c, 0xff, 0xfe, d, e, f]
}

fn link_local(mac: MacAddr) -> IpAddr {
    let identifier = u64::from_be_bytes(interface_identifier(mac));
    IpAddr::V6(Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(identifier)))
}

fn int_to_mac(n: i64) -> Result<MacAddr, Failure> {
    let bits = u64::try_from(n).ok().filter(|bits| bits >> 48 == 0);
    bits.map(MacAddr::from_u64).ok_or_else(|| {
        Failure::range(format!("int_to_mac: {n} does not fit in an Ethernet address (48 bits)"))
    })
}

fn offset(mac: MacAddr, n: i64) -> Result<MacAddr, Failure> {
    let bits = mac.to_u64().checked_add_signed(n).filter(|bits| bits >> 48 == 0);
    bits.map(MacAddr::from_u64)
        .ok_or_else(|| Failure::range(format!("offset: {mac} and {n} give no Ethernet address (48 bits)")))
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = conversions();
    functions.extend(kinds());
    functions
}

fn conversions() -> Vec<Function> {
    vec![
        entry("mac_to_int(mac) -> n", "The Ethernet address as a 48-bit number.")
            .example(r#"mac"02:00:00:00:00:0a""#, "2199023255562")
            .example(r#"mac"ff:ff:ff:ff:ff:ff""#, "281474976710655")
            .unary(|mac: MacAddr| mac.to_u64() as i64),
        entry("int_to_mac(n) -> mac", "The Ethernet address for this 48-bit number.")
            .example("2199023255562", r#"mac"02:00:00:00:00:0a""#)
            .example("281474976710656", "error range")
            .example("-1", "error range")
            .unary(int_to_mac),
        entry(
            "offset(mac, n) -> mac",
            "The Ethernet address `n` after this one (before it if `n` is \
        negative).",
        )
        .example(r#"mac"02:00:00:00:00:ff", 1"#, r#"mac"02:00:00:00:01:00""#)
        .example(r#"mac"02:00:00:00:01:00", -1"#, r#"mac"02:00:00:00:00:ff""#)
        .example(r#"mac"ff:ff:ff:ff:ff:ff", 1"#, "error range")
        .example(r#"mac"00:00:00:00:00:00", -1"#, "error range")
        .example(r#"mac"00:00:00:00:00:00", 281474976710655"#, r#"mac"ff:ff:ff:ff:ff:ff""#)
        .binary(offset),
        entry(
            "link_local(mac) -> ip",
            "The IPv6 link-local address that a host forms from its Ethernet address (EUI-64; RFC 4291, \
            2.5.6 and appendix A).",
        )
        .example(r#"mac"02:00:00:00:00:01""#, r#"ip"fe80::ff:fe00:1""#)
        .example(r#"mac"34:56:78:9a:bc:de""#, r#"ip"fe80::3656:78ff:fe9a:bcde""#)
        .unary(link_local),
        entry("to_string(mac) -> text", "The Ethernet address as a string.")
            .example(r#"mac"02:00:00:00:00:0a""#, r#""02:00:00:00:00:0a""#)
            .example(r#"mac"FF:FF:FF:FF:FF:FF""#, r#""ff:ff:ff:ff:ff:ff""#)
            .unary(|mac: MacAddr| mac.to_string()),
    ]
}

fn kinds() -> Vec<Function> {
    vec![
        entry(
            "is_multicast(mac) -> holds",
            "True if the address is multicast, including broadcast (IEEE 802, the I/G bit).",
        )
        .example(r#"mac"01:00:5e:00:00:01""#, "true")
        .example(r#"mac"ff:ff:ff:ff:ff:ff""#, "true")
        .example(r#"mac"02:00:00:00:00:01""#, "false")
        .unary(|mac: MacAddr| mac.0[0] & 0x01 != 0),
        entry(
            "is_unicast(mac) -> holds",
            "True if the address can be that of an interface: not multicast, and not 00:00:00:00:00:00.",
        )
        .example(r#"mac"02:00:00:00:00:01""#, "true")
        .example(r#"mac"00:00:00:00:00:01""#, "true")
        .example(r#"mac"03:00:00:00:00:01""#, "false")
        .example(r#"mac"ff:ff:ff:ff:ff:ff""#, "false")
        .example(r#"mac"00:00:00:00:00:00""#, "false")
        .unary(|mac: MacAddr| mac.0[0] & 0x01 == 0 && mac != MacAddr::default()),
        entry("is_broadcast(mac) -> holds", "True if the address is the broadcast address.")
            .example(r#"mac"ff:ff:ff:ff:ff:ff""#, "true")
            .example(r#"mac"ff:ff:ff:ff:ff:fe""#, "false")
            .unary(|mac: MacAddr| mac == MacAddr::BROADCAST),
        entry(
            "is_local(mac) -> holds",
            "True if the address is locally administered rather than assigned by a manufacturer (IEEE 802, \
            the U/L bit).",
        )
        .example(r#"mac"02:00:00:00:00:01""#, "true")
        .example(r#"mac"34:56:78:9a:bc:de""#, "false")
        .unary(|mac: MacAddr| mac.0[0] & 0x02 != 0),
    ]
}
