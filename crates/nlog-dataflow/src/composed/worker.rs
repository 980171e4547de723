//! Worker threads: each runs the same dataflow on its part of the rows.
//!
//! The coordinator sends every worker its rows of a transaction. A worker steps until its dataflow has processed them
//! and sends back the results. Between transactions, workers wait on their channels and use no CPU time.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nlog_data::TableId;
use timely::communication::{WorkerGuards, initialize_from};
use timely::worker::Worker;
use timely::{CommunicationConfig, WorkerConfig};

use super::errors::Errors;
use super::graph::{self, ByWidth, Changes, Graph};
use super::layout::Layout;
use super::{Diff, NONE, Time};
use crate::panic::message;
use crate::row::{Narrow, Wide};
use crate::symbol::Symbols;

/// How long a waiting worker sleeps before it checks whether the other workers are still alive.
const LOOK_AROUND: Duration = Duration::from_millis(20);

/// Inserted and deleted rows of an input table.
pub(super) type InputRows = ByWidth<Vec<(Narrow, Diff)>, Vec<(Wide, Diff)>>;

/// One worker's part of a transaction.
#[derive(Debug)]
pub(super) struct Epoch {
    pub(super) time: Time,
    pub(super) rows: Vec<(TableId, InputRows)>,
    /// The change of the count of the row from which facts are derived: 1 for each transaction until one is accepted,
    /// −1 to undo a refused one of these, otherwise 0.
    pub(super) facts: Diff,
}

/// The results of one worker.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) changes: Vec<(TableId, Changes)>,
    pub(super) errors: Errors,
}

/// An answer, or the reason why no answers will follow.
type Answer = Result<Outcome, String>;

/// The worker threads.
pub(super) struct Workers {
    epochs: Vec<Sender<Epoch>>,
    answers: Receiver<Answer>,
    guards: Option<WorkerGuards<()>>,
}

impl Workers {
    /// Starts threads and waits until each has built its dataflow.
    pub(super) fn start(count: usize, layout: &Arc<Layout>, symbols: &Arc<Symbols>) -> Result<Self, String> {
        let config =
            if count == 1 { CommunicationConfig::Thread } else { CommunicationConfig::Process(count) };
        let (allocators, others) = config.try_build()?;
        let (epochs, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
        let receivers = Mutex::new(receivers.into_iter().map(Some).collect::<Vec<Option<Receiver<Epoch>>>>());
        let (answer, answers) = channel();
        let answer = Mutex::new(answer);
        let (layout, symbols) = (Arc::clone(layout), Arc::clone(symbols));
        let broken = Arc::new(AtomicBool::new(false));
        let guards = initialize_from(allocators, others, move |allocator| {
            let mut worker = Worker::new(WorkerConfig::default(), allocator, Some(Instant::now()));
            let index = worker.index();
            let epochs = receivers.lock().unwrap_or_else(PoisonError::into_inner)[index].take();
            let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(epochs) = epochs else { return };
            let run = AssertUnwindSafe(|| run(&mut worker, &layout, &symbols, &epochs, &answer, &broken));
            if let Err(panic) = catch_unwind(run) {
                // The send fails only if the engine is being dropped. Send the reason before others can report its
                // consequences.
                let _ = answer.send(Err(format!("worker {index}: {}", message(&*panic))));
                broken.store(true, Ordering::Release);
                // The dataflow stopped in the middle of an operation, so leaking it is safer than dropping it.
                std::mem::forget(worker);
            }
        })?;
        let workers = Workers { epochs, answers, guards: Some(guards) };
        workers.gather()?;
        Ok(workers)
    }

    pub(super) fn count(&self) -> usize {
        self.epochs.len()
    }

    /// Runs one epoch, with one part for each worker.
    pub(super) fn run(&self, parts: Vec<Epoch>) -> Result<Vec<Outcome>, String> {
        for (worker, part) in self.epochs.iter().zip(parts) {
            worker.send(part).map_err(|_| "a worker is gone".to_owned())?;
        }
        self.gather()
    }

    /// Collects an answer from each worker.
    fn gather(&self) -> Result<Vec<Outcome>, String> {
        self.epochs
            .iter()
            .map(|_| self.answers.recv().unwrap_or_else(|_| Err("the workers are gone".to_owned())))
            .collect()
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.epochs.clear();
        if let Some(guards) = self.guards.take() {
            // A worker that panicked has reported it already.
            let _ = guards.join();
        }
    }
}

fn run(
    worker: &mut Worker,
    layout: &Layout,
    symbols: &Arc<Symbols>,
    epochs: &Receiver<Epoch>,
    answer: &Sender<Answer>,
    broken: &AtomicBool,
) {
    let mut graph = worker.dataflow_named::<Time, _, _>("nlog", |scope| graph::build(scope, layout, symbols));
    if answer.send(Ok(Outcome::default())).is_err() {
        return;
    }
    while let Ok(epoch) = epochs.recv() {
        let time = epoch.time;
        feed(&mut graph, epoch);
        let alone = worker.peers() == 1;
        while graph.frontiers.iter().any(|least| least.get().is_some_and(|least| least <= time)) {
            if broken.load(Ordering::Acquire) {
                let _ = answer.send(Err("another worker failed".to_owned()));
                return;
            }
            if alone {
                worker.step();
            } else {
                worker.step_or_park(Some(LOOK_AROUND));
            }
        }
        if answer.send(Ok(outcome(&graph))).is_err() {
            return;
        }
    }
}

fn feed(graph: &mut Graph, epoch: Epoch) {
    for (table, rows) in epoch.rows {
        match (&mut graph.inputs[table.0 as usize], rows) {
            (Some(ByWidth::Narrow(input)), ByWidth::Narrow(rows)) => {
                for (row, diff) in rows {
                    input.update(row, diff);
                }
            }
            (Some(ByWidth::Wide(input)), ByWidth::Wide(rows)) => {
                for (row, diff) in rows {
                    input.update(row, diff);
                }
            }
            _ => {}
        }
    }
    if epoch.facts != NONE {
        graph.facts.update(Narrow::default(), epoch.facts);
    }
    let next = epoch.time + 1;
    for input in graph.inputs.iter_mut().flatten() {
        match input {
            ByWidth::Narrow(input) => {
                input.advance_to(next);
                input.flush();
            }
            ByWidth::Wide(input) => {
                input.advance_to(next);
                input.flush();
            }
        }
    }
    graph.facts.advance_to(next);
    graph.facts.flush();
}

fn outcome(graph: &Graph) -> Outcome {
    let take = |changes: &Rc<RefCell<Changes>>| match &mut *changes.borrow_mut() {
        ByWidth::Narrow(changes) => ByWidth::Narrow(std::mem::take(changes)),
        ByWidth::Wide(changes) => ByWidth::Wide(std::mem::take(changes)),
    };
    let changes = (0..)
        .map(TableId)
        .zip(&graph.changes)
        .filter_map(|(id, changes)| changes.as_ref().map(|changes| (id, take(changes))))
        .collect();
    Outcome { changes, errors: graph.errors.take() }
}
