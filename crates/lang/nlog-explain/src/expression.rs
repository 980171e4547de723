//! Evaluates expressions under a binding.

use nlog::program::{Expr, VariableId};
use nlog_data::{Failure, Function, Results, Value};

/// The value of each variable by number; none if it is undetermined, or not bound yet and so not needed.
pub(crate) type Values = Vec<Option<Value>>;

/// The outcome of an expression.
pub(crate) enum Outcome<T> {
    /// A value.
    Value(T),
    /// No value: the binding yields no tuple.
    Nothing,
    /// It failed, or depends on something that did.
    Undetermined,
}

/// Evaluates an expression. Failures are added to the list; they count if the binding is not rejected.
pub(crate) fn evaluate(expr: &Expr, values: &Values, failures: &mut Vec<Failure>) -> Outcome<Value> {
    match expr {
        Expr::Constant(value) => Outcome::Value(value.clone()),
        Expr::Variable(variable) => match value_of(*variable, values) {
            Some(value) => Outcome::Value(value.clone()),
            None => Outcome::Undetermined,
        },
        Expr::If { condition, then, otherwise } => match evaluate(condition, values, failures) {
            Outcome::Value(Value::Bool(true)) => evaluate(then, values, failures),
            Outcome::Value(_) => evaluate(otherwise, values, failures),
            rejected_or_undetermined => rejected_or_undetermined,
        },
        Expr::Call { function, arguments } => match call(function, arguments, values, failures) {
            Outcome::Value(results) => {
                match results.into_iter().next().and_then(|row| row.into_iter().next()) {
                    Some(value) => Outcome::Value(value),
                    None => Outcome::Nothing,
                }
            }
            Outcome::Nothing => Outcome::Nothing,
            Outcome::Undetermined => Outcome::Undetermined,
        },
    }
}

/// Calls a function: its result tuples.
pub(crate) fn call(
    function: &Function,
    arguments: &[Expr],
    values: &Values,
    failures: &mut Vec<Failure>,
) -> Outcome<Vec<Vec<Value>>> {
    let outcomes: Vec<_> = arguments.iter().map(|argument| evaluate(argument, values, failures)).collect();
    if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Nothing)) {
        return Outcome::Nothing;
    }
    let mut determined = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Value(value) => determined.push(value),
            _ => return Outcome::Undetermined,
        }
    }
    match (function.evaluate)(&determined) {
        Ok(Results::None) => Outcome::Value(vec![]),
        Ok(Results::One(value)) => Outcome::Value(vec![vec![value]]),
        Ok(Results::Many(tuples)) => Outcome::Value(tuples.iter().map(<[Value]>::to_vec).collect()),
        Err(failure) => {
            failures.push(failure);
            Outcome::Undetermined
        }
    }
}

fn value_of(variable: VariableId, values: &Values) -> Option<&Value> {
    values.get(variable.0 as usize)?.as_ref()
}

/// The variables of an expression.
pub(crate) fn variables(expr: &Expr, found: &mut impl FnMut(VariableId)) {
    match expr {
        Expr::Constant(_) => {}
        Expr::Variable(variable) => found(*variable),
        Expr::Call { arguments, .. } => arguments.iter().for_each(|argument| variables(argument, found)),
        Expr::If { condition, then, otherwise } => {
            for part in [condition, then, otherwise] {
                variables(part, found);
            }
        }
    }
}
