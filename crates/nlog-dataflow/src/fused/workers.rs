//! Threads that share an engine's work.
//!
//! The caller's thread is worker 0. The others have their parts of the state and wait for orders; between transactions
//! they use no processor time. A worker that panics closes its channels: whoever waits for it gets an error.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use nlog_plan::query::{Plan, RelationId};

use super::delta::Delta;
use super::engine::State;
use super::placement::Placement;
use super::relation::Attributed;
use super::together::{Carrier, Lost, Packet};
use super::trace::View;
use super::trouble::{Refusal, Troubles};
use crate::panic::message;
use crate::symbol::{Marks, Symbols};

/// What a worker is told.
enum Order {
    /// Run changes of inputs through the rules; whether facts become true.
    Run(Arc<Vec<(RelationId, Delta)>>, bool),
    /// What was run is accepted, or dropped.
    End(bool),
    /// The rows of a relation that live there.
    Rows(RelationId),
    /// Mark symbols.
    Mark,
    /// What the worker has done.
    Work,
}

/// How relations have changed at a worker.
pub(crate) type Changed = Vec<(RelationId, Delta, Option<Attributed>)>;

/// What a worker answers.
enum Answer {
    Ran(Box<(Changed, Troubles, Option<Refusal>)>),
    Rows(Delta),
    Marks(Box<Marks>),
    Work(Load),
}

/// What a worker has done since the engine started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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

/// The other workers, as worker 0 sees them.
pub(crate) struct Workers {
    carrier: Channels,
    orders: Vec<Sender<Order>>,
    answers: Vec<Receiver<Answer>>,
    threads: Vec<JoinHandle<()>>,
    /// What workers said that panicked.
    last_words: Arc<Mutex<Vec<String>>>,
}

/// Packets between threads: a channel for each pair, so that one that is gone is noticed.
struct Channels {
    me: usize,
    to: Vec<Option<Sender<Packet>>>,
    from: Vec<Option<Receiver<Packet>>>,
}

impl Carrier for Channels {
    fn exchange(&mut self, out: Vec<Packet>) -> Result<Vec<Packet>, Lost> {
        for (packet, to) in out.into_iter().zip(&self.to) {
            if let Some(to) = to {
                to.send(packet).map_err(|_| Lost)?;
            }
        }
        let receive = |from: &Option<Receiver<Packet>>| match from {
            None => Ok(Packet::default()),
            Some(from) => from.recv().map_err(|_| Lost),
        };
        debug_assert!(self.from[self.me].is_none());
        self.from.iter().map(receive).collect()
    }
}

impl Channels {
    fn between(peers: usize) -> Vec<Channels> {
        let mut all: Vec<Channels> = (0..peers)
            .map(|me| Channels {
                me,
                to: (0..peers).map(|_| None).collect(),
                from: (0..peers).map(|_| None).collect(),
            })
            .collect();
        for from in 0..peers {
            for to in (0..peers).filter(|to| *to != from) {
                let (sender, receiver) = channel();
                all[from].to[to] = Some(sender);
                all[to].from[from] = Some(receiver);
            }
        }
        all
    }
}

impl Workers {
    /// Starts all but worker 0, whose state is given back.
    pub(crate) fn start(
        plan: &Arc<Plan>,
        symbols: &Arc<Symbols>,
        attribute: bool,
        peers: usize,
    ) -> Result<(State, Workers), String> {
        let part = move |plan: Arc<Plan>, symbols: Arc<Symbols>, me: usize| {
            let placement = Placement::new(&plan, me, peers);
            let mut state = State::placed(plan, symbols, attribute, placement);
            state.keep_wanted();
            state
        };
        let mut carriers = Channels::between(peers).into_iter().enumerate();
        let Some((_, carrier)) = carriers.next() else { return Err("there is no worker".to_owned()) };
        let (mut orders, mut answers, mut threads) = (Vec::new(), Vec::new(), Vec::new());
        let last_words: Arc<Mutex<Vec<String>>> = Arc::default();
        for (me, mut carrier) in carriers {
            let (order, to_do) = channel();
            let (answer, done) = channel();
            let (plan, symbols) = (Arc::clone(plan), Arc::clone(symbols));
            let work = move || {
                let mut state = part(plan, symbols, me);
                serve(&mut state, &mut carrier, &to_do, &answer);
            };
            let thread = std::thread::Builder::new().name(format!("weft worker {me}"));
            // A panic ends the worker; its channels close, which the others notice.
            let said = Arc::clone(&last_words);
            let spawned = thread.spawn(move || {
                if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                    said.push(message(panic.as_ref()).to_owned());
                }
            });
            threads.push(spawned.map_err(|error| format!("worker {me}: {error}"))?);
            orders.push(order);
            answers.push(done);
        }
        let state = part(Arc::clone(plan), Arc::clone(symbols), 0);
        Ok((state, Workers { carrier, orders, answers, threads, last_words }))
    }

    fn tell(&self, order: impl Fn() -> Order) -> Result<(), Lost> {
        self.orders.iter().try_for_each(|worker| worker.send(order()).map_err(|_| Lost))
    }

    /// Runs changes everywhere: how relations have changed, and what was met.
    pub(crate) fn run(
        &mut self,
        state: &mut State,
        changes: Vec<(RelationId, Delta)>,
        facts: bool,
    ) -> Result<Result<Changed, Refusal>, Lost> {
        let changes = Arc::new(changes);
        self.tell(|| Order::Run(Arc::clone(&changes), facts))?;
        let mut refusal = run(state, &mut self.carrier, &changes, facts)?;
        let mut changed: BTreeMap<RelationId, (Delta, Option<Attributed>)> = BTreeMap::new();
        let mut own = state.take_changed();
        for answer in &self.answers {
            let Ok(Answer::Ran(ran)) = answer.recv() else { return Err(Lost) };
            let (theirs, troubles, refused) = *ran;
            own.extend(theirs);
            state.troubles.append(troubles);
            refusal = refusal.or(refused);
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
    pub(crate) fn end(&self, accepted: bool) -> Result<(), Lost> {
        self.tell(|| Order::End(accepted))
    }

    /// The rows of a relation that live at the others.
    pub(crate) fn rows(&self, id: RelationId, into: &mut Delta) -> Result<(), Lost> {
        self.tell(|| Order::Rows(id))?;
        for answer in &self.answers {
            let Ok(Answer::Rows(mut rows)) = answer.recv() else { return Err(Lost) };
            into.append(&mut rows);
        }
        Ok(())
    }

    /// Marks the symbols that the others hold.
    pub(crate) fn mark(&self, marks: &mut Marks) -> Result<(), Lost> {
        self.tell(|| Order::Mark)?;
        for answer in &self.answers {
            let Ok(Answer::Marks(theirs)) = answer.recv() else { return Err(Lost) };
            marks.append(&theirs);
        }
        Ok(())
    }

    /// What each of the others has done.
    pub(crate) fn loads(&self) -> Result<Vec<Load>, Lost> {
        self.tell(|| Order::Work)?;
        let load = |answer: &Receiver<Answer>| match answer.recv() {
            Ok(Answer::Work(load)) => Ok(load),
            _ => Err(Lost),
        };
        self.answers.iter().map(load).collect()
    }
}

impl Workers {
    /// Ends all workers, and says what those said that panicked.
    pub(crate) fn stop(mut self) -> Vec<String> {
        self.end_all();
        std::mem::take(&mut self.last_words.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end_all(&mut self) {
        self.orders.clear();
        // Whoever waits for a packet of worker 0 learns that there will be none.
        self.carrier = Channels { me: 0, to: Vec::new(), from: vec![None] };
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.end_all();
    }
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
    let met = state.propagate_together(carrier)?;
    Ok(refusal.or(met))
}

/// Does what worker 0 says until it says no more.
fn serve(state: &mut State, carrier: &mut dyn Carrier, orders: &Receiver<Order>, answers: &Sender<Answer>) {
    while let Ok(order) = orders.recv() {
        let answer = match order {
            Order::Run(changes, facts) => {
                let Ok(refusal) = run(state, carrier, &changes, facts) else { return };
                let troubles = std::mem::take(&mut state.troubles);
                Answer::Ran(Box::new((state.take_changed(), troubles, refusal)))
            }
            Order::End(accepted) => {
                state.end(accepted);
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
        if answers.send(answer).is_err() {
            return;
        }
    }
}
