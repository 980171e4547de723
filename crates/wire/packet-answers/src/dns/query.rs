//! What is read of a query (RFC 1035, 4.1; RFC 6891, 6.1).
//!
//! It is so little that no crate is needed for it: the header, one name that is not compressed, since nothing is in front of it, and where records end.

use super::name::DomainName;
use crate::Silence;
use crate::userdata::{Malformed, Reader};

/// Bits of the third byte of the header.
pub(super) const RESPONSE: u8 = 0x80;
pub(super) const OPCODE: u8 = 0x78;
pub(super) const RECURSION_DESIRED: u8 = 0x01;
/// The type of what clients say of themselves.
pub(super) const OPT: u16 = 41;
/// The Internet, and any class.
const CLASSES: [u16; 2] = [1, 255];

/// A message that is no answer.
pub(super) struct Message<'a> {
    pub(super) id: [u8; 2],
    /// The third byte of the header.
    pub(super) flags: u8,
    pub(super) query: Result<Query<'a>, Fault>,
}

/// Why a message is no query that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It asks for something else than records.
    Opcode,
    /// It ends too early, contradicts itself, or has not one question.
    Malformed,
}

/// One question, and what the client says of itself.
pub(super) struct Query<'a> {
    /// The question as it was sent, with the case of its name, by which some clients know their answer.
    pub(super) question: &'a [u8],
    pub(super) name: DomainName,
    /// The type of records that is asked for.
    pub(super) kind: u16,
    class: u16,
    pub(super) edns: Option<Edns>,
}

/// What a client says of itself.
#[derive(Clone, Copy)]
pub(super) struct Edns {
    pub(super) version: u8,
    /// The longest message that it takes.
    pub(super) longest: u16,
}

/// What is in front of the data of a record.
struct Record {
    is_of_root: bool,
    kind: u16,
    class: u16,
    ttl: [u8; 4],
}

impl<'a> Message<'a> {
    /// Reads the payload of a datagram.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Message<'a>, Silence> {
        let ([id0, id1, flags, _, counts @ ..], sections) =
            bytes.split_first_chunk::<12>().ok_or(Silence::Damaged)?;
        if flags & RESPONSE != 0 {
            return Err(Silence::NoRequest);
        }
        let query = match flags & OPCODE {
            0 => Query::read(*counts, sections).map_err(|_| Fault::Malformed),
            _ => Err(Fault::Opcode),
        };
        Ok(Message { id: [*id0, *id1], flags: *flags, query })
    }
}

impl<'a> Query<'a> {
    /// Reads what is behind the header. The time that it takes is bounded by the bytes, whatever number of records the header claims.
    fn read(counts: [u8; 8], sections: &'a [u8]) -> Result<Query<'a>, Malformed> {
        let [q0, q1, a0, a1, n0, n1, r0, r1] = counts;
        let [questions, answers, authorities, additional] =
            [[q0, q1], [a0, a1], [n0, n1], [r0, r1]].map(u16::from_be_bytes);
        if questions != 1 {
            return Err(Malformed::Short);
        }
        let mut reader = Reader(sections);
        let name = DomainName::read(&mut reader)?;
        let (kind, class) = (reader.u16()?, reader.u16()?);
        let length = sections.len() - reader.0.len();
        let question = sections.get(..length).ok_or(Malformed::Short)?;
        for _ in 0..u32::from(answers) + u32::from(authorities) {
            Record::read(&mut reader)?;
        }
        let mut edns = None;
        for _ in 0..additional {
            let record = Record::read(&mut reader)?;
            if record.kind == OPT {
                // There is one at most, and it is of the root (RFC 6891, 6.1.1).
                let [_, version, ..] = record.ttl;
                let said = Edns { version, longest: record.class };
                if edns.replace(said).is_some() || !record.is_of_root {
                    return Err(Malformed::Name);
                }
            }
        }
        Ok(Query { question, name, kind, class, edns })
    }

    /// Whether it asks for records of the Internet.
    pub(super) fn is_of_internet(&self) -> bool {
        CLASSES.contains(&self.class)
    }
}

impl Record {
    /// Reads a record, and goes behind its data.
    fn read(reader: &mut Reader<'_>) -> Result<Record, Malformed> {
        let is_of_root = skip_name(reader)?;
        let (kind, class, ttl) = (reader.u16()?, reader.u16()?, reader.take()?);
        let length = reader.u16()?;
        reader.bytes(length.into())?;
        Ok(Record { is_of_root, kind, class, ttl })
    }
}

/// Goes behind a name, which may end in a pointer that nobody follows. Whether it is the root.
fn skip_name(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    let mut is_root = true;
    loop {
        match reader.u8()? {
            0 => return Ok(is_root),
            length @ 1..=63 => reader.bytes(length.into())?,
            0xc0.. => return reader.u8().map(|_| false),
            _ => return Err(Malformed::Name),
        };
        is_root = false;
    }
}
