//! Setups: the engine that runs a program, and the source of the plan.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use composed_engine::Composed;
use nlog::Program;
use nlog_data::{
    Bound, Cancel, ColumnTransaction, Columns, CommitError, Committed, CommittedColumns, Evaluator, Most,
    Progress, Role, Row, Schema, TableId, Transaction, TransactionError, state,
};
use nlog_dataflow::{Dataflow, Options};
use nlog_plan::Settings;

use super::Random;

/// The engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The engine of this crate.
    Fused,
    /// The second oracle, of the crate `composed-engine`. It uses only the options that it has too.
    Composed,
}

impl Kind {
    /// Starts an engine, and panics if that fails.
    pub(crate) fn start(self, program: Arc<Program>, options: Options) -> Box<dyn Evaluator> {
        match self {
            Kind::Fused => Box::new(start(program, options)),
            Kind::Composed => Box::new(start_composed(program, options)),
        }
    }
}

/// The way to run a program. Results never depend on it.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) engine: Kind,
    pub(crate) workers: usize,
    /// A name for the plan, and the settings that produce it.
    pub(crate) planned: &'static str,
    pub(crate) planning: Settings,
    /// Whether the engine plans for the first transaction, however small it is.
    pub(crate) plans_anew: bool,
    /// Whether the state is sometimes saved, and loaded into a new engine.
    pub(crate) reloads: bool,
    /// Whether all that the engine holds is sometimes saved, and restored in a new engine.
    pub(crate) restores: bool,
    /// Settings with which the engine re-plans at random moments.
    pub(crate) replans: Vec<Settings>,
    /// Whether each transaction is stopped at small bounds before it runs.
    pub(crate) stops: bool,
    /// Whether transactions and deltas are passed as columns.
    pub(crate) columns: bool,
    /// The same program, written differently.
    pub(crate) program: Option<Arc<Program>>,
}

impl Setup {
    /// A plain engine of this kind.
    pub(crate) fn new(engine: Kind, workers: usize) -> Self {
        Setup {
            engine,
            workers,
            planned: "",
            planning: Settings::default(),
            plans_anew: false,
            reloads: false,
            restores: false,
            replans: Vec::new(),
            stops: false,
            columns: false,
            program: None,
        }
    }

    /// The name of the setup in messages.
    pub(crate) fn name(&self) -> String {
        let Setup { engine, workers, planned, replans, columns, program, .. } = self;
        let replans = if replans.is_empty() { "" } else { ", replanned at random" };
        let reloads = match (self.reloads, self.restores) {
            (true, _) => ", reloaded",
            (_, true) => ", restored",
            _ => "",
        };
        let columns = match (*columns, self.stops) {
            (true, _) => ", by columns",
            (_, true) => ", stopped",
            _ => "",
        };
        let written = if program.is_some() { ", in another order" } else { "" };
        format!("{engine:?}, {workers} workers, {planned}{reloads}{replans}{columns}{written}")
    }

    /// Starts an engine with this setup.
    pub(crate) fn start(&self, program: &Arc<Program>, options: Options) -> Box<dyn Evaluator> {
        let program = self.program.clone().unwrap_or_else(|| Arc::clone(program));
        let options = Options {
            workers: self.workers,
            planning: self.planning.clone(),
            plan_anew_from: if self.plans_anew { 1 } else { usize::MAX },
            ..options
        };
        if !self.replans.is_empty() {
            let engine = start(program, options);
            let replanned =
                Turns(Replanned { engine, plannings: self.replans.clone(), random: Random::new(1) });
            return if self.columns { Box::new(ByColumns(Box::new(replanned))) } else { Box::new(replanned) };
        }
        let kind = self.engine;
        let start = move || kind.start(Arc::clone(&program), options.clone());
        let engine: Box<dyn Evaluator> = if self.reloads || self.restores {
            Box::new(Turns(Reloaded::new(Box::new(start), self.restores)))
        } else {
            start()
        };
        let engine = if self.stops { Box::new(Stopping::new(engine)) } else { engine };
        if self.columns { Box::new(ByColumns(engine)) } else { engine }
    }
}

/// Starts an engine, and panics if that fails.
pub(crate) fn start(program: Arc<Program>, options: Options) -> Dataflow {
    Dataflow::new(program, options).expect("it starts")
}

/// Starts the second oracle, and panics if that fails.
pub(crate) fn start_composed(program: Arc<Program>, options: Options) -> Composed {
    let Options { workers, observe, attribute, planning, .. } = options;
    let options = composed_engine::Options { workers, observe, attribute, planning };
    Composed::new(program, options).expect("it starts")
}

/// An engine on which an action runs before each transaction.
trait Turn {
    fn engine(&mut self) -> &mut dyn Evaluator;

    fn schema(&self) -> &Schema;

    /// The action before a transaction.
    fn turn(&mut self) -> Result<(), CommitError>;

    /// Called after an accepted transaction.
    fn accepted(&mut self) {}
}

/// Implements [`Evaluator`] for a [`Turn`].
struct Turns<T>(T);

impl<T: Turn + 'static> Evaluator for Turns<T> {
    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.0.engine().check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.0.turn()?;
        self.0.engine().commit(transaction).inspect(|_| self.0.accepted())
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.0.engine().contents(table)
    }

    fn commit_columns(&mut self, transaction: &ColumnTransaction) -> Result<CommittedColumns, CommitError> {
        self.0.turn()?;
        self.0.engine().commit_columns(transaction).inspect(|_| self.0.accepted())
    }

    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        self.0.engine().contents_columns(table)
    }
}

/// An engine that re-plans between transactions, with statistics of any kind.
struct Replanned {
    engine: Dataflow,
    plannings: Vec<Settings>,
    random: Random,
}

impl Turn for Replanned {
    fn engine(&mut self) -> &mut dyn Evaluator {
        &mut self.engine
    }

    fn schema(&self) -> &Schema {
        self.engine.schema()
    }

    fn turn(&mut self) -> Result<(), CommitError> {
        while self.random.chance(50) {
            let planning = &self.plannings[self.random.below(self.plannings.len() as u64) as usize];
            self.engine.replan(planning)?;
            self.engine.idle()?;
        }
        Ok(())
    }
}

/// The number of transactions after which an engine is replaced.
const LIFE: u64 = 3;

/// An engine that is saved and loaded again after a few transactions.
struct Reloaded {
    start: Box<dyn Fn() -> Box<dyn Evaluator>>,
    engine: Box<dyn Evaluator>,
    /// The number of transactions since the engine started.
    age: u64,
    /// Whether any transaction has been accepted.
    facts: bool,
    /// Whether derived rows are saved too.
    derived: bool,
}

impl Reloaded {
    fn new(start: Box<dyn Fn() -> Box<dyn Evaluator>>, derived: bool) -> Self {
        let engine = start();
        Reloaded { start, engine, age: 0, facts: false, derived }
    }

    fn restore(&mut self) -> Result<(), String> {
        let mut bytes = Vec::new();
        self.engine.save_derived(&mut bytes)?;
        let mut before = std::mem::replace(&mut self.engine, (self.start)());
        let mut rest = &bytes[..];
        self.engine.restore_derived(&mut (&mut rest as &mut dyn Read).take(bytes.len() as u64))?;
        if !rest.is_empty() {
            return Err("not all of it was read".to_owned());
        }
        // What it has is what the one before it derives from nothing.
        let [derived, present] = [before.derive_anew(), self.engine.present_rows(&|_| true)].map(|rows| {
            let mut rows = rows.map_err(|error| error.to_string())?.delta;
            rows.sort();
            Ok::<_, String>(rows)
        });
        if derived? == present? { Ok(()) } else { Err("it says that it has other rows".to_owned()) }
    }

    fn reload(&mut self) -> Result<(), String> {
        let schema = self.engine.schema().clone();
        let mut writer = state::Writer::new(Vec::new(), &schema).map_err(|error| error.to_string())?;
        for (id, _) in schema.iter().filter(|(_, table)| table.role == Role::Input) {
            let rows = self.engine.contents_columns(id).map_err(|error| error.to_string())?;
            writer.table(id, &rows).map_err(|error| error.to_string())?;
        }
        let bytes = writer.finish(&BTreeMap::new()).map_err(|error| error.to_string())?;
        let saved = state::read(&bytes, &schema).map_err(|error| error.to_string())?;
        self.engine = (self.start)();
        let rows = ColumnTransaction { insert: saved.tables, delete: BTreeMap::new() };
        self.engine.commit_columns(&rows).map(|_| ()).map_err(|error| error.to_string())
    }
}

impl Turn for Reloaded {
    fn engine(&mut self) -> &mut dyn Evaluator {
        self.engine.as_mut()
    }

    fn schema(&self) -> &Schema {
        self.engine.schema()
    }

    fn turn(&mut self) -> Result<(), CommitError> {
        self.age += 1;
        if self.facts && self.age.is_multiple_of(LIFE) {
            let again = if self.derived { self.restore() } else { self.reload() };
            again.map_err(|error| CommitError::Engine(format!("the saved state: {error}")))?;
        }
        Ok(())
    }

    fn accepted(&mut self) {
        self.facts = true;
    }
}

/// An engine that takes and returns columns.
struct ByColumns(Box<dyn Evaluator>);

impl Evaluator for ByColumns {
    fn schema(&self) -> &Schema {
        self.0.schema()
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.0.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        let columns = ColumnTransaction::from_rows(transaction).expect("rows of a table have its columns");
        self.0.commit_columns(&columns).map(|committed| committed.to_rows())
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.0.contents_columns(table).map(|columns| columns.to_rows())
    }
}

thread_local! {
    static STOPPED: Cell<u64> = const { Cell::new(0) };
}

/// The number of transactions that engines of this thread have stopped at their bounds so far.
pub(crate) fn stopped() -> u64 {
    STOPPED.get()
}

/// An engine that gets each transaction with small bounds first, and with none when all of them were too small. Nothing is left
/// of a transaction that is stopped, so whatever comes after says the same as without it.
struct Stopping {
    engine: Box<dyn Evaluator>,
    random: Random,
}

impl Stopping {
    fn new(engine: Box<dyn Evaluator>) -> Self {
        Stopping { engine, random: Random::new(7) }
    }

    /// Commits in some way, until no bound stops it.
    fn within<T>(
        &mut self,
        mut commit: impl FnMut(&mut dyn Evaluator) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        for size in [4, 16, 64, 4096] {
            let bytes = if self.random.chance(20) { self.random.below(16 * size) } else { u64::MAX };
            let most = Most { rows: self.random.below(size), bytes };
            let cancel = Cancel::default();
            if self.random.chance(10) {
                cancel.cancel();
            }
            self.engine.bound(Bound { most, cancel, progress: Progress::default() });
            match commit(&mut *self.engine) {
                Err(CommitError::Stopped(_)) => STOPPED.set(STOPPED.get() + 1),
                other => return other,
            }
        }
        commit(&mut *self.engine)
    }
}

impl Evaluator for Stopping {
    fn schema(&self) -> &Schema {
        self.engine.schema()
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.engine.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.within(|engine| engine.commit(transaction))
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.engine.contents(table)
    }

    fn commit_columns(&mut self, transaction: &ColumnTransaction) -> Result<CommittedColumns, CommitError> {
        self.within(|engine| engine.commit_columns(transaction))
    }

    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        self.engine.contents_columns(table)
    }
}
