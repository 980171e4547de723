//! Messages of DHCP clients, and DNS queries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{Endpoints, IPV4, IPV6, Ipv4, Ipv6, Mac, UDP, ethernet, udp};

/// A message of a DHCP client (RFC 2131, 2).
pub(crate) struct Dhcpv4 {
    /// Its type; none for BOOTP.
    pub(crate) kind: Option<u8>,
    pub(crate) broadcast: bool,
    /// The address that the client has.
    pub(crate) has: Ipv4Addr,
    pub(crate) relay: Ipv4Addr,
    pub(crate) mac: Mac,
    /// Other options, with their codes.
    pub(crate) options: Vec<(u8, Vec<u8>)>,
}

impl Dhcpv4 {
    /// The payload of the datagram.
    pub(crate) fn message(&self) -> Vec<u8> {
        let mut out =
            vec![1, 1, 6, 0, 0xde, 0xad, 0xbe, 0xef, 0, 0, if self.broadcast { 0x80 } else { 0 }, 0];
        out.extend(self.has.octets());
        out.extend([0; 8]);
        out.extend(self.relay.octets());
        out.extend(self.mac);
        out.extend([0; 10 + 64 + 128]);
        let Some(kind) = self.kind else { return out };
        out.extend([99, 130, 83, 99, 53, 1, kind]);
        for (code, value) in &self.options {
            out.extend([*code, value.len() as u8]);
            out.extend(value);
        }
        out.push(255);
        out
    }
}

/// An option of `DHCPv6`.
pub(crate) fn option(code: u16, value: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat()
}

/// An association of `DHCPv6` that names these addresses.
pub(crate) fn association(code: u16, id: u8, addresses: &[Ipv6Addr]) -> Vec<u8> {
    const TEMPORARY: u16 = 4;
    let named = addresses.iter().flat_map(|ip| option(5, &[&ip.octets()[..], &[0; 8]].concat()));
    let times = if code == TEMPORARY { 0 } else { 8 };
    let value: Vec<u8> = [0, 0, 0, id].into_iter().chain(vec![0; times]).chain(named).collect();
    option(code, &value)
}

/// A query for records of a type and class (RFC 1035, 4.1), with the flags in its third byte.
pub(crate) fn query(name: &str, kind: u16, class: u16, flags: u8, edns: Option<u8>) -> Vec<u8> {
    let mut out = vec![0x12, 0x34, flags, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns.is_some())];
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend(label.bytes());
    }
    out.push(0);
    out.extend([kind, class].iter().flat_map(|number| number.to_be_bytes()));
    if let Some(version) = edns {
        out.extend([0, 0, 41, 4, 0xd0, 0, version, 0, 0, 0, 0]);
    }
    out
}

/// The name under which the names of an address are looked up.
pub(crate) fn reverse(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => {
            let digits: Vec<String> = ip.octets().iter().rev().map(u8::to_string).collect();
            format!("{}.in-addr.arpa", digits.join("."))
        }
        IpAddr::V6(ip) => {
            let digits = format!("{:032x}", u128::from(ip));
            let digits: Vec<String> = digits.chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa", digits.join("."))
        }
    }
}

/// A frame with a datagram.
pub(crate) fn datagram(
    (to_mac, from_mac): (Mac, Mac),
    (from, to): (IpAddr, IpAddr),
    ports: (u16, u16),
    payload: &[u8],
) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let datagram = udp(ports.0, ports.1, payload, Endpoints::V4(from, to));
            ethernet(to_mac, from_mac, IPV4, &Ipv4::new(from, to, UDP).packet(&datagram))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let datagram = udp(ports.0, ports.1, payload, Endpoints::V6(from, to));
            ethernet(to_mac, from_mac, IPV6, &Ipv6::new(from, to, UDP).packet(&datagram))
        }
        _ => ethernet(to_mac, from_mac, IPV4, payload),
    }
}
