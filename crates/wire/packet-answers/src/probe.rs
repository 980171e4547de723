//! What the responder asks machines unasked, to see whether they work, and the packets with which they answer.

use std::fmt;
use std::net::IpAddr;

use frame_builder::{ICMP, ICMPV6, IPV4, IPV6, Mac, TCP, ethernet, icmp, icmpv6};

use crate::Silence;
use crate::headers::{ipv4, ipv6, is_host};
use crate::received::Received;
use crate::userdata::{Malformed, Reader, countable, put_ip};

/// A bit of the format, and the numbers of the checks.
const IS_IPV6: u8 = 0x01;
const CHECK_TCP: u8 = 1;
const CHECK_ICMP: u8 = 2;
const CHECK_HTTP: u8 = 3;
/// The types of echo requests and replies (RFC 792; RFC 4443, 4).
const ECHO_V4: [u8; 2] = [8, 0];
const ECHO_V6: [u8; 2] = [128, 129];
/// The most bytes of an id. It is part of a key in the database of the switch, and of a row of the controller.
pub(crate) const ID_MAX: usize = 128;
/// The most bytes of a path: one byte says how many there are.
const PATH_MAX: usize = 255;
/// The greatest interval, in seconds.
pub(crate) const INTERVAL_MAX: u16 = 3600;

/// A check of one address that the responder repeats, and by which it says whether what has the address works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The name by which the result is known: up to 128 printable characters of ASCII, and no space.
    pub id: String,
    /// What is checked.
    pub check: Check,
    /// The address that the responder asks from.
    pub from: IpAddr,
    /// The MAC address that it asks from.
    pub from_mac: Mac,
    /// The address that is checked, of the same IP version.
    pub to: IpAddr,
    /// The MAC address of the frames to it.
    pub to_mac: Mac,
    /// The seconds between the beginnings of two checks: 1 to 3600.
    pub interval: u16,
    /// The seconds after which a check has failed: 1 up to the interval, so that a check never overlaps the next one.
    pub timeout: u16,
    /// How many checks in a row have to fail until it is down.
    pub failures: u8,
    /// How many checks in a row have to succeed until it is up.
    pub successes: u8,
}

/// What is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// A connection to this port is accepted.
    Tcp(u16),
    /// An echo request is answered.
    Icmp,
    /// A request for this path has an answer with a status from 200 to 399.
    Http {
        /// The port.
        port: u16,
        /// The path, which begins with `/`.
        path: String,
    },
}

/// Whether an instruction can have a text as the id of a probe.
pub fn is_probe_id(id: &str) -> bool {
    (1..=ID_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether an instruction can have a text as a path. It becomes part of the first line of a request.
fn is_path(path: &str) -> bool {
    path.len() <= PATH_MAX && path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Check {
    /// Reads `tcp:PORT`, `icmp` or `http:PORT:PATH`.
    pub(crate) fn parse(text: &str) -> Option<Check> {
        let port = |text: &str| text.parse().ok().filter(|port| *port != 0);
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "tcp" => port(rest).map(Check::Tcp),
            "icmp" => (text == kind).then_some(Check::Icmp),
            "http" => {
                let (number, path) = rest.split_once(':')?;
                is_path(path).then_some(Check::Http { port: port(number)?, path: path.to_owned() })
            }
            _ => None,
        }
    }
}

impl Probe {
    /// Whether the parts of it fit together and are in their bounds.
    pub(crate) fn is_valid(&self) -> bool {
        let check = match &self.check {
            Check::Tcp(port) => *port != 0,
            Check::Icmp => true,
            Check::Http { port, path } => *port != 0 && is_path(path),
        };
        check
            && is_probe_id(&self.id)
            && self.from.is_ipv4() == self.to.is_ipv4()
            && is_host(self.from)
            && is_host(self.to)
            && self.from != self.to
            && (1..=INTERVAL_MAX).contains(&self.interval)
            && (1..=self.interval).contains(&self.timeout)
            && self.failures > 0
            && self.successes > 0
    }

    /// The frame with this packet to the address.
    pub fn frame(&self, packet: &[u8]) -> Vec<u8> {
        ethernet(self.to_mac, self.from_mac, if self.to.is_ipv4() { IPV4 } else { IPV6 }, packet)
    }

    /// An echo request from the IP header on, and the whole message that answers it.
    pub fn echo(&self, identifier: u16, sequence: u16, data: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let rest = [&identifier.to_be_bytes()[..], &sequence.to_be_bytes(), data].concat();
        match (self.from, self.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let [request, reply] = ECHO_V4.map(|kind| icmp(kind, &rest));
                (ipv4(from, to, ICMP).packet(&request), reply)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let message = |kind, from, to| icmpv6([&[kind, 0, 0, 0], &rest[..]].concat(), from, to);
                let [request, reply] = ECHO_V6;
                (ipv6(from, to, ICMPV6).packet(&message(request, from, to)), message(reply, to, from))
            }
            // The versions are the same; see `is_valid`.
            _ => Default::default(),
        }
    }

    /// Appends the bytes; see [`Instruction::encode`](crate::Instruction::encode).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (check, port, path) = match &self.check {
            Check::Tcp(port) => (CHECK_TCP, *port, ""),
            Check::Icmp => (CHECK_ICMP, 0, ""),
            Check::Http { port, path } => (CHECK_HTTP, *port, path.as_str()),
        };
        out.extend_from_slice(&[if self.from.is_ipv6() { IS_IPV6 } else { 0 }, check]);
        out.extend_from_slice(&port.to_be_bytes());
        for number in [self.interval, self.timeout] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&[self.failures, self.successes]);
        out.extend_from_slice(&self.from_mac);
        out.extend_from_slice(&self.to_mac);
        put_ip(out, self.from);
        put_ip(out, self.to);
        for text in [&self.id, path] {
            let text = countable(text.as_bytes());
            out.push(text.len() as u8);
            out.extend_from_slice(text);
        }
    }

    /// Reads what [`encode`](Self::encode) writes.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Probe, Malformed> {
        let [flags, check] = reader.take()?;
        if flags & !IS_IPV6 != 0 {
            return Err(Malformed::Flags(flags));
        }
        let (port, interval, timeout) = (reader.u16()?, reader.u16()?, reader.u16()?);
        let [failures, successes] = reader.take()?;
        let (from_mac, to_mac) = (reader.mac()?, reader.mac()?);
        let is_ipv6 = flags & IS_IPV6 != 0;
        let (from, to) = (reader.ip(is_ipv6)?, reader.ip(is_ipv6)?);
        let (id, path) = (text(reader)?, text(reader)?);
        let check = match check {
            CHECK_TCP if path.is_empty() => Check::Tcp(port),
            CHECK_ICMP if path.is_empty() && port == 0 => Check::Icmp,
            CHECK_HTTP => Check::Http { port, path },
            _ => return Err(Malformed::Probe),
        };
        let probe = Probe { id, check, from, from_mac, to, to_mac, interval, timeout, failures, successes };
        if probe.is_valid() { Ok(probe) } else { Err(Malformed::Probe) }
    }
}

fn text(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let length = reader.u8()?;
    let text = str::from_utf8(reader.bytes(length.into())?).map_err(|_| Malformed::Probe)?;
    Ok(text.to_owned())
}

/// What tells the answers to probes apart: who asked whom, and by which numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conversation {
    /// The address that was asked from.
    pub from: IpAddr,
    /// The address that was asked.
    pub to: IpAddr,
    /// The port that was asked; none for an echo request.
    pub port: Option<u16>,
    /// The port that was asked from, or the identifier of the echo request.
    pub own: u16,
}

/// A packet that may answer a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned<'a> {
    /// The conversation that it is part of.
    pub conversation: Conversation,
    /// All of it from the IP header on.
    pub packet: &'a [u8],
    /// Behind the IP headers.
    pub payload: &'a [u8],
}

impl<'a> Returned<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    /// It can be no answer to a probe: it is damaged, a fragment, or of another protocol.
    pub fn read(frame: &'a [u8]) -> Result<Returned<'a>, Silence> {
        let received = Received::read(frame)?;
        let payload = received.whole()?;
        let Some([b0, b1, b2, b3, b4, b5, ..]) = payload.first_chunk::<6>() else {
            return Err(Silence::Damaged);
        };
        let (port, own) = match (received.protocol, received.from.is_ipv4()) {
            (TCP, _) => (Some(u16::from_be_bytes([*b0, *b1])), u16::from_be_bytes([*b2, *b3])),
            (ICMP, true) if *b0 == ECHO_V4[1] => (None, u16::from_be_bytes([*b4, *b5])),
            (ICMPV6, false) if *b0 == ECHO_V6[1] => (None, u16::from_be_bytes([*b4, *b5])),
            _ => return Err(Silence::NoProbe),
        };
        let conversation = Conversation { from: received.to, to: received.from, port, own };
        Ok(Returned { conversation, packet: received.packet, payload })
    }
}

/// The most probes of a host.
pub const PROBES_MAX: usize = 1024;

/// The key of a bridge's `external_ids` by which a probe's result is known begins with this, and the id follows.
pub const PROBE_KEY: &str = "weft-probe-";

/// What a probe has found, as it stands in the database of the switch: `up`, or `down:` and the cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeResult {
    /// What is checked works.
    Up,
    /// It does not, for this cause.
    Down(String),
}

impl ProbeResult {
    /// The most bytes of a cause.
    pub const CAUSE_MAX: usize = 64;

    /// Reads what [`Display`](fmt::Display) writes; none if it is anything else, since others may write to the database too.
    pub fn parse(text: &str) -> Option<ProbeResult> {
        if text == UP {
            return Some(ProbeResult::Up);
        }
        let cause = text.strip_prefix(DOWN)?;
        let is_cause = (1..=ProbeResult::CAUSE_MAX).contains(&cause.len())
            && cause.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        is_cause.then(|| ProbeResult::Down(cause.to_owned()))
    }

    /// Whether what is checked works.
    pub fn is_up(&self) -> bool {
        *self == ProbeResult::Up
    }
}

const UP: &str = "up";
const DOWN: &str = "down:";

impl fmt::Display for ProbeResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeResult::Up => f.write_str(UP),
            ProbeResult::Down(cause) => write!(f, "{DOWN}{cause}"),
        }
    }
}
