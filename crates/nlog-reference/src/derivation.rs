//! The bodies that derive a row, at most a given number of them: a row can have 10¹⁰ ways and more.
//!
//! The values of the head's variables come from [`for_each_combination`], which does not walk all bindings. Then rows
//! that cannot be part of a body are removed from each atom, until nothing changes: of a body without a cycle of
//! shared variables, what is left has no dead end (Yannakakis, "Algorithms for Acyclic Database Schemes", VLDB 1981).
//! So the search for bodies, which is nested loops in the order of the rule, finds the first ones at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use nlog::program::{BodyItem, Expr, HeadTerm, Rule, Term, VariableId};
use nlog_data::{Row, TableId, Value};

use crate::expression::Values;
use crate::join::{Atom, Binding, Contents, check, index_rows};
use crate::project::{for_each_combination, head_variables};
use crate::rule;

/// The rows of the atoms of a binding, in the order of the body.
pub(crate) type Body = Vec<(TableId, Row)>;

/// The values that a variable can have.
type Domains = BTreeMap<VariableId, BTreeSet<Value>>;

/// An atom of the body and the rows that can be part of a body.
struct Candidates<'a> {
    table: TableId,
    terms: &'a [Term],
    rows: Vec<&'a Row>,
}

/// The bodies of the bindings whose head is the row, or whose group's row it is: the first `most`, and whether there are
/// more.
pub(crate) fn bodies(rule: &Rule, contents: &Contents, row: &Row, most: usize) -> (Vec<Body>, bool) {
    let has_aggregates = rule.terms.iter().any(|term| matches!(term, HeadTerm::Aggregate { .. }));
    let given = given(rule, row);
    if has_aggregates && !rule::derive_with(rule, contents, given.clone()).rows.contains(row) {
        return (Vec::new(), false);
    }
    let group_columns: Vec<&Value> = (rule.terms.iter().zip(row))
        .filter(|(term, _)| matches!(term, HeadTerm::Value(_)))
        .map(|(_, value)| value)
        .collect();
    let is_head = |head: Option<Result<rule::Head, _>>| matches!(head, Some(Ok(head)) if head.group.iter().eq(group_columns.iter().copied()));
    let mut domains = Domains::new();
    let of_head = head_variables(rule);
    let mut is_derived = false;
    for_each_combination(rule, contents, given, &mut |values, failure| {
        if is_head(rule::head(rule, values, failure)) {
            is_derived = true;
            for variable in &of_head {
                domains.entry(*variable).or_default().extend(values[variable.0 as usize].clone());
            }
        }
    });
    if !is_derived {
        return (Vec::new(), false);
    }
    let mut bodies = Vec::new();
    let mut more = false;
    let _ = for_each_binding(rule, &candidates(rule, contents, domains), &mut |binding| {
        if !is_head(rule::head(rule, &binding.values, binding.failures.first())) {
            return ControlFlow::Continue(());
        }
        if bodies.len() == most {
            more = true;
            return ControlFlow::Break(());
        }
        bodies.push(binding.rows.iter().map(|(table, row)| (*table, (*row).clone())).collect());
        ControlFlow::Continue(())
    });
    (bodies, more)
}

/// The values of variables that stand in the head as they are, if an atom binds them: only these can derive the row, and with
/// them, most rows of most atoms need not be looked at.
fn given(rule: &Rule, row: &Row) -> Values {
    let atoms = rule.body.iter().filter_map(|item| match item {
        BodyItem::Atom { terms, .. } => Some(terms),
        _ => None,
    });
    let bound: BTreeSet<VariableId> = atoms.flat_map(|terms| variables(terms)).collect();
    let mut given: Values = vec![None; rule.variables.len()];
    for (term, value) in rule.terms.iter().zip(row) {
        if let HeadTerm::Value(Expr::Variable(variable)) = term
            && bound.contains(variable)
        {
            given[variable.0 as usize] = Some(value.clone());
        }
    }
    given
}

/// The rows of each atom that agree with the domains of its variables, where each other atom can have the same values.
fn candidates<'a>(rule: &'a Rule, contents: &'a Contents, mut domains: Domains) -> Vec<Candidates<'a>> {
    let mut atoms: Vec<Candidates<'a>> = Vec::new();
    for item in &rule.body {
        if let BodyItem::Atom { table, terms, .. } = item {
            let rows = contents[table.0 as usize].keys().collect();
            atoms.push(Candidates { table: *table, terms, rows });
        }
    }
    // Values that no atom binds are computed by items that read the atoms' values: they restrict nothing here.
    let bound: BTreeSet<VariableId> = atoms.iter().flat_map(|atom| variables(atom.terms)).collect();
    domains.retain(|variable, _| bound.contains(variable));
    loop {
        let mut changed = false;
        for atom in &mut atoms {
            let before = atom.rows.len();
            let terms = atom.terms;
            atom.rows.retain(|row| {
                terms.iter().zip(row.iter()).all(|(term, value)| admits(&domains, term, value))
            });
            changed |= atom.rows.len() < before;
            for (column, term) in terms.iter().enumerate() {
                let Term::Variable(variable) = term else { continue };
                let known = domains.remove(variable);
                // Another column of the same atom can have had the variable: domains only ever get smaller.
                let is_known = |value: &Value| known.as_ref().is_none_or(|known| known.contains(value));
                let values = atom.rows.iter().map(|row| &row[column]).filter(|value| is_known(value));
                let values: BTreeSet<Value> = values.cloned().collect();
                changed |= known.is_none_or(|known| values.len() < known.len());
                domains.insert(*variable, values);
            }
        }
        if !changed {
            return atoms;
        }
    }
}

fn variables(terms: &[Term]) -> impl Iterator<Item = VariableId> {
    terms.iter().filter_map(|term| if let Term::Variable(variable) = term { Some(*variable) } else { None })
}

fn admits(domains: &Domains, term: &Term, value: &Value) -> bool {
    match term {
        Term::Any => true,
        Term::Constant(constant) => constant == value,
        Term::Variable(variable) => domains.get(variable).is_none_or(|values| values.contains(value)),
    }
}

/// Calls `each` for every binding that the body does not reject, until it breaks.
fn for_each_binding<'a>(
    rule: &'a Rule,
    candidates: &[Candidates<'a>],
    each: &mut dyn FnMut(&Binding<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut bound = vec![false; rule.variables.len()];
    let atoms: Vec<Atom<'a>> = candidates
        .iter()
        .map(|atom| index_rows(atom.table, atom.terms, &mut bound, atom.rows.iter().copied()))
        .collect();
    let others: Vec<&BodyItem> =
        rule.body.iter().filter(|item| !matches!(item, BodyItem::Atom { .. })).collect();
    let mut binding =
        Binding { values: vec![None; rule.variables.len()], rows: Vec::new(), failures: Vec::new() };
    join(&atoms, &others, &mut binding, each)
}

/// Nested loops over the atoms.
fn join<'a>(
    atoms: &[Atom<'a>],
    others: &[&BodyItem],
    binding: &mut Binding<'a>,
    each: &mut dyn FnMut(&Binding<'a>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some((atom, atoms)) = atoms.split_first() else {
        let mut flow = ControlFlow::Continue(());
        check(others, binding, &mut |binding| {
            if flow.is_continue() {
                flow = each(binding);
            }
        });
        return flow;
    };
    for row in atom.matching(&binding.values) {
        for (column, variable) in &atom.binds {
            binding.values[variable.0 as usize] = Some(row[*column].clone());
        }
        binding.rows.push((atom.table, row));
        join(atoms, others, binding, each)?;
        binding.rows.pop();
    }
    ControlFlow::Continue(())
}
