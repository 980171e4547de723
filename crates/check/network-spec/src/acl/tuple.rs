//! The identity of a connection.

use std::net::IpAddr;

use super::headers::{Headers, NO_CODE, SCTP};
use super::objects::EtherType;

/// What tells the packets of one direction of a connection from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tuple {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) ends: Ends,
}

/// The ends of a connection within its machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ends {
    /// From and to these ports.
    Ports(u16, u16),
    /// A query of `ICMP` with this identifier, or the answer to it (RFC 792, RFC 4443).
    Query { query: Query, identifier: u16, is_request: bool },
    /// The machines alone.
    Machines,
}

/// What a machine asks another one by `ICMP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Query {
    /// Whether it is there.
    Echo,
    /// What time it is.
    Timestamp,
    /// Which network it is in.
    Information,
}

impl Query {
    /// The query that a type of `ICMP`, or of `ICMPv6`, asks or answers, and whether it asks.
    pub(crate) fn of(is_ipv4: bool, kind: u8) -> Option<(Query, bool)> {
        let all = [Query::Echo, Query::Timestamp, Query::Information];
        all.into_iter().find_map(|query| {
            let (request, reply) = query.types(is_ipv4)?;
            (kind == request || kind == reply).then_some((query, kind == request))
        })
    }

    /// The types of a request and of the reply.
    fn types(self, is_ipv4: bool) -> Option<(u8, u8)> {
        match (self, is_ipv4) {
            (Query::Echo, true) => Some((8, 0)),
            (Query::Timestamp, true) => Some((13, 14)),
            (Query::Information, true) => Some((15, 16)),
            (Query::Echo, false) => Some((128, 129)),
            _ => None,
        }
    }
}

impl Tuple {
    /// Those that a switch may take it for. The ports of SCTP are 0 to a switch that does not look for them.
    pub(crate) fn readings(self) -> Vec<Tuple> {
        match self.ends {
            Ends::Ports(..) if self.protocol == SCTP => {
                vec![self, Tuple { ends: Ends::Ports(0, 0), ..self }]
            }
            _ => vec![self],
        }
    }

    /// The packets in the other direction.
    pub(crate) fn reversed(self) -> Tuple {
        let ends = match self.ends {
            Ends::Ports(from, to) => Ends::Ports(to, from),
            Ends::Query { query, identifier, is_request } => {
                Ends::Query { query, identifier, is_request: !is_request }
            }
            Ends::Machines => Ends::Machines,
        };
        Tuple { src: self.dst, dst: self.src, ends, ..self }
    }

    /// The headers that ACLs are asked about for a connection that began with such a packet.
    pub(crate) fn headers(self) -> Headers {
        let ports = match self.ends {
            Ends::Ports(from, to) => Some((from, to)),
            _ => None,
        };
        let is_ipv4 = self.src.is_ipv4();
        let ether_type = if is_ipv4 { EtherType::Ipv4 } else { EtherType::Ipv6 };
        let icmp = match self.ends {
            Ends::Query { query, is_request, .. } => query
                .types(is_ipv4)
                .map(|(request, reply)| (if is_request { request } else { reply }, NO_CODE)),
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
