//! The lint `cartesian-product`: bodies whose atoms share no variable.

use std::collections::BTreeSet;

use crate::check::normalise::Normal;
use crate::check::resolve::Resolver;
use crate::diagnostic::Code;
use crate::program::{BodyItem, Expr, Term, VariableId};
use crate::syntax::ast::Rule;

impl Resolver<'_, '_> {
    /// Reports atoms that no variable or equation connects: every row of one is combined with every row of the
    /// other. Any other condition, such as `!=`, only filters the combinations; it does not avoid them.
    pub(in crate::check) fn cartesian_product(&mut self, rule: &Rule, normal: &Normal) {
        let mut links = Links::new(normal.variables.len());
        let mut atoms: Vec<VariableId> = Vec::new();
        for item in &normal.body {
            match item {
                BodyItem::Atom { terms, .. } => {
                    let mut variables = terms.iter().filter_map(|term| match term {
                        Term::Variable(variable) => Some(*variable),
                        _ => None,
                    });
                    // An atom without variables is a condition.
                    let Some(first) = variables.next() else { continue };
                    atoms.push(first);
                    variables.for_each(|variable| links.unite(first, variable));
                }
                BodyItem::Let { variable, expr } => links.define(*variable, [expr]),
                BodyItem::Generate { arguments, results, .. } => {
                    results.iter().flatten().for_each(|result| links.define(*result, arguments));
                }
                BodyItem::Filter(_) => {}
            }
        }
        for item in &normal.body {
            if let BodyItem::Filter(condition @ Expr::Call { function, .. }) = item
                && function.name == "=="
            {
                links.relate(condition);
            }
        }
        let parts: BTreeSet<u32> = atoms.iter().map(|&variable| links.root(variable)).collect();
        if parts.len() < 2 {
            return;
        }
        let message = format!(
            "the {} atoms of this rule form {} groups that share no variable: their cartesian product is \
            computed",
            atoms.len(),
            parts.len()
        );
        let help = "join the groups on a shared variable, or write a separate rule for each if the product \
        is not \
            intended";
        self.report(Code::CartesianProduct, rule.head.span, message, help);
    }
}

/// Variables connected by atoms and equations (union-find).
struct Links {
    parent: Vec<u32>,
    /// The variables from which a variable outside atoms is computed.
    made_of: Vec<Vec<VariableId>>,
}

impl Links {
    fn new(count: usize) -> Self {
        Links { parent: (0..count as u32).collect(), made_of: vec![Vec::new(); count] }
    }

    fn root(&mut self, variable: VariableId) -> u32 {
        let mut at = variable.0;
        while self.parent[at as usize] != at {
            let next = self.parent[at as usize];
            self.parent[at as usize] = self.parent[next as usize];
            at = next;
        }
        at
    }

    fn unite(&mut self, a: VariableId, b: VariableId) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a as usize] = b;
    }

    fn define<'a>(&mut self, variable: VariableId, from: impl IntoIterator<Item = &'a Expr>) {
        self.made_of[variable.0 as usize] = variables_of(from);
    }

    /// Links all variables of an equation, and those that they are computed from.
    fn relate(&mut self, condition: &Expr) {
        let mut open = variables_of([condition]);
        let Some(&first) = open.first() else { return };
        while let Some(variable) = open.pop() {
            self.unite(first, variable);
            // A variable is linked to its parts only once.
            open.append(&mut self.made_of[variable.0 as usize]);
        }
    }
}

fn variables_of<'a>(expressions: impl IntoIterator<Item = &'a Expr>) -> Vec<VariableId> {
    let mut used = BTreeSet::new();
    expressions.into_iter().for_each(|expr| expr.variables(&mut used));
    used.into_iter().collect()
}
