//! Worker threads: each runs the same dataflow on its part of the rows.
//!
//! The coordinator sends every worker its rows of a transaction. A worker steps until its dataflow has processed them
//! and sends back what changed. Between transactions, workers wait on their channels.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nlog_plan::query::{Plan, RelationId};
use timely::communication::{WorkerGuards, initialize_from};
use timely::worker::Worker;
use timely::{CommunicationConfig, WorkerConfig};

use crate::graph::{self, Change, Diff, Time};
use crate::row::Row;

/// How long a worker sleeps before it checks whether the other workers are still alive.
const LOOK_AROUND: Duration = Duration::from_millis(20);

/// One worker's part of a transaction.
pub(crate) struct Epoch {
    pub(crate) time: Time,
    /// The changes of input tables, and of the row from which facts are derived.
    pub(crate) rows: Vec<(RelationId, Row, Diff)>,
}

/// What a worker found, or the reason why it will answer no more.
type Answer = Result<Vec<Change>, String>;

/// The worker threads.
pub(crate) struct Workers {
    epochs: Vec<Sender<Epoch>>,
    answers: Receiver<Answer>,
    guards: Option<WorkerGuards<()>>,
}

impl Workers {
    /// Starts threads and waits until each has built its dataflow.
    pub(crate) fn start(count: usize, plan: &Arc<Plan>) -> Result<Self, String> {
        let config =
            if count == 1 { CommunicationConfig::Thread } else { CommunicationConfig::Process(count) };
        let (allocators, others) = config.try_build()?;
        let (epochs, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
        let receivers = Mutex::new(receivers.into_iter().map(Some).collect::<Vec<Option<Receiver<Epoch>>>>());
        let (answer, answers) = channel();
        let answer = Mutex::new(answer);
        let plan = Arc::clone(plan);
        let broken = Arc::new(AtomicBool::new(false));
        let guards = initialize_from(allocators, others, move |allocator| {
            let mut worker = Worker::new(WorkerConfig::default(), allocator, Some(Instant::now()));
            let index = worker.index();
            let epochs = receivers.lock().unwrap_or_else(PoisonError::into_inner)[index].take();
            let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(epochs) = epochs else { return };
            let run = AssertUnwindSafe(|| run(&mut worker, &plan, &epochs, &answer, &broken));
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

    pub(crate) fn count(&self) -> usize {
        self.epochs.len()
    }

    /// Runs one epoch, with one part for each worker.
    pub(crate) fn run(&self, parts: Vec<Epoch>) -> Result<Vec<Change>, String> {
        for (worker, part) in self.epochs.iter().zip(parts) {
            worker.send(part).map_err(|_| "a worker is gone".to_owned())?;
        }
        self.gather()
    }

    /// Collects an answer from each worker.
    fn gather(&self) -> Result<Vec<Change>, String> {
        let mut all = Vec::new();
        for _ in &self.epochs {
            all.append(&mut self.answers.recv().map_err(|_| "the workers are gone".to_owned())??);
        }
        Ok(all)
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
    plan: &Plan,
    epochs: &Receiver<Epoch>,
    answer: &Sender<Answer>,
    broken: &AtomicBool,
) {
    let mut graph = worker.dataflow_named::<Time, _, _>("nlog", |scope| graph::build(scope, plan));
    if answer.send(Ok(Vec::new())).is_err() {
        return;
    }
    while let Ok(Epoch { time, rows }) = epochs.recv() {
        for (relation, row, diff) in rows {
            if let Some(input) = &mut graph.inputs[relation.0 as usize] {
                input.update((row, graph::nothing()), diff);
            }
        }
        for input in graph.inputs.iter_mut().flatten() {
            input.advance_to(time + 1);
            input.flush();
        }
        while graph.probe.less_than(&(time + 1)) {
            if broken.load(Ordering::Acquire) {
                let _ = answer.send(Err("another worker failed".to_owned()));
                return;
            }
            worker.step_or_park(Some(LOOK_AROUND));
        }
        if answer.send(Ok(graph.changes.take())).is_err() {
            return;
        }
    }
}

/// The message of a panic.
fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked")
}
