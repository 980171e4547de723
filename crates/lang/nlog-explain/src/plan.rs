//! The order in which the body of a rule is evaluated, which depends on the variables that have values before.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use nlog::program::{BodyItem, Expr, HeadTerm, Rule, Term, VariableId};

use crate::expression::variables;
use crate::join::Source;

/// The items of a body, in the order of evaluation.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
}

/// An item of a body.
#[derive(Debug)]
pub(crate) struct Step {
    /// Its place in the body.
    pub(crate) at: usize,
    /// What the columns of an atom are for; none if the item is no atom.
    pub(crate) columns: Option<Columns>,
    /// The variables that are no longer needed after it.
    pub(crate) dead: Vec<VariableId>,
}

/// What the columns of an atom are for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    /// Those with a constant, or a variable that has a value.
    pub(crate) known: Vec<usize>,
    /// Those that bind a variable.
    pub(crate) binds: Vec<(usize, VariableId)>,
    /// Those in which a variable that the atom binds stands again, each after the one that binds it.
    pub(crate) equal: Vec<(usize, usize)>,
}

impl Columns {
    /// Those of an atom where these variables have values. Notes the variables that it binds.
    pub(crate) fn of(terms: &[Term], bound: &mut [bool]) -> Columns {
        let mut columns = Columns::default();
        for (column, term) in terms.iter().enumerate() {
            match term {
                Term::Any => {}
                Term::Variable(variable) if !bound[variable.0 as usize] => {
                    match columns.binds.iter().find(|(_, other)| other == variable) {
                        Some((first, _)) => columns.equal.push((*first, column)),
                        None => columns.binds.push((column, *variable)),
                    }
                }
                Term::Variable(_) | Term::Constant(_) => columns.known.push(column),
            }
        }
        for (_, variable) in &columns.binds {
            bound[variable.0 as usize] = true;
        }
        columns
    }
}

impl Plan {
    /// The plan for a rule where these variables have values.
    pub(crate) fn new(rule: &Rule, source: Source<'_>, mut bound: Vec<bool>) -> Plan {
        let of_head = head_variables(rule);
        let mut left: Vec<(usize, &BodyItem)> = rule.body.iter().enumerate().collect();
        let mut steps = Vec::new();
        while let Some(next) = next(&left, &bound, source) {
            let (at, item) = left.remove(next);
            let columns = match item {
                BodyItem::Atom { terms, .. } => Some(Columns::of(terms, &mut bound)),
                _ => None,
            };
            bind(item, &mut bound);
            let mut dead: BTreeSet<VariableId> = results(item).collect();
            used(item, &mut |variable| {
                dead.insert(variable);
            });
            for (_, item) in &left {
                used(item, &mut |variable| {
                    dead.remove(&variable);
                });
            }
            steps.push(Step { at, columns, dead: dead.difference(&of_head).copied().collect() });
        }
        debug_assert!(left.is_empty(), "the compiler accepts bodies only whose variables are all bound");
        Plan { steps }
    }
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
    let best = || atoms.by_ref().max_by_key(|at| (weight(at), Reverse(*at)));
    left.iter().position(is_ready).or_else(best)
}

/// The variables that an item reads: of an atom all.
pub(crate) fn used(item: &BodyItem, each: &mut impl FnMut(VariableId)) {
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

/// The variables that an item other than an atom binds.
fn results(item: &BodyItem) -> impl Iterator<Item = VariableId> {
    let (one, several) = match item {
        BodyItem::Let { variable, .. } => (Some(*variable), &[][..]),
        BodyItem::Generate { results, .. } => (None, results.as_slice()),
        BodyItem::Atom { .. } | BodyItem::Filter(_) => (None, &[][..]),
    };
    one.into_iter().chain(several.iter().copied().flatten())
}

fn bind(item: &BodyItem, bound: &mut [bool]) {
    for variable in results(item) {
        bound[variable.0 as usize] = true;
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
