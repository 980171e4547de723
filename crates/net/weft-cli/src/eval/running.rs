//! An evaluator that runs transactions and can change to another program.

use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    ColumnDelta, CommitError, Delta, Evaluator, Role, Schema, Table, TableDelta, TableId, Tables,
    Transaction, TransactionError,
};
use nlog_dataflow::fused::{ChangeError, Profile};
use nlog_dataflow::{Dataflow, Options};
use nlog_reference::Reference;

/// An evaluator, with its way of changing rules.
pub(crate) enum Running {
    /// The engine, which computes only the effects of an edit.
    Dataflow(Box<Dataflow>, Options),
    /// The reference evaluator, which evaluates both programs and compares them.
    Reference(Box<Reference>),
    /// An evaluator whose rules cannot change.
    Fixed(Box<dyn Evaluator>),
}

/// Why the other evaluators change no rules. The reference evaluator changes those of programs without hooks.
const NO_EDITS: &str = "only the fused engine changes the rules of this program while it runs; run it without --reference and --engine";

/// Why the rules did not change.
pub(super) enum Unchanged {
    /// The edit is invalid, or the evaluator does not support edits.
    Rules(String),
    /// The rows derived by the new rules cause an error.
    Derived(TransactionError),
    /// The evaluator failed and must not be used again.
    Engine(String),
}

impl Running {
    /// The evaluator.
    pub(crate) fn evaluator(&mut self) -> &mut dyn Evaluator {
        match self {
            Running::Dataflow(dataflow, _) => dataflow.as_mut(),
            Running::Reference(reference) => reference.as_mut(),
            Running::Fixed(evaluator) => evaluator.as_mut(),
        }
    }

    /// The profile of the engine; other evaluators keep none.
    pub(crate) fn profile(&mut self) -> Result<Option<Profile>, CommitError> {
        match self {
            Running::Dataflow(dataflow, _) => dataflow.profile().map(Some),
            Running::Reference(_) | Running::Fixed(_) => Ok(None),
        }
    }

    /// Changes to another program, or with `dry_run` only reports the effect: the changes of the new program's
    /// observed tables, where new tables count with all their rows. `begun` tells whether the facts hold already.
    pub(super) fn change(
        &mut self,
        program: Arc<Program>,
        observe: Tables,
        dry_run: bool,
        begun: bool,
    ) -> Result<ColumnDelta, Unchanged> {
        match self {
            Running::Dataflow(dataflow, options) => {
                let options = Options { observe, ..options.clone() };
                let proposal = dataflow.propose(program, &options)?;
                let delta = proposal.delta();
                if !dry_run {
                    proposal.accept();
                }
                Ok(delta)
            }
            Running::Reference(_) if !program.hooks.is_empty() => Err(Unchanged::Rules(NO_EDITS.into())),
            Running::Reference(reference) => {
                let (next, delta) = evaluated_anew(reference, program, observe, begun)?;
                if !dry_run {
                    **reference = next;
                }
                ColumnDelta::from_rows(delta).map_err(|error| Unchanged::Engine(error.to_string()))
            }
            Running::Fixed(_) => Err(Unchanged::Rules(NO_EDITS.into())),
        }
    }
}

impl From<ChangeError> for Unchanged {
    fn from(error: ChangeError) -> Self {
        match error {
            ChangeError::Commit(error) => error.into(),
            error @ (ChangeError::Input { .. } | ChangeError::Filled { .. } | ChangeError::Processes) => {
                Unchanged::Rules(error.to_string())
            }
        }
    }
}

impl From<CommitError> for Unchanged {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Refused(error) => Unchanged::Derived(error),
            CommitError::Stopped(why) => Unchanged::Engine(why.to_string()),
            CommitError::Engine(why) => Unchanged::Engine(why),
        }
    }
}

/// Evaluates the new program over the current input rows, and returns how its tables differ from those of the old one.
fn evaluated_anew(
    old: &mut Reference,
    program: Arc<Program>,
    observe: Tables,
    begun: bool,
) -> Result<(Reference, Delta), Unchanged> {
    let former = Arc::clone(&old.program().schema);
    let schema = Arc::clone(&program.schema);
    let mut next = Reference::new(program, observe.clone());
    for (id, table) in former.iter().filter(|(_, table)| table.role == Role::Input) {
        let rows = old.rows(id).count();
        let other = schema.find(&table.name).map(|id| schema.table(id));
        if rows > 0 && other.is_some_and(|other| !same_form(table, other)) {
            return Err(ChangeError::Input { table: table.name.clone(), rows }.into());
        }
    }
    if !begun {
        return Ok((next, Delta::default()));
    }
    let mut inputs = Transaction::default();
    for (id, table) in schema.iter().filter(|(_, table)| table.role == Role::Input) {
        if let Some(before) = before(&former, table) {
            inputs.insert.insert(id, old.rows(before).cloned().collect());
        }
    }
    next.commit(&inputs)?;
    let mut delta = Delta::default();
    for (id, table) in schema.iter().filter(|(id, _)| observe.include(&schema, *id)) {
        let was = before(&former, table);
        let held = |row: &_| was.is_some_and(|was| old.holds(was, row));
        let insert: Vec<_> = next.rows(id).filter(|row| !held(row)).cloned().collect();
        let was = was.into_iter().flat_map(|was| old.rows(was));
        let delete: Vec<_> = was.filter(|row| !next.holds(id, row)).cloned().collect();
        if !(insert.is_empty() && delete.is_empty()) {
            delta.tables.insert(id, TableDelta { insert, delete, ..TableDelta::default() });
        }
    }
    Ok((next, delta))
}

/// The old table that continues as this one: both are inputs, or rules fill both.
fn before(former: &Schema, table: &Table) -> Option<TableId> {
    let found = former.find(&table.name)?;
    let was = former.table(found);
    ((was.role == Role::Input) == (table.role == Role::Input) && was.columns.len() == table.columns.len())
        .then_some(found)
}

/// Whether two input tables have rows of the same form.
fn same_form(one: &Table, other: &Table) -> bool {
    let types = |table: &Table| table.columns.iter().map(|column| column.ty.clone()).collect::<Vec<_>>();
    one.role == other.role && one.key == other.key && types(one) == types(other)
}
