//! Aggregates over a group's tuples.

use nlog::program::Aggregate;
use nlog_data::{Failure, Value, function};

use crate::symbol::{Symbol, Symbols};

/// Computes an aggregate over one or more tuples of arguments.
pub(crate) fn compute(
    aggregate: Aggregate,
    tuples: &[Vec<Symbol>],
    symbols: &Symbols,
) -> Result<Value, Failure> {
    let column = |at: usize| tuples.iter().map(move |tuple| symbols.value(tuple[at]));
    let extreme = |values: Option<Value>| values.ok_or_else(|| Failure::range("an aggregate of nothing"));
    Ok(match aggregate {
        Aggregate::Count => Value::Int(tuples.len() as i64),
        Aggregate::Min => extreme(column(0).min())?,
        Aggregate::Max => extreme(column(0).max())?,
        Aggregate::Sum => {
            let total: i128 =
                column(0).map(|value| if let Value::Int(value) = value { value.into() } else { 0 }).sum();
            Value::Int(i64::try_from(total).map_err(|_| function::sum_overflow(total))?)
        }
        Aggregate::Set => {
            let mut values: Vec<Value> = column(0).collect();
            values.sort_unstable();
            values.dedup();
            Value::Set(values.into())
        }
        Aggregate::List => {
            let mut values: Vec<Value> = column(0).collect();
            values.sort_unstable();
            Value::List(values.into())
        }
        Aggregate::ArgMin => extreme(column(0).zip(column(1)).min().map(|(_, value)| value))?,
        Aggregate::ArgMax => extreme(column(0).zip(column(1)).max().map(|(_, value)| value))?,
    })
}
