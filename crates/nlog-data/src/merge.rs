//! Merges several transactions into one: the sum of their deltas.

use std::collections::BTreeMap;

use crate::{
    CommitError, Committed, Delta, Evaluator, Row, RuleId, TableDelta, TableId, Transaction, TransactionError,
};

/// The result of several transactions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommittedBatch {
    /// The combined effect of the accepted transactions. A row that was added and removed again does not appear.
    pub committed: Committed,
    /// The refused transactions, by index, with their errors.
    pub refused: Vec<(usize, TransactionError)>,
}

/// The default of [`Evaluator::commit_merged`]: commits transactions one by one.
pub(crate) fn one_by_one<E: Evaluator + ?Sized>(
    evaluator: &mut E,
    transactions: &[Transaction],
) -> Result<CommittedBatch, CommitError> {
    let mut merging = Merging::default();
    for (place, transaction) in transactions.iter().enumerate() {
        merging.add(place, evaluator.commit(transaction))?;
    }
    Ok(merging.finish())
}

/// Collects the results of transactions, for evaluators that run several at a time.
#[derive(Debug, Clone, Default)]
pub struct Merging {
    batch: CommittedBatch,
    sum: Sum,
}

impl Merging {
    /// Adds the result of the transaction at this index, or of several transactions that were committed as one.
    /// Results must be added in the order of their transactions. Returns an engine failure as an error.
    pub fn add(&mut self, place: usize, result: Result<Committed, CommitError>) -> Result<(), CommitError> {
        match result {
            Ok(Committed { delta, redundant_inserts, redundant_deletes }) => {
                self.sum.add(delta);
                self.batch.committed.redundant_inserts += redundant_inserts;
                self.batch.committed.redundant_deletes += redundant_deletes;
            }
            Err(CommitError::Refused(error)) => self.batch.refused.push((place, error)),
            Err(error @ (CommitError::Stopped(_) | CommitError::Engine(_))) => return Err(error),
        }
        Ok(())
    }

    /// The combined result.
    pub fn finish(mut self) -> CommittedBatch {
        self.batch.committed.delta = self.sum.delta();
        self.batch
    }
}

/// Consecutive deltas, merged into one.
#[derive(Debug, Clone, Default)]
struct Sum {
    tables: BTreeMap<TableId, BTreeMap<Row, Change>>,
}

/// The net effect on a row.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// Whether the row was present before all deltas.
    before: bool,
    /// Whether the row is present after all deltas.
    after: bool,
    /// The rule that it is attributed to, if it is present and attribution was requested.
    rule: Option<RuleId>,
}

impl Sum {
    /// Adds the next delta.
    fn add(&mut self, delta: Delta) {
        for (id, TableDelta { insert, delete, rules, reattributed }) in delta.tables {
            let rows = self.tables.entry(id).or_default();
            let mut change = |row, before, after, rule| {
                let change = rows.entry(row).or_insert(Change { before, after, rule });
                (change.after, change.rule) = (after, rule);
            };
            for row in delete {
                change(row, true, false, None);
            }
            let mut rules = rules.into_iter();
            for row in insert {
                change(row, false, true, rules.next());
            }
            for (row, rule) in reattributed {
                change(row, true, true, Some(rule));
            }
        }
    }

    /// The merged delta.
    fn delta(self) -> Delta {
        let mut delta = Delta::default();
        for (id, rows) in self.tables {
            let mut table = TableDelta::default();
            for (row, Change { before, after, rule }) in rows {
                match (before, after) {
                    (false, true) => {
                        table.rules.extend(rule);
                        table.insert.push(row);
                    }
                    (true, false) => table.delete.push(row),
                    (true, true) => table.reattributed.extend(rule.map(|rule| (row, rule))),
                    (false, false) => {}
                }
            }
            if table != TableDelta::default() {
                delta.tables.insert(id, table);
            }
        }
        delta
    }
}
