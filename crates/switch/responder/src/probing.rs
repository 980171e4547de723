//! Checks of addresses: which is due when, and what their results say together. No I/O and no clock here.
//!
//! A probe is up or down, or not known yet. So many successes or failures in a row as its flow says change that, but the first result of one of
//! which nothing is known decides at once. What stands in the database counts as known, so a responder that starts changes nothing
//! by that.

mod attempt;
mod stream;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use openflow_rs::message::PacketOut;
use openflow_rs::{Actions, PortNo};
use packet_answers::{Answered, Check, Conversation, PROBES_MAX, Probe, ProbeResult, Returned, Silence};
use tracing::debug;

use crate::announcing::{BURST, TICK};
use crate::counts::Counts;
use crate::watching::{FlowKey, Probes};
use attempt::{Attempt, Cause, Step};

/// How long the result of a probe outlives its flow. A change of rules may delete a flow and add one with the same id.
pub(crate) const GONE_AFTER: Duration = Duration::from_secs(10);
/// The first of the ports that connections come from, and how many there are: those that Linux uses too.
const OWN_FIRST: u16 = 32_768;
const OWN_COUNT: u64 = 28_232;
/// How many of them are tried. Each other conversation that has one is of another network with the same addresses.
const OWN_TRIES: u8 = 8;

/// The id of a probe.
pub(crate) type Id = Arc<str>;

/// Results by the id of the probe, as they stand in the database.
pub(crate) type Remembered = BTreeMap<Id, ProbeResult>;

/// What is to stand in the database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Results {
    /// All probes, each with its result if it has one. Whatever the database says of the others may stay.
    pub(crate) probes: BTreeMap<Id, Option<ProbeResult>>,
    /// Whether these are all there are, so that the results of others are to be deleted.
    pub(crate) others_go: bool,
}

/// The probes of a connection.
pub(crate) struct Probing {
    counts: Arc<Counts>,
    /// What nobody else knows: ports and numbers of segments follow from it.
    seed: u64,
    flows: BTreeMap<FlowKey, Vec<Id>>,
    probes: BTreeMap<Id, Running>,
    conversations: BTreeMap<Conversation, Id>,
    /// When each probe goes on.
    wakes: BTreeSet<(Duration, Id)>,
    /// What is to be sent at once: what the packets that have come lead to.
    answers: Vec<PacketOut>,
    remembered: Option<Arc<Remembered>>,
    /// When the results of others are deleted, once all flows are known.
    others_go_at: Option<Duration>,
    /// Whether that was said.
    others_go: bool,
    next_burst: Duration,
    has_news: bool,
    /// Whether there are more than can be kept.
    pub(crate) is_full: bool,
}

/// A probe that runs.
struct Running {
    /// The flow that says so. Another one may take it over before this one ends.
    owner: FlowKey,
    probe: Probe,
    actions: Actions,
    result: Option<ProbeResult>,
    /// Whether the next result decides alone: it is the first one of what is checked.
    is_first: bool,
    /// What the last checks have found, and how many in a row.
    last: bool,
    in_a_row: u8,
    round: u16,
    next_start: Duration,
    wake: Duration,
    attempt: Option<(Conversation, Attempt)>,
}

impl Running {
    /// Takes up the result of a check. Whether it changes that of the probe.
    fn take(&mut self, found: Result<(), Cause>) -> bool {
        let is_up = found.is_ok();
        self.in_a_row = if self.last == is_up { self.in_a_row.saturating_add(1) } else { 1 };
        self.last = is_up;
        let needed = match (std::mem::take(&mut self.is_first), is_up) {
            (true, _) => 1,
            (false, true) => self.probe.successes,
            (false, false) => self.probe.failures,
        };
        let is_known = self.result.as_ref().is_some_and(|result| result.is_up() == is_up);
        if is_known || self.in_a_row < needed {
            return false;
        }
        self.result = Some(match found {
            Ok(()) => ProbeResult::Up,
            Err(cause) => ProbeResult::Down(cause.to_string()),
        });
        true
    }
}

impl Probing {
    /// Nothing is probed. `seed` is a number that nobody else knows, and `remembered` what the database says, once that is known.
    pub(crate) fn new(counts: Arc<Counts>, seed: u64, remembered: Option<Arc<Remembered>>) -> Probing {
        Probing {
            counts,
            seed,
            flows: BTreeMap::new(),
            probes: BTreeMap::new(),
            conversations: BTreeMap::new(),
            wakes: BTreeSet::new(),
            answers: Vec::new(),
            remembered,
            others_go_at: None,
            others_go: false,
            next_burst: Duration::ZERO,
            has_news: false,
            is_full: false,
        }
    }

    /// Flows say something else. Each comes with all its probes; one without any has gone.
    pub(crate) fn change(&mut self, changes: Vec<(FlowKey, Vec<Probes>)>, now: Duration) {
        for (key, probes) in changes {
            self.has_news = true;
            let before = self.flows.remove(&key).unwrap_or_default();
            let ids: Vec<Id> = probes.iter().map(|(probe, _)| Id::from(probe.id.as_str())).collect();
            for id in before.iter().filter(|id| !ids.contains(id)) {
                self.forget(id, &key, now);
            }
            for (id, probes) in ids.iter().zip(probes) {
                self.begin(id, key.clone(), probes, now);
            }
            if !ids.is_empty() {
                self.flows.insert(key, ids);
            }
        }
    }

    fn forget(&mut self, id: &Id, owner: &FlowKey, now: Duration) {
        if self.probes.get(id).is_none_or(|running| running.owner != *owner) {
            return;
        }
        if let Some(running) = self.probes.remove(id) {
            self.wakes.remove(&(running.wake, id.clone()));
            if let Some((ends, _)) = running.attempt {
                self.conversations.remove(&ends);
            }
        }
        self.others_go_at = self.others_go_at.map(|_| now + GONE_AFTER);
    }

    fn begin(&mut self, id: &Id, owner: FlowKey, (probe, actions): Probes, now: Duration) {
        if let Some(running) = self.probes.get_mut(id) {
            let before = &running.probe;
            if (before.from, before.to, &before.check) != (probe.from, probe.to, &probe.check) {
                // What it has found was of something else, and stays until there is a new result.
                running.is_first = true;
                running.attempt.take().map(|(ends, _)| self.conversations.remove(&ends));
            }
            running.next_start = running.next_start.min(now + Duration::from_secs(probe.interval.into()));
            (running.owner, running.probe, running.actions) = (owner, probe, actions);
            self.schedule(id, now);
            return;
        }
        if self.probes.len() >= PROBES_MAX {
            self.is_full = true;
            return;
        }
        let interval = Duration::from_secs(probe.interval.into());
        // They are spread over the interval, the same way in each.
        let offset =
            self.random(id, 0, u8::MAX) % u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).max(1);
        let next_start = now + Duration::from_millis(offset);
        let result = self.remembered.as_ref().and_then(|all| all.get(id)).cloned();
        let running = Running {
            owner,
            probe,
            actions,
            is_first: result.is_none() && self.remembered.is_some(),
            result,
            last: false,
            in_a_row: 0,
            round: 0,
            next_start,
            wake: next_start,
            attempt: None,
        };
        self.wakes.insert((next_start, id.clone()));
        self.probes.insert(id.clone(), running);
    }

    /// The database says this. It counts for probes of which nothing is known.
    pub(crate) fn remember(&mut self, remembered: Arc<Remembered>) {
        for (id, running) in self.probes.iter_mut().filter(|(_, running)| running.result.is_none()) {
            running.result = remembered.get(id).cloned();
            running.is_first = running.result.is_none();
            self.has_news = true;
        }
        self.remembered = Some(remembered);
    }

    /// All flows are known, and the switch has some: a probe that none has is gone. A switch that starts has no flows for a while.
    pub(crate) fn knows_all(&mut self, now: Duration) {
        self.others_go_at.get_or_insert(now + GONE_AFTER);
    }

    /// What is to stand in the database, if it may have changed since it was last asked for.
    pub(crate) fn results(&mut self, now: Duration) -> Option<Results> {
        let others_go = self.others_go_at.is_some_and(|at| at <= now);
        let has_news = std::mem::take(&mut self.has_news) || others_go != self.others_go;
        self.others_go = others_go;
        let probes = || self.probes.iter().map(|(id, running)| (id.clone(), running.result.clone()));
        has_news.then(|| Results { probes: probes().collect(), others_go })
    }

    /// The packets that are to be sent now. `now` is the time since any moment that stays the same.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<PacketOut> {
        let mut messages = std::mem::take(&mut self.answers);
        let mut begins = if now < self.next_burst { 0 } else { BURST };
        while let Some((wake, id)) = self.wakes.pop_first() {
            if wake > now {
                self.wakes.insert((wake, id));
                break;
            }
            messages.extend(self.step(&id, None, now));
            if begins > 0 && self.start(&id, &mut messages, now) {
                begins -= 1;
                self.next_burst = now + TICK;
            }
            self.schedule(&id, now);
        }
        messages
    }

    /// When [`due`](Self::due) has packets again, or [`results`](Self::results) may change by itself; none if never.
    pub(crate) fn next(&self, now: Duration) -> Option<Duration> {
        if !self.answers.is_empty() {
            return Some(now);
        }
        let wake = self.wakes.first().map(|(wake, _)| *wake);
        let others_go = self.others_go_at.filter(|at| *at > now);
        wake.into_iter().chain(others_go).min()
    }

    /// A packet was handed over that may belong to a check.
    pub(crate) fn received(&mut self, frame: &[u8], now: Duration) -> Result<(), Silence> {
        let returned = Returned::read(frame)?;
        let id = self.conversations.get(&returned.conversation).ok_or(Silence::NoProbe)?.clone();
        let answers = self.step(&id, Some(&returned), now);
        self.answers.extend(answers);
        self.schedule(&id, now);
        Ok(())
    }

    /// Goes on with the check of a probe that is under way.
    fn step(&mut self, id: &Id, returned: Option<&Returned<'_>>, now: Duration) -> Vec<PacketOut> {
        let Some(running) = self.probes.get_mut(id) else { return Vec::new() };
        let Some((ends, attempt)) = &mut running.attempt else { return Vec::new() };
        let Step { packets, result, is_over } = attempt.step(returned, now);
        if is_over {
            self.conversations.remove(ends);
            running.attempt = None;
        }
        if let Some(found) = result
            && running.take(found)
        {
            self.has_news = true;
            let result = running.result.as_ref().map(ToString::to_string).unwrap_or_default();
            debug!(probe = &**id, to = %running.probe.to, result, "a probe has changed");
        }
        running.messages(packets)
    }

    /// Begins the check of a probe that is due. Whether it has begun.
    fn start(&mut self, id: &Id, messages: &mut Vec<PacketOut>, now: Duration) -> bool {
        let Some(running) = self.probes.get(id) else { return false };
        if running.attempt.is_some() || now < running.next_start {
            return false;
        }
        let (round, interval) = (running.round, Duration::from_secs(running.probe.interval.into()));
        let port = match running.probe.check {
            Check::Tcp(port) | Check::Http { port, .. } => Some(port),
            Check::Icmp => None,
        };
        let own = |tried| {
            let own = OWN_FIRST + (self.random(id, round, tried) % OWN_COUNT) as u16;
            Conversation { from: running.probe.from, to: running.probe.to, port, own }
        };
        let free = (0..OWN_TRIES).map(own).find(|ends| !self.conversations.contains_key(ends));
        let random = |number: u8| self.random(id, round, OWN_TRIES.saturating_add(number));
        let begun =
            free.and_then(|ends| Some((ends, Attempt::begin(&running.probe, &ends, round, random, now)?)));
        let Some(running) = self.probes.get_mut(id) else { return false };
        running.round = round.wrapping_add(1);
        // What is late is not made up for.
        running.next_start = (running.next_start + interval).max(now + TICK);
        let Some((ends, (attempt, Step { packets, .. }))) = begun else { return false };
        messages.extend(running.messages(packets));
        running.attempt = Some((ends, attempt));
        self.conversations.insert(ends, id.clone());
        self.counts.answered(Answered::Probe);
        true
    }

    /// Notes when a probe goes on.
    fn schedule(&mut self, id: &Id, now: Duration) {
        let Some(running) = self.probes.get_mut(id) else { return };
        self.wakes.remove(&(running.wake, id.clone()));
        running.wake = match &mut running.attempt {
            Some((_, attempt)) => attempt.next(now),
            None if running.next_start > now => running.next_start,
            None => self.next_burst.max(now + Duration::from_millis(1)),
        };
        self.wakes.insert((running.wake, id.clone()));
    }

    /// A number that nobody else can guess, and that is always the same for these.
    fn random(&self, id: &Id, round: u16, number: u8) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, id, round, number).hash(&mut hasher);
        hasher.finish()
    }
}

impl Running {
    fn messages(&self, packets: Vec<Vec<u8>>) -> Vec<PacketOut> {
        let message = |packet: Vec<u8>| {
            PacketOut::from_port(PortNo::LOCAL, self.actions.clone(), self.probe.frame(&packet))
        };
        packets.into_iter().map(message).collect()
    }
}

#[cfg(test)]
mod tests;
