//! A rule in the planner's form: atoms over relations, items, and a head.

use std::sync::Arc;

use nlog::program::{BodyItem, Expr, HeadTerm, Rule, Term, VariableId};
use nlog_data::{Function, Schema, TableId};

use crate::analysis::{equations, may_be_none, may_fail, variables_of};
use crate::dependency::{Dependency, Knowledge, Variables};
use crate::plan::{Operand, Selection};
use crate::query::RelationId;

/// A conjunction, and the head built from its bindings.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub(crate) atoms: Vec<Atom>,
    pub(crate) items: Vec<Item>,
    /// One term for each column of the head.
    pub(crate) terms: Vec<HeadTerm>,
    /// The names of the variables.
    pub(crate) names: Vec<String>,
    /// The variables of the head.
    pub(crate) head: Variables,
    /// The variables that are themselves columns of the head, so that equal rows agree on them.
    pub(crate) plain: Variables,
    /// Variables whose value can be a failure.
    pub(crate) failing: Variables,
}

/// An atom.
#[derive(Debug, Clone)]
pub(crate) struct Atom {
    pub(crate) relation: RelationId,
    /// The conditions on a single row.
    pub(crate) select: Vec<Selection>,
    /// The variables, each with its first column, by column.
    pub(crate) columns: Vec<(usize, VariableId)>,
    /// The variables as a set.
    pub(crate) variables: Variables,
    /// The variables that determine the row, through a key or all together; `None` if no key has variables or constants
    /// in all its columns, and one of the columns is `_`.
    pub(crate) row: Option<Variables>,
    /// The variables of each key that has variables or constants in all its columns: of the declared key first, then of
    /// what else is unique.
    pub(crate) keys: Vec<Variables>,
    /// Further functional dependencies.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A part of a body other than an atom.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) what: What,
    /// The variables that it reads.
    pub(crate) uses: Variables,
    /// Whether it can fail by itself.
    pub(crate) may_fail: bool,
}

/// The effect of an [`Item`].
#[derive(Debug, Clone)]
pub(crate) enum What {
    Let { variable: VariableId, expr: Expr },
    Generate { function: Arc<Function>, arguments: Vec<Expr>, results: Vec<Option<VariableId>> },
    Filter(Expr),
}

impl Body {
    pub(crate) fn new(rule: &Rule, schema: &Schema) -> Self {
        Body::with_keys(rule, &|table| schema.table(table).keys().collect())
    }

    /// The body, with these keys of each table.
    pub(crate) fn with_keys<'k>(rule: &Rule, keys: &dyn Fn(TableId) -> Vec<&'k [usize]>) -> Self {
        let mut atoms = Vec::new();
        let mut items = Vec::new();
        for item in &rule.body {
            match item {
                BodyItem::Atom { table, terms, .. } => {
                    atoms.push(Atom::new(RelationId(table.0), terms, keys(*table)));
                }
                BodyItem::Let { variable, expr } => {
                    items.push(Item::new(What::Let { variable: *variable, expr: expr.clone() }));
                }
                BodyItem::Generate { function, arguments, results } => {
                    items.push(Item::new(What::Generate {
                        function: function.clone(),
                        arguments: arguments.clone(),
                        results: results.clone(),
                    }));
                }
                BodyItem::Filter(expr) => items.push(Item::new(What::Filter(expr.clone()))),
            }
        }
        let names = rule.variables.iter().map(|variable| variable.name.clone()).collect();
        Body::of(atoms, items, rule.terms.clone(), names)
    }

    pub(crate) fn of(atoms: Vec<Atom>, items: Vec<Item>, terms: Vec<HeadTerm>, names: Vec<String>) -> Self {
        let mut head = Variables::new();
        let mut plain = Variables::new();
        for term in &terms {
            match term {
                HeadTerm::Value(expr) => {
                    expr.variables(&mut head);
                    if let Expr::Variable(variable) = expr {
                        plain.insert(*variable);
                    }
                }
                HeadTerm::Aggregate { arguments, .. } => {
                    for expr in arguments {
                        expr.variables(&mut head);
                    }
                }
            }
        }
        let mut failing = Variables::new();
        loop {
            let before = failing.len();
            for item in &items {
                if item.may_fail || !item.uses.is_disjoint(&failing) {
                    failing.extend(item.binds());
                }
            }
            if failing.len() == before {
                break;
            }
        }
        Body { atoms, items, terms, names, head, plain, failing }
    }

    /// The functional dependencies that keys and items imply for the bindings of some of the body's atoms.
    pub(crate) fn knowledge(&self, atoms: impl IntoIterator<Item = usize>) -> Knowledge {
        let mut knowledge = Knowledge::default();
        for atom in atoms {
            let atom = &self.atoms[atom];
            knowledge.rows.push(atom.row.clone());
            knowledge.dependencies.extend_from_slice(&atom.dependencies);
            for key in &atom.keys {
                knowledge.dependencies.push(Dependency { from: key.clone(), to: atom.variables.clone() });
            }
        }
        for item in &self.items {
            match &item.what {
                What::Let { variable, expr } => {
                    let to = [*variable].into();
                    knowledge.dependencies.push(Dependency { from: item.uses.clone(), to });
                    if let Expr::Variable(other) = expr {
                        let (from, to) = ([*variable].into(), [*other].into());
                        knowledge.dependencies.push(Dependency { from, to });
                    }
                }
                What::Filter(expr) => {
                    for (variable, other) in equations(expr) {
                        let to = [variable].into();
                        knowledge.dependencies.push(Dependency { from: variables_of(other), to });
                    }
                }
                What::Generate { .. } => {}
            }
        }
        knowledge
    }

    /// The body in which the equation with this item number is replaced by the side that can fail. The other side is
    /// a variable of an atom. The replacement can be evaluated before the variable is bound.
    pub(crate) fn with_failing_side(&self, item: usize) -> Body {
        let mut body = self.clone();
        if let What::Filter(expr) = &self.items[item].what
            && let Some((_, side)) = equations(expr).into_iter().find(|(_, side)| may_fail(side))
        {
            body.items[item] = Item::new(What::Filter(side.clone()));
        }
        body
    }

    /// Whether no two bindings yield the same row of the head.
    pub(crate) fn is_unique(&self) -> bool {
        let generates = self.items.iter().any(|item| matches!(item.what, What::Generate { .. }));
        !generates && self.knowledge(0..self.atoms.len()).is_unique(&self.plain)
    }

    /// The number of body rows that together with a row of the head determine a binding, by a greedy choice of atoms.
    /// If it is `n`, a row of the head has at most as many bindings as the product of `n` tables has rows (an edge
    /// cover with functional dependencies).
    pub(crate) fn cover(&self) -> usize {
        let knowledge = self.knowledge(0..self.atoms.len());
        let is_generated = |item: &&Item| matches!(item.what, What::Generate { .. });
        let generated = self.items.iter().filter(is_generated);
        let mut left: Vec<&Atom> = Vec::new();
        // Columns outside the binding are determined by nothing.
        let (mut chosen, mut known) =
            (0, if self.is_grouped() { self.head.clone() } else { self.plain.clone() });
        for atom in &self.atoms {
            if atom.row.is_some() {
                left.push(atom);
            } else {
                chosen += 1;
                known.extend(atom.variables.iter().copied());
            }
        }
        for item in generated {
            chosen += 1;
            known.extend(item.binds());
        }
        loop {
            known = knowledge.closure(&known);
            left.retain(|atom| atom.row.as_ref().is_some_and(|row| !row.is_subset(&known)));
            let gain = |atom: &&Atom| {
                let mut known = known.clone();
                known.extend(atom.variables.iter().copied());
                knowledge.closure(&known).len()
            };
            let Some(best) = left.iter().copied().max_by_key(gain) else { return chosen };
            chosen += 1;
            known.extend(best.variables.iter().copied());
        }
    }

    /// Whether the head has aggregates.
    pub(crate) fn is_grouped(&self) -> bool {
        self.terms.iter().any(|term| matches!(term, HeadTerm::Aggregate { .. }))
    }

    /// The variables of the head's values: rows that agree on them are equal.
    pub(crate) fn determining(&self) -> Variables {
        let values = self.terms.iter().filter_map(|term| match term {
            HeadTerm::Value(expr) => Some(expr),
            HeadTerm::Aggregate { .. } => None,
        });
        values.flat_map(variables_of).collect()
    }

    /// The expressions of the head, including arguments of aggregates.
    pub(crate) fn head_expressions(&self) -> impl Iterator<Item = &Expr> {
        self.terms.iter().flat_map(|term| match term {
            HeadTerm::Value(expr) => std::slice::from_ref(expr),
            HeadTerm::Aggregate { arguments, .. } => arguments.as_slice(),
        })
    }

    /// The name of a variable.
    pub(crate) fn name(&self, variable: VariableId) -> String {
        self.names.get(variable.0 as usize).cloned().unwrap_or_default()
    }
}

impl Item {
    pub(crate) fn new(what: What) -> Self {
        let (uses, may_fail) = match &what {
            What::Let { expr, .. } | What::Filter(expr) => (variables_of(expr), may_fail(expr)),
            What::Generate { function, arguments, .. } => (
                arguments.iter().flat_map(variables_of).collect(),
                function.may_fail || arguments.iter().any(may_fail),
            ),
        };
        Item { what, uses, may_fail }
    }

    /// The variables that it binds.
    pub(crate) fn binds(&self) -> Vec<VariableId> {
        match &self.what {
            What::Let { variable, .. } => vec![*variable],
            What::Generate { results, .. } => results.iter().flatten().copied().collect(),
            What::Filter(_) => Vec::new(),
        }
    }

    /// Whether it neither drops bindings nor fails. Such an item matters only where its value is read.
    pub(crate) fn is_harmless(&self) -> bool {
        match &self.what {
            What::Let { expr, .. } => !self.may_fail && !may_be_none(expr),
            What::Filter(_) | What::Generate { .. } => false,
        }
    }
}

impl Atom {
    /// An atom of a relation with these keys.
    pub(crate) fn new<'k>(
        relation: RelationId,
        terms: &[Term],
        keys: impl IntoIterator<Item = &'k [usize]>,
    ) -> Self {
        let mut atom = Atom {
            relation,
            select: Vec::new(),
            columns: Vec::new(),
            variables: Variables::new(),
            row: None,
            keys: Vec::new(),
            dependencies: Vec::new(),
        };
        for (column, term) in terms.iter().enumerate() {
            match term {
                Term::Any => {}
                Term::Constant(value) => {
                    atom.select.push(Selection { column, equals: Operand::Constant(value.clone()) });
                }
                Term::Variable(variable) => {
                    if let Some((first, _)) = atom.columns.iter().find(|(_, known)| known == variable) {
                        atom.select.push(Selection { column, equals: Operand::Column(*first) });
                    } else {
                        atom.columns.push((column, *variable));
                        atom.variables.insert(*variable);
                    }
                }
            }
        }
        let bound_by = |columns: &mut dyn Iterator<Item = usize>| -> Option<Variables> {
            let mut variables = Variables::new();
            for column in columns {
                match &terms[column] {
                    Term::Any => return None,
                    Term::Constant(_) => {}
                    Term::Variable(variable) => {
                        variables.insert(*variable);
                    }
                }
            }
            Some(variables)
        };
        atom.keys = keys.into_iter().filter_map(|key| bound_by(&mut key.iter().copied())).collect();
        atom.row = atom.keys.first().cloned().or_else(|| bound_by(&mut (0..terms.len())));
        atom
    }
}
