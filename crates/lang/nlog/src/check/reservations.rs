//! The numbers that a program reserves: of meters, of groups, of whatever has a type of numbers. Two packages that take one number
//! of a type would disturb each other, so an overlap is an error that names both.

use nlog_data::{Type, Value};

use super::constants::Nowhere;
use super::constraints::out_of_range;
use super::declarations::{Constant, Declarations, Usage};
use super::pipeline::{docs, written};
use super::resolve::{Resolver, Scope};
use crate::diagnostic::{Code, Report, Reports};
use crate::program::{Expr, Reservation};
use crate::source::Sources;
use crate::syntax::ast::{self, Ident, RangeDeclaration, Span};

/// The reservations without mistakes, by type and number. Constants and types are defined before.
pub(super) fn check(
    files: &[&ast::File],
    declarations: &Declarations<'_>,
    usage: &mut Usage,
    sources: &Sources,
    reports: &mut Reports,
) -> Vec<Reservation> {
    let mut scope = Scope::new(sources, declarations, reports, usage);
    let declared = files.iter().flat_map(|file| &file.reservations);
    let mut found: Vec<(Reservation, Span)> = Vec::new();
    for declared in declared {
        // A name that is defined twice is reported with the constants.
        let again = found.iter().any(|(earlier, _)| earlier.name == declared.name.name);
        let reservation = reservation(declared, &mut scope).filter(|_| !again);
        found.extend(reservation.map(|reservation| (reservation, declared.name.span)));
    }
    found.sort_by_cached_key(|(reservation, span)| {
        (reservation.of.clone(), reservation.least, sources.precedence(*span))
    });
    report_overlaps(&found, sources, scope.reports);
    found.into_iter().map(|(reservation, _)| reservation).collect()
}

fn reservation(declared: &RangeDeclaration, scope: &mut Scope<'_>) -> Option<Reservation> {
    let (name, of) = (&declared.name, declared.of.as_ref()?);
    let ty = type_of_numbers(of, scope)?;
    let first = declared.least?;
    let least = least(name, first, scope)?;
    let (greatest, last) = match &declared.greatest {
        None => (least, first),
        Some(written) => {
            let mut resolver = Resolver::of_constant(scope, &name.name);
            let value = resolver.value(written, (&Type::Int, None), "the greatest number", &mut Nowhere);
            let Some(Expr::Constant(Value::Int(greatest))) = value.filter(|_| !resolver.failed) else {
                return None;
            };
            (greatest, written.span)
        }
    };
    if least > greatest {
        let message = format!("no number is from {least} to {greatest}");
        let help = "write the least number first: 1..1000";
        scope.reports.push(Report::new(Code::ConstantRange, last, message, help));
        return None;
    }
    for (number, span) in [(least, first), (greatest, last)] {
        if let Some(violation) = ty.violation(&Value::Int(number)) {
            let declared =
                scope.declarations.types.get(&of.name).map_or(of.span, |named| named.declaration.name.span);
            scope.reports.push(out_of_range(span, violation).label(declared, "declared here"));
            return None;
        }
    }
    Some(Reservation {
        name: name.name.clone(),
        of: of.name.clone(),
        least,
        greatest,
        docs: docs(&declared.doc),
        place: scope.sources.place(name.span),
    })
}

/// The declared type of integers with this name; `None` after a report.
fn type_of_numbers(of: &Ident, scope: &mut Scope<'_>) -> Option<Type> {
    let declarations = scope.declarations;
    match declarations.types.get(&of.name) {
        Some(named) => {
            // A mistake in the type is already reported.
            let ty = named.ty.clone()?;
            if *ty.base() == Type::Int {
                return Some(ty);
            }
        }
        None if declarations.types.of_word(&of.name).is_none() => {
            declarations.types.unknown(of, &declarations.hidden, scope.reports);
            return None;
        }
        // All numbers of a program have the built-in type.
        None => {}
    }
    let message = format!("numbers are reserved of a declared type of integers, which `{}` is not", of.name);
    let help = "declare one: type meter = int 1..200000;";
    scope.reports.push(Report::new(Code::TypeMismatch, of.span, message, help));
    None
}

/// The value of the constant of this name; `None` after a report.
fn least(name: &Ident, span: Span, scope: &mut Scope<'_>) -> Option<i64> {
    let found = match scope.declarations.constants.get(name.name.as_str())? {
        Constant::Value(Value::Int(number), _) => return Some(*number),
        Constant::Value(_, ty) => ty.to_string(),
        Constant::Text(_) => Type::String.to_string(),
        Constant::Faulty => return None,
    };
    let message = format!("the numbers `{}` are integers, but this has type {found}", name.name);
    let help = "write the least number and the greatest: 1..1000";
    scope.reports.push(Report::new(Code::TypeMismatch, span, message, help));
    None
}

/// Reports reservations that overlap another one of their type; they are sorted by type.
fn report_overlaps(found: &[(Reservation, Span)], sources: &Sources, reports: &mut Reports) {
    for of_type in found.chunk_by(|(a, _), (b, _)| a.of == b.of) {
        let mut in_order: Vec<&(Reservation, Span)> = of_type.iter().collect();
        // The later declaration is at fault, whatever its numbers.
        in_order.sort_by_cached_key(|(_, span)| sources.precedence(*span));
        for (at, (reservation, span)) in in_order.iter().enumerate() {
            let overlaps = |other: &Reservation| {
                reservation.least <= other.greatest && other.least <= reservation.greatest
            };
            let Some((other, earlier)) = in_order[..at].iter().find(|(other, _)| overlaps(other)) else {
                continue;
            };
            let message = format!(
                "`{}` reserves {} of type `{}`, of which `{}` ({}) has {}",
                reservation.name,
                written(reservation.least, reservation.greatest),
                reservation.of,
                other.name,
                sources.place(*earlier),
                written(other.least, other.greatest)
            );
            let help = "reserve numbers that no other declaration has, or use those";
            let report = Report::new(Code::ReservedTwice, *span, message, help);
            reports.push(report.label(*earlier, "reserved here"));
        }
    }
}
