//! Messages of the server.

use std::net::Ipv4Addr;

use frame_builder::{Endpoints, IPV4, UDP, ethernet, udp};

use super::request::{COOKIE, Request};
use super::{CLIENT_PORT, Dhcpv4Offer, SERVER_PORT, code};
use crate::Silence;
use crate::headers::ipv4;

/// The headers of IPv4 and UDP.
const HEADERS_LEN: usize = 28;
/// The end of the options.
const END_LEN: usize = 1;
/// The least length of a message of BOOTP (RFC 1542, 2.1).
const LEAST: usize = 300;

/// What an answer is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An address is offered.
    Offer,
    /// The client has the address.
    Ack,
    /// The client is told everything but an address, since it has one of its own.
    Information,
    /// The client must not use the address that it asks for.
    Nak,
}

impl Kind {
    /// The type of the message (RFC 2132, 9.6).
    fn number(self) -> u8 {
        match self {
            Kind::Offer => 2,
            Kind::Ack | Kind::Information => 5,
            Kind::Nak => 6,
        }
    }

    fn gives_address(self) -> bool {
        matches!(self, Kind::Offer | Kind::Ack)
    }
}

impl Dhcpv4Offer {
    /// The frame that answers a request from this address (RFC 2131, 4.3.1).
    pub(super) fn reply(&self, request: &Request, kind: Kind, from: Ipv4Addr) -> Result<Vec<u8>, Silence> {
        let (to, mac) = self.destination(request, kind, from)?;
        let message = self.message(request, kind);
        let datagram = udp(SERVER_PORT, CLIENT_PORT, &message, Endpoints::V4(self.server, to));
        Ok(ethernet(mac, self.server_mac, IPV4, &ipv4(self.server, to, UDP).packet(&datagram)))
    }

    /// The message, with the fields of RFC 2131, table 3.
    fn message(&self, request: &Request, kind: Kind) -> Vec<u8> {
        const BOOTREPLY: u8 = 2;
        const NAMES_LEN: usize = 64 + 128;
        let nowhere = Ipv4Addr::UNSPECIFIED;
        let has = if matches!(kind, Kind::Ack | Kind::Information) { request.address } else { nowhere };
        let gets = if kind.gives_address() { self.address } else { nowhere };
        let next = if kind == Kind::Nak { nowhere } else { self.next_server };
        let mut out = vec![BOOTREPLY, 1, 6, 0];
        out.extend_from_slice(&request.transaction);
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&request.flags);
        out.extend([has, gets, next, nowhere].into_iter().flat_map(|address| address.octets()));
        out.extend_from_slice(&request.mac);
        out.extend_from_slice(&[0; 10 + NAMES_LEN]);
        out.extend_from_slice(&COOKIE);
        self.put_options(request, kind, &mut out);
        out.push(code::END);
        out.resize(out.len().max(LEAST), code::PAD);
        out
    }

    fn put_options(&self, request: &Request, kind: Kind, out: &mut Vec<u8>) {
        put(out, code::MESSAGE_TYPE, &[kind.number()]);
        put(out, code::SERVER, &self.server.octets());
        if kind.gives_address() {
            let renewal = part_of(self.lease, 1, 2);
            let rebinding = part_of(self.lease, 7, 8);
            put(out, code::LEASE_TIME, &self.lease.to_be_bytes());
            put(out, code::RENEWAL_TIME, &renewal.to_be_bytes());
            put(out, code::REBINDING_TIME, &rebinding.to_be_bytes());
        }
        if kind == Kind::Nak {
            put(out, code::MESSAGE, b"the address is not this client's");
        } else {
            let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix.min(32))).unwrap_or(0);
            put(out, code::SUBNET_MASK, &mask.to_be_bytes());
        }
        // RFC 6842, 3: in all answers.
        if let Some(client) = &request.client {
            put(out, code::CLIENT, client);
        }
        if kind == Kind::Nak {
            return;
        }
        for (code, value) in self.wanted(request) {
            let mut option = Vec::new();
            put(&mut option, *code, value);
            if HEADERS_LEN + out.len() + option.len() + END_LEN <= request.longest {
                out.extend_from_slice(&option);
            }
        }
    }

    /// The options for this client, in its order.
    fn wanted(&self, request: &Request) -> Vec<&(u8, Vec<u8>)> {
        let own = self.options.iter().filter(|(code, _)| !code::OURS.contains(code));
        let Some(list) = &request.parameters else { return own.collect() };
        let has_routes = list.contains(&code::CLASSLESS_ROUTES)
            && own.clone().any(|(code, _)| *code == code::CLASSLESS_ROUTES);
        let mut wanted = Vec::new();
        for (place, asked) in list.iter().enumerate() {
            let is_asked_before = list.iter().take(place).any(|before| before == asked);
            let is_ignored = has_routes && [code::ROUTER, code::STATIC_ROUTE].contains(asked);
            if !is_asked_before && !is_ignored {
                wanted.extend(own.clone().filter(|(code, _)| code == asked));
            }
        }
        wanted
    }
}

/// Appends an option; one of more than 255 bytes as several (RFC 3396, 5).
fn put(out: &mut Vec<u8>, code: u8, value: &[u8]) {
    let mut parts = value.chunks(usize::from(u8::MAX));
    let first = parts.next().unwrap_or_default();
    for part in std::iter::once(first).chain(parts) {
        out.extend_from_slice(&[code, part.len() as u8]);
        out.extend_from_slice(part);
    }
}

/// A part of a lease. Of one for ever, all parts are for ever.
fn part_of(lease: u32, numerator: u64, denominator: u64) -> u32 {
    if lease == u32::MAX { lease } else { (u64::from(lease) * numerator / denominator) as u32 }
}
