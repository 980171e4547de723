//! Explains why a row is missing: how far each rule that could derive it gets.
//!
//! The known values of the row first bind variables of the head. The body is then evaluated in the order in which a
//! person would read it: the next atom is the one with the most bound columns, and each condition follows as soon as
//! its variables are bound. The first item that finds nothing is the [`Obstacle`]; `search` finds it.

use std::collections::BTreeSet;

use nlog::program::{BodyItem, Expr, HeadTerm, Pattern, Place, Rule, Term};
use nlog_data::{Row, RuleId, TableId, Value};

use crate::OnDemand;
use crate::expression::Values;
use crate::hidden::{HiddenPart, hidden_part};
use crate::text;

mod heads;
mod search;

use search::{Finding, Search, Step};

/// The maximum number of similar rows shown with a failed atom.
const NEAREST: usize = 3;

/// The reasons why no rule derives a matching row.
#[derive(Debug, Clone, PartialEq)]
pub struct WhyNot {
    /// The pattern in question.
    pub pattern: Pattern,
    /// The most similar rows of its table.
    pub nearest: Vec<Row>,
    /// The number of rows of the table; none if that takes long to say.
    pub rows: Option<usize>,
    /// For each rule of the table that could derive it, the obstacle. Rules that get furthest come first, and last those that lack a row
    /// that no rule can derive.
    pub obstacles: Vec<Obstacle>,
    /// Rules of the table that derive only other rows: a column of their head is a different constant.
    pub unfit: Vec<RuleId>,
}

/// The reason why a rule does not derive the row.
#[derive(Debug, Clone, PartialEq)]
pub struct Obstacle {
    /// The rule.
    pub rule: RuleId,
    /// The number of atoms and conditions satisfied before it.
    pub passed: usize,
    /// The number of atoms and conditions of the rule, plus the columns of the head to compute.
    pub steps: usize,
    /// The rows of the atoms that were found before.
    pub found: Vec<(TableId, Row)>,
    /// The variables that had values, by name.
    pub variables: Vec<(String, Value)>,
    /// The number of other bindings that got equally far.
    pub others: usize,
    /// Whether the search ended before it had tried all bindings: there were too many.
    pub cut: bool,
    /// Its kind.
    pub kind: ObstacleKind,
}

/// The kinds of obstacles.
#[derive(Debug, Clone, PartialEq)]
pub enum ObstacleKind {
    /// An atom finds no row.
    NoRow {
        /// The atom's terms: values where they are known, names of variables otherwise.
        terms: Vec<String>,
        /// Its place.
        place: Place,
        /// The reasons why there is no such row. For an input table, they contain no rules.
        why_not: Box<WhyNot>,
    },
    /// A condition is false.
    False {
        /// The condition.
        condition: String,
        /// The values of its variables.
        values: Vec<(String, Value)>,
    },
    /// A function has no result, or none equal to the value of a bound variable.
    NoResult {
        /// The call and the expected result.
        call: String,
        /// The values of its variables.
        values: Vec<(String, Value)>,
        /// The actual result.
        found: Option<Value>,
    },
    /// The head has another value in a column.
    Head {
        /// The column.
        column: usize,
        /// The actual value.
        found: Value,
    },
    /// An aggregate of the group has another value.
    Aggregate {
        /// The rows that the rule derives for this group.
        derived: Vec<Row>,
    },
    /// The rule is a default, and an ordinary rule derives a row with this key.
    Overridden {
        /// The row that overrides it.
        by: Row,
    },
    /// No obstacle: the rule derives such a row.
    None,
}

impl Obstacle {
    /// Whether the rule lacks a row that no rule can derive, since all have other constants.
    pub(crate) fn is_unfit(&self) -> bool {
        match &self.kind {
            ObstacleKind::NoRow { why_not, .. } => {
                let rules = why_not.obstacles.len() + why_not.unfit.len();
                rules > 0 && why_not.obstacles.iter().all(Obstacle::is_unfit)
            }
            _ => false,
        }
    }

    /// How far the rules get with the row that this one lacks: from 0 to 1.
    fn nested(&self) -> f64 {
        let ObstacleKind::NoRow { why_not, .. } = &self.kind else { return 0.0 };
        let progress = |one: &Obstacle| (one.passed as f64 + one.nested()) / one.steps.max(1) as f64;
        why_not.obstacles.iter().map(progress).fold(0.0, f64::max)
    }
}

impl OnDemand {
    /// Explains why there is no row like this; see [`WhyNot`]. For a row that is present, the answer has no meaning.
    pub fn why_not(&self, pattern: &Pattern) -> WhyNot {
        let (mut obstacles, mut unfit) = (Vec::new(), Vec::new());
        for (id, rule) in self.rules_of(pattern.table) {
            let contradicts = |(term, wanted): (&HeadTerm, &Option<Value>)| match (term, wanted) {
                (HeadTerm::Value(Expr::Constant(value)), Some(wanted)) => value != wanted,
                _ => false,
            };
            if rule.terms.iter().zip(&pattern.columns).any(contradicts) {
                unfit.push(id);
            } else {
                obstacles.push(self.obstacle(id, rule, pattern));
            }
        }
        // Fractions by cross-multiplication, largest first. Of equal ones, that which gets further with the row that it lacks.
        let mut ranked: Vec<(bool, f64, Obstacle)> =
            obstacles.into_iter().map(|one: Obstacle| (one.is_unfit(), one.nested(), one)).collect();
        ranked.sort_by(|(a_unfit, a_nested, a), (b_unfit, b_nested, b)| {
            let fractions = || (b.passed * a.steps.max(1)).cmp(&(a.passed * b.steps.max(1)));
            a_unfit.cmp(b_unfit).then_with(fractions).then_with(|| b_nested.total_cmp(a_nested))
        });
        let obstacles = ranked.into_iter().map(|(.., obstacle)| obstacle).collect();
        let (nearest, rows) = self.nearest_to(pattern);
        WhyNot { pattern: pattern.clone(), nearest, rows, obstacles, unfit }
    }

    /// The most similar rows of the table, and how many it has. Of a table that is long in the making, only rows are
    /// looked at that have the pattern's key, or all its values but one.
    fn nearest_to(&self, pattern: &Pattern) -> (Vec<Row>, Option<usize>) {
        let Pattern { table, columns } = pattern;
        let key = self.program().schema.table(*table).key.as_deref();
        let any = Pattern { table: *table, columns: vec![None; columns.len()] };
        if let Some(rows) = self.matching_soon(&any) {
            return (nearest(rows.iter().copied(), pattern, key), Some(rows.len()));
        }
        let without = |left_out: &dyn Fn(usize) -> bool| {
            let value =
                |(column, value): (usize, &Option<Value>)| value.clone().filter(|_| !left_out(column));
            Pattern { table: *table, columns: columns.iter().enumerate().map(value).collect() }
        };
        let known = (0..columns.len()).filter(|column| columns[*column].is_some());
        let mut patterns: Vec<Pattern> = known.map(|column| without(&|own| own == column)).collect();
        if let Some(key) = key
            && key.iter().all(|column| columns[*column].is_some())
        {
            patterns.push(without(&|column| !key.contains(&column)));
        }
        patterns.retain(|pattern| pattern.columns.iter().any(Option::is_some));
        let rows: BTreeSet<&Row> =
            patterns.iter().filter_map(|pattern| self.matching_soon(pattern)).flatten().collect();
        (nearest(rows.into_iter(), pattern, key), None)
    }

    fn obstacle(&self, id: RuleId, rule: &Rule, pattern: &Pattern) -> Obstacle {
        let mut search = Search::new(rule, pattern, self, &self.program().schema);
        let mut binding = search.start();
        search.run(0, &mut binding);
        let steps = search.steps.len();
        let Some(dead_end) = search.dead_end.take().filter(|_| !search.succeeded) else {
            return self.group_obstacle(id, rule, pattern, steps);
        };
        let kind = match (&dead_end.finding, search.steps.get(dead_end.at)) {
            (Finding::Nothing, Some(Step::Atom { item, .. })) => {
                self.missing_atom(rule, item, &dead_end.values)
            }
            (Finding::False, Some(Step::Other(BodyItem::Filter(condition)))) => ObstacleKind::False {
                condition: text::expression(condition, rule),
                values: text::values(condition, rule, &dead_end.values),
            },
            (Finding::Other(column, found), _) => {
                ObstacleKind::Head { column: *column, found: found.clone() }
            }
            (finding, Some(Step::Other(item))) => {
                let found = if let Finding::Gives(value) = finding { Some(value.clone()) } else { None };
                no_result(item, rule, &dead_end.values, found)
            }
            (_, Some(Step::Head { expr, .. })) => ObstacleKind::NoResult {
                call: text::expression(expr, rule),
                values: text::values(expr, rule, &dead_end.values),
                found: None,
            },
            _ => ObstacleKind::None,
        };
        let obstacle = Obstacle {
            rule: id,
            passed: dead_end.at,
            steps,
            found: dead_end.rows,
            variables: text::named(rule, &dead_end.values),
            others: dead_end.count - 1,
            cut: search.is_cut(),
            kind,
        };
        self.without_hidden(obstacle)
    }

    /// Translates an obstacle in the compiled form of a default to the rule that its author wrote.
    fn without_hidden(&self, mut obstacle: Obstacle) -> Obstacle {
        let found = std::mem::take(&mut obstacle.found);
        obstacle.found = found.into_iter().flat_map(|(table, row)| self.visible(table, row)).collect();
        let ObstacleKind::NoRow { why_not, .. } = &mut obstacle.kind else { return obstacle };
        let pattern = why_not.pattern.clone();
        match hidden_part(self.program().schema.table(pattern.table)) {
            None => obstacle,
            Some((table, HiddenPart::Level)) => {
                // The table contains each key and whether an ordinary rule has it; the atom requires one that no
                // ordinary rule has.
                let schema = &self.program().schema;
                let Some(table) = schema.find(table) else { return obstacle };
                let key: Option<Vec<Value>> = pattern.columns.into_iter().rev().skip(1).rev().collect();
                let of_key = schema.table(table).key.as_deref().unwrap_or_default();
                let by = key.and_then(|key| self.with(table, of_key, &key).first().map(|row| (*row).clone()));
                match by {
                    Some(by) => Obstacle { kind: ObstacleKind::Overridden { by }, ..obstacle },
                    None => obstacle,
                }
            }
            // The only rule for the candidates is the default's body.
            Some((_, HiddenPart::Other)) => match why_not.obstacles.pop() {
                Some(inner) => Obstacle { rule: obstacle.rule, ..inner },
                None => obstacle,
            },
        }
    }

    /// The obstacle if the body has bindings. If the rule has aggregates, their values differ.
    fn group_obstacle(&self, id: RuleId, rule: &Rule, pattern: &Pattern, steps: usize) -> Obstacle {
        let aggregates = rule.terms.iter().any(|term| matches!(term, HeadTerm::Aggregate { .. }));
        let group = Pattern {
            table: pattern.table,
            columns: (pattern.columns.iter().zip(&rule.terms))
                .map(|(wanted, term)| wanted.clone().filter(|_| matches!(term, HeadTerm::Value(_))))
                .collect(),
        };
        let derived = if aggregates { self.derived_by(id, &group) } else { BTreeSet::new() };
        let derived: Vec<Row> = derived.into_iter().collect();
        let kind = if derived.is_empty() || derived.iter().any(|row| pattern.admits(row)) {
            ObstacleKind::None
        } else {
            ObstacleKind::Aggregate { derived }
        };
        Obstacle {
            rule: id,
            passed: steps,
            steps,
            found: vec![],
            variables: vec![],
            others: 0,
            cut: false,
            kind,
        }
    }

    fn missing_atom(&self, rule: &Rule, item: &BodyItem, values: &Values) -> ObstacleKind {
        let BodyItem::Atom { table, terms, place } = item else { return ObstacleKind::None };
        let columns = terms.iter().map(|term| match term {
            Term::Constant(value) => Some(value.clone()),
            Term::Variable(variable) => values[variable.0 as usize].clone(),
            Term::Any => None,
        });
        let pattern = Pattern { table: *table, columns: columns.collect() };
        let terms = terms.iter().zip(&pattern.columns).map(|(term, value)| match (value, term) {
            (Some(value), _) => value.to_string(),
            (None, Term::Variable(variable)) => rule.variables[variable.0 as usize].name.clone(),
            (None, _) => "_".to_owned(),
        });
        // A program has no recursion, so this terminates.
        let why_not = Box::new(self.why_not(&pattern));
        ObstacleKind::NoRow { terms: terms.collect(), place: place.clone(), why_not }
    }
}

fn no_result(item: &BodyItem, rule: &Rule, values: &Values, found: Option<Value>) -> ObstacleKind {
    match item {
        BodyItem::Let { variable, expr } => ObstacleKind::NoResult {
            call: format!("{} = {}", rule.variables[variable.0 as usize].name, text::expression(expr, rule)),
            values: text::values(expr, rule, values),
            found,
        },
        BodyItem::Filter(condition) => ObstacleKind::NoResult {
            call: text::expression(condition, rule),
            values: text::values(condition, rule, values),
            found,
        },
        BodyItem::Generate { function, arguments, .. } => {
            let call = Expr::Call { function: function.clone(), arguments: arguments.clone() };
            ObstacleKind::NoResult {
                call: text::expression(&call, rule),
                values: text::values(&call, rule, values),
                found,
            }
        }
        BodyItem::Atom { .. } => ObstacleKind::None,
    }
}

/// The rows most similar to the pattern: first those with its key, then by the number of equal values.
pub fn nearest<'r>(
    rows: impl Iterator<Item = &'r Row>,
    pattern: &Pattern,
    key: Option<&[usize]>,
) -> Vec<Row> {
    let likeness = |row: &Row| {
        let same = |column: &usize| {
            pattern.columns[*column].as_ref().is_some_and(|wanted| row.get(*column) == Some(wanted))
        };
        let whole_key = key.is_some_and(|key| key.iter().all(same));
        (whole_key, (0..pattern.columns.len()).filter(same).count())
    };
    let mut rows: Vec<_> = rows.map(|row| (likeness(row), row)).collect();
    rows.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let best = rows.first().map(|(likeness, _)| *likeness);
    // Next to a row that shares much, rows that share little do not help.
    let near = rows.iter().take_while(|(likeness, _)| Some(*likeness) == best);
    near.take(NEAREST).map(|(_, row)| (*row).clone()).collect()
}
