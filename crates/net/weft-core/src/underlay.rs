//! The network between the hosts, as it is measured: hosts send probes through their tunnels, and the flows of the receivers count them.
//!
//! Pure: the time is a parameter, and the caller carries out the [`Order`]s. For each host there are two times, each once an interval:
//! when it sends to its peers, a few at a time, and when it is asked what it has counted. Hosts take turns, so that the controller sends
//! at most [`PACKETS_A_SECOND`]; with more pairs, the interval grows.
//!
//! A probe is as large as the tunnel carries. Once one is lost, the next has a small one before it, so that what arrives tells a network
//! that is too narrow from none. A pair is at fault when two probes in a row are lost, since the first packet to a host may be lost while its
//! MAC address is asked for. Only what both switches have answered counts: a host that is not connected says nothing about the network.
//! Nothing is kept over a restart.
//!
//! A host that sends to itself measures its responder: that gives the packet back, and the host counts it like one from a tunnel.

mod faults;
mod pair;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use openflow_rs::Match;
use switch_model::{Packet, ReadError, SeenFlow, probe_frame};

use crate::core::{Problem, ProblemChanges};
use crate::derived::probe_plan::{ProbePlan, source};
use crate::levels::Moment;
use faults::problems;
pub use pair::{Measured, Verdict};
use pair::{Pair, SMALL};

/// The packets that the controller hands to switches in a second, of all hosts together, as long as nothing is lost.
pub const PACKETS_A_SECOND: u32 = 6000;
/// How many peers a host sends to at once.
const AT_ONCE: usize = 32;
/// How soon after a change the problems are stated again.
const STATED_AFTER: Duration = Duration::from_secs(2);

/// What a switch is to do.
#[derive(Debug, Clone)]
pub(crate) enum Order {
    /// Send these packets, and say that they are sent under this number.
    Send { host: Arc<str>, number: u64, packets: Vec<Packet> },
    /// Read the flows of this table that the match covers.
    Count { host: Arc<str>, table: u8, covers: Match },
}

/// What a host does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Send,
    Count,
}

/// A host that takes part.
#[derive(Debug, Default)]
struct Host {
    /// The peer that it sent to last.
    last: Option<Arc<str>>,
    /// What it was told to send and has not confirmed: the number of the order, and the receivers.
    sending: Option<(u64, Vec<Arc<str>>)>,
    /// When it was asked, if it has not answered.
    asked: Option<Moment>,
}

/// All that was measured.
#[derive(Debug, Default)]
pub(crate) struct Underlay {
    hosts: BTreeMap<Arc<str>, Host>,
    turns: BTreeSet<(Moment, Turn, Arc<str>)>,
    /// The version of the plan that the hosts are of.
    version: u64,
    /// By receiver and sender.
    pairs: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Pair>>,
    orders: u64,
    frames: BTreeMap<usize, Arc<[u8]>>,
    problems: BTreeSet<Arc<Problem>>,
    /// When they are stated again.
    stated_at: Option<Moment>,
}

/// The time of a step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    pub(crate) moment: Moment,
    pub(crate) wall: SystemTime,
}

impl Underlay {
    /// When something is to be done.
    pub(crate) fn next(&self) -> Option<Moment> {
        let turn = self.turns.first().map(|(at, ..)| *at);
        turn.into_iter().chain(self.stated_at).min()
    }

    /// What is to be done by now. `is_ready` says whether a switch is connected and in sync.
    pub(crate) fn orders(
        &mut self,
        plan: &ProbePlan,
        is_ready: impl Fn(&str) -> bool,
        now: Moment,
    ) -> Vec<Order> {
        if self.version != plan.version() {
            self.version = plan.version();
            self.follow(plan, now);
        }
        let mut orders = Vec::new();
        while self.turns.first().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, turn, host)) = self.turns.pop_first() else { break };
            let Some(interval) = interval(plan, &host) else { continue };
            let is_ready = is_ready(&host);
            let next = match turn {
                Turn::Send => {
                    let (order, share) = self.send(plan, &host, is_ready, now);
                    orders.extend(order);
                    interval.mul_f64(share)
                }
                Turn::Count => {
                    orders.extend(self.count(plan, &host, is_ready, now));
                    interval
                }
            };
            self.turns.insert((now + next, turn, host));
        }
        orders
    }

    /// Other hosts take part. Each begins at a time of its own.
    fn follow(&mut self, plan: &ProbePlan, now: Moment) {
        self.hosts.retain(|name, _| plan.hosts().contains_key(name));
        self.turns.retain(|(_, _, name)| plan.hosts().contains_key(name));
        self.pairs.retain(|name, _| plan.hosts().contains_key(name));
        for name in plan.hosts().keys() {
            let Some(interval) = interval(plan, name).filter(|_| !self.hosts.contains_key(name)) else {
                continue;
            };
            self.hosts.insert(name.clone(), Host::default());
            for turn in [Turn::Count, Turn::Send] {
                self.turns.insert((now + interval.mul_f64(share_of(name, turn)), turn, name.clone()));
            }
        }
        self.changed(now);
    }

    /// Lets a host send to some of its peers. Returns the part of the interval until it sends to the next ones.
    fn send(
        &mut self,
        plan: &ProbePlan,
        name: &Arc<str>,
        is_ready: bool,
        now: Moment,
    ) -> (Option<Order>, f64) {
        let (Some(probes), Some(host)) = (plan.from(name), self.hosts.get_mut(name)) else {
            return (None, 1.0);
        };
        let after = host.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut batch: Vec<_> =
            probes.range::<Arc<str>, _>((after, Bound::Unbounded)).take(AT_ONCE).collect();
        if batch.is_empty() {
            batch = probes.iter().take(AT_ONCE).collect();
        }
        host.last = batch.last().map(|(to, _)| (*to).clone());
        let share = batch.len() as f64 / probes.len() as f64;
        if !is_ready || host.sending.is_some() {
            let mut lapsed = false;
            for (to, _) in batch.iter().filter(|_| !is_ready) {
                lapsed |= self.pairs.get_mut(*to).and_then(|of| of.get_mut(name)).is_some_and(Pair::lapse);
            }
            if lapsed {
                self.changed(now);
            }
            return (None, share);
        }
        let mut packets = Vec::new();
        for (to, probe) in &batch {
            let pair = self.pairs.get(*to).and_then(|of| of.get(name));
            let sizes =
                if pair.is_some_and(Pair::is_in_doubt) { &[SMALL, probe.bytes][..] } else { &[probe.bytes] };
            for bytes in sizes {
                let frame = self.frames.entry(*bytes).or_insert_with(|| probe_frame(*bytes));
                packets.push(Packet { actions: probe.actions.clone(), frame: frame.clone() });
            }
        }
        self.orders += 1;
        let number = self.orders;
        host.sending = Some((number, batch.into_iter().map(|(to, _)| to.clone()).collect()));
        (Some(Order::Send { host: name.clone(), number, packets }), share)
    }

    /// Asks a host what it has counted.
    fn count(&mut self, plan: &ProbePlan, name: &Arc<str>, is_ready: bool, now: Moment) -> Option<Order> {
        let (table, covers) = plan.counter()?;
        let host = self.hosts.get_mut(name).filter(|_| plan.senders(name).is_some())?;
        if !is_ready {
            self.lapse(name, now);
            return None;
        }
        if host.asked.is_some() {
            return None;
        }
        host.asked = Some(now);
        Some(Order::Count { host: name.clone(), table, covers: covers.clone() })
    }

    /// A switch has answered an order to send: it has sent all, or not.
    pub(crate) fn sent(&mut self, plan: &ProbePlan, name: &str, number: u64, is_sent: bool, now: Moment) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        let Some((_, receivers)) = host.sending.take_if(|(sending, _)| *sending == number) else { return };
        let Some((from, _)) = plan.hosts().get_key_value(name).filter(|_| is_sent) else { return };
        for to in receivers.into_iter().filter(|to| plan.probe(name, to).is_some()) {
            self.pairs.entry(to).or_default().entry(from.clone()).or_default().sent(now);
        }
    }

    /// A switch says what it has counted.
    pub(crate) fn counted(
        &mut self,
        plan: &ProbePlan,
        name: &str,
        answer: Result<Vec<SeenFlow>, ReadError>,
        now: Time,
    ) {
        let Some(asked) = self.hosts.get_mut(name).and_then(|host| host.asked.take()) else { return };
        let Ok(flows) = answer else { return self.lapse(name, now.moment) };
        let Some((receiver, _)) = plan.hosts().get_key_value(name) else { return };
        let counts: BTreeMap<&Arc<str>, (u64, u64)> = flows
            .iter()
            .filter_map(|flow| {
                Some((plan.host_at(source(&flow.entry.matches)?)?, (flow.packets, flow.bytes)))
            })
            .collect();
        let pairs = self.pairs.entry(receiver.clone()).or_default();
        pairs.retain(|from, _| plan.probe(from, name).is_some());
        let mut changed = false;
        for from in plan.senders(name).into_iter().flatten() {
            let Some(probe) = plan.probe(from, name) else { continue };
            let pair = pairs.entry(from.clone()).or_default();
            changed |= pair.counted(counts.get(from).copied(), probe.bytes, asked, now.wall);
        }
        if changed {
            self.changed(now.moment);
        }
    }

    /// Nothing is known any more of what arrives at a host.
    fn lapse(&mut self, to: &str, now: Moment) {
        let mut lapsed = false;
        for pair in self.pairs.get_mut(to).into_iter().flat_map(BTreeMap::values_mut) {
            lapsed |= pair.lapse();
        }
        if lapsed {
            self.changed(now);
        }
    }

    fn changed(&mut self, now: Moment) {
        self.stated_at.get_or_insert(now + STATED_AFTER);
    }

    /// States the problems again, if it is time. Returns how they have changed.
    pub(crate) fn state(&mut self, plan: &ProbePlan, kind: &str, now: Moment) -> Option<ProblemChanges> {
        self.stated_at.take_if(|at| *at <= now)?;
        let measured = self
            .pairs
            .iter()
            .flat_map(|(to, pairs)| pairs.iter().map(move |(from, pair)| (from, to, pair.verdict())));
        let faulty =
            measured.filter(|(from, to, verdict)| verdict.is_fault() && plan.probe(from, to).is_some());
        let problems = problems(faulty, plan, kind);
        let new = problems.difference(&self.problems).cloned().collect();
        let gone = self.problems.difference(&problems).cloned().collect();
        self.problems = problems;
        Some(ProblemChanges { new, gone })
    }

    /// The problems that were stated last.
    pub(crate) fn problems(&self) -> &BTreeSet<Arc<Problem>> {
        &self.problems
    }

    /// What was measured of the tunnels of a host, or of all, and of those that were not measured why.
    pub(crate) fn measured(
        &self,
        plan: &ProbePlan,
        node: Option<&str>,
        is_ready: impl Fn(&str) -> bool,
    ) -> Vec<Measured> {
        let mut all = Vec::new();
        for (from, to, probe) in plan.all() {
            // What comes back from the responder of a host has taken no tunnel.
            if from == to || node.is_some_and(|node| node != &**from && node != &**to) {
                continue;
            }
            let Some(host) = plan.hosts().get(to) else { continue };
            let pair = self.pairs.get(to).and_then(|of| of.get(from));
            let unready = [from, to].into_iter().find(|name| !is_ready(name));
            all.push(Measured::of((from, to), probe, host, pair, unready.map(|name| &**name)));
        }
        all
    }
}

/// How often a host sends to each of its peers.
fn interval(plan: &ProbePlan, host: &str) -> Option<Duration> {
    let least = Duration::from_secs_f64(plan.pairs() as f64 / f64::from(PACKETS_A_SECOND));
    plan.hosts().get(host).map(|host| host.interval.max(least))
}

/// The part of the interval after which a host has its first turn.
fn share_of(host: &str, turn: Turn) -> f64 {
    let mut hasher = DefaultHasher::new();
    (host, turn as u8).hash(&mut hasher);
    // The upper half has enough bits.
    f64::from((hasher.finish() >> 32) as u32) / f64::from(u32::MAX)
}
