//! The rules as a running engine whose input rows can be replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{Evaluator, ObjectKind, Role, Row, Schema, TableDelta, TableId, Tables, Transaction};
use nlog_dataflow::{Dataflow, Options};

use crate::rows::{LABELS, Rows};

/// Tables that say how the rules have divided work among hosts, and which addresses they have given: it is for them to choose.
const CHOICES: [&str; 6] = ["branch", "branch_leader", "dynamic_ip", "relay", "uses_tree", "watched_relay"];

/// Rows of output tables, by name.
pub type Contents = BTreeMap<String, BTreeSet<Row>>;

/// An engine and its input rows.
pub struct Derivation {
    engine: Dataflow,
    program: Arc<Program>,
    current: Rows,
}

impl Derivation {
    /// An engine without input rows. The hooks of label tables do not run, since worlds have the labels.
    ///
    /// # Errors
    /// The engine does not start.
    pub fn new(program: Arc<Program>) -> Result<Derivation, String> {
        let mut program = Program::clone(&program);
        let Program { schema, hooks, .. } = &mut program;
        hooks.retain(|wiring| !LABELS.contains(&schema.table(wiring.to).name.as_str()));
        let program = Arc::new(program);
        let observed = program.schema.iter().filter(|(id, table)| {
            table.role == Role::Output
                || CHOICES.contains(&table.name.as_str())
                || program.hook_of(*id).is_some()
        });
        let observe = Tables::These(observed.map(|(id, _)| id).collect());
        let options = Options { observe, ..Options::default() };
        let engine = Dataflow::new(Arc::clone(&program), options).map_err(|error| error.to_string())?;
        Ok(Derivation { engine, program, current: Rows::new() })
    }

    /// The kinds of objects of the rules.
    pub fn kinds(&self) -> &[ObjectKind] {
        &self.program.objects
    }

    /// The tables.
    pub fn schema(&self) -> &Schema {
        self.engine.schema()
    }

    /// Replaces the input rows in one transaction and returns the changes of the output tables and of those that say how work is
    /// divided; nothing if the rows are the same.
    ///
    /// # Errors
    /// The transaction is refused; the input rows then stay unchanged.
    pub fn replace(&mut self, rows: Rows) -> Result<Option<BTreeMap<TableId, TableDelta>>, String> {
        let transaction = self.difference(&rows);
        if transaction.is_empty() {
            return Ok(None);
        }
        let committed = self.engine.commit(&transaction).map_err(|error| error.to_string())?;
        self.current = rows;
        Ok(Some(committed.delta.tables))
    }

    /// The rows of the output tables.
    ///
    /// # Errors
    /// The engine fails.
    pub fn contents(&mut self) -> Result<Contents, String> {
        let tables = self.engine.schema().iter().filter(|(_, table)| table.role == Role::Output);
        self.rows(tables.map(|(id, table)| (id, table.name.clone())).collect())
    }

    /// The rows that hooks have given.
    ///
    /// # Errors
    /// The engine fails.
    pub fn given_by_hooks(&mut self) -> Result<Contents, String> {
        let tables = self.engine.schema().iter().filter(|(id, _)| self.program.hook_of(*id).is_some());
        self.rows(tables.map(|(id, table)| (id, table.name.clone())).collect())
    }

    fn rows(&mut self, outputs: Vec<(TableId, String)>) -> Result<Contents, String> {
        let mut contents = Contents::new();
        for (id, name) in outputs {
            let rows = self.engine.contents(id).map_err(|error| error.to_string())?;
            contents.insert(name, rows.into_iter().collect());
        }
        Ok(contents)
    }

    /// The transaction that leads from the current input rows to these. It ignores tables that the rules do not have.
    fn difference(&self, wanted: &Rows) -> Transaction {
        let mut transaction = Transaction::default();
        let (none, schema) = (BTreeSet::new(), self.engine.schema());
        let names: BTreeSet<&str> = self.current.keys().chain(wanted.keys()).copied().collect();
        for (name, id) in names.into_iter().filter_map(|name| Some((name, schema.find(name)?))) {
            let (old, new) = (self.current.get(name).unwrap_or(&none), wanted.get(name).unwrap_or(&none));
            let rows = |from: &BTreeSet<Row>, but: &BTreeSet<Row>| -> Vec<Row> {
                from.difference(but).cloned().collect()
            };
            let (delete, insert) = (rows(old, new), rows(new, old));
            if !delete.is_empty() {
                transaction.delete.insert(id, delete);
            }
            if !insert.is_empty() {
                transaction.insert.insert(id, insert);
            }
        }
        transaction
    }
}
