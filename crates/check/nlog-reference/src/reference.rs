//! Runs transactions: recomputes all tables and returns the differences.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    CommitError, Committed, Delta, DerivedCause, DerivedError, DerivedErrors, Evaluator, Inputs,
    MOST_FORBIDDEN, Role, Row, RuleId, Schema, Table, TableDelta, TableId, Tables, Transaction,
    TransactionError,
};

use nlog_explain::{Contents, OnDemand, derive};

/// The reference evaluator.
#[derive(Debug)]
pub struct Reference {
    program: Arc<Program>,
    tables: Tables,
    attribution: bool,
    inputs: Inputs,
    contents: Contents,
}

impl Reference {
    /// Evaluates a program, reporting the changes of these tables.
    ///
    /// The program's facts hold from the first transaction on, and its delta includes their consequences. A program
    /// whose facts cause an error refuses every transaction.
    pub fn new(program: Arc<Program>, tables: Tables) -> Self {
        let inputs = Inputs::new(program.schema.clone());
        let contents = vec![BTreeMap::new(); program.schema.len()];
        Reference { program, tables, attribution: false, inputs, contents }
    }

    /// Also attributes each derived row to a rule: among those that derive it, the one with the least fingerprint.
    pub fn with_attribution(self) -> Self {
        Reference { attribution: true, ..self }
    }

    /// The program that is run.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The rows of a table, ascending.
    pub fn rows(&self, table: TableId) -> impl Iterator<Item = &Row> {
        self.contents.get(table.0 as usize).into_iter().flat_map(BTreeMap::keys)
    }

    /// Whether the row is there.
    pub fn holds(&self, table: TableId, row: &Row) -> bool {
        self.contents.get(table.0 as usize).is_some_and(|rows| rows.contains_key(row))
    }

    /// The same state, which explains its rows.
    pub fn on_demand(&self) -> OnDemand {
        let schema = &self.program.schema;
        let inputs = schema.iter().filter(|(_, table)| table.role == Role::Input);
        let rows = inputs.flat_map(|(id, _)| self.rows(id).map(move |row| (id, row.clone())));
        OnDemand::new(Arc::clone(&self.program), rows)
    }

    /// All tables for the current inputs, or the errors to report.
    fn recompute(&self) -> Result<Contents, DerivedErrors> {
        let schema = &self.program.schema;
        let mut contents: Contents = schema
            .iter()
            .map(|(id, _)| self.inputs.contents(id).into_iter().map(|row| (row, None)).collect())
            .collect();
        let mut errors = Vec::new();
        for id in &self.program.order {
            if schema.table(*id).role == Role::Input {
                continue;
            }
            let mut rows: BTreeMap<Row, Option<RuleId>> = BTreeMap::new();
            // Rules are in order of fingerprint: a row is attributed to the first rule that derives it.
            for (rule_id, rule) in self.program.rules_of(*id) {
                let derived = derive(rule, &contents);
                for row in derived.rows {
                    rows.entry(row).or_insert(Some(rule_id));
                }
                errors.extend(derived.failure.map(|failure| DerivedError {
                    table: schema.shown(*id),
                    cause: DerivedCause::Failure { failure, rule: rule_id },
                }));
            }
            errors.extend(key_conflict(*id, schema, rows.keys()));
            errors.extend(forbidden(*id, schema.table(*id), &rows));
            contents[id.0 as usize] = rows;
        }
        DerivedErrors::of(errors).map_or(Ok(contents), Err)
    }

    /// The changes of the requested tables.
    fn difference(&self, new: &Contents) -> Delta {
        let mut delta = Delta::default();
        for (id, table) in self.program.schema.iter() {
            if !self.tables.include(&self.program.schema, id) {
                continue;
            }
            let attributed = self.attribution && table.role != Role::Input;
            let changes = table_difference(&self.contents[id.0 as usize], &new[id.0 as usize], attributed);
            if changes != TableDelta::default() {
                delta.tables.insert(id, changes);
            }
        }
        delta
    }
}

fn table_difference(
    old: &BTreeMap<Row, Option<RuleId>>,
    new: &BTreeMap<Row, Option<RuleId>>,
    attributed: bool,
) -> TableDelta {
    let mut delta = TableDelta::default();
    for (row, rule) in new {
        match (old.get(row), rule) {
            (None, rule) => {
                delta.insert.push(row.clone());
                delta.rules.extend(rule.filter(|_| attributed));
            }
            (Some(before), Some(rule)) if attributed && *before != Some(*rule) => {
                delta.reattributed.push((row.clone(), *rule));
            }
            _ => {}
        }
    }
    delta.delete = old.keys().filter(|row| !new.contains_key(*row)).cloned().collect();
    delta
}

/// The rows of a table that forbids them.
fn forbidden(id: TableId, table: &Table, rows: &BTreeMap<Row, Option<RuleId>>) -> Option<DerivedError> {
    if table.role != Role::Forbid || rows.is_empty() {
        return None;
    }
    let least = rows.keys().take(MOST_FORBIDDEN).cloned().collect();
    Some(DerivedError { table: id, cause: DerivedCause::Forbidden { rows: least, count: rows.len() } })
}

/// The least two rows with the same key.
fn key_conflict<'a>(
    id: TableId,
    schema: &Schema,
    rows: impl Iterator<Item = &'a Row>,
) -> Option<DerivedError> {
    let mut by_key: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        by_key.entry(schema.table(id).key_of(row)?).or_default().push(row);
    }
    // Rows are ascending, so those of each key are ascending too.
    let conflicts = by_key.into_values().filter_map(|rows| match rows.as_slice() {
        [first, second, ..] => {
            Some(DerivedError::key_conflict(schema, id, (*first).clone(), (*second).clone()))
        }
        _ => None,
    });
    conflicts.min()
}

impl Evaluator for Reference {
    fn schema(&self) -> &Schema {
        &self.program.schema
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.inputs.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        let changes = self.inputs.apply(transaction)?;
        let new = match self.recompute() {
            Ok(new) => new,
            Err(errors) => {
                self.inputs.undo(changes);
                return Err(errors.to_transaction_error(&self.program.schema).into());
            }
        };
        let delta = self.difference(&new);
        self.contents = new;
        Ok(Committed {
            delta,
            redundant_inserts: changes.redundant_inserts,
            redundant_deletes: changes.redundant_deletes,
        })
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<Row>, CommitError> {
        let rows = self.contents.get(table.0 as usize);
        Ok(rows.map(|rows| rows.keys().cloned().collect()).unwrap_or_default())
    }
}
