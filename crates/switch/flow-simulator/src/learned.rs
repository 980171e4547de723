//! Flows that a bridge learned from packets, and their timeouts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use openflow_rs::action::{Learn, LearnSpec, SetField};
use openflow_rs::{Action, Actions, FlowEntry, FlowFlags, Match, PortNo, Subfield};

use crate::conntrack::Changes;
use crate::conntrack::fragments::Held;
use crate::pipeline::Rest;
use crate::table::Table;
use crate::{Bridge, FlowKey};

/// Table, priority and match: no two flows share them.
type Slot = (u8, u16, Match);

fn slot(flow: &FlowEntry) -> Slot {
    (flow.table, flow.priority, flow.matches.clone())
}

/// The learning state of a bridge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    now: Duration,
    times: BTreeMap<Slot, Times>,
    /// The number of actions with `delete_learned`, by the cookie and table of their learned flows.
    sources: BTreeMap<(u64, u8), usize>,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    /// The time when it was last learned.
    modified: Duration,
    /// When a packet met it.
    used: Duration,
}

impl Learned {
    /// Notes that a flow was removed, or is no longer a learned one.
    pub(crate) fn forget(&mut self, flow: &FlowEntry) {
        if !self.times.is_empty() {
            self.times.remove(&slot(flow));
        }
    }

    /// Notes the actions of an added flow.
    pub(crate) fn note_added(&mut self, actions: &Actions) {
        for key in sources(actions) {
            *self.sources.entry(key).or_default() += 1;
        }
    }

    /// Notes the removal of a flow. Returns the cookies and tables of learned flows to remove with it.
    pub(crate) fn note_removed(&mut self, actions: &Actions) -> Vec<(u64, u8)> {
        let mut dead = Vec::new();
        for key in sources(actions) {
            let Some(count) = self.sources.get_mut(&key) else { continue };
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&key);
                dead.push(key);
            }
        }
        dead
    }

    /// The flows that have timed out.
    fn expired(&self, flow: impl Fn(&Slot) -> Option<Arc<FlowEntry>>) -> Vec<Slot> {
        let over = |since: Duration, seconds: u16| {
            seconds != 0 && self.now > since + Duration::from_secs(seconds.into())
        };
        let expired = |(slot, times): (&Slot, &Times)| {
            let flow = flow(slot)?;
            let expired = over(times.modified, flow.hard_timeout) || over(times.used, flow.idle_timeout);
            expired.then(|| slot.clone())
        };
        self.times.iter().filter_map(expired).collect()
    }
}

/// Cookies and tables of the flows learned by actions with `delete_learned`.
fn sources(actions: &Actions) -> Vec<(u64, u8)> {
    let mut found = Vec::new();
    for action in &actions.0 {
        match action {
            Action::Learn(learn) if learn.delete_learned => found.push((learn.cookie, learn.table)),
            Action::CloneActions(clone) => found.extend(sources(&clone.actions)),
            _ => {}
        }
    }
    found
}

/// A flow to learn.
#[derive(Clone, Debug)]
pub(crate) struct Lesson {
    pub(crate) flow: FlowEntry,
    /// The number of flows with its cookie in its table from which on no more are added; 0 for no limit.
    pub(crate) limit: u32,
}

/// The changes that a packet makes in a bridge.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    /// The flows to learn, in order.
    pub(crate) learned: Vec<Lesson>,
    /// The flows with an idle timeout that it matched.
    pub(crate) used: Vec<Arc<FlowEntry>>,
    /// The meters that it came to, and whether it passed.
    pub(crate) metered: Vec<(u32, bool)>,
    /// The connections that it changed.
    pub(crate) connections: Changes,
    /// The fragments that wait, of the packets that are no longer as before.
    pub(crate) held: Held<Rest>,
}

impl Effects {
    pub(crate) fn are_none(&self) -> bool {
        self.learned.is_empty()
            && self.used.is_empty()
            && self.metered.is_empty()
            && self.connections.is_empty()
            && self.held.is_empty()
    }
}

impl Bridge {
    /// The learned flows, in the order of [`Bridge::flows`].
    pub fn learned(&self) -> Vec<&FlowEntry> {
        let mut flows = self.all_flows();
        flows.retain(|flow| self.is_learned(flow));
        flows
    }

    pub(crate) fn is_learned(&self, flow: &FlowEntry) -> bool {
        !self.learned.times.is_empty() && self.learned.times.contains_key(&slot(flow))
    }

    /// Advances time. Learned flows age out: the hard timeout counts from the last time a flow was learned, the idle
    /// timeout from the last packet that matched it. Other flows stay. Tracked connections are forgotten by their state, and
    /// fragments that wait are lost.
    pub fn advance(&mut self, time: Duration) {
        self.learned.now += time;
        let expired = self
            .learned
            .expired(|(table, priority, matches)| self.table(*table)?.get(matches, *priority).cloned());
        for (table, priority, matches) in expired {
            self.take(table, priority, &matches);
        }
        self.connections.expire(self.learned.now);
        if !time.is_zero() {
            self.held.clear();
        }
    }

    /// The time on the bridge's clock.
    pub(crate) fn now(&self) -> Duration {
        self.learned.now
    }

    pub(crate) fn leave_behind(&mut self, effects: Effects) {
        let now = self.learned.now;
        for flow in effects.used {
            if let Some(times) = self.learned.times.get_mut(&slot(&flow)) {
                times.used = now;
            }
        }
        for (meter, passed) in effects.metered {
            self.count_metered(meter, passed);
        }
        self.connections.apply(effects.connections);
        self.held.extend(effects.held);
        self.held.retain(|_, pieces| !pieces.is_empty());
        self.teach(effects.learned);
    }

    /// Learns flows, in order.
    pub(crate) fn teach(&mut self, lessons: Vec<Lesson>) {
        for lesson in lessons {
            self.learn(lesson);
        }
    }

    /// Learns a flow: adds it, changes an existing one (whose timeouts and flags stay), or refreshes it. Above the limit it
    /// only refreshes: a flow that would have to change stays as it is.
    fn learn(&mut self, Lesson { mut flow, limit }: Lesson) {
        let now = self.learned.now;
        let slot = slot(&flow);
        let old = self.table(flow.table).and_then(|table| table.get(&flow.matches, flow.priority)).cloned();
        if old.as_deref() != Some(&flow)
            && limit != 0
            && self.count(flow.table, flow.cookie) >= limit as usize
        {
            return;
        }
        let times = self.learned.times.get(&slot).copied();
        if let Some(old) = &old
            && **old != flow
        {
            let kept = FlowEntry { actions: Actions::drop(), ..(**old).clone() };
            flow = FlowEntry { actions: flow.actions, cookie: flow.cookie, ..kept };
        }
        if old.as_deref() != Some(&flow) {
            self.put(Arc::new(flow));
        }
        let fresh = old.is_none().then_some(Times { modified: now, used: now });
        if let Some(times) = times.map(|times| Times { modified: now, ..times }).or(fresh) {
            self.learned.times.insert(slot, times);
        }
    }

    /// The number of flows with a cookie in a table.
    fn count(&self, table: u8, cookie: u64) -> usize {
        let flows = self.table(table).into_iter().flat_map(Table::entries);
        flows.filter(|flow| flow.cookie == cookie).count()
    }
}

/// The flow learned from a packet; none if its match would be contradictory.
pub(crate) fn learned_flow(learn: &Learn, key: &FlowKey) -> Option<FlowEntry> {
    let read = |from: Subfield| (key.get(from.field()) & from.mask()) >> from.start();
    let (mut matches, mut actions) = (Match::any(), Vec::new());
    for spec in &learn.specs {
        match *spec {
            LearnSpec::Copy { from, to } => matches = demanded(matches, to, read(from))?,
            LearnSpec::Match { to, value } => matches = demanded(matches, to, value)?,
            LearnSpec::Move { from, to } => actions.push(written(to, read(from))?),
            LearnSpec::Set { to, value } => actions.push(written(to, value)?),
            LearnSpec::Output { from } => {
                let port = u16::try_from(read(from)).ok().map(PortNo).filter(|port| can_be_sent_to(*port));
                actions.extend(port.map(Action::output));
            }
        }
    }
    let flags = if learn.send_flow_rem { FlowFlags::SEND_FLOW_REM } else { FlowFlags::default() };
    Some(FlowEntry {
        cookie: learn.cookie,
        idle_timeout: learn.idle_timeout,
        hard_timeout: learn.hard_timeout,
        flags,
        ..FlowEntry::new(learn.table, learn.priority, matches, Actions(actions))
    })
}

/// Value and mask of a part, shifted to their position in the field.
fn placed(to: Subfield, value: u128) -> (u128, u128) {
    let whole = to == Subfield::whole(to.field());
    (value << to.start(), if whole { to.field().max_value() } else { to.mask() })
}

fn demanded(matches: Match, to: Subfield, value: u128) -> Option<Match> {
    let (value, mask) = placed(to, value);
    matches.with_masked(to.field(), value, mask).ok()
}

fn written(to: Subfield, value: u128) -> Option<Action> {
    let (value, mask) = placed(to, value);
    SetField::new(to.field(), value, mask).ok().map(Action::from)
}

/// Whether a learned flow may output to the port; for others the switch omits the output.
fn can_be_sent_to(port: PortNo) -> bool {
    port.0 < PortNo::MAX || [PortNo::IN_PORT, PortNo::FLOOD, PortNo::LOCAL, PortNo::ALL].contains(&port)
}
