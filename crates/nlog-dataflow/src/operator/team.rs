//! The evaluation of a program by several workers: each is a member of a team, and the first one leads it.
//!
//! A transaction takes these messages:
//!
//! 1. The lead sends the changes of inputs to all members ([`Body::Run`]), itself among them, if need be after a plan.
//! 2. The members exchange packets, round by round ([`Rounds`]). A fast member may send a packet before the order for it
//!    has arrived here, so packets wait for their transaction and round.
//! 3. Each member reports its errors ([`Body::Ran`]), and the lead decides: [`Body::End`]. The members publish their
//!    changes and send them off, or drop them.
//! 4. Once enough symbols are new, the lead asks which are in use ([`Body::Mark`]) and drops the others. No member works
//!    meanwhile.
//!
//! Messages from one member to another stay in order, and all have the time of their transaction. A member sends only in
//! answer to a message, so it needs no right to send of its own. A member that panics tells the others
//! ([`Body::Broken`]); from then on the lead refuses every transaction.

mod lead;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nlog_data::{Role, Transaction};
use nlog_plan::query::{Plan, RelationId};

use super::Shared;
use super::ports::Effects;
use crate::fused::delta::Delta;
use crate::fused::engine::State;
use crate::fused::errors::Errors;
use crate::fused::fault::{Fault, inject};
use crate::fused::output::Output;
use crate::fused::placement::Placement;
use crate::fused::rounds::{Packet, Rounds};
use crate::fused::workers::Changed;
use crate::panic::message as message_of;
use crate::symbol::Marks;
use lead::Lead;

/// The lead of a team.
const LEAD: usize = 0;

/// A message to a member.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) to: usize,
    from: usize,
    body: Body,
}

/// The transaction and the round of a packet. Transactions are counted by each member alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Round {
    transaction: u64,
    round: u64,
}

#[derive(Debug, Clone)]
enum Body {
    /// Start from an empty state with this plan. The state before it stays until a transaction ends.
    Plan(Arc<Plan>),
    /// Run changes of inputs, and the facts if the flag is set.
    Run(Arc<Vec<(RelationId, Delta)>>, bool),
    /// A member's packet in a round.
    Packet(Round, Packet),
    /// A member has run the changes, with these errors.
    Ran(Box<Errors>),
    /// The transaction ends.
    End(End),
    /// Mark the symbols in use.
    Mark,
    Marks(Box<Marks>),
    /// A member panicked.
    Broken(String),
}

/// The end of a transaction.
#[derive(Debug, Clone, Copy)]
struct End {
    accepted: bool,
    /// Whether its changes leave the operator. They do not if it filled a new plan's state with rows known before.
    reported: bool,
}

/// One of the workers that evaluate a program together.
pub(super) struct Member {
    shared: Arc<Shared>,
    me: usize,
    peers: usize,
    state: Option<State>,
    /// The state under the plan before, while a transaction fills the state of a new plan.
    former: Option<State>,
    /// The transaction in progress, and the round whose packets it waits for.
    running: Option<Rounds>,
    at: Round,
    waiting: BTreeMap<Round, Vec<(usize, Packet)>>,
    /// The changes of the transaction that is about to end.
    changed: Changed,
    /// At worker 0.
    lead: Option<Lead>,
    broken: Option<String>,
}

impl Member {
    pub(super) fn new(shared: Arc<Shared>, me: usize, peers: usize) -> Self {
        let lead = (me == LEAD).then(|| Lead::new(&shared));
        Member {
            shared,
            me,
            peers,
            state: None,
            former: None,
            running: None,
            at: Round::default(),
            waiting: BTreeMap::new(),
            changed: Changed::new(),
            lead,
            broken: None,
        }
    }

    /// Whether the lead has a transaction in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.broken.is_none() && self.lead.as_ref().is_some_and(Lead::is_busy)
    }

    /// Begins a transaction. Only the lead gets any.
    pub(super) fn begin(&mut self, transaction: &Transaction) -> Effects {
        if let Some(why) = &self.broken {
            return Effects::engine_failed(crate::panic::refusal_of_all(why));
        }
        self.guarded(|member, effects| {
            if let Some(lead) = &mut member.lead {
                lead.begin(&member.shared, member.peers, transaction, effects);
            }
        })
    }

    /// Takes a message.
    pub(super) fn take(&mut self, message: Message) -> Effects {
        if self.broken.is_some() {
            return Effects::default();
        }
        self.guarded(|member, effects| member.handle(message, effects))
    }

    /// Runs `work`, and turns a panic into a message to all members.
    fn guarded(&mut self, work: impl FnOnce(&mut Self, &mut Effects)) -> Effects {
        let mut effects = Effects::default();
        let done = catch_unwind(AssertUnwindSafe(|| work(self, &mut effects)));
        if let Err(panic) = done {
            let why = format!("worker {} panicked: {}", self.me, message_of(panic.as_ref()));
            effects = Effects::default();
            for to in (0..self.peers).filter(|to| *to != self.me) {
                effects.messages.push(Message { to, from: self.me, body: Body::Broken(why.clone()) });
            }
            self.break_off(why, &mut effects);
        }
        effects
    }

    /// Ends the evaluation: the state is unknown. The lead reports that, even if the changes of this time have left already.
    fn break_off(&mut self, why: String, effects: &mut Effects) {
        if self.lead.is_some() {
            effects.refused = Effects::engine_failed(why.clone()).refused;
        }
        (self.state, self.former, self.running) = (None, None, None);
        self.waiting.clear();
        self.broken = Some(why);
    }

    fn handle(&mut self, message: Message, effects: &mut Effects) {
        match message.body {
            Body::Plan(plan) => {
                let placement = Placement::new(&plan, self.me, self.peers);
                let state = State::placed(plan, Arc::clone(&self.shared.symbols), false, placement, false);
                self.former = self.state.replace(state);
            }
            Body::Run(changes, facts) => {
                let Some(state) = &mut self.state else { return };
                inject(Fault::Deriving);
                self.running = Some(state.begin_rounds(&changes, facts));
                self.at = Round { transaction: self.at.transaction + 1, round: 0 };
                self.advance(Vec::new(), effects);
                self.catch_up(effects);
            }
            Body::Packet(round, packet) => {
                self.waiting.entry(round).or_default().push((message.from, packet));
                self.catch_up(effects);
            }
            Body::End(end) => self.end(end, effects),
            Body::Mark => {
                let mut marks = Marks::default();
                self.state.iter_mut().chain(&mut self.former).for_each(|state| state.mark(&mut marks));
                self.send(LEAD, Body::Marks(Box::new(marks)), effects);
            }
            Body::Ran(errors) => {
                if let (Some(lead), Some(state)) = (&mut self.lead, &self.state) {
                    lead.has_run(*errors, state, self.peers, effects);
                }
            }
            Body::Marks(marks) => {
                if let Some(lead) = &mut self.lead {
                    lead.marked(&marks, &self.shared, self.peers);
                }
            }
            Body::Broken(why) => self.break_off(why, effects),
        }
    }

    fn send(&self, to: usize, body: Body, effects: &mut Effects) {
        effects.messages.push(Message { to, from: self.me, body });
    }

    /// Takes the packets of rounds that are complete.
    fn catch_up(&mut self, effects: &mut Effects) {
        let others = self.peers - 1;
        while self.running.is_some()
            && self.waiting.get(&self.at).is_some_and(|packets| packets.len() == others)
        {
            let mut arrived = self.waiting.remove(&self.at).unwrap_or_default();
            arrived.sort_by_key(|(from, _)| *from);
            self.at.round += 1;
            self.advance(arrived.into_iter().map(|(_, packet)| packet).collect(), effects);
        }
    }

    /// Goes on with the packets of a round.
    fn advance(&mut self, arrived: Vec<Packet>, effects: &mut Effects) {
        let (Some(state), Some(rounds)) = (&mut self.state, &mut self.running) else { return };
        if let Some(out) = rounds.advance(state, arrived) {
            for (to, packet) in out.into_iter().enumerate().filter(|(to, _)| *to != self.me) {
                self.send(to, Body::Packet(self.at, packet), effects);
            }
            return;
        }
        self.changed = state.take_changed();
        let errors = std::mem::take(&mut state.errors);
        self.running = None;
        self.send(LEAD, Body::Ran(Box::new(errors)), effects);
    }

    fn end(&mut self, end: End, effects: &mut Effects) {
        let Some(state) = &mut self.state else { return };
        inject(if self.me == LEAD { Fault::Ending } else { Fault::WorkerEnding });
        state.end(end.accepted);
        let changed = std::mem::take(&mut self.changed);
        if end.accepted && end.reported {
            report(&changed, state, effects);
        }
        let former = self.former.take();
        if !end.accepted && former.is_some() {
            // The new plan cannot hold the rows. The one before can.
            self.state = former;
        }
        if let Some(lead) = &mut self.lead {
            lead.ended(end, &self.shared, self.peers, effects);
        }
    }
}

/// Adds the changes of derived tables that are observed. Those of input tables leave at the lead.
fn report(changed: &Changed, state: &State, effects: &mut Effects) {
    for (id, delta, _) in changed {
        let relation = &state.plan.relations[id.0 as usize];
        let Some(table) = relation.table.filter(|_| relation.wanted) else { continue };
        if state.plan.program.schema.table(table).role != Role::Input {
            let output = Output::of_relation(table, delta.clone(), None, None);
            let rows = output.into_rows(&state.symbols, false);
            effects.rows.extend(rows.map(|rows| (table, rows)));
        }
    }
}
