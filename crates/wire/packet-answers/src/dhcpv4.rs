//! A DHCP server for one client, whose address is decided already (RFC 2131).
//!
//! It stores nothing: an offer reserves nothing, a release frees nothing, and an address is the client's as long as the flow says so.

mod reply;
mod request;

use std::net::{IpAddr, Ipv4Addr};

use frame_builder::Mac;

use crate::headers::is_host;
use crate::received::Received;
use crate::userdata::{Malformed, Reader, countable};
use crate::{Answer, Answered, Receiver, Silence, datagram};

use reply::Kind;
use request::Request;

/// The ports of clients and servers (RFC 2131, 4.1).
const CLIENT_PORT: u16 = 68;
const SERVER_PORT: u16 = 67;

/// Codes of options (RFC 2132, 3442, 3396).
pub(crate) mod code {
    pub(crate) const PAD: u8 = 0;
    pub(crate) const SUBNET_MASK: u8 = 1;
    pub(crate) const ROUTER: u8 = 3;
    pub(crate) const STATIC_ROUTE: u8 = 33;
    pub(crate) const REQUESTED_ADDRESS: u8 = 50;
    pub(crate) const LEASE_TIME: u8 = 51;
    pub(crate) const OVERLOAD: u8 = 52;
    pub(crate) const MESSAGE_TYPE: u8 = 53;
    pub(crate) const SERVER: u8 = 54;
    pub(crate) const PARAMETER_LIST: u8 = 55;
    pub(crate) const MESSAGE: u8 = 56;
    pub(crate) const LONGEST_MESSAGE: u8 = 57;
    pub(crate) const RENEWAL_TIME: u8 = 58;
    pub(crate) const REBINDING_TIME: u8 = 59;
    pub(crate) const CLIENT: u8 = 61;
    pub(crate) const RELAY: u8 = 82;
    pub(crate) const CLASSLESS_ROUTES: u8 = 121;
    pub(crate) const END: u8 = 255;

    /// What follows from the request and the lease, and is not for an instruction to say.
    pub(crate) const OURS: [u8; 15] = [
        PAD,
        SUBNET_MASK,
        REQUESTED_ADDRESS,
        LEASE_TIME,
        OVERLOAD,
        MESSAGE_TYPE,
        SERVER,
        PARAMETER_LIST,
        MESSAGE,
        LONGEST_MESSAGE,
        RENEWAL_TIME,
        REBINDING_TIME,
        CLIENT,
        RELAY,
        END,
    ];
}

/// What a DHCP server has for one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dhcpv4Offer {
    /// The address of the client.
    pub address: Ipv4Addr,
    /// The bits of its network, from which its subnet mask follows.
    pub prefix: u8,
    /// The address of the server, by which clients tell servers apart.
    pub server: Ipv4Addr,
    /// The MAC address of the server.
    pub server_mac: Mac,
    /// The MAC address of the client. No other client gets an answer.
    pub client_mac: Mac,
    /// Seconds for which the client has the address before it must ask again; [`u32::MAX`] for ever.
    pub lease: u32,
    /// Where the client boots from next; 0.0.0.0 for nowhere.
    pub next_server: Ipv4Addr,
    /// Other options, with their codes; see [`dhcp_option`](crate::dhcp_option). Those that follow from the request or the lease are ignored.
    ///
    /// A client that has a list of parameters (RFC 2132, 9.8) gets those of them that it lists, in its order; another one gets all in this
    /// order. A client that lists classless routes and gets some gets neither routers nor static routes, which it would have to
    /// ignore (RFC 3442), so those routes must have the default route. An option that the longest message of the client has no room for
    /// is left out.
    pub options: Vec<(u8, Vec<u8>)>,
}

impl Dhcpv4Offer {
    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.address.octets());
        out.push(self.prefix);
        out.extend_from_slice(&self.server.octets());
        out.extend_from_slice(&self.server_mac);
        out.extend_from_slice(&self.client_mac);
        out.extend_from_slice(&self.lease.to_be_bytes());
        out.extend_from_slice(&self.next_server.octets());
        let options = countable(&self.options);
        out.push(options.len() as u8);
        for (code, value) in options {
            let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
            out.push(*code);
            out.extend_from_slice(&(value.len() as u16).to_be_bytes());
            out.extend_from_slice(value);
        }
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Dhcpv4Offer, Malformed> {
        Ok(Dhcpv4Offer {
            address: reader.ipv4()?,
            prefix: reader.prefix(32)?,
            server: reader.ipv4()?,
            server_mac: reader.mac()?,
            client_mac: reader.mac()?,
            lease: reader.u32()?,
            next_server: reader.ipv4()?,
            options: {
                let count = reader.u8()?;
                reader.list(count, |reader| {
                    let (code, length) = (reader.u8()?, reader.u16()?);
                    Ok((code, reader.bytes(length.into())?.to_vec()))
                })?
            },
        })
    }

    /// The answer to a message of the client.
    pub(crate) fn answer(&self, frame: &[u8]) -> Result<Answer, Silence> {
        let received = Received::read(frame)?;
        let (IpAddr::V4(from), IpAddr::V4(to)) = (received.from, received.to) else {
            return Err(Silence::NoRequest);
        };
        let request = Request::read(datagram::payload(&received, CLIENT_PORT, SERVER_PORT)?)?;
        if request.mac != self.client_mac {
            return Err(Silence::OtherClient);
        }
        if received.sender() == self.server_mac || from == self.server {
            return Err(Silence::FromItself);
        }
        if request.is_relayed {
            return Err(Silence::Relayed);
        }
        let is_other = request.server.is_some_and(|server| server != self.server);
        if is_other || (to != self.server && to != Ipv4Addr::BROADCAST) {
            return Err(Silence::OtherServer);
        }
        let kind = self.kind(&request)?;
        let frame = self.reply(&request, kind, from)?;
        Ok(Answer::new(frame, Receiver::Mac(self.client_mac), kind.answered()))
    }

    /// The kind of answer to a message for this server (RFC 2131, 4.3).
    fn kind(&self, request: &Request) -> Result<Kind, Silence> {
        match request.kind {
            request::DISCOVER => Ok(Kind::Offer),
            request::REQUEST => {
                // Selecting an offer and after a start, a client asks for an address. Renewing and rebinding, it has it already (4.3.2).
                let has = Some(request.address).filter(|address| !address.is_unspecified());
                let mut asked = request.requested.into_iter().chain(has).peekable();
                asked.peek().ok_or(Silence::Damaged)?;
                Ok(if asked.all(|asked| asked == self.address) { Kind::Ack } else { Kind::Nak })
            }
            request::DECLINE => Err(Silence::Declined),
            request::RELEASE => Err(Silence::Released),
            request::INFORM => Ok(Kind::Information),
            _ => Err(Silence::NoRequest),
        }
    }

    /// Where an answer goes: IP and MAC address (RFC 2131, 4.1).
    fn destination(&self, request: &Request, kind: Kind, from: Ipv4Addr) -> Result<(Ipv4Addr, Mac), Silence> {
        let to_all = (Ipv4Addr::BROADCAST, frame_builder::BROADCAST);
        let has = match kind {
            Kind::Nak => return Ok(to_all),
            // A client that says nothing of the address that it has is reached by it all the same.
            Kind::Information if request.address.is_unspecified() => from,
            _ => request.address,
        };
        if has.is_unspecified() {
            let to_client = (self.address, self.client_mac);
            return Ok(if request.broadcast { to_all } else { to_client });
        }
        if is_host(has.into()) { Ok((has, self.client_mac)) } else { Err(Silence::FromNobody) }
    }
}

impl Kind {
    fn answered(self) -> Answered {
        match self {
            Kind::Offer => Answered::Dhcpv4Offer,
            Kind::Ack | Kind::Information => Answered::Dhcpv4Ack,
            Kind::Nak => Answered::Dhcpv4Nak,
        }
    }
}
