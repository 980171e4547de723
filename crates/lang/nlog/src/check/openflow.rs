//! `match{…}` and `actions[…]`: the meaning and the type of each of their parts.
//!
//! The table of fields and actions is in [`openflow_rs::literal`]; this module connects it with names and types.
//! `literals` converts the result to functions.

use nlog_data::Type;
use openflow_rs::literal::{self, Context, Kind, Problem, Shape, TemplateError, Wanted, Wants, Where};

use super::pipeline::{Fields, Meaning, Mistake};
use super::resolve::{Node, NodeKind, Resolver};
use super::types::TypeVar;
use crate::diagnostic::{Code, Report};
use crate::syntax::ast::{Argument, Expr, ExprKind, Ident, MatchTerm, Span};

/// A literal of a match or of actions; its values are in the node that refers to it.
#[derive(Debug)]
pub(super) struct Literal {
    pub(super) is_match: bool,
    pub(super) parts: Vec<Part>,
    /// Whether it contains a reported mistake.
    pub(super) faulty: bool,
}

/// A part of a literal, with its nested parts.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) form: Form,
    /// The name of a parameter before the part, as in `zone: 5`.
    pub(super) label: Option<Ident>,
    pub(super) parts: Vec<Part>,
    pub(super) name: Span,
    pub(super) span: Span,
    /// The declaration of the field that it names, if the program declares it.
    pub(super) declared: Option<Span>,
}

/// The kind of a part.
#[derive(Debug)]
pub(super) enum Form {
    /// A field or word of a match; its value is the nested part.
    Item(String, Option<(u16, u16)>),
    /// An action with its arguments.
    Action(String),
    /// A field or flag.
    Name(String),
    /// Bits of a field.
    Bits(String, u16, u16),
    /// Constant text.
    Text(String),
    /// The number of a node.
    Value(usize),
    /// A value and its mask, which are the nested parts.
    Masked,
    /// A mistake that is reported.
    Faulty,
}

/// A value that can be of several types.
#[derive(Debug)]
pub(super) struct Choice {
    ty: TypeVar,
    span: Span,
    /// A string literal, which can be read as an address.
    text: Option<String>,
    kinds: &'static [Kind],
    /// The action or field that takes it, for messages.
    taker: String,
}

impl Resolver<'_, '_> {
    pub(super) fn match_literal(&mut self, terms: &[MatchTerm], span: Span) -> Node {
        let mut nodes = Vec::new();
        let parts = terms.iter().map(|term| self.match_part(term, &mut nodes)).collect();
        self.literal(true, parts, nodes, span)
    }

    pub(super) fn actions_literal(&mut self, actions: &[Expr], span: Span) -> Node {
        let mut nodes = Vec::new();
        let parts =
            actions.iter().map(|action| self.action_part(action, Context::Flow, &mut nodes)).collect();
        self.literal(false, parts, nodes, span)
    }

    fn literal(&mut self, is_match: bool, parts: Vec<Part>, nodes: Vec<Node>, span: Span) -> Node {
        let faulty = parts.iter().any(Part::is_faulty);
        let ty = self.types.known(if is_match { &Type::Match } else { &Type::Actions }, span);
        self.literals.push(Literal { is_match, parts, faulty });
        Node { kind: NodeKind::Literal(self.literals.len() - 1, nodes), ty, span }
    }

    fn match_part(&mut self, term: &MatchTerm, nodes: &mut Vec<Node>) -> Part {
        let name = &term.name.name;
        let Some((real, bits)) = self.field_meant(name, term.bits, term.span) else {
            term.value.iter().for_each(|value| self.taint(value));
            return Part::faulty(term.span);
        };
        let mut part = Part::new(Form::Item(real.clone(), bits), &term.name, term.span);
        part.declared = self.scope.declarations.fields.place_of(name);
        match (literal::match_item(&real, bits), &term.value) {
            (Err(error), value) => {
                let at = if error.at == Where::Name { term.name.span } else { term.span };
                self.report_literal(&error, at, part.declared);
                if let Some(value) = value {
                    self.taint(value);
                }
                part.form = Form::Faulty;
            }
            (Ok(Some(wanted)), Some(value)) => {
                let taker = format!("`{name}`");
                part.parts.push(self.value_part(value, wanted, &taker, nodes));
            }
            (Ok(None), Some(value)) => {
                let message = format!("`{name}` takes no value");
                self.report(Code::LiteralArgument, term.span, message, format!("write `{name}` alone"));
                self.taint(value);
                part.form = Form::Faulty;
            }
            (Ok(Some(_)), None) => {
                let message = format!("field `{name}` needs a value");
                self.report(Code::LiteralArgument, term.span, message, format!("write `{name}: value`"));
                part.form = Form::Faulty;
            }
            (Ok(None), None) => {}
        }
        part
    }

    /// An action of a list: `set(reg0, x)`, or only its name if it takes no arguments.
    fn action_part(&mut self, expr: &Expr, context: Context, nodes: &mut Vec<Node>) -> Part {
        let (name, arguments): (&Ident, &[Argument]) = match &expr.kind {
            ExprKind::Call(call) if call.rest.is_none() => (&call.name, &call.arguments),
            ExprKind::Name(name) => (&Ident { name: name.clone(), span: expr.span }, &[]),
            _ => {
                let help = "write an action as a call, such as set(reg0, 5), or as a name, such as dec_ttl";
                self.report(Code::LiteralArgument, expr.span, "expected an action", help);
                self.taint(expr);
                return Part::faulty(expr.span);
            }
        };
        let mut part = Part::new(Form::Action(name.name.clone()), name, expr.span);
        let mut call = match literal::Call::new(context, &name.name) {
            Ok(call) => call,
            Err(error) => {
                let remedy = match name.name.as_str() {
                    "drop" => "to drop the packet, write an empty list: actions[]".to_owned(),
                    _ => error.remedy.clone(),
                };
                self.report_literal(&TemplateError { remedy, ..error }, name.span, None);
                for argument in arguments {
                    self.taint(&argument.value);
                }
                return Part::faulty(expr.span);
            }
        };
        let mut mistaken = false;
        for argument in arguments {
            let label = argument.name.as_ref();
            let shape = self.scope.declarations.fields.shape(&call, &argument.value);
            let wants = call.argument(label.map(|label| label.name.as_str()), shape);
            let mut inner = match wants {
                Ok(wants) => self.argument_part(&argument.value, wants, &name.name, nodes),
                Err(error) => {
                    let label = label.filter(|_| error.at == Where::Name).map(|label| label.span);
                    // An argument that seems to be missing after a mistake may only follow from it.
                    if !(mistaken && error.problem == Problem::Argument) {
                        self.report_argument(&error, &argument.value, label);
                    }
                    mistaken = true;
                    self.taint_unless_field(&argument.value);
                    Part::faulty(argument.value.span)
                }
            };
            inner.label.clone_from(&argument.name);
            part.parts.push(inner);
        }
        let whole = !part.is_faulty();
        if let (true, Err(error)) = (whole, call.finish()) {
            self.report_literal(&error, expr.span, None);
            part.form = Form::Faulty;
        }
        part
    }

    fn argument_part(&mut self, value: &Expr, wants: Wants, action: &str, nodes: &mut Vec<Node>) -> Part {
        let form = match (wants, &value.kind) {
            (Wants::Value(wanted), _) => {
                return self.value_part(value, wanted, &format!("`{action}`"), nodes);
            }
            (Wants::Action(context), _) => return self.action_part(value, context, nodes),
            (Wants::Field, ExprKind::Name(name)) => return self.field_part(name, None, value.span),
            (Wants::Field, ExprKind::Bits(name, first, last)) => {
                return self.field_part(&name.name, Some((*first, *last)), value.span);
            }
            (_, ExprKind::Name(name)) => Form::Name(name.clone()),
            (Wants::Text, ExprKind::String(text)) => Form::Text(text.clone()),
            // The table's answer fits the shape of the argument.
            _ => {
                self.taint(value);
                self.failed = true;
                Form::Faulty
            }
        };
        Part { form, ..Part::faulty(value.span) }
    }

    /// The field, or its bits, that an action names.
    fn field_part(&mut self, name: &str, bits: Option<(u16, u16)>, span: Span) -> Part {
        let mut part = Part::faulty(span);
        if let Some((real, bits)) = self.field_meant(name, bits, span) {
            part.declared = self.scope.declarations.fields.place_of(name);
            part.form = match bits {
                Some((first, last)) => Form::Bits(real, first, last),
                None => Form::Name(real),
            };
        }
        part
    }

    /// The name and the bits of Open vSwitch's field that a name stands for: itself, unless the program declares it.
    /// `None` after a report.
    fn field_meant(
        &mut self,
        name: &str,
        bits: Option<(u16, u16)>,
        span: Span,
    ) -> Option<(String, Option<(u16, u16)>)> {
        let declarations = self.scope.declarations;
        match declarations.fields.find(name, bits) {
            Some(Ok(Meaning { name, bits })) => Some((name.to_owned(), bits)),
            Some(Err(mistake)) => {
                self.report_field(mistake, name, span);
                None
            }
            None => {
                self.bare_field(name, bits, span);
                Some((name.to_owned(), bits))
            }
        }
    }

    fn report_field(&mut self, mistake: Mistake, name: &str, span: Span) {
        self.failed = true;
        let Mistake::New(message, help) = mistake else { return };
        let report = Report::new(Code::ConstantRange, span, message, help);
        let declared = self.scope.declarations.fields.place_of(name);
        self.push(declared.into_iter().fold(report, |report, span| report.label(span, "declared here")));
    }

    /// Reports an argument that its action does not accept.
    fn report_argument(&mut self, error: &TemplateError, value: &Expr, label: Option<Span>) {
        let named = match shape(value) {
            Shape::Name(name) => Some((name, None)),
            Shape::Bits(name, first, last) => Some((name, Some((first, last)))),
            _ => None,
        };
        let named = named.filter(|_| error.problem == Problem::UnknownField);
        let declarations = self.scope.declarations;
        match named.and_then(|(name, bits)| Some((name, declarations.fields.find(name, bits)?))) {
            Some((name, Err(mistake))) => self.report_field(mistake, name, value.span),
            declared => {
                let declared = declared.and_then(|(name, _)| declarations.fields.place_of(name));
                self.report_literal(error, label.unwrap_or(value.span), declared);
            }
        }
    }

    /// A value, or a value and its mask.
    fn value_part(&mut self, value: &Expr, wanted: Wanted, taker: &str, nodes: &mut Vec<Node>) -> Part {
        let mut part = Part::faulty(value.span);
        if let ExprKind::Masked(left, right) = &value.kind {
            if !wanted.masked {
                let help = "write the value alone; to divide, put the division in parentheses";
                self.report(Code::LiteralArgument, value.span, format!("{taker} does not take a mask"), help);
                self.taint(value);
                return part;
            }
            let first = self.expr(left);
            let second = self.expr(right);
            self.expect(&second, first.ty, "the value before the mask", Some(first.span));
            part.form = Form::Masked;
            for node in [first, second] {
                self.demand(&node, wanted.kinds, taker);
                part.parts.push(Part { form: Form::Value(nodes.len()), ..Part::faulty(node.span) });
                nodes.push(node);
            }
            return part;
        }
        let node = self.expr(value);
        match &node.kind {
            NodeKind::Text(text) if wanted.kinds.contains(&Kind::Text) => {
                part.form = Form::Text(text.clone());
            }
            _ => {
                self.demand(&node, wanted.kinds, taker);
                part.form = Form::Value(nodes.len());
                nodes.push(node);
            }
        }
        part
    }

    /// Requires the value to have one of these types.
    fn demand(&mut self, node: &Node, kinds: &'static [Kind], taker: &str) {
        let mut types = kinds.iter().filter_map(|kind| type_of(*kind));
        if let (Some(only), None) = (types.next(), types.next()) {
            let wanted = self.types.known(&only, node.span);
            self.expect(node, wanted, &format!("the value of {taker}"), None);
            return;
        }
        let text = match &node.kind {
            NodeKind::Text(text) => Some(text.clone()),
            _ => None,
        };
        self.choices.push(Choice { ty: node.ty, span: node.span, text, kinds, taker: taker.to_owned() });
    }

    /// Resolves the types of values with several possible types, as far as possible. Returns whether a type became
    /// known.
    pub(super) fn settle_choices(&mut self) -> bool {
        let mut changed = false;
        for choice in std::mem::take(&mut self.choices) {
            if self.types.is_anything(choice.ty) {
                continue;
            }
            let Some(ty) = self.types.resolved(choice.ty) else {
                self.choices.push(choice);
                continue;
            };
            let literal = choice.text.as_ref().filter(|_| self.types.is_text(choice.ty));
            let wanted = match literal {
                Some(text) => {
                    choice.kinds.iter().filter_map(|kind| type_of(*kind)).find(|ty| reads(ty, text))
                }
                None => choice.kinds.iter().filter_map(|kind| type_of(*kind)).find(|own| *own == ty),
            };
            if let Some(wanted) = wanted {
                let wanted = self.types.known(&wanted, choice.span);
                changed |= literal.is_some() && self.types.unify(choice.ty, wanted).is_ok();
                continue;
            }
            let names: Vec<String> =
                choice.kinds.iter().filter_map(|kind| type_of(*kind)).map(|ty| ty.to_string()).collect();
            let names = names.join(" or ");
            let text = self.quote(choice.span);
            let found = self.types.show(choice.ty);
            let message = format!("{text} has type {found}, but {} takes {names}", choice.taker);
            let node = self.node_at(choice.ty, choice.span);
            self.mismatch(&node, message, &found, &names, None);
        }
        changed
    }

    /// Reports an error that the tables of fields and actions found in a literal.
    /// `declared` is the place of the declaration that says which field is meant.
    pub(super) fn report_literal(
        &mut self,
        error: &TemplateError,
        span: Span,
        declared: impl IntoIterator<Item = Span>,
    ) {
        let mut remedy = error.remedy.clone();
        if error.problem == Problem::UnknownField {
            let name = self.scope.sources.text(span).split('[').next().unwrap_or_default().trim_end();
            let declarations = self.scope.declarations;
            if let Some(near) = self.scope.nearest(name, declarations.fields.names()) {
                remedy = format!("did you mean `{near}`?");
            }
        }
        let report = Report::new(code_of(error.problem), span, error.message.clone(), remedy);
        self.push(declared.into_iter().fold(report, |report, at| report.label(at, "this is the field")));
    }

    /// Marks a bare name as faulty where a field may be meant: it should not be reported as an unbound variable.
    fn taint_unless_field(&mut self, value: &Expr) {
        if !matches!(value.kind, ExprKind::Name(_) | ExprKind::Bits(..)) {
            self.taint(value);
        }
    }
}

impl Part {
    fn new(form: Form, name: &Ident, span: Span) -> Part {
        Part { form, label: None, parts: Vec::new(), name: name.span, span, declared: None }
    }

    fn faulty(span: Span) -> Part {
        Part { form: Form::Faulty, label: None, parts: Vec::new(), name: span, span, declared: None }
    }

    /// The declarations of the fields that it names.
    pub(super) fn declared(&self) -> Vec<Span> {
        self.declared.into_iter().chain(self.parts.iter().flat_map(Part::declared)).collect()
    }

    pub(super) fn is_faulty(&self) -> bool {
        matches!(self.form, Form::Faulty) || self.parts.iter().any(Part::is_faulty)
    }
}

/// The code of an error that the tables of fields and actions found.
pub(super) fn code_of(problem: Problem) -> Code {
    match problem {
        Problem::UnknownAction => Code::UnknownAction,
        Problem::UnknownField => Code::UnknownField,
        Problem::Argument => Code::LiteralArgument,
        Problem::Type => Code::TypeMismatch,
        Problem::ReadOnly => Code::ReadOnlyField,
        Problem::Range => Code::ConstantRange,
        Problem::Prerequisite => Code::Prerequisite,
        Problem::Contradiction => Code::Contradiction,
        Problem::DuplicateField => Code::DuplicateField,
    }
}

/// The values in actions: everything except the names of actions and fields.
pub(super) fn values_of<'e>(actions: &'e [Expr], fields: &Fields<'_>) -> Vec<&'e Expr> {
    let mut values = Vec::new();
    let mut open: Vec<(&Expr, Context)> = actions.iter().map(|action| (action, Context::Flow)).collect();
    while let Some((action, context)) = open.pop() {
        let ExprKind::Call(call) = &action.kind else { continue };
        let Ok(mut known) = literal::Call::new(context, &call.name.name) else { continue };
        for argument in &call.arguments {
            let label = argument.name.as_ref().map(|label| label.name.as_str());
            let shape = fields.shape(&known, &argument.value);
            match known.argument(label, shape) {
                Ok(Wants::Value(_)) => values.push(&argument.value),
                Ok(Wants::Action(context)) => open.push((&argument.value, context)),
                Ok(_) | Err(_) => {}
            }
        }
    }
    values
}

/// The shape of an argument before it is resolved.
pub(super) fn shape(expr: &Expr) -> Shape<'_> {
    match &expr.kind {
        ExprKind::Name(name) => Shape::Name(name),
        ExprKind::Bits(name, first, last) => Shape::Bits(&name.name, *first, *last),
        ExprKind::Call(call) => Shape::Call(&call.name.name),
        ExprKind::String(_) => Shape::Text,
        _ => Shape::Value,
    }
}

/// The type of values of this kind; none for text, which only occurs in literals.
pub(super) fn type_of(kind: Kind) -> Option<Type> {
    match kind {
        Kind::Int => Some(Type::Int),
        Kind::Mac => Some(Type::Mac),
        Kind::Ip => Some(Type::Ip),
        Kind::Net => Some(Type::Net),
        Kind::Text => None,
    }
}

/// Whether a string literal can be read as a value of the type. If it fits no candidate type, the last one explains
/// the mistake.
fn reads(ty: &Type, text: &str) -> bool {
    match ty {
        Type::Net => text.contains('/'),
        Type::Ip => !text.contains('/'),
        Type::Mac => true,
        _ => false,
    }
}
