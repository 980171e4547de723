//! The values that the variables of a rule can have, from constants, comparisons and the tables of its atoms.
//!
//! [`Bindings::of`] iterates over a body until nothing changes, a few times at most. The result is either a
//! [`Domain`] for each variable, or the reason why no binding satisfies the body.

use nlog_data::function::{Function, Results};
use nlog_data::{Type, Value};

use super::domain::Domain;
use crate::check::CheckedRule;
use crate::check::declarations::{Declarations, Table};
use crate::program::{BodyItem, Expr, Term, VariableId};
use crate::syntax::ast::Span;

/// The maximum number of rounds. Each may follow a chain of comparisons by one step.
const MOST_ROUNDS: usize = 4;

/// Why a rule derives nothing.
#[derive(Debug, Clone)]
pub(super) struct Contradiction {
    /// The item that cannot be.
    pub(super) span: Span,
    /// The text after "this rule never fires: ".
    pub(super) reason: String,
    /// Places that it contradicts.
    pub(super) labels: Vec<(Span, String)>,
    pub(super) help: &'static str,
}

/// Facts about the variables of a rule whose body can be satisfied.
pub(super) struct Bindings<'a> {
    checked: &'a CheckedRule<'a>,
    /// Union-find: variables that are equal.
    parent: Vec<u32>,
    /// For each variable that represents a class of equal ones.
    domains: Vec<Domain>,
    /// The places that each domain follows from.
    sources: Vec<Vec<Span>>,
    /// Pairs of variables, the first less than the second.
    less: Vec<(u32, u32)>,
    /// Conditions that always hold, whatever the tables contain.
    pub(super) idle: Vec<Span>,
    changed: bool,
}

type Checked<T> = Result<T, Box<Contradiction>>;

const CONFLICT_HELP: &str = "correct one of them, or write one rule per case if both are meant";

impl<'a> Bindings<'a> {
    /// `columns` has the domains of each table's columns, `None` for an empty table.
    pub(super) fn of(
        checked: &'a CheckedRule<'a>,
        columns: &[Option<Vec<Domain>>],
        declarations: &Declarations<'_>,
    ) -> Checked<Self> {
        let count = checked.rule.variables.len();
        let mut bindings = Bindings {
            checked,
            parent: (0..count as u32).collect(),
            domains: vec![Domain::Anything; count],
            sources: vec![Vec::new(); count],
            less: Vec::new(),
            idle: Vec::new(),
            changed: false,
        };
        // In source order: of two items that contradict each other, the later one is at fault.
        let mut items: Vec<(&BodyItem, Span)> =
            checked.rule.body.iter().zip(checked.spans.iter().copied()).collect();
        items.sort_by_key(|(_, span)| *span);
        for round in 0..MOST_ROUNDS {
            bindings.changed = false;
            bindings.less.clear();
            for &(item, span) in &items {
                match item {
                    // The domains from an atom do not change.
                    BodyItem::Atom { table, terms, .. } if round == 0 => {
                        let table = table.0 as usize;
                        let domains = columns[table].as_deref().unwrap_or_default();
                        bindings.atom(&declarations.tables[table], terms, domains, span)?;
                    }
                    BodyItem::Atom { .. } => {}
                    BodyItem::Let { variable, expr: Expr::Variable(other) } => {
                        bindings.unite(*variable, *other, span)?;
                    }
                    BodyItem::Let { variable, expr } => {
                        let domain = bindings.domain(expr, span)?;
                        bindings.restrict(*variable, &domain, span)?;
                    }
                    BodyItem::Filter(condition) => bindings.assume(condition, span, round == 0)?,
                    BodyItem::Generate { function, arguments, results } => {
                        bindings.generate(function, arguments, results, span)?;
                    }
                }
            }
            if !bindings.changed {
                break;
            }
        }
        Ok(bindings)
    }

    fn atom(&mut self, table: &Table<'_>, terms: &[Term], domains: &[Domain], span: Span) -> Checked<()> {
        let columns = table.columns.iter().flat_map(|columns| columns.iter());
        let columns = columns.map(|column| &column.name.name);
        for ((term, domain), column) in terms.iter().zip(domains).zip(columns) {
            match term {
                Term::Any => {}
                Term::Variable(variable) => self.restrict(*variable, domain, span)?,
                Term::Constant(value) => {
                    if domain.and(&Domain::only(value.clone())).is_empty() {
                        let (table, known) = (&table.name.name, domain.describe());
                        let reason =
                            format!("column `{column}` of `{table}` is always {known}, never {value}");
                        let help = "use a value that a rule or fact derives for the column, or add such a \
                        rule or \
                            fact";
                        return refuse(contradiction(span, reason, help));
                    }
                }
            }
        }
        Ok(())
    }

    fn generate(
        &mut self,
        function: &Function,
        arguments: &[Expr],
        results: &[Option<VariableId>],
        span: Span,
    ) -> Checked<()> {
        let Some(values) = self.values(arguments, span)? else { return Ok(()) };
        let Ok(Results::Many(rows)) = (function.evaluate)(&values) else { return Ok(()) };
        if rows.is_empty() {
            return refuse(without_value(function, span));
        }
        for (index, result) in results.iter().enumerate() {
            if let Some(variable) = result {
                let domain = Domain::values(rows.iter().filter_map(|row| row.get(index).cloned()));
                self.restrict(*variable, &domain, span)?;
            }
        }
        Ok(())
    }

    // Expressions.

    /// The domain of an expression.
    pub(super) fn domain(&self, expr: &Expr, span: Span) -> Checked<Domain> {
        match expr {
            Expr::Constant(value) => Ok(Domain::only(value.clone())),
            Expr::Variable(variable) => Ok(self.of_variable(*variable).clone()),
            Expr::If { condition, then, otherwise } => {
                match self.domain(condition, span)?.single() {
                    Some(Value::Bool(true)) => return self.domain(then, span),
                    Some(Value::Bool(false)) => return self.domain(otherwise, span),
                    _ => {}
                }
                // A branch without a value does not count.
                let [then, otherwise] = [then, otherwise].map(|branch| self.domain(branch, span));
                match (then, otherwise) {
                    (Ok(then), Ok(otherwise)) => Ok(then.or(&otherwise)),
                    (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
                    (Err(why), Err(_)) => Err(why),
                }
            }
            Expr::Call { function, arguments } => match self.values(arguments, span)? {
                None => {
                    self.joined_constants(function, arguments, span)?;
                    Ok(Domain::Anything)
                }
                Some(values) => match (function.evaluate)(&values) {
                    Ok(Results::One(value)) => Ok(Domain::only(value)),
                    Ok(Results::None) => refuse(without_value(function, span)),
                    // A failure refuses the transaction, which is not a lint's concern.
                    Ok(Results::Many(_)) | Err(_) => Ok(Domain::Anything),
                },
            },
        }
    }

    /// The values of the arguments, if each has only one. All arguments are visited in any case.
    fn values(&self, arguments: &[Expr], span: Span) -> Checked<Option<Vec<Value>>> {
        let mut values = Vec::new();
        for argument in arguments {
            let single = match argument {
                Expr::Variable(variable) => self.of_variable(*variable).single().cloned(),
                Expr::Constant(value) => Some(value.clone()),
                _ => self.domain(argument, span)?.single().cloned(),
            };
            values.extend(single);
        }
        Ok((values.len() == arguments.len()).then_some(values))
    }

    /// `match_in_port(p) & match_ip_proto(6) & match_ip_proto(17)`: matches that no packet satisfies together,
    /// whatever is between them.
    fn joined_constants(&self, function: &Function, arguments: &[Expr], span: Span) -> Checked<()> {
        if function.name != "&" {
            return Ok(());
        }
        let mut parts = Vec::new();
        for argument in arguments {
            joined(argument, &mut parts);
        }
        let mut both: Option<Value> = None;
        for part in parts {
            let domain = self.domain(part, span)?;
            let Some(value @ Value::Match(_)) = domain.single() else { continue };
            both = match both {
                None => Some(value.clone()),
                Some(other) => match (function.evaluate)(&[other, value.clone()]) {
                    Ok(Results::One(value)) => Some(value),
                    Ok(Results::None) => return refuse(without_value(function, span)),
                    _ => return Ok(()),
                },
            };
        }
        Ok(())
    }

    // Conditions.

    fn assume(&mut self, condition: &Expr, span: Span, first_round: bool) -> Checked<()> {
        let sign = match condition {
            Expr::Call { function, arguments } if arguments.len() == 2 => Some((&*function.name, arguments)),
            _ => None,
        };
        match sign {
            Some(("==", arguments)) => self.equal(&arguments[0], &arguments[1], span)?,
            Some(("!=" | "not_equal", arguments)) => self.differ(&arguments[0], &arguments[1], span)?,
            Some(("<", arguments)) => self.compare(&arguments[0], &arguments[1], true, span)?,
            Some((">", arguments)) => self.compare(&arguments[1], &arguments[0], true, span)?,
            Some(("<=", arguments)) => self.compare(&arguments[0], &arguments[1], false, span)?,
            Some((">=", arguments)) => self.compare(&arguments[1], &arguments[0], false, span)?,
            _ => {}
        }
        if first_round && is_idle(condition) {
            self.idle.push(span);
        }
        if let Expr::Variable(variable) = condition {
            return self.restrict(*variable, &Domain::only(Value::Bool(true)), span);
        }
        if self.domain(condition, span)?.single() == Some(&Value::Bool(false)) {
            let reason = "this condition is always false".to_owned();
            return refuse(contradiction(span, reason, "correct the condition, or remove the rule"));
        }
        Ok(())
    }

    fn equal(&mut self, a: &Expr, b: &Expr, span: Span) -> Checked<()> {
        if let (Expr::Variable(a), Expr::Variable(b)) = (a, b) {
            return self.unite(*a, *b, span);
        }
        for (one, other) in [(a, b), (b, a)] {
            if let Expr::Variable(variable) = one {
                let domain = self.domain(other, span)?;
                return self.restrict(*variable, &domain, span);
            }
        }
        let (a, b) = (self.domain(a, span)?, self.domain(b, span)?);
        if a.and(&b).is_empty() {
            let reason = format!("one side is {}, the other {}", a.describe(), b.describe());
            return refuse(contradiction(span, reason, "correct the condition, or remove the rule"));
        }
        Ok(())
    }

    fn differ(&mut self, a: &Expr, b: &Expr, span: Span) -> Checked<()> {
        if let (Expr::Variable(a), Expr::Variable(b)) = (a, b)
            && self.root(*a) == self.root(*b)
        {
            return refuse(self.never_differs(*a, *b, span));
        }
        for (one, other) in [(a, b), (b, a)] {
            if let Expr::Variable(variable) = one
                && let Some(value) = self.domain(other, span)?.single()
            {
                let known = self.of_variable(*variable).without(value);
                self.restrict(*variable, &known, span)?;
            }
        }
        Ok(())
    }

    /// `a < b`, or `a <= b` if not `strict`.
    fn compare(&mut self, a: &Expr, b: &Expr, strict: bool, span: Span) -> Checked<()> {
        if let (Expr::Variable(a), Expr::Variable(b)) = (a, b) {
            let (low, high) = (self.root(*a), self.root(*b));
            if strict && low == high {
                return refuse(self.never_differs(*a, *b, span));
            }
            if strict {
                self.less.push((low, high));
            }
            if self.less.contains(&(high, low)) {
                let (a, b) = (self.name(*a), self.name(*b));
                let reason = format!("{a} would have to be both less than and greater than {b}");
                return refuse(contradiction(span, reason, CONFLICT_HELP));
            }
        }
        let step = i64::from(strict);
        let (domain_a, domain_b) = (self.domain(a, span)?, self.domain(b, span)?);
        if let Expr::Variable(variable) = a
            && self.is_int(*variable)
        {
            let most = domain_b.bounds().1.checked_sub(step);
            let at_most = most.map_or_else(Domain::nothing, |most| Domain::Between(i64::MIN, most));
            self.restrict_to_bound(*variable, at_most, span)?;
        }
        if let Expr::Variable(variable) = b
            && self.is_int(*variable)
        {
            let least = domain_a.bounds().0.checked_add(step);
            let at_least = least.map_or_else(Domain::nothing, |least| Domain::Between(least, i64::MAX));
            self.restrict_to_bound(*variable, at_least, span)?;
        }
        Ok(())
    }

    /// Restricts a variable to a bound. A bound that every integer satisfies has no effect.
    fn restrict_to_bound(&mut self, variable: VariableId, bound: Domain, span: Span) -> Checked<()> {
        if bound == Domain::Between(i64::MIN, i64::MAX) {
            Ok(())
        } else {
            self.restrict(variable, &bound, span)
        }
    }

    fn never_differs(&self, a: VariableId, b: VariableId, span: Span) -> Contradiction {
        let reason = if a == b {
            format!("{} is compared with itself", self.name(a))
        } else {
            format!("{} and {} are equal", self.name(a), self.name(b))
        };
        contradiction(span, reason, "compare it with another variable")
    }

    // Variables.

    fn root(&self, variable: VariableId) -> u32 {
        let mut at = variable.0;
        while self.parent[at as usize] != at {
            at = self.parent[at as usize];
        }
        at
    }

    pub(super) fn of_variable(&self, variable: VariableId) -> &Domain {
        &self.domains[self.root(variable) as usize]
    }

    fn is_int(&self, variable: VariableId) -> bool {
        self.checked.rule.variables[variable.0 as usize].ty == Type::Int
    }

    /// The name of a variable for messages; a variable made for an expression has no written name.
    fn name(&self, variable: VariableId) -> String {
        let name = &self.checked.rule.variables[variable.0 as usize].name;
        if name.contains('.') { "this value".to_owned() } else { format!("`{name}`") }
    }

    fn restrict(&mut self, variable: VariableId, domain: &Domain, span: Span) -> Checked<()> {
        if *domain == Domain::Anything {
            return Ok(());
        }
        let root = self.root(variable) as usize;
        let known = self.domains[root].and(domain);
        if known.is_empty() {
            return refuse(self.conflict(variable, root, domain, span));
        }
        if known != self.domains[root] {
            self.domains[root] = known;
            self.sources[root].push(span);
            self.changed = true;
        }
        Ok(())
    }

    fn unite(&mut self, a: VariableId, b: VariableId, span: Span) -> Checked<()> {
        let (root, other) = (self.root(a) as usize, self.root(b) as usize);
        if root == other {
            return Ok(());
        }
        let known = self.domains[root].and(&self.domains[other]);
        if known.is_empty() {
            let (a_is, b_is) = (self.domains[root].describe(), self.domains[other].describe());
            let reason = format!("{} is {a_is}, and {} is {b_is}", self.name(a), self.name(b));
            let mut found = contradiction(span, reason, CONFLICT_HELP);
            for (variable, root) in [(a, root), (b, other)] {
                found.labels.extend(self.origin(variable, root, span));
            }
            return refuse(found);
        }
        self.domains[root] = known;
        let sources = std::mem::take(&mut self.sources[other]);
        self.sources[root].extend(sources);
        self.parent[other] = root as u32;
        self.changed = true;
        Ok(())
    }

    fn conflict(&self, variable: VariableId, root: usize, wanted: &Domain, span: Span) -> Contradiction {
        let (name, known) = (self.name(variable), self.domains[root].describe());
        let reason = if wanted.is_empty() {
            format!("{name} is {known}, which this condition excludes")
        } else {
            format!("{name} is {known}, but must be {} here", wanted.describe())
        };
        let mut found = contradiction(span, reason, CONFLICT_HELP);
        found.labels.extend(self.origin(variable, root, span));
        found
    }

    fn origin(&self, variable: VariableId, root: usize, span: Span) -> Option<(Span, String)> {
        let source = *self.sources[root].last().filter(|source| **source != span)?;
        Some((
            source,
            format!("{} is {} because of this", self.name(variable), self.domains[root].describe()),
        ))
    }
}

/// Whether a condition holds whatever its variables are: `true`, or `x == x`.
fn is_idle(condition: &Expr) -> bool {
    match condition {
        Expr::Constant(value) => *value == Value::Bool(true),
        Expr::Call { function, arguments } => match (&*function.name, arguments.as_slice()) {
            ("==" | "<=" | ">=", [Expr::Variable(a), Expr::Variable(b)]) => a == b,
            _ => false,
        },
        _ => false,
    }
}

fn refuse<T>(why: Contradiction) -> Checked<T> {
    Err(Box::new(why))
}

fn contradiction(span: Span, reason: String, help: &'static str) -> Contradiction {
    Contradiction { span, reason, labels: Vec::new(), help }
}

fn without_value(function: &Function, span: Span) -> Contradiction {
    if function.name == "&" {
        let help = "match fields that can occur in one packet, or write one rule per kind of packet";
        return contradiction(span, "no packet satisfies both matches of this `&`".to_owned(), help);
    }
    let reason = format!("`{}` has no result for these constants", function.name);
    contradiction(span, reason, "use arguments for which it has a result")
}

/// The parts of a chain of `&`.
pub(super) fn joined<'e>(expr: &'e Expr, into: &mut Vec<&'e Expr>) {
    match expr {
        Expr::Call { function, arguments } if function.name == "&" => {
            for argument in arguments {
                joined(argument, into);
            }
        }
        _ => into.push(expr),
    }
}
