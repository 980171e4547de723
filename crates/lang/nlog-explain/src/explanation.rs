//! Explanations as text: why a row is present, and why no row matches a pattern.

use std::collections::BTreeSet;

use nlog::Program;
use nlog::program::HeadTerm;
use nlog_data::quotation::cut;
use nlog_data::{Role, Row, TableId, Value};

use crate::{Derivation, Obstacle, ObstacleKind, OnDemand, WhyNot};

/// The maximum number of rules in an answer.
const RULES: usize = 5;

/// The maximum number of rows of a group that are shown.
const GROUP: usize = 20;

/// The maximum number of ways of a row that are counted for each rule.
pub const WAYS: usize = 1000;

/// A value in a text for people, or its beginning and its length. In JSON it is whole.
fn short(value: &Value) -> String {
    cut(&value.to_string()).into_owned()
}

/// `table(value, …)`
pub fn atom(program: &Program, table: TableId, row: &[Value]) -> String {
    let values: Vec<String> = row.iter().map(short).collect();
    call(program, table, &values)
}

/// `table(value, …)`, where `None` is `_`.
pub fn pattern(program: &Program, pattern: &nlog::program::Pattern) -> String {
    let value = |value: &Option<Value>| value.as_ref().map_or("_".to_owned(), short);
    call(program, pattern.table, &pattern.columns.iter().map(value).collect::<Vec<_>>())
}

fn call(program: &Program, table: TableId, terms: &[String]) -> String {
    format!("{}({})", program.schema.table(table).name, terms.join(", "))
}

/// Explains why a row is present: each rule that derives it, with the rows that it is derived from.
pub fn why(state: &OnDemand, table: TableId, row: &Row) -> Vec<String> {
    let program = state.program();
    if program.schema.table(table).role == Role::Input {
        return vec![match program.hook_of(table) {
            Some(wiring) => format!("hook {} put it there", wiring.text(&program.schema)),
            None => "a transaction put it there".to_owned(),
        }];
    }
    let mut lines = Vec::new();
    for derivation in state.derivations(table, row, WAYS).iter().take(RULES) {
        let place = &program.rule(derivation.rule).place;
        let body = Body::of(program, derivation);
        if body.rows.is_empty() {
            lines.push(format!("{place} says so, whatever the inputs"));
            continue;
        }
        lines.push(format!("{place} derives it from"));
        lines.extend(body.rows.iter().map(|(table, row)| format!("    {}", atom(program, *table, row))));
        if body.more_rows > 0 {
            lines.push(format!("    and {}{} more rows", at_least(body.more), body.more_rows));
        }
        if body.other_ways > 0 {
            lines.push(format!("  and in {}{} other ways", at_least(body.more), body.other_ways));
        }
    }
    lines
}

/// The words before a number that is not the whole.
pub fn at_least(more: bool) -> &'static str {
    if more { "at least " } else { "" }
}

/// The rows from which a rule derives a row.
pub struct Body {
    /// The rows of the whole group if the rule has aggregates, otherwise the rows of one binding.
    pub rows: Vec<(TableId, Row)>,
    /// The number of rows of the group that `rows` omits.
    pub more_rows: usize,
    /// The number of other bindings of the rule that derive the same row.
    pub other_ways: usize,
    /// Whether there are more rows, or more ways, than are counted.
    pub more: bool,
}

impl Body {
    /// The body of a derivation.
    pub fn of(program: &Program, derivation: &Derivation) -> Body {
        let terms = &program.rule(derivation.rule).terms;
        let bodies = &derivation.bodies;
        if !terms.iter().any(|term| matches!(term, HeadTerm::Aggregate { .. })) {
            let rows = bodies.first().cloned().unwrap_or_default();
            let other_ways = bodies.len().saturating_sub(1);
            return Body { rows, more_rows: 0, other_ways, more: derivation.more };
        }
        let mut rows = Vec::new();
        let mut seen = BTreeSet::new();
        for row in bodies.iter().flatten() {
            if seen.insert(row) {
                rows.push(row.clone());
            }
        }
        let more_rows = rows.len().saturating_sub(GROUP);
        rows.truncate(GROUP);
        Body { rows, more_rows, other_ways: 0, more: derivation.more }
    }
}

/// Explains why no row matches a pattern: how far each rule gets that could derive one.
pub fn why_not(program: &Program, answer: &WhyNot) -> Vec<String> {
    let mut lines = Vec::new();
    rules(program, answer, RULES, "", &mut lines);
    lines
}

fn rules(program: &Program, answer: &WhyNot, most: usize, indent: &str, lines: &mut Vec<String>) {
    let table = program.schema.table(answer.pattern.table);
    if answer.obstacles.is_empty() {
        lines.push(match (table.role, answer.unfit.len()) {
            (Role::Input, _) => match program.hook_of(answer.pattern.table) {
                Some(wiring) => {
                    let hook = wiring.text(&program.schema);
                    format!("{indent}{} is filled by hook {hook}, which did not put it there", table.name)
                }
                None => format!("{indent}{} is an input table: no transaction put it there", table.name),
            },
            (_, 0) => format!("{indent}no rule fills {}", table.name),
            (_, unfit) => format!(
                "{indent}{} of {} other constants in the columns asked for",
                if unfit == 1 { "the only rule".to_owned() } else { format!("all {unfit} rules") },
                if unfit == 1 { format!("{} has", table.name) } else { format!("{} have", table.name) },
            ),
        });
        return;
    }
    // What no rule can derive leads nowhere, unless there is nothing else to say.
    let fit = answer.obstacles.iter().take_while(|obstacle| !obstacle.is_unfit()).count();
    let shown = if fit == 0 { most } else { most.min(fit) };
    for obstacle in answer.obstacles.iter().take(shown) {
        one(program, answer, obstacle, indent, lines);
    }
    if let Some(more @ 1..) = answer.obstacles.len().checked_sub(shown) {
        lines.push(format!("{indent}{} get no further", other_rules(more)));
    }
}

fn other_rules(count: usize) -> String {
    if count == 1 { "another rule".to_owned() } else { format!("{count} other rules") }
}

/// Explains the obstacle of one rule.
fn one(program: &Program, answer: &WhyNot, obstacle: &Obstacle, indent: &str, lines: &mut Vec<String>) {
    let place = &program.rule(obstacle.rule).place;
    lines.push(format!("{indent}{place}"));
    let found =
        obstacle.found.iter().map(|(table, row)| format!("{indent}    finds {}", atom(program, *table, row)));
    lines.extend(found);
    let but = if obstacle.found.is_empty() { "" } else { "but " };
    match &obstacle.kind {
        ObstacleKind::NoRow { terms, place, why_not } => {
            let terms: Vec<String> = terms.iter().map(|term| cut(term).into_owned()).collect();
            let missing = call(program, why_not.pattern.table, &terms);
            lines.push(format!("{indent}    {but}finds no {missing} ({}:{})", place.line, place.column));
            let nested = format!("{indent}        ");
            if why_not.rows == Some(0) {
                lines.push(format!("{nested}{} is empty", program.schema.table(why_not.pattern.table).name));
            }
            let near = why_not.nearest.iter();
            lines.extend(
                near.map(|row| format!("{nested}there is {}", atom(program, why_not.pattern.table, row))),
            );
            if program.schema.table(why_not.pattern.table).role != Role::Input {
                rules(program, why_not, 1, &nested, lines);
            }
        }
        ObstacleKind::False { condition, values } => {
            lines.push(format!("{indent}    {but}wants {}{}", cut(condition), values_text(values)));
        }
        ObstacleKind::NoResult { call, values, found: None } => {
            lines.push(format!("{indent}    {but}gets no value of {}{}", cut(call), values_text(values)));
        }
        ObstacleKind::NoResult { call, values, found: Some(found) } => {
            lines.push(format!(
                "{indent}    {but}wants {}, which is {}{}",
                cut(call),
                short(found),
                values_text(values)
            ));
        }
        ObstacleKind::Head { column, found } => {
            let name = &program.schema.table(answer.pattern.table).columns[*column].name;
            lines.push(format!("{indent}    {but}gives {name} = {}", short(found)));
        }
        ObstacleKind::Aggregate { derived } => {
            let rows = derived.iter().take(RULES);
            lines.extend(
                rows.map(|row| format!("{indent}    gives {}", atom(program, answer.pattern.table, row))),
            );
        }
        ObstacleKind::Overridden { by } => {
            let by = atom(program, answer.pattern.table, by);
            lines.push(format!("{indent}    {but}is a default, overridden by {by}"));
        }
        ObstacleKind::None => lines.push(format!("{indent}    derives it")),
    }
    if obstacle.others > 0 {
        let others = match obstacle.others {
            1 => format!("so ends {}one other way", at_least(obstacle.cut)),
            others => format!("so end {}{others} other ways", at_least(obstacle.cut)),
        };
        lines.push(format!("{indent}    ({others} of binding its variables)"));
    }
}

fn values_text(values: &[(String, Value)]) -> String {
    if values.is_empty() {
        return String::new();
    }
    let values: Vec<String> =
        values.iter().map(|(name, value)| format!("{name} = {}", short(value))).collect();
    format!(", where {}", values.join(", "))
}
