//! Finds and computes named constants.

use std::collections::BTreeMap;
use std::sync::Arc;

use nlog_data::Type;

use super::constant_folding::Hoist;
use super::declarations::{Constant, Declarations, Usage};
use super::resolve::{Resolver, Scope};
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Expr, VariableId};
use crate::source::Sources;
use crate::syntax::ast::{self, ExprKind};

/// The context of a constant, which has neither variables nor functions with several results.
pub(super) struct Nowhere;

impl Hoist for Nowhere {
    fn hoist(&mut self, _: Type, _: &Arc<nlog_data::Function>, _: Vec<Expr>) -> Option<VariableId> {
        None
    }

    fn variable(&self, _: usize) -> VariableId {
        VariableId(u32::MAX)
    }
}

/// The first definition of each name, in name order; reports the others.
pub(super) fn collect<'a>(
    files: &[&'a ast::File],
    sources: &Sources,
    reports: &mut Reports,
) -> Vec<&'a ast::Constant> {
    let mut first: BTreeMap<&'a str, &'a ast::Constant> = BTreeMap::new();
    for constant in files.iter().flat_map(|file| &file.constants) {
        let name = constant.name.name.as_str();
        if let Some(earlier) = first.get(name) {
            let place = sources.place(earlier.name.span);
            let message = format!("constant `{name}` is already defined at {place}");
            let help = "remove one of the definitions, or give this constant another name";
            let report = Report::new(Code::DuplicateConstant, constant.name.span, message, help);
            reports.push(report.label(earlier.name.span, "defined here"));
        } else {
            first.insert(name, constant);
        }
    }
    first.into_values().collect()
}

/// Computes a constant whose dependencies are defined; `None` after a report.
pub(super) fn evaluate(
    constant: &ast::Constant,
    declarations: &Declarations<'_>,
    usage: &mut Usage,
    sources: &Sources,
    reports: &mut Reports,
) -> Option<Constant> {
    let declared = match &constant.ty {
        Some(ty) => Some((declarations.named_type(ty, reports)?, ty.span)),
        None => None,
    };
    let value = constant.value.as_ref()?;
    if let (ExprKind::String(text), None) = (&value.kind, &declared) {
        return Some(Constant::Text(text.clone()));
    }
    let mut scope = Scope::new(sources, declarations, reports, usage);
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
    let Some(ty) = resolver.types.exact(node.ty) else {
        resolver.unknown_type(value.span);
        return None;
    };
    if let Expr::Constant(value) = expr {
        return Some(Constant::Value(value, ty));
    }
    let message = format!("the expression for `{}` has no result", constant.name.name);
    let help = "the function has no result for these arguments; use others";
    resolver.report(Code::ConstantRange, value.span, message, help);
    None
}
