//! Evaluates the body of a rule as far as its head needs it: every combination of values of the head's variables, once.
//!
//! Items of the body are evaluated one after the other. After each, variables that neither the rest of the body nor the
//! head uses are dropped, and equal combinations are merged. So the time for a rule depends on the combinations at its
//! widest step, not on the number of its bindings, which can be 10¹⁰ and more.

use std::collections::{BTreeSet, HashSet};

use nlog::program::{BodyItem, Expr, HeadTerm, Rule, Term, VariableId};
use nlog_data::Failure;

use crate::expression::{Values, variables};
use crate::join::{Binding, Contents, check, index};

/// Values of the variables that are still needed, and the least failure on the way to them.
type Combination = (Values, Option<Failure>);

/// Calls `each` for the values of the head's variables under every binding that the body does not reject, and with the
/// least failure of such a binding: each combination once, in no order.
///
/// Variables that are given values have these. Each of them is one that an atom binds.
pub(crate) fn for_each_combination(
    rule: &Rule,
    contents: &Contents,
    given: Values,
    each: &mut dyn FnMut(&Values, Option<&Failure>),
) {
    let of_head = head_variables(rule);
    let mut left: Vec<&BodyItem> = rule.body.iter().collect();
    let mut bound: Vec<bool> = given.iter().map(Option::is_some).collect();
    let is_guided = bound.contains(&true);
    let mut combinations: HashSet<Combination> = HashSet::from([(given, None)]);
    while let Some(at) = next(&left, &bound, is_guided) {
        let item = left.remove(at);
        let mut live = of_head.clone();
        for item in &left {
            used(item, &mut |variable| live.extend([variable]));
        }
        let mut extended = HashSet::new();
        let mut keep = |binding: &Binding<'_>| {
            let value = |(number, value): (usize, &Option<_>)| {
                value.clone().filter(|_| live.contains(&VariableId(number as u32)))
            };
            let values = binding.values.iter().enumerate().map(value).collect();
            extended.insert((values, binding.failures.iter().min().cloned()));
        };
        let atom = match item {
            BodyItem::Atom { table, terms, .. } => Some(index(*table, terms, &mut bound, contents)),
            _ => None,
        };
        for (values, failure) in combinations {
            let failures = failure.into_iter().collect();
            let mut binding = Binding { values, rows: Vec::new(), failures };
            match &atom {
                None => check(&[item], &mut binding, &mut keep),
                Some(atom) => {
                    for row in atom.matching(&binding.values) {
                        for (column, variable) in &atom.binds {
                            binding.values[variable.0 as usize] = Some(row[*column].clone());
                        }
                        keep(&binding);
                    }
                }
            }
        }
        bind(item, &mut bound);
        combinations = extended;
    }
    debug_assert!(left.is_empty(), "the compiler accepts bodies only whose variables are all bound");
    for (values, failure) in &combinations {
        each(values, failure.as_ref());
    }
}

/// The place of the item to evaluate next: one that needs no further atom, or else the next atom; where values are given, the
/// one with the most known columns, because it has the fewest rows.
fn next(left: &[&BodyItem], bound: &[bool], is_guided: bool) -> Option<usize> {
    let is_ready = |item: &&BodyItem| {
        let mut ready = !matches!(item, BodyItem::Atom { .. });
        used(item, &mut |variable| ready &= bound[variable.0 as usize]);
        ready
    };
    let known = |at: &usize| match left[*at] {
        BodyItem::Atom { terms, .. } if is_guided => {
            terms.iter().filter(|term| is_known(term, bound)).count()
        }
        _ => 0,
    };
    let mut atoms = (0..left.len()).filter(|at| matches!(left[*at], BodyItem::Atom { .. }));
    // Of equals, the first.
    let best = || atoms.by_ref().max_by_key(|at| (known(at), std::cmp::Reverse(*at)));
    left.iter().position(is_ready).or_else(best)
}

fn is_known(term: &Term, bound: &[bool]) -> bool {
    match term {
        Term::Constant(_) => true,
        Term::Variable(variable) => bound[variable.0 as usize],
        Term::Any => false,
    }
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
