//! What becomes of a packet at a port.

use std::collections::BTreeSet;
use std::time::Duration;

use super::AclDefault;
use super::connections::{At, Connections, Found, Known};
use super::fragments::{Waiting, Whole};
use super::headers::{Headers, Segment, Tracked};
use super::objects::Direction;
use super::tuple::{Ends, Tuple};
use super::verdict::Verdict;
use crate::Model;
use crate::frame::{Frame, is_group};
use crate::messages::{By, Notice, Owed};
use crate::world::Mac;

/// The state of connections, and what ACLs have done with the last frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracking {
    pub(crate) connections: Connections,
    waiting: Waiting,
    judged: Judged,
    /// Whether the last frame, which is for a group, is dropped for its damage: the same at all ports.
    is_dropped: Option<bool>,
}

/// What ACLs have done with the last injected frame: at how many ports, each with its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// They let it pass.
    pub passed: usize,
    /// They dropped it.
    pub dropped: usize,
    /// It began a connection.
    pub begun: usize,
    /// It was a reply that passed.
    pub replies: usize,
    /// It was a reply of a connection that may exist no more.
    pub cut: usize,
    /// It was an error about a known connection, and passed.
    pub errors: usize,
    /// It was an error about nothing that is known, or another message that belongs to no connection.
    pub strays: usize,
    /// It was a fragment that has to wait.
    pub waiting: usize,
}

/// Something that may become of a packet at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Possible {
    passes: bool,
    /// Whether an ACL rejects it.
    rejects: bool,
    what: What,
    /// The connection to forget.
    forget: Option<Tuple>,
    /// The connection that is known from now on.
    know: Option<(Tuple, Known)>,
}

/// What a packet is to the connections of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Plain,
    First,
    Reply,
    Error,
    Stray,
}

impl Possible {
    fn plain(passes: bool) -> Possible {
        Possible { passes, rejects: false, what: What::Plain, forget: None, know: None }
    }

    fn by(verdict: Verdict) -> Possible {
        Possible { rejects: verdict == Verdict::Reject, ..Possible::plain(verdict.passes()) }
    }

    /// The network drops it, and says nothing.
    fn dropped(self) -> Possible {
        Possible { passes: false, rejects: false, know: None, ..self }
    }

    /// The same, of a network that may know it or not.
    fn doubted(mut self) -> Possible {
        if let Some((_, known)) = &mut self.know {
            known.certain = false;
        }
        self
    }
}

/// The place and direction of a packet at a port.
struct Place<'a> {
    at: At,
    port: &'a str,
    direction: Direction,
    /// Whether it is for a group: then it begins no connection.
    is_for_group: bool,
    /// Whether it came in fragments.
    was_fragmented: bool,
}

/// What may become of a packet at a port.
struct Judgement {
    /// At least one thing.
    possible: Vec<Possible>,
    /// Whether the network may drop it besides, because of what it is.
    is_doubtful: bool,
}

impl Tracking {
    /// The state of a network of which nothing is known.
    pub(crate) fn any() -> Tracking {
        Tracking { connections: Connections::any(), ..Tracking::default() }
    }

    /// Whether nothing is known of connections.
    pub(crate) fn may_be_any(&self) -> bool {
        self.connections.may_be_any()
    }

    /// A frame begins.
    pub(crate) fn begin(&mut self) {
        self.judged = Judged::default();
        self.is_dropped = None;
    }

    /// Advances time.
    pub(crate) fn advance(&mut self, time: Duration) {
        self.connections.advance(time);
        self.waiting.age();
    }

    /// Forgets what the world as it is now leaves no port to know.
    pub(crate) fn revise(&mut self, world: &crate::World, is_edited: bool, others: &BTreeSet<String>) {
        if is_edited {
            self.connections.count_edit();
        }
        self.connections.revise(world, others);
        self.waiting.revise(world, others);
    }

    /// Whether another state differs in nothing but what may be known of connections.
    pub(crate) fn may_unite(&self, other: &Tracking) -> bool {
        self.waiting == other.waiting
    }

    /// Takes in what else may be known.
    pub(crate) fn unite(&mut self, other: Tracking) {
        self.connections.unite(other.connections);
    }

    fn note(&mut self, possible: &Possible) {
        let judged = &mut self.judged;
        *if possible.passes { &mut judged.passed } else { &mut judged.dropped } += 1;
        match possible.what {
            What::First if possible.know.is_some() => judged.begun += 1,
            What::Reply if possible.passes => judged.replies += 1,
            What::Reply => judged.cut += 1,
            What::Error if possible.passes => judged.errors += 1,
            What::Stray => judged.strays += 1,
            _ => {}
        }
    }
}

impl Model {
    /// What ACLs have done with the last injected frame.
    pub fn judged(&self) -> Judged {
        self.tracking.judged
    }

    /// How many connections the ports know.
    pub fn connections(&self) -> usize {
        self.tracking.connections.count()
    }

    /// Whether any ACL or default could concern a frame.
    fn has_acls(&self) -> bool {
        !self.world.acls.is_empty()
            || self.world.switches.values().any(|switch| switch.acl_default == AclDefault::Drop)
    }

    /// The frames that go on at a port when one comes: itself or none, or, once the last fragment of a datagram has come where
    /// fragments wait, all of them. What is remembered is remembered whatever becomes of the frame later; only what a host does
    /// with a frame that it must not deliver (`is_silent`) is not known.
    pub(crate) fn admit(
        &mut self,
        (host, port): (&str, &str),
        direction: Direction,
        frame: &Frame,
        bytes: &[u8],
        is_silent: bool,
    ) -> Vec<Vec<u8>> {
        if !self.world.ports.contains_key(port) || !self.has_acls() {
            return vec![bytes.to_vec()];
        }
        let mut at = Place {
            at: (host.to_owned(), port.to_owned()),
            port,
            direction,
            is_for_group: is_group(frame.dst),
            was_fragmented: false,
        };
        if self.waits(port, frame, bytes) {
            let whole = self.tracking.waiting.add(at.at.clone(), direction, frame, bytes);
            let Some(Whole { frame: whole, fragments, is_old }) = whole else {
                self.tracking.judged.waiting += 1;
                return Vec::new();
            };
            let Some(read) = Frame::read(&whole) else { return Vec::new() };
            at.was_fragmented = true;
            let mut possible = self.possibilities(&at, &read, &whole);
            if is_old {
                possible.insert(0, Possible::plain(false));
            }
            return self.choose(at, possible, is_silent, fragments);
        }
        let possible = self.possibilities(&at, frame, bytes);
        self.choose(at, possible, is_silent, vec![bytes.to_vec()])
    }

    /// Everything that may become of a packet at a port. If the network may drop a frame for a group because of what it is, it does so
    /// at all ports or at none.
    fn possibilities(&mut self, at: &Place<'_>, frame: &Frame, bytes: &[u8]) -> Vec<Possible> {
        let Judgement { mut possible, is_doubtful } = self.judge(at, frame, bytes);
        if !is_doubtful {
            return possible;
        }
        if !at.is_for_group || self.tracking.connections.may_be_any() {
            possible.push(Possible::plain(false));
            return possible;
        }
        let choices = &mut self.choices;
        let is_dropped = *self.tracking.is_dropped.get_or_insert_with(|| choices.decide(2) == 1);
        if is_dropped { vec![Possible::plain(false)] } else { possible }
    }

    /// Whether a frame may pass a port, whatever the port knows.
    pub(crate) fn may_admit(&self, port: &str, direction: Direction, frame: &Frame, bytes: &[u8]) -> bool {
        if !self.world.ports.contains_key(port) || !self.has_acls() || self.waits(port, frame, bytes) {
            return true;
        }
        let at = Place {
            at: (String::new(), port.to_owned()),
            port,
            direction,
            is_for_group: is_group(frame.dst),
            was_fragmented: false,
        };
        self.judge(&at, frame, bytes).possible.iter().any(|possible| possible.passes)
    }

    /// Whether a frame is a fragment that waits at a port. While nothing is known, the others may be there.
    fn waits(&self, port: &str, frame: &Frame, bytes: &[u8]) -> bool {
        self.world.is_stateful(port) && Headers::read(frame, bytes).tracked(frame, bytes) == Tracked::Fragment
    }

    /// Takes one of the possibilities. Returns those of the frames that pass: all or none.
    fn choose(
        &mut self,
        at: Place<'_>,
        mut possible: Vec<Possible>,
        is_silent: bool,
        frames: Vec<Vec<u8>>,
    ) -> Vec<Vec<u8>> {
        possible.dedup();
        if self.tracking.connections.may_be_any() {
            return if possible.iter().any(|possible| possible.passes) { frames } else { Vec::new() };
        }
        let number = if possible.len() > 1 { self.choices.decide(possible.len()) } else { 0 };
        let Some(mut chosen) = possible.get(number).copied() else { return frames };
        if is_silent {
            chosen = chosen.doubted();
        }
        self.tracking.note(&chosen);
        if chosen.rejects && !is_silent {
            self.reject(&at, &frames);
        }
        if let Some(first) = chosen.forget {
            self.tracking.connections.forget(&at.at, first);
        }
        if let Some((first, known)) = chosen.know {
            self.tracking.connections.remember(at.at, first, known);
        }
        if chosen.passes { frames } else { Vec::new() }
    }

    /// The sender of rejected frames is to hear of it. A port rejects what is for its own addresses: what is flooded to it may be for others.
    fn reject(&mut self, at: &Place<'_>, frames: &[Vec<u8>]) {
        let own: Vec<Mac> = match (at.direction, self.world.ports.get(at.port)) {
            (Direction::ToPort, Some(port)) => port.addresses.iter().map(|address| address.mac).collect(),
            _ => Vec::new(),
        };
        let is_own = |frame: &&Vec<u8>| own.iter().any(|mac| frame.starts_with(mac));
        for frame in frames.iter().filter(|frame| at.direction == Direction::FromPort || is_own(frame)) {
            let (host, port) = at.at.clone();
            let by = By::Acls(at.direction);
            self.messages.owe(Owed { host, port, bytes: frame.clone(), notice: Notice::Rejected, by });
        }
    }

    fn judge(&self, at: &Place<'_>, frame: &Frame, bytes: &[u8]) -> Judgement {
        let headers = Headers::read(frame, bytes);
        let verdict = |headers: &Headers| self.world.verdict(at.port, at.direction, headers);
        let of = |possible, is_doubtful| Judgement { possible, is_doubtful };
        let stateless = || vec![Possible::by(verdict(&headers))];
        if !self.world.is_stateful(at.port) {
            return of(stateless(), false);
        }
        let (possible, is_sound) = match headers.tracked(frame, bytes) {
            // No switch sees the type of a message that comes in fragments.
            Tracked::Stateless | Tracked::Fragment => return of(stateless(), at.was_fragmented),
            Tracked::Unreadable => return of(stateless(), true),
            Tracked::Stray => {
                return of(vec![Possible { what: What::Stray, ..Possible::plain(false) }], false);
            }
            Tracked::Packet(tuple, segment, sound) => {
                let of_reading = |reading: Tuple| {
                    let ports = match reading.ends {
                        Ends::Ports(from, to) => Some((from, to)),
                        _ => None,
                    };
                    let verdict = verdict(&Headers { ports, ..headers.clone() });
                    self.of_packet(at, reading, segment, verdict)
                };
                let possible: Vec<Possible> = tuple.readings().into_iter().flat_map(of_reading).collect();
                (possible, sound && segment.makes_sense())
            }
            Tracked::Error(about, sound) => {
                let readings = about
                    .map_or_else(|| vec![None], |about| about.readings().into_iter().map(Some).collect());
                (readings.into_iter().flat_map(|about| self.of_error(at, about)).collect(), sound)
            }
        };
        if is_sound {
            of(possible, false)
        } else {
            of(possible.into_iter().map(Possible::doubted).collect(), true)
        }
    }

    fn of_packet(&self, at: &Place<'_>, tuple: Tuple, segment: Segment, verdict: Verdict) -> Vec<Possible> {
        if self.tracking.connections.may_be_any() {
            let other =
                if at.direction == Direction::FromPort { Direction::ToPort } else { Direction::FromPort };
            let may_reply =
                [at.direction, other].into_iter().any(|begun| self.may_be(at, begun, tuple.reversed()));
            return vec![Possible::plain(verdict.passes() || may_reply)];
        }
        let Some(found) = self.tracking.connections.find(&at.at, tuple) else {
            return self.of_new(at, tuple, segment, verdict, None);
        };
        let mut possible = self.of_known(at, found, segment, verdict);
        // Only the first segment of a connection and the answer to it are to open it.
        let opens = if found.is_reply { segment.answers_first() } else { segment.is_first() };
        let is_odd = segment.opens() && !(opens && found.known.from_start);
        // A connection that has ended may begin anew, and so may one whose ends do not agree how it began.
        if !found.known.certain || is_odd || (found.known.ended && segment.is_first()) {
            possible.extend(self.of_new(at, tuple, segment, verdict, Some(found.first)));
        }
        if is_odd || found.known.muddled {
            for possible in &mut possible {
                *possible = possible.doubted();
                if let Some((_, known)) = &mut possible.know {
                    known.muddled = true;
                }
            }
            let know = Some((found.first, found.known.muddled()));
            possible.push(Possible { know, ..Possible::plain(false) });
            // An ACL may say it, and the connection is known all the same.
            if verdict == Verdict::Reject {
                possible.push(Possible { know, ..Possible::by(verdict) });
            }
        }
        possible
    }

    /// A packet of a known connection. One in the direction of the first packet asks the ACLs again, and so does one in the other
    /// direction, but about the first packet: an edit that forbids a connection cuts its replies.
    fn of_known(&self, at: &Place<'_>, found: Found, segment: Segment, verdict: Verdict) -> Vec<Possible> {
        let Found { first, known, is_reply } = found;
        let verdict = if is_reply { self.verdict_on(at, known.direction, first) } else { verdict };
        let passes = verdict.passes();
        let going_on = self.tracking.connections.go_on(known, segment.ends());
        let what = if is_reply { What::Reply } else { What::Plain };
        let usual = Possible { what, know: passes.then_some((first, going_on)), ..Possible::by(verdict) };
        // Who replies where the first packet came from may be asked about either direction.
        let is_odd = is_reply && known.direction == at.direction;
        // Nobody sends this in the direction of a first packet.
        let is_unasked = !is_reply && segment.answers_first();
        if is_odd || is_unasked {
            let rejected = Possible { rejects: true, ..usual.dropped() };
            return vec![
                Possible { passes: true, rejects: false, ..usual }.doubted(),
                usual.dropped(),
                rejected,
            ];
        }
        vec![usual]
    }

    /// Whether the ACLs of a direction allow a connection with this first packet.
    fn may_be(&self, at: &Place<'_>, begun: Direction, first: Tuple) -> bool {
        self.verdict_on(at, begun, first).passes()
    }

    /// What the ACLs of a direction say of a connection with this first packet.
    fn verdict_on(&self, at: &Place<'_>, begun: Direction, first: Tuple) -> Verdict {
        self.world.verdict(at.port, begun, &first.headers())
    }

    /// A packet that may begin a connection, in the place of one that is forgotten.
    fn of_new(
        &self,
        at: &Place<'_>,
        tuple: Tuple,
        segment: Segment,
        verdict: Verdict,
        forget: Option<Tuple>,
    ) -> Vec<Possible> {
        // A datagram in fragments that is only allowed may begin a connection too.
        let begins = match verdict {
            Verdict::Begin => !at.is_for_group,
            Verdict::Allow => !at.is_for_group && at.was_fragmented,
            Verdict::Drop | Verdict::Reject => false,
        };
        let known = self.tracking.connections.begin(at.direction, segment, verdict == Verdict::Begin);
        let know = begins.then_some((tuple, known));
        let what = if verdict == Verdict::Begin { What::First } else { What::Plain };
        let usual = Possible { what, forget, know, ..Possible::by(verdict) };
        if matches!(tuple.ends, Ends::Query { is_request: false, .. }) {
            // It answers nobody, and begins nothing.
            return vec![Possible { know: None, ..usual }, usual.dropped()];
        }
        if segment.answers_first() || tuple == tuple.reversed() {
            return vec![usual.doubted(), usual.dropped()];
        }
        vec![usual]
    }

    /// An error about a packet of a connection passes if the connection may exist. After an edit it may be lost until a packet of
    /// the connection has passed.
    fn of_error(&self, at: &Place<'_>, about: Option<Tuple>) -> Vec<Possible> {
        let possible = |passes, what| Possible { what, ..Possible::plain(passes) };
        let stray = possible(false, What::Stray);
        let Some(about) = about else { return vec![stray] };
        if self.tracking.connections.may_be_any() {
            let directions = [Direction::FromPort, Direction::ToPort];
            let may_be = |first: Tuple| directions.into_iter().any(|begun| self.may_be(at, begun, first));
            return vec![Possible::plain(may_be(about) || may_be(about.reversed()))];
        }
        let Some(Found { first, known, .. }) = self.tracking.connections.find(&at.at, about) else {
            return vec![stray];
        };
        let passes = self.may_be(at, known.direction, first);
        let mut all = vec![possible(passes, What::Error)];
        if passes && !self.tracking.connections.is_fresh(known) {
            all.push(possible(false, What::Error));
        }
        if !known.certain {
            all.push(stray);
        }
        all
    }
}
