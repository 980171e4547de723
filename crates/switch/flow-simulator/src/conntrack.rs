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

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::Bridge;
use crate::key::{ICMP, ICMPV6, TCP, Tracked};

pub(crate) mod fragments;
mod read;
mod tcp;

pub(crate) use read::{Sighting, sighting};

/// Bits of `ct_state`.
pub(crate) const NEW: u8 = 0x01;
pub(crate) const ESTABLISHED: u8 = 0x02;
const RELATED: u8 = 0x04;
pub(crate) const REPLY: u8 = 0x08;
const INVALID: u8 = 0x10;
const TRACKED: u8 = 0x20;

/// The names of the bits, from the lowest on.
const STATES: [&str; 6] = ["new", "est", "rel", "rpl", "inv", "trk"];

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
}

/// A tracked connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    mark: u32,
    label: u128,
    progress: Progress,
    /// When it is forgotten, on the bridge's clock.
    expires: Duration,
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
    /// Its connection, by the original direction.
    connection: Option<Tuple>,
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
}

/// The connections that packets changed: removed ones are none.
pub(crate) type Changes = BTreeMap<Tuple, Option<ConnectionState>>;

/// A connection as changes carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionState(Entry);

/// The connections of a bridge, by the tuple of their first packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections(BTreeMap<Tuple, ConnectionState>);

impl Connections {
    pub(crate) fn apply(&mut self, changes: Changes) {
        for (tuple, state) in changes {
            match state {
                Some(state) => drop(self.0.insert(tuple, state)),
                None => drop(self.0.remove(&tuple)),
            }
        }
    }

    /// Forgets the connections whose time is over.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.0.retain(|_, state| now < state.0.expires);
    }
}

/// The connections while one packet is processed: those of the bridge, and what the packet changed.
pub(crate) struct Tracker<'a> {
    pub(crate) before: &'a Connections,
    pub(crate) changes: &'a mut Changes,
    pub(crate) now: Duration,
}

impl Tracker<'_> {
    fn get(&self, tuple: &Tuple) -> Option<&Entry> {
        let found = match self.changes.get(tuple) {
            Some(changed) => changed.as_ref(),
            None => self.before.0.get(tuple),
        };
        found.map(|state| &state.0).filter(|entry| self.now < entry.expires)
    }

    fn put(&mut self, tuple: Tuple, entry: Entry) {
        self.changes.insert(tuple, Some(ConnectionState(entry)));
    }

    /// The connection that a packet with this tuple belongs to, by its original direction.
    fn find(&self, tuple: Tuple) -> Option<Tuple> {
        [tuple, tuple.reversed()].into_iter().find(|tuple| self.get(tuple).is_some())
    }

    /// Tracks a packet, and updates what the datapath knows of it.
    pub(crate) fn track(&mut self, sighting: Option<Sighting<'_>>, mark: &mut Mark, how: How) {
        let known = mark.connection.filter(|tuple| tuple.zone == how.zone && !how.force);
        if known.is_none() {
            let Some(sighting) = sighting else {
                mark.seen = Tracked { state: INVALID | TRACKED, zone: how.zone, ..Tracked::default() };
                return;
            };
            // What another zone said is forgotten.
            if mark.seen.zone != how.zone {
                mark.seen.state = 0;
            }
            mark.connection = self.identify(sighting, &mut mark.seen.state, how);
            mark.seen.state |= TRACKED;
            mark.seen.show_original(mark.connection.unwrap_or(sighting.tuple));
        }
        mark.seen.zone = how.zone;
        let entry = mark.connection.and_then(|tuple| self.get(&tuple)).cloned();
        let (old, label) = entry.as_ref().map_or((0, 0), |entry| (entry.mark, entry.label));
        (mark.seen.mark, mark.seen.label) = (old, label);
        if let (Some(tuple), Some(entry)) = (mark.connection, entry)
            && (how.mark.1 != 0 || how.label.1 != 0)
        {
            mark.seen.mark = old & !how.mark.1 | how.mark.0 & how.mark.1;
            mark.seen.label = label & !how.label.1 | how.label.0 & how.label.1;
            self.put(tuple, Entry { mark: mark.seen.mark, label: mark.seen.label, ..entry });
        }
    }

    /// Finds, updates or creates the connection of a packet, and changes the packet's state.
    fn identify(&mut self, sighting: Sighting<'_>, state: &mut u8, how: How) -> Option<Tuple> {
        let Sighting { tuple, related, transport } = sighting;
        let mut found = self.find(tuple);
        if let Some(original) = found.filter(|original| how.force && *original != tuple) {
            self.changes.insert(original, None);
            found = None;
        }
        let Some(original) = found else {
            if related {
                *state = INVALID;
                return None;
            }
            return self.open(sighting, state, how);
        };
        let reply = original != tuple;
        let reply_bit = if reply { REPLY } else { 0 };
        if related {
            *state |= RELATED | reply_bit;
            return found;
        }
        let mut entry = self.get(&original)?.clone();
        let (verdict, lasts) = entry.progress.advance(reply, transport);
        if let Some(lasts) = lasts {
            entry.expires = self.now + lasts;
        }
        self.put(original, entry);
        match verdict {
            Verdict::Established => *state = *state & !NEW | ESTABLISHED | reply_bit,
            Verdict::StillNew => *state |= NEW,
            Verdict::Invalid => *state = INVALID,
            Verdict::Reopens => {
                self.changes.insert(original, None);
                return self.open(sighting, state, how);
            }
        }
        found
    }

    fn open(&mut self, sighting: Sighting<'_>, state: &mut u8, how: How) -> Option<Tuple> {
        let begun = Progress::begin(sighting.tuple.protocol, sighting.transport);
        *state = if begun.is_some() { NEW } else { INVALID };
        let (progress, lasts) = begun.filter(|_| how.commit)?;
        self.put(sighting.tuple, Entry { mark: 0, label: 0, progress, expires: self.now + lasts });
        Some(sighting.tuple)
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

    /// The state as in `ct_state`.
    pub(crate) fn state_text(&self) -> String {
        let set = STATES.iter().enumerate().filter(|(bit, _)| self.state >> bit & 1 != 0);
        set.flat_map(|(_, name)| ["+", name]).collect()
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
    /// Its mark.
    pub mark: u32,
    /// Its label.
    pub label: u128,
}

impl Bridge {
    /// The tracked connections, by zone, protocol and addresses.
    pub fn connections(&self) -> impl Iterator<Item = Connection> + '_ {
        self.connections.0.iter().map(|(tuple, ConnectionState(entry))| {
            let address = |end: End| match end.address {
                address if tuple.ipv6 => Ipv6Addr::from_bits(address).into(),
                address => Ipv4Addr::from_bits(address as u32).into(),
            };
            let end = |end: End| (address(end), end.port);
            let (zone, protocol) = (tuple.zone, tuple.protocol);
            let (from, to) = (end(tuple.from), end(tuple.to));
            Connection { zone, protocol, from, to, mark: entry.mark, label: entry.label }
        })
    }

    /// Forgets the connections of a zone.
    pub fn flush_zone(&mut self, zone: u16) {
        self.connections.0.retain(|tuple, _| tuple.zone != zone);
    }
}
