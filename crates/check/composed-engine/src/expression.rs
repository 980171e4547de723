//! Expressions, functions and aggregates over plain values.

use nlog::program::Aggregate;
use nlog_data::{Failure, Function, Results, Value, function};
use nlog_plan::Scalar;

use crate::row::Cell;

/// The value of an expression or its failure. `None` if it has no result, which drops the binding.
pub(crate) fn evaluate(scalar: &Scalar, slots: &[Cell]) -> Option<Cell> {
    match scalar {
        Scalar::Slot(slot) => Some(slots[*slot].clone()),
        Scalar::Constant(value) => Some(Ok(value.clone())),
        Scalar::If { condition, then, otherwise } => match evaluate(condition, slots)? {
            Ok(Value::Bool(true)) => evaluate(then, slots),
            Ok(_) => evaluate(otherwise, slots),
            Err(failure) => Some(Err(failure)),
        },
        Scalar::Call { function, arguments } => match call(function, arguments, slots)? {
            Ok(Results::One(value)) => Some(Ok(value)),
            Ok(Results::None) => None,
            Ok(Results::Many(_)) => {
                unreachable!("the checker lets functions with many results be atoms only")
            }
            Err(failure) => Some(Err(failure)),
        },
    }
}

/// The results of a function, its failure, or the least failure of its arguments. `None` if an argument has no result.
pub(crate) fn call(
    function: &Function,
    arguments: &[Scalar],
    slots: &[Cell],
) -> Option<Result<Results, Failure>> {
    let arguments = arguments.iter().map(|argument| evaluate(argument, slots));
    let arguments = arguments.collect::<Option<Vec<Cell>>>()?;
    Some(match least_failure(&arguments) {
        Some(failure) => Err(failure),
        None => (function.evaluate)(&arguments.into_iter().flatten().collect::<Vec<Value>>()),
    })
}

/// The least failure among cells.
pub(crate) fn least_failure(cells: &[Cell]) -> Option<Failure> {
    cells.iter().filter_map(|cell| cell.as_ref().err()).min().cloned()
}

/// An aggregate of a group, from its arguments for each of the group's distinct tuples.
pub(crate) fn aggregate(aggregate: Aggregate, tuples: &[Vec<Value>]) -> Cell {
    let first = || tuples.iter().map(|arguments| &arguments[0]);
    let pairs = || tuples.iter().map(|arguments| (&arguments[0], &arguments[1]));
    let found = match aggregate {
        Aggregate::Count => return Ok(Value::Int(tuples.len() as i64)),
        Aggregate::Sum => {
            let integer = |value: &Value| if let Value::Int(value) = value { i128::from(*value) } else { 0 };
            let total: i128 = first().map(integer).sum();
            return i64::try_from(total).map(Value::Int).map_err(|_| function::sum_overflow(total));
        }
        Aggregate::Set => return Ok(Value::set(first().cloned())),
        Aggregate::List => {
            let mut values: Vec<&Value> = first().collect();
            values.sort();
            return Ok(Value::list(values.into_iter().cloned()));
        }
        Aggregate::Min => first().min(),
        Aggregate::Max => first().max(),
        Aggregate::ArgMin => pairs().min().map(|(_, value)| value),
        Aggregate::ArgMax => pairs().max().map(|(_, value)| value),
    };
    Ok(found.expect("a group has a tuple").clone())
}
