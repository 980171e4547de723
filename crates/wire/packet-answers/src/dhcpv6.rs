//! A `DHCPv6` server for one client, whose addresses are decided already (RFC 8415).
//!
//! It stores nothing: what it advertises is what it gives, and what a client releases or declines is still what the flow says.

mod reply;
mod request;

use std::net::{IpAddr, Ipv6Addr};

use frame_builder::Mac;

use crate::headers::link_local;
use crate::received::Received;
use crate::userdata::{Malformed, Reader, countable};
use crate::{Answer, Receiver, Silence, datagram};

use request::Request;

/// The ports of clients and servers (RFC 8415, 7.2).
const CLIENT_PORT: u16 = 546;
const SERVER_PORT: u16 = 547;

/// Types of messages (RFC 8415, 7.3).
mod kind {
    pub(super) const SOLICIT: u8 = 1;
    pub(super) const ADVERTISE: u8 = 2;
    pub(super) const REQUEST: u8 = 3;
    pub(super) const CONFIRM: u8 = 4;
    pub(super) const RENEW: u8 = 5;
    pub(super) const REBIND: u8 = 6;
    pub(super) const REPLY: u8 = 7;
    pub(super) const RELEASE: u8 = 8;
    pub(super) const DECLINE: u8 = 9;
    pub(super) const INFORMATION_REQUEST: u8 = 11;
    pub(super) const RELAY_FORWARD: u8 = 12;
}

/// Codes of options (RFC 8415, 21; RFC 3646).
mod code {
    pub(super) const CLIENT: u16 = 1;
    pub(super) const SERVER: u16 = 2;
    /// Addresses that stay (`IA_NA`).
    pub(super) const ADDRESSES: u16 = 3;
    /// Temporary addresses (`IA_TA`).
    pub(super) const TEMPORARY: u16 = 4;
    pub(super) const ADDRESS: u16 = 5;
    pub(super) const OPTION_REQUEST: u16 = 6;
    pub(super) const PREFERENCE: u16 = 7;
    pub(super) const STATUS: u16 = 13;
    pub(super) const RAPID_COMMIT: u16 = 14;
    pub(super) const DNS: u16 = 23;
    pub(super) const DOMAIN_SEARCH: u16 = 24;
    /// Prefixes that are delegated (`IA_PD`).
    pub(super) const PREFIXES: u16 = 25;
}

/// What a `DHCPv6` server has for one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dhcpv6Offer {
    /// The addresses of the client, of which the first 32 have room. None: it gets other configuration alone.
    pub addresses: Vec<Ipv6Addr>,
    /// The MAC address of the server. Its link-local address and its DUID follow from it.
    pub server_mac: Mac,
    /// The MAC address of the client, from which its frames come. No other client gets an answer.
    pub client_mac: Mac,
    /// Seconds for which the client opens connections from the addresses, at most [`valid`](Self::valid). It renews them after half of that.
    pub preferred: u32,
    /// Seconds for which the client has the addresses; [`u32::MAX`] for ever.
    pub valid: u32,
    /// The DNS servers (RFC 3646, 3).
    pub dns: Vec<Ipv6Addr>,
    /// The domains in which the client searches for names (RFC 3646, 4), as [`domain_search`](crate::domain_search) encodes them.
    pub domain_search: Vec<u8>,
}

impl Dhcpv6Offer {
    /// The address of the server.
    pub fn server(&self) -> Ipv6Addr {
        link_local(self.server_mac)
    }

    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (addresses, dns) = (countable(&self.addresses), countable(&self.dns));
        let search = self.domain_search.get(..usize::from(u16::MAX)).unwrap_or(&self.domain_search);
        out.extend_from_slice(&self.server_mac);
        out.extend_from_slice(&self.client_mac);
        out.extend_from_slice(&self.preferred.to_be_bytes());
        out.extend_from_slice(&self.valid.to_be_bytes());
        out.extend_from_slice(&[addresses.len() as u8, dns.len() as u8]);
        out.extend_from_slice(&(search.len() as u16).to_be_bytes());
        out.extend(addresses.iter().chain(dns).flat_map(Ipv6Addr::octets));
        out.extend_from_slice(search);
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Dhcpv6Offer, Malformed> {
        let (server_mac, client_mac) = (reader.mac()?, reader.mac()?);
        let (preferred, valid) = (reader.u32()?, reader.u32()?);
        let [addresses, dns] = reader.take()?;
        let search = reader.u16()?;
        Ok(Dhcpv6Offer {
            addresses: reader.list(addresses, Reader::ipv6)?,
            server_mac,
            client_mac,
            preferred,
            valid,
            dns: reader.list(dns, Reader::ipv6)?,
            domain_search: reader.bytes(search.into())?.to_vec(),
        })
    }

    /// The answer to a message of the client.
    pub(crate) fn answer(&self, frame: &[u8]) -> Result<Answer, Silence> {
        /// Where servers and relay agents listen (RFC 8415, 7.1). Clients send nothing elsewhere unless a server lets them (18.4).
        const ALL_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
        let received = Received::read(frame)?;
        let (IpAddr::V6(from), IpAddr::V6(to)) = (received.from, received.to) else {
            return Err(Silence::NoRequest);
        };
        let message = datagram::payload(&received, CLIENT_PORT, SERVER_PORT)?;
        if to != ALL_SERVERS {
            return Err(Silence::NoRequest);
        }
        if from == self.server() || received.sender() == self.server_mac {
            return Err(Silence::FromItself);
        }
        if received.sender() != self.client_mac {
            return Err(Silence::OtherClient);
        }
        if !from.is_unicast_link_local() {
            return Err(Silence::FromNobody);
        }
        let request = Request::read(message)?;
        request.check(&self.duid())?;
        let (message, kind) = self.message(&request)?;
        let frame = self.frame(from, &message);
        Ok(Answer::new(frame, Receiver::Mac(self.client_mac), kind))
    }

    /// The identifier of the server, from its MAC address (RFC 8415, 11.4).
    fn duid(&self) -> Vec<u8> {
        const BY_ADDRESS: u8 = 3;
        const ETHERNET: u8 = 1;
        [&[0, BY_ADDRESS, 0, ETHERNET][..], &self.server_mac].concat()
    }
}
