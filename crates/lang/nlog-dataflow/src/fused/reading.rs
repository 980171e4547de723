//! Reads the rows of relations, for callers and for edits of rules.
//!
//! Rows come from wherever they are stored: input tables, counts, or an index that has all rows with all columns. Rows
//! that are stored nowhere are derived again, by running the rules of the relation over all rows.

use nlog_data::{CommitError, Committed, Delta as ValueDelta, Role, TableId};
use nlog_plan::query::{Joins, RelationId};

use super::core::Core;
use super::delta::{Delta, Diff, TooMany};
use super::engine::{State, one_row};
use super::errors::Refusal;
use super::flow::Context;
use super::index::Fit;
use super::output::Output;
use super::pipeline::Pipeline;
use super::placement::Moves;
use super::relation::{Attributed, Relation};
use super::trace::View;
use super::watched::WatchedRows;
use super::workers::Changed;
use crate::symbol::Symbol;

impl Core {
    /// The rows of the requested tables that are `wanted`, as a transaction that inserts all of them:
    /// [`Evaluator::present_rows`](nlog_data::Evaluator::present_rows). Only one worker has all rows.
    pub(crate) async fn present_rows(
        &mut self,
        wanted: &dyn Fn(TableId) -> bool,
    ) -> Result<Committed, CommitError> {
        self.guarded(async |engine| {
            engine.work_alone().await?;
            engine.phase = "reading all rows";
            // Values that it computes are in use nowhere.
            engine.gone = true;
            let mut changed = Changed::new();
            if engine.facts {
                let inputs = &engine.inputs;
                let present = engine.state.present(wanted, &|table| inputs.rows(table));
                changed = present.map_err(|refusal| refusal.into_error(&engine.state.plan))?;
            }
            Ok(engine.all_inserted(changed, wanted))
        })
        .await
    }

    /// All rows of derived tables, and those of the inputs that are `wanted`, as values.
    pub(super) fn all_inserted(&self, derived: Changed, wanted: &dyn Fn(TableId) -> bool) -> Committed {
        let mut outputs = self.outputs(derived);
        for table in self.schema_inputs().into_iter().filter(|table| wanted(*table)) {
            let rows = self.inputs.rows(table);
            if self.state.plan.relations[table.0 as usize].wanted && !rows.is_empty() {
                outputs.push(Output::of_input(table, rows));
            }
        }
        let mut delta = ValueDelta::default();
        for output in outputs {
            let table = output.table;
            if let Some(rows) = output.into_rows(&self.state.symbols, self.options.ascending) {
                delta.tables.insert(table, rows);
            }
        }
        Committed { delta, redundant_inserts: 0, redundant_deletes: 0 }
    }
}

impl State {
    /// All rows of the derived tables that are reported and `wanted`, as the transaction would report them that derives them all.
    fn present(
        &self,
        wanted: &dyn Fn(TableId) -> bool,
        inputs: &dyn Fn(TableId) -> Delta,
    ) -> Result<Changed, Refusal> {
        let mut all = Changed::new();
        for (at, relation) in self.relations.iter().enumerate() {
            let of_plan = &self.plan.relations[at];
            let is_wanted = of_plan.wanted && of_plan.table.is_none_or(wanted);
            if !is_wanted || !self.is_derived(relation.id) {
                continue;
            }
            let (rows, report) = if relation.split.attributed {
                let (rows, report) = self.attributed(at, inputs)?;
                (rows, Some(report))
            } else {
                let mut rows = self.rows(relation.id, View::Before, inputs)?;
                rows.make_set();
                (rows, None)
            };
            if !rows.is_empty() {
                all.push((relation.id, rows, report));
            }
        }
        Ok(all)
    }

    /// All rows of a relation, and the rule that each is attributed to.
    fn attributed(
        &self,
        at: usize,
        inputs: &dyn Fn(TableId) -> Delta,
    ) -> Result<(Delta, Attributed), Refusal> {
        let relation = &self.relations[at];
        if let Some(derived) = relation.derived(View::Before) {
            // If several rules derive a row, the engine attributes it to the same rule as when the row was new.
            let mut empty = Relation::new(&self.plan, relation.id, true, false);
            let settled = empty.settle(derived, &self.symbols, &self.numbers, &mut Vec::new());
            settled.map_err(|_| Refusal::TooMany(relation.id))?;
            return Ok((empty.delta, empty.report));
        }
        // As long as rows are watched, each is derived once.
        let derived = self.derived_rows(at, true, |_| true, inputs)?;
        let (mut rows, mut report) = (Delta::new(relation.columns), Attributed::new(relation.columns));
        WatchedRows::new(&relation.split, &self.symbols, &self.numbers, &mut rows, &mut report)
            .pass_on(derived);
        Ok((rows, report))
    }

    /// All rows of a relation, with the counts that its readers see. `inputs` returns the rows of input tables.
    pub(crate) fn rows(
        &self,
        id: RelationId,
        view: View,
        inputs: &dyn Fn(TableId) -> Delta,
    ) -> Result<Delta, Refusal> {
        let at = id.0 as usize;
        if let Some(table) = self.plan.relations[at].table
            && self.plan.program.schema.table(table).role == Role::Input
        {
            return Ok(inputs(table));
        }
        if let Some(rows) = self.relations[at].rows(view) {
            return Ok(rows);
        }
        let mut indexes = self.indexed[at].iter().map(|index| &self.indexes[*index]);
        if let Some(rows) = indexes.find_map(|index| index.rows(view)) {
            return Ok(rows);
        }
        let mut rows = Delta::new(self.relations[at].columns);
        for rule in 0..self.rules.len() {
            if self.rules[rule].head == id {
                self.rows_of_rule(rule, view, inputs, &mut rows)?;
            }
        }
        rows.consolidate().map_err(|TooMany| Refusal::TooMany(id))?;
        Ok(rows)
    }

    /// The rows of a relation that satisfy the conditions, and possibly others. Uses an index if one helps.
    pub(crate) fn rows_that_fit(
        &self,
        id: RelationId,
        view: View,
        fit: &Fit,
        inputs: &dyn Fn(TableId) -> Delta,
    ) -> Result<Delta, Refusal> {
        let mut indexes = self.indexed[id.0 as usize].iter().map(|index| &self.indexes[*index]);
        let found = indexes.find_map(|index| index.rows_that_fit(view, fit));
        found.map_or_else(|| self.rows(id, view, inputs), Ok)
    }

    /// The rows that those rules of a relation which `is_wanted` names have derived before the transaction, once for each
    /// derivation. If `attributed`, each with the number of its rule.
    pub(crate) fn derived_rows(
        &self,
        relation: usize,
        attributed: bool,
        is_wanted: impl Fn(usize) -> bool,
        inputs: &dyn Fn(TableId) -> Delta,
    ) -> Result<Delta, Refusal> {
        let columns = self.relations[relation].columns;
        let mut derived = Delta::new(columns + usize::from(attributed));
        for (at, rule) in self.rules.iter().enumerate() {
            if rule.head.0 as usize == relation && is_wanted(at) {
                let mut rows = Delta::new(columns);
                self.rows_of_rule(at, View::Before, inputs, &mut rows)?;
                let suffix = if attributed { &[rule.number][..] } else { &[] };
                rows.into_rows(|row, diff| {
                    derived.push_words(row.iter().chain(suffix).copied(), diff);
                });
            }
        }
        Ok(derived)
    }

    /// The rows that a rule derives, with their counts.
    pub(crate) fn rows_of_rule(
        &self,
        rule: usize,
        view: View,
        inputs: &dyn Fn(TableId) -> Delta,
        out: &mut Delta,
    ) -> Result<(), Refusal> {
        match &self.rules[rule].groups {
            Some(groups) => groups.rows(view, &self.symbols, out),
            None => {
                self.run_whole(rule, 0, view, inputs, out)?;
            }
        }
        Ok(())
    }

    /// Runs a rule's body (part 0), or one of its parts for failures, over all rows. Adds the results to `out`, and
    /// returns the failures with their counts.
    pub(crate) fn run_whole(
        &self,
        rule: usize,
        part: usize,
        view: View,
        inputs: &dyn Fn(TableId) -> Delta,
        out: &mut Delta,
    ) -> Result<Vec<(Symbol, Diff)>, Refusal> {
        let (mut pipeline, rows) = self.begin_rule(rule, part, view, inputs)?;
        self.run_over(rule, &mut pipeline, &rows, out)
    }

    /// The pipeline of a rule's body (part 0), or of one of its parts for failures, that begins with all rows of an atom, and these rows.
    pub(crate) fn begin_rule(
        &self,
        rule: usize,
        part: usize,
        view: View,
        inputs: &dyn Fn(TableId) -> Delta,
    ) -> Result<(Pipeline, Delta), Refusal> {
        let joins = self.joins_of(rule, part);
        let (is_after, full) = (view == View::After, &joins.pipelines[joins.full]);
        let pipeline = Pipeline::new(full, |_| is_after, Moves::none(full), &self.symbols);
        let rows = match pipeline.atom {
            Some(atom) => self.rows_that_fit(joins.atoms[atom], view, &pipeline.fit, inputs)?,
            None => one_row(),
        };
        Ok((pipeline, rows))
    }

    fn joins_of(&self, rule: usize, part: usize) -> &Joins {
        let plan = &self.plan.rules[rule];
        if part == 0 { &plan.body } else { &plan.failures[part - 1] }
    }

    /// Runs a pipeline of a rule over rows. Adds the results to `out`, and returns the failures with their counts.
    pub(crate) fn run_over(
        &self,
        rule: usize,
        pipeline: &mut Pipeline,
        rows: &Delta,
        out: &mut Delta,
    ) -> Result<Vec<(Symbol, Diff)>, Refusal> {
        let (mut too_many, mut failures) = (false, Vec::new());
        let (symbols, indexes) = (&self.symbols, &self.indexes);
        let (failed, too) = (&mut failures, &mut too_many);
        let mut context = Context {
            symbols,
            indexes,
            out,
            failures: failed,
            too_many: too,
            me: 0,
            peers: 1,
            rule: self.rules[rule].id,
            // What an edit derives counts for its bound, in the state before it too. Other rows that are read again have been counted.
            running: self.running.as_deref().filter(|_| self.editing.is_some()),
        };
        pipeline.run(rows, &mut context);
        if too_many { Err(Refusal::TooMany(self.rules[rule].head)) } else { Ok(failures) }
    }
}
