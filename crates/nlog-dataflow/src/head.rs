//! What becomes of a chain's bindings: indexed pairs, rows, groups, failures.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use nlog_plan::{Arrangement, Scalar, Slot};

use crate::expression::{Binding, Expression};
use crate::graph::Diff;
use crate::layout::Keyed;
use crate::row::{Narrow, Row};
use crate::symbol::{NO_FAILURE, NONE, Symbol, Symbols, is_failure};
use crate::trouble::{Conflict, Troubles};

/// Makes something of a binding that is there so many times; nothing if it fails or has no values.
pub(crate) type End<O> = Box<dyn FnMut(&mut Binding, Diff) -> Option<O>>;

/// Makes something of the columns of a head.
pub(crate) type Finish<O> = Box<dyn FnMut(&[Symbol]) -> O>;

type Noted = Rc<RefCell<Troubles>>;

/// Key and value of an arrangement.
pub(crate) fn arranged<R: Row>(arrangement: &Arrangement, symbols: &Arc<Symbols>) -> End<(R, R)> {
    let symbols = Arc::clone(symbols);
    let key = arrangement.key.clone();
    let mut value = arrangement.value.clone();
    let failure = arrangement.failure;
    if failure {
        // The failure is pushed as one more slot.
        value.push(arrangement.chain.names.len());
    }
    Box::new(move |binding, _| {
        if failure {
            let least = binding.least_failure(&symbols);
            binding.slots.push(least);
        }
        let slots = &binding.slots;
        let pair = (
            R::pack(key.iter().map(|slot| slots[*slot]), &symbols),
            R::pack(value.iter().map(|slot| slots[*slot]), &symbols),
        );
        if failure {
            binding.slots.pop();
        }
        Some(pair)
    })
}

/// A head of plain columns.
pub(crate) fn rows<O: 'static>(
    columns: &[Scalar],
    rule: u32,
    symbols: &Arc<Symbols>,
    troubles: &Noted,
    mut finish: Finish<O>,
) -> End<O> {
    let mut columns = Columns::new(columns, rule, symbols, troubles);
    Box::new(move |binding, diff| columns.evaluate(binding, diff).map(&mut finish))
}

/// Group and tuple of a head with aggregates.
pub(crate) fn group<G: Row>(
    group: &[Scalar],
    tuple: &[Slot],
    check: &[Scalar],
    rule: u32,
    symbols: &Arc<Symbols>,
    troubles: &Noted,
) -> End<(G, G)> {
    let (groups, tuple) = (group.len(), tuple.to_vec());
    // What is only checked is evaluated behind the group's columns, and dropped.
    let all: Vec<Scalar> = group.iter().chain(check).cloned().collect();
    let mut columns = Columns::new(&all, rule, symbols, troubles);
    let symbols = Arc::clone(symbols);
    Box::new(move |binding, diff| {
        let columns = columns.evaluate(binding, diff)?;
        let key = G::pack(columns[..groups].iter().copied(), &symbols);
        Some((key, G::pack(tuple.iter().map(|slot| binding.slots[*slot]), &symbols)))
    })
}

/// Bindings of which each is a failure.
pub(crate) fn failed(rule: u32, symbols: &Arc<Symbols>, troubles: &Noted) -> End<Narrow> {
    let mut columns = Columns::new(&[], rule, symbols, troubles);
    Box::new(move |binding, diff| {
        columns.evaluate(binding, diff);
        None
    })
}

/// The columns of a head, where a binding's failures end.
struct Columns {
    expressions: Vec<Expression>,
    rule: u32,
    symbols: Arc<Symbols>,
    troubles: Noted,
    words: Vec<Symbol>,
}

impl Columns {
    fn new(columns: &[Scalar], rule: u32, symbols: &Arc<Symbols>, troubles: &Noted) -> Self {
        Columns {
            expressions: columns.iter().map(|scalar| Expression::new(scalar, symbols)).collect(),
            rule,
            symbols: Arc::clone(symbols),
            troubles: Rc::clone(troubles),
            words: Vec::new(),
        }
    }

    /// The columns, if all have values and nothing failed on the way.
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
        self.troubles.borrow_mut().failures.push((self.rule, failure, diff));
        None
    }
}

/// Rows as they are.
pub(crate) fn row<R: Row>(arity: usize, symbols: &Arc<Symbols>) -> Finish<R> {
    let symbols = Arc::clone(symbols);
    Box::new(move |columns| {
        debug_assert_eq!(columns.len(), arity);
        R::pack(columns.iter().copied(), &symbols)
    })
}

/// Rows as key and rest.
pub(crate) fn pair<P: Row>(keyed: Keyed, rule: u32, symbols: &Arc<Symbols>) -> Finish<(P, P)> {
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
pub(crate) struct Keep<P> {
    keyed: Keyed,
    symbols: Arc<Symbols>,
    troubles: Noted,
    seen: Vec<(Vec<Symbol>, u32, P)>,
}

impl<P: Row> Keep<P> {
    pub(crate) fn new(keyed: Keyed, symbols: &Arc<Symbols>, troubles: &Noted) -> Self {
        Keep { keyed, symbols: Arc::clone(symbols), troubles: Rc::clone(troubles), seen: Vec::new() }
    }

    /// Of the values under a key those that differ in more than the rule, each with its least rule. Notes a broken key.
    pub(crate) fn reduce(&mut self, key: &P, values: &[(&P, Diff)], output: &mut Vec<(P, Diff)>) {
        // Nearly always: one rule derives one row.
        if let [(value, count)] = values {
            output.extend((*count > 0).then_some((**value, 1)));
            return;
        }
        self.seen.clear();
        for (value, _) in values.iter().filter(|(_, count)| *count > 0) {
            let mut row = Vec::new();
            let rule = self.keyed.row(key, *value, &self.symbols, &mut row);
            self.seen.push((row, rule, **value));
        }
        self.seen.sort_unstable();
        self.seen.dedup_by(|next, first| next.0 == first.0);
        output.extend(self.seen.iter().map(|(_, _, value)| (*value, 1)));
        if self.keyed.checked {
            let rows = self.seen.drain(..).map(|(row, _, _)| row).collect();
            self.troubles.borrow_mut().conflicts.extend(Conflict::of(rows, self.keyed.table));
        }
    }
}
