//! The engine itself: transactions, maintenance and reads. What may have to wait for other workers is an `async` function.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    Bound, ColumnTransaction, Columns, CommitError, Committed, CommittedColumns, Delta as ValueDelta,
    Memories, Role, Row as ValueRow, StoredRows, TableId, Transaction, TransactionError, Value,
    no_timed_hook,
};
use nlog_plan::query::{Plan, RelationId};

use super::bounded::Running;
use super::delta::Delta;
use super::engine::{Pass, State};
use super::errors::Refusal;
use super::fault::{Fault, inject};
use super::hooks::{Filling, Hooks};
use super::inputs::{Changes, Inputs};
use super::output::Output;
use super::planning::Planning;
use super::scrub::Scrub;
use super::trace::View;
use super::workers::Load;
use super::workers::{Changed, Workers};
use super::{Profile, RawDelta, output, planning};
use crate::carrier::Lost;
use crate::dataflow::Options;
use crate::panic::{caught, message, refusal_of_all};
use crate::symbol::{Marks, Symbols};

/// Collect unused symbols only after at least this many new ones.
pub(crate) const NEW_SYMBOLS: usize = if cfg!(test) { 1 << 4 } else { 1 << 14 };

/// Before or after a transaction, collect symbols once their number has doubled.
const COLLECT_BUSY: usize = 1;

/// In idle time, collect symbols at half of that growth, so that transactions rarely wait for a collection: it goes over all
/// rows.
pub(super) const COLLECT_IDLE: usize = 2;

/// A running engine for one program.
pub(crate) struct Core {
    pub(super) state: State,
    /// The other workers, if there are any.
    pub(crate) workers: Option<Workers>,
    /// Whether the other workers have their parts of the rows. Then `state` has that of worker 0 alone.
    pub(super) shares: bool,
    pub(super) inputs: Inputs,
    pub(super) hooks: Hooks,
    pub(super) options: Options,
    pub(super) planning: Planning,
    /// Whether the facts have been derived: true once a transaction has been accepted.
    pub(super) facts: bool,
    /// The number of symbols that the last collection left.
    pub(super) symbols_left: usize,
    /// Whether symbols may have become unused since the last collection, because rows were deleted or refused.
    pub(super) gone: bool,
    /// The number of transactions run, and of collections of unused symbols.
    pub(super) transactions: u64,
    pub(super) sweeps: u64,
    /// The progress of the comparison of what is stored with the inputs.
    pub(super) scrub: Scrub,
    /// The bound of the next transaction.
    pub(super) bound: Option<Bound>,
    /// The work in progress, which the error names if it panics.
    pub(super) phase: &'static str,
    /// Why the engine is broken: the first failure that left its state unknown.
    pub(super) broken: Option<String>,
}

impl Core {
    /// An engine without rows. `workers` are all workers, if there are several.
    pub(crate) fn new(
        program: Arc<Program>,
        options: &Options,
        symbols: Arc<Symbols>,
        workers: Option<Workers>,
    ) -> Self {
        let plan = Arc::new(Plan::new(Arc::clone(&program), &wanted(&program, options), &options.planning));
        Core {
            inputs: Inputs::new(Arc::clone(&program.schema)),
            hooks: Hooks::new(&program),
            state: State::new(plan, symbols, options.attribute),
            workers,
            shares: false,
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

    /// The other workers, if they have their parts of the rows.
    pub(super) fn sharing(&self) -> Option<Workers> {
        self.workers.as_ref().filter(|_| self.shares).cloned()
    }

    /// The plan in use.
    pub(crate) fn plan(&self) -> &Plan {
        &self.state.plan
    }

    /// The program in use.
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.state.plan.program
    }

    /// Runs changes through the rules and returns the changes to report. The input tables have stored the changes
    /// already. Derived changes stay staged until [`Core::end`]. The hooks that are `due` work even if their sources do not
    /// change; `None` if the changes have those of the tables that hooks fill.
    async fn derive(
        &mut self,
        changes: &Changes,
        due: Option<Vec<usize>>,
    ) -> Result<Result<Vec<Output>, Refusal>, Lost> {
        inject(Fault::Deriving);
        let plan = Arc::clone(&self.state.plan);
        let needed = changes.tables.iter().filter(|(table, _)| plan.relations[table.0 as usize].needed);
        let needed: Vec<(RelationId, Delta)> =
            needed.map(|(table, delta)| (RelationId(table.0), delta.clone())).collect();
        let running =
            |bound: &Bound| Arc::new(Running::new(bound.clone(), &plan.program, &self.state.symbols));
        self.state.running = self.bound.as_ref().map(running);
        let (symbols, sharing) = (Arc::clone(&self.state.symbols), self.sharing());
        let inputs = RefCell::new(&mut self.inputs);
        let filling =
            due.is_some().then_some(Filling { hooks: &mut self.hooks, inputs: &inputs, symbols: &symbols });
        let pass = Pass { changes: needed, facts: !self.facts, hooks: due };
        let changed = match sharing {
            Some(workers) => workers.run(&mut self.state, pass, filling).await?,
            None => self.state.run(pass, filling),
        };
        let changed = match changed {
            Ok(changed) => changed,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut outputs = self.outputs(changed);
        for (table, delta) in changes.tables.iter().chain(self.hooks.changes()) {
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
        self.sharing().map_or(Ok(()), |workers| workers.end(accepted))
    }

    /// Breaks the engine because a worker was lost.
    pub(super) fn lost(&mut self) -> CommitError {
        let why = self.workers.as_ref().map(Workers::why).unwrap_or_default();
        self.broken_by(why)
    }

    /// Breaks the engine. Its state may reflect half a transaction, so nothing of it can be read any more.
    pub(super) fn broken_by(&mut self, why: String) -> CommitError {
        if let Some(workers) = self.workers.take() {
            // They may wait for this one.
            workers.fail(&why);
        }
        self.broken = Some(why.clone());
        CommitError::Engine(why)
    }

    /// Runs `work`, a failure of which would leave the state unknown. A panic, or an error other than a refusal, breaks
    /// the engine: this call reports the cause, and so does every later call.
    pub(super) async fn guarded<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        self.is_sound()?;
        self.phase = "taking a transaction";
        let result = match caught(work(self)).await {
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

    /// The same, for what the bound of the next transaction and the memories that it restores are for.
    async fn guarded_transaction<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Self) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        let result = self.guarded(work).await;
        self.bound = None;
        self.hooks.forget_restoring();
        result
    }

    /// The work of the engine since it was started, and its present contents.
    pub(crate) async fn profile(&mut self) -> Result<Profile, CommitError> {
        let mut profile = self.state.profile();
        profile.hooks = self.hooks.profile();
        profile.workers = self.loads().await?;
        profile.transactions = self.transactions;
        Ok(profile)
    }

    /// The rows that are stored, and the work of rules: with several workers, those of worker 0.
    pub(crate) fn stored(&self) -> StoredRows {
        self.state.profile().stored()
    }

    /// The work of each worker since the engine was started.
    pub(crate) async fn loads(&mut self) -> Result<Vec<Load>, CommitError> {
        let mut loads = vec![self.state.load()];
        if let Some(workers) = self.sharing() {
            let Ok(others) = workers.loads().await else { return Err(self.lost()) };
            loads.extend(others);
        }
        for (load, done) in loads.iter_mut().zip(&self.planning.done) {
            load.add(done);
        }
        Ok(loads)
    }

    /// Runs changes through rules and hooks. Returns the changes to report, or a refusal, which leaves the state unchanged.
    async fn run(&mut self, changes: Changes) -> Result<(Vec<Output>, Changes), CommitError> {
        let due = self.hooks.begin();
        self.run_with(changes, Some(due)).await
    }

    /// Runs changes through the rules. `due` as in [`Core::derive`].
    async fn run_with(
        &mut self,
        changes: Changes,
        due: Option<Vec<usize>>,
    ) -> Result<(Vec<Output>, Changes), CommitError> {
        if changes.tables.is_empty() && self.facts && due.as_ref().is_none_or(Vec::is_empty) {
            self.hooks.end(due.is_some(), &mut self.inputs);
            return Ok((Vec::new(), changes));
        }
        self.plan_if_due(planning::BUSY, Some(&changes)).await?;
        self.transactions += 1;
        self.state.touched += changes.tables.values().map(|delta| delta.len() as u64).sum::<u64>();
        self.gone |= changes.tables.values().any(Delta::has_gone);
        // Rows of another process come with values that may be in use there only.
        self.gone |= self.sharing().is_some_and(|workers| workers.are_elsewhere());
        self.phase = "deriving rows";
        let derived = loop {
            let Ok(derived) = self.derive(&changes, due.clone()).await else { return Err(self.lost()) };
            let Err(Refusal::Uncounted(relation)) = derived else { break derived };
            self.count_again(relation, &changes).await?;
        };
        let mut result = derived.map_err(|refusal| refusal.into_error(&self.state.plan));
        if let Err(CommitError::Refused(error)) = &mut result {
            error.filled_by_hooks(self.hooks.filled());
        }
        if self.end(result.is_ok()).is_err() {
            return Err(self.lost());
        }
        self.phase = "reporting a transaction";
        self.gone |= self.hooks.changes().values().any(Delta::has_gone);
        self.hooks.end(due.is_some() && result.is_ok(), &mut self.inputs);
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
    async fn count_again(&mut self, relation: RelationId, changes: &Changes) -> Result<(), CommitError> {
        if self.end(false).is_err() {
            return Err(self.lost());
        }
        // The rows are those before the transaction.
        self.hooks.take_back(&mut self.inputs);
        self.inputs.undo(changes);
        self.count_rows(relation).await?;
        self.inputs.redo(changes);
        self.phase = "deriving rows";
        Ok(())
    }

    /// Counts the rows of a relation that were watched. A failure breaks the engine.
    pub(super) async fn count_rows(&mut self, relation: RelationId) -> Result<(), CommitError> {
        self.phase = "counting rows";
        let inputs = &self.inputs;
        if let Some(workers) = self.sharing() {
            let again = self.state.again(relation, true, &|table| inputs.rows(table));
            return match workers.derive_again(&mut self.state, again).await {
                Ok(Some(_)) => Ok(()),
                Ok(None) => Err(Refusal::Uncounted(relation).into_error(&self.state.plan)),
                Err(Lost) => Err(self.lost()),
            };
        }
        let counted = self.state.count_again(relation, &|table| inputs.rows(table));
        counted.map_err(|refusal| refusal.into_error(&self.state.plan))
    }

    /// The changes to report for derived tables.
    pub(super) fn outputs(&self, changed: Changed) -> Vec<Output> {
        self.state.outputs(changed, self.options.attribute)
    }

    /// The outputs of a transaction by rows.
    async fn commit_outputs(
        &mut self,
        outputs: Vec<Output>,
        changes: &Changes,
    ) -> Result<Committed, CommitError> {
        inject(Fault::Output);
        let mut delta = ValueDelta::default();
        for output in outputs {
            let table = output.table;
            if let Some(changed) = output.into_rows(&self.state.symbols, self.options.ascending) {
                delta.tables.insert(table, changed);
            }
        }
        self.collect_symbols(COLLECT_BUSY).await?;
        Ok(Committed {
            delta,
            redundant_inserts: changes.redundant_inserts,
            redundant_deletes: changes.redundant_deletes,
        })
    }

    pub(super) fn is_sound(&self) -> Result<(), CommitError> {
        let Some(why) = &self.broken else { return Ok(()) };
        Err(CommitError::Engine(refusal_of_all(why)))
    }

    /// Collects unused symbols once their number has grown by `1 / part` of those that the last collection left, and of
    /// [`NEW_SYMBOLS`]; or, if other processes share the work, once it has doubled in one of them.
    pub(super) async fn collect_symbols(&mut self, part: usize) -> Result<(), CommitError> {
        let symbols = self.state.symbols.len();
        let crowded = std::mem::take(&mut self.state.crowded);
        if !crowded && symbols < self.symbols_left + self.symbols_left.max(NEW_SYMBOLS) / part {
            return Ok(());
        }
        if !std::mem::take(&mut self.gone) {
            // Nothing was deleted since the last time, so all symbols are in use.
            self.symbols_left = symbols;
            return Ok(());
        }
        self.sweep().await
    }

    /// Forgets the symbols that are not in use.
    pub(super) async fn sweep(&mut self) -> Result<(), CommitError> {
        self.phase = "collecting symbols";
        self.sweeps += 1;
        let mut marks = Marks::default();
        self.inputs.symbols(&mut |symbol| marks.symbol(symbol));
        self.state.mark(&mut marks);
        if let Some(workers) = self.sharing()
            && workers.mark(&mut marks).await.is_err()
        {
            return Err(self.lost());
        }
        if self.state.symbols.is_pinned() {
            // Words that left the engine are in use.
            self.gone = true;
            return Ok(());
        }
        self.state.symbols.sweep(&marks);
        inject(Fault::Symbols);
        self.symbols_left = self.state.symbols.len();
        Ok(())
    }

    /// Applies a transaction to the input tables and returns their changes as words. Refuses changes of tables that hooks fill.
    fn apply(&mut self, transaction: &Transaction) -> Result<Changes, TransactionError> {
        let touched: BTreeSet<TableId> =
            transaction.delete.keys().chain(transaction.insert.keys()).copied().collect();
        let (inputs, symbols) = (&mut self.inputs, &self.state.symbols);
        let Some((filled, error)) = self.hooks.refuses(touched.into_iter()) else {
            return inputs.apply(transaction, symbols);
        };
        // The first error by table name counts, and tables are in name order.
        let mut before = transaction.clone();
        before.insert.retain(|table, _| *table < filled);
        before.delete.retain(|table, _| *table < filled);
        let changes = inputs.apply(&before, symbols)?;
        inputs.undo(&changes);
        Err(error)
    }

    /// Applies a transaction to the input tables and returns their changes as words.
    fn apply_columns(&mut self, transaction: &ColumnTransaction) -> Result<Changes, TransactionError> {
        let schema = Arc::clone(&self.state.plan.program.schema);
        let touched: BTreeSet<TableId> =
            transaction.delete.keys().chain(transaction.insert.keys()).copied().collect();
        if self.hooks.refuses(touched.iter().copied()).is_some() {
            // Applying the transaction row by row reports the error.
            return self.apply(&transaction.to_rows());
        }
        let mut changes = Changes::default();
        // Refused rows leave unused symbols behind, so assume a refusal until the transaction is accepted.
        let gone = std::mem::replace(&mut self.gone, true);
        for id in touched {
            let (delete, insert) = (transaction.delete.get(&id), transaction.insert.get(&id));
            if !delete.iter().chain(&insert).all(|rows| nlog_data::inputs::has_form(&schema, id, rows)) {
                // Applying the transaction row by row reports the error.
                self.inputs.undo(&changes);
                return self.apply(&transaction.to_rows());
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

    /// Commits a transaction and returns its delta as symbols, without converting them to values.
    pub(crate) async fn commit_words(
        &mut self,
        transaction: &ColumnTransaction,
    ) -> Result<RawDelta<'_>, CommitError> {
        let outputs = self.commit_raw(transaction).await?;
        Ok(RawDelta::new(outputs, &self.state.symbols))
    }

    /// Commits a transaction and returns the changes of tables.
    pub(crate) async fn commit_raw(
        &mut self,
        transaction: &ColumnTransaction,
    ) -> Result<Vec<Output>, CommitError> {
        self.guarded_transaction(async |engine| {
            // Collect first: the returned symbols must stay valid.
            engine.collect_symbols(COLLECT_BUSY).await?;
            engine.plan_for_columns(transaction).await?;
            let changes = engine.apply_columns(transaction)?;
            let outputs = engine.run(changes).await?.0;
            inject(Fault::Output);
            Ok(outputs)
        })
        .await
    }

    async fn rows(&mut self, table: TableId) -> Result<Delta, CommitError> {
        self.is_sound()?;
        self.is_known(table)?;
        self.guarded(async |engine| engine.rows_of(table).await).await
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

    async fn rows_of(&mut self, table: TableId) -> Result<Delta, CommitError> {
        self.phase = "reading a table";
        let schema = Arc::clone(&self.state.plan.program.schema);
        let inputs = &self.inputs;
        if !self.facts && schema.table(table).role != Role::Input {
            return Ok(Delta::new(schema.table(table).columns.len()));
        }
        if let (Some(workers), Role::Internal | Role::Hidden | Role::Output | Role::Forbid) =
            (self.sharing(), schema.table(table).role)
        {
            let again = self.state.again(RelationId(table.0), false, &|table| inputs.rows(table));
            // Values that it computes are in use nowhere.
            self.gone = true;
            return match workers.derive_again(&mut self.state, again).await {
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

// What callers ask for: see [`Evaluator`](nlog_data::Evaluator).
impl Core {
    pub(crate) fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.gone = true;
        let changes = self.apply(transaction)?;
        self.inputs.undo(&changes);
        Ok(())
    }

    pub(crate) async fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.guarded_transaction(async |engine| {
            engine.plan_for(transaction).await?;
            let changes = engine.apply(transaction);
            engine.gone |= changes.is_err();
            let (outputs, changes) = engine.run(changes?).await?;
            engine.commit_outputs(outputs, &changes).await
        })
        .await
    }

    pub(crate) async fn contents(&mut self, table: TableId) -> Result<Vec<ValueRow>, CommitError> {
        let rows = self.rows(table).await?;
        Ok(output::to_rows(&rows, &self.state.symbols))
    }

    pub(crate) fn rows_with(
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

    pub(crate) async fn commit_columns(
        &mut self,
        transaction: &ColumnTransaction,
    ) -> Result<CommittedColumns, CommitError> {
        self.guarded_transaction(async |engine| {
            engine.plan_for_columns(transaction).await?;
            let changes = engine.apply_columns(transaction)?;
            let (outputs, changes) = engine.run(changes).await?;
            inject(Fault::Output);
            let delta = output::columns(&outputs, &engine.state.symbols);
            engine.collect_symbols(COLLECT_BUSY).await?;
            Ok(CommittedColumns {
                delta,
                redundant_inserts: changes.redundant_inserts,
                redundant_deletes: changes.redundant_deletes,
            })
        })
        .await
    }

    /// Bounds the next transaction.
    pub(crate) fn bound(&mut self, bound: Bound) {
        self.bound = Some(bound);
    }

    pub(crate) async fn tick(&mut self, now_ms: u64) -> Result<Committed, CommitError> {
        self.guarded_transaction(async |engine| {
            if !engine.hooks.are_timed() {
                return Err(no_timed_hook(now_ms).into());
            }
            engine.hooks.tick(now_ms)?;
            let (outputs, changes) = engine.run(Changes::default()).await?;
            engine.commit_outputs(outputs, &changes).await
        })
        .await
    }

    pub(crate) fn memories(&self) -> Memories {
        self.hooks.memories()
    }

    pub(crate) fn restore(&mut self, memories: &Memories) -> Result<(), TransactionError> {
        self.hooks.restore(memories)
    }

    pub(crate) fn checkpoint(&mut self) {
        self.hooks.checkpoint();
    }

    pub(crate) async fn undo(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.guarded(async |engine| {
            let Some(inverse) = engine.hooks.undo(transaction) else {
                return Err(CommitError::Engine("there is no transaction to undo".to_owned()));
            };
            let undone = engine.inputs.apply(&inverse, &engine.state.symbols).map_err(CommitError::from);
            let undone = match undone {
                Ok(changes) => engine.run_with(changes, None).await,
                Err(error) => Err(error),
            };
            let (outputs, changes) = undone.map_err(|error| {
                CommitError::Engine(format!("an accepted transaction cannot be undone: {error}"))
            })?;
            engine.commit_outputs(outputs, &changes).await
        })
        .await
    }

    pub(crate) async fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        let rows = self.rows(table).await?;
        Ok(output::columns_of(&rows, &self.state.symbols).into_ascending())
    }
}

/// The tables whose changes the options ask for.
pub(crate) fn wanted(program: &Program, options: &Options) -> BTreeSet<TableId> {
    let ids = program.schema.iter().map(|(id, _)| id);
    ids.filter(|id| options.observe.include(&program.schema, *id)).collect()
}
