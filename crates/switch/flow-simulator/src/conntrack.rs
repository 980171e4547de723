//! Connection tracking, as in the userspace datapath of Open vSwitch 3.1 (`lib/conntrack.c`).
//!
//! A packet's connection is found by its *tuple*: zone, protocol, and both ends. What the datapath knows of a packet
//! that it has tracked is its [`Mark`]; flows see it once the packet is looked up again ([`Tracked`]).
//!
//! What surprises, and is so in the switch:
//! - A datagram or an echo is `+new` until the other side has answered, however many there were; a TCP segment is `+est`
//!   from the second on, unless it is another SYN.
//! - A packet that was tracked stays as it was if it is tracked again in the same zone, even if it has been committed since,
//!   unless its addresses or ports were written in between.
//! - SYN and ACK together, an echo reply, and every ICMP message that is neither a question nor an error, like all of
//!   neighbour discovery, are invalid without a connection. So is every packet with a wrong checksum.
//! - Fragments are held until their packet is complete. Then each goes on with the state of the packet, but only the first one
//!   shows the ports of the connection. Fragments below 1,200 bytes (1,280 of IPv6) that are not the last are invalid.
//! - `exec` writes the mark of whatever connection the packet belongs to, also if the packet is a reply or is invalid.
//! - A flow that closed or was reset can be opened again from either side: the connection is a new one then.
//!
//! What `nat` does, and surprises, is in [`nat`] and [`translation`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use openflow_rs::action::Nat;

use crate::Bridge;
use crate::key::{ICMP, ICMPV6, TCP, Tracked};

pub(crate) mod fragments;
mod nat;
mod read;
mod tcp;
mod tracker;
mod translation;

pub(crate) use read::{Sighting, sighting};
pub(crate) use tracker::{Mishap, Tracker};
pub(crate) use translation::Translation;

/// Bits of `ct_state`.
pub(crate) const NEW: u8 = 0x01;
pub(crate) const ESTABLISHED: u8 = 0x02;
const RELATED: u8 = 0x04;
pub(crate) const REPLY: u8 = 0x08;
const INVALID: u8 = 0x10;
const TRACKED: u8 = 0x20;
const SOURCE_TRANSLATED: u8 = 0x40;
const DESTINATION_TRANSLATED: u8 = 0x80;

/// The names of the bits, from the lowest on.
const STATES: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];

/// One end of a connection, as a packet of one direction names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct End {
    /// The address; one of IPv4 is in the lower bits.
    address: u128,
    /// The port, or the identifier of an ICMP question.
    port: u16,
    /// The ICMP type of packets from here.
    icmp_type: u8,
}

/// What identifies a connection; the source is the end that the packet came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tuple {
    zone: u16,
    ipv6: bool,
    protocol: u8,
    from: End,
    to: End,
}

impl Tuple {
    fn reversed(self) -> Tuple {
        Tuple { from: self.to, to: self.from, ..self }
    }

    /// The address of one of its ends.
    fn address(&self, end: End) -> IpAddr {
        match end.address {
            address if self.ipv6 => Ipv6Addr::from_bits(address).into(),
            address => Ipv4Addr::from_bits(address as u32).into(),
        }
    }
}

/// A tracked connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    mark: u32,
    label: u128,
    progress: Progress,
    /// When it is forgotten, on the bridge's clock.
    expires: Duration,
    /// What packets of the other side have: the reversed tuple, or another one if the connection is translated.
    replies: Tuple,
    /// What is translated of packets of the side that began.
    side: Option<nat::Side>,
}

/// How far a connection has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    Tcp(tcp::Dialogue),
    /// A question of ICMP; whether it was answered.
    Icmp(bool),
    Other(Other),
}

/// The state of a protocol without states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    First,
    Several,
    Both,
}

/// What a packet of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Established,
    /// Part of an opening that nobody has answered.
    StillNew,
    Invalid,
    /// The first of a new connection in the place of a closed one.
    Reopens,
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Progress {
    /// The state after the first packet, with the time for which it lasts; none if such a packet opens no connection.
    fn begin(protocol: u8, transport: &[u8]) -> Option<(Progress, Duration)> {
        const QUESTION: Duration = seconds(60);
        const FIRST: Duration = seconds(60);
        let kind = transport.first().copied().unwrap_or(0);
        Some(match protocol {
            TCP => (Progress::Tcp(tcp::Dialogue::begin(transport)?), tcp::OPENING),
            ICMP => (matches!(kind, 8 | 13 | 15).then_some(Progress::Icmp(false))?, QUESTION),
            ICMPV6 => ((kind == 128).then_some(Progress::Icmp(false))?, QUESTION),
            _ => (Progress::Other(Other::First), FIRST),
        })
    }

    /// Advances the state by a packet. Returns what the packet is, and how long the connection lasts from now on if this
    /// changes.
    fn advance(&mut self, reply: bool, transport: &[u8]) -> (Verdict, Option<Duration>) {
        let verdict = |established| if established { Verdict::Established } else { Verdict::StillNew };
        match self {
            Progress::Tcp(dialogue) => dialogue.advance(reply, transport),
            Progress::Icmp(answered) => {
                *answered |= reply;
                (verdict(*answered), Some(seconds(if *answered { 30 } else { 60 })))
            }
            Progress::Other(state) => {
                *state = match *state {
                    Other::Both => Other::Both,
                    _ if reply => Other::Both,
                    Other::First | Other::Several => Other::Several,
                };
                let both = *state == Other::Both;
                (verdict(both), Some(seconds(if both { 30 } else { 60 })))
            }
        }
    }
}

/// What the datapath knows of a packet that it has tracked: `md` in Open vSwitch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) seen: Tracked,
    connection: Option<Known>,
}

/// The connection of a packet, as long as neither an action nor `nat` has written addresses or ports.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Its original direction.
    original: Tuple,
    reply: bool,
    related: bool,
}

impl Mark {
    /// The connection is looked for again. What is known of it stays.
    pub(crate) fn forget_connection(&mut self) {
        self.connection = None;
    }
}

/// How to track a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) zone: u16,
    pub(crate) commit: bool,
    pub(crate) force: bool,
    /// The bits of the connection's mark to write, and their mask.
    pub(crate) mark: (u32, u32),
    pub(crate) label: (u128, u128),
    pub(crate) nat: Option<Nat>,
}

/// The tuples that packets changed: removed ones are none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    slots: BTreeMap<Tuple, Option<Slot>>,
    /// The number of slots made.
    made: u64,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

/// What a tuple stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slot {
    what: Meaning,
    /// A later one is found first where two have the same pair of ends.
    number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    /// A connection: this is the tuple of its first packet.
    Connection(Entry),
    /// The answers of a translated connection, whose first packet had this tuple (`CT_CONN_TYPE_UN_NAT`).
    AnswersTo(Tuple),
}

impl Slot {
    fn is_over(&self, now: Duration) -> bool {
        matches!(&self.what, Meaning::Connection(entry) if now >= entry.expires)
    }
}

/// The connections of a bridge, by tuples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    slots: BTreeMap<Tuple, Slot>,
    /// The number of slots ever made.
    made: u64,
}

impl Connections {
    pub(crate) fn apply(&mut self, changes: Changes) {
        self.made += changes.made;
        for (tuple, slot) in changes.slots {
            match slot {
                Some(slot) => drop(self.slots.insert(tuple, slot)),
                None => drop(self.slots.remove(&tuple)),
            }
        }
    }

    /// Forgets the connections whose time is over, and the tuples of answers to those that are gone.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.retain(|_, slot| !slot.is_over(now));
    }

    fn retain(&mut self, keep: impl Fn(&Tuple, &Slot) -> bool) {
        self.slots.retain(|tuple, slot| keep(tuple, slot));
        let answers: BTreeSet<Tuple> = self.connections().map(|(_, entry)| entry.replies).collect();
        self.slots
            .retain(|tuple, slot| matches!(slot.what, Meaning::Connection(_)) || answers.contains(tuple));
    }

    fn connections(&self) -> impl Iterator<Item = (&Tuple, &Entry)> {
        self.slots.iter().filter_map(|(tuple, slot)| match &slot.what {
            Meaning::Connection(entry) => Some((tuple, entry)),
            Meaning::AnswersTo(_) => None,
        })
    }
}

impl Tracked {
    /// Notes the original direction of the packet's connection.
    fn show_original(&mut self, tuple: Tuple) {
        let Tuple { ipv6, protocol, from, to, .. } = tuple;
        let (state, zone) = (self.state, self.zone);
        *self = Tracked { state, zone, nw_proto: protocol, ..Tracked::default() };
        // The switch takes protocol 0 for no connection.
        if protocol == 0 {
            return;
        }
        if ipv6 {
            (self.ipv6_src, self.ipv6_dst) = (from.address, to.address);
        } else {
            (self.nw_src, self.nw_dst) = (from.address as u32, to.address as u32);
        }
        let is_icmp = protocol == if ipv6 { ICMPV6 } else { ICMP };
        (self.tp_src, self.tp_dst) = if is_icmp { (from.icmp_type.into(), 0) } else { (from.port, to.port) };
    }

    /// The original direction of the packet's connection, which has this tuple otherwise; none if the packet shows none.
    fn original(&self, like: Tuple) -> Option<Tuple> {
        if self.nw_proto == 0 {
            return None;
        }
        let (from, to) =
            if like.ipv6 { (self.ipv6_src, self.ipv6_dst) } else { (self.nw_src.into(), self.nw_dst.into()) };
        let is_icmp = like.protocol == if like.ipv6 { ICMPV6 } else { ICMP };
        let (from, to) = if is_icmp {
            let kind = self.tp_src as u8;
            let other = read::other_icmp_type(like.ipv6, kind)?;
            let end = |address, icmp_type| End { address, port: like.from.port, icmp_type };
            (end(from, kind), end(to, other))
        } else {
            let end = |address, port| End { address, port, icmp_type: 0 };
            (end(from, self.tp_src), end(to, self.tp_dst))
        };
        Some(Tuple { zone: self.zone, ipv6: like.ipv6, protocol: self.nw_proto, from, to })
    }

    /// The state as in `ct_state`.
    pub(crate) fn state_text(&self) -> String {
        let set = STATES.iter().enumerate().filter(|(bit, _)| self.state >> bit & 1 != 0);
        set.flat_map(|(_, name)| ["+", name]).collect()
    }
}

impl fmt::Display for Tuple {
    /// Both ends, with ports where there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |f: &mut fmt::Formatter<'_>, end: End| match (self.address(end), end.port) {
            (address, 0) => write!(f, "{address}"),
            (IpAddr::V4(address), port) => write!(f, "{address}:{port}"),
            (IpAddr::V6(address), port) => write!(f, "[{address}]:{port}"),
        };
        end(f, self.from)?;
        f.write_str(" > ")?;
        end(f, self.to)
    }
}

/// A tracked connection, as [`Bridge::connections`] lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its zone.
    pub zone: u16,
    /// Its IP protocol.
    pub protocol: u8,
    /// The source of its first packet: address, and port or ICMP identifier.
    pub from: (IpAddr, u16),
    /// The destination of its first packet.
    pub to: (IpAddr, u16),
    /// The source of its answers, before `nat` translates them.
    pub reply_from: (IpAddr, u16),
    /// The destination of its answers: what the other side knows the first one by.
    pub reply_to: (IpAddr, u16),
    /// Its mark.
    pub mark: u32,
    /// Its label.
    pub label: u128,
}

impl Bridge {
    /// The tracked connections, by zone, protocol and addresses.
    pub fn connections(&self) -> impl Iterator<Item = Connection> + '_ {
        self.connections.connections().map(|(tuple, entry)| {
            let end = |end: End| (tuple.address(end), end.port);
            let (replies, mark, label) = (entry.replies, entry.mark, entry.label);
            Connection {
                zone: tuple.zone,
                protocol: tuple.protocol,
                from: end(tuple.from),
                to: end(tuple.to),
                reply_from: end(replies.from),
                reply_to: end(replies.to),
                mark,
                label,
            }
        })
    }

    /// Forgets the connections of a zone.
    pub fn flush_zone(&mut self, zone: u16) {
        self.connections.retain(|tuple, _| tuple.zone != zone);
    }
}
