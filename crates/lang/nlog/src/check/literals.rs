//! Lowers a literal of a match or of actions to a constant, or to a function of its variable parts.

use std::borrow::Cow;
use std::sync::Arc;

use nlog_data::function::{Failure, Function, Multiplicity, Parameter, Results, Shape};
use nlog_data::{Type, Value};
use openflow_rs::literal::{
    self, ActionTerm, Argument, Kind, MatchItem, Problem, TemplateError, Term, Where,
};

use super::constant_folding::Hoist;
use super::openflow::{Form, Literal, Part, type_of};
use super::resolve::{Node, Resolver};
use crate::program::Expr;
use crate::syntax::ast::Span;

/// A literal that is checked.
enum Template {
    Match(literal::MatchTemplate),
    Actions(literal::ActionsTemplate),
}

impl Template {
    /// Fills the literal with these values; none if no packet can match.
    fn fill(&self, values: &[literal::Value]) -> Result<Results, Failure> {
        let filled = match self {
            Template::Match(template) => template.fill(values).map(|found| found.map(Value::from)),
            Template::Actions(template) => template.fill(values).map(|actions| Some(actions.into())),
        };
        match filled {
            Ok(value) => Ok(value.map_or(Results::None, Results::One)),
            Err(error) => Err(Failure::range(error.message)),
        }
    }
}

impl Resolver<'_, '_> {
    /// The literal's value if it is a constant, otherwise a call of a function that fills it; `None` after a
    /// report.
    pub(super) fn lower_literal(
        &mut self,
        number: usize,
        nodes: &[Node],
        node: &Node,
        hoist: &mut dyn Hoist,
    ) -> Option<Expr> {
        let values = self.lower_all(nodes, hoist)?;
        let (mut terms, mut arguments, mut types) = (Vec::new(), Vec::new(), Vec::new());
        for (value, node) in values.into_iter().zip(nodes) {
            let constant = match &value {
                Expr::Constant(value) => openflow_value(value),
                _ => None,
            };
            if let Some(constant) = constant {
                terms.push(Term::Constant(constant));
                continue;
            }
            let Some(ty) = self.types.resolved(node.ty) else {
                self.unknown_type(node.span);
                return None;
            };
            let Some(kind) = kind_of(&ty) else {
                // A mismatch, which is reported.
                self.failed = true;
                return None;
            };
            terms.push(Term::Hole(arguments.len(), kind));
            arguments.push(value);
            types.push(ty);
        }
        let literal = &self.literals[number];
        let (is_match, name) = (literal.is_match, skeleton(literal));
        let (template, definition) = match template(literal, &terms) {
            Ok(template) => template,
            Err(errors) => {
                // A missing item may be in a part with a reported mistake, and types have already been
                // compared.
                let follows = |error: &TemplateError| match error.problem {
                    Problem::Prerequisite => literal.faulty,
                    Problem::Type => self.failed,
                    _ => false,
                };
                let errors = errors.into_iter().filter(|error| !follows(error));
                let errors: Vec<(TemplateError, Span, Vec<Span>)> = errors
                    .map(|error| {
                        let place = place(literal, &error).unwrap_or(node.span);
                        let declared = declared(literal, &error);
                        (error, place, declared)
                    })
                    .collect();
                for (error, place, declared) in errors {
                    self.report_literal(&error, place, declared);
                }
                self.failed = true;
                return None;
            }
        };
        if literal.faulty {
            self.failed = true;
            return None;
        }
        let function = function(name, definition, is_match, &types, template);
        self.apply(&Arc::new(function), arguments, node.span)
    }
}

/// The template of the parts without mistakes, and a text that tells it from others.
fn template(literal: &Literal, values: &[Term]) -> Result<(Template, String), Vec<TemplateError>> {
    if literal.is_match {
        let items: Vec<MatchItem> = sound(literal).filter_map(|part| item(part, values)).collect();
        Ok((Template::Match(literal::matches(&items)?), format!("{items:?}")))
    } else {
        let actions: Vec<ActionTerm> = sound(literal).filter_map(|part| action(part, values)).collect();
        Ok((Template::Actions(literal::actions(&actions)?), format!("{actions:?}")))
    }
}

fn sound(literal: &Literal) -> impl Iterator<Item = &Part> {
    literal.parts.iter().filter(|part| !part.is_faulty())
}

fn item(part: &Part, values: &[Term]) -> Option<MatchItem> {
    let Form::Item(name, bits) = &part.form else { return None };
    let term = part.parts.first().and_then(|value| term(value, values));
    Some(MatchItem { name: name.clone(), bits: *bits, term })
}

fn action(part: &Part, values: &[Term]) -> Option<ActionTerm> {
    let Form::Action(name) = &part.form else { return None };
    let arguments = part.parts.iter().filter_map(|argument| {
        let name = argument.label.as_ref().map(|label| label.name.clone());
        Some(Argument { name, term: term(argument, values)? })
    });
    Some(ActionTerm { name: name.clone(), arguments: arguments.collect() })
}

fn term(part: &Part, values: &[Term]) -> Option<Term> {
    Some(match &part.form {
        Form::Name(name) => Term::Name(name.clone()),
        Form::Bits(name, first, last) => Term::Bits(name.clone(), *first, *last),
        Form::Text(text) => Term::Text(text.clone()),
        Form::Value(number) => values.get(*number)?.clone(),
        Form::Masked => match part.parts.as_slice() {
            [value, mask] => Term::masked(term(value, values)?, term(mask, values)?),
            _ => return None,
        },
        Form::Action(_) => Term::Action(action(part, values)?),
        Form::Item(..) | Form::Faulty => return None,
    })
}

/// The place that an error is about.
fn place(literal: &Literal, error: &TemplateError) -> Option<Span> {
    let (first, rest) = error.path.split_first()?;
    let mut part = sound(literal).nth(*first)?;
    for at in rest {
        part = part.parts.get(*at)?;
    }
    Some(match (error.at, &part.label) {
        (Where::Whole, _) => part.span,
        (Where::Name, Some(label)) => label.span,
        (Where::Name, None) => part.name,
    })
}

/// The declarations of the fields in the part that an error is about.
fn declared(literal: &Literal, error: &TemplateError) -> Vec<Span> {
    let part = error.path.first().and_then(|first| sound(literal).nth(*first));
    part.map(Part::declared).unwrap_or_default()
}

/// The literal without its values, as plans show it: `match{in_port, metadata}`.
fn skeleton(literal: &Literal) -> String {
    let names = literal.parts.iter().map(|part| match &part.form {
        Form::Item(name, _) | Form::Action(name) => name.as_str(),
        _ => "…",
    });
    let names: Vec<&str> = names.collect();
    let names = names.join(", ");
    if literal.is_match { format!("match{{{names}}}") } else { format!("actions[{names}]") }
}

fn function(
    name: String,
    definition: String,
    is_match: bool,
    types: &[Type],
    template: Template,
) -> Function {
    let column =
        |name: &'static str, ty: &Type| Parameter { name: Cow::Borrowed(name), shape: Shape::Is(ty.clone()) };
    let result = if is_match { column("match", &Type::Match) } else { column("actions", &Type::Actions) };
    let evaluate = move |values: &[Value]| {
        let values: Option<Vec<literal::Value>> = values.iter().map(openflow_value).collect();
        // The checker allows only such values; any other is refused.
        let values = values.ok_or_else(|| Failure::range("a value that no OpenFlow field can hold"))?;
        template.fill(&values)
    };
    Function {
        name: Cow::Owned(name),
        parameters: types.iter().map(|ty| column("value", ty)).collect(),
        variadic: false,
        results: vec![result],
        multiplicity: if is_match { Multiplicity::AtMostOne } else { Multiplicity::One },
        may_fail: true,
        doc: Cow::Borrowed("A literal with its values."),
        examples: Vec::new(),
        definition: Cow::Owned(definition),
        evaluate: Box::new(evaluate),
    }
}

fn openflow_value(value: &Value) -> Option<literal::Value> {
    Some(match value {
        Value::Int(value) => literal::Value::Int(*value),
        Value::Mac(value) => literal::Value::Mac(*value),
        Value::Ip(value) => literal::Value::Ip(*value),
        Value::Net(value) => literal::Value::Net(value.network(), value.prefix_len()),
        _ => return None,
    })
}

fn kind_of(ty: &Type) -> Option<Kind> {
    [Kind::Int, Kind::Mac, Kind::Ip, Kind::Net].into_iter().find(|kind| type_of(*kind).as_ref() == Some(ty))
}
