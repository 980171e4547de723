//! The connections that ports know.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::headers::Segment;
use super::objects::Direction;
use super::tuple::Tuple;
use crate::World;

/// A silent connection is remembered at least so long. After that, how long is for the network to say.
const LASTING: Duration = Duration::from_secs(15);

/// A host and a port: each host knows the connections of its own interfaces alone.
pub(super) type At = (String, String);

/// The connections that the ports of all hosts know.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connections {
    now: Duration,
    /// How often ACLs, or what they refer to, have changed.
    revision: u64,
    /// By port, and by the first packet.
    known: BTreeMap<At, BTreeMap<Tuple, Known>>,
    /// Whether nobody knows what ports know: each connection may exist.
    any: bool,
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// The direction of its first packet.
    pub(super) direction: Direction,
    /// Whether it is certain that it is known.
    pub(super) certain: bool,
    /// Whether one of its ends has said that it ends.
    pub(super) ended: bool,
    /// Whether its first packet was the first segment of a TCP connection.
    pub(super) from_start: bool,
    /// Whether the ends do not agree how it began: then nobody knows which of their segments make sense.
    pub(super) muddled: bool,
    /// When its last packet came.
    seen: Duration,
    /// The revision at its last packet that has passed.
    revision: u64,
}

/// A connection that a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its first packet.
    pub(super) first: Tuple,
    pub(super) known: Known,
    /// Whether the packet is in the other direction than the first one.
    pub(super) is_reply: bool,
}

impl Known {
    /// The same, of which nobody knows how it goes on.
    pub(super) fn muddled(self) -> Known {
        Known { certain: false, muddled: true, ..self }
    }
}

impl Connections {
    /// Connections of which nothing is known.
    pub(crate) fn any() -> Connections {
        Connections { any: true, ..Connections::default() }
    }

    pub(super) fn may_be_any(&self) -> bool {
        self.any
    }

    /// Advances time.
    pub(crate) fn advance(&mut self, time: Duration) {
        self.now += time;
    }

    /// ACLs, or what they refer to, have changed.
    pub(crate) fn count_edit(&mut self) {
        self.revision += 1;
    }

    /// Forgets the connections of ports that are gone from their host, are others now, or keep none any more.
    pub(crate) fn revise(&mut self, world: &World, others: &BTreeSet<String>) {
        self.known.retain(|(host, port), _| {
            !others.contains(port)
                && world.is_stateful(port)
                && world.hosts_with(port).contains(host.as_str())
        });
    }

    /// The connection that a packet belongs to, in either direction.
    pub(super) fn find(&self, at: &At, tuple: Tuple) -> Option<Found> {
        let known = self.known.get(at)?;
        let find = |first: Tuple, is_reply| {
            let mut known = *known.get(&first)?;
            known.certain &= self.now.saturating_sub(known.seen) <= LASTING;
            Some(Found { first, known, is_reply })
        };
        find(tuple, false).or_else(|| find(tuple.reversed(), true))
    }

    /// Whether no edit has come since the last packet of a connection passed.
    pub(super) fn is_fresh(&self, known: Known) -> bool {
        known.revision == self.revision
    }

    /// A connection that begins now in a direction.
    pub(super) fn begin(&self, direction: Direction, segment: Segment, certain: bool) -> Known {
        Known {
            direction,
            certain,
            ended: false,
            from_start: segment.is_first(),
            muddled: segment.answers_first(),
            seen: self.now,
            revision: self.revision,
        }
    }

    /// A connection whose packet passes now.
    pub(super) fn go_on(&self, known: Known, ends: bool) -> Known {
        let ended = known.ended || ends;
        Known { certain: true, ended, seen: self.now, revision: self.revision, ..known }
    }

    pub(super) fn remember(&mut self, at: At, first: Tuple, known: Known) {
        self.known.entry(at).or_default().insert(first, known);
    }

    pub(super) fn forget(&mut self, at: &At, first: Tuple) {
        if let Some(known) = self.known.get_mut(at) {
            known.remove(&first);
        }
    }

    /// How many connections are known.
    pub(super) fn count(&self) -> usize {
        self.known.values().map(BTreeMap::len).sum()
    }

    /// Takes in what else may be known.
    pub(crate) fn unite(&mut self, other: Connections) {
        let doubted = |known: &mut BTreeMap<Tuple, Known>, by: Option<&BTreeMap<Tuple, Known>>| {
            for (first, known) in known {
                match by.and_then(|by| by.get(first)) {
                    Some(same) if same.direction == known.direction => {
                        known.certain &= same.certain;
                        known.ended |= same.ended;
                        known.muddled |= same.muddled;
                        known.seen = known.seen.min(same.seen);
                        known.revision = known.revision.min(same.revision);
                    }
                    _ => known.certain = false,
                }
            }
        };
        for (at, known) in &mut self.known {
            doubted(known, other.known.get(at));
        }
        for (at, mut known) in other.known {
            doubted(&mut known, self.known.get(&at));
            let own = self.known.entry(at).or_default();
            for (first, known) in known {
                own.entry(first).or_insert(known);
            }
        }
    }
}
