//! The rows of input tables: which transaction inserted each, and how an engine computes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog::Program;
use nlog_data::{ColumnDelta, CommitError, Evaluator, Role, Row, TableId, Tables};
use nlog_dataflow::{Dataflow, Options};

/// The rows of the input tables, those of hooks included, each with the transaction that inserted it.
pub type Origins = BTreeMap<(TableId, Row), u64>;

/// Stands for the number of a transaction that is not known.
pub const UNKNOWN: u64 = 0;

/// An engine with the program's hooks that runs transactions for the sake of the input tables: it observes these alone.
///
/// # Errors
/// The engine does not start.
pub fn input_engine(program: &Arc<Program>) -> Result<Box<dyn Evaluator>, String> {
    dataflow(Arc::clone(program), Tables::These(input_tables(program).collect()))
}

/// An engine like [`input_engine`] that runs hooks, and no rules but those that hooks need: for rows that the rules have accepted already.
///
/// # Errors
/// The engine does not start.
pub fn hook_engine(program: &Arc<Program>) -> Result<Box<dyn Evaluator>, String> {
    let of_hooks = program.only(program.hooks.iter().map(|wiring| wiring.to).collect());
    dataflow(Arc::new(of_hooks), Tables::These(input_tables(program).collect()))
}

fn dataflow(program: Arc<Program>, observe: Tables) -> Result<Box<dyn Evaluator>, String> {
    let options = Options { workers: 1, observe, attribute: false, ..Options::default() };
    Ok(Box::new(Dataflow::new(program, options).map_err(|error| error.to_string())?))
}

/// The rows of the input tables in an engine that observes them, from transactions that are not known.
///
/// # Errors
/// The engine fails.
pub fn input_rows(program: &Program, engine: &mut dyn Evaluator) -> Result<Origins, CommitError> {
    let mut origins = Origins::new();
    for table in input_tables(program) {
        let rows = engine.contents(table)?;
        origins.extend(rows.into_iter().map(|row| ((table, row), UNKNOWN)));
    }
    Ok(origins)
}

/// Applies what a transaction changed in the rows of input tables.
pub fn follow(origins: &mut Origins, transaction: u64, delta: &ColumnDelta) {
    for (&table, changes) in &delta.to_rows().tables {
        for row in &changes.delete {
            origins.remove(&(table, row.clone()));
        }
        origins.extend(changes.insert.iter().map(|row| ((table, row.clone()), transaction)));
    }
}

fn input_tables(program: &Program) -> impl Iterator<Item = TableId> {
    program.schema.iter().filter(|(_, table)| table.role == Role::Input).map(|(id, _)| id)
}
