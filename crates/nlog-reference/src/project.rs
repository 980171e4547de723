//! Evaluates the body of a rule as far as its head needs it: every combination of values of the head's variables, once.
//!
//! Items of the body are evaluated one after the other. After each, variables that neither the rest of the body nor the
//! head uses are dropped, and equal combinations are merged. So the time for a rule depends on the combinations at its
//! widest step, not on the number of its bindings, which can be 10¹⁰ and more.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use nlog::program::{BodyItem, Expr, HeadTerm, Rule, Term, VariableId};
use nlog_data::{Failure, Row, TableId, Value};

use crate::expression::{Values, variables};
use crate::join::{Binding, Source, check};

/// Values of the variables that are still needed, and the least failure on the way to them.
type Combination = (Values, Option<Failure>);

/// The rows of the atoms of a binding so far, each with the place of its atom in the body, in this order.
pub(crate) type Rows<'a> = Vec<(usize, TableId, &'a Row)>;

/// Combinations, each with the first bodies that lead to it.
type Combinations<'a> = HashMap<Combination, Vec<Rows<'a>>>;

/// What is done with a combination: the values of the head's variables, the failure and the bodies.
type Each<'e, 'a> = dyn FnMut(&Values, Option<&Failure>, Vec<Rows<'a>>) + 'e;

/// Calls `each` for the values of the head's variables under every binding that the body does not reject, and with the
/// least failure of such a binding: each combination once, in no order.
///
/// With each come the first `most` bodies of its bindings, by the rows of the atoms in the order of the rule. It suffices to keep
/// so many of each combination on the way: what two bodies of a combination can be continued with is the same.
///
/// Variables that are given values have these. Each of them is one that an atom binds.
pub(crate) fn for_each_combination<'a>(
    rule: &'a Rule,
    source: Source<'a>,
    given: Values,
    most: usize,
    each: &mut Each<'_, 'a>,
) {
    let of_head = head_variables(rule);
    let mut left: Vec<(usize, &BodyItem)> = rule.body.iter().enumerate().collect();
    let mut bound: Vec<bool> = given.iter().map(Option::is_some).collect();
    let nothing = if most > 0 { vec![Rows::new()] } else { Vec::new() };
    let mut combinations = Combinations::from_iter([((given, None), nothing)]);
    while let Some(next) = next(&left, &bound, source) {
        let (at, item) = left.remove(next);
        let mut live = vec![false; bound.len()];
        for variable in &of_head {
            live[variable.0 as usize] = true;
        }
        for (_, item) in &left {
            used(item, &mut |variable| live[variable.0 as usize] = true);
        }
        let mut extended = Extended { live, most, combinations: Combinations::new() };
        let atom = match item {
            BodyItem::Atom { table, terms, .. } => Some(source.atom(*table, terms, &mut bound)),
            _ => None,
        };
        source.count(combinations.len());
        for ((values, failure), bodies) in combinations {
            let failures = failure.into_iter().collect();
            let mut binding = Binding { values, failures };
            let Some(atom) = &atom else {
                let before = binding.failures.len();
                check(item, &mut binding, &mut |binding| extended.keep(binding, bodies.iter().cloned()));
                binding.failures.truncate(before);
                continue;
            };
            for row in atom.matching(&binding.values).iter() {
                for (column, variable) in &atom.binds {
                    binding.values[variable.0 as usize] = Some(row[*column].clone());
                }
                extended.keep(&binding, bodies.iter().map(|body| with_row(body, (at, atom.table, row))));
            }
        }
        bind(item, &mut bound);
        combinations = extended.combinations;
    }
    debug_assert!(left.is_empty(), "the compiler accepts bodies only whose variables are all bound");
    for ((values, failure), bodies) in combinations {
        each(&values, failure.as_ref(), bodies);
    }
}

/// The combinations after an item.
struct Extended<'a> {
    /// Whether a variable is needed later.
    live: Vec<bool>,
    /// How many bodies of each combination are kept.
    most: usize,
    combinations: Combinations<'a>,
}

impl<'a> Extended<'a> {
    fn keep(&mut self, binding: &Binding, bodies: impl Iterator<Item = Rows<'a>>) {
        let value = |(value, live): (&Option<Value>, &bool)| value.clone().filter(|_| *live);
        let values = binding.values.iter().zip(&self.live).map(value).collect();
        let kept = self.combinations.entry((values, binding.failures.iter().min().cloned())).or_default();
        if self.most > 0 {
            kept.extend(bodies);
            if kept.len() > self.most {
                kept.sort_unstable();
                kept.truncate(self.most);
            }
        }
    }
}

fn with_row<'a>(body: &Rows<'a>, row: (usize, TableId, &'a Row)) -> Rows<'a> {
    let mut body = body.clone();
    let place = body.partition_point(|(at, ..)| *at < row.0);
    body.insert(place, row);
    body
}

/// The values of variables that stand in the head as they are, if an atom binds them: only these can derive a row with these
/// values, and with them, most rows of most atoms need not be looked at. None if the head is never such a row.
pub(crate) fn given(rule: &Rule, columns: &[Option<Value>]) -> Option<Values> {
    let mut given: Values = vec![None; rule.variables.len()];
    for (term, wanted) in rule.terms.iter().zip(columns) {
        let (HeadTerm::Value(expr), Some(wanted)) = (term, wanted) else { continue };
        match expr {
            Expr::Constant(value) if value != wanted => return None,
            Expr::Variable(variable) => match &mut given[variable.0 as usize] {
                Some(other) if other != wanted => return None,
                value => *value = Some(wanted.clone()),
            },
            _ => {}
        }
    }
    let mut is_bound = vec![false; given.len()];
    for item in &rule.body {
        if let BodyItem::Atom { .. } = item {
            used(item, &mut |variable| is_bound[variable.0 as usize] = true);
        }
    }
    for (value, is_bound) in given.iter_mut().zip(is_bound) {
        *value = value.take().filter(|_| is_bound);
    }
    Some(given)
}

/// The place of the item to evaluate next: one that needs no further atom, or else an atom: the next one, or, where rows are
/// derived on demand, the one that seems to have the fewest rows.
fn next(left: &[(usize, &BodyItem)], bound: &[bool], source: Source<'_>) -> Option<usize> {
    let is_ready = |(_, item): &(usize, &BodyItem)| {
        let mut ready = !matches!(item, BodyItem::Atom { .. });
        used(item, &mut |variable| ready &= bound[variable.0 as usize]);
        ready
    };
    let weight = |at: &usize| match left[*at].1 {
        BodyItem::Atom { table, terms, .. } => source.weight(*table, terms, bound),
        _ => 0,
    };
    let mut atoms = (0..left.len()).filter(|at| matches!(left[*at].1, BodyItem::Atom { .. }));
    // Of equals, the first.
    let best = || atoms.by_ref().max_by_key(|at| (weight(at), std::cmp::Reverse(*at)));
    left.iter().position(is_ready).or_else(best)
}

/// The variables that an item reads: of an atom all.
fn used(item: &BodyItem, each: &mut impl FnMut(VariableId)) {
    match item {
        BodyItem::Atom { terms, .. } => {
            for term in terms {
                if let Term::Variable(variable) = term {
                    each(*variable);
                }
            }
        }
        BodyItem::Let { expr, .. } | BodyItem::Filter(expr) => variables(expr, each),
        BodyItem::Generate { arguments, .. } => {
            for argument in arguments {
                variables(argument, each);
            }
        }
    }
}

/// Notes the variables that an item other than an atom binds.
fn bind(item: &BodyItem, bound: &mut [bool]) {
    match item {
        BodyItem::Let { variable, .. } => bound[variable.0 as usize] = true,
        BodyItem::Generate { results, .. } => {
            for variable in results.iter().flatten() {
                bound[variable.0 as usize] = true;
            }
        }
        BodyItem::Atom { .. } | BodyItem::Filter(_) => {}
    }
}

/// The variables that the head uses.
pub(crate) fn head_variables(rule: &Rule) -> BTreeSet<VariableId> {
    let mut found = BTreeSet::new();
    for term in &rule.terms {
        let exprs: &[Expr] = match term {
            HeadTerm::Value(expr) => std::slice::from_ref(expr),
            HeadTerm::Aggregate { arguments, .. } => arguments.as_slice(),
        };
        for expr in exprs {
            variables(expr, &mut |variable| {
                found.insert(variable);
            });
        }
    }
    found
}
