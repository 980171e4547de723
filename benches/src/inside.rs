//! Weft's engine as an operator of a timely dataflow, driven like an engine: one transaction at a time.
//!
//! Transactions go in as columns and changes come out as blocks of words, the operator's own interface. A transaction takes
//! from columns in memory to blocks in memory, with everything timely does for it: input, channels, the progress of time.

use std::mem::take;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use nlog::Program;
use nlog_data::{ColumnTransaction, Committed, Delta, Evaluator, Transaction};
use nlog_dataflow::fused::RawDelta;
use nlog_dataflow::operator::{Block, Operator, Outcome, Request};
use nlog_dataflow::{Dataflow, Options};
use nlog_plan::Settings;
use timely::communication::WorkerGuards;
use timely::dataflow::operators::{Input as _, Inspect as _, Probe as _};
use timely::worker::Worker;

use crate::engine;

/// An engine, outside or inside timely.
pub(crate) enum Running {
    Outside(Box<dyn Evaluator>),
    Inside(Inside),
}

impl Running {
    /// Lets the engine do its maintenance. An operator is never told that nothing waits.
    pub(crate) fn idle(&mut self) -> Result<()> {
        match self {
            Running::Outside(engine) => Ok(engine.idle()?),
            Running::Inside(_) => Ok(()),
        }
    }

    pub(crate) fn commit(&mut self, transaction: &Transaction) -> Result<Delta> {
        match self {
            Running::Outside(engine) => {
                Ok(engine.commit(transaction).map(|Committed { delta, .. }| delta)?)
            }
            Running::Inside(inside) => inside.commit(transaction),
        }
    }
}

/// An engine whose transactions are columns and whose changes are words, outside or inside timely.
pub(crate) enum ByWords {
    Outside(Box<Dataflow>),
    Inside(Inside),
}

/// The changes of a transaction.
pub(crate) enum Changed<'a> {
    Outside(RawDelta<'a>),
    Inside(Vec<Block>),
}

impl ByWords {
    /// The engine by itself. Like the operator, it reports rows in any order.
    pub(crate) fn outside(program: Arc<Program>, workers: usize) -> Result<Self> {
        let options = Options { ascending: false, ..engine::options(workers, Settings::default()) };
        Ok(ByWords::Outside(Box::new(Dataflow::new(program, options)?)))
    }

    /// The engine as an operator.
    pub(crate) fn inside(program: Arc<Program>, workers: usize) -> Result<Self> {
        Ok(ByWords::Inside(Inside::new(program, workers)?))
    }

    pub(crate) fn commit(&mut self, transaction: &Arc<ColumnTransaction>) -> Result<Changed<'_>> {
        Ok(match self {
            ByWords::Outside(engine) => Changed::Outside(engine.commit_words(transaction)?),
            ByWords::Inside(inside) => Changed::Inside(inside.commit_blocks(Arc::clone(transaction))?),
        })
    }

    /// Lets the engine do its maintenance. An operator is never told that nothing waits.
    pub(crate) fn idle(&mut self) -> Result<()> {
        match self {
            ByWords::Outside(engine) => Ok(engine.idle()?),
            ByWords::Inside(_) => Ok(()),
        }
    }
}

impl Changed<'_> {
    /// Goes over the changes of each worker.
    pub(crate) fn each(&self, mut of: impl FnMut(&RawDelta<'_>) -> Result<()>) -> Result<()> {
        match self {
            Changed::Outside(words) => of(words),
            Changed::Inside(blocks) => blocks.iter().try_for_each(|block| of(&block.words())),
        }
    }
}

/// What all workers have reported for the present transaction.
type Outcomes = Arc<Mutex<Vec<Outcome>>>;

/// Timely workers, one thread each, that run a dataflow of just the operator.
pub(crate) struct Inside {
    /// The transactions for worker 0. Without it, the workers end.
    transactions: Option<Sender<Arc<ColumnTransaction>>>,
    finished: Receiver<()>,
    outcomes: Outcomes,
    workers: Option<WorkerGuards<()>>,
}

impl Inside {
    /// Builds the dataflow. It reports changes of output tables.
    pub(crate) fn new(program: Arc<Program>, workers: usize) -> Result<Self> {
        let operator = Operator::new(program);
        let (transactions, to_do) = channel();
        let (finish, finished) = channel();
        let (outcomes, ends) = (Outcomes::default(), Mutex::new(Some((to_do, finish))));
        let shared = Arc::clone(&outcomes);
        let guards = timely::execute(timely::Config::process(workers), move |worker| {
            let ends = match worker.index() {
                0 => take(&mut *ends.lock().unwrap_or_else(PoisonError::into_inner)),
                _ => None,
            };
            work(worker, &operator, &shared, ends);
        });
        let workers = Some(guards.map_err(anyhow::Error::msg)?);
        Ok(Inside { transactions: Some(transactions), finished, outcomes, workers })
    }

    /// Runs a transaction. Returns the changes that each worker has derived.
    fn commit_blocks(&mut self, transaction: Arc<ColumnTransaction>) -> Result<Vec<Block>> {
        let ended = "the workers have ended";
        self.transactions.as_ref().context(ended)?.send(transaction).context(ended)?;
        self.finished.recv().context(ended)?;
        let outcomes = take(&mut *self.outcomes.lock().unwrap_or_else(PoisonError::into_inner));
        let block = |outcome| match outcome {
            Outcome::Changed(block) => Ok(block),
            Outcome::Refused(error) => bail!(error),
        };
        outcomes.into_iter().map(block).collect()
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Delta> {
        let mut all = Delta::default();
        for block in self.commit_blocks(Arc::new(ColumnTransaction::from_rows(transaction)?))? {
            for (table, rows) in block.to_columns().to_rows().tables {
                let of_table = all.tables.entry(table).or_default();
                of_table.insert.extend(rows.insert);
                of_table.delete.extend(rows.delete);
            }
        }
        Ok(all)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.transactions = None;
        if let Some(workers) = self.workers.take() {
            workers.join().into_iter().filter_map(Result::err).for_each(|error| eprintln!("{error}"));
        }
    }
}

/// The work of one worker. Worker 0 has the ends of the channels.
fn work(
    worker: &mut Worker,
    operator: &Operator,
    outcomes: &Outcomes,
    ends: Option<(Receiver<Arc<ColumnTransaction>>, Sender<()>)>,
) {
    let all = Arc::clone(outcomes);
    let (mut input, probe) = worker.dataflow::<u64, _, _>(|scope| {
        let (input, requests) = scope.new_input::<Vec<Request>>();
        let outcomes = operator.connect_blocks(scope, requests);
        let note =
            move |outcome: &Outcome| all.lock().unwrap_or_else(PoisonError::into_inner).push(outcome.clone());
        (input, outcomes.inspect(note).probe().0)
    });
    // The other workers go on until the dataflow has ended.
    let Some((to_do, finish)) = ends else { return };
    for (time, transaction) in (1..).zip(to_do) {
        input.send(Request::from(transaction));
        input.advance_to(time);
        worker.step_while(|| probe.less_than(&time));
        if finish.send(()).is_err() {
            return;
        }
    }
}
