//! Runs several transactions in one pass through the rules.
//!
//! Input tables check each transaction in turn, independently of the rules. Errors among derived rows depend on the
//! intermediate states, which a single pass does not compute. Transactions are therefore merged only if acceptance of
//! the pass implies that each of them would have been accepted. One of two conditions must hold:
//!
//! - No refusal is possible downstream of the tables that they touch: no key is checked, no row is
//!   forbidden and no expression can fail.
//! - There are no aggregates downstream, so that more input rows can only mean more errors; and no transaction deletes
//!   an existing row after an earlier one has inserted something. Then the rows after each transaction are a subset of
//!   the rows before the pass, which were accepted, or of the rows after it.
//!
//! With attribution, transactions are merged only if there are no aggregates downstream and none of them deletes a row:
//! a row that is deleted and inserted again must be reported, and a single pass does not see it.
//!
//! If a pass is refused, its transactions run again one by one, so that each is accepted or refused by itself.

use std::ops::Range;
use std::sync::Arc;

use nlog_data::merge::Merging;
use nlog_data::{CommitError, CommittedBatch, Evaluator as _, Transaction, TransactionError};
use nlog_plan::Keep;
use nlog_plan::query::{Output, Plan, RulePlan};

use super::Engine;
use super::delta::Delta;
use super::inputs::Changes;

/// The possible downstream effects of changes of a relation.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Reach {
    /// A refusal is possible.
    refusals: bool,
    /// Rows of aggregates can change.
    aggregates: bool,
}

/// The possible downstream effects of changes, by relation of a plan.
pub(super) struct Reaches {
    plan: Arc<Plan>,
    by_relation: Vec<Reach>,
}

impl Reaches {
    fn new(plan: &Arc<Plan>) -> Self {
        let mut by_relation = vec![Reach::default(); plan.relations.len()];
        let mut rules: Vec<&RulePlan> = plan.rules.iter().collect();
        // Readers of a head have higher levels, so the head's effects are complete when they are needed.
        rules.sort_by_key(|rule| std::cmp::Reverse(plan.relations[rule.head.0 as usize].level));
        for rule in rules {
            let head = rule.head.0 as usize;
            let after = by_relation[head];
            let is_checked = matches!(plan.relations[head].keep, Keep::Key(_)) || plan.forbids(rule.head);
            let of_rule = Reach {
                refusals: after.refusals || is_checked || rule.may_fail,
                aggregates: after.aggregates || matches!(rule.output, Output::Groups { .. }),
            };
            for atom in std::iter::once(&rule.body).chain(&rule.failures).flat_map(|joins| &joins.atoms) {
                by_relation[atom.0 as usize].add(of_rule);
            }
        }
        Reaches { plan: Arc::clone(plan), by_relation }
    }
}

impl Reach {
    fn add(&mut self, other: Reach) {
        self.refusals |= other.refusals;
        self.aggregates |= other.aggregates;
    }
}

/// A group of transactions that go through the rules together.
struct Pass {
    /// Their indexes among all transactions, including transactions that input tables refused.
    places: Range<usize>,
    refused: Vec<(usize, TransactionError)>,
    /// The number of transactions that input tables accepted, and their combined changes.
    accepted: u64,
    changes: Changes,
    /// Whether new rows were inserted, and whether existing rows were deleted.
    inserts: bool,
    deletes: bool,
    reach: Reach,
}

impl Pass {
    fn new(first: usize) -> Self {
        Pass {
            places: first..first,
            refused: Vec::new(),
            accepted: 0,
            changes: Changes::default(),
            inserts: false,
            deletes: false,
            reach: Reach::default(),
        }
    }

    /// Adds a transaction that input tables have accepted. Returns its changes if it cannot be merged with the others.
    fn add(&mut self, changes: Changes, reaches: &Reaches, attribute: bool) -> Result<(), Changes> {
        let mut reach = self.reach;
        changes.tables.keys().for_each(|table| reach.add(reaches.by_relation[table.0 as usize]));
        let deletes = changes.tables.values().any(Delta::has_gone);
        let would_differ = if attribute {
            // A row that is deleted and inserted again must be reported, but one pass does not see it.
            reach.aggregates || self.deletes || deletes
        } else {
            reach.refusals && (reach.aggregates || (self.inserts && deletes))
        };
        if self.accepted > 0 && would_differ {
            return Err(changes);
        }
        self.accepted += 1;
        self.inserts |= changes.tables.values().any(|delta| delta.rows().any(|(_, diff)| diff > 0));
        self.deletes |= deletes;
        self.reach = reach;
        self.changes.redundant_inserts += changes.redundant_inserts;
        self.changes.redundant_deletes += changes.redundant_deletes;
        for (table, mut delta) in changes.tables {
            let all = self.changes.tables.entry(table).or_insert_with(|| Delta::new(delta.width()));
            all.append(&mut delta);
        }
        Ok(())
    }
}

impl Engine {
    /// Runs transactions in as few passes as give the same results as running them one by one.
    pub(super) fn commit_together(
        &mut self,
        transactions: &[Transaction],
    ) -> Result<CommittedBatch, CommitError> {
        self.plan_for(transactions)?;
        let mut merging = Merging::default();
        let mut next = 0;
        while next < transactions.len() {
            let pass = self.gather(transactions, next);
            next = pass.places.end;
            self.run_pass(pass, transactions, &mut merging)?;
        }
        Ok(merging.finish())
    }

    /// Collects the transactions from this index on that can be merged. Their changes are applied to the input tables.
    fn gather(&mut self, transactions: &[Transaction], first: usize) -> Pass {
        let known = self.reaches.take().filter(|known| Arc::ptr_eq(&known.plan, &self.state.plan));
        let reaches = known.unwrap_or_else(|| Reaches::new(&self.state.plan));
        let mut pass = Pass::new(first);
        for (place, transaction) in transactions.iter().enumerate().skip(first) {
            match self.inputs.apply(transaction, &self.state.symbols) {
                Ok(changes) => {
                    if let Err(changes) = pass.add(changes, &reaches, self.options.attribute) {
                        // It becomes the first transaction of the next pass.
                        self.inputs.undo(&changes);
                        self.gone = true;
                        break;
                    }
                }
                Err(error) => {
                    self.gone = true;
                    pass.refused.push((place, error));
                }
            }
            pass.places.end = place + 1;
        }
        self.reaches = Some(reaches);
        pass
    }

    fn run_pass(
        &mut self,
        pass: Pass,
        transactions: &[Transaction],
        merging: &mut Merging,
    ) -> Result<(), CommitError> {
        let Pass { places, refused, accepted, mut changes, .. } = pass;
        if accepted > 0 {
            if accepted > 1 {
                // Changes that cancel within a pass disappear. Each row is present once, so sums are small.
                let counted = changes.tables.values_mut().try_for_each(Delta::consolidate);
                debug_assert!(counted.is_ok());
                changes.tables.retain(|_, delta| !delta.is_empty());
            }
            match self.commit_changes(changes) {
                Ok(committed) => {
                    self.transactions += accepted - 1;
                    merging.add(places.start, Ok(committed))?;
                }
                // Input tables may have refused later transactions because of the changes of this one.
                Err(CommitError::Refused(_)) if places.len() > 1 => {
                    return places.into_iter().try_for_each(|place| {
                        let committed = self.commit(&transactions[place]);
                        merging.add(place, committed)
                    });
                }
                Err(error) => merging.add(places.start, Err(error))?,
            }
        }
        refused.into_iter().try_for_each(|(place, error)| merging.add(place, Err(error.into())))
    }
}
