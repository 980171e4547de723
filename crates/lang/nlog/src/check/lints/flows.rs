//! The lint `unreserved-priority`: flows with a stage or a priority that no declaration reserves for them. Another rule, perhaps of
//! another package, may take it without notice.

use std::path::Path;

use nlog_data::{Type, Value};

use crate::check::CheckedRule;
use crate::check::declarations::{Declarations, Table};
use crate::check::pipeline::{Pipeline, written};
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Expr, HeadTerm, Priority, Stage};
use crate::source::is_test_file;
use crate::syntax::ast::{self, ExprKind};

/// Checks the rules of a program that declares stages. Others number them as they like.
pub(in crate::check) fn flows(
    declarations: &Declarations<'_>,
    rules: &[CheckedRule<'_>],
    pipeline: &Pipeline,
    reports: &mut Reports,
) {
    if pipeline.stages().is_empty() {
        return;
    }
    for checked in rules {
        // The rules of tests stand for any others.
        if is_test_file(Path::new(&*checked.rule.place.file)) {
            continue;
        }
        let table = &declarations.tables[checked.rule.head.0 as usize];
        let Some((stage, priority)) = columns_of_flows(table) else { continue };
        let (Some(stage), Some(priority)) =
            (Used::of(checked, table, stage), Used::of(checked, table, priority))
        else {
            continue;
        };
        let within = check_stage(&stage, pipeline, reports);
        check_priority(&priority, within, pipeline, reports);
    }
}

/// The columns of the stage and of the priority in a table that holds flows.
fn columns_of_flows(table: &Table<'_>) -> Option<(usize, usize)> {
    let columns = table.columns.as_ref()?;
    let has = |at: usize, ty: &Type| columns[at].ty.as_ref().is_some_and(|own| own.base() == ty);
    let number = |name: &str| columns.find(name).filter(|at| has(*at, &Type::Int));
    let holds_matches = (0..columns.len()).any(|at| has(at, &Type::Match));
    number("table_id").zip(number("priority")).filter(|_| holds_matches)
}

/// What a rule writes for a column.
struct Used<'r> {
    written: &'r ast::Expr,
    /// Its value, if that does not depend on rows.
    value: Option<i64>,
}

impl<'r> Used<'r> {
    fn of(checked: &CheckedRule<'r>, table: &Table<'_>, column: usize) -> Option<Self> {
        let name = &table.columns.as_ref()?.get(column)?.name.name;
        let arguments = checked.source.head.arguments.iter().enumerate();
        let mut arguments = arguments.filter(|(at, argument)| match &argument.name {
            Some(named) => named.name == *name,
            None => *at == column,
        });
        let value = match checked.rule.terms.get(column)? {
            HeadTerm::Value(Expr::Constant(Value::Int(number))) => Some(*number),
            _ => None,
        };
        Some(Used { written: &arguments.next()?.1.value, value })
    }

    /// The name with which it begins: `NAME` or `NAME + …`.
    fn name(&self) -> Option<&'r str> {
        let mut written = self.written;
        loop {
            match &written.kind {
                ExprKind::Name(name) => return Some(name),
                ExprKind::Binary(operator, left, _) if ["+", "-"].contains(&&*operator.name) => {
                    written = left;
                }
                _ => return None,
            }
        }
    }
}

/// The declared stage that a flow is in. Reports a number without a name.
fn check_stage<'p>(used: &Used<'_>, pipeline: &'p Pipeline, reports: &mut Reports) -> Option<&'p Stage> {
    let stages = pipeline.stages();
    if let ExprKind::Name(name) = &used.written.kind
        && let Some(stage) = stages.iter().find(|stage| stage.name == *name)
    {
        return Some(stage);
    }
    let number = used.value?;
    let meant = stages.iter().find(|stage| i64::from(stage.number) == number);
    let help = match meant {
        Some(stage) => format!("write `{}`", stage.name),
        None => format!("declare it: stage NAME = {number};"),
    };
    let message = format!("stage {number} of this flow has no name here, so nothing reserves it");
    reports.push(Report::new(Code::UnreservedPriority, used.written.span, message, help));
    meant
}

/// Reports a priority that is not one of those that its name reserves in the stage.
fn check_priority(used: &Used<'_>, stage: Option<&Stage>, pipeline: &Pipeline, reports: &mut Reports) {
    let priorities = pipeline.priorities();
    let named = used.name().and_then(|name| priorities.iter().find(|priority| priority.name == name));
    let found = match (named, stage) {
        (Some(priority), Some(stage)) if priority.stage != stage.name => Some((
            format!(
                "priority `{}` is one of stage `{}`, not of `{}`",
                priority.name, priority.stage, stage.name
            ),
            format!("declare one of this stage: priority NAME of {} = …;", stage.name),
        )),
        (Some(priority), _) => used.value.filter(|value| !has(priority, *value)).map(|value| {
            let range = written(priority.least.into(), priority.greatest.into());
            (
                format!("priority {value} of this flow is not one of `{}`, which is {range}", priority.name),
                "extend the range of the declaration, or declare another priority".to_owned(),
            )
        }),
        (None, _) => used.value.map(|value| {
            let same = |priority: &&Priority| stage.is_some_and(|stage| stage.name == priority.stage);
            let meant = priorities.iter().filter(same).find(|priority| has(priority, value));
            let help = match (meant, stage) {
                (Some(priority), _) if i64::from(priority.least) == value => {
                    format!("write `{}`", priority.name)
                }
                (Some(priority), _) => {
                    format!("write `{} + {}`", priority.name, value - i64::from(priority.least))
                }
                (None, Some(stage)) => format!("declare it: priority NAME of {} = {value};", stage.name),
                (None, None) => format!("declare it: priority NAME of STAGE = {value};"),
            };
            (format!("priority {value} of this flow has no name here, so nothing reserves it"), help)
        }),
    };
    if let Some((message, help)) = found {
        let report = Report::new(Code::UnreservedPriority, used.written.span, message, help);
        reports.push(report);
    }
}

fn has(priority: &Priority, value: i64) -> bool {
    (i64::from(priority.least)..=i64::from(priority.greatest)).contains(&value)
}
