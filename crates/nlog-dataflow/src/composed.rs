//! The composed engine: rules as a dataflow of differential's own operators.
//!
//! The engine translates a plan directly into `arrange`, `join_traces`, `threshold_total`, `reduce` and maps. A
//! transaction is an epoch. If it causes a failure, violates a key or derives a forbidden row, its inverse undoes it in
//! the next epoch.
//!
//! The modules in reading order: `head` (the results of bindings), `groups` (aggregates), `layout` (the representation
//! of relations, and the arrangements at probes), `operators`, `graph` (from plan to operators), `worker` (threads),
//! `output` (from changes to deltas), `errors`.

mod errors;
mod graph;
mod groups;
mod head;
mod layout;
mod operators;
mod output;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::num::Wrapping;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nlog_data::{
    CommitError, Committed, Delta, DerivedCause, DerivedError, Evaluator, Inputs, MOST_FORBIDDEN, MOST_WAYS,
    Role, Row as ValueRow, RuleId, Schema, TableId, Transaction, TransactionError,
};
use nlog_plan::query::{Plan, RelationId};

use self::errors::Errors;
use self::graph::{ByWidth, Changes};
use self::layout::{Layout, Width};
use self::output::Reported;
use self::worker::{Epoch, InputRows, Workers};
use crate::fused::fault::{Fault, inject};
use crate::panic::{message, refusal_of_all};
use crate::row::{Narrow, Row, Wide, mix};
use crate::symbol::{Symbol, Symbols};

/// The number of a transaction, or of an attempt at one. Each index stores many, so it has 32 bits instead of 64. The
/// coordinator stops before it wraps.
type Time = u32;

/// The count of a row. Projections create counts, and joins multiply them. Sums wrap, so that the inverse undoes a
/// transaction whatever its counts are. Counts above [`MOST_WAYS`] are detected where rows become a set, and products
/// near the limits of 128 bits where they are computed.
type Diff = Wrapping<i128>;

/// The product of counts above which sums of products could wrap.
const MOST_PRODUCT: i128 = 1 << 96;

const NONE: Diff = Wrapping(0);
const ONCE: Diff = Wrapping(1);

/// Whether a row with this many derivations is present.
fn is_there(ways: Diff) -> bool {
    ways > NONE
}

/// Whether a row has more derivations than allowed.
fn is_too_many(ways: Diff) -> bool {
    ways.0 > i128::from(MOST_WAYS)
}

/// The rule number of changes without attribution.
const NO_RULE: u32 = u32::MAX;

/// A running dataflow for one program.
pub(crate) struct Composed {
    layout: Arc<Layout>,
    symbols: Arc<Symbols>,
    inputs: Inputs,
    workers: Workers,
    /// The next epoch.
    time: Time,
    /// Whether the facts are part of the state: true once a transaction has been accepted.
    facts: bool,
    reported: BTreeMap<TableId, Reported>,
    /// Why the engine is broken.
    broken: Option<String>,
}

impl Composed {
    /// Starts one or more workers. The plan must compute the wanted tables.
    pub(crate) fn new(
        plan: Plan,
        wanted: BTreeSet<TableId>,
        workers: usize,
        attribute: bool,
    ) -> Result<Self, String> {
        let schema = Arc::clone(&plan.program.schema);
        let layout = Arc::new(Layout::new(plan, wanted, attribute));
        let symbols = Arc::new(Symbols::new());
        let workers = Workers::start(workers, &layout, &symbols)?;
        let reported = layout.wanted.iter().filter(|id| schema.table(**id).role != Role::Input);
        let reported = reported.map(|id| (*id, reported_table(&layout, *id))).collect();
        Ok(Composed {
            inputs: Inputs::new(schema),
            layout,
            symbols,
            workers,
            time: 0,
            facts: false,
            reported,
            broken: None,
        })
    }

    /// The plan in use.
    pub(crate) fn plan(&self) -> &Plan {
        &self.layout.plan
    }

    /// Runs changes of input tables as the next epoch, or their inverse if the sign is −1.
    fn epoch(
        &mut self,
        changes: &Delta,
        facts: Diff,
        sign: Diff,
    ) -> Result<(Vec<(TableId, Changes)>, Errors), String> {
        let time = self.time;
        self.time = time
            .checked_add(1)
            .filter(|next| *next < Time::MAX)
            .ok_or("the engine has no epochs left; restart it")?;
        let count = self.workers.count();
        let mut parts: Vec<Epoch> = (0..count)
            .map(|index| Epoch {
                time,
                rows: Vec::new(),
                facts: if index == 0 { facts * sign } else { NONE },
            })
            .collect();
        for (table, delta) in &changes.tables {
            if !self.layout.plan.relations[table.0 as usize].needed {
                continue;
            }
            let rows =
                delta.insert.iter().map(|row| (row, sign)).chain(delta.delete.iter().map(|row| (row, -sign)));
            let shares = match self.layout.width(RelationId(table.0)) {
                Width::Narrow => share(rows, count, &self.symbols).into_iter().map(ByWidth::Narrow).collect(),
                Width::Wide => share(rows, count, &self.symbols)
                    .into_iter()
                    .map(ByWidth::Wide)
                    .collect::<Vec<InputRows>>(),
            };
            for (part, rows) in parts.iter_mut().zip(shares) {
                part.rows.push((*table, rows));
            }
        }
        let mut by_table: BTreeMap<TableId, Changes> = BTreeMap::new();
        let mut errors = Errors::default();
        for outcome in self.workers.run(parts)? {
            errors.append(outcome.errors);
            for (table, changes) in outcome.changes {
                match (by_table.get_mut(&table), changes) {
                    (Some(ByWidth::Narrow(all)), ByWidth::Narrow(mut more)) => all.append(&mut more),
                    (Some(ByWidth::Wide(all)), ByWidth::Wide(mut more)) => all.append(&mut more),
                    (_, changes) => {
                        by_table.insert(table, changes);
                    }
                }
            }
        }
        Ok((by_table.into_iter().collect(), errors))
    }

    /// The error to report, if any remain after the counts of errors are summed.
    fn least_error(&self, errors: Errors) -> Option<DerivedError> {
        let program = &self.layout.plan.program;
        let mut failures: BTreeMap<(u32, Symbol), Diff> = BTreeMap::new();
        for (rule, failure, count) in errors.failures {
            *failures.entry((rule, failure)).or_default() += count;
        }
        let failures =
            failures.into_iter().filter(|(_, count)| count.0 > 0).map(|((rule, failure), _)| DerivedError {
                table: program.schema.shown(program.rule(RuleId(rule)).head),
                cause: DerivedCause::Failure { failure: self.symbols.failure(failure), rule: RuleId(rule) },
            });
        let conflicts = errors.conflicts.into_iter().filter_map(|conflict| {
            let values =
                |row: &Vec<Symbol>| row.iter().map(|word| self.symbols.value(*word)).collect::<ValueRow>();
            let mut rows: Vec<ValueRow> = conflict.rows.iter().map(values).collect();
            rows.sort_unstable();
            let mut rows = rows.into_iter();
            let cause = DerivedCause::KeyConflict { first: rows.next()?, second: rows.next()? };
            Some(DerivedError { table: conflict.table, cause })
        });
        let forbidden = self.forbidden(errors.forbidden);
        let too_many = errors.too_many.into_iter();
        let too_many = too_many.map(|table| DerivedError { table, cause: DerivedCause::TooManyWays });
        failures.chain(conflicts).chain(forbidden).chain(too_many).min()
    }

    /// By table, the error of the rows that it forbids.
    fn forbidden(&self, changes: Vec<(TableId, Vec<Symbol>, Diff)>) -> impl Iterator<Item = DerivedError> {
        let mut counts: BTreeMap<(TableId, Vec<Symbol>), Diff> = BTreeMap::new();
        for (table, row, diff) in changes {
            *counts.entry((table, row)).or_default() += diff;
        }
        let mut rows: BTreeMap<TableId, Vec<ValueRow>> = BTreeMap::new();
        for ((table, row), _) in counts.into_iter().filter(|(_, count)| is_there(*count)) {
            let row = row.into_iter().map(|word| self.symbols.value(word)).collect();
            rows.entry(table).or_default().push(row);
        }
        rows.into_iter().map(|(table, mut rows)| {
            let count = rows.len();
            rows.sort_unstable();
            rows.truncate(MOST_FORBIDDEN);
            DerivedError { table, cause: DerivedCause::Forbidden { rows, count } }
        })
    }

    /// Fails if an earlier failure left the state unknown.
    fn is_sound(&self) -> Result<(), CommitError> {
        let Some(why) = &self.broken else { return Ok(()) };
        Err(CommitError::Engine(refusal_of_all(why)))
    }

    /// Runs accepted changes. An error among derived rows undoes them.
    fn run(&mut self, changes: &Delta) -> Result<Result<Delta, DerivedError>, String> {
        let facts = if self.facts { NONE } else { ONCE };
        if changes.tables.is_empty() && facts == NONE {
            return Ok(Ok(Delta::default()));
        }
        let (by_table, errors) = self.epoch(changes, facts, ONCE)?;
        if let Some(error) = self.least_error(errors) {
            self.epoch(changes, facts, -ONCE)?;
            return Ok(Err(error));
        }
        self.facts = true;
        inject(Fault::Output);
        let mut delta = Delta::default();
        for (table, changes) in by_table {
            let Some(reported) = self.reported.get_mut(&table) else { continue };
            if let Some(changes) = reported.report(changes, self.layout.attribute, &self.symbols) {
                delta.tables.insert(table, changes);
            }
        }
        Ok(Ok(delta))
    }
}

impl Evaluator for Composed {
    fn schema(&self) -> &Schema {
        &self.layout.plan.program.schema
    }

    fn check(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.inputs.check(transaction)
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<Committed, CommitError> {
        self.is_sound()?;
        let changes = self.inputs.apply(transaction)?;
        let ran = catch_unwind(AssertUnwindSafe(|| self.run(&changes.delta)));
        match ran.unwrap_or_else(|panic| Err(format!("the engine panicked: {}", message(&*panic)))) {
            Ok(Ok(mut delta)) => {
                let inputs =
                    changes.delta.tables.into_iter().filter(|(table, _)| self.layout.wanted.contains(table));
                delta.tables.extend(inputs);
                Ok(Committed {
                    delta,
                    redundant_inserts: changes.redundant_inserts,
                    redundant_deletes: changes.redundant_deletes,
                })
            }
            Ok(Err(error)) => {
                self.inputs.undo(changes);
                Err(CommitError::Refused(error.to_transaction_error(self.schema())))
            }
            Err(why) => {
                self.broken = Some(why.clone());
                Err(CommitError::Engine(why))
            }
        }
    }

    fn contents(&mut self, table: TableId) -> Result<Vec<ValueRow>, CommitError> {
        self.is_sound()?;
        let schema = &self.layout.plan.program.schema;
        if schema.get(table).is_some_and(|table| table.role == Role::Input) {
            return Ok(self.inputs.contents(table));
        }
        if let Some(reported) = self.reported.get_mut(&table) {
            return Ok(reported.rows(&self.symbols));
        }
        let name = schema.get(table).map_or("", |table| table.name.as_str());
        Err(CommitError::Engine(format!("table {name} was not requested when the engine was created")))
    }
}

fn reported_table(layout: &Layout, id: TableId) -> Reported {
    let mut rules = layout.plan.program.rules_of(id).map(|(rule, _)| rule);
    let rule = match (rules.next(), rules.next()) {
        (Some(rule), None) => Some(rule),
        _ => None,
    };
    let relation = RelationId(id.0);
    Reported::new(layout.arity(relation), layout.width(relation) == Width::Wide, rule)
}

/// Converts rows to words, and assigns each row to the worker that its hash selects.
fn share<'a, R: Row>(
    rows: impl Iterator<Item = (&'a ValueRow, Diff)>,
    workers: usize,
    symbols: &Symbols,
) -> Vec<Vec<(R, Diff)>> {
    let mut shares: Vec<Vec<(R, Diff)>> = vec![Vec::new(); workers];
    for (row, diff) in rows {
        let row = R::pack(row.iter().map(|value| symbols.intern(value)), symbols);
        let worker = mix(row.words()) as usize % workers;
        shares[worker].push((row, diff));
    }
    shares
}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Composed>();
    is_send::<(Narrow, Wide)>();
};
