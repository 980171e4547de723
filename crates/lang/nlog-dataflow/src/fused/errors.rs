//! Errors among the rows that a transaction derives.
//!
//! One pipeline can report a failure that another pipeline of the same transaction retracts. Failures are therefore
//! counted by rule, and only those with a positive sum are errors. The transaction is refused with the least error, so
//! that the answer depends neither on the order of evaluation nor on the number of workers.

use std::collections::{BTreeMap, BTreeSet};

use nlog::program::HookStage;
use nlog_data::{
    CommitError, DerivedCause, DerivedError, DerivedErrors, MOST_FORBIDDEN, Row as ValueRow, RuleId, Stopped,
    TableId, TransactionError,
};
use nlog_plan::query::{Plan, RelationId};
use serde::{Deserialize, Serialize};

use super::delta::{Delta, Diff};
use super::relation::Conflict;
use crate::symbol::{Symbol, Symbols};

/// The errors among the rows that a transaction derives.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Errors {
    /// By rule and failure, the change of the number of failing bindings.
    failures: BTreeMap<(u32, Symbol), Diff>,
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) forbidden: Vec<Forbidden>,
    /// By hook, why it cannot fill its table. Worker 0 alone runs hooks.
    #[serde(skip)]
    pub(crate) hooks: BTreeMap<usize, TransactionError>,
    /// The least relation that has a row with too many derivations.
    too_many: Option<RelationId>,
    /// The least relation whose rows were watched and may need counts. Then the other errors say nothing.
    uncounted: Option<RelationId>,
}

/// The rows at a worker of a relation that forbids them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Forbidden {
    relation: RelationId,
    /// The least rows by the order of values, ascending, at most [`MOST_FORBIDDEN`].
    rows: Vec<Vec<Symbol>>,
    /// The number of rows, at least one.
    count: usize,
}

fn values(row: &[Symbol], symbols: &Symbols) -> ValueRow {
    row.iter().map(|word| symbols.value(*word)).collect()
}

/// Why a transaction is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Rules fail on derived rows, or derived rows violate a key or are forbidden.
    Derived(DerivedErrors),
    /// A hook cannot fill its table.
    Hook(Box<TransactionError>),
    /// A row of the relation has too many derivations.
    TooMany(RelationId),
    /// The rows of the relation were watched and may need counts. No answer to a caller: once they are counted, the
    /// transaction runs again.
    Uncounted(RelationId),
    /// The transaction is stopped at its bound.
    Stopped(Stopped),
}

impl Refusal {
    /// The public error.
    pub(crate) fn into_error(self, plan: &Plan) -> CommitError {
        let schema = &plan.program.schema;
        match self {
            Refusal::Stopped(stopped) => stopped.into(),
            Refusal::Hook(error) => (*error).into(),
            Refusal::Derived(errors) => errors.to_transaction_error(schema).into(),
            Refusal::TooMany(relation) => {
                let (table, cause) = (plan.table_of(relation), DerivedCause::TooManyWays);
                DerivedError { table, cause }.to_transaction_error(schema).into()
            }
            Refusal::Uncounted(relation) => {
                let name = &plan.relations[relation.0 as usize].name;
                CommitError::Engine(format!("the rows of {name} were not counted"))
            }
        }
    }
}

impl Errors {
    pub(crate) fn add(&mut self, rule: RuleId, failures: Vec<(Symbol, Diff)>) {
        for (failure, diff) in failures {
            *self.failures.entry((rule.0, failure)).or_default() += diff;
        }
    }

    /// Notes the rows of a relation that forbids them: those with a positive count.
    pub(crate) fn forbid(&mut self, relation: RelationId, rows: &Delta, symbols: &Symbols) {
        self.forbidden.retain(|known| known.relation != relation);
        let mut rows: Vec<Vec<Symbol>> =
            rows.rows().filter(|(_, count)| *count > 0).map(|(row, _)| row.to_vec()).collect();
        if rows.is_empty() {
            return;
        }
        let count = rows.len();
        rows.sort_by_cached_key(|row| values(row, symbols));
        rows.truncate(MOST_FORBIDDEN);
        self.forbidden.push(Forbidden { relation, rows, count });
    }

    /// Replaces every symbol in the errors.
    pub(crate) fn translate(&mut self, each: &mut dyn FnMut(&mut Symbol)) {
        let failures = std::mem::take(&mut self.failures).into_iter();
        self.failures = failures
            .map(|((rule, mut failure), diff)| {
                each(&mut failure);
                ((rule, failure), diff)
            })
            .collect();
        self.conflicts.iter_mut().flat_map(|conflict| &mut conflict.rows).flatten().for_each(&mut *each);
        self.forbidden.iter_mut().flat_map(|forbidden| &mut forbidden.rows).flatten().for_each(each);
    }

    /// Adds the errors of another worker.
    pub(crate) fn append(&mut self, other: Errors) {
        for (failure, diff) in other.failures {
            *self.failures.entry(failure).or_default() += diff;
        }
        self.conflicts.extend(other.conflicts);
        self.forbidden.extend(other.forbidden);
        self.hooks.extend(other.hooks);
        self.too_many = [self.too_many, other.too_many].into_iter().flatten().min();
        self.uncounted = [self.uncounted, other.uncounted].into_iter().flatten().min();
    }

    /// Notes a refusal that one of several workers has met: it goes on, because the others count on its packets.
    pub(crate) fn note(&mut self, refusal: &Refusal) {
        let (noted, relation) = match refusal {
            // Errors of derived rows are counted here already, and all workers see that the transaction is stopped.
            Refusal::Derived(_) | Refusal::Hook(_) | Refusal::Stopped(_) => return,
            Refusal::TooMany(relation) => (&mut self.too_many, *relation),
            Refusal::Uncounted(relation) => (&mut self.uncounted, *relation),
        };
        *noted = Some(noted.map_or(relation, |known| known.min(relation)));
    }

    /// Why the transaction is refused, if it is. Does not depend on the worker that met an error.
    pub(crate) fn refusal(&self, plan: &Plan, symbols: &Symbols) -> Option<Refusal> {
        let uncounted = self.uncounted.map(Refusal::Uncounted);
        let too_many = self.too_many.map(Refusal::TooMany);
        uncounted.or(too_many).or_else(|| {
            // Nobody knows what follows from the rows of a hook that has none.
            let mut stages = plan.hook_stages.iter();
            let of_stages = stages.find_map(|stage| self.of_stage(stage, plan, symbols));
            of_stages
                .or_else(|| DerivedErrors::of(self.derived(plan, symbols, &|_| true)).map(Refusal::Derived))
        })
    }

    /// The error of a stage of hooks: the least of the rows that they depend on, or the first of their own. What tables forbid
    /// of these and other rows is a part of the former.
    fn of_stage(&self, stage: &HookStage, plan: &Plan, symbols: &Symbols) -> Option<Refusal> {
        let of_stage = |table| stage.tables.contains(&table);
        if let Some(least) = self.derived(plan, symbols, &of_stage).min() {
            let forbidden = all_forbidden(self.forbidden.iter(), plan, symbols);
            return Some(Refusal::Derived(DerivedErrors::before(least, forbidden)));
        }
        let error = stage.hooks.iter().find_map(|hook| self.hooks.get(hook))?;
        Some(Refusal::Hook(Box::new(error.clone())))
    }

    /// Whether there are errors among rows of these tables.
    pub(crate) fn concern(&self, tables: &BTreeSet<TableId>, plan: &Plan, symbols: &Symbols) -> bool {
        self.derived(plan, symbols, &|table| tables.contains(&table)).next().is_some()
    }

    /// The errors among derived rows of the tables that are `wanted`.
    fn derived<'a>(
        &'a self,
        plan: &'a Plan,
        symbols: &'a Symbols,
        wanted: &'a dyn Fn(TableId) -> bool,
    ) -> impl Iterator<Item = DerivedError> {
        let program = &plan.program;
        let is_wanted =
            move |relation: RelationId| plan.relations[relation.0 as usize].table.is_some_and(wanted);
        let failures = self
            .failures
            .iter()
            .filter(move |((rule, _), count)| **count > 0 && wanted(program.rule(RuleId(*rule)).head));
        let failures = failures.map(move |((rule, failure), _)| DerivedError {
            table: program.schema.shown(program.rule(RuleId(*rule)).head),
            cause: DerivedCause::Failure { failure: symbols.failure(*failure), rule: RuleId(*rule) },
        });
        let conflicts = self.conflicts.iter().filter(move |conflict| is_wanted(conflict.relation));
        let conflicts = conflicts.filter_map(move |conflict| {
            let mut rows: Vec<ValueRow> = conflict.rows.iter().map(|row| values(row, symbols)).collect();
            rows.sort_unstable();
            let mut rows = rows.into_iter();
            let table = plan.relations[conflict.relation.0 as usize].table?;
            Some(DerivedError::key_conflict(&program.schema, table, rows.next()?, rows.next()?))
        });
        let forbidden = self.forbidden.iter().filter(move |forbidden| is_wanted(forbidden.relation));
        failures.chain(conflicts).chain(all_forbidden(forbidden, plan, symbols))
    }
}

/// By relation, the error of the rows that it forbids. Each worker has a part of them.
fn all_forbidden<'a>(
    forbidden: impl Iterator<Item = &'a Forbidden>,
    plan: &Plan,
    symbols: &Symbols,
) -> impl Iterator<Item = DerivedError> {
    let mut by_relation: BTreeMap<RelationId, (Vec<ValueRow>, usize)> = BTreeMap::new();
    for Forbidden { relation, rows, count } in forbidden {
        let (least, all) = by_relation.entry(*relation).or_default();
        least.extend(rows.iter().map(|row| values(row, symbols)));
        *all += count;
    }
    by_relation.into_iter().filter_map(|(relation, (mut rows, count))| {
        rows.sort_unstable();
        rows.truncate(MOST_FORBIDDEN);
        let cause = DerivedCause::Forbidden { rows, count };
        Some(DerivedError { table: plan.relations[relation.0 as usize].table?, cause })
    })
}
