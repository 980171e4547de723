//! The fused engine: all rules in their static order over differential's traces, outside timely.
//!
//! A transaction pays for the rules that it touches, not for those that the program has; an idle engine pays nothing.
//! Traces, batches, builders, cursors and merging are differential's. How it works, with the measurements that led to
//! it, is in ARCHITECTURE.md; the ideas are those of delta joins (`half_join` in differential-dogs3) and of shared
//! arrangements (McSherry and others, VLDB 2020).
//!
//! In reading order: [`trace`] (pairs with counts, and what a transaction stages beside them), [`delta`] (rows that come
//! and go), [`index`], [`pipeline`] (changed rows of one atom to rows of the head), [`groups`] (aggregates),
//! [`relation`] (rows to sets), [`engine`] (one transaction), [`inputs`] (what transactions may do), [`output`] (words
//! to values).

mod delta;
mod engine;
mod groups;
mod index;
mod inputs;
mod output;
mod pipeline;
mod relation;
mod trace;

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog::Program;
use nlog_data::{
    ColumnDelta, ColumnTransaction, Columns, CommitError, Committed, CommittedColumns, Delta as ValueDelta,
    Evaluator, Role, Row as ValueRow, RuleId, Schema, TableId, Transaction, TransactionError,
};
use nlog_plan::Settings;
use nlog_plan::query::{Plan, RelationId};

use crate::dataflow::Options;
use crate::symbol::{Marks, Symbols};
use delta::Delta;
use engine::{Refusal, State};
use inputs::{Changes, Inputs};
use output::Output;

/// Symbols are looked through once there are so many new ones, at least.
const NEW_SYMBOLS: usize = 1 << 14;

/// A program as a running engine.
pub struct Engine {
    state: State,
    inputs: Inputs,
    attribute: bool,
    /// Whether facts are true: from the first accepted transaction on.
    facts: bool,
    /// How many symbols there are when it is time to look which are needed.
    symbols_limit: usize,
    /// Why nothing works any more.
    broken: Option<String>,
}

impl Engine {
    /// Plans the program.
    pub fn new(program: Arc<Program>, options: &Options, settings: &Settings) -> Self {
        let ids = program.schema.iter().map(|(id, _)| id);
        let wanted: BTreeSet<TableId> =
            ids.filter(|id| options.observe.include(&program.schema, *id)).collect();
        let plan = Arc::new(Plan::new(Arc::clone(&program), &wanted, settings));
        let symbols = Arc::new(Symbols::new());
        Engine {
            inputs: Inputs::new(Arc::clone(&program.schema)),
            state: State::new(plan, symbols, options.attribute),
            attribute: options.attribute,
            facts: false,
            symbols_limit: NEW_SYMBOLS,
            broken: None,
        }
    }

    /// The plan that is run.
    pub fn plan(&self) -> &Plan {
        &self.state.plan
    }

    /// The program that is run.
    pub fn program(&self) -> &Arc<Program> {
        &self.state.plan.program
    }

    /// Runs changes of input tables, whose rows are stored already, up to what is reported; whatever comes of them is
    /// staged and waits for [`State::end`].
    fn derive(&mut self, changes: &Changes) -> Result<Vec<Output>, Refusal> {
        if !self.facts {
            self.state.state_facts();
        }
        for (table, delta) in &changes.tables {
            if self.state.plan.relations[table.0 as usize].needed {
                self.state.change(RelationId(table.0), delta.clone())?;
            }
        }
        self.state.propagate()?;
        let plan = Arc::clone(&self.state.plan);
        let mut outputs = Vec::new();
        for (id, delta, report) in self.state.take_changed() {
            let relation = &plan.relations[id.0 as usize];
            let Some(table) = relation.table.filter(|_| relation.wanted) else { continue };
            if plan.program.schema.table(table).role == Role::Input {
                continue;
            }
            let only = self.only_rule(table).filter(|_| self.attribute);
            outputs.push(Output::of_relation(table, delta, report, only));
        }
        for (table, delta) in &changes.tables {
            if plan.relations[table.0 as usize].wanted {
                outputs.push(Output::of_input(*table, delta.clone()));
            }
        }
        outputs.sort_unstable_by_key(|output| output.table);
        Ok(outputs)
    }

    /// The rule of all rows of a table, if it has only one.
    fn only_rule(&self, table: TableId) -> Option<RuleId> {
        let mut rules = self.state.plan.program.rules_of(table).map(|(rule, _)| rule);
        match (rules.next(), rules.next()) {
            (Some(rule), None) => Some(rule),
            _ => None,
        }
    }

    /// Takes changes through the rules: what is reported, or why they are refused, after which all is as before.
    fn run(&mut self, changes: Changes) -> Result<(Vec<Output>, Changes), CommitError> {
        let derived =
            if changes.tables.is_empty() && self.facts { Ok(Vec::new()) } else { self.derive(&changes) };
        self.state.end(derived.is_ok());
        match derived {
            Ok(outputs) => {
                self.facts = true;
                Ok((outputs, changes))
            }
            Err(refusal) => {
                self.inputs.undo(&changes);
                Err(match refusal {
                    Refusal::Derived(error) => error.to_transaction_error(self.schema()).into(),
                    Refusal::TooMany(relation) => {
                        let name = &self.state.plan.relations[relation.0 as usize].name;
                        CommitError::Engine(format!(
                            "rows of {name} are derived in more than 2147483647 ways; the rules that derive them \
                             have a product in them that wants a table of its own"
                        ))
                    }
                })
            }
        }
    }

    fn is_sound(&self) -> Result<(), CommitError> {
        self.broken.clone().map_or(Ok(()), |why| Err(CommitError::Engine(why)))
    }

    /// Gives symbols back that nothing holds any more, once there are as many new ones as there were old ones.
    fn collect_symbols(&mut self) {
        if self.state.symbols.len() < self.symbols_limit {
            return;
        }
        let mut marks = Marks::default();
        self.inputs.symbols(&mut |symbol| marks.symbol(symbol));
        self.state.mark(&mut marks);
        self.state.symbols.sweep(&marks);
        let left = self.state.symbols.len();
        self.symbols_limit = left + left.max(NEW_SYMBOLS);
    }

    /// Input rows of a transaction, each as words.
    fn apply_columns(&mut self, transaction: &ColumnTransaction) -> Result<Changes, TransactionError> {
        let schema = Arc::clone(&self.state.plan.program.schema);
        let touched: BTreeSet<TableId> =
            transaction.delete.keys().chain(transaction.insert.keys()).copied().collect();
        let mut changes = Changes::default();
        for id in touched {
            let fits = |columns: Option<&Columns>| {
                columns.is_none_or(|columns| {
                    schema.get(id).is_some_and(|table| {
                        table.role == Role::Input
                            && (columns.is_empty() || columns.width() == table.columns.len())
                    })
                })
            };
            let (delete, insert) = (transaction.delete.get(&id), transaction.insert.get(&id));
            if !fits(delete) || !fits(insert) {
                // The plain way says what is wrong.
                self.inputs.undo(&changes);
                return self.inputs.apply(&transaction.to_rows(), &self.state.symbols);
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
        Ok(changes)
    }

    fn rows(&mut self, table: TableId) -> Result<Delta, CommitError> {
        self.is_sound()?;
        let schema = Arc::clone(&self.state.plan.program.schema);
        let relation = self.state.plan.relations.get(table.0 as usize);
        if relation.is_none_or(|relation| !relation.wanted)
            && schema.get(table).is_none_or(|table| table.role != Role::Input)
        {
            let name = schema.get(table).map_or("", |table| table.name.as_str());
            return Err(CommitError::Engine(format!(
                "table {name} is not among those that the engine was asked for"
            )));
        }
        let inputs = &self.inputs;
        if !self.facts && schema.table(table).role != Role::Input {
            return Ok(Delta::new(schema.table(table).columns.len()));
        }
        self.state.rows(RelationId(table.0), &|table| inputs.rows(table)).map_err(|_| {
            CommitError::Engine("rows of a table are derived too often to be counted".to_owned())
        })
    }
}

impl Evaluator for Engine {
    fn schema(&self) -> &Schema {
        &self.state.plan.program.schema
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        let changes = self.inputs.apply(transaction, &self.state.symbols)?;
        self.inputs.undo(&changes);
        Ok(())
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.is_sound()?;
        let changes = self.inputs.apply(transaction, &self.state.symbols)?;
        let (outputs, changes) = self.run(changes)?;
        let mut delta = ValueDelta::default();
        for output in outputs {
            let table = output.table;
            if let Some(changed) = output.into_rows(&self.state.symbols) {
                delta.tables.insert(table, changed);
            }
        }
        self.collect_symbols();
        Ok(Committed {
            delta,
            redundant_inserts: changes.redundant_inserts,
            redundant_deletes: changes.redundant_deletes,
        })
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<ValueRow>, CommitError> {
        let rows = self.rows(table)?;
        Ok(output::to_rows(&rows, &self.state.symbols))
    }

    fn commit_columns(&mut self, transaction: &ColumnTransaction) -> Result<CommittedColumns, CommitError> {
        self.is_sound()?;
        let changes = self.apply_columns(transaction)?;
        let (outputs, changes) = self.run(changes)?;
        let mut delta = ColumnDelta::default();
        for output in outputs {
            let table = output.table;
            if let Some(changed) = output.into_columns(&self.state.symbols) {
                delta.tables.insert(table, changed);
            }
        }
        self.collect_symbols();
        Ok(CommittedColumns {
            delta,
            redundant_inserts: changes.redundant_inserts,
            redundant_deletes: changes.redundant_deletes,
        })
    }

    fn contents_columns(&mut self, table: TableId) -> Result<Columns, CommitError> {
        let rows = self.rows(table)?;
        Ok(output::columns_of(&rows, &self.state.symbols).into_ascending())
    }
}
