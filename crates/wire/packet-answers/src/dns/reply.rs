//! Messages of the server.

use super::name::DomainName;
use super::query::{Message, OPCODE, OPT, Query, RECURSION_DESIRED, RESPONSE};

/// The longest message that this server sends and takes: what IPv6 carries everywhere.
const LONGEST: u16 = 1232;
/// The longest message that clients take without saying so (RFC 1035, 2.3.4).
const LONGEST_UNSAID: u16 = 512;
const HEADER_LEN: usize = 12;
const OPT_LEN: usize = 11;
/// The Internet.
const IN: u16 = 1;

/// Types of records (RFC 1035, 3.2; RFC 3596, 2.1).
pub(super) const A: u16 = 1;
pub(super) const CNAME: u16 = 5;
pub(super) const PTR: u16 = 12;
pub(super) const AAAA: u16 = 28;
pub(super) const ANY: u16 = 255;

/// What becomes of a query (RFC 1035, 4.1.1; RFC 6891, 9).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    NoError = 0,
    Malformed = 1,
    NoSuchName = 3,
    NotImplemented = 4,
    Refused = 5,
    BadVersion = 16,
}

/// A record of an answer.
pub(super) struct Record {
    /// Whether it is of the target of the alias in front of it, and not of the name that was asked for.
    pub(super) is_of_target: bool,
    pub(super) kind: u16,
    pub(super) data: Vec<u8>,
}

impl Record {
    pub(super) fn of_name(kind: u16, data: impl Into<Vec<u8>>) -> Record {
        Record { is_of_target: false, kind, data: data.into() }
    }

    pub(super) fn of_target(self) -> Record {
        Record { is_of_target: true, ..self }
    }

    pub(super) fn naming(kind: u16, name: &DomainName) -> Record {
        Record::of_name(kind, name.bytes())
    }
}

/// The message that answers another one. It has as many of the records as its client takes.
///
/// It does not say that it is cut (the bit TC), although that is what the bit is for: a client would ask again over TCP, where nobody
/// answers, and have nothing at all.
pub(super) fn reply(message: &Message<'_>, code: Code, records: &[Record], ttl: u32) -> Vec<u8> {
    const AUTHORITATIVE: u8 = 0x04;
    let query = message.query.as_ref().ok();
    let knows = matches!(code, Code::NoError | Code::NoSuchName);
    let flags =
        message.flags & (OPCODE | RECURSION_DESIRED) | RESPONSE | if knows { AUTHORITATIVE } else { 0 };
    let edns = query.is_some_and(|query| query.edns.is_some());
    let question = query.map_or(&[][..], |query| query.question);
    let room = longest(query) - HEADER_LEN - question.len() - if edns { OPT_LEN } else { 0 };
    let (count, answers) = answers(records, HEADER_LEN + question.len(), room, ttl);
    let mut out = Vec::with_capacity(usize::from(LONGEST));
    out.extend_from_slice(&message.id);
    out.extend_from_slice(&[flags, code as u8 & 0x0f]);
    let counts = [u16::from(query.is_some()), count, 0, u16::from(edns)];
    out.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
    out.extend_from_slice(question);
    out.extend_from_slice(&answers);
    if edns {
        out.push(0);
        out.extend([OPT, LONGEST].iter().flat_map(|number| number.to_be_bytes()));
        // The upper bits of the code, version 0, no flags and no options.
        out.extend_from_slice(&[code as u8 >> 4, 0, 0, 0, 0, 0]);
    }
    out
}

/// The longest message that a client takes. A question is at most 259 bytes, so there is always room for that.
fn longest(query: Option<&Query<'_>>) -> usize {
    let said = query.and_then(|query| query.edns).map_or(LONGEST_UNSAID, |edns| edns.longest);
    said.clamp(LONGEST_UNSAID, LONGEST).into()
}

/// The first of the records that there is room for, and their number. They begin `at` so many bytes from the beginning of the message.
fn answers(records: &[Record], at: usize, room: usize, ttl: u32) -> (u16, Vec<u8>) {
    /// A name that is further in front is written as where it is (RFC 1035, 4.1.4).
    const POINTER: u16 = 0xc000;
    /// A pointer, type, class, TTL and length.
    const FIXED_LEN: usize = 12;
    let (mut count, mut out, mut target) = (0, Vec::new(), HEADER_LEN);
    for Record { is_of_target, kind, data } in records {
        if out.len() + FIXED_LEN + data.len() > room {
            break;
        }
        let owner = if *is_of_target { target } else { HEADER_LEN };
        if *kind == CNAME {
            target = at + out.len() + FIXED_LEN;
        }
        let fixed = [POINTER | owner as u16, *kind, IN];
        out.extend(fixed.iter().flat_map(|number| number.to_be_bytes()));
        out.extend_from_slice(&ttl.to_be_bytes());
        out.extend_from_slice(&(data.len() as u16).to_be_bytes());
        out.extend_from_slice(data);
        count += 1;
    }
    (count, out)
}
