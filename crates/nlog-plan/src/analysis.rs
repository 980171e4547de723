//! What a rule's body says, in the planner's terms.

use std::sync::Arc;

use nlog::program::{BodyItem, Expr, HeadTerm, Rule, Term, VariableId};
use nlog_data::{Function, Schema, TableId};

use crate::dependency::{Dependency, Knowledge, Variables};
use crate::plan::{Operand, Selection};

/// The function that is true of equal values.
pub(crate) const EQUAL: &str = "==";

/// A rule's body, taken apart.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    pub(crate) atoms: Vec<Atom>,
    pub(crate) items: Vec<Item<'a>>,
    /// The variables of the head.
    pub(crate) head: Variables,
    /// Those that are columns of the head as they are, so that rows that agree agree on them.
    pub(crate) plain: Variables,
}

/// An atom.
#[derive(Debug)]
pub(crate) struct Atom {
    pub(crate) table: TableId,
    /// What a row has to fit by itself.
    pub(crate) select: Vec<Selection>,
    /// The variables, each with the first column that it stands in, by column.
    pub(crate) columns: Vec<(usize, VariableId)>,
    /// The variables as a set.
    pub(crate) variables: Variables,
    /// The variables that determine the row, by its declared key or as a whole; `None` if `_` stands among them.
    pub(crate) row: Option<Variables>,
    /// The variables of its declared key, if it has one and each column of it is a variable or a constant.
    pub(crate) key: Option<Variables>,
    /// How many of its columns are constants.
    pub(crate) constants: usize,
}

/// Anything but an atom.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    pub(crate) what: What<'a>,
    /// The variables that it uses.
    pub(crate) uses: Variables,
    /// Whether it can fail.
    pub(crate) may_fail: bool,
}

/// What an [`Item`] does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What<'a> {
    Let { variable: VariableId, expr: &'a Expr },
    Generate { function: &'a Arc<Function>, arguments: &'a [Expr], results: &'a [Option<VariableId>] },
    Filter(&'a Expr),
}

impl<'a> Body<'a> {
    pub(crate) fn new(rule: &'a Rule, schema: &Schema) -> Self {
        let mut body =
            Body { atoms: Vec::new(), items: Vec::new(), head: Variables::new(), plain: Variables::new() };
        for item in &rule.body {
            match item {
                BodyItem::Atom { table, terms, .. } => body.atoms.push(Atom::new(*table, terms, schema)),
                BodyItem::Let { variable, expr } => body.items.push(Item {
                    what: What::Let { variable: *variable, expr },
                    uses: variables_of(expr),
                    may_fail: may_fail(expr),
                }),
                BodyItem::Generate { function, arguments, results } => body.items.push(Item {
                    what: What::Generate { function, arguments, results },
                    uses: arguments.iter().flat_map(variables_of).collect(),
                    may_fail: function.may_fail || arguments.iter().any(may_fail),
                }),
                BodyItem::Filter(expr) => body.items.push(Item {
                    what: What::Filter(expr),
                    uses: variables_of(expr),
                    may_fail: may_fail(expr),
                }),
            }
        }
        for term in &rule.terms {
            match term {
                HeadTerm::Value(expr) => {
                    expr.variables(&mut body.head);
                    if let Expr::Variable(variable) = expr {
                        body.plain.insert(*variable);
                    }
                }
                HeadTerm::Aggregate { arguments, .. } => {
                    for expr in arguments {
                        expr.variables(&mut body.head);
                    }
                }
            }
        }
        body
    }

    /// What keys say about a set of the body's atoms.
    pub(crate) fn knowledge(&self, atoms: impl IntoIterator<Item = usize>) -> Knowledge {
        let mut knowledge = Knowledge::default();
        for atom in atoms {
            let atom = &self.atoms[atom];
            knowledge.rows.push(atom.row.clone());
            if let Some(row) = &atom.row {
                knowledge.dependencies.push(Dependency { from: row.clone(), to: atom.variables.clone() });
            }
        }
        for item in &self.items {
            match item.what {
                What::Let { variable, .. } => {
                    knowledge
                        .dependencies
                        .push(Dependency { from: item.uses.clone(), to: [variable].into() });
                }
                What::Filter(expr) => {
                    for (variable, other) in equations(expr) {
                        knowledge
                            .dependencies
                            .push(Dependency { from: variables_of(other), to: [variable].into() });
                    }
                }
                What::Generate { .. } => {}
            }
        }
        knowledge
    }
}

impl Atom {
    fn new(table: TableId, terms: &[Term], schema: &Schema) -> Self {
        let mut atom = Atom {
            table,
            select: Vec::new(),
            columns: Vec::new(),
            variables: Variables::new(),
            row: None,
            key: None,
            constants: 0,
        };
        for (column, term) in terms.iter().enumerate() {
            match term {
                Term::Any => {}
                Term::Constant(value) => {
                    atom.constants += 1;
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
        match &schema.table(table).key {
            Some(key) => {
                atom.key = bound_by(&mut key.iter().copied());
                atom.row = atom.key.clone().or_else(|| bound_by(&mut (0..terms.len())));
            }
            None => atom.row = bound_by(&mut (0..terms.len())),
        }
        atom
    }
}

/// The variables in an expression.
pub(crate) fn variables_of(expr: &Expr) -> Variables {
    let mut variables = Variables::new();
    expr.variables(&mut variables);
    variables
}

/// Whether some function in the expression can fail.
pub(crate) fn may_fail(expr: &Expr) -> bool {
    match expr {
        Expr::Variable(_) | Expr::Constant(_) => false,
        Expr::Call { function, arguments } => function.may_fail || arguments.iter().any(may_fail),
        Expr::If { condition, then, otherwise } => {
            may_fail(condition) || may_fail(then) || may_fail(otherwise)
        }
    }
}

/// Whether the expression can have no value for some arguments.
pub(crate) fn may_be_none(expr: &Expr) -> bool {
    match expr {
        Expr::Variable(_) | Expr::Constant(_) => false,
        Expr::Call { function, arguments } => {
            function.multiplicity != nlog_data::function::Multiplicity::One
                || arguments.iter().any(may_be_none)
        }
        Expr::If { condition, then, otherwise } => {
            may_be_none(condition) || may_be_none(then) || may_be_none(otherwise)
        }
    }
}

/// The two sides of an equation, each way round, of which the first is a variable.
pub(crate) fn equations(expr: &Expr) -> Vec<(VariableId, &Expr)> {
    let Expr::Call { function, arguments } = expr else { return Vec::new() };
    let [a, b] = arguments.as_slice() else { return Vec::new() };
    if function.name != EQUAL {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (one, other) in [(a, b), (b, a)] {
        if let Expr::Variable(variable) = one
            && !variables_of(other).contains(variable)
            && !matches!(other, Expr::Constant(_))
        {
            found.push((*variable, other));
        }
    }
    found
}
