//! Inlining: replacing an atom by the rule of its table.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog::Program;
use nlog::program::{Expr, HeadTerm, Term, VariableId};
use nlog_data::{Function, TableId, Value, function};

use crate::analysis::{EQUAL, may_be_none, may_fail};
use crate::body::{Atom, Body, Item, What};
use crate::dependency::{Dependency, Variables};
use crate::plan::Operand;

/// The maximum number of atoms of the resulting body.
pub(crate) const MOST_ATOMS: usize = 10;

/// The substitutes for the variables of the inlined rule.
#[derive(Debug)]
struct Renaming {
    /// The number of its first variable in the reader.
    first: u32,
    variables: BTreeMap<VariableId, VariableId>,
    constants: BTreeMap<VariableId, Value>,
}

/// Replaces an atom by the body of a rule. `None` if no row of the rule fits the atom.
///
/// The rule must have no aggregates and must not be able to fail. The atom must be an atom of a table.
pub(crate) fn inline(reader: &Body, at: usize, rule: &Body, program: &Program) -> Option<Body> {
    let table_of = |atom: &Atom| program.schema.table(TableId(atom.relation.0));
    let equal = function::lookup(EQUAL).first().map(Arc::clone)?;
    let mut renaming =
        Renaming { first: reader.names.len() as u32, variables: BTreeMap::new(), constants: BTreeMap::new() };
    let mut names = reader.names.clone();
    names.extend(rule.names.iter().cloned());

    let terms = terms_of(&reader.atoms[at], table_of(&reader.atoms[at]).columns.len());
    let in_atoms = |variable: &VariableId| rule.atoms.iter().any(|atom| atom.variables.contains(variable));
    let heads: Vec<&Expr> = rule
        .terms
        .iter()
        .filter_map(|term| match term {
            HeadTerm::Value(expr) => Some(expr),
            HeadTerm::Aggregate { .. } => None,
        })
        .collect();
    // Constants come first, so that they reach the rule's atoms even if their variables equal other terms.
    for (term, head) in terms.iter().zip(&heads) {
        match (term, head) {
            (Term::Constant(value), Expr::Variable(variable)) if in_atoms(variable) => {
                let known = renaming.constants.entry(*variable).or_insert_with(|| value.clone());
                if known != value {
                    return None;
                }
            }
            (Term::Constant(value), Expr::Constant(known)) if known != value => return None,
            _ => {}
        }
    }
    // The required value of each variable of the reader, and the required constant of each expression.
    let mut values: Vec<(VariableId, Expr)> = Vec::new();
    let mut conditions: Vec<Expr> = Vec::new();
    for (term, head) in terms.iter().zip(&heads) {
        match (term, head) {
            (Term::Any, head) if may_be_none(head) => {
                let ignored = VariableId(names.len() as u32);
                names.push("_".to_owned());
                values.push((ignored, (*head).clone()));
            }
            (Term::Any, _) | (Term::Constant(_), Expr::Constant(_)) => {}
            (Term::Variable(wanted), Expr::Variable(variable))
                if in_atoms(variable) && !renaming.constants.contains_key(variable) =>
            {
                let known = *renaming.variables.entry(*variable).or_insert(*wanted);
                if known != *wanted {
                    values.push((*wanted, (*head).clone()));
                }
            }
            (Term::Variable(wanted), head) => values.push((*wanted, (*head).clone())),
            (Term::Constant(_), Expr::Variable(variable)) if renaming.constants.contains_key(variable) => {}
            (Term::Constant(value), head) => {
                conditions.push(call(&equal, (*head).clone(), Expr::Constant(value.clone())));
            }
        }
    }

    let mut atoms = reader.atoms.clone();
    let own = rule.atoms.iter().map(|atom| {
        if atom.relation.0 as usize >= program.schema.len() {
            return renaming.stage(atom);
        }
        let terms: Vec<Term> = terms_of(atom, table_of(atom).columns.len())
            .into_iter()
            .map(|term| renaming.term(term))
            .collect();
        Some(Atom::new(atom.relation, &terms, table_of(atom).keys()))
    });
    atoms.splice(at..=at, own.collect::<Option<Vec<Atom>>>()?);
    let mut items = reader.items.clone();
    items.extend(rule.items.iter().map(|item| renaming.item(item)));
    items.extend(conditions.iter().map(|expr| Item::new(What::Filter(renaming.expr(expr)))));
    let mut bound: Vec<VariableId> = atoms.iter().flat_map(|atom| atom.variables.iter().copied()).collect();
    for (variable, expr) in values {
        // Ignored variables belong to the reader already; the rule's other variables do not.
        let expr = renaming.expr(&expr);
        items.push(Item::new(if bound.contains(&variable) {
            What::Filter(call(&equal, Expr::Variable(variable), expr))
        } else {
            bound.push(variable);
            What::Let { variable, expr }
        }));
    }
    debug_assert!(!heads.iter().any(|head| may_fail(head)));
    Some(Body::of(atoms, items, reader.terms.clone(), names))
}

/// Whether a body looks up the table of one of its atoms by a value that the table's rule computes. No index has such values: with
/// the rule in place of the atom, a changed row of another atom would be compared with every row of the rule.
pub(crate) fn joins_computed(reader: &Body, at: usize, rule: &Body) -> bool {
    let in_atoms = |variable: &VariableId| rule.atoms.iter().any(|atom| atom.variables.contains(variable));
    let others = || reader.atoms.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, atom)| atom);
    reader.atoms[at].columns.iter().any(|(column, variable)| {
        let is_computed = match &rule.terms[*column] {
            HeadTerm::Value(Expr::Variable(own)) => !in_atoms(own),
            HeadTerm::Value(Expr::Constant(_)) => false,
            HeadTerm::Value(Expr::Call { .. } | Expr::If { .. }) | HeadTerm::Aggregate { .. } => true,
        };
        is_computed && others().any(|atom| atom.variables.contains(variable))
    })
}

fn call(function: &Arc<Function>, a: Expr, b: Expr) -> Expr {
    Expr::Call { function: Arc::clone(function), arguments: vec![a, b] }
}

/// The terms of an atom, one for each column of its relation.
fn terms_of(atom: &Atom, width: usize) -> Vec<Term> {
    let mut terms = vec![Term::Any; width];
    for (column, variable) in &atom.columns {
        terms[*column] = Term::Variable(*variable);
    }
    for selection in &atom.select {
        terms[selection.column] = match &selection.equals {
            Operand::Constant(value) => Term::Constant(value.clone()),
            Operand::Column(other) => terms[*other].clone(),
        };
    }
    terms
}

impl Renaming {
    fn variable(&self, variable: VariableId) -> VariableId {
        let renamed = self.variables.get(&variable).copied();
        renamed.unwrap_or(VariableId(variable.0 + self.first))
    }

    fn term(&self, term: Term) -> Term {
        match term {
            Term::Variable(variable) => match self.constants.get(&variable) {
                Some(value) => Term::Constant(value.clone()),
                None => Term::Variable(self.variable(variable)),
            },
            other => other,
        }
    }

    /// Renames an atom of a stage, which may contain only variables. `None` if two of them become one, or one becomes
    /// a constant.
    fn stage(&self, atom: &Atom) -> Option<Atom> {
        let set = |variables: &Variables| variables.iter().map(|variable| self.variable(*variable)).collect();
        let variables: Variables = set(&atom.variables);
        let is_plain = variables.len() == atom.variables.len()
            && !atom.variables.iter().any(|variable| self.constants.contains_key(variable));
        is_plain.then(|| Atom {
            relation: atom.relation,
            select: atom.select.clone(),
            columns: atom.columns.iter().map(|(column, of)| (*column, self.variable(*of))).collect(),
            variables,
            row: atom.row.as_ref().map(set),
            keys: atom.keys.iter().map(set).collect(),
            dependencies: (atom.dependencies.iter())
                .map(|known| Dependency { from: set(&known.from), to: set(&known.to) })
                .collect(),
        })
    }

    fn expr(&self, expr: &Expr) -> Expr {
        match expr {
            Expr::Variable(variable) => match self.constants.get(variable) {
                Some(value) => Expr::Constant(value.clone()),
                None => Expr::Variable(self.variable(*variable)),
            },
            Expr::Constant(value) => Expr::Constant(value.clone()),
            Expr::Call { function, arguments } => Expr::Call {
                function: Arc::clone(function),
                arguments: arguments.iter().map(|argument| self.expr(argument)).collect(),
            },
            Expr::If { condition, then, otherwise } => Expr::If {
                condition: Box::new(self.expr(condition)),
                then: Box::new(self.expr(then)),
                otherwise: Box::new(self.expr(otherwise)),
            },
        }
    }

    fn item(&self, item: &Item) -> Item {
        Item::new(match &item.what {
            What::Let { variable, expr } => {
                What::Let { variable: self.variable(*variable), expr: self.expr(expr) }
            }
            What::Generate { function, arguments, results } => What::Generate {
                function: Arc::clone(function),
                arguments: arguments.iter().map(|argument| self.expr(argument)).collect(),
                results: results.iter().map(|result| result.map(|result| self.variable(result))).collect(),
            },
            What::Filter(expr) => What::Filter(self.expr(expr)),
        })
    }
}
