//! Messages of the server.

use std::net::Ipv6Addr;

use frame_builder::{Endpoints, IPV6, UDP, ethernet, udp};

use super::request::{Association, Request};
use super::{CLIENT_PORT, Dhcpv6Offer, SERVER_PORT, code, kind};
use crate::headers::ipv6;
use crate::{Answered, Silence};

/// The longest message, so that it needs no fragments anywhere: the smallest MTU of IPv6 without the headers of IPv6 and UDP (RFC 8200, 5).
const LONGEST: usize = 1280 - 48;

/// Addresses that an association has room for, so that the message has room for the rest.
const ADDRESSES_MAX: usize = 32;

/// Codes of results (RFC 8415, 21.13).
#[derive(Clone, Copy)]
enum Status {
    Success = 0,
    NoAddresses = 2,
    NoBinding = 3,
    NotOnLink = 4,
    NoPrefixes = 6,
}

impl Status {
    /// The option, with a text for the people of the client.
    fn option(self) -> Vec<u8> {
        let text = match self {
            Status::Success => "",
            Status::NoAddresses => "no addresses",
            Status::NoBinding => "not leased",
            Status::NotOnLink => "not of this network",
            Status::NoPrefixes => "no prefixes",
        };
        option(code::STATUS, &[&[0, self as u8], text.as_bytes()].concat())
    }
}

impl Dhcpv6Offer {
    /// The frame with a message to this address.
    pub(super) fn frame(&self, to: Ipv6Addr, message: &[u8]) -> Vec<u8> {
        let from = self.server();
        let datagram = udp(SERVER_PORT, CLIENT_PORT, message, Endpoints::V6(from, to));
        ethernet(self.client_mac, self.server_mac, IPV6, &ipv6(from, to, UDP).packet(&datagram))
    }

    /// The message that answers a request which has been checked, and its kind (RFC 8415, 18.3).
    pub(super) fn message(&self, request: &Request<'_>) -> Result<(Vec<u8>, Answered), Silence> {
        let commits = request.kind == kind::SOLICIT && request.rapid_commit && !self.addresses.is_empty();
        let (kind, answered) = match request.kind {
            kind::SOLICIT if !commits => (kind::ADVERTISE, Answered::Dhcpv6Advertise),
            kind::DECLINE => (kind::REPLY, Answered::Dhcpv6Declined),
            _ => (kind::REPLY, Answered::Dhcpv6Reply),
        };
        let mut out = vec![kind];
        out.extend_from_slice(&request.transaction);
        if let Some(client) = request.client {
            put(&mut out, &option(code::CLIENT, client));
        }
        put(&mut out, &option(code::SERVER, &self.duid()));
        match request.kind {
            // 18.3.7 and 18.3.8: the status is of the whole message.
            kind::RELEASE | kind::DECLINE => put(&mut out, &Status::Success.option()),
            kind::CONFIRM => put(&mut out, &self.confirmation(request)?.option()),
            _ => self.put_configuration(request, commits, &mut out),
        }
        Ok((out, answered))
    }

    /// Whether all addresses that the client has are those that it is to have. A client that names none gets no answer (18.3.3).
    fn confirmation(&self, request: &Request<'_>) -> Result<Status, Silence> {
        let mut named = request.associations.iter().flat_map(Association::addresses).peekable();
        named.peek().ok_or(Silence::Damaged)?;
        let is_right = named.all(|address| self.addresses.contains(&address));
        Ok(if is_right { Status::Success } else { Status::NotOnLink })
    }

    fn put_configuration(&self, request: &Request<'_>, commits: bool, out: &mut Vec<u8>) {
        if commits {
            put(out, &option(code::RAPID_COMMIT, &[]));
        } else if request.kind == kind::SOLICIT && !self.addresses.is_empty() {
            /// The client need not wait for another server (18.2.1): none has addresses for it.
            const FIRST: u8 = 255;
            put(out, &option(code::PREFERENCE, &[FIRST]));
        }
        // All addresses are for the first association that can have them.
        let first = request.associations.iter().position(|one| one.code == code::ADDRESSES);
        for (place, association) in request.associations.iter().enumerate() {
            let own: &[Ipv6Addr] = if first == Some(place) { &self.addresses } else { &[] };
            put(out, &self.association(request.kind, association, own));
        }
        if !self.dns.is_empty() && request.wants(code::DNS) {
            let room = LONGEST.saturating_sub(out.len() + 4) / 16;
            let servers: Vec<u8> = self.dns.iter().take(room).flat_map(Ipv6Addr::octets).collect();
            put(out, &option(code::DNS, &servers));
        }
        if !self.domain_search.is_empty() && request.wants(code::DOMAIN_SEARCH) {
            put(out, &option(code::DOMAIN_SEARCH, &self.domain_search));
        }
    }

    /// What the client gets for an association that may have these addresses.
    fn association(&self, kind: u8, association: &Association<'_>, own: &[Ipv6Addr]) -> Vec<u8> {
        let renews = matches!(kind, kind::RENEW | kind::REBIND);
        let preferred = self.preferred.min(self.valid);
        let mut options: Vec<Vec<u8>> =
            own.iter().map(|address| address_option(*address, preferred, self.valid)).collect();
        if renews && association.code == code::ADDRESSES && (kind == kind::REBIND || !own.is_empty()) {
            // What the client has beside is not to be used any longer (18.3.4 and 18.3.5).
            let others = association.addresses().filter(|other| !own.contains(other));
            options.extend(others.map(|other| address_option(other, 0, 0)));
        }
        options.truncate(ADDRESSES_MAX);
        if options.is_empty() {
            let status = match association.code {
                _ if renews => Status::NoBinding,
                code::PREFIXES => Status::NoPrefixes,
                _ => Status::NoAddresses,
            };
            options.push(status.option());
        }
        let times = match association.code {
            code::TEMPORARY => Vec::new(),
            _ if own.is_empty() => vec![0; 8],
            _ => [part_of(preferred, 5), part_of(preferred, 8)].map(u32::to_be_bytes).concat(),
        };
        option(association.code, &[&association.id[..], &times, &options.concat()].concat())
    }
}

/// An address with its lifetimes (RFC 8415, 21.6).
fn address_option(address: Ipv6Addr, preferred: u32, valid: u32) -> Vec<u8> {
    let lifetimes = [preferred.to_be_bytes(), valid.to_be_bytes()].concat();
    option(code::ADDRESS, &[&address.octets()[..], &lifetimes].concat())
}

fn option(code: u16, value: &[u8]) -> Vec<u8> {
    [&code.to_be_bytes()[..], &(value.len() as u16).to_be_bytes(), value].concat()
}

/// Appends an option if the message has room for it.
fn put(out: &mut Vec<u8>, option: &[u8]) {
    if out.len() + option.len() <= LONGEST {
        out.extend_from_slice(option);
    }
}

/// Tenths of a lifetime (RFC 8415, 21.4). Of one for ever, all parts are for ever.
fn part_of(lifetime: u32, tenths: u64) -> u32 {
    if lifetime == u32::MAX { lifetime } else { (u64::from(lifetime) * tenths / 10) as u32 }
}
