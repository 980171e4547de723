//! Translation of addresses at the ports of routers on physical networks (RFC 3022, 4787, 5382 and 5508).
//!
//! The active gateway of a port translates. It keeps connections: once the first packet of one is translated, all others are, in both
//! directions, whatever rows say by then, and so are the errors about them (RFC 5508, 4).
//!
//! - What leaves by the port has its source translated, after policies and routes have chosen the way, which see the machine's own address.
//! - What enters by it for an external address has its destination translated, before policies and routes.
//! - What a machine inside sends to an external address goes to the gateway too, which translates both addresses, so that the answer
//!   comes back by it (RFC 4787, 6).
//!
//! Whether several states of a connection are possible is for [`Model::outcomes`] to say:
//! - A silent connection may be forgotten ([`LASTING`]), and any connection once a row of its router has changed or gone.
//! - A packet that is damaged, or a segment that makes no sense, may belong to a connection or not.
//! - If another connection has the external port already, any other one may be taken ([`Nats::others`]), of which only the nearest and the
//!   lowest are tried. Identifiers of queries, and protocols without ports, leave no choice: the second connection is dropped.
//! - Fragments wait for their datagram, or pass for no connection; that their datagram is translated is not specified.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::packet::Routed;
use super::path::Why;
use super::rewrite::{translated, translated_error};
use super::translations::{Nat, NatKind, NatService};
use crate::acl::{Ends, Headers, Segment, Tracked, Tuple};
use crate::frame::Frame;
use crate::{Model, World};

/// A silent connection is remembered at least so long. After that, how long is for the network to say.
const LASTING: Duration = Duration::from_secs(15);
const SCTP: u8 = 132;
/// How many of the ports that may be taken instead of one are tried from each end.
const TRIED: usize = 4;

/// A router and one of its gateways: each knows the connections that it has translated.
type At = (String, String);

/// The translated connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nats {
    now: Duration,
    /// How often the last frame was translated.
    translated: usize,
    /// By gateway, and by the first packet as it came.
    known: BTreeMap<At, BTreeMap<Tuple, Known>>,
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// The first packet as it goes on.
    after: Tuple,
    /// Whether it is certain that it is known.
    certain: bool,
    /// Whether one of its ends has said that it ends.
    ended: bool,
    /// Whether its first packet was the first segment of a TCP connection.
    from_start: bool,
    /// Whether the ends do not agree how it began: then nobody knows which of their segments make sense.
    muddled: bool,
    /// When its last packet came.
    seen: Duration,
}

/// A connection that a packet belongs to.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Its first packet as it came.
    first: Tuple,
    known: Known,
    /// The packet as it goes on.
    to: Tuple,
    is_reply: bool,
}

/// What may become of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Possible {
    fate: Fate,
    forget: Option<Tuple>,
    know: Option<(Tuple, Known)>,
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// It goes on, as one of this tuple.
    Becomes(Tuple),
    /// The same of the packet that an error is about.
    AboutBecomes(Tuple, Tuple),
    /// It belongs to no connection, and begins none.
    Stray,
    Dropped,
}

/// What becomes of a packet that enters for an external address.
pub(super) enum Entered {
    /// It goes on.
    Inside(Vec<u8>),
    /// Nothing translates it: it may be for the router itself.
    Untranslated,
}

/// What a new connection would be.
struct Wanted {
    /// Its first packet as it would go on, if the source's port is free.
    after: Tuple,
    /// The ports that the source may have.
    ports: Option<(u16, u16)>,
}

impl Possible {
    fn only(fate: Fate) -> Possible {
        Possible { fate, forget: None, know: None }
    }
}

impl Nats {
    /// A frame begins.
    pub(crate) fn begin_frame(&mut self) {
        self.translated = 0;
    }

    pub(crate) fn advance(&mut self, time: Duration) {
        self.now += time;
    }

    /// Forgets the connections of gateways that are none any more. Those of routers whose rows are others may be forgotten.
    pub(crate) fn revise(&mut self, world: &World, before: &NatView) {
        let is_gateway = |router: &str, host: &str| {
            world.ports_of_router(router).any(|(id, _)| world.gateways(id).contains(&host))
        };
        self.known.retain(|(router, host), _| is_gateway(router, host));
        let after = world.nat_view();
        for ((router, _), known) in &mut self.known {
            let kept = |one: &(String, String, Nat)| after.0.contains(one);
            if !before.0.iter().filter(|(_, _, nat)| nat.router == *router).all(kept) {
                for one in known.values_mut() {
                    one.certain = false;
                }
            }
        }
    }

    /// Whether another state differs in nothing but what may be known.
    pub(crate) fn may_unite(&self, other: &Nats) -> bool {
        self.known.iter().all(|(at, known)| {
            let Some(others) = other.known.get(at) else { return true };
            known.iter().all(|(first, one)| others.get(first).is_none_or(|other| other.after == one.after))
        })
    }

    /// Takes in what else may be known.
    pub(crate) fn unite(&mut self, other: &Nats) {
        for (at, known) in &mut self.known {
            for (first, known) in known {
                match other.known.get(at).and_then(|others| others.get(first)) {
                    Some(same) => {
                        known.certain &= same.certain;
                        known.ended |= same.ended;
                        known.muddled |= same.muddled;
                        known.from_start &= same.from_start;
                        known.seen = known.seen.min(same.seen);
                    }
                    None => known.certain = false,
                }
            }
        }
        for (at, others) in &other.known {
            let own = self.known.entry(at.clone()).or_default();
            for (first, known) in others {
                own.entry(*first).or_insert(Known { certain: false, ..*known });
            }
        }
    }

    /// How many connections are known.
    pub(crate) fn count(&self) -> usize {
        self.known.values().map(BTreeMap::len).sum()
    }

    /// The connection of a packet, in either direction.
    fn find(&self, at: &At, tuple: Tuple) -> Option<Found> {
        let known = self.known.get(at)?;
        let (first, known, to, is_reply) = if let Some(known) = known.get(&tuple) {
            (tuple, *known, known.after, false)
        } else {
            let is_it = |(_, known): &(&Tuple, &Known)| known.after.reversed() == tuple;
            let (first, known) = known.iter().find(is_it)?;
            (*first, *known, first.reversed(), true)
        };
        let certain = known.certain && self.now.saturating_sub(known.seen) <= LASTING;
        Some(Found { first, known: Known { certain, ..known }, to, is_reply })
    }

    /// Whether the answers to a packet would be taken for those of another connection than one; and whether that is certain.
    fn is_taken(&self, at: &At, after: Tuple, but: Option<Tuple>) -> Option<bool> {
        let answer = after.reversed();
        let known = self.known.get(at).into_iter().flatten();
        let certain = |known: &Known| known.certain && self.now.saturating_sub(known.seen) <= LASTING;
        let mut taken = known
            .filter(|(first, _)| but != Some(**first))
            .filter(|(first, known)| **first == answer || known.after.reversed() == answer);
        taken.next().map(|(_, known)| certain(known) && !known.ended)
    }

    /// Whether another connection has the same ends inside: a gateway may translate one address after the other, and take both for the same
    /// in between.
    fn is_like_another(&self, at: &At, first: Tuple, after: Tuple) -> bool {
        let between = |first: Tuple, after: Tuple| Tuple { src: first.src, ..after };
        let others = self.known.get(at).into_iter().flatten().filter(|(other, _)| **other != first);
        let mut others = others.map(|(other, known)| between(*other, known.after));
        others.any(|other| other == between(first, after))
    }

    /// The tuples with another source port that a new connection may have: the free ones that are nearest above the port, and the lowest.
    fn others(&self, at: &At, wanted: &Wanted) -> Vec<Tuple> {
        let Ends::Ports(own, to) = wanted.after.ends else { return Vec::new() };
        if wanted.after.protocol == SCTP {
            return Vec::new();
        }
        let (least, most) = wanted.ports.unwrap_or(match own {
            0..=511 => (1, 511),
            512..=1023 => (600, 1023),
            _ => (1024, u16::MAX),
        });
        let with = |port: u16| Tuple { ends: Ends::Ports(port, to), ..wanted.after };
        // Some that are certain to be free, and before them those that may be.
        let tried = |ports: std::ops::RangeInclusive<u16>| {
            let mut free = 0;
            let tried = ports.take_while(move |port| {
                free += usize::from(self.is_taken(at, with(*port), None).is_none());
                free <= TRIED
            });
            tried.filter(|port| self.is_taken(at, with(*port), None) != Some(true) && *port != own)
        };
        let above = tried(own.saturating_add(1).max(least)..=most);
        let ports: BTreeSet<u16> = above.chain(tried(least..=most)).collect();
        ports.into_iter().map(with).collect()
    }

    /// What may become of the first packet of a connection: it gets what it wants, or another port, or nothing.
    fn begin(
        &self,
        at: &At,
        first: Tuple,
        segment: Segment,
        wanted: &Wanted,
        old: Option<Found>,
    ) -> Vec<Possible> {
        let known = |after| Known {
            after,
            certain: true,
            ended: false,
            from_start: segment.is_first(),
            muddled: segment.answers_first(),
            seen: self.now,
        };
        let forget = old.map(|old| old.first);
        let becomes =
            |after| Possible { fate: Fate::Becomes(after), forget: None, know: Some((first, known(after))) };
        let own = match wanted.after.ends {
            Ends::Ports(port, _) if wanted.after.protocol != SCTP => Some(port),
            _ => None,
        };
        let is_allowed =
            own.is_none_or(|own| wanted.ports.is_none_or(|(least, most)| (least..=most).contains(&own)));
        let taken = self.is_taken(at, wanted.after, forget);
        let mut possible = Vec::new();
        // What has ended keeps its port for a while.
        let is_doubtful = taken == Some(false)
            || old.is_some_and(|old| old.known.certain)
            || self.is_like_another(at, first, wanted.after);
        if is_allowed && (taken.is_none() || is_doubtful) {
            possible.push(becomes(wanted.after));
        }
        // Of ports that are said, any will do.
        let may_be_other = !is_allowed || taken.is_some() || is_doubtful || wanted.ports.is_some();
        if may_be_other {
            let others = self.others(at, wanted);
            let is_out = possible.is_empty() && others.is_empty();
            if is_out || is_doubtful || wanted.after.protocol == SCTP {
                possible.push(Possible { forget, ..Possible::only(Fate::Dropped) });
            }
            possible.extend(others.into_iter().map(becomes));
        }
        possible
    }
}

/// The rows of a world, each with its name and a port where it applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NatView(Vec<(String, String, Nat)>);

impl World {
    /// The rows where they apply.
    pub(crate) fn nat_view(&self) -> NatView {
        if self.nats.is_empty() {
            return NatView::default();
        }
        let at = |id: &String| -> Vec<(String, String, Nat)> {
            self.nats_at(id)
                .into_iter()
                .map(|(name, nat)| (id.clone(), name.to_owned(), nat.clone()))
                .collect()
        };
        NatView(self.router_ports.keys().flat_map(at).collect())
    }
}

impl Model {
    /// How often gateways have translated the last injected frame, or an answer to it.
    pub fn translated(&self) -> usize {
        self.nats.translated
    }

    /// How many translated connections gateways know.
    pub fn translations(&self) -> usize {
        self.nats.count()
    }

    /// Translates a packet that leaves a router by a port on a physical network, at a gateway.
    pub(super) fn translate_leaving(
        &mut self,
        host: &str,
        egress: &str,
        packet: &Routed,
        bytes: Vec<u8>,
    ) -> Result<Vec<u8>, Why> {
        let world = &self.world;
        if world.nats_at(egress).is_empty() || packet.is_discovery {
            return Ok(bytes);
        }
        let at = (world.router_ports[egress].router.clone(), host.to_owned());
        let is_own = self.is_address_of(&at.0, packet.src);
        if !is_own && world.is_external(egress, packet.src) {
            return Err(Why::Translation);
        }
        let covering = world.nat_of_source(egress, packet.src);
        if covering.is_some_and(|nat| world.is_excepted(nat, packet.dst)) {
            return Ok(bytes);
        }
        let wanted = covering.filter(|_| !is_own).map(|nat| {
            let address = nat.kind.address_for(packet.src);
            let ports = if let NatKind::Snat { ports, .. } = &nat.kind { *ports } else { None };
            move |first: Tuple| Some(Wanted { after: Tuple { src: address, ..first }, ports })
        });
        let is_covered = wanted.is_some();
        let tracked = tracked(&bytes);
        if is_own && !matches!(tracked, Tracked::Error(..)) {
            return Ok(bytes);
        }
        let possible = self
            .translations_of_tracked(&at, tracked, &|first| wanted.as_ref().and_then(|wanted| wanted(first)));
        match self.choose_fate(at, possible) {
            Fate::Stray if is_covered => Err(Why::Translation),
            Fate::Stray => Ok(bytes),
            fate => becomes(fate, packet, &bytes),
        }
    }

    /// Translates a packet that enters a router for an external address of a port, at the gateway.
    pub(super) fn translate_entering(
        &mut self,
        host: &str,
        id: &str,
        packet: &Routed,
        bytes: &[u8],
    ) -> Result<Entered, Why> {
        let at = (self.world.router_ports[id].router.clone(), host.to_owned());
        let possible =
            self.translations_of_tracked(&at, tracked(bytes), &|first| self.world.wanted_inside(id, first));
        match self.choose_fate(at, possible) {
            Fate::Stray => Ok(Entered::Untranslated),
            fate => becomes(fate, packet, bytes).map(Entered::Inside),
        }
    }

    /// Translates a packet from inside for an external address of a port, at the gateway.
    pub(super) fn translate_hairpin(
        &mut self,
        host: &str,
        id: &str,
        packet: &Routed,
        bytes: &[u8],
    ) -> Result<Vec<u8>, Why> {
        let at = (self.world.router_ports[id].router.clone(), host.to_owned());
        let wanted = |first: Tuple| {
            let inside = self.world.wanted_inside(id, first)?;
            let of_source = self.world.nat_of_source(id, first.src);
            let src = of_source.map_or(first.dst, |nat| nat.kind.address_for(first.src));
            Some(Wanted { after: Tuple { src, ..inside.after }, ..inside })
        };
        let mut possible = self.translations_of_tracked(&at, tracked(bytes), &wanted);
        // Who pretends to be outside may be found out or not, and the router has nothing to say there.
        if self.world.is_external(id, packet.src) || self.is_address_of(&at.0, packet.src) {
            possible.push(Possible::only(Fate::Dropped));
        }
        match self.choose_fate(at, possible) {
            Fate::Stray => Err(Why::Translation),
            fate => becomes(fate, packet, bytes),
        }
    }

    /// Everything that may become of a packet; the first is what is usual.
    fn translations_of_tracked(
        &self,
        at: &At,
        tracked: Tracked,
        wanted: &dyn Fn(Tuple) -> Option<Wanted>,
    ) -> Vec<Possible> {
        let stray = || Possible::only(Fate::Stray);
        match tracked {
            Tracked::Stray => vec![stray()],
            Tracked::Stateless | Tracked::Unreadable | Tracked::Fragment => {
                vec![stray(), Possible::only(Fate::Dropped)]
            }
            Tracked::Error(about, is_sound) => {
                let found = about.and_then(|about| self.nats.find(at, read(about).reversed()));
                let Some((about, found)) = about.map(read).zip(found) else { return vec![stray()] };
                let mut possible = vec![Possible::only(Fate::AboutBecomes(about, found.to.reversed()))];
                if !is_sound || !found.known.certain || found.known.muddled {
                    possible.push(stray());
                }
                possible
            }
            Tracked::Packet(tuple, segment, is_sound) => {
                let mut possible = self.translations_of(at, read(tuple), segment, wanted);
                if !is_sound || !segment.makes_sense() {
                    for possible in &mut possible {
                        if let Some((_, known)) = &mut possible.know {
                            (known.certain, known.muddled) = (false, true);
                        }
                    }
                    possible.extend([stray(), Possible::only(Fate::Dropped)]);
                }
                possible
            }
        }
    }

    fn translations_of(
        &self,
        at: &At,
        tuple: Tuple,
        segment: Segment,
        wanted: &dyn Fn(Tuple) -> Option<Wanted>,
    ) -> Vec<Possible> {
        let of_new = |old: Option<Found>| -> Vec<Possible> {
            let answers = matches!(tuple.ends, Ends::Query { is_request: false, .. });
            let new = wanted(tuple).filter(|_| !answers);
            let stray = Possible::only(Fate::Stray);
            let Some(new) = new else {
                let dropped = segment.answers_first().then_some(Possible::only(Fate::Dropped));
                return [stray].into_iter().chain(dropped).collect();
            };
            let mut possible = self.nats.begin(at, tuple, segment, &new, old);
            if segment.answers_first() {
                // Nobody has asked, so it begins no connection, unless somebody did.
                possible.extend([Fate::Stray, Fate::Dropped].map(Possible::only));
            }
            possible
        };
        let Some(found) = self.nats.find(at, tuple) else { return of_new(None) };
        let Found { first, known, to, is_reply } = found;
        let opens = if is_reply { segment.answers_first() } else { segment.is_first() };
        let is_odd = segment.opens() && !(opens && known.from_start);
        let going_on = Known {
            certain: true,
            ended: known.ended || segment.ends(),
            muddled: known.muddled || is_odd,
            seen: self.nats.now,
            ..known
        };
        let know = Some((first, going_on));
        let mut possible = vec![Possible { fate: Fate::Becomes(to), forget: None, know }];
        if !known.certain || is_odd || (known.ended && segment.is_first()) {
            possible.extend(of_new((!is_reply).then_some(found)));
        }
        if going_on.muddled {
            let know = Some((first, Known { certain: false, ..going_on }));
            possible.extend([Fate::Stray, Fate::Dropped].map(|fate| Possible { fate, forget: None, know }));
        }
        possible
    }

    fn choose_fate(&mut self, at: At, mut possible: Vec<Possible>) -> Fate {
        let mut distinct: Vec<Possible> = Vec::new();
        for one in possible.drain(..) {
            if !distinct.contains(&one) {
                distinct.push(one);
            }
        }
        let number = if distinct.len() > 1 { self.choices.decide(distinct.len()) } else { 0 };
        let Some(chosen) = distinct.into_iter().nth(number) else { return Fate::Dropped };
        let known = self.nats.known.entry(at).or_default();
        if let Some(first) = chosen.forget {
            known.remove(&first);
        }
        known.extend(chosen.know);
        self.nats.translated += usize::from(matches!(chosen.fate, Fate::Becomes(_) | Fate::AboutBecomes(..)));
        chosen.fate
    }
}

impl World {
    /// What the first packet of a connection to an external address of a port becomes.
    fn wanted_inside(&self, id: &str, first: Tuple) -> Option<Wanted> {
        let port = if let Ends::Ports(_, to) = first.ends { Some(to) } else { None };
        let nat = self.nat_of_destination(id, first.dst, first.protocol, port)?;
        let dst: IpAddr = match &nat.kind {
            NatKind::Dnat { internal, .. } | NatKind::Floating { internal, .. } => *internal,
            NatKind::Snat { .. } => return None,
        };
        let ends = match (&nat.kind, first.ends) {
            (
                NatKind::Dnat { service: Some(NatService { ports: Some((_, inside)), .. }), .. },
                Ends::Ports(from, _),
            ) => Ends::Ports(from, *inside),
            (_, ends) => ends,
        };
        Some(Wanted { after: Tuple { dst, ends, ..first }, ports: None })
    }
}

/// What a frame is to connections.
fn tracked(bytes: &[u8]) -> Tracked {
    let Some(frame) = Frame::read(bytes) else { return Tracked::Unreadable };
    Headers::read(&frame, bytes).tracked(&frame, bytes)
}

/// The tuple that tells connections apart. The specification leaves open whether ports of SCTP belong to it.
fn read(tuple: Tuple) -> Tuple {
    if tuple.protocol == SCTP { Tuple { ends: Ends::Machines, ..tuple } } else { tuple }
}

/// The bytes of a packet with this fate.
fn becomes(fate: Fate, packet: &Routed, bytes: &[u8]) -> Result<Vec<u8>, Why> {
    match fate {
        Fate::Becomes(to) => Ok(translated(packet, bytes, to)),
        Fate::AboutBecomes(old, new) => Ok(translated_error(packet, bytes, (old, new))),
        Fate::Stray | Fate::Dropped => Err(Why::Translation),
    }
}
