//! Records: construction and field access.

use std::sync::Arc;

use nlog_data::{Function, Record, Type, Value};

use super::declarations::quoted;
use super::resolve::{Node, NodeKind, Resolver};
use super::types::TypeVar;
use crate::diagnostic::{Code, Report};
use crate::syntax::ast::{Expr, ExprKind, Ident, Span};

/// A place where a field is read.
#[derive(Debug)]
pub(super) struct FieldSite {
    field: Ident,
    /// The type of the record.
    record: TypeVar,
    record_span: Span,
    /// The type of the field.
    ty: TypeVar,
    span: Span,
    /// Whether its type is still undecided.
    open: bool,
    /// The function that reads the field; stays empty after a report.
    pub(super) reader: Option<Arc<Function>>,
}

impl FieldSite {
    /// The field's name.
    pub(super) fn name(&self) -> &Ident {
        &self.field
    }

    /// The type of the record.
    pub(super) fn record(&self) -> TypeVar {
        self.record
    }
}

/// The alternative of a choice that a literal is without its name, as in documents: the one that is a list, or the one that
/// is an enumeration.
fn alternative(ty: &Type, value: &Expr) -> Option<(Arc<Record>, usize)> {
    ty.alternatives()?;
    let Type::Record(choice) = ty.base() else { return None };
    let is_it = |of: &Type| match value.kind {
        ExprKind::List(_) => matches!(of.base(), Type::List(_)),
        ExprKind::Set(_) => matches!(of.base(), Type::Set(_)),
        ExprKind::String(_) => matches!(of.base(), Type::Enum(_)),
        _ => false,
    };
    let is_it = |(_, ty): &(String, Type)| matches!(ty.base(), Type::Opt(of) if is_it(of));
    Some((choice.clone(), choice.fields.iter().position(is_it)?))
}

impl Resolver<'_, '_> {
    /// `name{field: value, …}`
    pub(super) fn record(&mut self, name: &Ident, fields: &[(Ident, Expr)], span: Span) -> Node {
        let Some(record) = self.record_type(name) else {
            for (_, value) in fields {
                self.taint(value);
            }
            return self.faulty(span);
        };
        let mut given: Vec<Option<(Span, Node)>> = record.fields.iter().map(|_| None).collect();
        let mut faulty = false;
        for (field, value) in fields {
            let Some((place, ty)) = record.field(&field.name) else {
                self.unknown_field(field, &record);
                self.taint(value);
                faulty = true;
                continue;
            };
            if let Some((earlier, _)) = &given[place] {
                let message = format!("duplicate field `{}`", field.name);
                let report =
                    Report::new(Code::DuplicateField, field.span, message, "give each field one value");
                let report = report.label(*earlier, "first given here");
                self.push(report);
                self.taint(value);
                faulty = true;
                continue;
            }
            let declared = self.scope.declarations.types.field_type_span(&record, &field.name);
            let wanted = self.types.known(ty, declared.unwrap_or(field.span));
            let node = self.expr(value);
            let what = format!("field `{}` of `{}`", field.name, record.name);
            let node = if let Some((choice, at)) = alternative(ty, value) {
                self.chosen(node, &choice, at, &what, declared)
            } else {
                self.expect(&node, wanted, &what, declared);
                node
            };
            given[place] = Some((field.span, node));
        }
        let missing = record.fields.iter().zip(&given).filter(|(_, given)| given.is_none());
        let missing: Vec<&str> = missing.map(|((name, _), _)| name.as_str()).collect();
        if !missing.is_empty() && !faulty {
            let what = if missing.len() == 1 { "field" } else { "fields" };
            let message = format!("`{}` is missing {what} {}", record.name, quoted(missing.iter().copied()));
            let example: Vec<String> = missing.iter().map(|name| format!("{name}: …")).collect();
            let help = format!("give every field a value: {}", example.join(", "));
            self.report(Code::MissingField, span, message, help);
            faulty = true;
        }
        let ty = self.types.known(&Type::Record(record.clone()), span);
        let nodes: Option<Vec<Node>> = given.into_iter().map(|given| Some(given?.1)).collect();
        match (nodes, self.scope.declarations.types.constructor(&record)) {
            (Some(nodes), Some(make)) if !faulty => Node { kind: NodeKind::Apply(make, nodes), ty, span },
            _ => {
                self.failed = true;
                Node { kind: NodeKind::Faulty, ty, span }
            }
        }
    }

    /// The choice whose alternative at this place is the value.
    fn chosen(
        &mut self,
        value: Node,
        choice: &Arc<Record>,
        at: usize,
        what: &str,
        declared: Option<Span>,
    ) -> Node {
        let span = value.span;
        let wanted = match choice.fields[at].1.base() {
            Type::Opt(of) => self.types.known(of, declared.unwrap_or(span)),
            ty => self.types.known(ty, declared.unwrap_or(span)),
        };
        self.expect(&value, wanted, what, declared);
        let ty = self.types.known(&Type::Record(choice.clone()), span);
        let Some(make) = self.scope.declarations.types.constructor(choice) else {
            self.failed = true;
            return Node { kind: NodeKind::Faulty, ty, span };
        };
        let mut value = Some(value);
        let nodes = choice.fields.iter().enumerate().map(|(other, (_, ty))| {
            let absent = Node { kind: NodeKind::Constant(Value::None), ty: self.types.known(ty, span), span };
            value.take_if(|_| other == at).unwrap_or(absent)
        });
        Node { kind: NodeKind::Apply(make, nodes.collect()), ty, span }
    }

    /// The record type of this name, or `None` after a report.
    fn record_type(&mut self, name: &Ident) -> Option<Arc<Record>> {
        let declarations = self.scope.declarations;
        self.failed |= declarations.excuses(&name.name);
        match declarations.types.of_word(&name.name) {
            Some(Type::Record(record)) => return Some(record),
            Some(other) => {
                let message = match other {
                    Type::Enum(_) => format!("`{}` is an enumeration, not a record", name.name),
                    other => format!("`{}` is an alias of {other}, not a record", name.name),
                };
                let help = "declare a record: type NAME = record {…}; and write NAME{…} here";
                self.report(Code::TypeMismatch, name.span, message, help);
            }
            // Its declaration contains a mistake.
            None if declarations.types.get(&name.name).is_some() => self.failed = true,
            None => {
                self.failed = true;
                declarations.types.unknown(name, &declarations.hidden, self.scope.reports);
            }
        }
        None
    }

    /// `value.field`
    pub(super) fn field(&mut self, value: &Expr, field: &Ident, span: Span) -> Node {
        let node = self.expr(value);
        let ty = self.types.free();
        let site = self.fields.len();
        self.fields.push(FieldSite {
            field: field.clone(),
            record: node.ty,
            record_span: node.span,
            ty,
            span,
            open: true,
            reader: None,
        });
        // The site waits until the type is known, which is often already the case.
        self.settle_field(site);
        Node { kind: NodeKind::Field(site, Box::new(node)), ty, span }
    }

    /// Resolves the fields whose records have a known type. Returns whether there was one.
    pub(super) fn settle_fields(&mut self) -> bool {
        let mut settled = false;
        for site in 0..self.fields.len() {
            settled |= self.fields[site].open && self.settle_field(site);
        }
        settled
    }

    fn settle_field(&mut self, site: usize) -> bool {
        let FieldSite { record, record_span, ty, span, .. } = self.fields[site];
        if self.types.is_anything(record) {
            self.types.forgive(ty);
        } else {
            match self.types.exact(record) {
                Some(Type::Record(record)) => self.read_field(site, &record),
                Some(other) => {
                    let text = self.quote(record_span);
                    let message = format!("{text} has type {other}, which has no fields");
                    let field = self.fields[site].field.name.clone();
                    let help = match &other {
                        Type::Opt(of) if matches!(**of, Type::Record(_)) => {
                            format!("`value(…).{field}` reads the field of a value that is present")
                        }
                        Type::Set(of) | Type::List(of) if matches!(**of, Type::Record(_)) => {
                            "bind its elements with `element`, and read the field of each element".to_owned()
                        }
                        _ => "`.` reads a field of a record; write a value of a record type before it"
                            .to_owned(),
                    };
                    let mut report = Report::new(Code::TypeMismatch, span, message, help);
                    if let Some(origin) = self.types.origin(record).filter(|origin| *origin != record_span) {
                        report = report.label(origin, format!("{other} because of this"));
                    }
                    self.push(report);
                    self.types.forgive(ty);
                }
                None => return false,
            }
        }
        self.fields[site].open = false;
        true
    }

    fn read_field(&mut self, site: usize, record: &Arc<Record>) {
        let FieldSite { ref field, ty, span, .. } = self.fields[site];
        let field = field.clone();
        let Some((place, known)) = record.field(&field.name) else {
            self.unknown_field(&field, record);
            return self.types.forgive(ty);
        };
        let types = &self.scope.declarations.types;
        self.fields[site].reader = types.reader(record, place);
        let declared = types.field_type_span(record, &field.name);
        let wanted = self.types.known(known, declared.unwrap_or(span));
        let free = self.types.is_free(ty);
        if self.types.unify(ty, wanted).is_ok() {
            return;
        }
        // The type expected of the field was known before the field.
        let (found, wanted_name) = (self.types.show(wanted), self.types.show(ty));
        debug_assert!(!free, "a free type fits everything");
        let text = self.quote(span);
        let message = format!("{text} has type {found}, but {wanted_name} is expected here");
        let because = self.types.origin(ty);
        let node = Node { kind: NodeKind::Faulty, ty: wanted, span };
        self.mismatch(&node, message, &found, &wanted_name, because);
    }

    fn unknown_field(&mut self, field: &Ident, record: &Record) {
        let names = record.fields.iter().map(|(name, _)| name.as_str());
        let help = match self.scope.nearest(&field.name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the fields are {}", quoted(names)),
        };
        let message = format!("`{}` has no field `{}`", record.name, field.name);
        let mut report = Report::new(Code::UnknownField, field.span, message, help);
        if let Some(named) = self.scope.declarations.types.get(&record.name) {
            report = report.label(named.declaration.name.span, "declared here");
        }
        self.push(report);
    }

    /// Reports the fields whose record type is unknown, after the mistakes that may be the cause.
    pub(super) fn report_open_fields(&mut self) {
        for site in 0..self.fields.len() {
            let FieldSite { record_span, open, .. } = self.fields[site];
            if !open {
                continue;
            }
            if self.failed || self.excused {
                self.failed = true;
                return;
            }
            let text = self.quote(record_span);
            let field = &self.fields[site].field;
            let message =
                format!("the type of {text} is ambiguous, so field `{}` cannot be resolved", field.name);
            let help = format!("use {text} where its type is known: in a column, or as a function argument");
            self.report(Code::AmbiguousType, record_span, message, help);
        }
    }
}
