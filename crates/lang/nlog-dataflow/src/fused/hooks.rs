//! Hooks in the middle of a transaction: from the changes of their sources to the changes of the tables that they fill.
//!
//! A table that a hook fills is one level above the hook's source. When a transaction reaches that level, worker 0 passes
//! the changes of the source to the hook and changes the table as the hook answers. Rules behind it see the rows of the
//! same transaction. A refusal, and [`Evaluator::undo`](nlog_data::Evaluator::undo), take the hook back as well.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog::Program;
use nlog::hook::Wiring;
use nlog_data::{
    ErrorCode, Memories, Row as ValueRow, Schema, TableDelta, TableId, Transaction, TransactionError, inputs,
};
use nlog_hooks::{Hook, memory, refusal, registry};

use super::delta::Delta;
use super::inputs::{Changes, Inputs};
use super::output;
use super::profile::HookProfile;
use crate::symbol::Symbols;

/// The hooks of a program. Worker 0 has them.
pub(crate) struct Hooks {
    program: Arc<Program>,
    /// In the order of [`Program::hooks`].
    all: Vec<Box<dyn Hook>>,
    /// The last tick.
    now: Option<u64>,
    /// The memories that the next transaction restores.
    restoring: Memories,
    /// The accepted transactions that can be undone, oldest first. `None` before the first checkpoint.
    past: Option<Vec<Past>>,
    running: Running,
}

/// What hooks do in the running transaction.
#[derive(Default)]
struct Running {
    tick: Option<u64>,
    /// The memories to restore, and their last tick.
    memories: Memories,
    restored_now: Option<u64>,
    /// The hooks that were told changes.
    told: Vec<usize>,
    /// In an edit of rules, the hooks that see their sources for the first time.
    fresh: BTreeSet<usize>,
    /// The changes of the tables that hooks fill, as rows and as words.
    rows: Transaction,
    words: Changes,
}

/// What an accepted transaction changed by hooks.
struct Past {
    told: Vec<usize>,
    rows: Transaction,
    /// The last tick before it.
    now: Option<u64>,
}

/// The hooks that go on in another program: their places before and after.
#[derive(Default)]
pub(crate) struct Moved(Vec<(usize, usize)>);

/// The hooks at work in a transaction.
pub(crate) struct Filling<'a> {
    pub(crate) hooks: &'a mut Hooks,
    /// The inputs, which an edit of rules reads meanwhile.
    pub(crate) inputs: &'a RefCell<&'a mut Inputs>,
    pub(crate) symbols: &'a Symbols,
}

impl Hooks {
    pub(crate) fn new(program: &Arc<Program>) -> Self {
        Hooks {
            all: program.hooks.iter().map(registry::make).collect(),
            program: Arc::clone(program),
            now: None,
            restoring: Memories::new(),
            past: None,
            running: Running::default(),
        }
    }

    fn wirings(&self) -> impl Iterator<Item = (&Wiring, &dyn Hook)> {
        self.program.hooks.iter().zip(self.all.iter().map(|hook| &**hook))
    }

    fn name(&self, table: TableId) -> &str {
        &self.program.schema.table(table).name
    }

    pub(crate) fn profile(&self) -> Vec<HookProfile> {
        let of_hook = |(wiring, hook): (&Wiring, &dyn Hook)| HookProfile {
            table: self.name(wiring.to).to_owned(),
            work: hook.work(),
        };
        self.wirings().map(of_hook).collect()
    }

    /// Whether a hook of the program depends on ticks.
    pub(crate) fn are_timed(&self) -> bool {
        self.program.hooks.iter().any(|wiring| wiring.hook.is_timed())
    }

    /// The first of these tables, which are ascending, that a hook fills, and the refusal of changes of it.
    pub(crate) fn refuses(
        &self,
        mut tables: impl Iterator<Item = TableId>,
    ) -> Option<(TableId, TransactionError)> {
        let wiring = tables.find_map(|table| self.program.hook_of(table))?;
        Some((wiring.to, refusal::changes_filled_table(&self.program, wiring)))
    }

    /// The hooks of another program, which has the tables `continued` of this one by name. A hook that reads and fills the same tables
    /// goes on. Another one gets what a hook of its kind for the same table remembers here, if that fits it, and sees all
    /// rows of its source.
    pub(crate) fn change(
        &mut self,
        program: &Arc<Program>,
        continued: &dyn Fn(TableId) -> Option<TableId>,
    ) -> (Hooks, Moved) {
        let mut next = Hooks::new(program);
        next.now = self.now;
        next.past = self.past.as_ref().map(|_| Vec::new());
        let (schema, mut moved) = (&self.program.schema, Moved::default());
        for (at, wiring) in program.hooks.iter().enumerate() {
            let table = program.schema.table(wiring.to);
            let mut former = self.program.hooks.iter().enumerate();
            let former = former
                .find(|(_, former)| former.hook == wiring.hook && schema.table(former.to).name == table.name);
            let Some((before, former)) = former else {
                next.running.fresh.insert(at);
                continue;
            };
            if former.text(schema) == wiring.text(&program.schema)
                && continued(wiring.from) == Some(former.from)
            {
                std::mem::swap(&mut self.all[before], &mut next.all[at]);
                moved.0.push((before, at));
                continue;
            }
            next.running.fresh.insert(at);
            if let Some(memory) = self.all[before].memory() {
                // A memory that does not fit is no use to it.
                let _ = next.all[at].restore(&memory, table);
            }
        }
        (next, moved)
    }

    /// Returns the hooks that went on in another program.
    pub(crate) fn change_back(&mut self, mut other: Hooks, moved: Moved) {
        for (before, after) in moved.0 {
            std::mem::swap(&mut self.all[before], &mut other.all[after]);
        }
    }

    /// The hooks that see their sources for the first time.
    pub(crate) fn fresh(&self) -> Vec<usize> {
        self.running.fresh.iter().copied().collect()
    }

    /// Begins an advance of time. A tick earlier than the last accepted one is refused.
    pub(crate) fn tick(&mut self, now_ms: u64) -> Result<(), TransactionError> {
        refusal::check_tick(now_ms, self.now).inspect_err(|_| self.restoring.clear())?;
        self.running.tick = Some(now_ms);
        Ok(())
    }

    /// Begins a transaction. Returns the hooks that work even if their sources do not change.
    pub(crate) fn begin(&mut self) -> Vec<usize> {
        self.running.memories.append(&mut self.restoring);
        self.running.restored_now = memory::take_now(&mut self.running.memories);
        let (running, schema) = (&self.running, &self.program.schema);
        let is_due = |wiring: &Wiring| {
            running.tick.is_some() && wiring.hook.is_timed()
                || running.memories.contains_key(&schema.table(wiring.to).name)
        };
        let due = self.program.hooks.iter().enumerate().filter(|(_, wiring)| is_due(wiring));
        due.map(|(hook, _)| hook).collect()
    }

    /// Ends the running transaction.
    pub(crate) fn end(&mut self, accepted: bool, inputs: &mut Inputs) {
        if !accepted {
            self.take_back(inputs);
            self.running = Running::default();
            return;
        }
        let Running { tick, restored_now, told, rows, .. } = std::mem::take(&mut self.running);
        let before = self.now;
        self.now = before.max(restored_now).max(tick);
        match &mut self.past {
            Some(past) => past.push(Past { told, rows, now: before }),
            None => told.into_iter().for_each(|hook| self.all[hook].accept()),
        }
    }

    /// Takes back what hooks did in the running transaction, which may run again.
    pub(crate) fn take_back(&mut self, inputs: &mut Inputs) {
        for hook in std::mem::take(&mut self.running.told) {
            self.all[hook].undo();
        }
        inputs.undo(&std::mem::take(&mut self.running.words));
        self.running.rows = Transaction::default();
    }

    /// Forgets the memories that the next transaction was to restore.
    pub(crate) fn forget_restoring(&mut self) {
        self.restoring.clear();
    }

    /// The changes of the tables that hooks fill in the running transaction.
    pub(crate) fn changes(&self) -> &BTreeMap<TableId, Delta> {
        &self.running.words.tables
    }

    /// The same, as rows.
    pub(crate) fn filled(&self) -> &Transaction {
        &self.running.rows
    }

    pub(crate) fn checkpoint(&mut self) {
        self.past = Some(Vec::new());
        self.all.iter_mut().for_each(|hook| hook.accept());
    }

    /// Takes the hooks back to before the last accepted transaction, which had these rows of its own. Returns the
    /// transaction that undoes it; `None` if there is none to undo.
    pub(crate) fn undo(&mut self, transaction: &Transaction) -> Option<Transaction> {
        let Past { told, mut rows, now } = self.past.as_mut()?.pop()?;
        for hook in told {
            self.all[hook].undo();
        }
        self.now = now;
        rows.insert.extend(transaction.insert.iter().map(|(table, rows)| (*table, rows.clone())));
        rows.delete.extend(transaction.delete.iter().map(|(table, rows)| (*table, rows.clone())));
        Some(rows.inverse())
    }

    /// What the hooks remember, by the names of their tables.
    pub(crate) fn memories(&self) -> Memories {
        memory::of_hooks(&self.program, self.wirings(), self.now)
    }

    /// Lets the next transaction restore memories.
    pub(crate) fn restore(&mut self, memories: &Memories) -> Result<(), TransactionError> {
        refusal::check_memories(&self.program, memories)?;
        self.restoring.extend(memories.clone());
        Ok(())
    }

    /// Hooks that have the memories that were to be restored, and these rows of their sources. Fails if they then fill
    /// their tables otherwise than these inputs say.
    pub(crate) fn resume(
        &self,
        sources: &mut dyn FnMut(TableId) -> Result<Vec<ValueRow>, String>,
        targets: &dyn Fn(TableId) -> Vec<ValueRow>,
    ) -> Result<Hooks, String> {
        let mut resumed = Hooks::new(&self.program);
        let mut memories = self.restoring.clone();
        resumed.now = memory::take_now(&mut memories);
        for (wiring, hook) in self.program.hooks.iter().zip(&mut resumed.all) {
            let target = self.program.schema.table(wiring.to);
            if let Some(memory) = memories.get(&target.name) {
                hook.restore(memory, target).map_err(|why| memory::misfit(&target.name, &why))?;
            }
            let source = TableDelta { insert: sources(wiring.from)?, ..TableDelta::default() };
            let filled = hook.update(&source, None).map_err(|why| format!("table {}: {why}", target.name))?;
            hook.accept();
            // Checksums cover the rows and the memories, so a difference would be a mistake of a hook.
            if cfg!(debug_assertions) && filled.insert != targets(wiring.to) {
                return Err(format!(
                    "the saved rows of table {} are not those that its hook derives from its memory",
                    target.name
                ));
            }
        }
        Ok(resumed)
    }
}

impl Filling<'_> {
    /// Passes the changes of a hook's source to the hook. Returns the changes of the table that it fills.
    pub(crate) fn fill(&mut self, hook: usize, source: &Delta) -> Result<Delta, TransactionError> {
        let Filling { hooks, inputs, symbols } = self;
        let Hooks { program, all, running, .. } = &mut **hooks;
        let (wiring, hook_of) = (&program.hooks[hook], &mut all[hook]);
        let target = program.schema.table(wiring.to);
        if let Some(memory) = running.memories.get(&target.name) {
            hook_of.restore(memory, target).map_err(|why| {
                TransactionError::new(ErrorCode::TypeMismatch, memory::misfit(&target.name, &why))
            })?;
        }
        // A hook that fails must be taken back too.
        running.told.push(hook);
        let mut filled =
            hook_of.update(&output::changes_of(source, symbols), running.tick).map_err(|why| {
                TransactionError::new(ErrorCode::Range, format!("table {}: {why}", target.name))
            })?;
        let mut inputs = inputs.borrow_mut();
        if running.fresh.contains(&hook) {
            // Another hook may have filled the table before.
            let present = output::to_rows(&inputs.rows(wiring.to), symbols);
            let wanted = std::mem::take(&mut filled.insert);
            filled.delete =
                present.iter().filter(|row| wanted.binary_search(row).is_err()).cloned().collect();
            filled.insert = wanted.into_iter().filter(|row| present.binary_search(row).is_err()).collect();
        }
        let changed = change(&program.schema, wiring.to, &filled, &mut inputs, symbols, &mut running.words)?;
        if !filled.insert.is_empty() {
            running.rows.insert.insert(wiring.to, filled.insert);
        }
        if !filled.delete.is_empty() {
            running.rows.delete.insert(wiring.to, filled.delete);
        }
        Ok(changed)
    }

    /// Whether a hook sees its source for the first time, and so must be told all rows of it.
    pub(crate) fn is_fresh(&self, hook: usize) -> bool {
        self.hooks.running.fresh.contains(&hook)
    }
}

/// Changes a table in the inputs as a hook says.
fn change(
    schema: &Schema,
    table: TableId,
    filled: &TableDelta,
    inputs: &mut Inputs,
    symbols: &Symbols,
    changes: &mut Changes,
) -> Result<Delta, TransactionError> {
    inputs::check_form(schema, table, filled.delete.iter().chain(&filled.insert))?;
    let width = schema.table(table).columns.len();
    let words = |rows: &[ValueRow]| {
        let mut words = Delta::new(width);
        for row in rows {
            words.push_words(row.iter().map(|value| symbols.intern(value)), 1);
        }
        words
    };
    inputs.apply_to_table(table, &words(&filled.delete), &words(&filled.insert), changes, symbols)?;
    Ok(changes.tables.get(&table).cloned().unwrap_or_else(|| Delta::new(width)))
}
