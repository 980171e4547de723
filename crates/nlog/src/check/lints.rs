//! What is allowed, but probably not meant.

use std::collections::BTreeSet;

use nlog_data::Role;

use super::declarations::{Declarations, Usage};
use super::resolve::Resolver;
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{BodyItem, Expr, Term, VariableId};
use crate::syntax::ast::Rule;

impl Resolver<'_, '_> {
    /// Variables that stand once in the rule. After an error they may be half of a slip that is reported.
    pub(super) fn unused_variables(&mut self) {
        if self.failed {
            return;
        }
        for index in 0..self.variables.len() {
            let variable = &self.variables[index];
            if variable.count > 1 || variable.in_fault || variable.name.starts_with('_') {
                continue;
            }
            let name = &variable.name;
            let message = format!("the variable `{name}` is used nowhere else in the rule");
            let help = format!("write `_`, or `_{name}` to keep the name");
            self.report(Code::UnusedVariable, variable.first, message, help);
        }
    }

    /// Atoms that no variable or equation connects: every row of one goes with every row of the other.
    pub(super) fn cartesian_product(&mut self, rule: &Rule, body: &[BodyItem]) {
        let mut groups: Vec<BTreeSet<VariableId>> = Vec::new();
        let mut sources: Vec<(VariableId, BTreeSet<VariableId>)> = Vec::new();
        for item in body {
            match item {
                BodyItem::Atom { terms, .. } => {
                    let variables = terms.iter().filter_map(|term| match term {
                        Term::Variable(variable) => Some(*variable),
                        _ => None,
                    });
                    merge(&mut groups, variables.collect());
                }
                // What a variable is computed from stands for it.
                BodyItem::Let { variable, expr } => {
                    let origin = origins([expr], &sources);
                    sources.push((*variable, origin));
                }
                BodyItem::Generate { arguments, results, .. } => {
                    let origin = origins(arguments, &sources);
                    sources.extend(results.iter().flatten().map(|result| (*result, origin.clone())));
                }
                BodyItem::Filter(_) => {}
            }
        }
        for item in body {
            if let BodyItem::Filter(Expr::Call { function, arguments }) = item
                && function.name == "=="
            {
                merge(&mut groups, origins(arguments, &sources));
            }
        }
        groups.retain(|group| !group.is_empty());
        if groups.len() < 2 {
            return;
        }
        let atoms = body.iter().filter(|item| matches!(item, BodyItem::Atom { .. })).count();
        let message = format!(
            "the {atoms} atoms of this rule fall into {} parts that share no variable: it derives every combination of them",
            groups.len()
        );
        let help = "join the parts on a variable, or derive each by a rule of its own if combinations are not meant";
        self.report(Code::CartesianProduct, rule.head.span, message, help);
    }
}

/// Adds a group and unites it with those it meets.
fn merge(groups: &mut Vec<BTreeSet<VariableId>>, mut group: BTreeSet<VariableId>) {
    if group.is_empty() {
        return;
    }
    groups.retain_mut(|other| {
        let apart = other.is_disjoint(&group);
        if !apart {
            group.append(other);
        }
        apart
    });
    groups.push(group);
}

/// The variables of atoms that the expressions are made of.
fn origins<'a>(
    expressions: impl IntoIterator<Item = &'a Expr>,
    sources: &[(VariableId, BTreeSet<VariableId>)],
) -> BTreeSet<VariableId> {
    let mut used = BTreeSet::new();
    expressions.into_iter().for_each(|expr| super::normalise::used(expr, &mut used));
    let mut origins = BTreeSet::new();
    for variable in used {
        match sources.iter().find(|(of, _)| *of == variable) {
            Some((_, from)) => origins.extend(from),
            None => {
                origins.insert(variable);
            }
        }
    }
    origins
}

/// Tables that no rule reads and nobody outside sees.
pub(super) fn unused_tables(declarations: &Declarations<'_>, usage: &Usage, reports: &mut Reports) {
    for (index, table) in declarations.tables.iter().enumerate() {
        if table.role == Role::Output || usage.read.contains(&index) || table.columns.is_none() {
            continue;
        }
        let name = &table.name.name;
        let (message, help) = match table.role {
            Role::Input => (format!("no rule reads the input table `{name}`"), "remove it, or use it in a rule"),
            _ => (
                format!("no rule reads the table `{name}`, and it is no output"),
                "declare it as `output table` if its rows are a result, or remove it",
            ),
        };
        reports.push(Report::new(Code::UnusedTable, table.name.span, message, help));
    }
}
