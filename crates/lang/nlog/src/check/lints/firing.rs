//! The lints `never-fires`, `constant-condition` and `unfilled-table`.
//!
//! Tables are visited in topological order, so that the domains of a table's columns are known before a rule reads
//! it. Only the root cause is reported: a rule that reads an empty table derives nothing as a consequence.

use nlog_data::Role;

use super::WholeProgram;
use super::bindings::{Bindings, Contradiction};
use super::domain::Domain;
use crate::check::CheckedRule;
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Aggregate, BodyItem, HeadTerm};
use crate::syntax::ast::{Expr, ExprKind, ItemKind, Span};

const MOST_LABELS: usize = 3;

/// A rule that can fire.
pub(super) struct Fires<'a> {
    /// The possible values of its variables.
    pub(super) bindings: Bindings<'a>,
    /// The domains of the columns of its head.
    pub(super) head: Vec<Domain>,
}

/// Determines which rules can fire, and reports those that never do. The result has an entry for each rule.
pub(super) fn check<'a>(whole: &WholeProgram<'a>, reports: &mut Reports) -> Vec<Option<Fires<'a>>> {
    let tables = &whole.declarations.tables;
    let mut firing: Vec<Option<Fires<'a>>> = whole.rules.iter().map(|_| None).collect();
    // The domains of each table's columns; `None` for an empty table.
    let mut columns: Vec<Option<Vec<Domain>>> = vec![None; tables.len()];
    for &table in &whole.order {
        let count = tables[table].columns.as_ref().map_or(0, |columns| columns.len());
        if tables[table].role == Role::Input {
            columns[table] = Some(vec![Domain::Anything; count]);
            continue;
        }
        let mut all: Option<Vec<Domain>> = None;
        for &number in &whole.rules_of[table] {
            let checked = &whole.rules[number];
            if reads(checked).any(|table| columns[table].is_none()) {
                continue;
            }
            match fires(whole, checked, &columns) {
                Ok(fires) => {
                    idle_conditions(checked, &fires.bindings.idle, reports);
                    let all = all.get_or_insert_with(|| vec![Domain::nothing(); count]);
                    for (column, domain) in all.iter_mut().zip(&fires.head) {
                        *column = column.or(domain);
                    }
                    firing[number] = Some(fires);
                }
                Err(why) => never_fires(whole, number, *why, reports),
            }
        }
        columns[table] = all;
    }
    unfilled(whole, reports);
    firing
}

fn reads<'r>(checked: &'r CheckedRule<'_>) -> impl Iterator<Item = usize> + 'r {
    checked.rule.body.iter().filter_map(|item| match item {
        BodyItem::Atom { table, .. } => Some(table.0 as usize),
        _ => None,
    })
}

fn fires<'a>(
    whole: &WholeProgram<'a>,
    checked: &'a CheckedRule<'a>,
    columns: &[Option<Vec<Domain>>],
) -> Result<Fires<'a>, Box<Contradiction>> {
    let bindings = Bindings::of(checked, columns, whole.declarations)?;
    let arguments = &checked.source.head.arguments;
    let mut head = Vec::with_capacity(checked.rule.terms.len());
    for (index, term) in checked.rule.terms.iter().enumerate() {
        let span = arguments.get(index).map_or(checked.source.head.span, |argument| argument.value.span);
        head.push(match term {
            HeadTerm::Value(expr) => bindings.domain(expr, span)?,
            HeadTerm::Aggregate { aggregate: Aggregate::Min | Aggregate::Max, arguments } => {
                bindings.domain(&arguments[0], span)?
            }
            HeadTerm::Aggregate { aggregate: Aggregate::ArgMin | Aggregate::ArgMax, arguments } => {
                bindings.domain(&arguments[1], span)?
            }
            HeadTerm::Aggregate { .. } => Domain::Anything,
        });
    }
    Ok(Fires { bindings, head })
}

fn never_fires(whole: &WholeProgram<'_>, number: usize, why: Contradiction, reports: &mut Reports) {
    let checked = &whole.rules[number];
    if is_switch(checked, why.span) {
        return;
    }
    let table = checked.rule.head.0 as usize;
    let name = &checked.source.head.name.name;
    let message = format!("this rule for `{name}` never fires: {}", why.reason);
    let mut report = Report::new(Code::NeverFires, why.span, message, why.help);
    for (span, label) in why.labels.into_iter().take(MOST_LABELS) {
        report = report.label(span, label);
    }
    if whole.rules_of[table].len() == 1 && !whole.readers[table].is_empty() {
        report = report.label(
            checked.source.head.name.span,
            format!("no other rule derives rows of `{name}`, so it stays empty"),
        );
    }
    reports.push(report);
}

fn idle_conditions(checked: &CheckedRule<'_>, idle: &[Span], reports: &mut Reports) {
    for &span in idle.iter().filter(|span| !is_switch(checked, **span)) {
        let help = "remove it or correct it: one side probably should be another variable or constant";
        reports.push(Report::new(Code::ConstantCondition, span, "this condition always holds", help));
    }
}

/// Whether a condition of constants includes a named one: such a condition switches a rule on or off on purpose.
fn is_switch(checked: &CheckedRule<'_>, span: Span) -> bool {
    let item = checked.source.body.iter().find(|item| item.span == span);
    let Some(ItemKind::Condition(condition)) = item.map(|item| &item.kind) else { return false };
    let mut names = false;
    let variable = |name: &str| checked.rule.variables.iter().any(|variable| variable.name == name);
    let constant = every_name(condition, &mut |name| {
        names = true;
        !variable(name)
    });
    names && constant
}

fn every_name(expr: &Expr, holds: &mut dyn FnMut(&str) -> bool) -> bool {
    if let ExprKind::Name(name) = &expr.kind
        && !holds(name)
    {
        return false;
    }
    expr.parts().into_iter().all(|part| every_name(part, holds))
}

/// Reports tables that rules read but no rule fills.
fn unfilled(whole: &WholeProgram<'_>, reports: &mut Reports) {
    for (index, table) in whole.declarations.tables.iter().enumerate() {
        let empty = table.role != Role::Input && whole.rules_of[index].is_empty();
        if !empty || whole.readers[index].is_empty() {
            continue;
        }
        let name = &table.name.name;
        let message = format!("table `{name}` is always empty: rules read it, but no rule derives its rows");
        let help = format!(
            "declare it as `input table` if transactions change it, or write a rule: {name}(…) :- …;"
        );
        let mut report = Report::new(Code::UnfilledTable, table.name.span, message, help);
        for &span in whole.readers[index].iter().take(MOST_LABELS) {
            report = report.label(span, "read here");
        }
        reports.push(report);
    }
}
