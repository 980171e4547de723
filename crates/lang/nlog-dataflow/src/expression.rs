//! Executable expressions over symbols.
//!
//! A call converts its arguments to values and interns its result. A call site therefore caches results, unless all
//! values are integers or truth values, which are computed as fast as they are looked up. Caches hold symbols, so they
//! must be cleared before unused symbols are collected.

use std::sync::Arc;

use nlog_data::function::{Results, Shape};
use nlog_data::{Function, Type, Value};
use nlog_plan::Scalar;

use crate::memo::Memo;
use crate::symbol::{FALSE, NO_FAILURE, NONE, Symbol, Symbols, TRUE, is_failure};

/// An expression over slots.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Slot(usize),
    Constant(Symbol),
    /// `==` (true) or `!=` (false), which compare symbols.
    Compare(Box<[Expression; 2]>, bool),
    Call(Box<Call>),
    If(Box<[Expression; 3]>),
}

/// A call site of a function.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    function: Arc<Function>,
    arguments: Vec<Expression>,
    /// None if computing a result costs no more than looking it up.
    memo: Option<Memo>,
    words: Vec<Symbol>,
    values: Vec<Value>,
}

impl Expression {
    pub(crate) fn new(scalar: &Scalar, symbols: &Symbols) -> Self {
        match scalar {
            Scalar::Slot(slot) => Expression::Slot(*slot),
            Scalar::Constant(value) => Expression::Constant(symbols.intern(value)),
            Scalar::Call { function, arguments } => {
                let mut compiled: Vec<Expression> =
                    arguments.iter().map(|argument| Expression::new(argument, symbols)).collect();
                let comparison = match &*function.name {
                    "==" => Some(true),
                    "!=" | "not_equal" => Some(false),
                    _ => None,
                };
                match (comparison, compiled.pop(), compiled.pop(), compiled.is_empty()) {
                    (Some(equal), Some(b), Some(a), true) => Expression::Compare(Box::new([a, b]), equal),
                    (_, last, before, _) => {
                        compiled.extend(before);
                        compiled.extend(last);
                        Expression::Call(Box::new(Call::new(function.clone(), compiled)))
                    }
                }
            }
            Scalar::If { condition, then, otherwise } => {
                let branches = [condition, then, otherwise].map(|scalar| Expression::new(scalar, symbols));
                Expression::If(Box::new(branches))
            }
        }
    }

    /// The value, a failure, or [`NONE`].
    #[inline]
    pub(crate) fn evaluate(&mut self, frame: &[Symbol], symbols: &Symbols) -> Symbol {
        match self {
            Expression::Slot(slot) => frame[*slot],
            Expression::Constant(symbol) => *symbol,
            Expression::Compare(sides, equal) => {
                let [a, b] = &mut **sides;
                let (a, b) = (a.evaluate(frame, symbols), b.evaluate(frame, symbols));
                if is_failure(a) || is_failure(b) {
                    return combine(a, b, symbols);
                }
                if (a == b) == *equal { TRUE } else { FALSE }
            }
            Expression::Call(call) => call.evaluate(frame, symbols),
            Expression::If(branches) => {
                let [condition, then, otherwise] = &mut **branches;
                match condition.evaluate(frame, symbols) {
                    TRUE => then.evaluate(frame, symbols),
                    FALSE => otherwise.evaluate(frame, symbols),
                    undetermined => undetermined,
                }
            }
        }
    }

    /// Clears the caches of calls.
    pub(crate) fn forget(&mut self) {
        match self {
            Expression::Slot(_) | Expression::Constant(_) => {}
            Expression::Compare(sides, _) => sides.iter_mut().for_each(Expression::forget),
            Expression::Call(call) => {
                call.memo = call.memo.take().map(|_| Memo::default());
                call.arguments.iter_mut().for_each(Expression::forget);
            }
            Expression::If(branches) => branches.iter_mut().for_each(Expression::forget),
        }
    }

    /// Visits every constant in the expression.
    pub(crate) fn constants(&self, each: &mut impl FnMut(Symbol)) {
        match self {
            Expression::Slot(_) => {}
            Expression::Constant(symbol) => each(*symbol),
            Expression::Compare(sides, _) => sides.iter().for_each(|side| side.constants(each)),
            Expression::Call(call) => call.arguments.iter().for_each(|argument| argument.constants(each)),
            Expression::If(branches) => branches.iter().for_each(|branch| branch.constants(each)),
        }
    }
}

/// The result of an expression some of whose arguments have no value: [`NONE`] if any argument is, otherwise the
/// least failure.
fn combine(one: Symbol, other: Symbol, symbols: &Symbols) -> Symbol {
    let failure = |symbol| if is_failure(symbol) { symbol } else { NO_FAILURE };
    if one == NONE || other == NONE { NONE } else { symbols.least_failure(failure(one), failure(other)) }
}

/// Evaluates arguments. If one fails or has no value, the error is the result of the whole expression, and its function
/// is not called.
pub(crate) fn evaluate_all(
    arguments: &mut [Expression],
    frame: &[Symbol],
    symbols: &Symbols,
    words: &mut Vec<Symbol>,
) -> Result<(), Symbol> {
    words.clear();
    let mut undetermined = NO_FAILURE;
    for argument in arguments {
        let word = argument.evaluate(frame, symbols);
        if is_failure(word) {
            undetermined = combine(undetermined, word, symbols);
        }
        words.push(word);
    }
    if undetermined == NO_FAILURE { Ok(()) } else { Err(undetermined) }
}

impl Call {
    fn new(function: Arc<Function>, arguments: Vec<Expression>) -> Self {
        let is_plain = |shape: &Shape| matches!(shape, Shape::Is(Type::Int | Type::Bool));
        let cheap = function.parameters.iter().chain(&function.results).all(|column| is_plain(&column.shape));
        let memo = (!cheap).then(Memo::default);
        Call { function, arguments, memo, words: Vec::new(), values: Vec::new() }
    }

    fn evaluate(&mut self, frame: &[Symbol], symbols: &Symbols) -> Symbol {
        if let Err(undetermined) = evaluate_all(&mut self.arguments, frame, symbols, &mut self.words) {
            return undetermined;
        }
        if let Some(found) = self.memo.as_mut().and_then(|memo| memo.get(&self.words)) {
            return found;
        }
        self.values.clear();
        self.values.extend(self.words.iter().map(|word| symbols.value(*word)));
        let result = match (self.function.evaluate)(&self.values) {
            Ok(Results::One(value)) => symbols.intern_owned(value),
            Ok(Results::None) => NONE,
            Ok(Results::Many(_)) => {
                unreachable!("the checker lets functions with many results be atoms only")
            }
            Err(failure) => symbols.fail(failure),
        };
        if let Some(memo) = &mut self.memo {
            memo.insert(&self.words, result);
        }
        result
    }
}

/// A binding in a pipeline.
#[derive(Debug, Default)]
pub(crate) struct Binding {
    /// Values by slot.
    pub(crate) slots: Vec<Symbol>,
    /// The least failure that no slot holds.
    pub(crate) failure: Symbol,
}

impl Binding {
    /// The least failure of all, including those in slots.
    #[inline]
    pub(crate) fn least_failure(&self, symbols: &Symbols) -> Symbol {
        self.slots
            .iter()
            .filter(|slot| is_failure(**slot))
            .fold(self.failure, |least, slot| symbols.least_failure(least, *slot))
    }
}
