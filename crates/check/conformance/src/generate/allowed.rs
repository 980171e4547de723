//! Addresses that random ports are allowed beside their own, and share.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use network_spec::{Address, Allowed, Network, Port};

use super::Generator;
use crate::frames::Mac;

/// MACs that ports share, as virtual routers have them (RFC 9568, 7.3). Two differ in their first half alone.
const SHARED_MACS: [Mac; 3] = [[0, 0, 0x5e, 0, 1, 7], [0, 0, 0x5e, 0, 2, 7], [2, 0xaa, 0x5e, 0, 1, 7]];

impl Generator<'_> {
    /// What a port with these addresses is allowed besides: mostly nothing.
    pub(super) fn allowed(&mut self, own: &[Address]) -> Vec<Allowed> {
        if !self.shared.chance(self.style.allowed) {
            return Vec::new();
        }
        let mut all = Vec::new();
        for _ in 0..*self.shared.pick(&[1, 1, 2, 3]) {
            let own_mac = own.first().map(|address| address.mac);
            let mac = match self.shared.below(10) {
                0..4 if own_mac.is_some() => None,
                4 => own_mac,
                _ => Some(*self.shared.pick(&SHARED_MACS)),
            };
            let least = u64::from(mac.is_none() || mac == own_mac);
            let number = least + self.shared.below(3);
            let ips = (0..number).map(|_| self.allowed_prefix()).collect();
            if mac.is_some() || own_mac.is_some() {
                all.push(Allowed { mac, ips });
            }
        }
        all
    }

    /// An address that several ports may be allowed, or a prefix, which may hold addresses that others have. Routers follow announcements of
    /// addresses, which the model does not know; they follow none of prefixes.
    fn allowed_prefix(&mut self) -> Network {
        let number = self.shared.below(3) as u8 + 1;
        let v4 = |a, b, length| Network::of(Ipv4Addr::new(10, a, 0, b), length).prefix();
        let v6 = |a, b, length| Network::of(Ipv6Addr::new(a, 0, 0, 0, 0, 0, 0, b), length).prefix();
        match self.shared.below(12) {
            0..3 => v4(99, number, if self.style.routed { 31 } else { 32 }),
            3..5 => v6(0xfd99, number.into(), if self.style.routed { 127 } else { 128 }),
            5 => v4(98, 0, 16),
            6 => v4(0, number * 4, 30),
            7 => v6(0xfd98, 0, 32),
            8 => v6(0xfd00, 0, *self.shared.pick(&[64, 126])),
            9 => v6(0xfe80, 0, 10),
            10 => v4(0, 0, *self.shared.pick(&[0, 1, 4])),
            _ => v6(0, 0, *self.shared.pick(&[0, 1])),
        }
    }
}

/// Addresses for frames of machines that use what a port is allowed.
pub(super) fn allowed_to(port: &Port) -> Vec<Address> {
    let at = |allowed: &Allowed, mac: Mac| {
        let inside = allowed.ips.iter().map(|network| inside(*network));
        // Some of its own, which it may not use everywhere.
        let own = port.addresses.iter().filter_map(|address| address.ips.first().copied());
        Address { mac, ips: inside.chain(own).collect() }
    };
    let macs = |allowed: &Allowed| match allowed.mac {
        Some(mac) => vec![mac],
        None => port.addresses.iter().map(|address| address.mac).collect(),
    };
    port.allowed.iter().flat_map(|one| macs(one).into_iter().map(|mac| at(one, mac))).collect()
}

/// An address of a prefix.
fn inside(network: Network) -> IpAddr {
    match network.ip {
        IpAddr::V4(ip) if network.length < 24 => {
            let [a, b, ..] = ip.octets();
            Ipv4Addr::new(a.max(10), b, 7, 1).into()
        }
        IpAddr::V6(ip) if network.length < 64 => {
            let mut segments = ip.segments();
            segments[7] |= 0x71;
            Ipv6Addr::from(segments).into()
        }
        ip => ip,
    }
}
