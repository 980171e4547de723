//! The tuple that `nat` gives to the answers of a new connection (`nat_get_unique_tuple` of `lib/conntrack.c`).
//!
//! What surprises, and is so in the switch:
//! - Only TCP and UDP have ports to choose from. Two echoes with the same identifier, or two connections of another protocol, to
//!   one destination exhaust an address.
//! - `nat(dst=…)` changes the *source* port too, if the connection would be mistaken for another one.
//! - Without a range of ports, the source's port is kept if it is free; otherwise the next one up to 511, in 600 to 1023 or from
//!   1024 on is taken, by what the source's port is. A range in `nat(src=…)` does not keep it.
//! - If no tuple is left, there is no connection: the packet goes on untranslated, and is `+new`.
//! - A connection that is over keeps its tuple until the switch looks for such ones, which takes up to 20 seconds. Until then, the same
//!   client gets another port, or none, and answers are invalid. Here, only connections that are opened again or forced have this
//!   effect: those whose time is over are forgotten at once.
//! - If `nat` gives a connection the addresses and ports that it has, its end and a packet after it end the switch
//!   ([`crate::trace::ABORTS`]).
//! - `ct(commit,nat)` without an address opens a connection whose answers nobody sends: to port 0, from address 0.
//!
//! The switch chooses within a range by a hash whose seed it draws when it starts, so nobody can predict its choice. Here the
//! first address is taken, and the first port that is free. The switch tries 128 ports in order and then some at random; here all are
//! tried in order.

use std::net::IpAddr;

use openflow_rs::action::{Nat, NatRange, NatSide};

use super::{End, Tracker, Tuple};
use crate::key::{TCP, UDP};

/// What is translated of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Source,
    Destination,
}

impl Side {
    /// What an action translates of a new connection.
    pub(super) fn of(nat: Nat) -> Option<Side> {
        nat.change().map(|(side, _)| match side {
            NatSide::Source => Side::Source,
            NatSide::Destination => Side::Destination,
        })
    }

    pub(super) fn opposite(self) -> Side {
        match self {
            Side::Source => Side::Destination,
            Side::Destination => Side::Source,
        }
    }
}

/// Ports in the order in which they are tried: the first, which may be outside, and then those of a range.
#[derive(Clone, Copy, Debug)]
struct Ports {
    first: u16,
    least: u16,
    most: u16,
}

impl Ports {
    fn only(port: u16) -> Ports {
        Ports { first: port, least: port, most: port }
    }

    /// Those of an explicit range.
    fn range((least, most): (u16, u16)) -> Ports {
        Ports { first: least, least, most }
    }

    /// Those instead of a source's port (`set_sport_range`).
    fn like(port: u16) -> Ports {
        let (least, most) = match port {
            0..=511 => (1, 511),
            512..=1023 => (600, 1023),
            _ => (1024, u16::MAX),
        };
        Ports { first: port, least, most }
    }

    /// As many as are in the range, from the first on, and around.
    fn in_order(self) -> impl Iterator<Item = u16> {
        let Ports { first, least, most } = self;
        let next = move |port: &u16| Some(if (least..most).contains(port) { port + 1 } else { least });
        std::iter::successors(Some(first), next).take(usize::from(most - least) + 1)
    }
}

impl Tracker<'_> {
    /// A tuple for the answers of a new connection that no other one has; none if all are taken.
    pub(super) fn free_replies(&self, tuple: Tuple, nat: Nat) -> Option<Tuple> {
        let change = nat.change();
        let range = change.and_then(|(_, range)| range);
        let mut replies = tuple.reversed();
        match change {
            Some((NatSide::Source, _)) => replies.to.address = address(range, tuple.from),
            Some((NatSide::Destination, _)) => replies.from.address = address(range, tuple.to),
            None => replies.from.address = 0,
        }
        let is_free = |replies: &Tuple| !self.is_taken(*replies);
        if !matches!(tuple.protocol, TCP | UDP) {
            return Some(replies).filter(is_free);
        }
        let ports = range.and_then(NatRange::ports);
        let (sources, destinations) = match change {
            Some((NatSide::Source, _)) => {
                (ports.map_or(Ports::like(tuple.from.port), Ports::range), Ports::only(tuple.to.port))
            }
            Some((NatSide::Destination, _)) => {
                (Ports::like(tuple.from.port), ports.map_or(Ports::only(tuple.to.port), Ports::range))
            }
            None => (Ports::only(0), Ports::only(tuple.to.port)),
        };
        (replies.to.port, replies.from.port) = (sources.first, destinations.first);
        let with = |from: u16, to: u16| Tuple {
            from: End { port: from, ..replies.from },
            to: End { port: to, ..replies.to },
            ..replies
        };
        let by_destination = destinations.in_order().map(|port| with(port, sources.first));
        let by_source = sources.in_order().map(|port| with(destinations.first, port));
        by_destination.chain(by_source).find(is_free)
    }
}

/// The first address of a range, or the packet's own without one. The address 0 is none.
fn address(range: Option<NatRange>, own: End) -> u128 {
    let first = range.map(|range| match range.addresses().0 {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    });
    first.filter(|address| *address != 0).unwrap_or(own.address)
}
