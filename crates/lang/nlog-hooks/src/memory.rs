//! Memories of hooks as JSON, and their reconstruction from recorded changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog::Program;
use nlog::hook::Wiring;
use nlog_data::json::{from_json, to_json};
use nlog_data::quotation::quote_text;
use nlog_data::{Column, Memories, Row, TableDelta, TableId, Value, no_memory};
use serde_json::Value as Json;

use crate::hook::Hook;
use crate::registry;

/// The memories of a program's hooks, followed without running the program.
pub struct Recorded {
    program: Arc<Program>,
    hooks: BTreeMap<String, (TableId, Box<dyn Hook>)>,
}

impl Recorded {
    /// The memories before the first transaction.
    pub fn new(program: &Arc<Program>) -> Self {
        let remembers = program.hooks.iter().filter(|wiring| wiring.hook.has_memory());
        let name = |table| program.schema.table(table).name.clone();
        let hooks = remembers.map(|wiring| (name(wiring.to), (wiring.to, registry::make(wiring))));
        Recorded { hooks: hooks.collect(), program: Arc::clone(program) }
    }

    /// Whether a hook that remembers fills this table.
    pub fn has(&self, table: &str) -> bool {
        self.hooks.contains_key(table)
    }

    /// Replaces a memory.
    ///
    /// # Errors
    /// The memory does not fit the hook of this table, or there is none.
    pub fn restore(&mut self, table: &str, memory: &Json) -> Result<(), String> {
        let (target, hook) = self.hooks.get_mut(table).ok_or_else(|| no_memory(table).message)?;
        let target = self.program.schema.table(*target);
        hook.restore(memory, target).map_err(|why| misfit(table, &why))?;
        hook.accept();
        Ok(())
    }

    /// Follows recorded changes of a table that a hook fills, in the order in which the hook made them, and returns them.
    ///
    /// # Errors
    /// The rows do not fit the table, or the hook cannot have made these changes.
    pub fn follow(
        &mut self,
        table: &str,
        delete: &[Vec<Json>],
        insert: &[Vec<Json>],
    ) -> Result<(TableId, TableDelta), String> {
        let (target, hook) = self.hooks.get_mut(table).ok_or_else(|| no_memory(table).message)?;
        let columns = &self.program.schema.table(*target).columns;
        let rows = |rows: &[Vec<Json>]| -> Result<Vec<Row>, String> {
            rows.iter().map(|cells| row(cells, columns)).collect()
        };
        let mut follow = || -> Result<_, String> {
            let change = TableDelta { insert: rows(insert)?, delete: rows(delete)?, ..TableDelta::default() };
            hook.follow(&change)?;
            Ok((*target, change))
        };
        follow().map_err(|why| misfit(table, &why))
    }

    /// The memories.
    pub fn memories(&self) -> Memories {
        let memories = self.hooks.iter().map(|(table, (_, hook))| Some((table.clone(), hook.memory()?)));
        memories.flatten().collect()
    }
}

impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorded").field("tables", &self.hooks.keys()).finish_non_exhaustive()
    }
}

/// The member of the memory of a timed hook with the last tick.
const NOW: &str = "now";

/// Takes the last tick, which is common to all hooks, out of their memories.
pub fn take_now(memories: &mut Memories) -> Option<u64> {
    let objects = memories.values_mut().filter_map(|memory| memory.as_object_mut());
    objects.filter_map(|memory| memory.remove(NOW)?.as_u64()).max()
}

/// The memory of a timed hook together with the last tick.
fn with_now(mut memory: Json, now: Option<u64>) -> Json {
    if let (Some(now), Some(memory)) = (now, memory.as_object_mut()) {
        memory.insert(NOW.to_owned(), now.into());
    }
    memory
}

/// What the hooks of a program remember, by the names of their tables, with the last tick.
pub fn of_hooks<'a>(
    program: &Program,
    hooks: impl Iterator<Item = (&'a Wiring, &'a dyn Hook)>,
    now: Option<u64>,
) -> Memories {
    let remembered = hooks.filter_map(|(wiring, hook)| {
        let memory = hook.memory()?;
        let memory = if wiring.hook.is_timed() { with_now(memory, now) } else { memory };
        Some((program.schema.table(wiring.to).name.clone(), memory))
    });
    remembered.collect()
}

/// Why a memory is refused.
pub fn misfit(table: &str, why: &str) -> String {
    format!("the memory of the hook that fills table {} does not fit: {why}", quote_text(table))
}

/// Reads a row of these columns.
pub(crate) fn row(cells: &[Json], columns: &[Column]) -> Result<Row, String> {
    if cells.len() != columns.len() {
        return Err(format!("a row has {} values instead of {}", cells.len(), columns.len()));
    }
    let read = |(cell, column): (&Json, &Column)| {
        from_json(cell, &column.ty).map_err(|why| format!("column {}: {why}", quote_text(&column.name)))
    };
    cells.iter().zip(columns).map(read).collect()
}

/// A row as JSON.
pub(crate) fn cells(row: &[Value]) -> Vec<Json> {
    row.iter().map(to_json).collect()
}
