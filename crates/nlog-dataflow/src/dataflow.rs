//! The public interface of the engine: transactions in, deltas out.

use std::collections::{BTreeSet, HashSet};
use std::io::{Read, Take, Write};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    Bound, ColumnTransaction, Columns, CommitError, Committed, CommittedColumns, Evaluator, Row, Schema,
    Scrubbed, TableId, Tables, Transaction, TransactionError, Value,
};
use nlog_plan::Settings;
use nlog_plan::query::Plan;

use crate::composed::Composed;
use crate::fused;

/// The options of an engine. They do not affect the contents of tables.
#[derive(Debug, Clone)]
pub struct Options {
    /// The kind of engine that executes the rules.
    pub engine: Kind,
    /// The number of threads that share the work, at least 1. One thread has the least latency; more threads load
    /// large states faster if CPU cores are free.
    pub workers: usize,
    /// The tables whose changes are reported.
    pub observe: Tables,
    /// Whether each inserted row names its rule, as in [`TableDelta::rules`](nlog_data::TableDelta::rules).
    pub attribute: bool,
    /// Whether [`Evaluator::commit`](nlog_data::Evaluator::commit) reports rows in ascending order. Sorting many matches costs
    /// about as much time as their derivation. Without it, the fused engine reports rows in an order of its own, which
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

/// The ways to execute rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Rules are evaluated in a static order over shared traces, so a transaction costs only the rules that it
    /// touches.
    Fused,
    /// One dataflow of differential's own operators: the direct translation of a plan, and a second oracle for tests.
    Composed,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            engine: Kind::Fused,
            workers: 1,
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
    /// The threads, or their dataflows, cannot be started.
    #[error("cannot start the workers of the engine: {0}")]
    Workers(String),
}

/// A running engine for one program. It must stay in the thread that created it.
pub struct Dataflow {
    engine: Engine,
}

enum Engine {
    Fused(Box<fused::Engine>),
    Composed(Box<Composed>),
}

impl Dataflow {
    /// Plans the program and starts its workers.
    pub fn new(program: Arc<Program>, options: Options) -> Result<Self, StartError> {
        if options.workers == 0 {
            return Err(StartError::NoWorkers);
        }
        let engine = match options.engine {
            Kind::Fused => Engine::Fused(Box::new(fused::Engine::new(program, &options)?)),
            Kind::Composed => {
                let schema = Arc::clone(&program.schema);
                let ids = schema.iter().map(|(id, _)| id);
                let wanted: BTreeSet<TableId> =
                    ids.filter(|id| options.observe.include(&schema, *id)).collect();
                let plan = Plan::new(program, &wanted, &options.planning);
                let composed = Composed::new(plan, wanted, options.workers, options.attribute);
                Engine::Composed(Box::new(composed.map_err(StartError::Workers)?))
            }
        };
        Ok(Dataflow { engine })
    }

    /// The plan in use.
    pub fn plan(&self) -> &Plan {
        match &self.engine {
            Engine::Fused(engine) => engine.plan(),
            Engine::Composed(engine) => engine.plan(),
        }
    }

    /// The program in use.
    pub fn program(&self) -> &Arc<Program> {
        &self.plan().program
    }

    /// The work since the engine started, and the engine's present contents. `None` for the composed engine, which
    /// keeps no profile.
    pub fn profile(&mut self) -> Result<Option<fused::Profile>, CommitError> {
        match &mut self.engine {
            Engine::Fused(engine) => engine.profile().map(Some),
            Engine::Composed(_) => Ok(None),
        }
    }

    /// Derives the effect of changing to another program, without making the change permanent: see
    /// [`fused::Engine::propose`].
    pub fn propose(
        &mut self,
        program: Arc<Program>,
        options: &Options,
    ) -> Result<fused::Proposal<'_>, fused::ChangeError> {
        match &mut self.engine {
            Engine::Fused(engine) => engine.propose(program, options),
            Engine::Composed(_) => Err(fused::ChangeError::Composed),
        }
    }

    /// Plans the program with other settings and switches to the new plan, which does not affect results; see
    /// [`fused::Engine::replan`]. The composed engine keeps its plan.
    pub fn replan(&mut self, planning: &Settings) -> Result<bool, CommitError> {
        match &mut self.engine {
            Engine::Fused(engine) => engine.replan(planning),
            Engine::Composed(_) => Ok(false),
        }
    }

    fn evaluator(&mut self) -> &mut dyn Evaluator {
        match &mut self.engine {
            Engine::Fused(engine) => engine.as_mut(),
            Engine::Composed(engine) => engine.as_mut(),
        }
    }
}

impl Evaluator for Dataflow {
    fn schema(&self) -> &Schema {
        &self.plan().program.schema
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.evaluator().check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.evaluator().commit(transaction)
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.evaluator().contents(table)
    }

    fn commit_columns(&mut self, transaction: &ColumnTransaction) -> Result<CommittedColumns, CommitError> {
        self.evaluator().commit_columns(transaction)
    }

    fn bound(&mut self, bound: Bound) {
        self.evaluator().bound(bound);
    }

    fn idle(&mut self) -> Result<(), CommitError> {
        self.evaluator().idle()
    }

    fn scrub(&mut self) -> Result<Scrubbed, CommitError> {
        self.evaluator().scrub()
    }

    fn derive_anew(&mut self) -> Result<Committed, CommitError> {
        self.evaluator().derive_anew()
    }

    fn save_derived(&mut self, to: &mut dyn Write) -> Result<(), String> {
        self.evaluator().save_derived(to)
    }

    fn restore_derived(&mut self, from: &mut Take<&mut dyn Read>) -> Result<(), String> {
        self.evaluator().restore_derived(from)
    }

    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        self.evaluator().contents_columns(table)
    }

    fn rows_with(
        &mut self,
        tables: &[TableId],
        values: &HashSet<Value>,
    ) -> Result<Vec<(TableId, Row)>, CommitError> {
        self.evaluator().rows_with(tables, values)
    }
}
