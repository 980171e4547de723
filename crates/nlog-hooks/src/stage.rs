//! Stages: independent hooks, and the evaluator that computes their sources before the program runs.

use std::collections::BTreeSet;
use std::io::{Read, Take, Write};
use std::sync::Arc;

use nlog::Program;
use nlog::hook::Wiring;
use nlog_data::{
    Bound, CommitError, Delta, ErrorCode, Evaluator, Memories, Role, Row, RuleId, Scrubbed, TableDelta,
    TableId, Tables, Transaction, TransactionError,
};

use crate::form::Form;
use crate::hook::Hook;
use crate::memory::misfit;
use crate::registry;
use crate::wired::{Wire, Wired};

/// Makes an evaluator of a program that reports these tables.
pub(crate) type Make<E> = Box<dyn Fn(Arc<Program>, Tables) -> Result<E, String> + Send>;

/// Hooks whose sources depend only on targets of earlier stages. A separate evaluator computes their sources from
/// only the rules that they need, so that the changes of the targets are known when the program's evaluator gets
/// the transaction.
pub(crate) struct Stage<E> {
    program: Arc<Program>,
    /// For each rule of that program, its number in the whole program.
    rules: Vec<RuleId>,
    /// Input tables that the sources depend on.
    inputs: BTreeSet<TableId>,
    observed: Tables,
    evaluator: E,
    /// Whether a transaction was accepted: then the rules' facts hold.
    settled: bool,
    hooks: Vec<(Wiring, Box<dyn Hook>)>,
    /// The part of the pending transaction that was applied here.
    done: Done,
    /// The bound of the next transaction.
    bound: Option<Bound>,
}

#[derive(Default)]
struct Done {
    /// The changes of the inputs, if the evaluator received them.
    committed: Option<Delta>,
    /// The number of hooks that were told.
    hooks: usize,
}

impl<E: Evaluator> Stage<E> {
    pub(crate) fn start(wired: &Wired, stage: usize, make: &Make<E>) -> Result<Self, String> {
        let wires: Vec<&Wire> = wired.wires.iter().filter(|wire| wire.stage == stage).collect();
        let sources: BTreeSet<TableId> = wires.iter().map(|wire| wire.wiring.from).collect();
        let (rules, tables) = wired.upstream(&sources);
        let whole = &wired.program;
        let program = Arc::new(Program {
            schema: Arc::clone(&whole.schema),
            rules: rules.iter().map(|rule| whole.rule(*rule).clone()).collect(),
            order: whole.order.clone(),
            hooks: Vec::new(),
            tests: Vec::new(),
            constants: whole.constants.clone(),
            functions: whole.functions.clone(),
            objects: Vec::new(),
            states: Vec::new(),
            stages: Vec::new(),
            priorities: Vec::new(),
            fields: Vec::new(),
        });
        let is_input = |table: &TableId| whole.schema.table(*table).role == Role::Input;
        let inputs: BTreeSet<TableId> = tables.into_iter().filter(is_input).collect();
        let observed = Tables::These(sources.union(&inputs).copied().collect());
        Ok(Stage {
            evaluator: make(Arc::clone(&program), observed.clone())?,
            program,
            rules,
            inputs,
            observed,
            settled: false,
            hooks: wires
                .into_iter()
                .map(|wire| (wire.wiring.clone(), registry::make(&wire.wiring)))
                .collect(),
            done: Done::default(),
            bound: None,
        })
    }

    pub(crate) fn hooks(&self) -> impl Iterator<Item = (&Wiring, &dyn Hook)> {
        self.hooks.iter().map(|(wiring, hook)| (wiring, &**hook))
    }

    /// Bounds the next transaction.
    pub(crate) fn bound(&mut self, bound: &Bound) {
        // If the stage has nothing to commit, its evaluator must not keep the bound for a later transaction.
        self.bound = Some(bound.clone());
    }

    /// Runs a transaction to the end of this stage, and adds the changes of its targets to those of earlier
    /// stages.
    pub(crate) fn run(
        &mut self,
        transaction: &impl Form,
        tick: Option<u64>,
        memories: &Memories,
        changes: &mut Transaction,
    ) -> Result<(), CommitError> {
        let mut sources = self.commit(transaction, changes)?;
        let updated = self.update(&sources, tick, memories, changes);
        sources.tables.retain(|table, _| self.inputs.contains(table));
        // Also if a hook refuses, because the evaluator did not.
        if let Some(committed) = &mut self.done.committed {
            *committed = sources;
        }
        updated
    }

    /// Tells the hooks the changes of their sources, and adds those of their targets.
    fn update(
        &mut self,
        sources: &Delta,
        tick: Option<u64>,
        memories: &Memories,
        changes: &mut Transaction,
    ) -> Result<(), CommitError> {
        let nothing = TableDelta::default();
        for (wiring, hook) in &mut self.hooks {
            let target = self.program.schema.table(wiring.to);
            if let Some(memory) = memories.get(&target.name) {
                let restored = hook.restore(memory, target).map_err(|why| misfit(&target.name, &why));
                restored.map_err(|why| TransactionError::new(ErrorCode::TypeMismatch, why))?;
            }
            self.done.hooks += 1;
            let source = sources.tables.get(&wiring.from).unwrap_or(&nothing);
            let updated = hook.update(source, tick).map_err(|why| {
                TransactionError::new(ErrorCode::Range, format!("table {}: {why}", target.name))
            });
            let TableDelta { insert, delete, .. } = updated?;
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
    fn commit(&mut self, transaction: &impl Form, changes: &Transaction) -> Result<Delta, CommitError> {
        let bound = self.bound.take();
        let mut part = transaction.part(&self.inputs);
        let changes = changes.part(&self.inputs);
        part.insert.extend(changes.insert);
        part.delete.extend(changes.delete);
        if self.settled && part.is_empty() {
            return Ok(Delta::default());
        }
        if let Some(bound) = bound {
            self.evaluator.bound(bound);
        }
        let committed = self.evaluator.commit(&part).map_err(|error| match error {
            CommitError::Refused(error) => self.in_whole_program(error).into(),
            error @ (CommitError::Stopped(_) | CommitError::Engine(_)) => error,
        })?;
        self.done.committed = Some(Delta::default());
        let mut delta = committed.delta;
        for (_, changed) in delta.tables.iter_mut().filter(|(table, _)| !self.inputs.contains(table)) {
            // Hooks need an order that does not depend on the evaluator.
            changed.insert.sort_unstable();
            changed.delete.sort_unstable();
        }
        Ok(delta)
    }

    /// Writes the derived rows of the evaluator.
    pub(crate) fn save(&mut self, to: &mut dyn Write) -> Result<(), String> {
        self.evaluator.save_derived(to)
    }

    /// Goes on from derived rows. Adds the rows of the targets, which follow from those of the sources and the memories.
    pub(crate) fn resume(
        &mut self,
        memories: &Memories,
        from: &mut Take<&mut dyn Read>,
        targets: &mut Vec<(TableId, Vec<Row>)>,
    ) -> Result<(), String> {
        self.evaluator.restore_derived(from)?;
        self.settled = true;
        let mut sources = Delta::default();
        for (wiring, _) in &self.hooks {
            let insert = self.evaluator.contents(wiring.from).map_err(|error| error.to_string())?;
            sources.tables.insert(wiring.from, TableDelta { insert, ..TableDelta::default() });
        }
        let mut changes = Transaction::default();
        self.update(&sources, None, memories, &mut changes).map_err(|error| error.to_string())?;
        self.done = Done::default();
        self.settle();
        targets.extend(
            self.hooks
                .iter()
                .map(|(wiring, _)| (wiring.to, changes.insert.remove(&wiring.to).unwrap_or_default())),
        );
        Ok(())
    }

    fn in_whole_program(&self, error: TransactionError) -> TransactionError {
        let rule = error.rule.and_then(|rule| self.rules.get(rule.0 as usize).copied());
        TransactionError { rule, ..error }
    }

    /// Does the maintenance of the evaluator.
    pub(crate) fn idle(&mut self) -> Result<(), CommitError> {
        self.evaluator.idle()
    }

    /// Compares a further part of the rows that its hooks depend on with the inputs.
    pub(crate) fn scrub(&mut self) -> Result<Scrubbed, CommitError> {
        self.evaluator.scrub()
    }

    /// Derives the rows that its hooks depend on again.
    pub(crate) fn derive_anew(&mut self) -> Result<(), CommitError> {
        self.evaluator.derive_anew().map(drop)
    }

    /// The transaction was accepted. The hooks can still undo it.
    pub(crate) fn accept(&mut self) {
        let done = std::mem::take(&mut self.done);
        self.settled |= done.committed.is_some();
    }

    /// The accepted transactions are permanent.
    pub(crate) fn settle(&mut self) {
        self.hooks.iter_mut().for_each(|(_, hook)| hook.accept());
    }

    /// Undoes the last accepted transaction, given its inverse together with the changes of all targets.
    pub(crate) fn revert(&mut self, inverse: &Transaction) -> Result<(), CommitError> {
        self.hooks.iter_mut().for_each(|(_, hook)| hook.undo());
        self.evaluator.commit(&inverse.part(&self.inputs)).map(drop)
    }

    /// Undoes the effects of a refused transaction on this stage.
    pub(crate) fn undo(&mut self, make: &Make<E>) -> Result<(), String> {
        let done = std::mem::take(&mut self.done);
        self.hooks.iter_mut().take(done.hooks).for_each(|(_, hook)| hook.undo());
        let Some(changes) = done.committed else { return Ok(()) };
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
        match self.evaluator.commit(&inverse) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("a refused transaction cannot be taken back: {error}")),
        }
    }
}
