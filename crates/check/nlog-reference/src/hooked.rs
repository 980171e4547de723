//! Hooks around an evaluator that has none: the oracle for the hooks of the fused engine.

use std::fmt;
use std::sync::Arc;

use nlog::Program;
use nlog::program::HookStage;
use nlog_data::{
    CommitError, Committed, Delta, ErrorCode, Evaluator, Memories, Role, Row, Schema, TableDelta, TableId,
    Tables, Transaction, TransactionError,
};
use nlog_hooks::{Hook, memory, refusal, registry};

use crate::Reference;

/// Makes an evaluator of a program that reports these tables.
type Make<E> = Box<dyn Fn(Arc<Program>, Tables) -> Result<E, String> + Send>;

/// A program that is run with hooks, by evaluators that know no hooks.
///
/// For each stage of hooks, an evaluator of its own computes the sources of these hooks from only the rules that they
/// need. A transaction first goes through the stages, so that the changes of all tables that hooks fill are known; then the evaluator of the
/// whole program commits it together with these changes, as one transaction. So its delta, its errors and their order
/// are those of the program with all rows in place, and no intermediate state is checked or visible. An error among the
/// rows that a hook depends on is reported before all others, because later results cannot be known.
pub struct Hooked<E> {
    program: Arc<Program>,
    stages: Vec<Stage<E>>,
    /// Runs the whole program.
    evaluator: E,
    make: Make<E>,
    /// The last tick.
    now: Option<u64>,
    /// The memories that the next transaction restores.
    restoring: Memories,
    /// The accepted transactions that can be undone, oldest first. `None` before the first checkpoint.
    past: Option<Vec<Past>>,
    /// Why nothing works any more.
    broken: Option<String>,
}

/// Hooks whose sources depend only on tables that earlier stages fill.
struct Stage<E> {
    of: HookStage,
    /// The rules of `of` alone.
    program: Arc<Program>,
    /// Input tables that the sources depend on.
    inputs: Vec<TableId>,
    observed: Tables,
    evaluator: E,
    /// Whether a transaction was accepted: then the rules' facts hold.
    settled: bool,
    hooks: Vec<(nlog::hook::Wiring, Box<dyn Hook>)>,
    /// In the pending transaction: the changes of the inputs, if the evaluator received them, and the number of hooks
    /// that were told.
    committed: Option<Delta>,
    told: usize,
}

/// What an accepted transaction changed besides its own rows.
struct Past {
    targets: Transaction,
    /// The last tick before it.
    now: Option<u64>,
}

impl<E: Evaluator> Hooked<E> {
    /// Adds its hooks to an evaluator of a program, which must not have run anything yet. `make` makes
    /// further evaluators of the same kind for parts of the program; they report the given tables.
    pub fn new(
        program: &Arc<Program>,
        evaluator: E,
        make: impl Fn(Arc<Program>, Tables) -> Result<E, String> + Send + 'static,
    ) -> Result<Self, String> {
        let make: Make<E> = Box::new(make);
        let stages = program.hook_stages().into_iter().map(|of| Stage::start(program, of, &make));
        let stages = stages.collect::<Result<_, _>>()?;
        Ok(Hooked::with(program, evaluator, stages, make))
    }

    fn with(program: &Arc<Program>, evaluator: E, stages: Vec<Stage<E>>, make: Make<E>) -> Self {
        Hooked {
            stages,
            program: Arc::clone(program),
            evaluator,
            make,
            now: None,
            restoring: Memories::new(),
            past: None,
            broken: None,
        }
    }

    /// The evaluator of the whole program, without its hooks.
    pub fn evaluator(&self) -> &E {
        &self.evaluator
    }

    fn run(&mut self, transaction: &Transaction, tick: Option<u64>) -> Result<Committed, CommitError> {
        if let Some(why) = &self.broken {
            return Err(CommitError::Engine(why.clone()));
        }
        let mut memories = std::mem::take(&mut self.restoring);
        self.check_targets(transaction)?;
        let now = self.now.max(memory::take_now(&mut memories));
        let mut targets = Transaction::default();
        let result = self.attempt(transaction, tick, &memories, &mut targets);
        let failed = match &result {
            Ok(_) => {
                let past = Past { targets, now: std::mem::replace(&mut self.now, now.max(tick)) };
                self.stages.iter_mut().for_each(Stage::accept);
                match &mut self.past {
                    Some(all) => all.push(past),
                    None => self.stages.iter_mut().for_each(Stage::settle),
                }
                None
            }
            Err(CommitError::Engine(why)) => Some(why.clone()),
            Err(CommitError::Refused(_) | CommitError::Stopped(_)) => {
                self.stages.iter_mut().try_for_each(|stage| stage.undo(&self.make)).err()
            }
        };
        failed.map_or(result, |why| Err(self.break_off(why)))
    }

    fn break_off(&mut self, why: String) -> CommitError {
        self.broken = Some(why.clone());
        CommitError::Engine(why)
    }

    fn attempt(
        &mut self,
        transaction: &Transaction,
        tick: Option<u64>,
        memories: &Memories,
        targets: &mut Transaction,
    ) -> Result<Committed, CommitError> {
        for stage in &mut self.stages {
            if let Err(error) = stage.run(transaction, tick, memories, targets) {
                // Errors of input tables precede those of derived tables, and a stage does not have all input tables.
                let first = self.evaluator.check(transaction).err();
                let error = first.map_or(error, CommitError::Refused);
                return Err(self.with_all_forbidden(error, &with(transaction, targets)));
            }
        }
        self.evaluator.commit(&with(transaction, targets)).map_err(|error| match error {
            CommitError::Refused(mut error) => {
                error.filled_by_hooks(targets);
                error.into()
            }
            other => other,
        })
    }

    /// The refusal of a transaction in a stage, with what tables forbid of the rows that follow without the hooks that were not
    /// told. If the rows that hooks depend on have the error, so do those of the whole program, and it changes nothing.
    fn with_all_forbidden(&mut self, error: CommitError, transaction: &Transaction) -> CommitError {
        let CommitError::Refused(error) = error else { return error };
        let is_derived = error.conflict.is_some() || error.rule.is_some() || !error.forbidden.is_empty();
        if !is_derived {
            return error.into();
        }
        match self.evaluator.commit(transaction) {
            Ok(_) => CommitError::Engine(format!("the whole program accepts what a stage refuses: {error}")),
            Err(CommitError::Refused(TransactionError { forbidden, .. })) => {
                TransactionError { forbidden, ..error }.into()
            }
            Err(other) => other,
        }
    }

    /// Undoes the last accepted transaction, which had these rows of its own.
    fn revert(&mut self, transaction: &Transaction, past: Past) -> Result<Committed, CommitError> {
        let inverse = with(transaction, &past.targets).inverse();
        for stage in &mut self.stages {
            stage.hooks.iter_mut().for_each(|(_, hook)| hook.undo());
            stage.evaluator.commit(&part(&inverse, &stage.inputs))?;
        }
        self.now = past.now;
        self.evaluator.commit(&inverse)
    }

    /// Checks that the transaction does not change the tables that hooks fill.
    fn check_targets(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        let touches = |table: TableId| {
            transaction.insert.contains_key(&table) || transaction.delete.contains_key(&table)
        };
        let Some(wiring) = self.program.hooks.iter().find(|wiring| touches(wiring.to)) else { return Ok(()) };
        // The first error by table name counts, and tables are in name order.
        let mut before = transaction.clone();
        before.insert.retain(|table, _| *table < wiring.to);
        before.delete.retain(|table, _| *table < wiring.to);
        self.evaluator.check(&before)?;
        Err(refusal::changes_filled_table(&self.program, wiring))
    }
}

impl Hooked<Reference> {
    /// The reference evaluator with the program's hooks. It reports these tables. With `attribute`, each derived row names
    /// a rule.
    pub fn reference(program: &Arc<Program>, tables: Tables, attribute: bool) -> Self {
        let make: Make<Reference> = Box::new(|program, tables| Ok(Reference::new(program, tables)));
        let whole = Reference::new(Arc::clone(program), tables);
        let whole = if attribute { whole.with_attribution() } else { whole };
        let stages = program.hook_stages().into_iter().map(|of| Stage::start(program, of, &make));
        // This evaluator always starts.
        Hooked::with(program, whole, stages.filter_map(Result::ok).collect(), make)
    }
}

/// A transaction together with changes of tables that it does not touch.
fn with(transaction: &Transaction, changes: &Transaction) -> Transaction {
    let mut all = transaction.clone();
    all.insert.extend(changes.insert.iter().map(|(table, rows)| (*table, rows.clone())));
    all.delete.extend(changes.delete.iter().map(|(table, rows)| (*table, rows.clone())));
    all
}

/// A transaction's rows of these tables alone.
fn part(transaction: &Transaction, tables: &[TableId]) -> Transaction {
    let mut part = transaction.clone();
    part.insert.retain(|table, _| tables.contains(table));
    part.delete.retain(|table, _| tables.contains(table));
    part
}

impl<E: Evaluator> Stage<E> {
    fn start(whole: &Arc<Program>, of: HookStage, make: &Make<E>) -> Result<Self, String> {
        let program = Arc::new(Program {
            rules: of.rules.iter().map(|rule| whole.rule(*rule).clone()).collect(),
            hooks: Vec::new(),
            tests: Vec::new(),
            objects: Vec::new(),
            states: Vec::new(),
            stages: Vec::new(),
            priorities: Vec::new(),
            fields: Vec::new(),
            ..Program::clone(whole)
        });
        let is_input = |table: &TableId| whole.schema.table(*table).role == Role::Input;
        let inputs: Vec<TableId> = of.tables.iter().copied().filter(is_input).collect();
        let hooks: Vec<_> = of.hooks.iter().map(|hook| whole.hooks[*hook].clone()).collect();
        let sources = hooks.iter().map(|wiring| wiring.from);
        let observed = Tables::These(sources.chain(inputs.iter().copied()).collect());
        Ok(Stage {
            evaluator: make(Arc::clone(&program), observed.clone())?,
            hooks: hooks.into_iter().map(|wiring| (wiring.clone(), registry::make(&wiring))).collect(),
            of,
            program,
            inputs,
            observed,
            settled: false,
            committed: None,
            told: 0,
        })
    }

    /// Runs a transaction to the end of this stage, and adds the changes of its targets to those of earlier stages.
    fn run(
        &mut self,
        transaction: &Transaction,
        tick: Option<u64>,
        memories: &Memories,
        changes: &mut Transaction,
    ) -> Result<(), CommitError> {
        let mut sources = self.commit(transaction, changes)?;
        let updated = self.update(&sources, tick, memories, changes);
        sources.tables.retain(|table, _| self.inputs.contains(table));
        // Also if a hook refuses, because the evaluator did not.
        if let Some(committed) = &mut self.committed {
            *committed = sources;
        }
        Ok(updated?)
    }

    /// Tells the hooks the changes of their sources, and adds those of their targets.
    fn update(
        &mut self,
        sources: &Delta,
        tick: Option<u64>,
        memories: &Memories,
        changes: &mut Transaction,
    ) -> Result<(), TransactionError> {
        let nothing = TableDelta::default();
        for (wiring, hook) in &mut self.hooks {
            let target = self.program.schema.table(wiring.to);
            if let Some(memory) = memories.get(&target.name) {
                hook.restore(memory, target).map_err(|why| {
                    TransactionError::new(ErrorCode::TypeMismatch, memory::misfit(&target.name, &why))
                })?;
            }
            self.told += 1;
            let source = sources.tables.get(&wiring.from).unwrap_or(&nothing);
            let TableDelta { insert, delete, .. } = hook.update(source, tick).map_err(|why| {
                TransactionError::new(ErrorCode::Range, format!("table {}: {why}", target.name))
            })?;
            if !insert.is_empty() {
                changes.insert.insert(wiring.to, insert);
            }
            if !delete.is_empty() {
                changes.delete.insert(wiring.to, delete);
            }
        }
        Ok(())
    }

    /// Commits a transaction. Returns the changes of sources and inputs.
    fn commit(&mut self, transaction: &Transaction, changes: &Transaction) -> Result<Delta, CommitError> {
        let part = with(&part(transaction, &self.inputs), &part(changes, &self.inputs));
        if self.settled && part.is_empty() {
            return Ok(Delta::default());
        }
        let committed = self.evaluator.commit(&part).map_err(|error| match error {
            CommitError::Refused(error) => self.in_whole_program(error).into(),
            error @ (CommitError::Stopped(_) | CommitError::Engine(_)) => error,
        })?;
        self.committed = Some(Delta::default());
        let mut delta = committed.delta;
        // Hooks need an order that does not depend on the evaluator.
        delta.sort();
        Ok(delta)
    }

    fn in_whole_program(&self, error: TransactionError) -> TransactionError {
        let rule = error.rule.and_then(|rule| self.of.rules.get(rule.0 as usize).copied());
        TransactionError { rule, ..error }
    }

    /// The transaction was accepted. The hooks can still undo it.
    fn accept(&mut self) {
        self.settled |= self.committed.take().is_some();
        self.told = 0;
    }

    /// The accepted transactions are permanent.
    fn settle(&mut self) {
        self.hooks.iter_mut().for_each(|(_, hook)| hook.accept());
    }

    /// Undoes the effects of a refused transaction on this stage.
    fn undo(&mut self, make: &Make<E>) -> Result<(), String> {
        let told = std::mem::take(&mut self.told);
        self.hooks.iter_mut().take(told).for_each(|(_, hook)| hook.undo());
        let Some(changes) = self.committed.take() else { return Ok(()) };
        if !self.settled {
            // The inverse of the first transaction would leave the consequences of facts behind.
            self.evaluator = make(Arc::clone(&self.program), self.observed.clone())?;
            return Ok(());
        }
        let mut inverse = Transaction::default();
        for (table, TableDelta { insert, delete, .. }) in changes.tables {
            inverse.insert.insert(table, delete);
            inverse.delete.insert(table, insert);
        }
        let undone = self.evaluator.commit(&inverse);
        undone.map(drop).map_err(|error| format!("a refused transaction cannot be taken back: {error}"))
    }
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
        self.run(transaction, None)
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        self.evaluator.contents(table)
    }

    /// Advances time: rows that are due appear and disappear, as in an ordinary transaction. A tick earlier than
    /// the last accepted one is refused as [`ErrorCode::Range`].
    fn tick(&mut self, now_ms: u64) -> Result<Committed, CommitError> {
        if !self.program.hooks.iter().any(|wiring| wiring.hook.is_timed()) {
            return self.evaluator.tick(now_ms);
        }
        refusal::check_tick(now_ms, self.now).inspect_err(|_| self.restoring.clear())?;
        self.run(&Transaction::default(), Some(now_ms))
    }

    fn memories(&self) -> Memories {
        let hooks = self.stages.iter().flat_map(|stage| &stage.hooks);
        memory::of_hooks(&self.program, hooks.map(|(wiring, hook)| (wiring, &**hook)), self.now)
    }

    fn restore(&mut self, memories: &Memories) -> Result<(), TransactionError> {
        refusal::check_memories(&self.program, memories)?;
        self.restoring.extend(memories.clone());
        Ok(())
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
            .field("hooks", &self.program.hooks)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}
