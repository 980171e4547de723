//! Evaluates expressions of rules whose variables are not known.

use std::sync::Arc;

use nlog::Program;
use nlog::program::Expr;
use nlog_data::function::{Function, Results, Shape};
use nlog_data::{TableId, Type, Value};

use crate::names::Names;
use crate::probe;
use crate::scope::Scope;
use crate::term::{Computed, MatchTerm, Piece, Term, Token, Version};
use crate::text::constant;

/// The alternatives of an expression: each holds under what its scope assumes.
pub(crate) type Alternatives<T> = Vec<(Scope, T)>;

/// Evaluates the expressions of one program.
pub(crate) struct Evaluator<'p> {
    pub(crate) program: &'p Program,
    pub(crate) names: &'p Names,
}

/// The variables of an expression.
#[derive(Clone, Copy)]
pub(crate) enum Variables<'a> {
    /// Those of the rule, in its scope.
    OfRule,
    /// The arguments of a function.
    Arguments(&'a [Term]),
}

impl Evaluator<'_> {
    /// Whether an id of one kind of objects is never one of the other.
    pub(crate) fn disjoint(&self, a: TableId, b: TableId) -> bool {
        let space =
            |table| self.program.objects.iter().find(|kind| kind.table == table).map(|kind| &kind.id_space);
        a != b && space(a) == space(b)
    }

    pub(crate) fn unify(&self, scope: &mut Scope, a: &Term, b: &Term) -> bool {
        scope.unify(a, b, &|a, b| self.disjoint(a, b))
    }

    /// The values that an expression can have. None if it has no value.
    pub(crate) fn evaluate(&self, scope: Scope, expr: &Expr, variables: Variables<'_>) -> Alternatives<Term> {
        match expr {
            Expr::Constant(value) => vec![(scope, Term::Constant(value.clone()))],
            Expr::Variable(id) => {
                let of_rule = || scope.variables.get(id.0 as usize).cloned().flatten();
                let term = match variables {
                    Variables::OfRule => of_rule(),
                    Variables::Arguments(arguments) => arguments.get(id.0 as usize).cloned(),
                };
                let found = term.map(|term| scope.find(&term));
                found.map(|found| (scope, found)).into_iter().collect()
            }
            Expr::If { condition, then, otherwise } => {
                let conditions = self.evaluate(scope, condition, variables);
                let decided =
                    conditions.into_iter().flat_map(|(scope, condition)| self.decide(scope, &condition));
                decided
                    .flat_map(|(scope, holds)| {
                        self.evaluate(scope, if holds { then } else { otherwise }, variables)
                    })
                    .collect()
            }
            Expr::Call { function, arguments } => {
                let mut open: Alternatives<Vec<Term>> = vec![(scope, Vec::new())];
                for argument in arguments {
                    let next = open.into_iter().flat_map(|(scope, terms)| {
                        let values = self.evaluate(scope, argument, variables);
                        values.into_iter().map(move |(scope, value)| {
                            let terms = terms.iter().cloned().chain([value]).collect();
                            (scope, terms)
                        })
                    });
                    open = next.collect();
                }
                open.into_iter().flat_map(|(scope, terms)| self.apply(scope, function, &terms)).collect()
            }
        }
    }

    /// Splits on a condition, unless it is decided.
    pub(crate) fn decide(&self, scope: Scope, condition: &Term) -> Alternatives<bool> {
        let text = match scope.find(condition) {
            Term::Constant(value) => return vec![(scope, value == Value::Bool(true))],
            Term::Symbol(id) => vec![Token::Symbol(id)],
            Term::Computed(computed) => scope.ground_text(&computed.text),
            Term::Match(_) | Term::Actions(_) => return Vec::new(),
        };
        if let Some(holds) = scope.assumes(&text) {
            return vec![(scope, holds)];
        }
        let branch = |holds: bool| {
            let mut scope = scope.clone();
            scope.assume(text.clone(), holds);
            if matches!(scope.find(condition), Term::Symbol(_)) {
                self.unify(&mut scope, condition, &Term::Constant(Value::Bool(holds)));
            }
            (scope, holds)
        };
        vec![branch(true), branch(false)]
    }

    /// The result of a function.
    fn apply(&self, scope: Scope, function: &Arc<Function>, arguments: &[Term]) -> Alternatives<Term> {
        let constants: Option<Vec<Value>> = arguments
            .iter()
            .map(|argument| match argument {
                Term::Constant(value) => Some(value.clone()),
                _ => None,
            })
            .collect();
        if let Some(values) = constants {
            return match (function.evaluate)(&values) {
                Ok(Results::One(value)) => vec![(scope, Term::Constant(value))],
                // It has no value, or the rule fails.
                _ => Vec::new(),
            };
        }
        if let Some(body) = self.program.functions.get(&*function.name) {
            return self.evaluate(scope, body, Variables::Arguments(arguments));
        }
        let result = result_type(&scope, function, arguments);
        match (&result, &*function.name, arguments) {
            (Type::Match, "&", [a, b]) => {
                let both = as_match(a).zip(as_match(b)).map(|(a, b)| a.and(&b)).unwrap_or_default();
                both.into_iter().map(|both| (scope.clone(), Term::Match(both))).collect()
            }
            (Type::Actions, "++", [a, b]) => {
                let both = self.as_actions(a).into_iter().chain(self.as_actions(b)).collect();
                vec![(scope, Term::Actions(both))]
            }
            (Type::Match | Type::Actions, ..) => probe::call(self.names, scope, function, arguments, &result),
            (Type::Bool, name, arguments) => {
                let value = truth(&scope, name, arguments);
                let term = value.unwrap_or_else(|| self.computed(&scope, function, arguments, result));
                let decided = match &term {
                    Term::Computed(computed) => scope.assumes(&scope.ground_text(&computed.text)),
                    _ => None,
                };
                let decided = decided.map(|holds| Term::Constant(Value::Bool(holds)));
                vec![(scope, decided.unwrap_or(term))]
            }
            _ => {
                let term = self.computed(&scope, function, arguments, result);
                vec![part_of_value(scope, function, arguments, term)]
            }
        }
    }

    /// A call whose value is not known, as text.
    fn computed(&self, scope: &Scope, function: &Function, arguments: &[Term], ty: Type) -> Term {
        let mut texts = arguments.iter().map(|argument| self.text_of(argument));
        let operator = !function.name.starts_with(|c: char| c.is_ascii_alphabetic());
        let mut text = Vec::new();
        if operator && arguments.len() == 2 {
            text.extend(texts.next().unwrap_or_default());
            text.push(Token::Text(format!(" {} ", function.name)));
            text.extend(texts.next().unwrap_or_default());
        } else {
            text.push(Token::Text(format!("{}(", function.name)));
            for (place, argument) in texts.enumerate() {
                if place > 0 {
                    text.push(Token::Text(", ".to_owned()));
                }
                text.extend(argument);
            }
            text.push(Token::Text(")".to_owned()));
        }
        let samples: Option<Vec<Value>> = arguments.iter().map(|argument| sample(scope, argument)).collect();
        let sample = samples.and_then(|samples| match (function.evaluate)(&samples) {
            Ok(Results::One(value)) => Some(value),
            _ => None,
        });
        Term::Computed(Computed { text, ty, sample })
    }

    fn text_of(&self, term: &Term) -> Vec<Token> {
        match term {
            Term::Constant(value) => vec![Token::Text(self.names.constant(value))],
            Term::Symbol(id) => vec![Token::Symbol(*id)],
            Term::Computed(computed) => computed.text.clone(),
            Term::Match(_) => vec![Token::Text("match".to_owned())],
            Term::Actions(_) => vec![Token::Text("actions".to_owned())],
        }
    }

    /// A term of type actions, as a list.
    pub(crate) fn as_actions(&self, term: &Term) -> Vec<Piece> {
        match term {
            Term::Constant(Value::Actions(actions)) => {
                let texts = actions.get().0.into_iter().map(|action| self.names.action(&action));
                texts.map(|text| Piece::One(vec![Token::Text(text)])).collect()
            }
            Term::Actions(pieces) => pieces.clone(),
            other => vec![Piece::Any(self.text_of(other))],
        }
    }
}

/// The type of a result; the plain type, as it is in expressions.
fn result_type(scope: &Scope, function: &Function, arguments: &[Term]) -> Type {
    if let Some(Shape::Is(ty)) = function.results.first().map(|result| &result.shape) {
        return ty.clone();
    }
    let types: Vec<Type> = arguments.iter().map(|argument| type_of(scope, argument)).collect();
    let result = function.result_types(&types).and_then(|types| types.into_iter().next());
    result.unwrap_or(Type::String)
}

fn type_of(scope: &Scope, term: &Term) -> Type {
    match term {
        Term::Symbol(id) => plain(&scope.symbol(*id).ty),
        Term::Computed(computed) => plain(&computed.ty),
        Term::Match(_) | Term::Constant(Value::Match(_)) => Type::Match,
        Term::Actions(_) | Term::Constant(Value::Actions(_)) => Type::Actions,
        Term::Constant(Value::Bool(_)) => Type::Bool,
        Term::Constant(Value::Int(_)) => Type::Int,
        Term::Constant(Value::Mac(_)) => Type::Mac,
        Term::Constant(Value::Ip(_)) => Type::Ip,
        Term::Constant(Value::Net(_)) => Type::Net,
        Term::Constant(_) => Type::String,
    }
}

/// The type without constraints, its elements' included.
fn plain(ty: &Type) -> Type {
    match ty.base() {
        Type::Opt(of) => Type::opt(plain(of)),
        Type::List(of) => Type::list(plain(of)),
        Type::Set(of) => Type::set(plain(of)),
        other => other.clone(),
    }
}

/// A field of a record or the value of an option is a value on its own, with a name of its own.
fn part_of_value(mut scope: Scope, function: &Function, arguments: &[Term], term: Term) -> (Scope, Term) {
    let name = match (function.name.split_once('.'), arguments) {
        (Some((_, field)), _) => field.to_owned(),
        (None, [Term::Symbol(id), ..]) if matches!(&*function.name, "value" | "or_else") => {
            scope.symbol(*id).name.clone()
        }
        _ => return (scope, term),
    };
    let Term::Computed(Computed { text, ty, .. }) = term else { return (scope, term) };
    let id = scope.part(text, &name, &ty);
    (scope, Term::Symbol(id))
}

/// A term of type match, as a match. None only for terms of other types.
pub(crate) fn as_match(term: &Term) -> Option<MatchTerm> {
    match term {
        Term::Constant(Value::Match(of)) => Some(probe::constant_match(&of.get())),
        Term::Match(of) => Some(of.clone()),
        Term::Symbol(id) => Some(MatchTerm { rest: vec![vec![Token::Symbol(*id)]], ..MatchTerm::default() }),
        Term::Computed(computed) => {
            Some(MatchTerm { rest: vec![computed.text.clone()], ..MatchTerm::default() })
        }
        _ => None,
    }
}

/// The value of a condition over values that are not known, if it is certain.
fn truth(scope: &Scope, name: &str, arguments: &[Term]) -> Option<Term> {
    let constant = |holds: bool| Some(Term::Constant(Value::Bool(holds)));
    let is = |term: &Term, value: bool| *term == Term::Constant(Value::Bool(value));
    match (name, arguments) {
        ("&" | "|", [a, b]) => {
            let decisive = name == "|";
            match () {
                () if is(a, decisive) || is(b, decisive) => constant(decisive),
                () if is(a, !decisive) => Some(b.clone()),
                () if is(b, !decisive) => Some(a.clone()),
                () => None,
            }
        }
        ("==", [a, b]) if a == b => constant(true),
        ("!=" | "not_equal", [a, b]) if a == b => constant(false),
        ("is_ipv4" | "is_ipv6", [address]) => {
            let four = match (version(scope, address), address) {
                (Version::Four, _) => true,
                (Version::Six, _) => false,
                (Version::Any, _) => return None,
            };
            constant(four == (name == "is_ipv4"))
        }
        _ => None,
    }
}

/// The IP versions that a term can have.
pub(crate) fn version(scope: &Scope, term: &Term) -> Version {
    match term {
        Term::Symbol(id) => scope.symbol(*id).version,
        Term::Computed(Computed { sample: Some(Value::Ip(ip)), .. }) if ip.is_ipv4() => Version::Four,
        Term::Computed(Computed { sample: Some(Value::Ip(_)), .. }) => Version::Six,
        _ => Version::Any,
    }
}

/// A value that a term can have, if all of them are alike.
fn sample(scope: &Scope, term: &Term) -> Option<Value> {
    match term {
        Term::Constant(value) => Some(value.clone()),
        Term::Computed(computed) => computed.sample.clone(),
        Term::Symbol(id) => {
            let symbol = scope.symbol(*id);
            match (symbol.ty.base(), symbol.version) {
                (Type::Int, _) => Some(Value::Int(1)),
                (Type::Mac, _) => probe::samples(&Type::Mac, Version::Any).into_iter().next(),
                (Type::Ip, Version::Four | Version::Six) => {
                    probe::samples(&Type::Ip, symbol.version).into_iter().next()
                }
                (Type::Bool, _) => Some(Value::Bool(true)),
                _ => None,
            }
        }
        Term::Match(_) | Term::Actions(_) => None,
    }
}

impl Names {
    /// A constant, by its name if it has one of its own.
    pub(crate) fn constant(&self, value: &Value) -> String {
        self.constant_name(value).map_or_else(|| constant(value), ToOwned::to_owned)
    }
}
