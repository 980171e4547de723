//! The protocol between worker 0 and the other workers.
//!
//! Worker 0 has the inputs and the hooks, and decides. Each of the others holds its part of the derived rows and waits for
//! orders; between transactions it uses no processor time. Messages go through a [`Port`].

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog::Program;
use nlog_data::TableId;
use nlog_plan::Settings;
use nlog_plan::query::{Plan, RelationId};
use serde::{Deserialize, Serialize};

use super::bounded::Running;
use super::core::NEW_SYMBOLS;
use super::delta::Delta;
use super::engine::{Pass, State};
use super::errors::{Errors, Refusal};
use super::fault::{Fault, inject};
use super::hooks::Filling;
use super::output::Output;
use super::placement::Placement;
use super::recount::Again;
use super::relation::Attributed;
use super::rounds::Packet;
use super::saved::digest_of;
use crate::carrier::{self, Lost};
use crate::symbol::{Marks, Symbols};

/// A worker's end of the messages.
pub(crate) type Port = carrier::Port<Message>;

/// Worker 0.
const LEAD: usize = 0;

/// A message from one worker to another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Message {
    /// From worker 0.
    Order(Order),
    /// To worker 0.
    Answer(Answer),
    /// The part of a round.
    Packet(Packet),
    /// The symbols in use at a worker, for the one that collects those of its process.
    #[serde(skip)]
    Marks(Box<Marks>),
}

/// An order to a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Begin with an empty state under this plan, and keep the present one aside.
    Plan(NewPlan),
    /// Go on with the new state, or with the one before.
    Keep(bool),
    /// Drop the state: worker 0 has all rows.
    Rest,
    /// Run changes through the rules. The bound is that of the transaction.
    Run(Arc<Pass>, #[serde(skip)] Option<Arc<Running>>),
    /// End the transaction: publish or drop its changes.
    End(bool),
    /// Merge what transactions changed: no transaction waits.
    Merge,
    /// Derive a relation again, and return the worker's rows or count them.
    Again(Arc<Again>),
    /// Mark the symbols in use.
    Mark,
    /// Return the worker's load so far.
    Load,
}

/// A plan, or what leads to it in another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NewPlan {
    #[serde(skip)]
    plan: Option<Arc<Plan>>,
    settings: Settings,
    wanted: Vec<u32>,
    /// The digest of the plan.
    digest: u64,
}

/// The changes of relations at a worker.
pub(crate) type Changed = Vec<(RelationId, Delta, Option<Attributed>)>;

/// A worker's answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Answer {
    Ran(Box<Ran>),
    /// `None` if a row has too many derivations.
    Again(Option<Delta>),
    Load(Load),
    /// The worker's process has collected its symbols, or will have before the next order.
    Collected,
    // Must be the last variant: serde counts skipped variants when it writes, but not when it reads.
    #[serde(skip)]
    Marks(Box<Marks>),
}

/// The results of changes at a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(crate) changed: Changed,
    pub(crate) errors: Errors,
    /// Whether the worker's process, which is not that of worker 0, has many new symbols.
    crowded: bool,
}

/// The work of a worker since the engine was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Changed rows that pipelines started with.
    pub rows: u64,
    /// Bindings that probes found.
    pub bindings: u64,
    /// Rows of heads that pipelines produced.
    pub derived: u64,
    /// Time in pipelines, in nanoseconds.
    pub nanos: u64,
}

impl Load {
    /// Adds further work.
    pub(crate) fn add(&mut self, other: &Load) {
        self.rows += other.rows;
        self.bindings += other.bindings;
        self.derived += other.derived;
        self.nanos += other.nanos;
    }
}

/// The other workers, seen from worker 0.
#[derive(Clone)]
pub(crate) struct Workers {
    port: Port,
    /// Whether the changes of relations stay at the worker that derives them.
    apart: bool,
}

impl Workers {
    /// The other workers at this port of worker 0. If `apart`, each worker hands over its changes itself
    /// ([`Member::emit`]), otherwise worker 0 collects them.
    pub(crate) fn new(port: Port, apart: bool) -> Self {
        Workers { port, apart }
    }

    /// Whether there are several processes, each with symbols of its own.
    pub(crate) fn are_elsewhere(&self) -> bool {
        !self.port.is_local(self.port.peers() - 1)
    }

    /// Who was lost, and why.
    pub(crate) fn why(&self) -> String {
        self.port.why()
    }

    /// Tells the others that worker 0 cannot continue.
    pub(crate) fn fail(&self, why: &str) {
        self.port.fail(why);
    }

    fn tell(&self, order: Order) -> Result<(), Lost> {
        self.port.broadcast(Message::Order(order))
    }

    /// Waits for one answer from each, in order.
    async fn answers(&self) -> Result<Vec<Answer>, Lost> {
        let mut answers = Vec::new();
        for from in LEAD + 1..self.port.peers() {
            let Message::Answer(answer) = self.port.receive(from).await? else { return Err(Lost) };
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Worker 0's part of an empty state under a plan. The others begin with theirs, and keep their present ones aside
    /// until [`Workers::keep`].
    pub(crate) fn plan(
        &self,
        plan: &Arc<Plan>,
        symbols: &Arc<Symbols>,
        attribute: bool,
    ) -> Result<State, Lost> {
        let wanted = plan.relations.iter().filter(|relation| relation.wanted);
        self.tell(Order::Plan(NewPlan {
            plan: Some(Arc::clone(plan)),
            settings: plan.settings.clone(),
            wanted: wanted.filter_map(|relation| relation.table).map(|table| table.0).collect(),
            digest: digest_of(plan),
        }))?;
        Ok(part(plan, symbols, attribute, LEAD, self.port.peers()))
    }

    /// Lets the others go on with the new state, or with the one before.
    pub(crate) fn keep(&self, new: bool) -> Result<(), Lost> {
        self.tell(Order::Keep(new))
    }

    /// Lets the others drop their parts.
    pub(crate) fn rest(&self) -> Result<(), Lost> {
        self.tell(Order::Rest)
    }

    /// Runs changes on all workers. Returns the changes of relations, and the errors.
    pub(crate) async fn run(
        &self,
        state: &mut State,
        pass: Pass,
        filling: Option<Filling<'_>>,
    ) -> Result<Result<Changed, Refusal>, Lost> {
        let pass = Arc::new(pass);
        self.tell(Order::Run(Arc::clone(&pass), state.running.clone()))?;
        state.begin_rounds(&pass).run(state, &self.port, filling).await?;
        let mut own = state.take_changed();
        for answer in self.answers().await? {
            let Answer::Ran(ran) = answer else { return Err(Lost) };
            own.extend(ran.changed);
            state.errors.append(ran.errors);
            state.crowded |= ran.crowded;
        }
        if let Err(refusal) = state.refusal() {
            return Ok(Err(refusal));
        }
        Ok(Ok(if self.apart { own } else { together(state, own) }))
    }

    /// Ends a transaction on the other workers.
    pub(crate) fn end(&self, accepted: bool) -> Result<(), Lost> {
        self.tell(Order::End(accepted))
    }

    /// Merges accepted changes on the other workers.
    pub(crate) fn merge(&self) -> Result<(), Lost> {
        self.tell(Order::Merge)
    }

    /// Derives a relation again on all workers. Returns its rows, which are none if they are counted, or `None` if a row has too
    /// many derivations.
    pub(crate) async fn derive_again(&self, state: &mut State, again: Again) -> Result<Option<Delta>, Lost> {
        let again = Arc::new(again);
        self.tell(Order::Again(Arc::clone(&again)))?;
        let mut all = state.derive_again(&again, &self.port).await?;
        for answer in self.answers().await? {
            let Answer::Again(rows) = answer else { return Err(Lost) };
            all = all.zip(rows).map(|(mut all, mut rows)| {
                all.append(&mut rows);
                all
            });
        }
        Ok(all)
    }

    /// Marks the symbols used by the other workers of this process. Other processes collect theirs.
    pub(crate) async fn mark(&self, marks: &mut Marks) -> Result<(), Lost> {
        self.tell(Order::Mark)?;
        for answer in self.answers().await? {
            match answer {
                Answer::Marks(theirs) => marks.append(&theirs),
                Answer::Collected => {}
                _ => return Err(Lost),
            }
        }
        Ok(())
    }

    /// The work of each of the other workers.
    pub(crate) async fn loads(&self) -> Result<Vec<Load>, Lost> {
        self.tell(Order::Load)?;
        let load = |answer: Answer| if let Answer::Load(load) = answer { Ok(load) } else { Err(Lost) };
        self.answers().await?.into_iter().map(load).collect()
    }
}

/// The changes of all workers together.
fn together(state: &State, all: Changed) -> Changed {
    let mut changed: BTreeMap<RelationId, (Delta, Option<Attributed>)> = BTreeMap::new();
    for (id, mut delta, report) in all {
        match changed.entry(id) {
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert((delta, report));
            }
            std::collections::btree_map::Entry::Occupied(mut present) => {
                let (all, reports) = present.get_mut();
                // Every worker has all rows of inputs, so count their changes once.
                if state.is_derived(id) {
                    all.append(&mut delta);
                }
                if let (Some(reports), Some(mut report)) = (reports, report) {
                    reports.inserted.append(&mut report.inserted);
                    reports.reattributed.append(&mut report.reattributed);
                }
            }
        }
    }
    changed.into_iter().map(|(id, (delta, report))| (id, delta, report)).collect()
}

/// A worker's part of an empty state.
fn part(plan: &Arc<Plan>, symbols: &Arc<Symbols>, attribute: bool, me: usize, peers: usize) -> State {
    let placement = Placement::new(plan, me, peers);
    State::placed(Arc::clone(plan), Arc::clone(symbols), attribute, placement, true)
}

/// A worker other than worker 0.
pub(crate) struct Member {
    pub(crate) program: Arc<Program>,
    pub(crate) symbols: Arc<Symbols>,
    pub(crate) attribute: bool,
    /// Takes the changes of each accepted transaction, instead of worker 0.
    pub(crate) emit: Option<Box<dyn Fn(Vec<Output>)>>,
}

/// What a member has in hand.
#[derive(Default)]
struct Hand {
    state: Option<State>,
    /// The state under the plan before, while rows fill the state of a new plan.
    former: Option<State>,
    /// The changes of the running transaction, if the member hands them over itself.
    changed: Changed,
    /// The number of symbols that the last collection left.
    symbols_left: usize,
}

impl Hand {
    /// The state. Worker 0 gives a plan first.
    fn state(&mut self) -> Result<&mut State, Lost> {
        self.state.as_mut().ok_or(Lost)
    }
}

impl Member {
    /// Executes the orders of worker 0 until they end.
    pub(crate) async fn serve(self, port: Port) -> Result<(), Lost> {
        let mut hand = Hand::default();
        while let Some(message) = port.rest().await? {
            let Message::Order(order) = message else { return Err(Lost) };
            if let Some(answer) = self.execute(order, &mut hand, &port).await? {
                port.send(LEAD, Message::Answer(answer))?;
            }
        }
        Ok(())
    }

    async fn execute(&self, order: Order, hand: &mut Hand, port: &Port) -> Result<Option<Answer>, Lost> {
        Ok(match order {
            Order::Plan(new) => {
                let plan = self.plan(new, port)?;
                let state = part(&plan, &self.symbols, self.attribute, port.me(), port.peers());
                hand.former = hand.state.replace(state);
                None
            }
            Order::Keep(new) => {
                let former = hand.former.take();
                if !new {
                    hand.state = former;
                }
                None
            }
            Order::Rest => {
                (hand.state, hand.former) = (None, None);
                None
            }
            Order::Run(pass, running) => {
                let state = hand.state()?;
                state.running = running;
                state.begin_rounds(&pass).run(state, port, None).await?;
                // Worker 0 chooses the error to report from the errors of all workers.
                let errors = std::mem::take(&mut state.errors);
                let mut changed = state.take_changed();
                if self.emit.is_some() {
                    hand.changed = std::mem::take(&mut changed);
                }
                let crowded = !port.is_local(LEAD)
                    && self.symbols.len() >= hand.symbols_left + hand.symbols_left.max(NEW_SYMBOLS);
                Some(Answer::Ran(Box::new(Ran { changed, errors, crowded })))
            }
            Order::End(accepted) => {
                inject(Fault::WorkerEnding);
                hand.state()?.end(accepted);
                let changed = std::mem::take(&mut hand.changed);
                // What fills the state of a new plan is known already.
                if let Some(emit) = self.emit.as_ref().filter(|_| accepted && hand.former.is_none()) {
                    emit(hand.state()?.outputs(changed, self.attribute));
                }
                None
            }
            Order::Merge => {
                hand.state()?.merge();
                None
            }
            Order::Again(again) => Some(Answer::Again(hand.state()?.derive_again(&again, port).await?)),
            Order::Mark => Some(self.mark(hand, port).await?),
            Order::Load => Some(Answer::Load(hand.state()?.load())),
        })
    }

    /// The plan of an order. In another process, the same program and settings lead to it.
    fn plan(&self, new: NewPlan, port: &Port) -> Result<Arc<Plan>, Lost> {
        let NewPlan { plan, settings, wanted, digest } = new;
        if let Some(plan) = plan {
            return Ok(plan);
        }
        let wanted = wanted.into_iter().map(TableId).collect();
        let plan = Plan::new(Arc::clone(&self.program), &wanted, &settings);
        if digest_of(&plan) == digest {
            return Ok(Arc::new(plan));
        }
        port.fail("the processes plan the program differently; start all with the same program and the same build of weft");
        Err(Lost)
    }

    /// Marks the symbols in use. Those of another process than worker 0's are collected by its first worker.
    async fn mark(&self, hand: &mut Hand, port: &Port) -> Result<Answer, Lost> {
        let mut marks = Marks::default();
        hand.state.iter_mut().chain(&mut hand.former).for_each(|state| state.mark(&mut marks));
        if port.is_local(LEAD) {
            return Ok(Answer::Marks(Box::new(marks)));
        }
        let local = (0..port.peers()).filter(|worker| port.is_local(*worker));
        let local: Vec<usize> = local.collect();
        if local.first() == Some(&port.me()) {
            for from in local.into_iter().skip(1) {
                let Message::Marks(theirs) = port.receive(from).await? else { return Err(Lost) };
                marks.append(&theirs);
            }
            self.symbols.sweep(&marks);
        } else {
            port.send(local[0], Message::Marks(Box::new(marks)))?;
        }
        // After the sweep or not: it only decides when to ask for the next one.
        hand.symbols_left = self.symbols.len();
        Ok(Answer::Collected)
    }
}

#[cfg(test)]
mod tests;
