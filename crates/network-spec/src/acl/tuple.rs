//! The identity of a connection.

use std::net::IpAddr;

use super::headers::Headers;
use super::objects::EtherType;

/// What tells the packets of one direction of a connection from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tuple {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) protocol: u8,
    pub(super) ends: Ends,
}

/// The ends of a connection within its machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ends {
    /// From and to these ports.
    Ports(u16, u16),
    /// An echo of this identifier and code (RFC 792, RFC 4443).
    Echo { identifier: u16, code: u8, is_request: bool },
    /// The machines alone.
    Machines,
}

impl Tuple {
    /// The packets in the other direction.
    pub(super) fn reversed(self) -> Tuple {
        let ends = match self.ends {
            Ends::Ports(from, to) => Ends::Ports(to, from),
            Ends::Echo { identifier, code, is_request } => {
                Ends::Echo { identifier, code, is_request: !is_request }
            }
            Ends::Machines => Ends::Machines,
        };
        Tuple { src: self.dst, dst: self.src, ends, ..self }
    }

    /// The headers that ACLs are asked about for a connection that began with such a packet.
    pub(super) fn headers(self) -> Headers {
        let ports = match self.ends {
            Ends::Ports(from, to) => Some((from, to)),
            _ => None,
        };
        let (ether_type, request, reply) =
            if self.src.is_ipv4() { (EtherType::Ipv4, 8, 0) } else { (EtherType::Ipv6, 128, 129) };
        let icmp = match self.ends {
            Ends::Echo { code, is_request, .. } => Some((if is_request { request } else { reply }, code)),
            _ => None,
        };
        Headers {
            ether_type: Some(ether_type),
            addresses: Some((self.src, self.dst)),
            protocol: Some(self.protocol),
            ports,
            icmp,
            fragment: None,
        }
    }
}
