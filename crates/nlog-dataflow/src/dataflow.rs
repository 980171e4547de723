//! The public interface of the engine: transactions in, deltas out.

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    ColumnTransaction, Columns, CommitError, Committed, CommittedBatch, CommittedColumns, Evaluator, Row,
    Schema, TableId, Tables, Transaction, TransactionError,
};
use nlog_plan::Settings;
use nlog_plan::query::Plan;

use crate::composed::Composed;
use crate::fused;
use crate::processes::{Meeting, MeetingError};

/// How an engine is run. The results do not depend on it.
#[derive(Debug, Clone)]
pub struct Options {
    /// How rules become operators.
    pub engine: Kind,
    /// Threads that share the work, 1 or more. One has the least latency; more load large states faster where
    /// processors are free.
    pub workers: usize,
    /// Which tables' changes are reported.
    pub observe: Tables,
    /// Whether inserted rows name their rules, as [`TableDelta::rules`](nlog_data::TableDelta::rules) says.
    pub attribute: bool,
    /// What the planner is told.
    pub planning: Settings,
    /// From so many rows on a transaction is planned for that has most of the rows to come; later the engine plans
    /// anew where its plan has turned out not to fit the rows that are there. Only where the planner was told neither
    /// figures nor a plan. `usize::MAX`: the plan stays what it is.
    pub plan_anew_from: usize,
}

/// How rules become operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Rules are evaluated in their static order over traces that they share: a transaction pays for what it touches.
    Fused,
    /// One dataflow of differential's own operators: the plain reading of a plan, and a second oracle in tests.
    Composed,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            engine: Kind::Fused,
            workers: 1,
            observe: Tables::Outputs,
            attribute: false,
            planning: Settings::default(),
            plan_anew_from: fused::WORTH_PLANNING,
        }
    }
}

/// Why an engine does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// [`Options::workers`] is 0.
    #[error("the engine needs at least one worker")]
    NoWorkers,
    /// Threads or their dataflows.
    #[error("cannot start the workers of the engine: {0}")]
    Workers(String),
    /// Other processes do not take part.
    #[error(transparent)]
    Processes(#[from] MeetingError),
}

/// A program as a running dataflow. It stays in the thread that made it.
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

    /// Plans the program and shares its work with other processes, for which it waits: see
    /// [`processes`](crate::processes). The engine is the fused one, with one worker in each process.
    pub fn across(program: Arc<Program>, options: Options, meeting: Meeting) -> Result<Self, StartError> {
        match options.engine {
            Kind::Fused => {
                let engine = fused::Engine::across(program, &options, meeting)?;
                Ok(Dataflow { engine: Engine::Fused(Box::new(engine)) })
            }
            Kind::Composed => Err(StartError::Processes(MeetingError::Composed)),
        }
    }

    /// The plan that is run.
    pub fn plan(&self) -> &Plan {
        match &self.engine {
            Engine::Fused(engine) => engine.plan(),
            Engine::Composed(engine) => engine.plan(),
        }
    }

    /// The program that is run.
    pub fn program(&self) -> &Arc<Program> {
        &self.plan().program
    }

    /// What the engine has done since it was started, and what it holds; the composed engine does not count.
    pub fn profile(&mut self) -> Result<Option<fused::Profile>, CommitError> {
        match &mut self.engine {
            Engine::Fused(engine) => engine.profile().map(Some),
            Engine::Composed(_) => Ok(None),
        }
    }

    /// Derives what another program would change, without deciding: see [`fused::Engine::propose`].
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

    /// Plans the program anew and goes over to the plan, without any effect on results; see
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

    fn commit_merged(&mut self, transactions: &[Transaction]) -> Result<CommittedBatch, CommitError> {
        self.evaluator().commit_merged(transactions)
    }

    fn idle(&mut self) -> Result<(), CommitError> {
        self.evaluator().idle()
    }

    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        self.evaluator().contents_columns(table)
    }
}
