//! The protocol between worker 0 and the other workers.
//!
//! Worker 0 runs in the caller's thread. Each of the others holds its part of the state and waits for orders. Between
//! transactions they use no CPU time.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_plan::query::{Plan, RelationId};
use serde::{Deserialize, Serialize};

use super::again::Again;
use super::bounded::Running;
use super::delta::Delta;
use super::engine::State;
use super::errors::{Errors, Refusal};
use super::fault::{Fault, inject};
use super::placement::Placement;
use super::relation::Attributed;
use super::rounds::{Carrier, Lost};
use crate::symbol::{Marks, Symbols};

/// An order to a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Run changes of inputs through the rules. The flag tells whether to derive the facts as well. The bound
    /// is that of the transaction.
    Run(Arc<Vec<(RelationId, Delta)>>, bool, #[serde(skip)] Option<Arc<Running>>),
    /// End the transaction: publish or drop its changes.
    End(bool),
    /// Merge what transactions changed: no transaction waits.
    Merge,
    /// Derive a relation again, and return the worker's rows or count them.
    Again(Arc<Again>),
    /// Mark the symbols in use, in a table that all workers share.
    Mark,
    /// Return the worker's work so far.
    Work,
}

/// The changes of relations at a worker.
pub(crate) type Changed = Vec<(RelationId, Delta, Option<Attributed>)>;

/// A worker's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Ran(Box<Ran>),
    /// `None` if a row has too many derivations.
    Again(Option<Delta>),
    Work(Load),
    // Must be the last variant: serde counts skipped variants when it writes, but not when it reads.
    #[serde(skip)]
    Marks(Box<Marks>),
}

/// The results of changes at a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(crate) changed: Changed,
    pub(crate) errors: Errors,
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
pub(crate) trait Others: Carrier {
    /// Sends an order to each.
    fn tell(&mut self, order: &Order) -> Result<(), Lost>;

    /// Waits for one answer from each, in order.
    fn answers(&mut self) -> Result<Vec<Answer>, Lost>;

    /// Ends all workers, and returns the cause if one was lost.
    fn stop(&mut self) -> String;
}

/// Worker 0, seen from another worker.
pub(crate) trait Superior: Carrier {
    /// Waits for an order; `None` if no more will follow.
    fn order(&mut self) -> Result<Option<Order>, Lost>;

    fn answer(&mut self, answer: Answer) -> Result<(), Lost>;
}

/// The other workers, and the orders for them.
pub(crate) struct Workers {
    others: Box<dyn Others>,
}

impl Workers {
    pub(crate) fn new(others: Box<dyn Others>) -> Self {
        Workers { others }
    }

    /// Runs changes on all workers. Returns the changes of relations, and the errors.
    pub(crate) fn run(
        &mut self,
        state: &mut State,
        changes: Vec<(RelationId, Delta)>,
        facts: bool,
    ) -> Result<Result<Changed, Refusal>, Lost> {
        let changes = Arc::new(changes);
        self.others.tell(&Order::Run(Arc::clone(&changes), facts, state.running.clone()))?;
        run(state, self.others.as_mut(), &changes, facts)?;
        let mut changed: BTreeMap<RelationId, (Delta, Option<Attributed>)> = BTreeMap::new();
        let mut own = state.take_changed();
        for answer in self.others.answers()? {
            let Answer::Ran(ran) = answer else { return Err(Lost) };
            own.extend(ran.changed);
            state.errors.append(ran.errors);
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
        Ok(Ok(changed.into_iter().map(|(id, (delta, report))| (id, delta, report)).collect()))
    }

    /// Ends a transaction on the other workers.
    pub(crate) fn end(&mut self, accepted: bool) -> Result<(), Lost> {
        self.others.tell(&Order::End(accepted))
    }

    /// Merges accepted changes on the other workers.
    pub(crate) fn merge(&mut self) -> Result<(), Lost> {
        self.others.tell(&Order::Merge)
    }

    /// Derives a relation again on all workers. Returns its rows, which are none if they are counted, or `None` if a row has too
    /// many derivations.
    pub(crate) fn derive_again(&mut self, state: &mut State, again: Again) -> Result<Option<Delta>, Lost> {
        let again = Arc::new(again);
        self.others.tell(&Order::Again(Arc::clone(&again)))?;
        let mut all = state.derive_again(&again, self.others.as_mut())?;
        for answer in self.others.answers()? {
            let Answer::Again(rows) = answer else { return Err(Lost) };
            all = all.zip(rows).map(|(mut all, mut rows)| {
                all.append(&mut rows);
                all
            });
        }
        Ok(all)
    }

    /// Marks the symbols used by the other workers.
    pub(crate) fn mark(&mut self, marks: &mut Marks) -> Result<(), Lost> {
        self.others.tell(&Order::Mark)?;
        for answer in self.others.answers()? {
            let Answer::Marks(theirs) = answer else { return Err(Lost) };
            marks.append(&theirs);
        }
        Ok(())
    }

    /// The work of each of the other workers.
    pub(crate) fn loads(&mut self) -> Result<Vec<Load>, Lost> {
        self.others.tell(&Order::Work)?;
        let load = |answer: Answer| if let Answer::Work(load) = answer { Ok(load) } else { Err(Lost) };
        self.others.answers()?.into_iter().map(load).collect()
    }

    /// Ends all workers, and returns the causes of lost ones.
    pub(crate) fn stop(mut self) -> String {
        self.others.stop()
    }
}

/// A worker's part of the initial state.
pub(crate) fn part(
    plan: &Arc<Plan>,
    symbols: &Arc<Symbols>,
    attribute: bool,
    me: usize,
    peers: usize,
) -> State {
    let placement = Placement::new(plan, me, peers);
    State::placed(Arc::clone(plan), Arc::clone(symbols), attribute, placement, true)
}

fn run(
    state: &mut State,
    carrier: &mut dyn Carrier,
    changes: &[(RelationId, Delta)],
    facts: bool,
) -> Result<(), Lost> {
    state.begin_rounds(changes, facts).run(state, carrier)
}

/// Executes the orders of worker 0 until they end.
pub(crate) fn serve(state: &mut State, superior: &mut impl Superior) -> Result<(), Lost> {
    while let Some(order) = superior.order()? {
        let answer = match order {
            Order::Run(changes, facts, running) => {
                state.running = running;
                run(state, superior, &changes, facts)?;
                // Worker 0 chooses the error to report from the errors of all workers.
                let errors = std::mem::take(&mut state.errors);
                Answer::Ran(Box::new(Ran { changed: state.take_changed(), errors }))
            }
            Order::End(accepted) => {
                inject(Fault::WorkerEnding);
                state.end(accepted);
                continue;
            }
            Order::Merge => {
                state.merge();
                continue;
            }
            Order::Again(again) => Answer::Again(state.derive_again(&again, superior)?),
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

#[cfg(test)]
mod tests {
    use nlog_data::Value;
    use nlog_plan::Settings;

    use super::*;
    use crate::fused::rounds::Packet;

    /// A superior with these orders, whose packets are empty.
    struct Scripted(Vec<Order>);

    impl Carrier for Scripted {
        fn exchange(&mut self, out: Vec<Packet>) -> Result<Vec<Packet>, Lost> {
            Ok(out.iter().map(|_| Packet::default()).collect())
        }
    }

    impl Superior for Scripted {
        fn order(&mut self) -> Result<Option<Order>, Lost> {
            Ok((!self.0.is_empty()).then(|| self.0.remove(0)))
        }

        fn answer(&mut self, _: Answer) -> Result<(), Lost> {
            Ok(())
        }
    }

    #[test]
    fn a_worker_merges_when_it_is_told() {
        let text = "input table a(x: int, y: int); output table b(x: int); b(x) :- a(x, y), a(y, x);";
        let program = nlog::compile(&nlog::Sources::from_texts([("test.nlog", text)])).program;
        let program = program.expect("it compiles");
        let a = RelationId(program.schema.find("a").expect("the test declares it").0);
        let wanted = program.schema.iter().map(|(id, _)| id).collect();
        let plan = Arc::new(Plan::new(program, &wanted, &Settings::default()));
        let run = |row: i64| {
            let mut delta = Delta::new(2);
            let row = Symbols::new().intern(&Value::Int(row));
            delta.push(&[row, row], 1);
            [Order::Run(Arc::new(vec![(a, delta)]), false, None), Order::End(true)]
        };
        let recent = |orders: Vec<Order>| {
            let mut state = part(&plan, &Arc::new(Symbols::new()), false, 1, 2);
            serve(&mut state, &mut Scripted(orders)).expect("nobody is lost");
            state.indexes.iter().map(|index| index.trace.recent()).sum::<usize>()
        };
        let transactions: Vec<Order> = (1..4).flat_map(run).collect();
        assert!(recent(transactions.clone()) > 0);
        assert_eq!(recent([transactions, vec![Order::Merge]].concat()), 0);
    }
}
