//! What the DNS zones of a switch say to its ports (RFC 1035).
//!
//! - A query is for the network if it is to a server of a zone. If a zone of the switch has no server, so is each query for a name that a zone
//!   of the switch has, whoever is asked. All others go on as they are.
//! - The names of a switch are those of all its zones; upper and lower case are the same (RFC 4343). An address has a reverse name, which
//!   points to the names that have the address.
//! - A name that is another name says so, whatever is asked (RFC 1034, 3.6.2), with the addresses of the other that are asked for.
//! - What a server does not know does not exist if it is in the domain of a name that it knows: the name without its first part. The
//!   domain itself exists (RFC 8020). Everything else is refused, so that the machine asks another server.
//! - No record is remembered longer than its zone says. Records in one answer have one time.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::error::{ipv4, ipv6};
use super::received::Received;
use super::requests::{Asked, Datagram, Served, ethernet, udp};
use crate::World;
use crate::acl::octets;
use crate::frame::{Body, Payload, chunk};
use crate::services::{DnsData, DnsZone};

const UDP: u8 = 17;
const HOPS: u8 = 64;
const PORT: u16 = 53;

/// Types of records (RFC 1035, 3.2; RFC 3596, 2.1; RFC 6891, 6.1.1).
const A: u16 = 1;
const CNAME: u16 = 5;
const PTR: u16 = 12;
const AAAA: u16 = 28;
const OPT: u16 = 41;
const ANY: u16 = 255;

/// What becomes of a query (RFC 1035, 4.1.1; RFC 6891, 9).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    Fine = 0,
    Malformed = 1,
    NoSuchName = 3,
    NotImplemented = 4,
    Refused = 5,
    BadVersion = 16,
}

/// A question.
struct Query<'a> {
    /// Its bytes.
    question: &'a [u8],
    /// The name in lower case.
    name: String,
    kind: u16,
    is_internet: bool,
    /// The version of what the machine says of itself, if it does.
    edns: Option<u8>,
}

/// A record: whether it is of what the name is another name for, its type, and its data.
type Record = (bool, u16, Vec<u8>);

impl<'a> Query<'a> {
    /// Reads the question behind a header. One that is not understood is none.
    fn read(payload: &'a [u8]) -> Option<Query<'a>> {
        let count = |at: usize| chunk(payload, at).map(u16::from_be_bytes);
        let behind = payload.get(12..)?;
        let (name, rest) = name(behind)?;
        let [k0, k1, c0, c1] = *rest.first_chunk::<4>()?;
        let question = &behind[..behind.len() - rest.len() + 4];
        let mut rest = &rest[4..];
        let others = u32::from(count(6)?) + u32::from(count(8)?) + u32::from(count(10)?);
        let (mut edns, additional) = (None, u32::from(count(10)?));
        for place in 0..others {
            // A name that is no question is not read, only what is said of the root.
            let (is_root, behind) = skipped(rest)?;
            let fixed = chunk::<10>(behind, 0)?;
            rest = behind.get(10 + usize::from(u16::from_be_bytes([fixed[8], fixed[9]]))..)?;
            if u16::from_be_bytes([fixed[0], fixed[1]]) == OPT && place + additional >= others {
                (edns.replace(fixed[5]).is_none() && is_root).then_some(())?;
            }
        }
        let (kind, class) = (u16::from_be_bytes([k0, k1]), u16::from_be_bytes([c0, c1]));
        let is_internet = [1, 255].contains(&class);
        (count(4)? == 1).then_some(Query { question, name, kind, is_internet, edns })
    }
}

/// Reads a name without pointers, in lower case, and what is behind it.
fn name(mut rest: &[u8]) -> Option<(String, &[u8])> {
    let (mut labels, mut length) = (Vec::new(), 1);
    loop {
        let (units, behind) = rest.split_first()?;
        let (label, behind) = behind.split_at_checked((*units).into()).filter(|_| *units < 64)?;
        length += label.len() + 1;
        if label.is_empty() {
            return (length <= 256).then(|| (labels.join("."), behind));
        }
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        rest = behind;
    }
}

/// Whether a name is the root, and what is behind it.
fn skipped(mut rest: &[u8]) -> Option<(bool, &[u8])> {
    let mut is_root = true;
    loop {
        let (units, behind) = rest.split_first()?;
        match units {
            0 => return Some((is_root, behind)),
            1..64 => rest = behind.get(usize::from(*units)..)?,
            192.. => return Some((false, behind.get(1..)?)),
            _ => return None,
        }
        is_root = false;
    }
}

/// A name as DNS writes it.
fn wire(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    labels.chain([0]).collect()
}

/// The name that is looked up for the names of an address.
fn reverse(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let nibbles = ip.octets().into_iter().rev().flat_map(|octet| [octet & 15, octet >> 4]);
            let nibbles: Vec<String> = nibbles.map(|nibble| format!("{nibble:x}")).collect();
            format!("{}.ip6.arpa", nibbles.join("."))
        }
    }
}

impl World {
    /// What the zones of the switch do with a frame.
    pub(super) fn serve_dns(&self, asked: Asked<'_>) -> Served {
        let to: IpAddr = match &asked.frame.body {
            Body::Ipv4(Some(packet)) if matches!(packet.payload, Payload::Udp(_, PORT)) => packet.dst.into(),
            Body::Ipv6(Some(packet)) if matches!(packet.payload, Payload::Udp(_, PORT)) => packet.dst.into(),
            _ => return Served::GoesOn,
        };
        let zones: Vec<&DnsZone> = self.zones_on(asked.switch).collect();
        let is_server = zones.iter().filter_map(|zone| zone.server).any(|server| server.ip == to);
        let looks_up = is_server || zones.iter().any(|zone| zone.server.is_none());
        let datagram = Datagram::read(asked.frame, asked.bytes);
        let message =
            datagram.as_ref().map(|datagram| datagram.payload).filter(|message| message.len() >= 12);
        let query = message.filter(|message| message[2] & 0xf8 == 0).and_then(Query::read);
        let known = query.as_ref().filter(|query| query.is_internet).and_then(|query| records(&zones, query));
        let (code, (records, ttl)) = match (&query, known) {
            _ if !looks_up => return Served::GoesOn,
            (Some(query), Some(_)) if query.edns.is_some_and(|version| version > 0) => {
                (Code::BadVersion, (Vec::new(), 0))
            }
            (_, Some(known)) => (Code::Fine, known),
            (query, None) if is_server => (unknown(&zones, query.as_ref(), message), (Vec::new(), 0)),
            (_, None) => return Served::GoesOn,
        };
        let is_query = message.is_some_and(|message| message[2] & 0x80 == 0);
        let received = Received::read(asked.bytes).filter(|one| is_query && one.from != one.to);
        let answer = message.zip(datagram.as_ref()).map(|(message, datagram)| {
            framed(asked, datagram, &reply(message, query.as_ref(), code, &records, ttl))
        });
        Served::Taken(answer.filter(|_| received.is_some()))
    }
}

/// What the zones know of a name: the records that a query asks for, and for how long they may be remembered. None if no zone has it.
fn records(zones: &[&DnsZone], query: &Query<'_>) -> Option<(Vec<Record>, u32)> {
    let wants = |kind: u16| query.kind == kind || query.kind == ANY;
    let all = || zones.iter().flat_map(|zone| zone.records.iter().map(|(name, data)| (*zone, name, data)));
    let named = |wanted: &str| {
        let wanted = wanted.to_ascii_lowercase();
        all().find(move |(_, name, _)| name.to_ascii_lowercase() == wanted)
    };
    let addresses = |of: &[IpAddr], is_alias: bool, wants: &dyn Fn(u16) -> bool| -> Vec<Record> {
        let kind = |ip: &IpAddr| if ip.is_ipv4() { A } else { AAAA };
        let wanted = of.iter().filter(|ip| wants(kind(ip)));
        wanted.map(|ip| (is_alias, kind(ip), octets(*ip))).collect()
    };
    if let Some((zone, _, data)) = named(&query.name) {
        let target = match data {
            DnsData::Addresses(own) => return Some((addresses(own, false, &wants), zone.ttl)),
            DnsData::Alias(target) => target,
        };
        let mut records = vec![(false, CNAME, wire(&target.to_ascii_lowercase()))];
        let mut ttl = zone.ttl;
        if let Some((other, _, DnsData::Addresses(of_target))) = named(target) {
            // Who asks for everything asks for the other name next.
            records.extend(addresses(of_target, true, &|kind| query.kind == kind));
            ttl = ttl.min(other.ttl);
        }
        return Some((records, ttl));
    }
    let mut names = BTreeSet::new();
    let mut ttl = None;
    for (zone, name, data) in all() {
        let DnsData::Addresses(own) = data else { continue };
        if own.iter().any(|ip| reverse(*ip) == query.name) {
            names.insert(name.to_ascii_lowercase());
            ttl = Some(ttl.unwrap_or(zone.ttl).min(zone.ttl));
        }
    }
    let pointers = names.iter().filter(|_| wants(PTR)).map(|name| (false, PTR, wire(name)));
    ttl.map(|ttl| (pointers.collect(), ttl))
}

/// What a server says of what it does not know.
fn unknown(zones: &[&DnsZone], query: Option<&Query<'_>>, message: Option<&[u8]>) -> Code {
    let is_query = message.is_some_and(|message| message[2] & 0x78 == 0);
    let Some(query) = query else {
        return if is_query { Code::Malformed } else { Code::NotImplemented };
    };
    let names = zones.iter().flat_map(|zone| zone.records.keys()).map(|name| name.to_ascii_lowercase());
    let domains: BTreeSet<String> =
        names.filter_map(|name| Some(name.split_once('.')?.1.to_owned())).collect();
    let is_below = |domain: &String| query.name.strip_suffix(domain).is_some_and(|head| head.ends_with('.'));
    match () {
        () if query.edns.is_some_and(|version| version > 0) => Code::BadVersion,
        () if !query.is_internet => Code::Refused,
        () if domains.contains(&query.name) => Code::Fine,
        () if domains.iter().any(is_below) => Code::NoSuchName,
        () => Code::Refused,
    }
}

/// The message that answers another one.
fn reply(message: &[u8], query: Option<&Query<'_>>, code: Code, records: &[Record], ttl: u32) -> Vec<u8> {
    const RESPONSE: u8 = 0x80;
    const AUTHORITATIVE: u8 = 4;
    let knows = matches!(code, Code::Fine | Code::NoSuchName);
    let flags = RESPONSE | message[2] & 0x79 | if knows { AUTHORITATIVE } else { 0 };
    let edns = query.is_some_and(|query| query.edns.is_some());
    let counts = [u16::from(query.is_some()), records.len() as u16, 0, u16::from(edns)];
    let mut out = [&message[..2], &[flags, code as u8 & 15]].concat();
    out.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
    out.extend(query.map(|query| query.question).unwrap_or_default());
    let mut target = Vec::new();
    for (is_of_target, kind, data) in records {
        if *kind == CNAME {
            target.clone_from(data);
        }
        // Without the case of the question, which has no meaning.
        let owner = query.map(|query| wire(&query.name)).unwrap_or_default();
        out.extend(if *is_of_target { &target } else { &owner });
        out.extend([*kind, 1].iter().flat_map(|number| number.to_be_bytes()));
        out.extend(ttl.to_be_bytes());
        out.extend((data.len() as u16).to_be_bytes());
        out.extend(data);
    }
    if edns {
        const TAKES: u16 = 1232;
        out.extend(
            [&[0][..], &OPT.to_be_bytes(), &TAKES.to_be_bytes(), &[code as u8 >> 4], &[0; 5]].concat(),
        );
    }
    out
}

/// The frame that returns a message to the client, from the server that the client asked.
fn framed(asked: Asked<'_>, datagram: &Datagram<'_>, message: &[u8]) -> Vec<u8> {
    let datagram_back = udp((PORT, datagram.ports.0), message);
    let packet = match datagram.addresses {
        (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(to, from, UDP, datagram_back),
        (IpAddr::V6(from), IpAddr::V6(to)) => ipv6(to, from, UDP, datagram_back, HOPS),
        _ => Vec::new(),
    };
    ethernet(asked.frame.src, asked.frame.dst, datagram.addresses.0.is_ipv4(), &packet)
}
