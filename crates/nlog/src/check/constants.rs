//! Named constants: found, ordered by what they use, and computed.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::Type;

use super::cycles::{dependencies_first, tangles};
use super::declarations::{Constant, Declarations, Usage, named_type};
use super::fold::Hoist;
use super::resolve::{Resolver, Scope};
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Expr, VariableId};
use crate::source::Sources;
use crate::syntax::ast::{self, ExprKind};

/// There are no variables in a constant, and no place for several results.
struct Nowhere;

impl Hoist for Nowhere {
    fn hoist(&mut self, _: Type, _: &Arc<nlog_data::Function>, _: Vec<Expr>) -> Option<VariableId> {
        None
    }

    fn variable(&self, _: usize) -> VariableId {
        VariableId(u32::MAX)
    }
}

/// Computes the constants of all files.
pub(super) fn define<'a>(
    files: &[&'a ast::File],
    declarations: &mut Declarations<'a>,
    sources: &'a Sources,
    reports: &mut Reports,
) {
    let mut first: BTreeMap<&'a str, &'a ast::Constant> = BTreeMap::new();
    for constant in files.iter().flat_map(|file| &file.constants) {
        let name = constant.name.name.as_str();
        if let Some(earlier) = first.get(name) {
            let place = sources.place(earlier.name.span);
            let message = format!("constant `{name}` is defined already, at {place}");
            let help = "remove one of the definitions, or give this constant another name";
            let report = Report::new(Code::DuplicateConstant, constant.name.span, message, help);
            reports.push(report.label(earlier.name.span, "defined here"));
        } else {
            first.insert(name, constant);
        }
    }
    let constants: Vec<&'a ast::Constant> = first.into_values().collect();
    let numbers: BTreeMap<&str, usize> = constants
        .iter()
        .enumerate()
        .map(|(number, constant)| (constant.name.name.as_str(), number))
        .collect();
    let edges: Vec<Vec<usize>> = constants
        .iter()
        .map(|constant| {
            let mut names = Vec::new();
            constant.value.iter().for_each(|value| names_in(value, &mut names));
            let mut uses: Vec<usize> =
                names.into_iter().filter_map(|name| numbers.get(name).copied()).collect();
            uses.sort_unstable();
            uses.dedup();
            uses
        })
        .collect();
    for constant in &constants {
        declarations.constants.insert(&constant.name.name, Constant::Faulty);
    }
    let mut circular = vec![false; constants.len()];
    for tangle in tangles(&edges) {
        let cycle: Vec<&str> = tangle.cycle.iter().map(|&at| constants[at].name.name.as_str()).collect();
        let path = [&cycle[..], &cycle[..1]].concat().join(" → ");
        let message = format!("constants are defined by each other: {path}");
        let span = constants[tangle.cycle[0]].name.span;
        reports.push(Report::new(Code::ConstantCycle, span, message, "give one of them a value of its own"));
        tangle.cycle.iter().chain(&tangle.others).for_each(|&at| circular[at] = true);
    }
    for number in dependencies_first(&edges) {
        if !circular[number] {
            let constant = constants[number];
            let value = evaluate(constant, declarations, sources, reports).unwrap_or(Constant::Faulty);
            declarations.constants.insert(&constant.name.name, value);
        }
    }
}

fn evaluate(
    constant: &ast::Constant,
    declarations: &Declarations<'_>,
    sources: &Sources,
    reports: &mut Reports,
) -> Option<Constant> {
    let declared = match &constant.ty {
        Some(ty) => Some((named_type(ty, reports)?, ty.span)),
        None => None,
    };
    let value = constant.value.as_ref()?;
    if let (ExprKind::String(text), None) = (&value.kind, &declared) {
        return Some(Constant::Text(text.clone()));
    }
    let mut usage = Usage::default();
    let mut scope = Scope::new(sources, declarations, reports, &mut usage);
    let mut resolver = Resolver::of_constant(&mut scope, &constant.name.name);
    let node = resolver.expr(value);
    if let Some((ty, span)) = declared {
        let wanted = resolver.types.known(&ty, span);
        resolver.expect(&node, wanted, &format!("`{}`", constant.name.name), Some(span));
    }
    resolver.settle_calls();
    resolver.report_ambiguous();
    let expr = resolver.lower(&node, &mut Nowhere)?;
    if resolver.failed {
        return None;
    }
    let Some(ty) = resolver.types.resolved(node.ty) else {
        resolver.unknown_type(value.span);
        return None;
    };
    if let Expr::Constant(value) = expr {
        return Some(Constant::Value(value, ty));
    }
    let message = format!("the definition of `{}` has no value", constant.name.name);
    let help = "the function has no result for these arguments; use others";
    resolver.report(Code::ConstantRange, value.span, message, help);
    None
}

fn names_in<'e>(expr: &'e ast::Expr, into: &mut Vec<&'e str>) {
    if let ExprKind::Name(name) = &expr.kind {
        into.push(name);
    }
    for part in expr.parts() {
        names_in(part, into);
    }
}
