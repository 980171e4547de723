//! Messages of `DHCPv6` clients.

use std::net::Ipv6Addr;

use super::{code, kind};
use crate::Silence;

/// What a message says that an answer depends on.
pub(super) struct Request<'a> {
    /// The type of the message.
    pub(super) kind: u8,
    /// The number of the transaction.
    pub(super) transaction: [u8; 3],
    /// The identifier of the client.
    pub(super) client: Option<&'a [u8]>,
    /// The identifier of the server that the client has chosen.
    server: Option<&'a [u8]>,
    /// What the client wants addresses or prefixes for, in its order.
    pub(super) associations: Vec<Association<'a>>,
    /// Whether the client takes addresses without another exchange.
    pub(super) rapid_commit: bool,
    /// The codes of the options that the client asks for.
    requested: Vec<u16>,
}

/// An identity association (RFC 8415, 4.2).
pub(super) struct Association<'a> {
    /// The code of its option.
    pub(super) code: u16,
    /// The number by which the client knows it.
    pub(super) id: [u8; 4],
    /// The options behind its fixed part.
    options: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads the payload of a datagram (RFC 8415, 8).
    pub(super) fn read(bytes: &'a [u8]) -> Result<Request<'a>, Silence> {
        let [kind, t0, t1, t2, ref options @ ..] = *bytes else { return Err(Silence::Damaged) };
        if kind == kind::RELAY_FORWARD {
            return Err(Silence::Relayed);
        }
        let mut request = Request {
            kind,
            transaction: [t0, t1, t2],
            client: None,
            server: None,
            associations: Vec::new(),
            rapid_commit: false,
            requested: Vec::new(),
        };
        for option in Options(options) {
            let (code, value) = option?;
            match code {
                code::CLIENT => request.client = Some(identifier(value)?),
                code::SERVER => request.server = Some(value),
                code::ADDRESSES | code::PREFIXES => {
                    request.associations.push(Association::read(code, value, 8)?);
                }
                code::TEMPORARY => request.associations.push(Association::read(code, value, 0)?),
                code::RAPID_COMMIT => request.rapid_commit = true,
                code::OPTION_REQUEST => {
                    let (codes, rest) = value.as_chunks::<2>();
                    if !rest.is_empty() {
                        return Err(Silence::Damaged);
                    }
                    request.requested.extend(codes.iter().copied().map(u16::from_be_bytes));
                }
                _ => {}
            }
        }
        Ok(request)
    }

    /// Whether it may be answered by the server with this identifier (RFC 8415, 16).
    pub(super) fn check(&self, server: &[u8]) -> Result<(), Silence> {
        let (needs_client, names_server) = match self.kind {
            kind::SOLICIT | kind::CONFIRM | kind::REBIND => (true, Some(false)),
            kind::REQUEST | kind::RENEW | kind::RELEASE | kind::DECLINE => (true, Some(true)),
            kind::INFORMATION_REQUEST if self.associations.is_empty() => (false, None),
            kind::INFORMATION_REQUEST => return Err(Silence::Damaged),
            _ => return Err(Silence::NoRequest),
        };
        if self.server.is_some_and(|named| named != server) {
            return Err(Silence::OtherServer);
        }
        let is_wrong = names_server.is_some_and(|names| names != self.server.is_some());
        if is_wrong || (needs_client && self.client.is_none()) { Err(Silence::Damaged) } else { Ok(()) }
    }

    /// Whether the client asks for an option. One that asks for information alone gets all there is.
    pub(super) fn wants(&self, code: u16) -> bool {
        self.kind == kind::INFORMATION_REQUEST || self.requested.contains(&code)
    }
}

impl<'a> Association<'a> {
    /// Reads the value of an option: the number, so many bytes of times, and options (RFC 8415, 21.4, 21.5 and 21.21).
    fn read(code: u16, value: &'a [u8], times: usize) -> Result<Association<'a>, Silence> {
        let (id, behind) = value.split_first_chunk().ok_or(Silence::Damaged)?;
        let options = behind.get(times..).ok_or(Silence::Damaged)?;
        for option in Options(options) {
            option?;
        }
        Ok(Association { code, id: *id, options })
    }

    /// The addresses that the client names.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> {
        let named = Options(self.options).flatten().filter(|(code, _)| *code == code::ADDRESS);
        named.filter_map(|(_, value)| value.first_chunk::<16>().copied().map(Ipv6Addr::from))
    }
}

/// An identifier of a client, which has 3 to 130 bytes (RFC 8415, 11.1).
fn identifier(value: &[u8]) -> Result<&[u8], Silence> {
    if (3..=130).contains(&value.len()) { Ok(value) } else { Err(Silence::Damaged) }
}

/// Options with their codes, as far as they are whole (RFC 8415, 21.1).
struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = Result<(u16, &'a [u8]), Silence>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let option = split(self.0);
        self.0 = option.map_or(&[], |(_, _, behind)| behind);
        Some(option.map(|(code, value, _)| (code, value)).ok_or(Silence::Damaged))
    }
}

/// Code and value of the first option, and what is behind it.
fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let ([c0, c1, l0, l1], behind) = bytes.split_first_chunk()?;
    let (value, behind) = behind.split_at_checked(u16::from_be_bytes([*l0, *l1]).into())?;
    Some((u16::from_be_bytes([*c0, *c1]), value, behind))
}
