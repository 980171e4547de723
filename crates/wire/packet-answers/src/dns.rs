//! DNS without a database: flows have the names (RFC 1035, 3596, 6891).
//!
//! A query comes here twice. First, [`DnsQuestion`] gives the packet the key of its name, by which a flow matches it. That flow hands
//! it over again, and has the records: [`DnsAnswer`]. Of a name that nobody has, the flow for all others says so, or lets the query go on.

pub(crate) mod name;
mod query;
mod reply;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use frame_builder::{Endpoints, UDP, udp};
use openflow_rs::{Action, Subfield};

use crate::headers::{ipv4, ipv6};
use crate::received::Received;
use crate::userdata::{Malformed, Reader, countable};
use crate::{Answer, Answered, DomainName, Silence, datagram};

use query::{Fault, Message, Query};
use reply::{A, AAAA, ANY, CNAME, Code, PTR, Record, reply};

/// The port of servers.
const PORT: u16 = 53;
/// The bits of a key; the highest is 0.
pub(crate) const KEY_BITS: u32 = 64;

/// The name that is asked for, as a number in a field of the same packet; see [`name_key`](crate::name_key).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsQuestion {
    /// Where the number goes: 64 bits. It is 0 for a packet that is no query, or none that can be read, so that such a packet goes the way
    /// of a name that nobody has.
    pub key: Subfield,
}

impl DnsQuestion {
    /// Whether a field can have keys.
    pub(crate) fn takes_keys(field: Subfield) -> bool {
        u32::from(field.bits()) == KEY_BITS && Action::load(field, 0).is_ok()
    }

    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key.to_bytes());
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<DnsQuestion, Malformed> {
        let key = Subfield::from_bytes(reader.take()?)?;
        if Self::takes_keys(key) { Ok(DnsQuestion { key }) } else { Err(Malformed::Key(key)) }
    }

    /// The same packet, whatever it is, and its key.
    pub(crate) fn answer(&self, frame: &[u8]) -> Answer {
        let key = key(frame).unwrap_or(0);
        let loads = vec![(self.key, key)];
        Answer { loads, ..Answer::unlimited(frame.to_vec(), Answered::DnsQuestion) }
    }
}

/// The key of the name that a packet asks for.
fn key(frame: &[u8]) -> Result<u64, Silence> {
    let received = Received::read(frame)?;
    let (_, payload) = datagram::to_port(&received, PORT)?;
    let message = Message::read(payload)?;
    message.internet().map(|query| query.name.key())
}

/// What a server says of a name, or of all names that nobody has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DnsAnswer {
    /// The name that has the records. None for those that nobody has.
    pub name: Option<DomainName>,
    /// Seconds for which an answer may be remembered.
    pub ttl: u32,
    /// IPv4 addresses of the name, or of what it is an alias of.
    pub ipv4: Vec<Ipv4Addr>,
    /// IPv6 addresses in the same way.
    pub ipv6: Vec<Ipv6Addr>,
    /// What the name is an alias of.
    pub cname: Option<DomainName>,
    /// What the name points to: the names of an address, if it is a reverse name.
    pub pointers: Vec<DomainName>,
    /// Of names that nobody has: the domains in which there are no others. Elsewhere, somebody else must be asked.
    pub domains: Vec<DomainName>,
}

impl DnsAnswer {
    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let root = DomainName::root();
        let (ipv4, ipv6) = (countable(&self.ipv4), countable(&self.ipv6));
        let (pointers, domains) = (countable(&self.pointers), countable(&self.domains));
        for name in [&self.name, &self.cname] {
            out.extend_from_slice(name.as_ref().unwrap_or(&root).bytes());
        }
        out.extend_from_slice(&self.ttl.to_be_bytes());
        out.extend([ipv4.len(), ipv6.len(), pointers.len(), domains.len()].map(|count| count as u8));
        out.extend(ipv4.iter().flat_map(Ipv4Addr::octets));
        out.extend(ipv6.iter().flat_map(Ipv6Addr::octets));
        out.extend(pointers.iter().chain(domains).flat_map(DomainName::bytes));
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<DnsAnswer, Malformed> {
        let some = |name: DomainName| Some(name).filter(|name| !name.is_root());
        let name = some(DomainName::read(reader)?);
        let cname = some(DomainName::read(reader)?);
        let ttl = reader.u32()?;
        let [ipv4, ipv6, pointers, domains] = reader.take()?;
        Ok(DnsAnswer {
            name,
            ttl,
            ipv4: reader.list(ipv4, Reader::ipv4)?,
            ipv6: reader.list(ipv6, Reader::ipv6)?,
            cname,
            pointers: reader.list(pointers, DomainName::read)?,
            domains: reader.list(domains, DomainName::read)?,
        })
    }

    /// The answer to a query.
    pub(crate) fn answer(&self, frame: &[u8]) -> Result<Answer, Silence> {
        let received = Received::read(frame)?;
        received.check()?;
        if received.from == received.to {
            return Err(Silence::FromItself);
        }
        let (port, payload) = datagram::to_port(&received, PORT)?;
        let message = Message::read(payload)?;
        let (code, records) = match &self.name {
            Some(name) => self.of_name(name, &message)?,
            None => (self.of_nobody(&message), Vec::new()),
        };
        let frame = framed(&received, port, &reply(&message, code, &records, self.ttl))?;
        // A machine may look up more names in a second than it should get errors.
        Ok(Answer::unlimited(frame, Answered::DnsAnswer))
    }

    /// The answer to a query for the name.
    fn of_name(&self, name: &DomainName, message: &Message<'_>) -> Result<(Code, Vec<Record>), Silence> {
        let query = message.internet()?;
        if !query.name.is(name) {
            return Err(Silence::OtherName);
        }
        Ok(if query.is_too_new() {
            (Code::BadVersion, Vec::new())
        } else {
            (Code::NoError, self.records(query.kind))
        })
    }

    /// The answer to a query for a name that nobody has. It has no record of the domain itself, so nobody remembers it (RFC 2308, 5).
    fn of_nobody(&self, message: &Message<'_>) -> Code {
        let query = match &message.query {
            Ok(query) => query,
            Err(Fault::Opcode) => return Code::NotImplemented,
            Err(Fault::Malformed) => return Code::Malformed,
        };
        if query.is_too_new() {
            Code::BadVersion
        } else if !query.is_of_internet() {
            Code::Refused
        } else if self.domains.iter().any(|domain| query.name.is(domain)) {
            Code::NoError
        } else if self.domains.iter().any(|domain| query.name.is_under(domain)) {
            Code::NoSuchName
        } else {
            // A client with several servers then tries the next one.
            Code::Refused
        }
    }

    /// The records of the name that are of a type.
    fn records(&self, kind: u16) -> Vec<Record> {
        let wants = |wanted| kind == wanted || (kind == ANY && self.cname.is_none());
        let ipv4 = self.ipv4.iter().filter(|_| wants(A)).map(|address| Record::of_name(A, address.octets()));
        let ipv6 =
            self.ipv6.iter().filter(|_| wants(AAAA)).map(|address| Record::of_name(AAAA, address.octets()));
        if let Some(target) = &self.cname {
            // It is the answer for all types, and what else there is belongs to the target (RFC 1034, 3.6.2).
            let of_target = ipv4.chain(ipv6).map(Record::of_target);
            return std::iter::once(Record::naming(CNAME, target)).chain(of_target).collect();
        }
        let pointers = self.pointers.iter().filter(|_| wants(PTR)).map(|name| Record::naming(PTR, name));
        ipv4.chain(ipv6).chain(pointers).collect()
    }
}

impl<'a> Message<'a> {
    /// The query, if it is one for records of the Internet.
    fn internet(&self) -> Result<&Query<'a>, Silence> {
        let query = self.query.as_ref().map_err(|fault| match fault {
            Fault::Opcode => Silence::NoRequest,
            Fault::Malformed => Silence::Damaged,
        })?;
        if query.is_of_internet() { Ok(query) } else { Err(Silence::NoRequest) }
    }
}

impl Query<'_> {
    /// Whether the client speaks a version that is not known (RFC 6891, 6.1.3).
    fn is_too_new(&self) -> bool {
        self.edns.is_some_and(|edns| edns.version > 0)
    }
}

/// A frame with a message to the port that has asked.
fn framed(received: &Received<'_>, port: u16, message: &[u8]) -> Result<Vec<u8>, Silence> {
    let packet = match (received.to, received.from) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            ipv4(from, to, UDP).packet(&udp(PORT, port, message, Endpoints::V4(from, to)))
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            ipv6(from, to, UDP).packet(&udp(PORT, port, message, Endpoints::V6(from, to)))
        }
        _ => return Err(Silence::Damaged),
    };
    Ok(received.returned(&packet))
}
