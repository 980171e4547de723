//! The public interface of the engine: transactions in, deltas out.

use std::collections::HashSet;
use std::io::{Read, Take, Write};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    Bound, ColumnTransaction, Columns, CommitError, Committed, CommittedColumns, Evaluator, Memories, Row,
    Schema, Scrubbed, TableId, Tables, Transaction, TransactionError, Value,
};
use nlog_plan::Settings;
use nlog_plan::query::Plan;

use crate::carrier::Processes;
use crate::fused;

/// The options of an engine. They do not affect the contents of tables.
#[derive(Debug, Clone)]
pub struct Options {
    /// The number of threads that share the work, at least 1. One thread has the least latency; more threads load
    /// large states faster if CPU cores are free.
    pub workers: usize,
    /// Whether a single worker is one of timely's too. Several always are.
    pub timely: bool,
    /// The tables whose changes are reported.
    pub observe: Tables,
    /// Whether each inserted row names its rule, as in [`TableDelta::rules`](nlog_data::TableDelta::rules).
    pub attribute: bool,
    /// Whether [`Evaluator::commit`](nlog_data::Evaluator::commit) reports rows in ascending order. Sorting many matches costs
    /// about as much time as their derivation. Without it, the engine reports rows in an order of its own, which
    /// differs from run to run.
    pub ascending: bool,
    /// The settings of the planner.
    pub planning: Settings,
    /// Plan for a transaction of at least this many rows before it runs, if it inserts most of the rows that the engine
    /// will then hold. Later, the engine re-plans when its plan no longer fits the rows present. Both apply only if
    /// [`Options::planning`] has neither statistics nor a pinned plan. With `usize::MAX` the engine never re-plans by
    /// itself.
    pub plan_anew_from: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workers: 1,
            timely: false,
            observe: Tables::Outputs,
            attribute: false,
            ascending: true,
            planning: Settings::default(),
            plan_anew_from: fused::WORTH_PLANNING,
        }
    }
}

/// The reason why an engine does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// [`Options::workers`] is 0.
    #[error("the engine needs at least one worker")]
    NoWorkers,
    /// Workers cannot be started, or other processes not be reached.
    #[error(transparent)]
    Carrier(#[from] crate::carrier::StartError),
    /// Another worker or process was lost.
    #[error("{0}; restart all processes")]
    Lost(String),
    /// The threads, or their dataflows, cannot be started.
    #[error("cannot start the workers of the engine: {0}")]
    Workers(String),
}

/// A running engine for one program. It must stay in the thread that created it.
pub struct Dataflow {
    engine: Box<fused::Engine>,
}

impl Dataflow {
    /// Plans the program and starts its workers.
    pub fn new(program: Arc<Program>, options: Options) -> Result<Self, StartError> {
        if options.workers == 0 {
            return Err(StartError::NoWorkers);
        }
        Ok(Dataflow { engine: Box::new(fused::Engine::new(program, &options)?) })
    }

    /// Plans the program and shares its work with other processes, each of which runs [`serve`](crate::serve). This is process 0. Waits for
    /// the others to connect.
    pub fn across(program: Arc<Program>, options: Options, processes: Processes) -> Result<Self, StartError> {
        let engine = fused::Engine::across(program, &options, processes)?;
        Ok(Dataflow { engine: Box::new(engine) })
    }

    /// The plan in use.
    pub fn plan(&self) -> &Plan {
        self.engine.plan()
    }

    /// The program in use.
    pub fn program(&self) -> &Arc<Program> {
        &self.plan().program
    }

    /// The work since the engine started, and the engine's present contents.
    pub fn profile(&mut self) -> Result<fused::Profile, CommitError> {
        self.engine.profile()
    }

    /// Derives the effect of changing to another program, without making the change permanent: see
    /// [`fused::Engine::propose`].
    pub fn propose(
        &mut self,
        program: Arc<Program>,
        options: &Options,
    ) -> Result<fused::Proposal<'_>, fused::ChangeError> {
        self.engine.propose(program, options)
    }

    /// Plans the program with other settings and switches to the new plan, which does not affect results; see
    /// [`fused::Engine::replan`].
    pub fn replan(&mut self, planning: &Settings) -> Result<bool, CommitError> {
        self.engine.replan(planning)
    }
}

impl Evaluator for Dataflow {
    fn schema(&self) -> &Schema {
        &self.plan().program.schema
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.engine.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.engine.commit(transaction)
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.engine.contents(table)
    }

    fn commit_columns(&mut self, transaction: &ColumnTransaction) -> Result<CommittedColumns, CommitError> {
        self.engine.commit_columns(transaction)
    }

    fn bound(&mut self, bound: Bound) {
        self.engine.bound(bound);
    }

    fn idle(&mut self) -> Result<(), CommitError> {
        self.engine.idle()
    }

    fn scrub(&mut self) -> Result<Scrubbed, CommitError> {
        self.engine.scrub()
    }

    fn derive_anew(&mut self) -> Result<Committed, CommitError> {
        self.engine.derive_anew()
    }

    fn save_derived(&mut self, to: &mut dyn Write) -> Result<(), String> {
        self.engine.save_derived(to)
    }

    fn restore_derived(&mut self, from: &mut Take<&mut dyn Read>) -> Result<(), String> {
        self.engine.restore_derived(from)
    }

    fn tick(&mut self, now_ms: u64) -> Result<Committed, CommitError> {
        self.engine.tick(now_ms)
    }

    fn memories(&self) -> Memories {
        self.engine.memories()
    }

    fn restore(&mut self, memories: &Memories) -> Result<(), TransactionError> {
        self.engine.restore(memories)
    }

    fn checkpoint(&mut self) {
        self.engine.checkpoint();
    }

    fn undo(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.engine.undo(transaction)
    }

    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        self.engine.contents_columns(table)
    }

    fn rows_with(
        &mut self,
        tables: &[TableId],
        values: &HashSet<Value>,
    ) -> Result<Vec<(TableId, Row)>, CommitError> {
        self.engine.rows_with(tables, values)
    }
}
