//! Constant folding: lowers resolved nodes to expressions of the program. Expressions without variables are
//! evaluated here; their failures are errors of the program.

use std::sync::Arc;

use nlog_data::function::{Multiplicity, Results, Shape};
use nlog_data::{Failure, FailureCode, Type, Value, function};

use super::messages::literal_help;
use super::named_types::members;
use super::resolve::{Node, NodeKind, Resolver};
use super::{sequence, size};
use crate::diagnostic::Code;
use crate::program::{Expr, VariableId};
use crate::syntax::ast::{self, Span};

/// The context of an expression, as far as it concerns functions with several results.
pub(super) trait Hoist {
    /// Makes a variable for the results of a function with any number of them; `None` where such functions
    /// are not allowed.
    fn hoist(
        &mut self,
        ty: Type,
        function: &Arc<function::Function>,
        arguments: Vec<Expr>,
    ) -> Option<VariableId>;

    /// The program's number for the rule's variable.
    fn variable(&self, index: usize) -> VariableId;
}

/// Forbids functions with several results, as in a branch that may not be taken.
struct Forbidden<'a>(&'a dyn Hoist);

impl Hoist for Forbidden<'_> {
    fn hoist(&mut self, _: Type, _: &Arc<function::Function>, _: Vec<Expr>) -> Option<VariableId> {
        None
    }

    fn variable(&self, index: usize) -> VariableId {
        self.0.variable(index)
    }
}

impl Resolver<'_, '_> {
    /// The body of a function or a part of a constraint, which must have this type; the type may be declared at a
    /// place. `None` after a report.
    pub(super) fn value(
        &mut self,
        value: &ast::Expr,
        (ty, declared): (&Type, Option<Span>),
        what: &str,
        hoist: &mut dyn Hoist,
    ) -> Option<Expr> {
        let node = self.expr(value);
        let wanted = self.types.known(ty, declared.unwrap_or(value.span));
        self.expect(&node, wanted, what, declared);
        self.settle_calls();
        self.report_ambiguous();
        self.lower(&node, hoist)
    }

    /// The node as an expression, or `None` after a report.
    pub(super) fn lower(&mut self, node: &Node, hoist: &mut dyn Hoist) -> Option<Expr> {
        Some(match &node.kind {
            NodeKind::Variable(index) => Expr::Variable(hoist.variable(*index)),
            NodeKind::Constant(value) => Expr::Constant(value.clone()),
            NodeKind::Text(text) => Expr::Constant(self.text_literal(text, node)?),
            NodeKind::Call(site, arguments) => return self.lower_call(*site, arguments, node, hoist),
            NodeKind::Apply(function, arguments) => {
                let arguments = self.lower_all(arguments, hoist)?;
                return self.apply(function, arguments, node.span);
            }
            NodeKind::Field(site, record) => {
                let record = self.lower(record, hoist)?;
                let Some(function) = self.fields[*site].reader.clone() else {
                    self.failed = true;
                    return None;
                };
                return self.apply(&function, vec![record], node.span);
            }
            NodeKind::If(condition, then, otherwise) => {
                let condition = self.lower(condition, hoist)?;
                match condition {
                    Expr::Constant(Value::Bool(true)) => return self.lower(then, hoist),
                    Expr::Constant(Value::Bool(false)) => return self.lower(otherwise, hoist),
                    _ => {}
                }
                let then = self.lower(then, &mut Forbidden(hoist))?;
                let otherwise = self.lower(otherwise, &mut Forbidden(hoist))?;
                Expr::If { condition: condition.into(), then: then.into(), otherwise: otherwise.into() }
            }
            NodeKind::List(nodes) => {
                let elements = self.lower_all(nodes, hoist)?;
                return self.apply(&sequence::list(), elements, node.span);
            }
            NodeKind::Set(nodes) => {
                let elements = self.lower_all(nodes, hoist)?;
                return self.apply(&sequence::set(), elements, node.span);
            }
            NodeKind::Literal(number, nodes) => return self.lower_literal(*number, nodes, node, hoist),
            NodeKind::Faulty => {
                self.failed = true;
                return None;
            }
        })
    }

    /// Lowers all nodes, so that each mistake is reported.
    pub(super) fn lower_all(&mut self, nodes: &[Node], hoist: &mut dyn Hoist) -> Option<Vec<Expr>> {
        let lowered: Vec<Option<Expr>> = nodes.iter().map(|node| self.lower(node, hoist)).collect();
        lowered.into_iter().collect()
    }

    fn text_literal(&mut self, text: &str, node: &Node) -> Option<Value> {
        let ty = self.types.resolved(node.ty).unwrap_or(Type::String);
        self.text_of(text, &ty, node.span)
    }

    /// The value of this type that the text of a literal stands for, or `None` after a report.
    pub(super) fn text_of(&mut self, text: &str, ty: &Type, span: Span) -> Option<Value> {
        let error = match ty.parse_text(text) {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let Type::Enum(of) = ty else {
            self.report(Code::BadLiteral, span, error.to_string(), literal_help(ty));
            return None;
        };
        let near = self.scope.nearest(text, of.members.iter().map(String::as_str));
        let meant = near.map(|near| format!("did you mean {near:?}? ")).unwrap_or_default();
        let help = format!("{meant}the members of `{}` are {}", of.name, members(of));
        self.report(Code::BadLiteral, span, format!("{text:?} is not a member of `{}`", of.name), help);
        None
    }

    fn lower_call(
        &mut self,
        site: usize,
        arguments: &[Node],
        node: &Node,
        hoist: &mut dyn Hoist,
    ) -> Option<Expr> {
        let arguments = self.lower_all(arguments, hoist);
        let Some(candidate) = self.sites[site].chosen.clone() else {
            self.failed = true;
            return None;
        };
        let (function, arguments) = (candidate.function, arguments?);
        if function.multiplicity == Multiplicity::Many {
            let Some(ty) = self.types.resolved(node.ty) else {
                self.unknown_type(node.span);
                return None;
            };
            let variable = hoist.hoist(ty, &function, arguments);
            if variable.is_none() {
                let message = format!(
                    "`{}` can have several results, but a single value is needed here",
                    function.name
                );
                let help = if self.in_function {
                    format!(
                        "make the value a parameter of the function, and bind it in the rules: `value = {}(…)`",
                        function.name
                    )
                } else {
                    format!("bind its results in the body first: `value = {}(…)`", function.name)
                };
                self.report(Code::SeveralResults, node.span, message, help);
            }
            return variable.map(Expr::Variable);
        }
        self.apply(&function, arguments, node.span)
    }

    /// The call, or its value if the arguments are constants.
    pub(super) fn apply(
        &mut self,
        function: &Arc<function::Function>,
        arguments: Vec<Expr>,
        span: Span,
    ) -> Option<Expr> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in &arguments {
            let Expr::Constant(value) = argument else {
                if let Some(failure) = always_fails(function, &arguments) {
                    let help = "correct the pattern; a string literal writes its `\\` twice";
                    self.report(Code::ConstantRange, span, failure.message.to_string(), help);
                    return None;
                }
                return Some(Expr::Call { function: function.clone(), arguments });
            };
            values.push(value.clone());
        }
        if self.scope.declarations.own_functions.is_faulty(&function.name) {
            self.failed = true;
            return None;
        }
        if self.failed && !admits(function, &values) {
            // The mismatch is already reported; an error of the function would only follow from it.
            return None;
        }
        // The weight of a list or set is that of its written elements.
        let written = matches!(&*function.name, "[]" | "{}");
        if let (false, Err(failure)) = (written, size::check(function, &values)) {
            let help = "put data this large into an input table";
            self.report(Code::TooLarge, span, failure.message.to_string(), help);
            return None;
        }
        match (function.evaluate)(&values) {
            Ok(Results::One(value)) => Some(Expr::Constant(value)),
            Ok(_) => Some(Expr::Call { function: function.clone(), arguments }),
            Err(failure) => {
                let (code, help) = match failure.code {
                    FailureCode::Overflow => {
                        (Code::ConstantOverflow, "use smaller numbers; an int has 64 bits")
                    }
                    FailureCode::Range => (Code::ConstantRange, "use a value that fits"),
                };
                self.report(code, span, failure.message.to_string(), help);
                None
            }
        }
    }

    pub(super) fn unknown_type(&mut self, span: Span) {
        if self.excused {
            self.failed = true;
        } else if !self.failed {
            let text = self.quote(span);
            let help = "use it where a type is known: a column, a function's argument, or a constant \
            declared with its type";
            self.report(Code::AmbiguousType, span, format!("the type of {text} is ambiguous"), help);
        }
    }
}

/// Whether the arguments are of the kinds that the function takes.
fn admits(function: &function::Function, values: &[Value]) -> bool {
    let mut arguments = function.parameters.iter().zip(values);
    arguments.all(|(parameter, value)| match &parameter.shape {
        Shape::Is(ty) => ty.admits(value),
        Shape::SetOf(_) => matches!(value, Value::Set(_)),
        Shape::ListOf(_) => matches!(value, Value::List(_)),
        Shape::Any(_) | Shape::OptOf(_) => true,
    })
}

/// The failure of a call for all values of its variables: its constant pattern is not a regular expression.
fn always_fails(function: &function::Function, arguments: &[Expr]) -> Option<Failure> {
    match arguments {
        [_, Expr::Constant(pattern)] if function.name == "matches" => {
            (function.evaluate)(&[Value::from(""), pattern.clone()]).err()
        }
        _ => None,
    }
}
