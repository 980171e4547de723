//! Evaluates the body of a function of the program.

use nlog_data::function::Results;
use nlog_data::{Failure, Value};

use super::size;
use crate::program::Expr;

/// The value of an expression whose variables are the arguments, by number; none if a function in it has none.
///
/// The semantics of failures is that of [`Rule`](crate::program::Rule): if an argument of a call has no value, the call has none,
/// whatever else failed; otherwise it fails with the least of its arguments' failures. A value that would be too large is a failure.
pub(super) fn evaluate(expr: &Expr, arguments: &[Value]) -> Result<Option<Value>, Failure> {
    match expr {
        Expr::Variable(variable) => Ok(arguments.get(variable.0 as usize).cloned()),
        Expr::Constant(value) => Ok(Some(value.clone())),
        Expr::If { condition, then, otherwise } => match evaluate(condition, arguments)? {
            Some(Value::Bool(true)) => evaluate(then, arguments),
            Some(_) => evaluate(otherwise, arguments),
            None => Ok(None),
        },
        Expr::Call { function, arguments: operands } => {
            let mut values = Vec::with_capacity(operands.len());
            let mut failure: Option<Failure> = None;
            for operand in operands {
                match evaluate(operand, arguments) {
                    Ok(Some(value)) => values.push(value),
                    Ok(None) => return Ok(None),
                    Err(other) => {
                        failure = Some(failure.map_or(other.clone(), |failure| failure.min(other)));
                    }
                }
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
            size::check(function, &values)?;
            match (function.evaluate)(&values)? {
                Results::One(value) => Ok(Some(value)),
                // The checker allows no function with many results in an expression.
                Results::None | Results::Many(_) => Ok(None),
            }
        }
    }
}
