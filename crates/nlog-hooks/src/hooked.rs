//! Adds hooks to an evaluator.

use std::collections::HashSet;
use std::fmt;
use std::io::{Read, Take, Write};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    Bound, ColumnTransaction, Columns, CommitError, Committed, CommittedColumns, ErrorCode, Evaluator,
    Memories, Row, Schema, Scrubbed, TableId, Tables, Transaction, TransactionError, Value, no_memory,
};

use crate::form::Form;
use crate::stage::{Make, Stage};
use crate::wired::Wired;

/// A program that is run with hooks.
///
/// A transaction is committed together with the resulting changes of the hooks' targets, as one transaction. So its
/// delta, its errors and their order are those of the program with all rows in place, and no intermediate state is
/// checked or visible. An error among the rows that a hook depends on is reported before all others, because later
/// results cannot be known.
///
/// The rules that a hook depends on are computed twice, the first time to determine the target. They cost twice the
/// time and memory; rules after a hook cost nothing more.
pub struct Hooked<E> {
    wired: Wired,
    stages: Vec<Stage<E>>,
    /// Runs the whole program.
    evaluator: E,
    make: Make<E>,
    /// The last tick.
    now: Option<u64>,
    /// The memories that the next transaction restores.
    restoring: Memories,
    /// The bound of the next transaction.
    bound: Option<Bound>,
    /// The accepted transactions that can be undone, oldest first. `None` before the first checkpoint.
    past: Option<Vec<Past>>,
    /// Why nothing works any more.
    broken: Option<String>,
    /// The number of stages whose rows the running scrub has compared.
    scrubbed: usize,
}

/// What an accepted transaction changed besides its own rows.
struct Past {
    /// The rows of the targets.
    targets: Transaction,
    /// The last tick before it.
    now: Option<u64>,
}

/// The member of the memory of a timed hook with the last tick.
const NOW: &str = "now";

impl<E: Evaluator> Hooked<E> {
    /// Adds its hooks, if it has any, to an evaluator of a program, which must not have run anything yet. `make` makes
    /// further evaluators of the same kind for parts of the program; they report the given tables.
    pub fn new(
        program: &Arc<Program>,
        evaluator: E,
        make: impl Fn(Arc<Program>, Tables) -> Result<E, String> + Send + 'static,
    ) -> Result<Self, String> {
        let make: Make<E> = Box::new(make);
        let wired = Wired::new(program);
        Ok(Hooked {
            stages: start_stages(&wired, &make)?,
            wired,
            evaluator,
            make,
            now: None,
            restoring: Memories::new(),
            bound: None,
            past: None,
            broken: None,
            scrubbed: 0,
        })
    }

    /// The evaluator of the whole program.
    pub fn evaluator(&self) -> &E {
        &self.evaluator
    }

    /// The table that each hook fills, and the number of rows, edges and nodes that the hook has visited since the start.
    pub fn work(&self) -> Vec<(TableId, u64)> {
        let hooks = self.stages.iter().flat_map(Stage::hooks);
        hooks.map(|(wiring, hook)| (wiring.to, hook.work())).collect()
    }

    /// The time of the last accepted tick.
    pub fn now_ms(&self) -> Option<u64> {
        self.now
    }

    /// Runs a transaction as [`Evaluator::commit_columns`] does, but by another function of the program's evaluator, which
    /// gets the transaction with the changes of the hooks' targets.
    pub fn commit_columns_by<R>(
        &mut self,
        transaction: &ColumnTransaction,
        commit: impl FnOnce(&mut E, &ColumnTransaction) -> Result<R, CommitError>,
    ) -> Result<R, CommitError> {
        self.run(transaction, None, commit)
    }

    fn run<T: Form, R>(
        &mut self,
        transaction: &T,
        tick: Option<u64>,
        commit: impl FnOnce(&mut E, &T) -> Result<R, CommitError>,
    ) -> Result<R, CommitError> {
        if let Some(why) = &self.broken {
            return Err(CommitError::Engine(why.clone()));
        }
        let mut memories = std::mem::take(&mut self.restoring);
        let bound = self.bound.take();
        self.check_targets(transaction)?;
        let now = self.now.max(take_now(&mut memories));
        let mut targets = Transaction::default();
        let result = self.attempt(transaction, tick, (&memories, bound), &mut targets, commit);
        let failed = match &result {
            Ok(_) => {
                let past = Past { targets, now: std::mem::replace(&mut self.now, now.max(tick)) };
                self.accept(past);
                None
            }
            Err(CommitError::Engine(why)) => Some(why.clone()),
            Err(CommitError::Refused(_) | CommitError::Stopped(_)) => {
                let mut stages = self.stages.iter_mut();
                stages.try_for_each(|stage| stage.undo(&self.make)).err()
            }
        };
        match failed {
            None => result,
            Some(why) => Err(self.break_off(why)),
        }
    }

    fn accept(&mut self, past: Past) {
        self.stages.iter_mut().for_each(Stage::accept);
        match &mut self.past {
            Some(all) => all.push(past),
            None => self.stages.iter_mut().for_each(Stage::settle),
        }
    }

    fn break_off(&mut self, why: String) -> CommitError {
        self.broken = Some(why.clone());
        CommitError::Engine(why)
    }

    fn attempt<T: Form, R>(
        &mut self,
        transaction: &T,
        tick: Option<u64>,
        (memories, bound): (&Memories, Option<Bound>),
        targets: &mut Transaction,
        commit: impl FnOnce(&mut E, &T) -> Result<R, CommitError>,
    ) -> Result<R, CommitError> {
        for stage in &mut self.stages {
            if let Some(bound) = &bound {
                stage.bound(bound);
            }
            if let Err(error) = stage.run(transaction, tick, memories, targets) {
                if let CommitError::Stopped(_) = error {
                    return Err(error);
                }
                // Errors of input tables precede those of derived tables, and a stage does not have all input
                // tables.
                let first = self.evaluator.check(&transaction.rows()).err();
                return Err(first.map_or(error, CommitError::Refused));
            }
        }
        if let Some(bound) = bound {
            self.evaluator.bound(bound);
        }
        if targets.is_empty() {
            return commit(&mut self.evaluator, transaction);
        }
        commit(&mut self.evaluator, &transaction.with(targets)?)
    }

    /// Undoes the last accepted transaction, which had these rows of its own.
    fn revert(&mut self, transaction: &Transaction, past: Past) -> Result<Committed, CommitError> {
        let inverse = transaction.with(&past.targets)?.inverse();
        for stage in &mut self.stages {
            stage.revert(&inverse)?;
        }
        self.now = past.now;
        self.evaluator.commit(&inverse)
    }

    /// Goes on from derived rows: the stages, then the whole program.
    fn resume(&mut self, mut memories: Memories, from: &mut Take<&mut dyn Read>) -> Result<(), String> {
        let now = take_now(&mut memories);
        let mut targets = Vec::new();
        for stage in &mut self.stages {
            stage.resume(&memories, from, &mut targets)?;
        }
        self.evaluator.restore_derived(from)?;
        // Checksums cover both, so a difference would be a mistake of a hook.
        for (table, rows) in targets.into_iter().filter(|_| cfg!(debug_assertions)) {
            let saved = self.evaluator.contents(table).map_err(|error| error.to_string())?;
            if saved != rows {
                let name = self.wired.name(table);
                let why = format!(
                    "the saved rows of table {name} are not those that its hook derives from its memory"
                );
                self.broken = Some(why.clone());
                return Err(why);
            }
        }
        self.now = now;
        self.restoring.clear();
        Ok(())
    }

    /// Checks that the transaction does not change the hooks' targets.
    fn check_targets(&mut self, transaction: &impl Form) -> Result<(), TransactionError> {
        let Some(wiring) = self.wired.intruded(transaction) else { return Ok(()) };
        // The first error by table name counts, and tables are in name order.
        let mut before = transaction.rows().into_owned();
        before.insert.retain(|table, _| *table < wiring.to);
        before.delete.retain(|table, _| *table < wiring.to);
        self.evaluator.check(&before)?;
        let message = format!(
            "table {} is filled by hook {}; change the tables that {} is derived from instead",
            self.wired.name(wiring.to),
            wiring.hook.name(),
            self.wired.name(wiring.from)
        );
        Err(TransactionError::new(ErrorCode::NotAnInput, message))
    }
}

fn start_stages<E: Evaluator>(wired: &Wired, make: &Make<E>) -> Result<Vec<Stage<E>>, String> {
    let stages = wired.wires.iter().map(|wire| wire.stage + 1).max().unwrap_or(0);
    (0..stages).map(|stage| Stage::start(wired, stage, make)).collect()
}

/// Takes the last tick, which is common to all hooks, out of their memories.
fn take_now(memories: &mut Memories) -> Option<u64> {
    let objects = memories.values_mut().filter_map(|memory| memory.as_object_mut());
    objects.filter_map(|memory| memory.remove(NOW)?.as_u64()).max()
}

/// Starts an evaluator of a program with its hooks, if it has any. `make` makes evaluators of the program and of the parts
/// that hooks need; they report the given tables.
pub fn start(
    program: &Arc<Program>,
    observe: Tables,
    make: impl Fn(Arc<Program>, Tables) -> Result<Box<dyn Evaluator>, String> + Send + 'static,
) -> Result<Box<dyn Evaluator>, String> {
    let evaluator = make(Arc::clone(program), observe)?;
    if program.hooks.is_empty() {
        return Ok(evaluator);
    }
    Ok(Box::new(Hooked::new(program, evaluator, make)?))
}

impl<E: Evaluator> Evaluator for Hooked<E> {
    fn schema(&self) -> &Schema {
        self.evaluator.schema()
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.check_targets(transaction)?;
        self.evaluator.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.run(transaction, None, E::commit)
    }

    fn commit_columns(&mut self, transaction: &ColumnTransaction) -> Result<CommittedColumns, CommitError> {
        self.run(transaction, None, E::commit_columns)
    }

    fn bound(&mut self, bound: Bound) {
        self.bound = Some(bound);
    }

    fn idle(&mut self) -> Result<(), CommitError> {
        self.stages.iter_mut().try_for_each(Stage::idle)?;
        self.evaluator.idle()
    }

    fn scrub(&mut self) -> Result<Scrubbed, CommitError> {
        for stage in &mut self.stages[self.scrubbed..] {
            match stage.scrub()? {
                Scrubbed::Whole => self.scrubbed += 1,
                other => return Ok(other),
            }
        }
        let scrubbed = self.evaluator.scrub()?;
        if scrubbed == Scrubbed::Whole {
            self.scrubbed = 0;
        }
        Ok(scrubbed)
    }

    /// Hooks keep what they remember.
    fn derive_anew(&mut self) -> Result<Committed, CommitError> {
        self.scrubbed = 0;
        self.stages.iter_mut().try_for_each(Stage::derive_anew)?;
        self.evaluator.derive_anew()
    }

    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        self.evaluator.contents_columns(table)
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.evaluator.contents(table)
    }

    fn rows_with(
        &mut self,
        tables: &[TableId],
        values: &HashSet<Value>,
    ) -> Result<Vec<(TableId, Row)>, CommitError> {
        self.evaluator.rows_with(tables, values)
    }

    /// Advances time: rows that are due appear and disappear, as in an ordinary transaction. A tick earlier than
    /// the last accepted one is refused as [`ErrorCode::Range`]. A refused tick has no effect, so a clock that is
    /// set back only causes a delay until it catches up. A monotonic clock is better.
    fn tick(&mut self, now_ms: u64) -> Result<Committed, CommitError> {
        if !self.wired.wires.iter().any(|wire| wire.wiring.hook.is_timed()) {
            return self.evaluator.tick(now_ms);
        }
        if let Some(now) = self.now.filter(|now| *now > now_ms) {
            self.restoring.clear();
            let message = format!(
                "tick {now_ms} is earlier than the previous tick {now}; ticks must not \
            decrease"
            );
            return Err(TransactionError::new(ErrorCode::Range, message).into());
        }
        self.run(&Transaction::default(), Some(now_ms), E::commit)
    }

    fn memories(&self) -> Memories {
        let mut memories = Memories::new();
        for (wiring, hook) in self.stages.iter().flat_map(Stage::hooks) {
            let Some(mut memory) = hook.memory() else { continue };
            if let (true, Some(now), Some(memory)) =
                (wiring.hook.is_timed(), self.now, memory.as_object_mut())
            {
                memory.insert(NOW.to_owned(), now.into());
            }
            memories.insert(self.wired.name(wiring.to).to_owned(), memory);
        }
        memories
    }

    fn restore(&mut self, memories: &Memories) -> Result<(), TransactionError> {
        let remembers = |table: &str| {
            let mut wirings = self.wired.wires.iter().map(|wire| &wire.wiring);
            wirings.any(|wiring| wiring.hook.has_memory() && self.wired.name(wiring.to) == table)
        };
        if let Some(table) = memories.keys().find(|table| !remembers(table)) {
            return Err(no_memory(table));
        }
        self.restoring.extend(memories.clone());
        Ok(())
    }

    fn save_derived(&mut self, to: &mut dyn Write) -> Result<(), String> {
        self.stages.iter_mut().try_for_each(|stage| stage.save(to))?;
        self.evaluator.save_derived(to)
    }

    fn restore_derived(&mut self, from: &mut Take<&mut dyn Read>) -> Result<(), String> {
        let resumed = self.resume(self.restoring.clone(), from);
        if resumed.is_err() {
            self.stages = start_stages(&self.wired, &self.make)?;
        }
        resumed
    }

    fn checkpoint(&mut self) {
        self.past = Some(Vec::new());
        self.stages.iter_mut().for_each(Stage::settle);
    }

    fn undo(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        if let Some(why) = &self.broken {
            return Err(CommitError::Engine(why.clone()));
        }
        let Some(past) = self.past.as_mut().and_then(Vec::pop) else {
            return Err(self.break_off("there is no transaction to undo".to_owned()));
        };
        self.revert(transaction, past)
            .map_err(|error| self.break_off(format!("an accepted transaction cannot be undone: {error}")))
    }
}

impl<E> fmt::Debug for Hooked<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooked")
            .field("wires", &self.wired.wires)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
