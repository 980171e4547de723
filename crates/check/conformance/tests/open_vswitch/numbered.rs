//! Machines by number: each has its MAC address and an IP address of each version.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::Mac;
use network_spec::{Address, Port};

pub(super) const fn mac(number: u8) -> Mac {
    [2, 0, 0, 0, 0, number]
}

pub(super) fn ipv4(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

pub(super) fn ipv6(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into())
}

/// A port with the addresses of a number.
pub(super) fn port(switch: &str, number: u8) -> Port {
    let addresses =
        vec![Address { mac: mac(number), ips: vec![IpAddr::V4(ipv4(number)), IpAddr::V6(ipv6(number))] }];
    Port { addresses, ..Port::of(switch) }
}
