//! Resolves the names and types of a rule.
//!
//! One pass over a rule creates [`Node`]s, in which names are variables, constants, tables and functions, and unifies
//! types at the same time. A faulty part is reported once and is then compatible with every type.

use std::collections::HashMap;
use std::sync::Arc;

use nlog_data::{Function, Role, Type, Value};

use super::calls::{Candidate, Site};
use super::declarations::{Column, Columns, Declarations, Usage, duplicate_column, quoted, unknown_column};
use super::messages::counted;
use super::openflow::{Choice, Literal};
use super::records::FieldSite;
use super::suggest;
use super::types::{TypeVar, Types};
use crate::diagnostic::{Code, Report, Reports, Severity};
use crate::source::Sources;
use crate::syntax::ast::{self, Argument, Call, Expr, ExprKind, Ident, ItemKind, Span};

/// An expression.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) kind: NodeKind,
    pub(super) ty: TypeVar,
    pub(super) span: Span,
}

#[derive(Debug)]
pub(super) enum NodeKind {
    Variable(usize),
    Constant(Value),
    /// A string literal, which is read according to its type.
    Text(String),
    /// The number of a [`Site`] and the arguments.
    Call(usize, Vec<Node>),
    /// A function that needs no overload resolution, and the arguments.
    Apply(Arc<Function>, Vec<Node>),
    /// The number of a [`FieldSite`] and the record.
    Field(usize, Box<Node>),
    If(Box<Node>, Box<Node>, Box<Node>),
    List(Vec<Node>),
    Set(Vec<Node>),
    /// The number of a [`Literal`] and its values.
    Literal(usize, Vec<Node>),
    /// A mistake that is reported.
    Faulty,
}

/// A term of an atom.
#[derive(Debug)]
pub(super) enum Term {
    /// `_`, or skipped by `..`.
    Any,
    Variable(usize, Span),
    Node(Node),
}

/// An item of a body.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: ItemIr,
    pub(super) span: Span,
    pub(super) fingerprint: u64,
}

#[derive(Debug)]
pub(super) enum ItemIr {
    /// The number of a table and a term for each column.
    Table(usize, Vec<Term>),
    /// The number of a [`Site`], and its arguments and results.
    Function(usize, Vec<Term>),
    /// `variable = node`, where the variable may have a value already.
    Binding(usize, Node),
    Condition(Node),
}

/// A variable of the rule.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) ty: TypeVar,
    /// Its first occurrence.
    pub(super) first: Span,
    /// The number of its occurrences in the rule.
    pub(super) count: usize,
    /// Whether an atom of a table binds it; faulty atoms count.
    pub(super) in_atom: bool,
    /// Whether it is on the left of a `=`.
    pub(super) defined: bool,
    /// Whether it occurs in a part with a mistake.
    pub(super) in_fault: bool,
}

/// The context in which a rule is resolved.
pub(super) struct Scope<'a> {
    pub(super) sources: &'a Sources,
    pub(super) declarations: &'a Declarations<'a>,
    pub(super) reports: &'a mut Reports,
    pub(super) usage: &'a mut Usage,
}

impl<'a> Scope<'a> {
    pub(super) fn new(
        sources: &'a Sources,
        declarations: &'a Declarations<'a>,
        reports: &'a mut Reports,
        usage: &'a mut Usage,
    ) -> Self {
        Scope { sources, declarations, reports, usage }
    }

    /// The name nearest to a mistaken one.
    pub(super) fn nearest<'n>(
        &mut self,
        name: &str,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Option<&'n str> {
        if self.reports.may_suggest() { suggest::nearest(name, names) } else { None }
    }
}

/// A rule on its way.
pub(super) struct Resolver<'a, 's> {
    pub(super) scope: &'s mut Scope<'a>,
    pub(super) types: Types,
    pub(super) variables: Vec<Variable>,
    pub(super) by_name: HashMap<String, usize>,
    pub(super) sites: Vec<Site>,
    /// Literals of matches and actions.
    pub(super) literals: Vec<Literal>,
    /// Values in literals with undecided types.
    pub(super) choices: Vec<Choice>,
    pub(super) fields: Vec<FieldSite>,
    /// Whether an error was reported: then the rule is dropped, and no further mistakes of binding are reported.
    pub(super) failed: bool,
    /// Whether a type may be unknown because of a reported mistake.
    pub(super) excused: bool,
    /// Whether an atom has too few terms: then a missing term may be the reason for an unbound variable.
    pub(super) lacks_term: bool,
    /// Calls that the known types leave ambiguous.
    pub(super) ambiguous: Vec<usize>,
    /// The subject of messages: `` the rule for `x` ``.
    pub(super) subject: String,
    /// Whether variables are allowed. The definition of a constant has none, and that of a function has only its
    /// parameters.
    pub(super) variables_allowed: bool,
    /// Whether a function is defined.
    pub(super) in_function: bool,
    /// Whether this is a row of a test, which has no variables either.
    pub(super) in_test: bool,
}

impl<'a, 's> Resolver<'a, 's> {
    pub(super) fn of_rule(scope: &'s mut Scope<'a>, head: &str) -> Self {
        Resolver::new(scope, format!("the rule for `{head}`"))
    }

    pub(super) fn of_constant(scope: &'s mut Scope<'a>, name: &str) -> Self {
        Resolver { variables_allowed: false, ..Resolver::new(scope, format!("the constant `{name}`")) }
    }

    pub(super) fn of_function(scope: &'s mut Scope<'a>, name: &str) -> Self {
        let subject = format!("the function `{name}`");
        Resolver { variables_allowed: false, in_function: true, ..Resolver::new(scope, subject) }
    }

    pub(super) fn of_type(scope: &'s mut Scope<'a>, name: &str) -> Self {
        let subject = format!("the type `{name}`");
        Resolver { variables_allowed: false, in_function: true, ..Resolver::new(scope, subject) }
    }

    pub(super) fn of_test(scope: &'s mut Scope<'a>, name: &str) -> Self {
        let resolver = Resolver::new(scope, format!("the test {name:?}"));
        Resolver { variables_allowed: false, in_test: true, ..resolver }
    }

    fn new(scope: &'s mut Scope<'a>, subject: String) -> Self {
        Resolver {
            subject,
            scope,
            types: Types::default(),
            variables: Vec::new(),
            by_name: HashMap::new(),
            sites: Vec::new(),
            literals: Vec::new(),
            choices: Vec::new(),
            fields: Vec::new(),
            failed: false,
            excused: false,
            lacks_term: false,
            ambiguous: Vec::new(),
            variables_allowed: true,
            in_function: false,
            in_test: false,
        }
    }

    pub(super) fn report(
        &mut self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(Report::new(code, span, message, help));
    }

    pub(super) fn push(&mut self, report: Report) {
        self.failed |= report.severity() == Severity::Error;
        self.scope.reports.push(report);
    }

    // Bodies.

    /// Resolves a body: first the tables, whose types are certain, so that mismatches are reported at the other
    /// items.
    pub(super) fn body(&mut self, items: &[ast::Item]) -> Vec<Item> {
        let mut resolved: Vec<Option<Item>> = items.iter().map(|_| None).collect();
        for tables in [true, false] {
            for (item, slot) in items.iter().zip(&mut resolved) {
                let is_table = match &item.kind {
                    ItemKind::Atom(call) => self.scope.declarations.table(&call.name.name).is_some(),
                    _ => false,
                };
                if is_table == tables {
                    *slot = self.item(item);
                }
            }
        }
        resolved.into_iter().flatten().collect()
    }

    fn item(&mut self, item: &ast::Item) -> Option<Item> {
        let kind = match &item.kind {
            ItemKind::Atom(call) => self.atom(call)?,
            ItemKind::Binding(left, right) => self.binding(left, right, item.span),
            ItemKind::Condition(Expr { kind: ExprKind::Negation(sign, operand), .. }) => {
                self.negation(*sign, operand);
                return None;
            }
            ItemKind::Condition(condition) => {
                let node = self.expr(condition);
                let bool = self.types.known(&Type::Bool, item.span);
                self.expect(&node, bool, "a condition", None);
                ItemIr::Condition(node)
            }
        };
        Some(Item { kind, span: item.span, fingerprint: item.fingerprint })
    }

    fn binding(&mut self, left: &Expr, right: &Expr, span: Span) -> ItemIr {
        let target = match &left.kind {
            ExprKind::Name(name) if !self.is_constant(name) => Some(self.variable(name, left.span)),
            _ => None,
        };
        if let Some(target) = target {
            self.variables[target].defined = true;
            let node = self.expr(right);
            let ty = self.variables[target].ty;
            self.expect(&node, ty, &format!("`{}`", self.variables[target].name), Some(left.span));
            return ItemIr::Binding(target, node);
        }
        let operator = Ident { name: "==".to_owned(), span };
        ItemIr::Condition(self.operator(&operator, &[left, right], span))
    }

    fn atom(&mut self, call: &Call) -> Option<ItemIr> {
        let name = call.name.name.as_str();
        if let Some(table) = self.scope.declarations.table(name) {
            self.scope.usage.read.insert(table);
            return self.table_atom(table, call);
        }
        if self.scope.declarations.own_functions.is_hidden(name) {
            self.failed = true;
            self.taint_call(call);
            return None;
        }
        let functions = self.scope.declarations.functions(name);
        if functions.is_empty() {
            self.unknown_table(&call.name);
            self.taint_call(call);
            return None;
        }
        if !self.positional(call) {
            self.taint_call(call);
            return None;
        }
        let terms: Vec<Term> =
            call.arguments.iter().map(|argument| self.term(&argument.value, false)).collect();
        let candidates = Candidate::of_atom(functions, terms.len());
        if candidates.is_empty() {
            self.wrong_count(call, true);
            self.taint_call(call);
            return None;
        }
        let types = terms.iter().map(|term| self.term_type(term)).collect();
        let spans = call.arguments.iter().map(|argument| argument.value.span).collect();
        let site = self.site(&call.name, candidates, types, spans, call.span);
        Some(ItemIr::Function(site, terms))
    }

    fn table_atom(&mut self, table: usize, call: &Call) -> Option<ItemIr> {
        let declarations = self.scope.declarations;
        let declared = &declarations.tables[table];
        if declared.role == Role::Forbid {
            let name = &declared.name.name;
            let message = format!("`{name}` forbids its rows, so this atom never finds one");
            let help =
                format!("derive the rows into another table, and let `{name}` and this rule read that");
            let report = Report::new(Code::ReadsForbid, call.name.span, message, help);
            self.push(report.label(declared.name.span, "declared here"));
            self.taint_call(call);
            return None;
        }
        let Some(columns) = &declared.columns else {
            self.taint_call(call);
            return None;
        };
        let Some(by_column) = self.by_column(call, columns, false) else {
            self.taint_call(call);
            return None;
        };
        let mut terms = Vec::with_capacity(columns.len());
        for (column, argument) in columns.iter().zip(by_column) {
            let Some(argument) = argument else {
                terms.push(Term::Any);
                continue;
            };
            let term = self.term(&argument.value, true);
            self.expect_column(&term, column, &declared.name.name);
            terms.push(term);
        }
        Some(ItemIr::Table(table, terms))
    }

    pub(super) fn expect_column(&mut self, term: &Term, column: &Column<'_>, table: &str) {
        let Some(ty) = &column.ty else {
            self.excused = true;
            return;
        };
        let wanted = self.types.known(ty, column.type_span);
        let what = format!("column `{}` of `{table}`", column.name.name);
        match term {
            Term::Any => {}
            Term::Variable(variable, span) => {
                let ty = self.variables[*variable].ty;
                let node = Node { kind: NodeKind::Variable(*variable), ty, span: *span };
                self.expect(&node, wanted, &what, Some(column.type_span));
            }
            Term::Node(node) => {
                self.expect(node, wanted, &what, Some(column.type_span));
            }
        }
    }

    fn term(&mut self, value: &Expr, in_table: bool) -> Term {
        match &value.kind {
            ExprKind::Wildcard => Term::Any,
            ExprKind::Name(name) if !self.is_constant(name) => {
                let variable = self.variable(name, value.span);
                self.variables[variable].in_atom |= in_table;
                Term::Variable(variable, value.span)
            }
            _ => Term::Node(self.expr(value)),
        }
    }

    pub(super) fn term_type(&mut self, term: &Term) -> TypeVar {
        match term {
            Term::Any => self.types.free(),
            Term::Variable(variable, _) => self.variables[*variable].ty,
            Term::Node(node) => node.ty,
        }
    }

    /// The argument for each column, or `None` after a report.
    pub(super) fn by_column<'c>(
        &mut self,
        call: &'c Call,
        columns: &Columns<'_>,
        is_head: bool,
    ) -> Option<Vec<Option<&'c Argument>>> {
        let table = &call.name.name;
        let named = call.arguments.iter().filter(|argument| argument.name.is_some()).count();
        if named == 0 {
            let (given, wanted) = (call.arguments.len(), columns.len());
            if given > wanted || (given < wanted && call.rest.is_none()) {
                let message = format!("table `{table}` has {}, but got {given}", counted(wanted, "column"));
                let names = quoted(columns.iter().map(|column| column.name.name.as_str()));
                self.lacks_term |= given < wanted;
                let skip = if given < wanted && !is_head {
                    "; write `_` for a column that does not matter"
                } else {
                    ""
                };
                let help = format!("the columns are {names}{skip}");
                let declared = self.scope.declarations.table(table);
                let report = Report::new(Code::Arity, call.span, message, help);
                self.push(match declared {
                    Some(index) => {
                        report.label(self.scope.declarations.tables[index].name.span, "declared here")
                    }
                    None => report,
                });
                return None;
            }
            let arguments = call.arguments.iter().map(Some);
            return Some(arguments.chain(std::iter::repeat(None)).take(wanted).collect());
        }
        if named < call.arguments.len() {
            let message = "named and positional terms cannot be mixed";
            self.report(
                Code::NamedArgument,
                call.span,
                message,
                "name all terms of the atom, or none of them",
            );
            return None;
        }
        self.by_column_name(call, columns, is_head)
    }

    fn by_column_name<'c>(
        &mut self,
        call: &'c Call,
        columns: &Columns<'_>,
        is_head: bool,
    ) -> Option<Vec<Option<&'c Argument>>> {
        let table = &call.name.name;
        let mut by_column: Vec<Option<&'c Argument>> = vec![None; columns.len()];
        let mut faulty = false;
        for argument in &call.arguments {
            let Some(name) = &argument.name else { continue };
            match columns.find(&name.name) {
                None => {
                    let report = unknown_column(name, table, columns);
                    self.failed = true;
                    self.scope.reports.push_unknown(&format!("{table}.{}", name.name), report);
                    faulty = true;
                }
                Some(index) => match by_column[index].and_then(|earlier| earlier.name.as_ref()) {
                    Some(earlier) => {
                        self.push(duplicate_column(name, earlier.span, "write one term per column"));
                        faulty = true;
                    }
                    None => by_column[index] = Some(argument),
                },
            }
        }
        let missing = columns.iter().zip(&by_column).filter(|(_, argument)| argument.is_none());
        let missing: Vec<&str> = missing.map(|(column, _)| column.name.name.as_str()).collect();
        if !faulty && !missing.is_empty() && call.rest.is_none() {
            let message = format!("{} of `{table}` has no term", quoted(missing));
            let declarations = self.scope.declarations;
            let declared = declarations.table(table).map(|number| &declarations.tables[number]);
            let help = if is_head && declared.is_some_and(|table| table.object.is_some()) {
                "write a value for every field, or end with `..` for the fields with defaults"
            } else if is_head {
                "write a value for every column"
            } else {
                "name the column, or end with `..` to skip the remaining columns"
            };
            self.report(Code::Arity, call.span, message, help);
            self.lacks_term = true;
            faulty = true;
        }
        (!faulty).then_some(by_column)
    }

    // Names.

    /// Whether a name is no variable's.
    pub(super) fn is_constant(&self, name: &str) -> bool {
        if self.variables_allowed {
            self.scope.declarations.constants.contains_key(name)
        } else {
            !self.by_name.contains_key(name)
        }
    }

    /// Makes a variable for a function's parameter.
    pub(super) fn parameter(&mut self, name: &Ident, ty: &Type, type_span: Span) {
        let index = self.variable(&name.name, name.span);
        self.variables[index].ty = self.types.known(ty, type_span);
    }

    pub(super) fn variable(&mut self, name: &str, span: Span) -> usize {
        let index = self.by_name.get(name).copied().unwrap_or_else(|| {
            let ty = self.types.free();
            self.variables.push(Variable {
                name: name.to_owned(),
                ty,
                first: span,
                count: 0,
                in_atom: false,
                defined: false,
                in_fault: false,
            });
            self.by_name.insert(name.to_owned(), self.variables.len() - 1);
            self.variables.len() - 1
        });
        let variable = &mut self.variables[index];
        variable.first = variable.first.min(span);
        variable.count += 1;
        index
    }

    /// The variables of a faulty atom count as bound.
    pub(super) fn taint_call(&mut self, call: &Call) {
        self.excused = true;
        for argument in &call.arguments {
            self.taint(&argument.value);
        }
    }

    pub(super) fn taint(&mut self, expr: &Expr) {
        self.excused = true;
        match &expr.kind {
            ExprKind::Name(name) if !self.is_constant(name) => {
                let index = self.variable(name, expr.span);
                let variable = &mut self.variables[index];
                variable.in_atom = true;
                variable.in_fault = true;
            }
            ExprKind::Call(call) => {
                self.scope.usage.read.extend(self.scope.declarations.table(&call.name.name));
            }
            _ => {}
        }
        for part in expr.parts() {
            self.taint(part);
        }
    }
}
