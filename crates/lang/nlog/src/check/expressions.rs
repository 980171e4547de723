//! Resolves the names and types of expressions.

use nlog_data::{Type, Value, function};

use super::calls::Candidate;
use super::declarations::Constant;
use super::resolve::{Node, NodeKind, Resolver};
use super::types::TypeVar;
use crate::diagnostic::Code;
use crate::syntax::ast::{Call, Expr, ExprKind, Ident, Span};

impl Resolver<'_, '_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Node {
        let span = expr.span;
        let (kind, ty) = match &expr.kind {
            ExprKind::Name(name) => return self.name(name, span),
            ExprKind::Wildcard => {
                let help = if self.in_test {
                    "write its value; `_` is only allowed in `expect` and `expect no`"
                } else {
                    "bind the value to a variable and use it in both places"
                };
                self.report(Code::UnboundVariable, span, "`_` is not allowed as a value", help);
                return self.faulty(span);
            }
            ExprKind::Int(value) => {
                (NodeKind::Constant(Value::Int(*value)), self.types.known(&Type::Int, span))
            }
            ExprKind::Bool(value) => {
                (NodeKind::Constant(Value::Bool(*value)), self.types.known(&Type::Bool, span))
            }
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
            ExprKind::Match(terms) => return self.match_literal(terms, span),
            ExprKind::Actions(actions) => return self.actions_literal(actions, span),
            ExprKind::Bits(..) => {
                let help = "use bits of a field only where a match or an action names a field";
                self.report(Code::LiteralArgument, span, "bits of a field are not a value", help);
                return self.faulty(span);
            }
            ExprKind::Record(name, fields) => return self.record(name, fields, span),
            ExprKind::Field(value, field) => return self.field(value, field, span),
            ExprKind::Masked(..) => {
                self.report(Code::Syntax, span, "not supported yet", "");
                return self.faulty(span);
            }
        };
        Node { kind, ty, span }
    }

    fn elements(&mut self, values: &[Expr]) -> (Vec<Node>, TypeVar) {
        let of = self.types.free();
        let mut nodes: Vec<Node> = Vec::with_capacity(values.len());
        for value in values {
            let node = self.expr(value);
            if !self.expect(&node, of, "the first element", nodes.first().map(|first| first.span)) {
                self.types.forgive(of);
            }
            nodes.push(node);
        }
        (nodes, of)
    }

    fn name(&mut self, name: &str, span: Span) -> Node {
        if !self.is_constant(name) {
            let variable = self.variable(name, span);
            return Node { kind: NodeKind::Variable(variable), ty: self.variables[variable].ty, span };
        }
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
        if self.scope.declarations.excuses(name) {
            self.failed = true;
            return self.faulty(span);
        }
        let ident = Ident { name: name.to_owned(), span };
        let names = self.scope.declarations.constants.keys().copied();
        if self.in_test {
            let help = match self.scope.nearest(name, names) {
                Some(near) => format!("did you mean the constant `{near}`?"),
                None => format!("write its value, or define a constant: const {name} = …;"),
            };
            let message = format!("`{name}` has no value: rows of a test cannot use variables");
            self.report(Code::UnboundVariable, span, message, help);
            return self.faulty(span);
        }
        if self.in_function {
            let parameters = self.variables.iter().map(|parameter| parameter.name.as_str());
            let help = match self.scope.nearest(name, parameters.chain(names)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("make it a parameter, or define it: const {name} = …;"),
            };
            let message = format!("`{name}` is neither a parameter nor a constant");
            self.report(Code::UnknownConstant, span, message, help);
            return self.faulty(span);
        }
        let help = match self.scope.nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("define it: const {name} = …;"),
        };
        self.report_unknown(Code::UnknownConstant, &ident, format!("unknown constant `{name}`"), help);
        self.faulty(span)
    }

    fn prefixed(&mut self, prefix: &str, text: &str, span: Span) -> Node {
        let declarations = self.scope.declarations;
        let hidden = declarations.types.get(prefix).is_some_and(|named| named.ty.is_none());
        if hidden || declarations.excuses(prefix) {
            self.failed = true;
            return self.faulty(span);
        }
        let ty = declarations.types.of_word(prefix).filter(|ty| {
            use Type::{Actions, Enum, InterfaceAddress, Ip, Mac, Match, Net, PacketFilter, String};
            matches!(
                ty,
                String | Mac | Ip | Net | InterfaceAddress | Match | Actions | PacketFilter | Enum(_)
            )
        });
        let Some(ty) = ty else {
            let help = "the literal prefixes are ip\"…\", net\"…\", interface_address\"…\", mac\"…\", \
            match\"…\", actions\"…\", \
            packet_filter\"…\", and the names of declared enumerations";
            self.report(Code::UnknownType, span, format!("unknown literal prefix `{prefix}`"), help);
            return self.faulty(span);
        };
        let known = self.types.known(&ty, span);
        let kind = self.text_of(text, &ty, span).map_or(NodeKind::Faulty, NodeKind::Constant);
        Node { kind, ty: known, span }
    }

    pub(super) fn faulty(&mut self, span: Span) -> Node {
        Node { kind: NodeKind::Faulty, ty: self.types.anything(), span }
    }

    pub(super) fn operator(&mut self, operator: &Ident, operands: &[&Expr], span: Span) -> Node {
        let nodes: Vec<Node> = operands.iter().map(|operand| self.expr(operand)).collect();
        let candidates = Candidate::of_expression(function::lookup(&operator.name), nodes.len());
        self.call_node(operator, candidates, nodes, span)
    }

    fn call(&mut self, call: &Call) -> Node {
        let name = call.name.name.as_str();
        if self.scope.declarations.own_functions.is_hidden(name) {
            self.failed = true;
            self.taint_call(call);
            return self.faulty(call.span);
        }
        let functions = self.scope.declarations.functions(name);
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
}
