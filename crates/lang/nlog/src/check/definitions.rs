//! Named constants and functions: sorted by dependency and defined one after the other.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::constants;
use super::cycles::{Tangle, dependencies_first, tangles};
use super::declarations::{Constant, Declarations, Usage, quoted};
use super::pipeline::Fields;
use super::{constraints, functions, openflow};
use crate::diagnostic::{Code, Report, Reports};
use crate::source::Sources;
use crate::syntax::ast::{self, Expr, ExprKind, FunctionDeclaration, Ident};

enum Definition<'a> {
    Constant(&'a ast::Constant),
    Function(&'a FunctionDeclaration),
}

/// Defines the constants and functions of all files.
pub(super) fn define<'a>(
    files: &[&'a ast::File],
    declarations: &mut Declarations<'a>,
    usage: &mut Usage,
    sources: &'a Sources,
    reports: &mut Reports,
) {
    let constants = constants::collect(files, sources, reports);
    let functions = functions::collect(files, declarations, sources, reports);
    for constant in &constants {
        declarations.constants.insert(&constant.name.name, Constant::Faulty);
    }
    let definitions: Vec<Definition<'a>> = constants
        .into_iter()
        .map(Definition::Constant)
        .chain(functions.into_iter().map(Definition::Function))
        .collect();
    let edges = edges(&definitions, &declarations.fields);
    let mut circular = vec![false; definitions.len()];
    for tangle in tangles(&edges) {
        report_cycle(&tangle, &definitions, reports);
        tangle.cycle.iter().chain(&tangle.others).for_each(|&at| circular[at] = true);
    }
    for number in dependencies_first(&edges) {
        if circular[number] {
            continue;
        }
        match definitions[number] {
            Definition::Constant(constant) => {
                let value = constants::evaluate(constant, declarations, usage, sources, reports);
                declarations.constants.insert(&constant.name.name, value.unwrap_or(Constant::Faulty));
            }
            Definition::Function(function) => {
                functions::define(function, declarations, usage, sources, reports);
            }
        }
    }
    constraints::define(files, declarations, usage, sources, reports);
}

impl<'a> Definition<'a> {
    fn name(&self) -> &'a Ident {
        match self {
            Definition::Constant(constant) => &constant.name,
            Definition::Function(function) => &function.name,
        }
    }

    fn is_function(&self) -> bool {
        matches!(self, Definition::Function(_))
    }
}

/// The definitions that each one uses.
fn edges(definitions: &[Definition<'_>], fields: &Fields<'_>) -> Vec<Vec<usize>> {
    let (mut constants, mut functions) = (HashMap::new(), HashMap::new());
    for (number, definition) in definitions.iter().enumerate() {
        let numbers = if definition.is_function() { &mut functions } else { &mut constants };
        numbers.insert(definition.name().name.as_str(), number);
    }
    let uses = |definition: &Definition<'_>| {
        let mut names = Names { fields, values: Vec::new(), calls: Vec::new() };
        let mut parameters: HashSet<&str> = HashSet::new();
        match definition {
            Definition::Constant(constant) => constant.value.iter().for_each(|value| names.add(value)),
            Definition::Function(function) => {
                function.body.iter().for_each(|value| names.add(value));
                parameters.extend(function.parameters.iter().flatten().map(|(name, _)| name.name.as_str()));
            }
        }
        let values = names.values.into_iter().filter(|name| !parameters.contains(name));
        let values = values.filter_map(|name| constants.get(name).copied());
        let mut uses: Vec<usize> =
            values.chain(names.calls.into_iter().filter_map(|name| functions.get(name).copied())).collect();
        uses.sort_unstable();
        uses.dedup();
        uses
    };
    definitions.iter().map(uses).collect()
}

/// The names in an expression.
struct Names<'e, 'f> {
    fields: &'e Fields<'f>,
    values: Vec<&'e str>,
    calls: Vec<&'e str>,
}

impl<'e> Names<'e, '_> {
    fn add(&mut self, expr: &'e Expr) {
        match &expr.kind {
            ExprKind::Name(name) => self.values.push(name),
            ExprKind::Call(call) => self.calls.push(&call.name.name),
            // The names of actions and fields are not names of functions or constants.
            ExprKind::Actions(actions) => {
                let values = openflow::values_of(actions, self.fields);
                return values.into_iter().for_each(|value| self.add(value));
            }
            _ => {}
        }
        for part in expr.parts() {
            self.add(part);
        }
    }
}

/// The names in an expression that may be names of constants.
pub(super) fn value_names<'e>(expr: &'e Expr, fields: &'e Fields<'_>) -> Vec<&'e str> {
    let mut names = Names { fields, values: Vec::new(), calls: Vec::new() };
    names.add(expr);
    names.values
}

fn report_cycle(tangle: &Tangle, definitions: &[Definition<'_>], reports: &mut Reports) {
    let name = |&at: &usize| definitions[at].name().name.as_str();
    let cycle: Vec<&str> = tangle.cycle.iter().map(name).collect();
    let path = [&cycle[..], &cycle[..1]].concat().join(" → ");
    let others: BTreeSet<&str> = tangle.others.iter().map(name).collect();
    let too = if others.is_empty() { String::new() } else { format!("; {} too", quoted(others)) };
    let function = tangle.cycle.iter().find(|&&at| definitions[at].is_function());
    let (code, at, message, help) = match function {
        None => {
            let message = format!("constants are defined in terms of each other: {path}{too}");
            (Code::ConstantCycle, tangle.cycle[0], message, "define one of them without the others")
        }
        Some(&at) => {
            let message = match cycle.as_slice() {
                [one] => format!("function `{one}` calls itself{too}"),
                _ => format!("functions call each other: {path}{too}"),
            };
            let help = "nlog has no recursion: iterate with `range` or `element_at` in the body of a rule, \
            and collect the results with an aggregate";
            (Code::FunctionCycle, at, message, help)
        }
    };
    let mut report = Report::new(code, definitions[at].name().span, message, help);
    if function.is_some() {
        for &other in tangle.cycle.iter().filter(|&&other| other != at) {
            report = report.label(definitions[other].name().span, "and this");
        }
    }
    reports.push(report);
}
