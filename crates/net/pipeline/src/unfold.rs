//! The rows that tables can have, as far as the rules say it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use nlog::Program;
use nlog::program::{Aggregate, BodyItem, Expr, HeadTerm, Rule, Term as AtomTerm, VariableId};
use nlog_data::{RuleId, TableId, Type, Value};

use crate::evaluate::{Evaluator, Variables};
use crate::flows::Columns;
use crate::join::joined;
use crate::names::Names;
use crate::row::Row;
use crate::scope::Scope;
use crate::term::{Term, Version, is_flow_type};

/// A table without matches and actions that has more kinds of rows than this counts as one of which nothing is known:
/// what it says would hide what matters.
const MOST_ROWS: usize = 24;

/// Computes the rows of tables.
pub(crate) struct Unfolding<'p> {
    evaluator: Evaluator<'p>,
    rows: BTreeMap<TableId, Arc<Vec<Row>>>,
}

impl<'p> Unfolding<'p> {
    /// The rows of these tables and of all that they depend on.
    pub(crate) fn new(program: &'p Program, names: &'p Names, wanted: &BTreeSet<TableId>) -> Unfolding<'p> {
        let mut unfolding = Unfolding { evaluator: Evaluator { program, names }, rows: BTreeMap::new() };
        let needed = needed(program, wanted);
        for table in program.order.iter().filter(|table| needed.contains(table)) {
            let rows = unfolding.rows_of(*table);
            unfolding.rows.insert(*table, Arc::new(rows));
        }
        unfolding
    }

    /// The rows that a table can have.
    pub(crate) fn rows(&self, table: TableId) -> Arc<Vec<Row>> {
        self.rows.get(&table).cloned().unwrap_or_default()
    }

    /// The pieces of a term of type actions.
    pub(crate) fn evaluator(&self) -> &Evaluator<'p> {
        &self.evaluator
    }

    fn rows_of(&self, table: TableId) -> Vec<Row> {
        let program = self.evaluator.program;
        if program.rules_of(table).next().is_none() {
            return vec![self.opaque(table)];
        }
        let mut seen = HashSet::new();
        let rules = program.rules_of(table);
        let rows =
            rules.flat_map(|(id, rule)| self.rows_of_rule(id, rule)).filter(|row| seen.insert(row.key()));
        let mut rows: Vec<Row> = rows.collect();
        for (column, declared) in program.schema.table(table).columns.iter().enumerate() {
            if *declared.ty.base() == Type::Match {
                rows = joined(rows, column, &|rule| self.matters(rule));
            }
        }
        if rows.len() > MOST_ROWS && !self.has_flow_type(table) {
            return vec![self.opaque(table)];
        }
        rows
    }

    /// Whether a page shows which flows a rule makes: those of tables of flows, and those with a sentence for a case.
    fn matters(&self, rule: RuleId) -> bool {
        let program = self.evaluator.program;
        let rule = program.rule(rule);
        rule.docs.is_some() || Columns::of(program, rule.head).is_some()
    }

    /// A row of which nothing is known.
    fn opaque(&self, table: TableId) -> Row {
        let program = self.evaluator.program;
        let declared = program.schema.table(table);
        let mut scope = Scope::default();
        let ids = declared.columns.iter().map(|column| scope.fresh(&column.name, &column.ty));
        let ids: Vec<_> = ids.collect();
        // Of several key columns, the last text is the narrowest: a label of a port, for a use.
        let mut key = declared.key.iter().flatten().copied();
        let owner = key.rfind(|column| *declared.columns[*column].ty.base() == Type::String);
        for (place, id) in ids.iter().enumerate() {
            let of_key = declared.key.as_ref().is_none_or(|key| key.contains(&place));
            scope.symbol_mut(*id).owner = owner.filter(|_| !of_key).map(|owner| ids[owner]);
            let kinds = declared.columns[place].ty.kinds().unwrap_or_default();
            let kind = match kinds {
                [kind] => program.objects.iter().find(|object| object.name == *kind),
                _ => program.objects.iter().find(|object| object.table == table && place == 0),
            };
            scope.symbol_mut(*id).object = kind.map(|kind| kind.table);
        }
        let columns: Vec<Term> = ids.into_iter().map(Term::Symbol).collect();
        scope.row(&columns)
    }

    fn has_flow_type(&self, table: TableId) -> bool {
        self.evaluator.program.schema.table(table).columns.iter().any(|column| is_flow_type(&column.ty))
    }

    /// The rows that a rule can derive.
    fn rows_of_rule(&self, id: RuleId, rule: &Rule) -> Vec<Row> {
        let mut scopes = vec![Scope::new(rule.variables.len())];
        for (place, item) in rule.body.iter().enumerate() {
            let live = live(rule, place + 1);
            let mut seen = HashSet::new();
            scopes = scopes.into_iter().flat_map(|scope| self.step(scope, rule, item)).collect();
            scopes.retain(|scope| {
                let terms: Vec<Term> = live
                    .iter()
                    .filter_map(|variable| scope.variables.get(variable.0 as usize).cloned().flatten())
                    .collect();
                seen.insert(scope.row(&terms).key())
            });
        }
        let mut rows: Vec<Row> = scopes.into_iter().flat_map(|scope| self.head(scope, rule)).collect();
        if self.has_flow_type(rule.head) {
            for row in &mut rows {
                row.via.push(id);
            }
        } else {
            for row in &mut rows {
                row.via.clear();
                row.assumed.clear();
            }
        }
        rows
    }

    /// The scopes after an item of the body.
    fn step(&self, scope: Scope, rule: &Rule, item: &BodyItem) -> Vec<Scope> {
        match item {
            BodyItem::Atom { table, terms, .. } => {
                let rows = self.rows(*table);
                rows.iter().filter_map(|row| self.atom(scope.clone(), rule, *table, terms, row)).collect()
            }
            BodyItem::Let { variable, expr } => {
                let values = self.evaluator.evaluate(scope, expr, Variables::OfRule);
                let bound = values.into_iter().map(|(mut scope, term)| {
                    scope.variables[variable.0 as usize] = Some(term);
                    scope
                });
                bound.collect()
            }
            BodyItem::Generate { results, .. } => {
                let mut scope = scope;
                for variable in results.iter().flatten() {
                    let declared = &rule.variables[variable.0 as usize];
                    let name = declared.name.split('.').next().unwrap_or_default();
                    let id = scope.fresh(name, &declared.ty);
                    scope.variables[variable.0 as usize] = Some(Term::Symbol(id));
                }
                vec![scope]
            }
            BodyItem::Filter(condition) => self.filter(scope, condition),
        }
    }

    /// The scope with a row for an atom; none if the row does not fit.
    fn atom(
        &self,
        mut scope: Scope,
        rule: &Rule,
        table: TableId,
        terms: &[AtomTerm],
        row: &Row,
    ) -> Option<Scope> {
        let (columns, assumed) = scope.include(row);
        let declared = self.evaluator.program.schema.table(table);
        for ((term, column), place) in terms.iter().zip(&columns).zip(0..) {
            match term {
                AtomTerm::Any => {}
                AtomTerm::Constant(value) => {
                    if !self.evaluator.unify(&mut scope, &Term::Constant(value.clone()), column) {
                        return None;
                    }
                }
                AtomTerm::Variable(variable) => {
                    let at = variable.0 as usize;
                    match scope.variables[at].clone() {
                        Some(bound) => {
                            if !self.evaluator.unify(&mut scope, &bound, column) {
                                return None;
                            }
                        }
                        None => scope.variables[at] = Some(column.clone()),
                    }
                    scope.rename(column, &rule.variables[at].name);
                    let ty: &Type = &declared.columns[place].ty;
                    if is_flow_type(ty) {
                        for rule in &row.via {
                            if !scope.via.contains(rule) {
                                scope.via.push(*rule);
                            }
                        }
                        for assumption in &assumed {
                            if !scope.assumed.contains(assumption) {
                                scope.assumed.push(assumption.clone());
                            }
                        }
                    }
                }
            }
        }
        Some(scope)
    }

    /// The scopes in which a condition holds.
    fn filter(&self, scope: Scope, condition: &Expr) -> Vec<Scope> {
        if let Expr::Call { function, arguments } = condition {
            let four = match &*function.name {
                "is_ipv4" => Some(Version::Four),
                "is_ipv6" => Some(Version::Six),
                _ => None,
            };
            if let (Some(version), [Expr::Variable(variable)]) = (four, arguments.as_slice()) {
                return Self::with_version(scope, *variable, version).into_iter().collect();
            }
            if let ("==", [a, b]) = (&*function.name, arguments.as_slice()) {
                return self.equal(scope, a, b);
            }
        }
        let values = self.evaluator.evaluate(scope, condition, Variables::OfRule);
        let holding = values.into_iter().filter_map(|(mut scope, value)| match value {
            Term::Constant(value) => (value == Value::Bool(true)).then_some(scope),
            Term::Symbol(_) => {
                let holds = self.evaluator.unify(&mut scope, &value, &Term::Constant(Value::Bool(true)));
                holds.then_some(scope)
            }
            _ => Some(scope),
        });
        holding.collect()
    }

    fn with_version(mut scope: Scope, variable: VariableId, version: Version) -> Option<Scope> {
        let term = scope.variables[variable.0 as usize].clone()?;
        let term = scope.find(&term);
        let known = match &term {
            Term::Constant(Value::Ip(ip)) if ip.is_ipv4() => Version::Four,
            Term::Constant(Value::Ip(_)) => Version::Six,
            term => crate::evaluate::version(&scope, term),
        };
        if known != Version::Any && known != version {
            return None;
        }
        if let Term::Symbol(id) = term {
            scope.symbol_mut(id).version = version;
        }
        Some(scope)
    }

    fn equal(&self, scope: Scope, a: &Expr, b: &Expr) -> Vec<Scope> {
        let mut equal = Vec::new();
        for (scope, a) in self.evaluator.evaluate(scope, a, Variables::OfRule) {
            for (mut scope, b) in self.evaluator.evaluate(scope, b, Variables::OfRule) {
                if self.evaluator.unify(&mut scope, &a, &b) {
                    equal.push(scope);
                }
            }
        }
        equal
    }

    /// The rows of a head.
    fn head(&self, scope: Scope, rule: &Rule) -> Vec<Row> {
        let declared = self.evaluator.program.schema.table(rule.head);
        let mut open = vec![(scope, Vec::new())];
        for (term, column) in rule.terms.iter().zip(&declared.columns) {
            let next = open.into_iter().flat_map(|(scope, done): (Scope, Vec<Term>)| {
                let values = match term {
                    HeadTerm::Value(expr) => self.evaluator.evaluate(scope, expr, Variables::OfRule),
                    // The value is that of one of the rows.
                    HeadTerm::Aggregate { aggregate: Aggregate::ArgMin | Aggregate::ArgMax, arguments } => {
                        match arguments.as_slice() {
                            [_, value] => self.evaluator.evaluate(scope, value, Variables::OfRule),
                            _ => Vec::new(),
                        }
                    }
                    HeadTerm::Aggregate { .. } => {
                        let mut scope = scope;
                        let id = scope.fresh(&column.name, &column.ty);
                        vec![(scope, Term::Symbol(id))]
                    }
                };
                values.into_iter().map(move |(scope, value)| {
                    let done = done.iter().cloned().chain([value]).collect();
                    (scope, done)
                })
            });
            open = next.collect();
        }
        open.into_iter().map(|(scope, terms)| scope.row(&terms)).collect()
    }
}

/// The variables that the rest of the body, from this place on, or the head uses.
fn live(rule: &Rule, from: usize) -> BTreeSet<VariableId> {
    let mut used = BTreeSet::new();
    for item in &rule.body[from..] {
        match item {
            BodyItem::Atom { terms, .. } => used.extend(terms.iter().filter_map(|term| match term {
                AtomTerm::Variable(variable) => Some(*variable),
                _ => None,
            })),
            BodyItem::Let { expr, .. } | BodyItem::Filter(expr) => expr.variables(&mut used),
            BodyItem::Generate { arguments, .. } => {
                for argument in arguments {
                    argument.variables(&mut used);
                }
            }
        }
    }
    for term in &rule.terms {
        match term {
            HeadTerm::Value(expr) => expr.variables(&mut used),
            HeadTerm::Aggregate { arguments, .. } => {
                for argument in arguments {
                    argument.variables(&mut used);
                }
            }
        }
    }
    used
}

/// These tables and all that their rules read. What hooks read decides nothing here: it gives numbers.
fn needed(program: &Program, wanted: &BTreeSet<TableId>) -> BTreeSet<TableId> {
    let (mut needed, mut open) = (wanted.clone(), wanted.iter().copied().collect::<Vec<_>>());
    while let Some(table) = open.pop() {
        for (_, rule) in program.rules_of(table) {
            for item in &rule.body {
                if let BodyItem::Atom { table, .. } = item
                    && needed.insert(*table)
                {
                    open.push(*table);
                }
            }
        }
    }
    needed
}
