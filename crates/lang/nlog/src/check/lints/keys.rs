//! The lint `key-clash`: two rows of an output table with the same key, or the same unique columns.
//!
//! Such rows refuse a transaction at run time, when some tenant's configuration first leads to both. Constants that
//! differ and the [`Chase`] decide whether two rules, or one rule with two bindings, can derive such rows: both hold
//! for all contents of the tables that respect their keys.

use std::collections::HashMap;

use nlog_data::{Role, Type, Value};

use super::WholeProgram;
use super::chase::{Chase, Derivation};
use super::domain::Domain;
use super::firing::Fires;
use super::injective::Injective;
use super::shape::MatchShape;
use crate::check::declarations::quoted;
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Expr, HeadTerm, Rule, VariableId};

/// The maximum number of pairs of rules examined for one table. Only generated programs, with thousands of rules for
/// one table, have more.
const MOST_PAIRS: usize = 10_000;
const MOST_LABELS: usize = 4;

/// Reports rules of output tables that can derive two rows with the same key, or the same unique columns.
pub(super) fn check(
    whole: &WholeProgram<'_>,
    firing: &[Option<Fires<'_>>],
    injective: &mut Injective,
    reports: &mut Reports,
) {
    for (index, table) in whole.declarations.tables.iter().enumerate() {
        let (Role::Output, Some(columns)) = (table.role, &table.columns) else { continue };
        let key = table.key.iter().map(|key| (key, false));
        for (key, unique) in key.chain(table.uniques.iter().map(|columns| (columns, true))) {
            let rest: Vec<usize> = (0..columns.len()).filter(|column| !key.contains(column)).collect();
            if rest.is_empty() {
                continue;
            }
            let mut search = Search { whole, firing, injective, key, unique, rest: &rest };
            let names = quoted(key.iter().map(|&column| columns[column].name.name.as_str()));
            let what = if unique { "unique" } else { "key" };
            search.table(index, &format!("`{}` ({what} {names})", table.name.name), reports);
        }
    }
}

struct Search<'w, 'a, 'f> {
    whole: &'w WholeProgram<'a>,
    firing: &'f [Option<Fires<'a>>],
    injective: &'f mut Injective,
    /// The columns of the key, or of a `unique(…)`.
    key: &'f [usize],
    unique: bool,
    rest: &'f [usize],
}

impl Search<'_, '_, '_> {
    fn table(&mut self, table: usize, title: &str, reports: &mut Reports) {
        let mut facts: HashMap<Vec<Value>, usize> = HashMap::new();
        let (mut all_facts, mut others): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut pairs = 0;
        for &number in &self.whole.rules_of[table] {
            if self.firing[number].is_none() {
                continue;
            }
            let rule = &self.whole.rules[number].rule;
            let key = constants(rule, self.key).filter(|_| rule.body.is_empty());
            let mut earlier = others.clone();
            if let Some(key) = key {
                // Facts are distinguished only by their keys.
                earlier.extend(facts.get(&key).copied());
                facts.entry(key).or_insert(number);
                all_facts.push(number);
            } else {
                earlier.extend(&all_facts);
                others.push(number);
            }
            pairs += earlier.len();
            if pairs > MOST_PAIRS {
                return;
            }
            let clashes: Vec<usize> =
                earlier.into_iter().filter(|&other| self.clash(number, other)).collect();
            let itself = self.clashes_with_itself(number);
            self.report(number, itself, &clashes, title, reports);
        }
    }

    /// Whether two rules can derive different rows with the same key. Ordinary rules override a default with their key.
    fn clash(&mut self, a: usize, b: usize) -> bool {
        let rules = &self.whole.rules;
        if !self.unique && rules[a].source.default.is_some() != rules[b].source.default.is_some() {
            return false;
        }
        let (Some(a_fires), Some(b_fires)) = (&self.firing[a], &self.firing[b]) else { return false };
        let apart = |column: usize| a_fires.head[column].and(&b_fires.head[column]).is_empty();
        if self.key.iter().any(|&column| apart(column)) {
            return false;
        }
        let (a_rule, b_rule) = (&rules[a].rule, &rules[b].rule);
        for &column in self.key {
            if let (HeadTerm::Value(x), HeadTerm::Value(y)) = (&a_rule.terms[column], &b_rule.terms[column])
                && (starts_apart(x, y)
                    || self.is_match(a, column)
                        && MatchShape::of(x, a_rule, self.injective).differs(&MatchShape::of(
                            y,
                            b_rule,
                            self.injective,
                        )))
            {
                return false;
            }
        }
        self.rows_differ(a, b)
    }

    fn clashes_with_itself(&mut self, number: usize) -> bool {
        !self.whole.rules[number].rule.body.is_empty() && self.rows_differ(number, number)
    }

    fn is_match(&self, number: usize, column: usize) -> bool {
        let table = self.whole.rules[number].rule.head.0 as usize;
        let columns = self.whole.declarations.tables[table].columns.as_ref();
        columns.is_some_and(|columns| columns[column].ty == Some(Type::Match))
    }

    /// Whether rows with equal keys can differ.
    fn rows_differ(&mut self, a: usize, b: usize) -> bool {
        let (rules, firing) = (&self.whole.rules, self.firing);
        let mut chase = Chase::new(self.whole, self.injective);
        let mut derive = |number: usize| -> Derivation {
            let bindings = firing[number].as_ref().map(|fires| &fires.bindings);
            let domain = |variable: usize| {
                let variable = VariableId(variable as u32);
                bindings.map_or(Domain::Anything, |bindings| bindings.of_variable(variable).clone())
            };
            chase.derivation(&rules[number], &domain)
        };
        let (x, y) = (derive(a), derive(b));
        for &column in self.key {
            if let (Some(x), Some(y)) = (x.head[column], y.head[column]) {
                chase.unite(x, y);
            }
        }
        if !chase.run() {
            return false;
        }
        let values: Vec<bool> = x
            .head
            .iter()
            .zip(&y.head)
            .map(|(x, y)| match (x, y) {
                (Some(x), Some(y)) => chase.same(*x, *y),
                _ => a == b,
            })
            .collect();
        // The group, which is all other columns, determines the aggregate.
        let key_is_aggregate = self.key.iter().any(|&column| x.head[column].is_none());
        let group = |column: usize| x.head[column].is_some();
        let differ = |column: usize| group(column) && !values[column] || !group(column) && a != b;
        self.rest.iter().any(|&column| differ(column))
            || key_is_aggregate && self.rest.iter().any(|&column| !values[column])
    }

    fn report(&self, number: usize, itself: bool, others: &[usize], title: &str, reports: &mut Reports) {
        let rules = &self.whole.rules;
        let span = rules[number].source.head.span;
        let who = match (itself, others.len()) {
            (false, 0) => return,
            (true, 0) => "this rule".to_owned(),
            (false, 1) => "this rule and another rule".to_owned(),
            (false, count) => format!("this rule and {count} other rules"),
            (true, 1) => "this rule, alone and together with another rule,".to_owned(),
            (true, count) => format!("this rule, alone and together with {count} other rules,"),
        };
        let shared = if self.unique { "unique columns" } else { "key" };
        let message = format!(
            "{who} can derive two rows of {title} with the same {shared}, so the transaction would be \
            refused"
        );
        let help = match (
            itself,
            rules[number].rule.body.is_empty()
                && others.iter().all(|&other| rules[other].rule.body.is_empty()),
        ) {
            (true, _) if self.unique => {
                "read tables in which these columns determine the row, or select one row with `arg_min` or \
                `arg_max`; if the data rule it out: # weft: allow(key-clash): reason"
            }
            (false, false) if self.unique => {
                "use different constants in the unique columns; if the data rule it out: \
                # weft: allow(key-clash): reason"
            }
            (false, true) if self.unique => "remove one of the facts, or correct its unique columns",
            (true, _) => {
                "read tables whose keys determine the row, or select one row with `arg_min` or `arg_max`; \
                if the data rule it out: # weft: allow(key-clash): reason"
            }
            (false, true) => "remove one of the facts, or correct its key",
            (false, false) if rules[number].source.default.is_some() => {
                "use different constants in the key, or let an ordinary rule override one of the defaults; \
                if the data rule it out: # weft: allow(key-clash): reason"
            }
            (false, false) => {
                "use different constants in the key, or make one of the rules a `default` that the other \
                overrides; if the data rule it out: # weft: allow(key-clash): reason"
            }
        };
        let mut report = Report::new(Code::KeyClash, span, message, help);
        for &other in others.iter().take(MOST_LABELS) {
            let label = format!("derives the same {shared}");
            report = report.label(rules[other].source.head.span, label);
        }
        if itself {
            let determine = if self.unique { "the unique columns do" } else { "the key does" };
            for (span, name) in self.free(number).into_iter().take(MOST_LABELS) {
                report = report.label(span, format!("{determine} not determine `{name}`"));
            }
        }
        reports.push(report);
    }

    /// The terms outside the key, or the unique columns, that these do not determine.
    fn free(&self, number: usize) -> Vec<(crate::syntax::ast::Span, String)> {
        let checked = &self.whole.rules[number];
        let table = checked.rule.head.0 as usize;
        let columns = self.whole.declarations.tables[table].columns.iter().flat_map(|columns| columns.iter());
        let columns: Vec<&str> = columns.map(|column| column.name.name.as_str()).collect();
        let arguments = &checked.source.head.arguments;
        let open = self.rest.iter().filter(|&&column| match &checked.rule.terms[column] {
            HeadTerm::Value(Expr::Constant(_)) | HeadTerm::Aggregate { .. } => false,
            HeadTerm::Value(_) => true,
        });
        open.filter_map(|&column| {
            let named = |argument: &&crate::syntax::ast::Argument| {
                argument.name.as_ref().is_some_and(|name| name.name == columns[column])
            };
            let argument = arguments
                .iter()
                .find(named)
                .or_else(|| arguments.get(column).filter(|argument| argument.name.is_none()))?;
            Some((argument.value.span, columns[column].to_owned()))
        })
        .collect()
    }
}

/// The values of the columns, if all are constants.
fn constants(rule: &Rule, columns: &[usize]) -> Option<Vec<Value>> {
    let constant = |&column: &usize| match &rule.terms[column] {
        HeadTerm::Value(Expr::Constant(value)) => Some(value.clone()),
        _ => None,
    };
    columns.iter().map(constant).collect()
}

/// Whether two texts begin with different constants.
fn starts_apart(a: &Expr, b: &Expr) -> bool {
    match (start(a), start(b)) {
        (Some(a), Some(b)) => !a.starts_with(b) && !b.starts_with(a),
        _ => false,
    }
}

fn start(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Constant(Value::String(text)) => Some(text),
        Expr::Call { function, arguments } if function.name == "++" => start(arguments.first()?),
        _ => None,
    }
}
