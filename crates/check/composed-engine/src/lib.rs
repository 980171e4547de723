//! A second oracle: the composed engine runs a plan as a dataflow of differential's own operators, over plain values.
//!
//! It shares the plan with the engine that it checks, and nothing else: no symbols, no packed rows, no cache. It is there
//! to be read and compared, not to be fast. The naive evaluator (crate `nlog-reference`) in turn shares no plan.
//!
//! ```
//! use composed_engine::{Composed, Options};
//! use nlog_data::{Evaluator, Transaction, Value};
//!
//! let sources = nlog::Sources::from_texts([(
//!     "odd.nlog",
//!     "input table number(n: int); output table odd(n: int); odd(n) :- number(n), n % 2 == 1;",
//! )]);
//! let program = nlog::compile(&sources).program.expect("it compiles");
//! let find = |name| program.schema.find(name).expect("it is declared");
//! let (number, odd) = (find("number"), find("odd"));
//! let mut engine = Composed::new(program, Options::default()).expect("it starts");
//!
//! let mut transaction = Transaction::default();
//! transaction.insert.insert(number, (1..4).map(|n| vec![Value::Int(n)]).collect());
//! let delta = engine.commit(&transaction).expect("it fits").delta;
//! assert_eq!(delta.tables[&odd].insert, [[Value::Int(1)], [Value::Int(3)]]);
//! ```
//!
//! A transaction is an epoch. If it causes a failure, violates a key or derives a forbidden row, its inverse undoes it in
//! the next epoch. The tables that hooks fill are inputs: `nlog_reference::Hooked` adds the hooks.
//!
//! The modules in reading order: `row`, `expression`, `chain` (what happens to a binding), `graph` (from plan to
//! operators), `worker` (threads), `contents` (from changes to errors and deltas).
#![forbid(unsafe_code)]

mod chain;
mod contents;
mod expression;
mod graph;
mod row;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    CommitError, Committed, Delta, DerivedErrors, Evaluator, Inputs, Role, Schema, TableId, Tables,
    Transaction, TransactionError,
};
use nlog_plan::Settings;
use nlog_plan::query::{Plan, RelationId};

use self::contents::{Contents, Net};
use self::graph::{Diff, ONCE, Time, nothing};
use self::worker::{Epoch, Workers};

/// The options of an engine. They do not affect the contents of tables.
#[derive(Debug, Clone)]
pub struct Options {
    /// The number of threads that share the work, at least 1.
    pub workers: usize,
    /// The tables whose changes are reported.
    pub observe: Tables,
    /// Whether each inserted row names its rule, as in [`TableDelta::rules`](nlog_data::TableDelta::rules).
    pub attribute: bool,
    /// The settings of the planner.
    pub planning: Settings,
}

impl Default for Options {
    fn default() -> Self {
        Options { workers: 1, observe: Tables::Outputs, attribute: false, planning: Settings::default() }
    }
}

/// A running dataflow for one program.
pub struct Composed {
    plan: Arc<Plan>,
    attribute: bool,
    observed: BTreeSet<TableId>,
    inputs: Inputs,
    workers: Workers,
    /// The next epoch.
    time: Time,
    /// Whether the facts are part of the state: true once a transaction has been accepted.
    facts: bool,
    /// The derived tables that are observed.
    contents: BTreeMap<TableId, Contents>,
    /// Why the engine is broken.
    broken: Option<String>,
}

impl Composed {
    /// Plans the program and starts its workers.
    ///
    /// # Errors
    /// There are no workers, or their threads cannot be started.
    pub fn new(program: Arc<Program>, options: Options) -> Result<Self, String> {
        if options.workers == 0 {
            return Err("the engine needs at least one worker".to_owned());
        }
        let schema = Arc::clone(&program.schema);
        let ids = schema.iter().map(|(id, _)| id);
        let observed: BTreeSet<TableId> = ids.filter(|id| options.observe.include(&schema, *id)).collect();
        let plan = Arc::new(Plan::new(program, &observed, &options.planning));
        let derived = observed.iter().filter(|id| schema.table(**id).role != Role::Input);
        let contents = derived.map(|id| (*id, Contents::default())).collect();
        let workers = Workers::start(options.workers, &plan)
            .map_err(|why| format!("cannot start the workers of the engine: {why}"))?;
        Ok(Composed {
            workers,
            plan,
            attribute: options.attribute,
            observed,
            inputs: Inputs::new(schema),
            time: 0,
            facts: false,
            contents,
            broken: None,
        })
    }

    /// The plan in use.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs changes of input tables as the next epoch, or their inverse if the sign is −1.
    fn epoch(&mut self, changes: &Delta, sign: Diff) -> Result<Net, String> {
        let unit = (!self.facts).then(|| (graph::unit(&self.plan), nothing(), sign));
        let changes = changes.tables.iter().flat_map(|(table, delta)| {
            let inserted = delta.insert.iter().map(move |row| (row, sign));
            let changed = inserted.chain(delta.delete.iter().map(move |row| (row, -sign)));
            changed.map(|(row, sign)| (RelationId(table.0), row.iter().cloned().map(Ok).collect(), sign))
        });
        let time = self.time;
        self.time += 1;
        let count = self.workers.count();
        let mut parts: Vec<Epoch> = (0..count).map(|_| Epoch { time, rows: Vec::new() }).collect();
        for (at, change) in unit.into_iter().chain(changes).enumerate() {
            parts[at % count].rows.push(change);
        }
        self.workers.run(parts).map(contents::net)
    }

    /// Runs accepted changes. An error among derived rows undoes them.
    fn run(&mut self, changes: &Delta) -> Result<Result<Delta, DerivedErrors>, String> {
        let net = self.epoch(changes, ONCE)?;
        if let Some(error) = contents::errors(&net, &self.plan) {
            self.epoch(changes, -ONCE)?;
            return Ok(Err(error));
        }
        self.facts = true;
        Ok(Ok(contents::apply(&net, &mut self.contents, self.attribute)))
    }

    /// Fails if an earlier failure left the state unknown.
    fn is_sound(&self) -> Result<(), CommitError> {
        let Some(why) = &self.broken else { return Ok(()) };
        Err(CommitError::Engine(format!("{why} (in an earlier transaction; start another engine)")))
    }
}

impl Evaluator for Composed {
    fn schema(&self) -> &Schema {
        &self.plan.program.schema
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.inputs.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.is_sound()?;
        let changes = self.inputs.apply(transaction)?;
        match self.run(&changes.delta) {
            Ok(Ok(mut delta)) => {
                let inputs =
                    changes.delta.tables.into_iter().filter(|(table, _)| self.observed.contains(table));
                delta.tables.extend(inputs);
                Ok(Committed {
                    delta,
                    redundant_inserts: changes.redundant_inserts,
                    redundant_deletes: changes.redundant_deletes,
                })
            }
            Ok(Err(error)) => {
                self.inputs.undo(changes);
                Err(CommitError::Refused(error.to_transaction_error(self.schema())))
            }
            Err(why) => {
                self.broken = Some(why.clone());
                Err(CommitError::Engine(why))
            }
        }
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<nlog_data::Row>, CommitError> {
        self.is_sound()?;
        let schema = &self.plan.program.schema;
        if schema.get(table).is_some_and(|table| table.role == Role::Input) {
            return Ok(self.inputs.contents(table));
        }
        if let Some(contents) = self.contents.get(&table) {
            return Ok(contents.rows());
        }
        let name = schema.get(table).map_or("", |table| table.name.as_str());
        Err(CommitError::Engine(format!("table {name} was not requested when the engine was created")))
    }
}
