//! The ways in which one program can be run.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    ColumnTransaction, Columns, CommitError, Committed, CommittedColumns, Evaluator, Role, Row, Schema,
    TableId, Transaction, TransactionError, state,
};
use nlog_dataflow::{Dataflow, Kind, Options};
use nlog_plan::Settings;

/// A way to run a program. Results never depend on it.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    pub(crate) engine: Kind,
    pub(crate) workers: usize,
    /// What is special about the plan, in a word, and what brings it about.
    pub(crate) planned: &'static str,
    pub(crate) planning: Settings,
    pub(crate) life: Life,
    /// Whether transactions and deltas go by columns.
    pub(crate) columns: bool,
    /// The same program, written otherwise.
    pub(crate) program: Option<Arc<Program>>,
}

/// What happens to an engine between transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Nothing.
    Fresh,
    /// Now and then its state is saved, and another one begins with that.
    Reloaded,
}

impl Way {
    /// The plain way with an engine.
    pub(crate) fn new(engine: Kind, workers: usize) -> Self {
        Way {
            engine,
            workers,
            planned: "",
            planning: Settings::default(),
            life: Life::Fresh,
            columns: false,
            program: None,
        }
    }

    /// What it is called where ways differ.
    pub(crate) fn name(&self) -> String {
        let Way { engine, workers, planned, life, columns, program, .. } = self;
        let columns = if *columns { ", by columns" } else { "" };
        let written = if program.is_some() { ", in another order" } else { "" };
        format!("{engine:?}, {workers} workers, {planned} {life:?}{columns}{written}")
    }

    /// An engine that runs so.
    pub(crate) fn start(&self, program: &Arc<Program>, options: Options) -> Box<dyn Evaluator> {
        let program = self.program.clone().unwrap_or_else(|| Arc::clone(program));
        let options = Options {
            engine: self.engine,
            workers: self.workers,
            planning: self.planning.clone(),
            ..options
        };
        let engine: Box<dyn Evaluator> = match self.life {
            Life::Fresh => Box::new(start(program, options)),
            Life::Reloaded => Box::new(Reloaded::new(program, options)),
        };
        if self.columns { Box::new(ByColumns(engine)) } else { engine }
    }
}

/// Starts an engine of a program that is right.
pub(crate) fn start(program: Arc<Program>, options: Options) -> Dataflow {
    Dataflow::new(program, options).expect("it starts")
}

/// How many transactions an engine lives for.
const LIFE: u64 = 3;

/// An engine that is saved and loaded after a few transactions.
struct Reloaded {
    program: Arc<Program>,
    options: Options,
    engine: Dataflow,
    /// Transactions since it began.
    age: u64,
    /// Whether one was accepted ever.
    facts: bool,
}

impl Reloaded {
    fn new(program: Arc<Program>, options: Options) -> Self {
        let engine = start(Arc::clone(&program), options.clone());
        Reloaded { program, options, engine, age: 0, facts: false }
    }

    /// One more transaction comes.
    fn turn(&mut self) -> Result<(), CommitError> {
        self.age += 1;
        if self.facts && self.age.is_multiple_of(LIFE) {
            self.reload().map_err(|error| CommitError::Engine(format!("the saved state: {error}")))?;
        }
        Ok(())
    }

    fn reload(&mut self) -> Result<(), String> {
        let schema = Arc::clone(&self.program.schema);
        let mut writer = state::Writer::new(Vec::new(), &schema).map_err(|error| error.to_string())?;
        for (id, _) in schema.iter().filter(|(_, table)| table.role == Role::Input) {
            let rows = self.engine.contents_columns(id).map_err(|error| error.to_string())?;
            writer.table(id, &rows).map_err(|error| error.to_string())?;
        }
        let bytes = writer.finish(&BTreeMap::new()).map_err(|error| error.to_string())?;
        let saved = state::read(&bytes, &schema).map_err(|error| error.to_string())?;
        self.engine = start(Arc::clone(&self.program), self.options.clone());
        let rows = ColumnTransaction { insert: saved.tables, delete: BTreeMap::new() };
        self.engine.commit_columns(&rows).map(|_| ()).map_err(|error| error.to_string())
    }
}

impl Evaluator for Reloaded {
    fn schema(&self) -> &Schema {
        self.engine.schema()
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.engine.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.turn()?;
        let committed = self.engine.commit(transaction);
        self.facts |= committed.is_ok();
        committed
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.engine.contents(table)
    }

    fn commit_columns(&mut self, transaction: &ColumnTransaction) -> Result<CommittedColumns, CommitError> {
        self.turn()?;
        let committed = self.engine.commit_columns(transaction);
        self.facts |= committed.is_ok();
        committed
    }

    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        self.engine.contents_columns(table)
    }
}

/// An engine that is given columns and gives columns.
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
