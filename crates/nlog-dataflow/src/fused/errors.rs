//! Errors among the rows that a transaction derives.
//!
//! One pipeline can report a failure that another pipeline of the same transaction retracts. Failures are therefore
//! counted by rule, and only those with a positive sum are errors. The transaction is refused with the least error, so
//! that the answer depends neither on the order of evaluation nor on the number of workers.

use std::collections::BTreeMap;

use nlog_data::{DerivedCause, DerivedError, Row as ValueRow, RuleId};
use nlog_plan::query::{Plan, RelationId};
use serde::{Deserialize, Serialize};

use super::delta::Diff;
use super::relation::Conflict;
use crate::symbol::{Symbol, Symbols};

/// The errors among the rows that a transaction derives.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Errors {
    /// By rule and failure, the change of the number of failing bindings.
    failures: BTreeMap<(u32, Symbol), Diff>,
    pub(crate) conflicts: Vec<Conflict>,
}

/// Why a transaction is refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Refusal {
    /// Rules fail on derived rows, or derived rows violate a key.
    Derived(DerivedError),
    /// A row of the relation has too many derivations.
    TooMany(RelationId),
}

impl Errors {
    pub(crate) fn add(&mut self, rule: RuleId, failures: Vec<(Symbol, Diff)>) {
        for (failure, diff) in failures {
            *self.failures.entry((rule.0, failure)).or_default() += diff;
        }
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
        self.conflicts.iter_mut().flat_map(|conflict| &mut conflict.rows).flatten().for_each(each);
    }

    /// Adds the errors of another worker.
    pub(crate) fn append(&mut self, other: Errors) {
        for (failure, diff) in other.failures {
            *self.failures.entry(failure).or_default() += diff;
        }
        self.conflicts.extend(other.conflicts);
    }

    /// The error to report, if any.
    pub(crate) fn least(&self, plan: &Plan, symbols: &Symbols) -> Option<DerivedError> {
        let program = &plan.program;
        let failures =
            self.failures.iter().filter(|(_, count)| **count > 0).map(|((rule, failure), _)| DerivedError {
                table: program.schema.shown(program.rule(RuleId(*rule)).head),
                cause: DerivedCause::Failure { failure: symbols.failure(*failure), rule: RuleId(*rule) },
            });
        let conflicts = self.conflicts.iter().filter_map(|conflict| {
            let values =
                |row: &Vec<Symbol>| row.iter().map(|word| symbols.value(*word)).collect::<ValueRow>();
            let mut rows: Vec<ValueRow> = conflict.rows.iter().map(values).collect();
            rows.sort_unstable();
            let mut rows = rows.into_iter();
            let cause = DerivedCause::KeyConflict { first: rows.next()?, second: rows.next()? };
            Some(DerivedError { table: plan.relations[conflict.relation.0 as usize].table?, cause })
        });
        failures.chain(conflicts).min()
    }
}
