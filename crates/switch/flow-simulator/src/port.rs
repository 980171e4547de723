//! The ports of a bridge and their kinds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use openflow_rs::Field;

use crate::FlowKey;

/// The encapsulation of a tunnel, as far as the receiver can see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Encapsulation {
    /// Geneve, with a key of 24 bits, and the option of 4 bytes that is `tun_metadata0`.
    Geneve,
    /// VXLAN, with a key of 24 bits.
    Vxlan,
    /// GRE, with a key of 32 bits.
    Gre,
}

impl Encapsulation {
    /// The part of a tunnel key that fits the header; the rest is truncated without an error.
    pub(crate) fn carried(self, tun_id: u128) -> u128 {
        match self {
            Encapsulation::Geneve | Encapsulation::Vxlan => tun_id & 0x00ff_ffff,
            Encapsulation::Gre => tun_id & 0xffff_ffff,
        }
    }

    /// The bytes that a frame of `inner` bytes has in a tunnel to `to`, from the outer IP header on (RFC 8926, RFC 7348, RFC 2890 with a
    /// key).
    pub(crate) fn size(self, inner: usize, to: IpAddr, has_option: bool) -> u32 {
        const UDP: usize = 8;
        let ip = if to.is_ipv6() { 40 } else { 20 };
        let header = match self {
            Encapsulation::Geneve => UDP + 8 + if has_option { 8 } else { 0 },
            Encapsulation::Vxlan => UDP + 8,
            Encapsulation::Gre => 8,
        };
        u32::try_from(ip + header + inner).unwrap_or(u32::MAX)
    }
}

/// A tunnel port, with `options:key=flow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tunnel {
    /// The encapsulation.
    pub encapsulation: Encapsulation,
    /// Its only peer; none for a port that serves all peers (`options:remote_ip=flow`).
    pub remote: Option<IpAddr>,
}

impl Tunnel {
    /// The destination of a packet with these fields that leaves by the port; none if they name none. As in Open vSwitch,
    /// `tun_ipv6_dst` counts only if `tun_dst` is 0.
    pub fn destination(&self, key: &FlowKey) -> Option<IpAddr> {
        let by_fields = || match (key.get(Field::TunDst) as u32, key.get(Field::TunIpv6Dst)) {
            (0, 0) => None,
            (0, six) => Some(Ipv6Addr::from_bits(six).into()),
            (four, _) => Some(Ipv4Addr::from_bits(four).into()),
        };
        self.remote.or_else(by_fields)
    }
}

impl From<Encapsulation> for Tunnel {
    fn from(encapsulation: Encapsulation) -> Tunnel {
        Tunnel { encapsulation, remote: None }
    }
}

/// The destination of packets that leave by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The machine at the port.
    Plain,
    /// Into a tunnel.
    Tunnel(Tunnel),
    /// To another bridge of the same switch.
    Patch,
}
