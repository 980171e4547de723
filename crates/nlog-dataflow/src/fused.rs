//! The fused engine: all rules in their static order over traces in differential's spines, outside timely.
//! [`operator`](crate::operator) runs it inside.
//!
//! A transaction costs only the rules that it touches, and an idle engine costs nothing. Differential's spine decides which batches
//! of a trace are merged and when. `docs/internals/rule-to-operators.md` explains the design and the
//! measurements behind it. The ideas come from delta joins (`half_join` in differential-dogs3) and from shared
//! arrangements ("Shared Arrangements", VLDB 2020).
//!
//! The modules, in reading order:
//!
//! - Storage: `trace` (pairs with counts, and the staged changes of a transaction), `batch` (the pairs, and how they are merged),
//!   `probe` (key lookup in batches), `delta` (inserted and deleted rows), `sorted` (rows in order), `index`.
//! - Rules: `pipeline` (from changed rows of one atom to rows of the head) with `probe_batch` (bindings that wait for a probe),
//!   `keys` (the sort keys of a batch), `replaced` (rows that run together) and `pipeline_end`; `groups` (aggregates), `relation` (from rows to sets), `rule`,
//!   `bounded` (how far a transaction may go), `watch` and `watched` (sets that need no counts so far), `errors`, `fault` (failures that tests inject).
//! - Transactions: `engine` (one transaction), `reading` (rows of relations), `inputs` (checks of transactions),
//!   `output` and `raw_delta` (from symbols to values), `profile`,
//!   `planning` (re-planning for the rows present), `saved` (an engine as bytes, and back), `scrub` (what is stored, compared with the inputs).
//! - Edits of rules: `edit` (the transaction), `live` (moving state from one program to the next), `proposal` (the
//!   interface).
//! - Several workers: `placement` (the worker of each row), `rounds` (a transaction on several workers), `again` (rows that are
//!   derived once more), `workers` (their protocol), `threads`.

mod again;
mod batch;
mod bounded;
pub(crate) mod delta;
mod edit;
pub(crate) mod engine;
pub(crate) mod errors;
pub(crate) mod fault;
mod groups;
mod index;
pub(crate) mod inputs;
mod keys;
mod live;
pub(crate) mod output;
mod pipeline;
mod pipeline_end;
pub(crate) mod placement;
pub(crate) mod planning;
mod probe;
mod probe_batch;
mod profile;
mod proposal;
mod raw_delta;
mod reading;
pub(crate) mod relation;
mod replaced;
pub(crate) mod rounds;
mod rule;
mod saved;
mod scrub;
mod sorted;
mod threads;
mod trace;
mod watch;
mod watched;
pub(crate) mod workers;

use std::collections::{BTreeSet, HashSet};
use std::io::{Read, Take, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    Bound, ColumnTransaction, Columns, CommitError, Committed, CommittedColumns, Delta as ValueDelta,
    Evaluator, Role, Row as ValueRow, RuleId, Schema, Scrubbed, TableId, Transaction, TransactionError,
    Value,
};
use nlog_plan::query::{Plan, RelationId};

use crate::dataflow::{Options, StartError};
use crate::panic::{message, refusal_of_all};
use crate::symbol::{Marks, Symbols};
use bounded::Running;
use delta::Delta;
use engine::State;
use errors::Refusal;
use fault::{Fault, inject};
use inputs::{Changes, Inputs};
use output::Output;
use planning::Planning;
use rounds::Lost;
use scrub::Scrub;
use trace::View;
use workers::{Changed, Workers};

pub(crate) use planning::WORTH_PLANNING;

pub use profile::{IndexProfile, PipelineProfile, Profile, RelationProfile, RuleProfile};
pub use proposal::{ChangeError, Proposal};
pub use raw_delta::{RawDelta, RawTableDelta};
pub use saved::SavedError;
pub use workers::Load;

/// Collect unused symbols only after at least this many new ones.
pub(crate) const NEW_SYMBOLS: usize = if cfg!(test) { 1 << 4 } else { 1 << 14 };

/// Before or after a transaction, collect symbols once their number has doubled.
const COLLECT_BUSY: usize = 1;

/// In idle time, collect symbols at half of that growth, so that transactions rarely wait for a collection: it goes over all
/// rows.
const COLLECT_IDLE: usize = 2;

/// A running engine for one program.
pub struct Engine {
    state: State,
    /// The other workers, if any. With them, `state` holds only the part of worker 0.
    workers: Option<Workers>,
    inputs: Inputs,
    options: Options,
    planning: Planning,
    /// Whether the facts have been derived: true once a transaction has been accepted.
    facts: bool,
    /// The number of symbols that the last collection left.
    symbols_left: usize,
    /// Whether symbols may have become unused since the last collection, because rows were deleted or refused.
    gone: bool,
    /// The number of transactions run, and of collections of unused symbols.
    transactions: u64,
    sweeps: u64,
    /// The progress of the comparison of what is stored with the inputs.
    scrub: Scrub,
    /// The bound of the next transaction.
    bound: Option<Bound>,
    /// The work in progress, which the error names if it panics.
    phase: &'static str,
    /// Why the engine is broken: the first failure that left its state unknown.
    broken: Option<String>,
}

impl Engine {
    /// Plans the program and starts its workers.
    pub fn new(program: Arc<Program>, options: &Options) -> Result<Self, StartError> {
        let plan = Arc::new(Plan::new(Arc::clone(&program), &wanted(&program, options), &options.planning));
        let (state, workers) = start(plan, Arc::new(Symbols::new()), options.attribute, options.workers)?;
        Ok(Engine::with(state, workers, options))
    }

    fn with(state: State, workers: Option<Workers>, options: &Options) -> Self {
        Engine {
            inputs: Inputs::new(Arc::clone(&state.plan.program.schema)),
            state,
            workers,
            options: options.clone(),
            planning: Planning::default(),
            facts: false,
            symbols_left: 0,
            gone: false,
            transactions: 0,
            sweeps: 0,
            scrub: Scrub::default(),
            bound: None,
            phase: "starting",
            broken: None,
        }
    }

    /// The plan in use.
    pub fn plan(&self) -> &Plan {
        &self.state.plan
    }

    /// The program in use.
    pub fn program(&self) -> &Arc<Program> {
        &self.state.plan.program
    }

    /// Runs changes through the rules and returns the changes to report. The input tables have stored the changes
    /// already. Derived changes stay staged until [`Engine::end`].
    fn derive(&mut self, changes: &Changes) -> Result<Result<Vec<Output>, Refusal>, Lost> {
        inject(Fault::Deriving);
        let plan = Arc::clone(&self.state.plan);
        let needed = changes.tables.iter().filter(|(table, _)| plan.relations[table.0 as usize].needed);
        let needed: Vec<(RelationId, Delta)> =
            needed.map(|(table, delta)| (RelationId(table.0), delta.clone())).collect();
        let running =
            |bound: &Bound| Arc::new(Running::new(bound.clone(), &plan.program, &self.state.symbols));
        self.state.running = self.bound.as_ref().map(running);
        let changed = match &mut self.workers {
            Some(workers) => workers.run(&mut self.state, needed, !self.facts)?,
            None => self.state.run(needed, !self.facts),
        };
        let changed = match changed {
            Ok(changed) => changed,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut outputs = self.outputs(changed);
        for (table, delta) in &changes.tables {
            if plan.relations[table.0 as usize].wanted {
                outputs.push(Output::of_input(*table, delta.clone()));
            }
        }
        outputs.sort_unstable_by_key(|output| output.table);
        Ok(Ok(outputs))
    }

    /// Publishes or drops a transaction's staged changes on all workers.
    fn end(&mut self, accepted: bool) -> Result<(), Lost> {
        self.phase = "ending a transaction";
        self.state.end(accepted);
        inject(Fault::Ending);
        self.workers.as_mut().map_or(Ok(()), |workers| workers.end(accepted))
    }

    /// Breaks the engine because a worker was lost.
    fn lost(&mut self) -> CommitError {
        let why = self.workers.take().map(Workers::stop).unwrap_or_default();
        self.broken_by(why)
    }

    /// Breaks the engine. Its state may reflect half a transaction, so nothing of it can be read any more.
    fn broken_by(&mut self, why: String) -> CommitError {
        // Release workers that wait for this one.
        self.workers = None;
        self.broken = Some(why.clone());
        CommitError::Engine(why)
    }

    /// Runs `work`, a failure of which would leave the state unknown. A panic, or an error other than a refusal, breaks
    /// the engine: this call reports the cause, and so does every later call.
    fn guarded<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        self.is_sound()?;
        self.phase = "taking a transaction";
        let result = match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(result) => result,
            Err(panic) => {
                let why = format!("the engine panicked while {}: {}", self.phase, message(panic.as_ref()));
                return Err(self.broken_by(why));
            }
        };
        match result {
            Err(CommitError::Engine(why)) if self.broken.is_none() => Err(self.broken_by(why)),
            other => other,
        }
    }

    /// The same, for what the bound of the next transaction is for.
    fn guarded_transaction<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        let result = self.guarded(work);
        self.bound = None;
        result
    }

    /// The work of the engine since it was started, and its present contents.
    pub fn profile(&mut self) -> Result<Profile, CommitError> {
        let mut profile = self.state.profile();
        profile.workers = self.loads()?;
        profile.transactions = self.transactions;
        Ok(profile)
    }

    /// The work of each worker since the engine was started.
    pub fn loads(&mut self) -> Result<Vec<Load>, CommitError> {
        let mut loads = vec![self.state.load()];
        if let Some(workers) = &mut self.workers {
            let Ok(others) = workers.loads() else { return Err(self.lost()) };
            loads.extend(others);
        }
        for (load, done) in loads.iter_mut().zip(&self.planning.done) {
            load.add(done);
        }
        Ok(loads)
    }

    /// The rule that derives a table, if it is the only one.
    fn only_rule(&self, table: TableId) -> Option<RuleId> {
        let mut rules = self.state.plan.program.rules_of(table).map(|(rule, _)| rule);
        match (rules.next(), rules.next()) {
            (Some(rule), None) => Some(rule),
            _ => None,
        }
    }

    /// Runs changes through the rules. Returns the changes to report, or a refusal, which leaves the state unchanged.
    fn run(&mut self, changes: Changes) -> Result<(Vec<Output>, Changes), CommitError> {
        if changes.tables.is_empty() && self.facts {
            return Ok((Vec::new(), changes));
        }
        self.plan_if_due(planning::BUSY, Some(&changes))?;
        self.transactions += 1;
        self.state.touched += changes.tables.values().map(|delta| delta.len() as u64).sum::<u64>();
        self.gone |= changes.tables.values().any(Delta::has_gone);
        self.phase = "deriving rows";
        let derived = loop {
            let Ok(derived) = self.derive(&changes) else { return Err(self.lost()) };
            let Err(Refusal::Uncounted(relation)) = derived else { break derived };
            self.count_again(relation, &changes)?;
        };
        let result = derived.map_err(|refusal| refusal.into_error(&self.state.plan));
        if self.end(result.is_ok()).is_err() {
            return Err(self.lost());
        }
        self.phase = "reporting a transaction";
        match result {
            Ok(outputs) => {
                self.facts = true;
                Ok((outputs, changes))
            }
            Err(error) => {
                self.gone = true;
                self.inputs.undo(&changes);
                Err(error)
            }
        }
    }

    /// Drops the running transaction and counts the rows of a relation that were watched, so that the transaction can run again.
    fn count_again(&mut self, relation: RelationId, changes: &Changes) -> Result<(), CommitError> {
        if self.end(false).is_err() {
            return Err(self.lost());
        }
        // The rows are those before the transaction.
        self.inputs.undo(changes);
        self.count_rows(relation)?;
        self.inputs.redo(changes);
        self.phase = "deriving rows";
        Ok(())
    }

    /// Counts the rows of a relation that were watched. A failure breaks the engine.
    fn count_rows(&mut self, relation: RelationId) -> Result<(), CommitError> {
        self.phase = "counting rows";
        let inputs = &self.inputs;
        if let Some(workers) = &mut self.workers {
            let again = self.state.again(relation, true, &|table| inputs.rows(table));
            return match workers.derive_again(&mut self.state, again) {
                Ok(Some(_)) => Ok(()),
                Ok(None) => Err(Refusal::Uncounted(relation).into_error(&self.state.plan)),
                Err(Lost) => Err(self.lost()),
            };
        }
        let counted = self.state.count_again(relation, &|table| inputs.rows(table));
        counted.map_err(|refusal| refusal.into_error(&self.state.plan))
    }

    /// The changes to report for derived tables.
    fn outputs(&self, changed: Changed) -> Vec<Output> {
        let plan = Arc::clone(&self.state.plan);
        let mut outputs = Vec::new();
        for (id, delta, report) in changed {
            let relation = &plan.relations[id.0 as usize];
            let Some(table) = relation.table.filter(|_| relation.wanted) else { continue };
            if plan.program.schema.table(table).role == Role::Input {
                continue;
            }
            let only = self.only_rule(table).filter(|_| self.options.attribute);
            outputs.push(Output::of_relation(table, delta, report, only));
        }
        outputs
    }

    /// Commits changes that input tables have accepted.
    fn commit_changes(&mut self, changes: Changes) -> Result<Committed, CommitError> {
        let (outputs, changes) = self.run(changes)?;
        inject(Fault::Output);
        let mut delta = ValueDelta::default();
        for output in outputs {
            let table = output.table;
            if let Some(changed) = output.into_rows(&self.state.symbols, self.options.ascending) {
                delta.tables.insert(table, changed);
            }
        }
        self.collect_symbols(COLLECT_BUSY)?;
        Ok(Committed {
            delta,
            redundant_inserts: changes.redundant_inserts,
            redundant_deletes: changes.redundant_deletes,
        })
    }

    fn is_sound(&self) -> Result<(), CommitError> {
        let Some(why) = &self.broken else { return Ok(()) };
        Err(CommitError::Engine(refusal_of_all(why)))
    }

    /// Collects unused symbols once their number has grown by `1 / part` of those that the last collection left, and of
    /// [`NEW_SYMBOLS`].
    fn collect_symbols(&mut self, part: usize) -> Result<(), CommitError> {
        let symbols = self.state.symbols.len();
        if symbols < self.symbols_left + self.symbols_left.max(NEW_SYMBOLS) / part {
            return Ok(());
        }
        if !std::mem::take(&mut self.gone) {
            // Nothing was deleted since the last time, so all symbols are in use.
            self.symbols_left = symbols;
            return Ok(());
        }
        self.sweep()
    }

    /// Forgets the symbols that are not in use.
    fn sweep(&mut self) -> Result<(), CommitError> {
        self.phase = "collecting symbols";
        self.sweeps += 1;
        let mut marks = Marks::default();
        self.inputs.symbols(&mut |symbol| marks.symbol(symbol));
        self.state.mark(&mut marks);
        if self.workers.as_mut().is_some_and(|workers| workers.mark(&mut marks).is_err()) {
            return Err(self.lost());
        }
        self.state.symbols.sweep(&marks);
        inject(Fault::Symbols);
        self.symbols_left = self.state.symbols.len();
        Ok(())
    }

    /// Applies a transaction to the input tables and returns their changes as words.
    fn apply_columns(&mut self, transaction: &ColumnTransaction) -> Result<Changes, TransactionError> {
        let schema = Arc::clone(&self.state.plan.program.schema);
        let touched: BTreeSet<TableId> =
            transaction.delete.keys().chain(transaction.insert.keys()).copied().collect();
        let mut changes = Changes::default();
        // Refused rows leave unused symbols behind, so assume a refusal until the transaction is accepted.
        let gone = std::mem::replace(&mut self.gone, true);
        for id in touched {
            let (delete, insert) = (transaction.delete.get(&id), transaction.insert.get(&id));
            if !delete.iter().chain(&insert).all(|rows| nlog_data::inputs::has_form(&schema, id, rows)) {
                // Applying the transaction row by row reports the error.
                self.inputs.undo(&changes);
                return self.inputs.apply(&transaction.to_rows(), &self.state.symbols);
            }
            let width = schema.table(id).columns.len();
            let words = |columns: Option<&Columns>| {
                columns.map_or_else(
                    || Delta::new(width),
                    |columns| output::words_of(columns, width, &self.state.symbols),
                )
            };
            let (delete, insert) = (words(delete), words(insert));
            if let Err(error) =
                self.inputs.apply_to_table(id, &delete, &insert, &mut changes, &self.state.symbols)
            {
                self.inputs.undo(&changes);
                return Err(error);
            }
        }
        self.gone = gone;
        Ok(changes)
    }

    /// Commits a transaction and returns its delta as symbols, without converting them to values. For callers that
    /// process many rows: see [`RawDelta`].
    pub fn commit_words(&mut self, transaction: &ColumnTransaction) -> Result<RawDelta<'_>, CommitError> {
        let outputs = self.guarded_transaction(|engine| {
            // Collect first: the returned symbols must stay valid.
            engine.collect_symbols(COLLECT_BUSY)?;
            engine.plan_for_columns(transaction)?;
            let changes = engine.apply_columns(transaction)?;
            Ok(engine.run(changes)?.0)
        })?;
        Ok(RawDelta::new(outputs, &self.state.symbols))
    }

    fn rows(&mut self, table: TableId) -> Result<Delta, CommitError> {
        self.is_sound()?;
        self.is_known(table)?;
        self.guarded(|engine| engine.rows_of(table))
    }

    /// Fails if a derived table was not requested.
    fn is_known(&self, table: TableId) -> Result<(), CommitError> {
        let schema = Arc::clone(&self.state.plan.program.schema);
        let relation = self.state.plan.relations.get(table.0 as usize);
        if relation.is_none_or(|relation| !relation.wanted)
            && schema.get(table).is_none_or(|table| table.role != Role::Input)
        {
            let name = schema.get(table).map_or("", |table| table.name.as_str());
            return Err(CommitError::Engine(format!(
                "table {name} was not requested when the engine was created"
            )));
        }
        Ok(())
    }

    fn rows_of(&mut self, table: TableId) -> Result<Delta, CommitError> {
        self.phase = "reading a table";
        let schema = Arc::clone(&self.state.plan.program.schema);
        let inputs = &self.inputs;
        if !self.facts && schema.table(table).role != Role::Input {
            return Ok(Delta::new(schema.table(table).columns.len()));
        }
        if let (Some(workers), Role::Internal | Role::Hidden | Role::Output | Role::Forbid) =
            (&mut self.workers, schema.table(table).role)
        {
            let again = self.state.again(RelationId(table.0), false, &|table| inputs.rows(table));
            // Values that it computes are in use nowhere.
            self.gone = true;
            return match workers.derive_again(&mut self.state, again) {
                Ok(Some(mut rows)) => {
                    rows.make_set();
                    Ok(rows)
                }
                Ok(None) => Err(Refusal::TooMany(RelationId(table.0)).into_error(&self.state.plan)),
                Err(Lost) => Err(self.lost()),
            };
        }
        let rows = self.state.rows(RelationId(table.0), View::Before, &|table| inputs.rows(table));
        let mut rows = rows.map_err(|refusal| refusal.into_error(&self.state.plan))?;
        rows.make_set();
        Ok(rows)
    }
}

/// The tables whose changes the options ask for.
fn wanted(program: &Program, options: &Options) -> BTreeSet<TableId> {
    let ids = program.schema.iter().map(|(id, _)| id);
    ids.filter(|id| options.observe.include(&program.schema, *id)).collect()
}

/// Starts workers for a plan.
fn start(
    plan: Arc<Plan>,
    symbols: Arc<Symbols>,
    attribute: bool,
    workers: usize,
) -> Result<(State, Option<Workers>), StartError> {
    match workers {
        0 => Err(StartError::NoWorkers),
        1 => Ok((State::new(plan, symbols, attribute), None)),
        count => {
            let started = threads::start(&plan, &symbols, attribute, count);
            let (state, workers) = started.map_err(StartError::Workers)?;
            Ok((state, Some(workers)))
        }
    }
}

impl Evaluator for Engine {
    fn schema(&self) -> &Schema {
        &self.state.plan.program.schema
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.gone = true;
        let changes = self.inputs.apply(transaction, &self.state.symbols)?;
        self.inputs.undo(&changes);
        Ok(())
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.guarded_transaction(|engine| {
            engine.plan_for(transaction)?;
            let changes = engine.inputs.apply(transaction, &engine.state.symbols);
            engine.gone |= changes.is_err();
            engine.commit_changes(changes?)
        })
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<ValueRow>, CommitError> {
        let rows = self.rows(table)?;
        Ok(output::to_rows(&rows, &self.state.symbols))
    }

    fn rows_with(
        &mut self,
        tables: &[TableId],
        values: &HashSet<Value>,
    ) -> Result<Vec<(TableId, ValueRow)>, CommitError> {
        self.is_sound()?;
        let symbols = &self.state.symbols;
        let wanted = values.iter().filter_map(|value| symbols.find(value)).collect();
        let mut found = Vec::new();
        for table in tables {
            self.is_known(*table)?;
            let rows = output::to_rows(&self.inputs.rows_with(*table, &wanted), symbols);
            found.extend(rows.into_iter().map(|row| (*table, row)));
        }
        Ok(found)
    }

    fn commit_columns(&mut self, transaction: &ColumnTransaction) -> Result<CommittedColumns, CommitError> {
        self.guarded_transaction(|engine| {
            engine.plan_for_columns(transaction)?;
            let changes = engine.apply_columns(transaction)?;
            let (outputs, changes) = engine.run(changes)?;
            inject(Fault::Output);
            let delta = output::columns(&outputs, &engine.state.symbols);
            engine.collect_symbols(COLLECT_BUSY)?;
            Ok(CommittedColumns {
                delta,
                redundant_inserts: changes.redundant_inserts,
                redundant_deletes: changes.redundant_deletes,
            })
        })
    }

    fn bound(&mut self, bound: Bound) {
        self.bound = Some(bound);
    }

    fn idle(&mut self) -> Result<(), CommitError> {
        Engine::idle(self).map(drop)
    }

    fn scrub(&mut self) -> Result<Scrubbed, CommitError> {
        Engine::scrub(self)
    }

    fn derive_anew(&mut self) -> Result<Committed, CommitError> {
        Engine::derive_anew(self)
    }

    fn save_derived(&mut self, to: &mut dyn Write) -> Result<(), String> {
        self.save(to).map_err(|error| error.to_string())
    }

    fn restore_derived(&mut self, from: &mut Take<&mut dyn Read>) -> Result<(), String> {
        self.restore(from).map_err(|error| error.to_string())
    }

    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        let rows = self.rows(table)?;
        Ok(output::columns_of(&rows, &self.state.symbols).into_ascending())
    }
}
