//! Constrained types: the constraints of their declarations, and the rows of rules held to them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use nlog_data::function::{Function, Multiplicity, Parameter, Results, Shape};
use nlog_data::{Condition, Constrained, Constraint, Failure, Type, Value};

use super::constants::Nowhere;
use super::declarations::{Constant, Declarations, Usage};
use super::functions;
use super::head::HeadTerm as HeadIr;
use super::normalise::Normal;
use super::resolve::{Resolver, Scope};
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Aggregate, BodyItem, Expr, HeadTerm, Term, VariableId};
use crate::source::Sources;
use crate::syntax::ast::{self, Ident, Span, TypeDefinition};

/// The name of the value in a condition.
pub(super) const VALUE: &str = "value";

/// Sets the constraints of all constrained types, and holds constants to their types. Constants and functions are
/// defined before.
pub(super) fn define(
    files: &[&ast::File],
    declarations: &Declarations<'_>,
    usage: &mut Usage,
    sources: &Sources,
    reports: &mut Reports,
) {
    for named in declarations.types.all() {
        let Some(Type::Constrained(ty)) = &named.ty else { continue };
        let Some(TypeDefinition::Constrained(declared)) = &named.declaration.definition else { continue };
        let mut scope = Scope::new(sources, declarations, reports, usage);
        let name = &named.declaration.name;
        let range = declared.range.as_ref().and_then(|range| bounds(name, ty, range, &mut scope));
        let conditions: Vec<_> =
            declared.conditions.iter().map(|declared| condition(name, ty, declared, &mut scope)).collect();
        let whole = range.is_some() == declared.range.is_some();
        if let (true, Some(conditions)) = (whole, conditions.into_iter().collect()) {
            ty.set(Constraint { range, conditions });
        }
    }
    for constant in files.iter().flat_map(|file| &file.constants) {
        let (Some(declared), Some(value)) = (&constant.ty, &constant.value) else { continue };
        // A mistake in the type is already reported.
        let ty = declarations.named_type(declared, &mut Reports::default());
        let Some(Constant::Value(held, _)) = declarations.constants.get(constant.name.name.as_str()) else {
            continue;
        };
        if let Some(violation) = ty.and_then(|ty| ty.violation(held)) {
            reports.push(out_of_range(value.span, violation).label(declared.span, "declared here"));
        }
    }
}

/// The report of a constant that violates the constraint of its type.
pub(super) fn out_of_range(span: Span, violation: String) -> Report {
    Report::new(Code::ConstantRange, span, violation, "use a value of the type, or another type")
}

/// The values of the bounds of a range, or `None` after a report.
fn bounds(
    name: &Ident,
    ty: &Constrained,
    ast::Range { least, greatest }: &ast::Range,
    scope: &mut Scope<'_>,
) -> Option<(i64, i64)> {
    let span = Span { end: greatest.span.end, ..least.span };
    if *ty.base.base() != Type::Int {
        let message = format!("a range restricts integers, but `{}` restricts {}", name.name, ty.base);
        let help = "write a condition: where length(value) <= 15";
        scope.reports.push(Report::new(Code::TypeMismatch, span, message, help));
        return None;
    }
    let mut bound = |of: &ast::Expr| {
        let mut resolver = Resolver::of_constant(scope, &name.name);
        match resolver.value(of, (&Type::Int, None), "a bound of the range", &mut Nowhere)? {
            Expr::Constant(Value::Int(number)) if !resolver.failed => Some(number),
            _ => None,
        }
    };
    let (least, greatest) = (bound(least), bound(greatest));
    let (least, greatest) = (least?, greatest?);
    if least > greatest {
        let message = format!("no integer is from {least} to {greatest}");
        let help = "write the least value first: 1..4094";
        scope.reports.push(Report::new(Code::ConstantRange, span, message, help));
        return None;
    }
    Some((least, greatest))
}

/// A compiled condition, or `None` after a report.
fn condition(
    name: &Ident,
    ty: &Constrained,
    declared: &ast::Condition,
    scope: &mut Scope<'_>,
) -> Option<Condition> {
    let span = declared.holds.span;
    let (declarations, text) = (scope.declarations, scope.sources.text(span));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let value = Ident { name: VALUE.to_owned(), span };
    let mut resolver = Resolver::of_type(scope, &name.name);
    resolver.parameter(&value, &ty.base, span);
    let wanted = (&Type::Bool, None);
    let body = resolver.value(&declared.holds, wanted, "the condition", &mut functions::Parameters);
    let body = body.filter(|_| !resolver.failed)?;
    let mut variables = BTreeSet::new();
    body.variables(&mut variables);
    if variables.is_empty() {
        let message = format!("this condition of `{}` does not depend on the value", name.name);
        let help = "use `value`, the name of the value in a condition: where value != 0";
        scope.reports.push(Report::new(Code::ConstantCondition, span, message, help));
    }
    if let Some(report) = functions::too_large(&name.name, span, &body, declarations) {
        scope.reports.push(report);
        return None;
    }
    let holds = Arc::new(functions::compiled(&predicate(format!("{}?", name.name), ty.base.clone()), body));
    Some(Condition { text, message: declared.message.clone(), holds })
}

/// The signature of a function from a value to a `bool`. Its name is no name of the source.
fn predicate(name: String, ty: Type) -> Function {
    Function {
        name: Cow::Owned(name),
        parameters: vec![Parameter { name: Cow::Borrowed(VALUE), shape: Shape::Is(ty) }],
        variadic: false,
        results: vec![Parameter { name: Cow::Borrowed("result"), shape: Shape::Is(Type::Bool) }],
        multiplicity: Multiplicity::One,
        may_fail: true,
        doc: Cow::Borrowed(""),
        examples: Vec::new(),
        definition: Cow::Borrowed(""),
        evaluate: Box::new(|_: &[Value]| Ok(Results::None)),
    }
}

/// A function that is true for values of the type, and fails with `range` for other values of its base type.
fn check_of(ty: &Type) -> Arc<Function> {
    let held = ty.clone();
    let evaluate = move |arguments: &[Value]| match arguments.first().and_then(|value| held.violation(value))
    {
        None => Ok(Results::One(Value::Bool(true))),
        Some(violation) => Err(Failure::range(violation)),
    };
    let definition = Cow::Owned(format!("{ty:?}"));
    let signature = predicate(format!("{ty}?"), ty.clone());
    Arc::new(Function { definition, evaluate: Box::new(evaluate), ..signature })
}

impl Resolver<'_, '_> {
    /// Holds the rows that a rule derives to the types of their columns: a value that the rule does not take from a
    /// column of the same type gets a condition that fails with `range`. Returns false after a report.
    pub(super) fn hold_to_types(
        &mut self,
        rule: &ast::Rule,
        table: usize,
        heads: &[HeadIr],
        normal: &mut Normal,
    ) -> bool {
        let declarations = self.scope.declarations;
        let Some(columns) = &declarations.tables[table].columns else { return true };
        let mut fine = true;
        for (at, (column, head)) in columns.iter().zip(heads).enumerate() {
            let Some(ty) = column.ty.as_ref().filter(|ty| ty.is_constrained()) else { continue };
            match (&normal.terms[at], head) {
                (HeadTerm::Aggregate { aggregate, arguments }, _) => {
                    if !keeps(*aggregate, arguments, ty, normal, declarations) {
                        let message = format!(
                            "column `{}` takes values of type `{ty}` only; this aggregate may have others",
                            column.name.name
                        );
                        let help = "derive the aggregate into a table whose column has the base type, and from there \
                        into this one";
                        let report = Report::new(Code::Aggregate, rule.head.span, message, help);
                        self.push(report.label(column.type_span, "declared here"));
                        fine = false;
                    }
                }
                (HeadTerm::Value(Expr::Constant(value)), HeadIr::Value(node)) => {
                    if let Some(violation) = ty.violation(value) {
                        self.push(
                            out_of_range(node.span, violation).label(column.type_span, "declared here"),
                        );
                        fine = false;
                    }
                }
                (HeadTerm::Value(expr), HeadIr::Value(node)) => {
                    if !is_held_later(rule, declarations.tables[table].key.as_deref(), at)
                        && !comes_from(expr, ty, normal, declarations)
                    {
                        let check = Expr::Call { function: check_of(ty), arguments: vec![expr.clone()] };
                        normal.body.push(BodyItem::Filter(check));
                        normal.spans.push(node.span);
                    }
                }
                (HeadTerm::Value(_), HeadIr::Aggregate(..)) => {}
            }
        }
        fine
    }
}

/// Whether a value of a default counts only where no ordinary row has its key: [`super::defaults`] holds it to its type then.
fn is_held_later(rule: &ast::Rule, key: Option<&[usize]>, column: usize) -> bool {
    rule.default.is_some() && key.is_some_and(|key| !key.contains(&column))
}

/// The conditions that hold the values of a rule's head to the types of these columns.
pub(super) fn conditions(terms: &[HeadTerm], columns: &[nlog_data::Column], key: &[usize]) -> Vec<BodyItem> {
    let held = terms
        .iter()
        .zip(columns)
        .enumerate()
        .filter(|(at, (_, column))| column.ty.is_constrained() && !key.contains(at));
    let condition = |(_, (term, column)): (usize, (&HeadTerm, &nlog_data::Column))| match term {
        HeadTerm::Value(Expr::Constant(_)) | HeadTerm::Aggregate { .. } => None,
        HeadTerm::Value(expr) => {
            let check = Expr::Call { function: check_of(&column.ty), arguments: vec![expr.clone()] };
            Some(BodyItem::Filter(check))
        }
    };
    held.filter_map(condition).collect()
}

/// Whether an expression is a variable that an atom binds to a column of the type.
fn comes_from(expr: &Expr, ty: &Type, normal: &Normal, declarations: &Declarations<'_>) -> bool {
    let Expr::Variable(variable) = expr else { return false };
    types_of(*variable, normal, declarations).any(|bound| bound == ty)
}

/// Whether an aggregate of values that a rule takes from columns is a value of the type.
fn keeps(
    aggregate: Aggregate,
    arguments: &[Expr],
    ty: &Type,
    normal: &Normal,
    declarations: &Declarations<'_>,
) -> bool {
    let from = |argument: Option<&Expr>, ty: &Type| {
        argument.is_some_and(|argument| comes_from(argument, ty, normal, declarations))
    };
    match (aggregate, ty) {
        (Aggregate::Min | Aggregate::Max, ty) => from(arguments.first(), ty),
        (Aggregate::ArgMin | Aggregate::ArgMax, ty) => from(arguments.get(1), ty),
        (Aggregate::Set, Type::Set(of)) | (Aggregate::List, Type::List(of)) => from(arguments.first(), of),
        _ => false,
    }
}

/// The types of the columns that atoms bind to a variable.
fn types_of<'n>(
    variable: VariableId,
    normal: &'n Normal,
    declarations: &'n Declarations<'_>,
) -> impl Iterator<Item = &'n Type> {
    let atoms = normal.body.iter().filter_map(|item| match item {
        BodyItem::Atom { table, terms, .. } => Some((table, terms)),
        _ => None,
    });
    atoms.flat_map(move |(table, terms)| {
        let columns = declarations.tables[table.0 as usize].columns.iter().flat_map(|columns| columns.iter());
        let bound = columns.zip(terms).filter(move |(_, term)| **term == Term::Variable(variable));
        bound.filter_map(|(column, _)| column.ty.as_ref())
    })
}
