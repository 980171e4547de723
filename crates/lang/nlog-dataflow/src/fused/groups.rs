//! Aggregates: stores the tuples of every group and recomputes changed groups.
//!
//! A transaction stages its changes of tuples. For each group with changes, the aggregates are computed over its old
//! and its new tuples, which retracts the old row of the head and derives the new one. An aggregate sees each tuple
//! once, however many ways derive it. The cost of a change is therefore proportional to the size of its group.

use nlog_plan::GroupColumn;
use nlog_plan::query::Output;

use super::batch::Values;
use super::delta::{Delta, Diff, TooMany};
use super::index::Fit;
use super::sorted::sort;
use super::trace::{Trace, View, ways};
use crate::aggregate::compute;
use crate::expression::Expression;
use crate::symbol::{Marks, NONE, Symbol, Symbols, is_failure};
use nlog::program::Aggregate;

/// The groups of a rule.
pub(crate) struct Groups {
    group: usize,
    tuple: usize,
    aggregates: Vec<(Aggregate, Vec<Expression>)>,
    columns: Vec<GroupColumn>,
    pub(crate) trace: Trace,
}

impl Groups {
    /// The groups of a rule with aggregates; `None` for other rules.
    pub(crate) fn new(output: &Output, symbols: &Symbols) -> Option<Self> {
        let Output::Groups { group, tuple, aggregates, columns } = output else { return None };
        let expressions = |plan: &nlog_plan::AggregatePlan| {
            plan.arguments.iter().map(|argument| Expression::new(argument, symbols)).collect()
        };
        Some(Groups {
            group: *group,
            tuple: *tuple,
            aggregates: aggregates.iter().map(|plan| (plan.aggregate, expressions(plan))).collect(),
            columns: columns.clone(),
            trace: Trace::new(*group, *tuple),
        })
    }

    /// The number of columns of group and tuple together.
    pub(crate) fn width(&self) -> usize {
        self.group + self.tuple
    }

    /// Applies consolidated changes of tuples, each given as group and tuple, and returns changes of the head's rows.
    pub(crate) fn settle(
        &mut self,
        changes: &Delta,
        symbols: &Symbols,
        out: &mut Delta,
        suffix: &[Symbol],
        failures: &mut Vec<(Symbol, Diff)>,
    ) -> Result<(), TooMany> {
        let mut computing = Computing {
            group: self.group,
            tuple: self.tuple,
            aggregates: &mut self.aggregates,
            columns: &self.columns,
            symbols,
            frame: Vec::new(),
            values: Vec::new(),
        };
        computing.settle(&mut self.trace, changes, out, suffix, failures)
    }

    /// The rows of all groups.
    pub(crate) fn rows(&self, view: View, symbols: &Symbols, out: &mut Delta) {
        let mut aggregates = self.aggregates.clone();
        let mut computing = Computing {
            group: self.group,
            tuple: self.tuple,
            aggregates: &mut aggregates,
            columns: &self.columns,
            symbols,
            frame: Vec::new(),
            values: Vec::new(),
        };
        computing.all(&self.trace, view, out);
    }

    pub(crate) fn forget(&mut self) {
        self.aggregates.iter_mut().flat_map(|(_, arguments)| arguments).for_each(Expression::forget);
    }

    /// Marks every symbol in the groups' tuples and expressions.
    pub(crate) fn mark(&self, marks: &mut Marks) {
        for argument in self.aggregates.iter().flat_map(|(_, arguments)| arguments) {
            argument.constants(&mut |symbol| marks.symbol(symbol));
        }
        self.trace.mark(marks);
    }
}

/// The computation of groups.
struct Computing<'a> {
    group: usize,
    tuple: usize,
    aggregates: &'a mut [(Aggregate, Vec<Expression>)],
    columns: &'a [GroupColumn],
    symbols: &'a Symbols,
    /// The group's columns, then the columns of a tuple.
    frame: Vec<Symbol>,
    /// The values of the aggregates.
    values: Vec<Symbol>,
}

impl Computing<'_> {
    fn settle(
        &mut self,
        trace: &mut Trace,
        changes: &Delta,
        out: &mut Delta,
        suffix: &[Symbol],
        failures: &mut Vec<(Symbol, Diff)>,
    ) -> Result<(), TooMany> {
        let columns: Vec<usize> = (0..self.group + self.tuple).collect();
        sort(changes, &Fit::default(), &columns, &mut *trace)?;
        let mut groups: Vec<&[Symbol]> = changes.rows().map(|(words, _)| &words[..self.group]).collect();
        groups.sort_unstable();
        groups.dedup();
        let (mut before, mut after) = (trace.probe(View::Before), trace.probe(View::After));
        for group in groups {
            for (found, diff) in [(before.find(group), -1), (after.find(group), 1)] {
                // The old count and its change are each in range, but their sum may not be.
                found.iter().try_for_each(|(_, count)| ways(count).map(drop))?;
                debug_assert!(
                    found.iter().all(|(_, count)| count > 0),
                    "a tuple is derived less often than never"
                );
                match self.aggregate(group, found) {
                    Ok(true) => self.emit(out, suffix, diff),
                    Ok(false) => {}
                    Err(failure) if diff > 0 => failures.push((failure, 1)),
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    fn all(&mut self, trace: &Trace, view: View, out: &mut Delta) {
        trace.for_each_key(view, |group, tuples| {
            if self.aggregate(group, tuples) == Ok(true) {
                self.emit(out, &[], 1);
            }
        });
    }

    /// Computes a group's values. Returns whether the group has tuples, or the least failure of its aggregates.
    fn aggregate(&mut self, group: &[Symbol], tuples: Values<'_>) -> Result<bool, Symbol> {
        let tuples: Vec<&[Symbol]> =
            tuples.iter().filter(|(_, count)| *count > 0).map(|(tuple, _)| tuple).collect();
        if tuples.is_empty() {
            return Ok(false);
        }
        self.frame.clear();
        self.frame.extend_from_slice(group);
        self.values.clear();
        let mut failed: Option<Symbol> = None;
        for (aggregate, arguments) in &mut *self.aggregates {
            let mut of_tuples = Vec::with_capacity(tuples.len());
            for tuple in &tuples {
                self.frame.truncate(self.group);
                self.frame.extend_from_slice(tuple);
                let words = arguments.iter_mut().map(|argument| argument.evaluate(&self.frame, self.symbols));
                of_tuples.push(words.collect::<Vec<Symbol>>());
            }
            debug_assert!(of_tuples.iter().flatten().all(|word| *word != NONE && !is_failure(*word)));
            match compute(*aggregate, &of_tuples, self.symbols) {
                Ok(value) => self.values.push(self.symbols.intern_owned(value)),
                Err(failure) => {
                    let failure = self.symbols.fail(failure);
                    failed = Some(failed.map_or(failure, |least| self.symbols.least_failure(least, failure)));
                }
            }
        }
        self.frame.truncate(self.group);
        failed.map_or(Ok(true), Err)
    }

    fn emit(&self, out: &mut Delta, suffix: &[Symbol], diff: Diff) {
        let columns = self.columns.iter().map(|column| match column {
            GroupColumn::Group(at) => self.frame[*at],
            GroupColumn::Aggregate(at) => self.values[*at],
        });
        out.push_words(columns.chain(suffix.iter().copied()), diff);
    }
}
