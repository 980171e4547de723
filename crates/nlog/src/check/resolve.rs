//! A rule's names and types: from what is written to what is meant.
//!
//! One pass over a rule makes [`Node`]s, in which names are variables, constants, tables and functions, and at the
//! same time unifies types. What is at fault is reported once and then fits everything.

use std::collections::HashMap;

use nlog_data::{Function, Type, Value, function};

use super::calls::{Candidate, Site, is_predicate};
use super::declarations::{Column, Columns, Constant, Declarations, Usage, duplicate_column, quoted, scalar, unknown_column};
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
    /// A string literal, whose type says what it is read as.
    Text(String),
    /// The number of a [`Site`] and the arguments.
    Call(usize, Vec<Node>),
    If(Box<Node>, Box<Node>, Box<Node>),
    List(Vec<Node>),
    Set(Vec<Node>),
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
    /// Where it stands first.
    pub(super) first: Span,
    /// How often it stands in the rule.
    pub(super) count: usize,
    /// Whether an atom of a table gives it its values; so do faulty atoms.
    pub(super) in_atom: bool,
    /// Whether it stands on the left of a `=`.
    pub(super) defined: bool,
    /// Whether it stands in a part that is at fault.
    pub(super) in_fault: bool,
}

/// What a rule is resolved in.
pub(super) struct Scope<'a> {
    pub(super) sources: &'a Sources,
    pub(super) declarations: &'a Declarations<'a>,
    pub(super) reports: &'a mut Reports,
    pub(super) usage: &'a mut Usage,
    /// How many more names may be suggested: looking for them is slow.
    suggestions: usize,
}

impl<'a> Scope<'a> {
    pub(super) fn new(
        sources: &'a Sources,
        declarations: &'a Declarations<'a>,
        reports: &'a mut Reports,
        usage: &'a mut Usage,
    ) -> Self {
        Scope { sources, declarations, reports, usage, suggestions: 100 }
    }

    /// The name nearest to a mistaken one.
    pub(super) fn nearest<'n>(&mut self, name: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
        self.suggestions = self.suggestions.checked_sub(1)?;
        suggest::nearest(name, names)
    }
}

/// A rule on its way.
pub(super) struct Resolver<'a, 's> {
    pub(super) scope: &'s mut Scope<'a>,
    pub(super) types: Types,
    pub(super) variables: Vec<Variable>,
    pub(super) by_name: HashMap<String, usize>,
    pub(super) sites: Vec<Site>,
    /// Whether an error is reported: then the rule yields nothing and no further complaint about binding.
    pub(super) failed: bool,
    /// Whether a type may be unknown because of a mistake that is reported.
    pub(super) excused: bool,
    /// What is being resolved, for messages: `` the rule for `x` ``.
    subject: String,
    /// In the definition of a constant there are none.
    variables_allowed: bool,
}

impl<'a, 's> Resolver<'a, 's> {
    pub(super) fn of_rule(scope: &'s mut Scope<'a>, head: &str) -> Self {
        Resolver::new(scope, format!("the rule for `{head}`"))
    }

    pub(super) fn of_constant(scope: &'s mut Scope<'a>, name: &str) -> Self {
        Resolver { variables_allowed: false, ..Resolver::new(scope, format!("the constant `{name}`")) }
    }

    fn new(scope: &'s mut Scope<'a>, subject: String) -> Self {
        Resolver {
            subject,
            scope,
            types: Types::default(),
            variables: Vec::new(),
            by_name: HashMap::new(),
            sites: Vec::new(),
            failed: false,
            excused: false,
            variables_allowed: true,
        }
    }

    pub(super) fn report(&mut self, code: Code, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.push(Report::new(code, span, message, help));
    }

    pub(super) fn push(&mut self, report: Report) {
        self.failed |= report.severity() == Severity::Error;
        self.scope.reports.push(report);
    }

    // Bodies.

    /// Resolves a body: tables first, whose types are certain, so that mismatches are reported at what is not.
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
        if function::lookup(name).is_empty() {
            self.unknown_table(&call.name);
            self.taint_call(call);
            return None;
        }
        if !self.positional(call) {
            self.taint_call(call);
            return None;
        }
        let terms: Vec<Term> = call.arguments.iter().map(|argument| self.term(&argument.value, false)).collect();
        let candidates = Candidate::of_atom(function::lookup(name), terms.len());
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
            self.expect_column(&term, &argument.value, column, &declared.name.name);
            terms.push(term);
        }
        Some(ItemIr::Table(table, terms))
    }

    fn expect_column(&mut self, term: &Term, value: &Expr, column: &Column<'_>, table: &str) {
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
                debug_assert_eq!(node.span, value.span);
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
                let message = format!("table `{table}` has {}, not {given}", counted(wanted, "column"));
                let names = quoted(columns.iter().map(|column| column.name.name.as_str()));
                let help = match given < wanted && !is_head {
                    true => format!("its columns are {names}; write `_` for one that does not matter"),
                    false => format!("its columns are {names}"),
                };
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
            let message = "named and positional terms are mixed";
            self.report(Code::NamedArgument, call.span, message, "name all terms of the atom, or none");
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
                    self.push(unknown_column(name, table, columns));
                    faulty = true;
                }
                Some(index) => match by_column[index].and_then(|earlier| earlier.name.as_ref()) {
                    Some(earlier) => {
                        self.push(duplicate_column(name, earlier.span, "give each column one term"));
                        faulty = true;
                    }
                    None => by_column[index] = Some(argument),
                },
            }
        }
        let missing = columns.iter().zip(&by_column).filter(|(_, argument)| argument.is_none());
        let missing: Vec<&str> = missing.map(|(column, _)| column.name.name.as_str()).collect();
        if !faulty && !missing.is_empty() && call.rest.is_none() {
            let message = format!("the term for {} of `{table}` is missing", quoted(missing));
            let help = match is_head {
                true => "give every column a value",
                false => "name the column, or end with `..` to skip the others",
            };
            self.report(Code::Arity, call.span, message, help);
            faulty = true;
        }
        (!faulty).then_some(by_column)
    }

    // Expressions.

    pub(super) fn expr(&mut self, expr: &Expr) -> Node {
        let span = expr.span;
        let (kind, ty) = match &expr.kind {
            ExprKind::Name(name) => return self.name(name, span),
            ExprKind::Wildcard => {
                let help = "give the value a name and use that in both places";
                self.report(Code::UnboundVariable, span, "`_` has no value here", help);
                return self.faulty(span);
            }
            ExprKind::Int(value) => (NodeKind::Constant(Value::Int(*value)), self.types.known(&Type::Int, span)),
            ExprKind::Bool(value) => (NodeKind::Constant(Value::Bool(*value)), self.types.known(&Type::Bool, span)),
            ExprKind::String(text) => (NodeKind::Text(text.clone()), self.types.text(span)),
            ExprKind::Prefixed(prefix, text) => return self.prefixed(prefix, text, span),
            ExprKind::Malformed => {
                // Reported when the tree was read.
                self.failed = true;
                return self.faulty(span);
            }
            ExprKind::Call(call) => return self.call(call),
            ExprKind::Negative(operand) => {
                let operator = Ident { name: "-".to_owned(), span };
                return self.operator(&operator, &[operand], span);
            }
            ExprKind::Negation(sign, operand) => {
                self.negation(*sign, operand);
                return self.faulty(span);
            }
            ExprKind::Binary(operator, left, right) => return self.operator(operator, &[left, right], span),
            ExprKind::If(condition, then, otherwise) => {
                let condition = self.expr(condition);
                let bool = self.types.known(&Type::Bool, condition.span);
                self.expect(&condition, bool, "the condition after `if`", None);
                let then = self.expr(then);
                let otherwise = self.expr(otherwise);
                let agree = self.expect(&otherwise, then.ty, "the value after `then`", Some(then.span));
                let ty = if agree { then.ty } else { self.types.anything() };
                (NodeKind::If(Box::new(condition), Box::new(then), Box::new(otherwise)), ty)
            }
            ExprKind::List(values) => {
                let (nodes, of) = self.elements(values);
                (NodeKind::List(nodes), self.types.list_of(of, span))
            }
            ExprKind::Set(values) => {
                let (nodes, of) = self.elements(values);
                (NodeKind::Set(nodes), self.types.set_of(of, span))
            }
        };
        Node { kind, ty, span }
    }

    fn elements(&mut self, values: &[Expr]) -> (Vec<Node>, TypeVar) {
        let of = self.types.free();
        let mut nodes: Vec<Node> = Vec::with_capacity(values.len());
        for value in values {
            let node = self.expr(value);
            self.expect(&node, of, "the first element", nodes.first().map(|first| first.span));
            nodes.push(node);
        }
        (nodes, of)
    }

    fn name(&mut self, name: &str, span: Span) -> Node {
        if let Some(constant) = self.scope.declarations.constants.get(name) {
            let (kind, ty) = match constant.clone() {
                Constant::Value(value, ty) => (NodeKind::Constant(value), self.types.known(&ty, span)),
                Constant::Text(text) => (NodeKind::Text(text), self.types.text(span)),
                Constant::Faulty => {
                    self.failed = true;
                    (NodeKind::Faulty, self.types.anything())
                }
            };
            return Node { kind, ty, span };
        }
        if !self.variables_allowed {
            let names = self.scope.declarations.constants.keys().copied();
            let help = match self.scope.nearest(name, names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("define it: const {name} = …;"),
            };
            self.report(Code::UnknownConstant, span, format!("unknown constant `{name}`"), help);
            return self.faulty(span);
        }
        let variable = self.variable(name, span);
        Node { kind: NodeKind::Variable(variable), ty: self.variables[variable].ty, span }
    }

    fn prefixed(&mut self, prefix: &str, text: &str, span: Span) -> Node {
        let ty = scalar(prefix).filter(|ty| !matches!(ty, Type::Bool | Type::Int));
        let Some(ty) = ty else {
            let help = "literals with a type are ip\"…\", net\"…\", mac\"…\", match\"…\" and actions\"…\"";
            self.report(Code::UnknownType, span, format!("`{prefix}` is no type of literal"), help);
            return self.faulty(span);
        };
        match ty.parse_text(text) {
            Ok(value) => Node { kind: NodeKind::Constant(value), ty: self.types.known(&ty, span), span },
            Err(error) => {
                self.report(Code::BadLiteral, span, error.to_string(), literal_help(&ty));
                Node { kind: NodeKind::Faulty, ty: self.types.known(&ty, span), span }
            }
        }
    }

    pub(super) fn faulty(&mut self, span: Span) -> Node {
        Node { kind: NodeKind::Faulty, ty: self.types.anything(), span }
    }

    fn operator(&mut self, operator: &Ident, operands: &[&Expr], span: Span) -> Node {
        let nodes: Vec<Node> = operands.iter().map(|operand| self.expr(operand)).collect();
        let candidates = Candidate::of_expression(function::lookup(&operator.name), nodes.len());
        self.call_node(operator, candidates, nodes, span)
    }

    fn call(&mut self, call: &Call) -> Node {
        let name = call.name.name.as_str();
        let functions = function::lookup(name);
        if functions.is_empty() {
            self.unknown_function(&call.name);
            self.taint_call(call);
            return self.faulty(call.span);
        }
        if !self.positional(call) {
            self.taint_call(call);
            return self.faulty(call.span);
        }
        let candidates = Candidate::of_expression(functions, call.arguments.len());
        if candidates.is_empty() {
            self.no_expression(call, functions);
            self.taint_call(call);
            return self.faulty(call.span);
        }
        let nodes = call.arguments.iter().map(|argument| self.expr(&argument.value)).collect();
        self.call_node(&call.name, candidates, nodes, call.span)
    }

    fn call_node(&mut self, name: &Ident, candidates: Vec<Candidate>, nodes: Vec<Node>, span: Span) -> Node {
        let ty = self.types.free();
        let types = nodes.iter().map(|node| node.ty).chain([ty]).collect();
        let spans = nodes.iter().map(|node| node.span).chain([span]).collect();
        let site = self.site(name, candidates, types, spans, span);
        Node { kind: NodeKind::Call(site, nodes), ty, span }
    }

    // Names.

    pub(super) fn is_constant(&self, name: &str) -> bool {
        !self.variables_allowed || self.scope.declarations.constants.contains_key(name)
    }

    fn variable(&mut self, name: &str, span: Span) -> usize {
        let index = match self.by_name.get(name) {
            Some(&index) => index,
            None => {
                let index = self.variables.len();
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
                self.by_name.insert(name.to_owned(), index);
                index
            }
        };
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

    fn taint(&mut self, expr: &Expr) {
        self.excused = true;
        match &expr.kind {
            ExprKind::Name(name) if !self.is_constant(name) => {
                let index = self.variable(name, expr.span);
                let variable = &mut self.variables[index];
                variable.in_atom = true;
                variable.in_fault = true;
            }
            ExprKind::Call(call) => {
                if let Some(table) = self.scope.declarations.table(&call.name.name) {
                    self.scope.usage.read.insert(table);
                }
                self.taint_call(call);
            }
            ExprKind::Negative(operand) | ExprKind::Negation(_, operand) => self.taint(operand),
            ExprKind::Binary(_, left, right) => [left, right].into_iter().for_each(|side| self.taint(side)),
            ExprKind::If(a, b, c) => [a, b, c].into_iter().for_each(|part| self.taint(part)),
            ExprKind::List(values) | ExprKind::Set(values) => values.iter().for_each(|value| self.taint(value)),
            _ => {}
        }
    }

    // Reports.

    pub(super) fn unknown_table(&mut self, name: &Ident) {
        let declarations = self.scope.declarations;
        let tables = declarations.tables.iter().map(|table| table.name.name.as_str());
        let functions = function::functions().iter().map(|function| &*function.name);
        let help = match self.scope.nearest(&name.name, tables.chain(functions)) {
            Some(near) => {
                // The table is used, if only by a wrong name.
                self.scope.usage.read.extend(declarations.table(near));
                format!("did you mean `{near}`?")
            }
            None => format!("declare it: table {}(…);", name.name),
        };
        self.report(Code::UnknownTable, name.span, format!("unknown table `{}`", name.name), help);
    }

    fn unknown_function(&mut self, name: &Ident) {
        let declarations = self.scope.declarations;
        if let Some(table) = declarations.table(&name.name) {
            self.scope.usage.read.insert(table);
            let message = format!("`{}` is a table, not a function", name.name);
            let help = "put it into the body as an atom of its own, and use its variables here";
            return self.report(Code::UnknownFunction, name.span, message, help);
        }
        if super::aggregate::by_name(&name.name).is_some() {
            let message = format!("the aggregate `{}` stands outside of a head's column", name.name);
            let help = "aggregate in the head of a rule of its own, and use that rule's table here";
            return self.report(Code::Aggregate, name.span, message, help);
        }
        let functions = function::functions().iter().map(|function| &*function.name);
        let help = match self.scope.nearest(&name.name, functions) {
            Some(near) => format!("did you mean `{near}`?"),
            None => match alike(&name.name).as_slice() {
                [] => "functions are built in, and none has a similar name; the language's reference lists them".into(),
                names => format!("functions that begin alike: {}", quoted(names.iter().copied())),
            },
        };
        self.report(Code::UnknownFunction, name.span, format!("unknown function `{}`", name.name), help);
    }

    /// Whether the call has only positional arguments; reports others.
    fn positional(&mut self, call: &Call) -> bool {
        let named = call.arguments.iter().find_map(|argument| argument.name.as_ref()).map(|name| name.span);
        let Some(span) = named.or(call.rest) else { return true };
        let message = format!("`{}` is a function, and its arguments have no names", call.name.name);
        self.report(Code::NamedArgument, span, message, signatures(function::lookup(&call.name.name)));
        false
    }

    pub(super) fn wrong_count(&mut self, call: &Call, as_atom: bool) {
        let name = &call.name.name;
        let functions = function::lookup(name);
        let given = call.arguments.len();
        let mut counts: Vec<usize> = functions
            .iter()
            .map(|function| function.parameters.len() + if as_atom { function.results.len() } else { 0 })
            .collect();
        if as_atom {
            let predicates = functions.iter().filter(|function| is_predicate(function));
            counts.extend(predicates.map(|function| function.parameters.len()));
        }
        counts.sort_unstable();
        counts.dedup();
        let what = if as_atom { "term" } else { "argument" };
        let wanted = match counts.as_slice() {
            [one] => counted(*one, what),
            several => {
                let several: Vec<String> = several.iter().map(ToString::to_string).collect();
                format!("{} {what}s", several.join(" or "))
            }
        };
        let with_result = if as_atom { " (arguments and result)" } else { "" };
        let message = format!("`{name}` takes {wanted}{with_result}, not {given}");
        self.report(Code::Arity, call.span, message, signatures(functions));
    }

    /// Says why none of the functions is an expression of so many arguments.
    fn no_expression(&mut self, call: &Call, functions: &'static [Function]) {
        let several = functions.iter().any(|function| {
            function.results.len() != 1 && function.parameters.len() == call.arguments.len()
        });
        if several {
            let message = format!("`{}` has more than one result column", call.name.name);
            let help = format!("use it as an atom of the body: {}", signatures(functions));
            return self.report(Code::SeveralResults, call.span, message, help);
        }
        self.wrong_count(call, false);
    }

    pub(super) fn negation(&mut self, sign: Span, operand: &Expr) {
        self.taint(operand);
        let help = match &operand.kind {
            ExprKind::Call(call) if self.scope.declarations.table(&call.name.name).is_none() => {
                format!("compare the result: `{}(…) == false`", call.name.name)
            }
            ExprKind::Call(_) => "say what is there, not what is absent: where one of several rows counts, let \
                                  `arg_min` or `arg_max` in a head choose it by rank"
                .to_owned(),
            _ => "write the opposite comparison, or compare with `false`".to_owned(),
        };
        let message = format!("{} negates, and nlog has no negation", self.subject);
        let span = Span { end: operand.span.end, ..sign };
        self.report(Code::Negation, span, message, help);
    }

    /// Requires a type of a value; `what` wants it, because of what stands at `because`. Whether it has that type;
    /// if not, that is reported.
    pub(super) fn expect(&mut self, node: &Node, wanted: TypeVar, what: &str, because: Option<Span>) -> bool {
        if self.types.unify(node.ty, wanted).is_ok() {
            return true;
        }
        let (found, wanted_name) = (self.types.show(node.ty), self.types.show(wanted));
        let text = self.quote(node.span);
        let message = format!("{text} is of type {found}, but {what} is of type {wanted_name}");
        self.mismatch(node, message, &found, &wanted_name, because);
        false
    }

    /// Reports a value of a wrong type, with the places that made the types known.
    pub(super) fn mismatch(
        &mut self,
        node: &Node,
        message: String,
        found: &str,
        wanted: &str,
        because: Option<Span>,
    ) {
        let mut report = Report::new(Code::TypeMismatch, node.span, message, conversion_help(found, wanted));
        if let Some(origin) = self.types.origin(node.ty).filter(|origin| *origin != node.span) {
            report = report.label(origin, format!("{found} because of this"));
        }
        if let Some(because) = because.filter(|because| *because != node.span) {
            report = report.label(because, format!("{wanted} because of this"));
        }
        self.push(report);
        if let NodeKind::Variable(variable) = node.kind {
            let ty = self.variables[variable].ty;
            self.types.forgive(ty);
        }
    }

    /// The source text in back quotes, if it is short.
    pub(super) fn quote(&self, span: Span) -> String {
        let text = self.scope.sources.text(span);
        let short = text.len() <= 40 && !text.contains(['\n', '`']);
        if short { format!("`{text}`") } else { "this".to_owned() }
    }
}

/// `1 column`, `2 columns`
pub(super) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Functions that share the beginning of a name, a few at most.
fn alike(name: &str) -> Vec<&'static str> {
    let Some((start, _)) = name.rsplit_once('_') else { return Vec::new() };
    let names = function::functions().iter().map(|function| &*function.name);
    let mut alike: Vec<&str> = names.filter(|other| other.starts_with(start)).collect();
    alike.dedup();
    alike.truncate(4);
    alike
}

/// The signatures of functions, for help.
pub(super) fn signatures(functions: &[Function]) -> String {
    let shown: Vec<String> = functions.iter().take(6).map(|function| format!("`{}`", function.signature())).collect();
    let more = if functions.len() > shown.len() { " and others" } else { "" };
    format!("it is {}{more}", shown.join(" or "))
}

/// What to do about a literal that is none.
pub(super) fn literal_help(ty: &Type) -> &'static str {
    match ty {
        Type::Mac => "for example: mac\"02:00:00:00:00:01\"",
        Type::Ip => "for example: ip\"10.0.0.1\" or ip\"fd00::1\"",
        Type::Net => "for example: net\"10.0.0.0/24\"; the bits after the prefix are zero",
        Type::Match => "write it as `ovs-ofctl dump-flows --no-names` prints it, for example: match\"reg1=0x1a\"",
        _ => "write it as `ovs-ofctl dump-flows --no-names` prints it, for example: actions\"output:3\"",
    }
}

/// What turns a value of one type into one of the other.
fn conversion_help(found: &str, wanted: &str) -> String {
    let parse = format!("parse_{wanted}");
    match (found, wanted) {
        ("string", "int" | "ip" | "net" | "mac") if !function::lookup(&parse).is_empty() => {
            format!("`{parse}(…)` turns a string into type {wanted}")
        }
        (_, "string") if !function::lookup("to_string").is_empty() => {
            "`to_string(…)` turns it into a string".to_owned()
        }
        _ => format!("use a value of type {wanted} here, or another variable"),
    }
}
