//! Messages of DHCP clients.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use frame_builder::Mac;

use super::code;
use crate::Silence;

/// Types of messages (RFC 2132, 9.6).
pub(super) const DISCOVER: u8 = 1;
pub(super) const REQUEST: u8 = 3;
pub(super) const DECLINE: u8 = 4;
pub(super) const RELEASE: u8 = 7;
pub(super) const INFORM: u8 = 8;

/// The first bytes of options (RFC 2131, 3).
pub(super) const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// The least that every client takes as the longest message (RFC 2132, 9.10), and what any Ethernet carries.
const MESSAGE_LEN: (u16, u16) = (576, 1500);

/// What a message says that an answer depends on.
pub(super) struct Request {
    /// The type of the message.
    pub(super) kind: u8,
    /// The number of the transaction.
    pub(super) transaction: [u8; 4],
    /// The flags as they came.
    pub(super) flags: [u8; 2],
    /// Whether the client cannot take messages to an address that it does not have yet.
    pub(super) broadcast: bool,
    /// The address that the client has and uses; 0.0.0.0 if none (`ciaddr`).
    pub(super) address: Ipv4Addr,
    /// Whether a relay agent has sent it.
    pub(super) is_relayed: bool,
    /// The MAC address of the client.
    pub(super) mac: Mac,
    /// The address that the client asks for.
    pub(super) requested: Option<Ipv4Addr>,
    /// The server that the client has chosen.
    pub(super) server: Option<Ipv4Addr>,
    /// The codes of the options that the client asks for.
    pub(super) parameters: Option<Vec<u8>>,
    /// The name by which the client wants to be known to the server, at most 255 bytes.
    pub(super) client: Option<Vec<u8>>,
    /// The longest IP packet that the client takes.
    pub(super) longest: usize,
}

impl Request {
    /// Reads the payload of a datagram (RFC 2131, 2).
    pub(super) fn read(bytes: &[u8]) -> Result<Request, Silence> {
        const BOOTREQUEST: u8 = 1;
        const ETHERNET: [u8; 2] = [1, 6];
        let (fixed, behind) = bytes.split_first_chunk::<236>().ok_or(Silence::Damaged)?;
        let [operation, hardware, hardware_len, _, x0, x1, x2, x3, _, _, f0, f1, rest @ ..] = *fixed;
        let [c0, c1, c2, c3, _, _, _, _, _, _, _, _, r0, r1, r2, r3, m0, m1, m2, m3, m4, m5, ..] = rest;
        if operation != BOOTREQUEST || [hardware, hardware_len] != ETHERNET {
            return Err(Silence::NoRequest);
        }
        let options = behind.strip_prefix(&COOKIE).ok_or(Silence::Bootp)?;
        let (_, names) = fixed.split_at_checked(44).ok_or(Silence::Damaged)?;
        let mut options = Options::read(options, names)?;
        let kind = options.fixed(code::MESSAGE_TYPE)?.map(u8::from_be_bytes).ok_or(Silence::Bootp)?;
        let (least, most) = MESSAGE_LEN;
        let longest = options.fixed(code::LONGEST_MESSAGE)?.map_or(least, u16::from_be_bytes);
        let client = options.0.remove(&code::CLIENT);
        if client.as_ref().is_some_and(|client| client.len() > usize::from(u8::MAX)) {
            return Err(Silence::Damaged);
        }
        Ok(Request {
            kind,
            transaction: [x0, x1, x2, x3],
            flags: [f0, f1],
            broadcast: f0 & 0x80 != 0,
            address: [c0, c1, c2, c3].into(),
            is_relayed: [r0, r1, r2, r3] != [0; 4],
            mac: [m0, m1, m2, m3, m4, m5],
            requested: options.fixed::<4>(code::REQUESTED_ADDRESS)?.map(Into::into),
            server: options.fixed::<4>(code::SERVER)?.map(Into::into),
            parameters: options.0.remove(&code::PARAMETER_LIST),
            client,
            longest: longest.clamp(least, most).into(),
        })
    }
}

/// Values by code. Those of several options of one code are joined (RFC 3396, 7).
struct Options(BTreeMap<u8, Vec<u8>>);

impl Options {
    /// Reads the options, and those in the fields for the names of a server (64 bytes) and a file if an option says that some are
    /// there (RFC 2132, 9.3).
    fn read(bytes: &[u8], names: &[u8]) -> Result<Options, Silence> {
        const SERVER_NAME_LEN: usize = 64;
        const FILE: u8 = 1;
        const SERVER_NAME: u8 = 2;
        let mut options = Options(BTreeMap::new());
        options.add(bytes)?;
        let overload = options.fixed(code::OVERLOAD)?.map_or(0, u8::from_be_bytes);
        let (server_name, file) = names.split_at_checked(SERVER_NAME_LEN).ok_or(Silence::Damaged)?;
        if overload & FILE != 0 {
            options.add(file)?;
        }
        if overload & SERVER_NAME != 0 {
            options.add(server_name)?;
        }
        Ok(options)
    }

    fn add(&mut self, mut rest: &[u8]) -> Result<(), Silence> {
        loop {
            match *rest {
                // Clients are known to leave out the end.
                [] | [code::END, ..] => return Ok(()),
                [code::PAD, ref behind @ ..] => rest = behind,
                [code, length, ref behind @ ..] => {
                    let (value, behind) = behind.split_at_checked(length.into()).ok_or(Silence::Damaged)?;
                    self.0.entry(code).or_default().extend_from_slice(value);
                    rest = behind;
                }
                [_] => return Err(Silence::Damaged),
            }
        }
    }

    /// The value of an option that has one length.
    fn fixed<const N: usize>(&self, code: u8) -> Result<Option<[u8; N]>, Silence> {
        let value = self.0.get(&code);
        value.map(|value| <[u8; N]>::try_from(&value[..]).map_err(|_| Silence::Damaged)).transpose()
    }
}
