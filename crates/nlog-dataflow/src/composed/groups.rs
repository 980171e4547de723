//! Groups of tuples and their aggregates, as differential's `reduce` presents them.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use nlog::program::Aggregate;
use nlog_plan::AggregatePlan;

use super::errors::Errors;
use super::{Diff, ONCE, is_there};
use crate::aggregate::compute;
use crate::expression::Expression;
use crate::row::Row;
use crate::symbol::{NONE, Symbol, Symbols, is_failure};

/// The aggregates of a rule's head.
pub(super) struct Groups {
    aggregates: Vec<(Aggregate, Vec<Expression>)>,
    group_columns: usize,
    tuple_columns: usize,
    rule: u32,
    symbols: Arc<Symbols>,
    errors: Rc<RefCell<Errors>>,
    /// The group's columns, then the columns of a tuple.
    frame: Vec<Symbol>,
}

impl Groups {
    pub(super) fn new(
        aggregates: &[AggregatePlan],
        (group_columns, tuple_columns): (usize, usize),
        rule: u32,
        symbols: &Arc<Symbols>,
        errors: &Rc<RefCell<Errors>>,
    ) -> Self {
        let expressions = |plan: &AggregatePlan| {
            plan.arguments.iter().map(|argument| Expression::new(argument, symbols)).collect()
        };
        Groups {
            aggregates: aggregates.iter().map(|plan| (plan.aggregate, expressions(plan))).collect(),
            group_columns,
            tuple_columns,
            rule,
            symbols: Arc::clone(symbols),
            errors: Rc::clone(errors),
            frame: Vec::new(),
        }
    }

    /// The row of a group, unless the group has no tuples or an aggregate fails.
    pub(super) fn row<G: Row>(&mut self, key: &G, tuples: &[(&G, Diff)]) -> Option<G> {
        let symbols = Arc::clone(&self.symbols);
        let present: Vec<&G> =
            tuples.iter().filter(|(_, ways)| is_there(*ways)).map(|(tuple, _)| *tuple).collect();
        if present.is_empty() {
            return None;
        }
        self.frame.clear();
        key.unpack(self.group_columns, &symbols, &mut self.frame);
        let mut row = Vec::with_capacity(self.aggregates.len());
        let mut failed = false;
        for (aggregate, arguments) in &mut self.aggregates {
            let mut values = Vec::with_capacity(present.len());
            for tuple in &present {
                self.frame.truncate(self.group_columns);
                tuple.unpack(self.tuple_columns, &symbols, &mut self.frame);
                let words = arguments.iter_mut().map(|argument| argument.evaluate(&self.frame, &symbols));
                values.push(words.collect::<Vec<Symbol>>());
            }
            debug_assert!(values.iter().flatten().all(|word| *word != NONE && !is_failure(*word)));
            match compute(*aggregate, &values, &symbols) {
                Ok(value) => row.push(symbols.intern_owned(value)),
                Err(failure) => {
                    let failure = symbols.fail(failure);
                    self.errors.borrow_mut().failures.push((self.rule, failure, ONCE));
                    failed = true;
                }
            }
        }
        (!failed).then(|| G::pack(row.into_iter(), &symbols))
    }
}
