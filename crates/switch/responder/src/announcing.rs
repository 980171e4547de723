//! What is sent unasked, when and how fast: announcements, and questions. No I/O and no clock here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use openflow_rs::PortNo;
use openflow_rs::message::{PacketOut, Port, PortReason, PortState, PortStatus};
use packet_answers::Answered;

use crate::counts::Counts;
use crate::watching::{Change, FlowKey, Sent};

/// How many frames are sent at once, and how often: 2,000 a second. 7,000 addresses take 3.5 s, and the switch, which forwards in the same thread,
/// a small part of its time.
pub(crate) const BURST: usize = 20;
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// What is to be sent.
#[derive(Debug)]
pub(crate) struct Announcing {
    counts: Arc<Counts>,
    flows: BTreeMap<FlowKey, Announces>,
    /// The flows whose frames are being sent, in turn: each sends its first one before any sends its second.
    sending: VecDeque<FlowKey>,
    /// When the others are sent again.
    waiting: BTreeSet<(Duration, FlowKey)>,
    /// Whether packets can leave by a port.
    live: BTreeMap<u32, bool>,
    next_burst: Duration,
}

/// What a flow has sent. Of several things, all are sent as often as the first.
#[derive(Debug)]
struct Announces {
    announced: Vec<Sent>,
    /// How many times it has been sent since it last had a reason to be.
    times: usize,
    /// The next frame, while it is being sent.
    frame: usize,
    /// The next time, while it waits.
    due: Option<Duration>,
}

impl Announces {
    fn message(&self) -> Option<(Answered, PacketOut)> {
        let mut number = self.frame;
        for (unasked, actions) in &self.announced {
            if let Some(frame) = unasked.frame(number) {
                let message = PacketOut::from_port(PortNo::LOCAL, actions.clone(), frame);
                return Some((unasked.kind(), message));
            }
            number = number.saturating_sub(unasked.frames());
        }
        None
    }

    fn watches(&self, port: u32) -> bool {
        self.announced.iter().any(|(unasked, _)| unasked.watches(port))
    }
}

impl Announcing {
    /// Nothing is to be announced.
    pub(crate) fn new(counts: Arc<Counts>) -> Announcing {
        Announcing {
            counts,
            flows: BTreeMap::new(),
            sending: VecDeque::new(),
            waiting: BTreeSet::new(),
            live: BTreeMap::new(),
            next_burst: Duration::ZERO,
        }
    }

    /// Flows have appeared, changed or gone. What is new is announced.
    pub(crate) fn change(&mut self, changes: Vec<Change>) {
        for change in changes {
            let (Change::Announces(key, _) | Change::Ends(key)) = &change;
            self.forget(&key.clone());
            if let Change::Announces(key, announced) = change {
                let announces = Announces { announced, times: 0, frame: 0, due: None };
                self.flows.insert(key.clone(), announces);
                self.sending.push_back(key);
            }
        }
    }

    fn forget(&mut self, key: &FlowKey) {
        let Some(before) = self.flows.remove(key) else { return };
        match before.due {
            Some(due) => drop(self.waiting.remove(&(due, key.clone()))),
            None => self.sending.retain(|other| other != key),
        }
    }

    /// The switch describes its ports as they are.
    pub(crate) fn describe(&mut self, ports: &[Port]) {
        self.live.extend(ports.iter().map(|port| (port.number.to_wire(), is_live(port))));
    }

    /// A port has changed. Whoever watches it announces again if packets can leave by it now, or cannot any more: in both cases, another
    /// switch may lead from now on, and the actions of the announcement decide whether this one does.
    pub(crate) fn port(&mut self, status: &PortStatus) {
        let is_live = status.reason != PortReason::Delete && is_live(&status.port);
        let number = status.port.number.to_wire();
        if self.live.insert(number, is_live).unwrap_or(false) != is_live {
            self.again(|announces| announces.watches(number));
        }
    }

    /// All is announced again.
    pub(crate) fn all_again(&mut self) {
        self.again(|_| true);
    }

    fn again(&mut self, which: impl Fn(&Announces) -> bool) {
        for (key, announces) in self.flows.iter_mut().filter(|(_, announces)| which(announces)) {
            (announces.times, announces.frame) = (0, 0);
            // One that is being sent begins anew in its turn.
            if let Some(due) = announces.due.take() {
                self.waiting.remove(&(due, key.clone()));
                self.sending.push_back(key.clone());
            }
        }
    }

    /// The frames that are to be sent now. `now` is the time since any moment that stays the same.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<PacketOut> {
        while let Some((due, key)) = self.waiting.pop_first() {
            if due > now {
                self.waiting.insert((due, key));
                break;
            }
            if let Some(announces) = self.flows.get_mut(&key) {
                announces.due = None;
                self.sending.push_back(key);
            }
        }
        if self.sending.is_empty() || now < self.next_burst {
            return Vec::new();
        }
        self.next_burst = now + TICK;
        let mut messages = Vec::new();
        while messages.len() < BURST
            && let Some(key) = self.sending.pop_front()
        {
            let Some(announces) = self.flows.get_mut(&key) else { continue };
            if let Some((kind, message)) = announces.message() {
                messages.push(message);
                announces.frame += 1;
                self.counts.answered(kind);
            }
            if announces.message().is_some() {
                self.sending.push_back(key);
                continue;
            }
            announces.frame = 0;
            // The last one leaves it at rest: it is neither being sent nor due.
            let first = announces.announced.first();
            let pause =
                first.and_then(|(unasked, _)| unasked.pause(announces.times)).unwrap_or(Duration::MAX);
            announces.times = announces.times.saturating_add(1);
            let due = now.saturating_add(pause);
            announces.due = Some(due);
            self.waiting.insert((due, key));
        }
        messages
    }

    /// When [`due`](Self::due) has frames again; none if never.
    pub(crate) fn next(&self) -> Option<Duration> {
        if !self.sending.is_empty() {
            return Some(self.next_burst);
        }
        self.waiting.first().map(|(due, _)| *due).filter(|due| *due < Duration::MAX)
    }
}

fn is_live(port: &Port) -> bool {
    port.state.contains(PortState::LIVE)
}

#[cfg(test)]
mod tests;
