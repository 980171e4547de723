//! Aggregates over a group.

use nlog::program::Aggregate;
use nlog_data::{Failure, Value, function};

/// The aggregate of a group, given its arguments for each of the group's distinct tuples.
pub(crate) fn aggregate(aggregate: Aggregate, tuples: &[&[Value]]) -> Result<Value, Failure> {
    let first = || tuples.iter().filter_map(|arguments| arguments.first());
    let pairs = || tuples.iter().filter_map(|arguments| arguments.first().zip(arguments.get(1)));
    let value = match aggregate {
        Aggregate::Count => Some(Value::Int(tuples.len() as i64)),
        Aggregate::Min => first().min().cloned(),
        Aggregate::Max => first().max().cloned(),
        Aggregate::Sum => Some(Value::Int(sum(first())?)),
        Aggregate::Set => Some(Value::set(first().cloned())),
        Aggregate::List => {
            let mut values: Vec<&Value> = first().collect();
            values.sort();
            Some(Value::list(values.into_iter().cloned()))
        }
        Aggregate::ArgMin => pairs().min().map(|(_, value)| value.clone()),
        Aggregate::ArgMax => pairs().max().map(|(_, value)| value.clone()),
    };
    // The checker ensures the number of arguments, and every group has a tuple.
    value.ok_or_else(|| Failure::range(format!("{aggregate:?}: an argument is missing")))
}

/// The sum of all values at once: overflow must not depend on the order of addition.
fn sum<'a>(values: impl Iterator<Item = &'a Value>) -> Result<i64, Failure> {
    let total: i128 = values.map(|value| if let Value::Int(n) = value { i128::from(*n) } else { 0 }).sum();
    i64::try_from(total).map_err(|_| function::sum_overflow(total))
}
