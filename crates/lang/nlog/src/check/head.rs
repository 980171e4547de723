//! Heads of rules.

use nlog_data::{Role, Type};

use super::aggregate;
use super::declarations::Column;
use super::resolve::{Node, NodeKind, Resolver};
use super::types::TypeVar;
use crate::diagnostic::{Code, Report};
use crate::program::Aggregate;
use crate::syntax::ast::{self, Call, Expr, ExprKind, Span};

/// A column of a head.
#[derive(Debug)]
pub(super) enum HeadTerm {
    Value(Node),
    Aggregate(Aggregate, Vec<Node>),
}

impl Resolver<'_, '_> {
    /// Resolves the head: the number of its table and a term for each column; `None` if there is no such table.
    pub(super) fn head(&mut self, rule: &ast::Rule) -> Option<(usize, Vec<HeadTerm>)> {
        let call = &rule.head;
        if let Some(sign) = rule.negated_head {
            let operand = Expr { kind: ExprKind::Call(call.clone()), span: call.span };
            self.negation(sign, &operand);
            return None;
        }
        let Some(table) = self.scope.declarations.table(&call.name.name) else {
            let declarations = self.scope.declarations;
            let hidden = declarations.own_functions.is_hidden(&call.name.name);
            if declarations.functions(&call.name.name).is_empty() && !hidden {
                self.unknown_table(&call.name);
            } else {
                let message = format!("`{}` is a function; a rule cannot derive rows for it", call.name.name);
                let help = "declare a table with another name for these rows";
                self.report(Code::HeadIsFunction, call.name.span, message, help);
            }
            self.taint_call(call);
            return None;
        };
        let declarations = self.scope.declarations;
        let declared = &declarations.tables[table];
        if declared.role == Role::Input {
            let name = &call.name.name;
            let (message, help) = match declared.object {
                Some(_) => (
                    format!("`{name}` is a kind of object; rules cannot make objects"),
                    "derive into another table",
                ),
                None => (
                    format!("`{name}` is an input table; only transactions change it"),
                    "derive into another table, or declare this one without `input`",
                ),
            };
            let report = Report::new(Code::HeadIsInput, call.name.span, message, help);
            self.push(report.label(declared.name.span, "declared here"));
            // The table is used, though not as an input table should be.
            self.scope.usage.read.insert(table);
            // Whether the terms fit a table that is not meant is irrelevant.
            self.taint_call(call);
            return Some((table, Vec::new()));
        }
        let Some(columns) = &declared.columns else {
            self.taint_call(call);
            return Some((table, Vec::new()));
        };
        let by_column = if let Some(rest) = call.rest {
            let message = "a head needs a term for every column";
            self.report(Code::Arity, rest, message, "write the other columns instead of `..`");
            None
        } else {
            self.by_column(call, columns, true)
        };
        let Some(by_column) = by_column else {
            self.taint_call(call);
            return Some((table, Vec::new()));
        };
        let mut terms = Vec::with_capacity(columns.len());
        for (column, argument) in columns.iter().zip(by_column) {
            // Without `..` every column has one.
            let Some(argument) = argument else { continue };
            terms.push(self.head_term(&argument.value, column, call, rule.is_fact));
        }
        Some((table, terms))
    }

    fn head_term(&mut self, value: &Expr, column: &Column<'_>, head: &Call, is_fact: bool) -> HeadTerm {
        let wanted = column.ty.as_ref().map(|ty| self.types.known(ty, column.type_span));
        self.excused |= wanted.is_none();
        let what = format!("column `{}` of `{}`", column.name.name, head.name.name);
        if let ExprKind::Wildcard = value.kind {
            let message = format!("`_` does not give {what} a value");
            self.report(
                Code::UnboundVariable,
                value.span,
                message,
                "write a value or a variable that the body binds",
            );
            return HeadTerm::Value(self.faulty(value.span));
        }
        if let ExprKind::Call(call) = &value.kind
            && let Some(found) = aggregate::by_name(&call.name.name)
        {
            let (nodes, ty) = self.aggregate(found, call, is_fact);
            if let Some(wanted) = wanted {
                let node = Node { kind: NodeKind::Faulty, ty, span: value.span };
                self.expect(&node, wanted, &what, Some(column.type_span));
            }
            return HeadTerm::Aggregate(found, nodes);
        }
        let node = self.expr(value);
        if let Some(wanted) = wanted {
            self.expect(&node, wanted, &what, Some(column.type_span));
        }
        HeadTerm::Value(node)
    }

    /// An aggregate's arguments and type.
    fn aggregate(&mut self, aggregate: Aggregate, call: &Call, is_fact: bool) -> (Vec<Node>, TypeVar) {
        let name = &call.name.name;
        let named = call.arguments.iter().find_map(|argument| argument.name.as_ref()).map(|name| name.span);
        let mut fault = None;
        if is_fact {
            let message = format!("`{name}` has nothing to aggregate: a fact has no body");
            fault = Some(Report::new(
                Code::Aggregate,
                call.span,
                message,
                "write the value itself, or give the rule a body",
            ));
        } else if let Some(span) = named.or(call.rest) {
            let message = format!("`{name}` is an aggregate, and aggregate arguments cannot be named");
            fault = Some(Report::new(
                Code::NamedArgument,
                span,
                message,
                "write the arguments in order, \
            without names",
            ));
        } else if let Some(wanted) = aggregate::wrong_count(aggregate, call.arguments.len()) {
            let message = format!("aggregate `{name}` takes {wanted}, but got {}", call.arguments.len());
            let help = format!("for example: {}", aggregate::example(aggregate));
            fault = Some(Report::new(Code::Arity, call.span, message, help));
        }
        if let Some(report) = fault {
            self.push(report);
            self.taint_call(call);
            return (Vec::new(), self.types.anything());
        }
        let nodes: Vec<Node> = call.arguments.iter().map(|argument| self.expr(&argument.value)).collect();
        let ty = self.aggregate_type(aggregate, &nodes, call.span);
        (nodes, ty)
    }

    fn aggregate_type(&mut self, aggregate: Aggregate, nodes: &[Node], span: Span) -> TypeVar {
        let int = self.types.known(&Type::Int, span);
        match (aggregate, nodes) {
            (Aggregate::Sum, [first, ..]) => {
                self.expect(first, int, "the operand of `sum`", None);
                int
            }
            (Aggregate::Min | Aggregate::Max, [first, ..]) => first.ty,
            (Aggregate::Set, [first, ..]) => self.types.set_of(first.ty, span),
            (Aggregate::List, [first, ..]) => self.types.list_of(first.ty, span),
            (Aggregate::ArgMin | Aggregate::ArgMax, [_, second]) => second.ty,
            _ => int,
        }
    }
}
