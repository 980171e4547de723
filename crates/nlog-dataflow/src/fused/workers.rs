//! The protocol between worker 0 and the other workers, which are threads or processes.
//!
//! Worker 0 is the caller's thread. The others have their parts of the state and wait for orders; between
//! transactions they use no processor time.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_plan::query::{Plan, RelationId};
use serde::{Deserialize, Serialize};

use super::delta::Delta;
use super::engine::State;
use super::fault::{Fault, inject};
use super::placement::Placement;
use super::relation::Attributed;
use super::rounds::{Carrier, Lost};
use super::trace::View;
use super::trouble::{Refusal, Troubles};
use crate::symbol::{Marks, Symbols};

/// What a worker is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Run changes of inputs through the rules; whether facts become true.
    Run(Arc<Vec<(RelationId, Delta)>>, bool),
    /// What was run is accepted, or dropped.
    End(bool),
    /// The rows of a relation that live there.
    Rows(RelationId),
    /// Mark the symbols that it holds, in a table that all share.
    Mark,
    /// What the worker has done.
    Work,
}

/// How relations have changed at a worker.
pub(crate) type Changed = Vec<(RelationId, Delta, Option<Attributed>)>;

/// What a worker answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Ran(Box<Ran>),
    Rows(Delta),
    Work(Load),
    // Last, since serde counts it where it writes and not where it reads.
    #[serde(skip)]
    Marks(Box<Marks>),
}

/// What came of changes at a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(crate) changed: Changed,
    pub(crate) troubles: Troubles,
    /// A relation whose rows are derived too often.
    pub(crate) too_many: Option<RelationId>,
}

/// What a worker has done since the engine started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Changed rows that pipelines began with.
    pub rows: u64,
    /// Bindings that probes found.
    pub bindings: u64,
    /// Rows of heads that came out.
    pub derived: u64,
    /// Time in pipelines, in nanoseconds.
    pub nanos: u64,
}

impl Load {
    /// With what was done besides.
    pub(crate) fn add(&mut self, other: &Load) {
        self.rows += other.rows;
        self.bindings += other.bindings;
        self.derived += other.derived;
        self.nanos += other.nanos;
    }
}

/// The other workers, as worker 0 sees them.
pub(crate) trait Others: Carrier {
    /// Gives an order to each.
    fn tell(&mut self, order: &Order) -> Result<(), Lost>;

    /// Waits for one answer from each, in their order.
    fn answers(&mut self) -> Result<Vec<Answer>, Lost>;

    /// Whether they have symbols of their own, and see to them by themselves.
    fn have_own_symbols(&self) -> bool;

    /// Ends them all, and says why they are no more, if one was lost.
    fn stop(&mut self) -> String;
}

/// Worker 0, as another one sees it.
pub(crate) trait Superior: Carrier {
    /// Waits for an order; none if there will be no more.
    fn order(&mut self) -> Result<Option<Order>, Lost>;

    fn answer(&mut self, answer: Answer) -> Result<(), Lost>;
}

/// The other workers, and what they are asked for.
pub(crate) struct Workers {
    others: Box<dyn Others>,
}

impl Workers {
    pub(crate) fn new(others: Box<dyn Others>) -> Self {
        Workers { others }
    }

    pub(crate) fn have_own_symbols(&self) -> bool {
        self.others.have_own_symbols()
    }

    /// Runs changes everywhere: how relations have changed, and what was met.
    pub(crate) fn run(
        &mut self,
        state: &mut State,
        changes: Vec<(RelationId, Delta)>,
        facts: bool,
    ) -> Result<Result<Changed, Refusal>, Lost> {
        let changes = Arc::new(changes);
        self.others.tell(&Order::Run(Arc::clone(&changes), facts))?;
        let mut refusal = run(state, self.others.as_mut(), &changes, facts)?;
        let mut changed: BTreeMap<RelationId, (Delta, Option<Attributed>)> = BTreeMap::new();
        let mut own = state.take_changed();
        for answer in self.others.answers()? {
            let Answer::Ran(ran) = answer else { return Err(Lost) };
            own.extend(ran.changed);
            state.troubles.append(ran.troubles);
            // Whichever worker met it, the same one is reported.
            refusal = [refusal, ran.too_many.map(Refusal::TooMany)].into_iter().flatten().min();
        }
        if let Some(refusal) = refusal {
            return Ok(Err(refusal));
        }
        if let Err(refusal) = state.refusal() {
            return Ok(Err(refusal));
        }
        for (id, mut delta, report) in own {
            match changed.entry(id) {
                std::collections::btree_map::Entry::Vacant(free) => {
                    free.insert((delta, report));
                }
                std::collections::btree_map::Entry::Occupied(mut present) => {
                    let (all, reports) = present.get_mut();
                    // Rows of inputs are everywhere.
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
        Ok(Ok(changed.into_iter().map(|(id, (delta, report))| (id, delta, report)).collect()))
    }

    /// Ends a transaction at the others.
    pub(crate) fn end(&mut self, accepted: bool) -> Result<(), Lost> {
        self.others.tell(&Order::End(accepted))
    }

    /// The rows of a relation that live at the others.
    pub(crate) fn rows(&mut self, id: RelationId, into: &mut Delta) -> Result<(), Lost> {
        self.others.tell(&Order::Rows(id))?;
        for answer in self.others.answers()? {
            let Answer::Rows(mut rows) = answer else { return Err(Lost) };
            into.append(&mut rows);
        }
        Ok(())
    }

    /// Marks the symbols that the others hold, if they share the table.
    pub(crate) fn mark(&mut self, marks: &mut Marks) -> Result<(), Lost> {
        if self.have_own_symbols() {
            return Ok(());
        }
        self.others.tell(&Order::Mark)?;
        for answer in self.others.answers()? {
            let Answer::Marks(theirs) = answer else { return Err(Lost) };
            marks.append(&theirs);
        }
        Ok(())
    }

    /// What each of the others has done.
    pub(crate) fn loads(&mut self) -> Result<Vec<Load>, Lost> {
        self.others.tell(&Order::Work)?;
        let load = |answer: Answer| if let Answer::Work(load) = answer { Ok(load) } else { Err(Lost) };
        self.others.answers()?.into_iter().map(load).collect()
    }

    /// Ends all workers, and says what has become of those that were lost.
    pub(crate) fn stop(mut self) -> String {
        self.others.stop()
    }
}

/// A worker's part of the state, before anything happened.
pub(crate) fn part(
    plan: &Arc<Plan>,
    symbols: &Arc<Symbols>,
    attribute: bool,
    me: usize,
    peers: usize,
) -> State {
    let placement = Placement::new(plan, me, peers);
    let mut state = State::placed(Arc::clone(plan), Arc::clone(symbols), attribute, placement);
    state.keep_wanted();
    state
}

fn run(
    state: &mut State,
    carrier: &mut dyn Carrier,
    changes: &[(RelationId, Delta)],
    facts: bool,
) -> Result<Option<Refusal>, Lost> {
    if facts {
        state.state_facts();
    }
    let mut refusal = None;
    for (id, delta) in changes {
        if let Err(error) = state.change(*id, delta.clone()) {
            refusal.get_or_insert(error);
        }
    }
    let met = state.propagate_in_rounds(carrier)?;
    Ok(refusal.or(met))
}

/// Does what worker 0 says until it says no more; `between` is called after each transaction.
pub(crate) fn serve(
    state: &mut State,
    superior: &mut impl Superior,
    mut between: impl FnMut(&mut State),
) -> Result<(), Lost> {
    while let Some(order) = superior.order()? {
        let answer = match order {
            Order::Run(changes, facts) => {
                let refusal = run(state, superior, &changes, facts)?;
                let troubles = std::mem::take(&mut state.troubles);
                // Worker 0 finds the errors of rules among the troubles of all.
                let too_many = refusal.and_then(|refusal| match refusal {
                    Refusal::TooMany(relation) => Some(relation),
                    Refusal::Derived(_) => None,
                });
                Answer::Ran(Box::new(Ran { changed: state.take_changed(), troubles, too_many }))
            }
            Order::End(accepted) => {
                inject(Fault::WorkerEnding);
                state.end(accepted);
                between(state);
                continue;
            }
            Order::Rows(id) => Answer::Rows(state.kept_rows(id, View::Before)),
            Order::Mark => {
                let mut marks = Marks::default();
                state.mark(&mut marks);
                Answer::Marks(Box::new(marks))
            }
            Order::Work => Answer::Work(state.load()),
        };
        superior.answer(answer)?;
    }
    Ok(())
}
