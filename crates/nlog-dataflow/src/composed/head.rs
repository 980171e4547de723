//! Converts bindings to indexed pairs, rows, groups and failures.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use nlog_plan::{Scalar, Slot};

use super::errors::{Conflict, Errors};
use super::layout::{Arrival, Keyed};
use super::{Diff, ONCE, is_there, is_too_many};
use crate::expression::{Binding, Expression};
use crate::row::{Narrow, Row};
use crate::symbol::{NO_FAILURE, NONE, Symbol, Symbols, is_failure};

/// Converts a binding with this count; `None` if it fails or has no values.
pub(super) type Made<O> = Box<dyn FnMut(&mut Binding, Diff) -> Option<O>>;

/// Converts the columns of a head.
pub(super) type Finish<O> = Box<dyn FnMut(&[Symbol]) -> O>;

type Noted = Rc<RefCell<Errors>>;

/// Builds key and value of a binding that arrives at a probe.
pub(super) fn arriving<R: Row>(arrival: &Arrival, symbols: &Arc<Symbols>) -> Made<(R, R)> {
    let symbols = Arc::clone(symbols);
    let Arrival { key, value, failure } = arrival.clone();
    let mut words = Vec::new();
    Box::new(move |binding, _| {
        let slots = &binding.slots;
        words.clear();
        words.extend(value.iter().map(|slot| slots[*slot]));
        if failure {
            words.push(binding.least_failure(&symbols));
        }
        let key = R::pack(key.iter().map(|slot| slots[*slot]), &symbols);
        Some((key, R::pack(words.iter().copied(), &symbols)))
    })
}

/// Builds key and value of a row in an index.
pub(super) fn indexed<R: Row>(key_columns: usize, symbols: &Arc<Symbols>) -> Made<(R, R)> {
    let symbols = Arc::clone(symbols);
    Box::new(move |binding, _| {
        let (key, value) = binding.slots.split_at(key_columns);
        Some((R::pack(key.iter().copied(), &symbols), R::pack(value.iter().copied(), &symbols)))
    })
}

/// Builds a head of plain columns.
pub(super) fn rows<O: 'static>(
    columns: &[Scalar],
    rule: u32,
    symbols: &Arc<Symbols>,
    errors: &Noted,
    mut finish: Finish<O>,
) -> Made<O> {
    let mut columns = Columns::new(columns, rule, symbols, errors);
    Box::new(move |binding, diff| columns.evaluate(binding, diff).map(&mut finish))
}

/// Builds group and tuple of a head with aggregates.
pub(super) fn group<G: Row>(
    group: &[Scalar],
    tuple: &[Slot],
    check: &[Scalar],
    rule: u32,
    symbols: &Arc<Symbols>,
    errors: &Noted,
) -> Made<(G, G)> {
    let (groups, tuple) = (group.len(), tuple.to_vec());
    // Expressions that are only checked follow the group's columns, and their values are dropped.
    let all: Vec<Scalar> = group.iter().chain(check).cloned().collect();
    let mut columns = Columns::new(&all, rule, symbols, errors);
    let symbols = Arc::clone(symbols);
    Box::new(move |binding, diff| {
        let columns = columns.evaluate(binding, diff)?;
        let key = G::pack(columns[..groups].iter().copied(), &symbols);
        Some((key, G::pack(tuple.iter().map(|slot| binding.slots[*slot]), &symbols)))
    })
}

/// Records each binding as a failure.
pub(super) fn failed(rule: u32, symbols: &Arc<Symbols>, errors: &Noted) -> Made<Narrow> {
    let mut columns = Columns::new(&[], rule, symbols, errors);
    Box::new(move |binding, diff| {
        columns.evaluate(binding, diff);
        None
    })
}

/// The columns of a head. Evaluation records the failures of bindings.
struct Columns {
    expressions: Vec<Expression>,
    rule: u32,
    symbols: Arc<Symbols>,
    errors: Noted,
    words: Vec<Symbol>,
}

impl Columns {
    fn new(columns: &[Scalar], rule: u32, symbols: &Arc<Symbols>, errors: &Noted) -> Self {
        Columns {
            expressions: columns.iter().map(|scalar| Expression::new(scalar, symbols)).collect(),
            rule,
            symbols: Arc::clone(symbols),
            errors: Rc::clone(errors),
            words: Vec::new(),
        }
    }

    /// The columns, if all have values and nothing failed.
    fn evaluate(&mut self, binding: &Binding, diff: Diff) -> Option<&[Symbol]> {
        self.words.clear();
        let mut failure = binding.least_failure(&self.symbols);
        for column in &mut self.expressions {
            let word = column.evaluate(&binding.slots, &self.symbols);
            if word == NONE {
                return None;
            }
            if is_failure(word) {
                failure = self.symbols.least_failure(failure, word);
            }
            self.words.push(word);
        }
        if failure == NO_FAILURE {
            return Some(&self.words);
        }
        self.errors.borrow_mut().failures.push((self.rule, failure, diff));
        None
    }
}

/// Builds plain rows.
pub(super) fn row<R: Row>(arity: usize, symbols: &Arc<Symbols>) -> Finish<R> {
    let symbols = Arc::clone(symbols);
    Box::new(move |columns| {
        debug_assert_eq!(columns.len(), arity);
        R::pack(columns.iter().copied(), &symbols)
    })
}

/// Builds rows as key and rest.
pub(super) fn pair<P: Row>(keyed: Keyed, rule: u32, symbols: &Arc<Symbols>) -> Finish<(P, P)> {
    let symbols = Arc::clone(symbols);
    let mut value = Vec::new();
    Box::new(move |columns| {
        value.clear();
        value.extend(keyed.rest.iter().map(|column| columns[*column]));
        if keyed.attributed {
            value.push(rule);
        }
        let key = keyed.key.iter().map(|column| columns[*column]);
        (P::pack(key, &symbols), P::pack(value.iter().copied(), &symbols))
    })
}

/// Reduces a table's rows under one key.
pub(super) struct Keep<P> {
    keyed: Keyed,
    symbols: Arc<Symbols>,
    errors: Noted,
    /// Reports a row with too many derivations.
    too_many: Box<dyn Fn()>,
    seen: Vec<(Vec<Symbol>, u32, P)>,
}

impl<P: Row> Keep<P> {
    pub(super) fn new(keyed: Keyed, symbols: Arc<Symbols>, errors: Noted, too_many: Box<dyn Fn()>) -> Self {
        Keep { keyed, symbols, errors, too_many, seen: Vec::new() }
    }

    /// Reduces the values under a key that differ only in their rule to one with the least rule. Records a violated
    /// key.
    pub(super) fn reduce(&mut self, key: &P, values: &[(&P, Diff)], output: &mut Vec<(P, Diff)>) {
        if values.iter().any(|(_, ways)| is_too_many(*ways)) {
            (self.too_many)();
        }
        // The usual case: one rule derives one row.
        if let [(value, ways)] = values {
            output.extend(is_there(*ways).then_some((**value, ONCE)));
            return;
        }
        self.seen.clear();
        for (value, _) in values.iter().filter(|(_, ways)| is_there(*ways)) {
            let mut row = Vec::new();
            let rule = self.keyed.row(key, *value, &self.symbols, &mut row);
            self.seen.push((row, rule, **value));
        }
        self.seen.sort_unstable();
        self.seen.dedup_by(|next, first| next.0 == first.0);
        output.extend(self.seen.iter().map(|(_, _, value)| (*value, ONCE)));
        if let Some(table) = self.keyed.checked {
            let rows = self.seen.drain(..).map(|(row, _, _)| row).collect();
            self.errors.borrow_mut().conflicts.extend(Conflict::of(rows, table));
        }
    }
}
