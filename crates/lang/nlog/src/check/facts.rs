//! The short way for facts of plain literals: a program may have a hundred thousand of them, and what is said of one is
//! known without resolving anything.

use nlog_data::{Role, TableId, Type, Value};

use super::declarations::{Column, Declarations};
use super::pipeline::docs;
use super::types::is_textual;
use crate::program::{Expr, HeadTerm, Rule};
use crate::source::Sources;
use crate::syntax::ast::{self, Argument, ExprKind};

/// The meaning of a fact whose values are all literals of its columns' types. `None` for any other rule, in particular
/// for one with a mistake.
pub(super) fn plain(rule: &ast::Rule, declarations: &Declarations<'_>, sources: &Sources) -> Option<Rule> {
    let head = &rule.head;
    if !rule.is_fact || rule.default.is_some() || rule.negated_head.is_some() || head.rest.is_some() {
        return None;
    }
    let table = declarations.table(&head.name.name)?;
    let declared = &declarations.tables[table];
    let columns = declared.columns.as_ref().filter(|columns| columns.len() == head.arguments.len())?;
    if declared.role == Role::Input {
        return None;
    }
    let term = |(column, argument): (&Column<'_>, &Argument)| {
        let value = literal(argument, column.ty.as_ref()?)?;
        Some(HeadTerm::Value(Expr::Constant(value)))
    };
    let terms = columns.iter().zip(&head.arguments).map(term).collect::<Option<_>>()?;
    Some(Rule {
        head: TableId(table as u32),
        terms,
        variables: Vec::new(),
        body: Vec::new(),
        fingerprint: rule.fingerprint,
        place: sources.place(rule.span),
        text: sources.text(rule.span).into(),
        docs: docs(&rule.doc),
    })
}

fn literal(argument: &Argument, ty: &Type) -> Option<Value> {
    if argument.name.is_some() {
        return None;
    }
    match (&argument.value.kind, ty) {
        (ExprKind::Int(number), Type::Int) => Some(Value::Int(*number)),
        (ExprKind::Bool(value), Type::Bool) => Some(Value::Bool(*value)),
        (ExprKind::String(text), ty) if is_textual(ty) => ty.parse_text(text).ok(),
        _ => None,
    }
}
