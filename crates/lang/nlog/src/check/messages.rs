//! Error messages for names, counts and types.

use std::sync::Arc;

use nlog_data::{Function, Type, function};

use super::aggregate;
use super::calls::is_predicate;
use super::declarations::quoted;
use super::resolve::{Node, NodeKind, Resolver};
use super::types::TypeVar;
use crate::diagnostic::{Code, Report};
use crate::syntax::ast::{Call, Expr, ExprKind, Ident, Span};

impl Resolver<'_, '_> {
    pub(super) fn unknown_table(&mut self, name: &Ident) {
        let declarations = self.scope.declarations;
        if declarations.excuses(&name.name) {
            self.failed = true;
            return;
        }
        let tables = declarations.tables.iter().map(|table| table.name.name.as_str());
        let functions = declarations.function_names();
        let help = match self.scope.nearest(&name.name, tables.chain(functions)) {
            Some(near) => {
                // The table counts as used, even if by a wrong name.
                self.scope.usage.read.extend(declarations.table(near));
                format!("did you mean `{near}`?")
            }
            None => format!("declare it: table {}(…);", name.name),
        };
        self.report_unknown(Code::UnknownTable, name, format!("unknown table `{}`", name.name), help);
    }

    pub(super) fn unknown_function(&mut self, name: &Ident) {
        let declarations = self.scope.declarations;
        if let Some(table) = declarations.table(&name.name) {
            self.scope.usage.read.insert(table);
            let message = format!("`{}` is a table, not a function", name.name);
            let help = "write it as an atom of the body, and use the variables it binds here";
            return self.report(Code::UnknownFunction, name.span, message, help);
        }
        if aggregate::by_name(&name.name).is_some() {
            let message = format!("aggregate `{}` is used outside a column of a rule head", name.name);
            let help = "aggregate in the head of a separate rule, and use the table of that rule here";
            return self.report(Code::Aggregate, name.span, message, help);
        }
        let functions = declarations.function_names();
        let help = match self.scope.nearest(&name.name, functions) {
            Some(near) => format!("did you mean `{near}`?"),
            None => match alike(&name.name).as_slice() {
                [] => "no built-in function has a similar name; the language reference lists them all".into(),
                names => format!("functions with the same prefix: {}", quoted(names.iter().copied())),
            },
        };
        self.report_unknown(Code::UnknownFunction, name, format!("unknown function `{}`", name.name), help);
    }

    /// Reports an unknown name once, however often it is used.
    pub(super) fn report_unknown(&mut self, code: Code, name: &Ident, message: String, help: String) {
        self.failed = true;
        self.scope.reports.push_unknown(&name.name, Report::new(code, name.span, message, help));
    }

    /// Whether the call has only positional arguments; reports others.
    pub(super) fn positional(&mut self, call: &Call) -> bool {
        let named = call.arguments.iter().find_map(|argument| argument.name.as_ref()).map(|name| name.span);
        let Some(span) = named.or(call.rest) else { return true };
        let message = format!("`{}` is a function, and function arguments cannot be named", call.name.name);
        self.report(
            Code::NamedArgument,
            span,
            message,
            signatures(self.scope.declarations.functions(&call.name.name)),
        );
        false
    }

    pub(super) fn wrong_count(&mut self, call: &Call, as_atom: bool) {
        let name = &call.name.name;
        let functions = self.scope.declarations.functions(name);
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
        self.lacks_term |= counts.last().is_some_and(|&most| given < most);
        let what = if as_atom { "term" } else { "argument" };
        let wanted = match counts.as_slice() {
            [one] => counted(*one, what),
            several => {
                let several: Vec<String> = several.iter().map(ToString::to_string).collect();
                format!("{} {what}s", several.join(" or "))
            }
        };
        let with_result = if as_atom { " (arguments and result)" } else { "" };
        let message = format!("`{name}` takes {wanted}{with_result}, but got {given}");
        self.report(Code::Arity, call.span, message, signatures(functions));
    }

    /// Reports why none of the functions is an expression with this many arguments.
    pub(super) fn no_expression(&mut self, call: &Call, functions: &[Arc<Function>]) {
        let several = functions
            .iter()
            .any(|function| function.results.len() != 1 && function.parameters.len() == call.arguments.len());
        if several {
            let message = format!("`{}` has more than one result column", call.name.name);
            let help = format!("use it as an atom in the body: {}", signatures(functions));
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
            ExprKind::Call(_) => {
                "write a `default` rule for the absent case and an ordinary rule that overrides it by key; \
                to select one of several rows, rank them with `arg_min` or `arg_max` in a head"
                    .to_owned()
            }
            _ => "write the opposite comparison, or compare with `false`".to_owned(),
        };
        let message = format!("{} uses negation, which nlog does not have", self.subject);
        let span = Span { end: operand.span.end, ..sign };
        self.report(Code::Negation, span, message, help);
    }

    /// Requires a value to have a type, which `what` expects because of the text at `because`. Returns whether it
    /// has the type, and reports it otherwise.
    pub(super) fn expect(&mut self, node: &Node, wanted: TypeVar, what: &str, because: Option<Span>) -> bool {
        if self.types.unify(node.ty, wanted).is_ok() {
            return true;
        }
        let (found, wanted_name) = (self.types.show(node.ty), self.types.show(wanted));
        let text = self.quote(node.span);
        let message = format!("{text} has type {found}, but {what} has type {wanted_name}");
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
        let help = self.conversion_help(found, wanted);
        let mut report = Report::new(Code::TypeMismatch, node.span, message, help);
        if let Some(origin) = self.types.origin(node.ty).filter(|origin| *origin != node.span) {
            report = report.label(origin, self.because(found, origin));
        }
        if let Some(because) = because.filter(|because| *because != node.span) {
            report = report.label(because, self.because(wanted, because));
        }
        self.push(report);
        if let NodeKind::Variable(variable) = node.kind {
            self.variables[variable].in_fault = true;
            let ty = self.variables[variable].ty;
            self.types.forgive(ty);
        }
    }

    /// The reason for a type. An alias is explained as such.
    fn because(&self, ty: &str, origin: Span) -> String {
        let text = self.scope.sources.text(origin);
        let is_alias = text != ty && self.scope.declarations.types.get(text).is_some();
        if is_alias {
            format!("{ty} because of this: `{text}` is {ty}")
        } else {
            format!("{ty} because of this")
        }
    }

    /// The conversion from one type to the other, as help.
    fn conversion_help(&self, found: &str, wanted: &str) -> String {
        if is_id(found) && is_id(wanted) {
            return format!(
                "an object has one kind: use a value of type {wanted} here, or relate the two by a table that has both"
            );
        }
        // Between two ids, the kinds matter; else an id is a string.
        let fits =
            |one: &str, other: &str| one == other || is_id(one) != is_id(other) && text(one) == text(other);
        let (id, found) = (found, text(found));
        let parse = format!("parse_{wanted}");
        let option_of =
            |ty: &str| ty.strip_prefix("opt<").and_then(|of| of.strip_suffix('>')).map(str::to_owned);
        let is_enumeration = || matches!(self.scope.declarations.types.of_word(wanted), Some(Type::Enum(_)));
        match (found, wanted) {
            ("string", "int" | "ip" | "net" | "mac" | "interface_address")
                if !function::lookup(&parse).is_empty() =>
            {
                format!("convert the string with `{parse}(…)`")
            }
            ("string", wanted) if is_enumeration() => {
                format!(
                    "only a string literal converts to a member of `{wanted}`: declare the column as \
                    `{wanted}`, or compare `to_string(…)`"
                )
            }
            (_, wanted) if option_of(wanted).is_some_and(|of| fits(&of, id) || of == "…") => {
                "wrap it in `some(…)`".to_owned()
            }
            (found, wanted) if option_of(found).is_some_and(|of| fits(&of, wanted)) => {
                "`value(…)` unwraps it where it is present, `or_else(…, other)` supplies a default".to_owned()
            }
            (found, "string") if self.scope.declarations.has_text(found) => {
                "convert it with `to_string(…)`".to_owned()
            }
            _ => format!("use a value of type {wanted} here, or another variable"),
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
pub(super) fn signatures(functions: &[Arc<Function>]) -> String {
    let shown: Vec<String> =
        functions.iter().take(6).map(|function| format!("`{}`", function.signature())).collect();
    let more = if functions.len() > shown.len() { " and others" } else { "" };
    format!("it is {}{more}", shown.join(" or "))
}

/// The remedy for an invalid literal.
pub(super) fn literal_help(ty: &Type) -> &'static str {
    match ty {
        Type::Mac => "for example: mac\"02:00:00:00:00:01\"",
        Type::Ip => "for example: ip\"10.0.0.1\" or ip\"fd00::1\"",
        Type::PacketFilter => "for example: packet_filter\"ip_proto=tcp,tp_dst=22\"",
        Type::InterfaceAddress => "for example: interface_address\"10.0.0.254/24\"",
        Type::Net => "for example: net\"10.0.0.0/24\", with all host bits zero",
        Type::Match => {
            "write it as `ovs-ofctl dump-flows --no-names` prints it, for example: match\"reg1=0x1a\""
        }
        _ => "write it as `ovs-ofctl dump-flows --no-names` prints it, for example: actions\"output:3\"",
    }
}

/// Whether a type in a message is that of ids.
fn is_id(ty: &str) -> bool {
    ty.starts_with("ref ")
}

/// The type of the text of an id.
fn text(ty: &str) -> &str {
    if is_id(ty) { "string" } else { ty }
}
