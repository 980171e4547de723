//! The search for the point where a rule gets furthest: nested loops, with conditions as early as they can be decided.

use std::borrow::Cow;
use std::collections::BTreeSet;

use nlog::program::{BodyItem, Expr, HeadTerm, Pattern, Rule, Term, VariableId};
use nlog_data::{Row, Schema, TableId, Value};

use super::heads;
use crate::OnDemand;
use crate::expression::{Outcome, Values, call, evaluate};
use crate::hidden::{HiddenPart, hidden_part};
use crate::join::{Atom, Source};
use crate::plan::Columns;

/// How many steps a search may take. A body can have 10¹⁰ bindings and more; after this many, the answer is the furthest
/// point so far.
const STEPS: usize = 1_000_000;

/// A part of a rule, in the order of the search.
pub(super) enum Step<'a> {
    Atom {
        atom: Atom<'a>,
        item: &'a BodyItem,
    },
    Other(&'a BodyItem),
    /// A computed column of the head, and its expected value.
    Head {
        column: usize,
        expr: &'a Expr,
        wanted: &'a Value,
    },
}

/// The failure of a step.
pub(super) enum Finding {
    /// No row, or no result.
    Nothing,
    /// A condition that is false.
    False,
    /// Another value than the variable has.
    Gives(Value),
    /// Another value in a column of the head.
    Other(usize, Value),
}

/// The point where the search got furthest.
pub(super) struct DeadEnd {
    pub(super) at: usize,
    pub(super) values: Values,
    pub(super) rows: Vec<(TableId, Row)>,
    /// The number of bindings that ended here.
    pub(super) count: usize,
    pub(super) finding: Finding,
}

/// Values of variables, and the rows that they come from.
pub(super) struct Binding<'a> {
    values: Values,
    rows: Vec<(TableId, &'a Row)>,
}

pub(super) struct Search<'a> {
    pub(super) steps: Vec<Step<'a>>,
    /// The values of variables that follow from the head.
    given: Values,
    /// A variable in two columns of the head, for which the pattern has different values.
    torn: Option<(usize, Value)>,
    pub(super) dead_end: Option<DeadEnd>,
    pub(super) succeeded: bool,
    /// How many more steps may be tried.
    budget: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(rule: &'a Rule, pattern: &'a Pattern, state: &'a OnDemand, schema: &Schema) -> Self {
        let mut given: Values = vec![None; rule.variables.len()];
        let mut torn = None;
        let mut computed = Vec::new();
        for (column, (term, wanted)) in rule.terms.iter().zip(&pattern.columns).enumerate() {
            let (HeadTerm::Value(expr), Some(wanted)) = (term, wanted) else { continue };
            match expr {
                Expr::Variable(variable) => match &mut given[variable.0 as usize] {
                    Some(other) if other != wanted => torn = Some((column, other.clone())),
                    slot => *slot = Some(wanted.clone()),
                },
                Expr::Constant(_) => {}
                _ => computed.push(Step::Head { column, expr, wanted }),
            }
        }
        for step in &computed {
            if let Step::Head { expr, wanted, .. } = step {
                heads::bind(expr, wanted, &mut given);
            }
        }
        let steps = order(rule, &given, computed, state, schema);
        Search { steps, given, torn, dead_end: None, succeeded: false, budget: STEPS }
    }

    pub(super) fn start(&mut self) -> Binding<'a> {
        Binding { values: self.given.clone(), rows: Vec::new() }
    }

    /// Whether the search ended before it had tried all bindings.
    pub(super) fn is_cut(&self) -> bool {
        self.budget == 0
    }

    /// Continues from a step, with the variables bound before it.
    pub(super) fn run(&mut self, at: usize, binding: &mut Binding<'a>) {
        if let Some((column, value)) = self.torn.take() {
            return self.stop(0, binding, Finding::Other(column, value));
        }
        if self.succeeded || self.is_cut() {
            return;
        }
        self.budget -= 1;
        match self.steps.get(at) {
            None => self.succeeded = true,
            Some(Step::Atom { .. }) => self.atom(at, binding),
            Some(Step::Other(item)) => self.other(at, item, binding),
            Some(Step::Head { column, expr, wanted }) => {
                let (column, wanted) = (*column, *wanted);
                match evaluate(expr, &binding.values, &mut Vec::new()) {
                    Outcome::Value(value) if value != *wanted => {
                        self.stop(at, binding, Finding::Other(column, value));
                    }
                    Outcome::Nothing => self.stop(at, binding, Finding::Nothing),
                    _ => self.run(at + 1, binding),
                }
            }
        }
    }

    fn atom(&mut self, at: usize, binding: &mut Binding<'a>) {
        let Some(Step::Atom { atom, .. }) = self.steps.get(at) else { return };
        let rows: Vec<&'a Row> = atom.matching(&binding.values).into_owned();
        let (table, binds) = (atom.table, atom.columns.binds.clone());
        if rows.is_empty() {
            return self.stop(at, binding, Finding::Nothing);
        }
        for row in rows {
            for (column, variable) in &binds {
                binding.values[variable.0 as usize] = Some(row[*column].clone());
            }
            binding.rows.push((table, row));
            self.run(at + 1, binding);
            binding.rows.pop();
        }
        for (_, variable) in &binds {
            binding.values[variable.0 as usize] = None;
        }
    }

    fn other(&mut self, at: usize, item: &'a BodyItem, binding: &mut Binding<'a>) {
        match item {
            BodyItem::Atom { .. } => self.run(at + 1, binding),
            BodyItem::Filter(condition) => match evaluate(condition, &binding.values, &mut Vec::new()) {
                Outcome::Value(Value::Bool(true)) | Outcome::Undetermined => self.run(at + 1, binding),
                Outcome::Value(_) => self.stop(at, binding, Finding::False),
                Outcome::Nothing => self.stop(at, binding, Finding::Nothing),
            },
            BodyItem::Let { variable, expr } => {
                match evaluate(expr, &binding.values, &mut Vec::new()) {
                    Outcome::Value(value) => self.results(at, &[Some(*variable)], vec![vec![value]], binding),
                    // A failure would have refused the transaction, unless something later rejects the binding.
                    Outcome::Undetermined => self.run(at + 1, binding),
                    Outcome::Nothing => self.stop(at, binding, Finding::Nothing),
                }
            }
            BodyItem::Generate { function, arguments, results } => {
                match call(function, arguments, &binding.values, &mut Vec::new()) {
                    Outcome::Value(tuples) => self.results(at, results, tuples, binding),
                    Outcome::Undetermined => self.run(at + 1, binding),
                    Outcome::Nothing => self.stop(at, binding, Finding::Nothing),
                }
            }
        }
    }

    /// Continues with each tuple of results that agrees with the known values.
    fn results(
        &mut self,
        at: usize,
        variables: &[Option<VariableId>],
        tuples: Vec<Vec<Value>>,
        binding: &mut Binding<'a>,
    ) {
        let before: Vec<Option<Value>> =
            variables.iter().map(|v| v.and_then(|v| binding.values[v.0 as usize].clone())).collect();
        let mut instead = None;
        let mut fits = false;
        for tuple in tuples {
            let clash =
                before.iter().zip(&tuple).find(|(known, value)| known.as_ref().is_some_and(|k| k != *value));
            if let Some((_, value)) = clash {
                instead.get_or_insert(value.clone());
                continue;
            }
            fits = true;
            for (variable, value) in variables.iter().zip(tuple) {
                if let Some(variable) = variable {
                    binding.values[variable.0 as usize] = Some(value);
                }
            }
            self.run(at + 1, binding);
        }
        for (variable, value) in variables.iter().zip(before) {
            if let Some(variable) = variable {
                binding.values[variable.0 as usize] = value;
            }
        }
        if !fits {
            self.stop(at, binding, instead.map_or(Finding::Nothing, Finding::Gives));
        }
    }

    fn stop(&mut self, at: usize, binding: &Binding<'a>, finding: Finding) {
        match &mut self.dead_end {
            Some(dead_end) if dead_end.at > at => {}
            Some(dead_end) if dead_end.at == at => dead_end.count += 1,
            dead_end => {
                let rows = binding.rows.iter().map(|(table, row)| (*table, (*row).clone()));
                *dead_end = Some(DeadEnd {
                    at,
                    values: binding.values.clone(),
                    rows: rows.collect(),
                    count: 1,
                    finding,
                });
            }
        }
    }
}

/// The order of the search.
fn order<'a>(
    rule: &'a Rule,
    given: &Values,
    mut computed: Vec<Step<'a>>,
    state: &'a OnDemand,
    schema: &Schema,
) -> Vec<Step<'a>> {
    let mut bound: Vec<bool> = given.iter().map(Option::is_some).collect();
    let (mut atoms, mut others): (Vec<&BodyItem>, Vec<&BodyItem>) =
        rule.body.iter().partition(|item| matches!(item, BodyItem::Atom { .. }));
    let mut steps = Vec::new();
    loop {
        ready(&mut others, &mut computed, &mut bound, &mut steps);
        let known = |item: &&BodyItem| {
            let BodyItem::Atom { table, terms, .. } = item else { return (false, 0, 0) };
            let known = terms.iter().filter(|term| is_known(term, &bound)).count();
            let open = terms.iter().filter(|term| **term != Term::Any).count() - known;
            // Whether a default has a candidate row is checked before whether it is overridden.
            let is_level = matches!(hidden_part(schema.table(*table)), Some((_, HiddenPart::Level)));
            (!is_level, known, usize::MAX - open)
        };
        // Among equals, the first.
        let next = (0..atoms.len()).rev().max_by_key(|at| known(&atoms[*at]));
        let Some(next) = next else { break };
        let item = atoms.remove(next);
        if let BodyItem::Atom { table, terms, .. } = item {
            let columns = Cow::Owned(Columns::of(terms, &mut bound));
            let atom = Source::OnDemand(state).atom(*table, terms, columns);
            steps.push(Step::Atom { atom, item });
        }
    }
    // None should be left: every variable is bound by then.
    steps.extend(others.into_iter().map(Step::Other));
    steps.append(&mut computed);
    steps
}

/// Moves the conditions that can be decided now.
fn ready<'a>(
    others: &mut Vec<&'a BodyItem>,
    computed: &mut Vec<Step<'a>>,
    bound: &mut [bool],
    steps: &mut Vec<Step<'a>>,
) {
    let is_bound = |expr: &Expr, bound: &[bool]| {
        let mut variables = BTreeSet::new();
        expr.variables(&mut variables);
        variables.iter().all(|variable| bound[variable.0 as usize])
    };
    others.retain(|item| {
        let decided = match item {
            BodyItem::Filter(condition) => is_bound(condition, bound),
            BodyItem::Let { variable, expr } => {
                let decided = is_bound(expr, bound);
                bound[variable.0 as usize] |= decided;
                decided
            }
            BodyItem::Generate { arguments, results, .. } => {
                let decided = arguments.iter().all(|argument| is_bound(argument, bound));
                for variable in results.iter().flatten() {
                    bound[variable.0 as usize] |= decided;
                }
                decided
            }
            BodyItem::Atom { .. } => false,
        };
        if decided {
            steps.push(Step::Other(item));
        }
        !decided
    });
    let (now, later) = std::mem::take(computed)
        .into_iter()
        .partition(|step| matches!(step, Step::Head { expr, .. } if is_bound(expr, bound)));
    steps.extend::<Vec<_>>(now);
    *computed = later;
}

fn is_known(term: &Term, bound: &[bool]) -> bool {
    match term {
        Term::Constant(_) => true,
        Term::Variable(variable) => bound[variable.0 as usize],
        Term::Any => false,
    }
}
