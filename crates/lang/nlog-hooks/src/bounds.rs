//! Rows that end with the bounds of a number, and rows that end with the number: what `hold` and `pick` read and fill.

use std::collections::BTreeMap;

use nlog_data::quotation::quote_row;
use nlog_data::{Row, TableDelta, Value};

/// Between which numbers one is, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

impl Bounds {
    /// How many numbers are between them.
    pub(crate) fn size(self) -> u128 {
        u128::from(self.high.abs_diff(self.low)) + 1
    }

    /// The number at this distance from the low bound, which is less than the size.
    pub(crate) fn at(self, distance: u128) -> i64 {
        self.low.wrapping_add_unsigned(distance as u64)
    }

    pub(crate) fn contains(self, number: i64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    /// Whether just one number is between them.
    pub(crate) fn is_one(self) -> bool {
        self.low == self.high
    }
}

/// The key and the bounds of a row of the source.
///
/// # Errors
/// The row does not end with bounds, or the low one is greater.
fn parts(row: &Row) -> Result<(Row, Bounds), String> {
    let [key @ .., Value::Int(low), Value::Int(high)] = row.as_slice() else {
        return Err(format!("{} does not end with two numbers", quote_row(row)));
    };
    if low > high {
        return Err(format!(
            "{} has the low bound {low} and the high bound {high}; derive bounds of which the low one is not greater",
            quote_row(key)
        ));
    }
    Ok((key.to_vec(), Bounds { low: *low, high: *high }))
}

/// The bounds that the changes of the source give keys, or take away.
///
/// # Errors
/// A row does not end with bounds, or the low one is greater.
pub(crate) fn changed(source: &TableDelta) -> Result<BTreeMap<Row, Option<Bounds>>, String> {
    let mut bounds = BTreeMap::new();
    for row in &source.delete {
        bounds.insert(parts(row)?.0, None);
    }
    for row in &source.insert {
        let (key, new) = parts(row)?;
        bounds.insert(key, Some(new));
    }
    Ok(bounds)
}

/// The changes of the target, given what it had for these keys, and what it has.
pub(crate) fn difference(
    before: BTreeMap<Row, Option<i64>>,
    after: impl Fn(&Row) -> Option<i64>,
) -> TableDelta {
    let mut target = TableDelta::default();
    for (key, before) in before {
        let after = after(&key);
        if before != after {
            target.delete.extend(before.map(|number| numbered(&key, number)));
            target.insert.extend(after.map(|number| numbered(&key, number)));
        }
    }
    target
}

/// A row of the target.
pub(crate) fn numbered(key: &Row, number: i64) -> Row {
    key.iter().cloned().chain([Value::Int(number)]).collect()
}

/// The key and the number of a row of the target.
///
/// # Errors
/// The row does not end with a number.
pub(crate) fn target_parts(mut row: Row) -> Result<(Row, i64), String> {
    match row.pop() {
        Some(Value::Int(number)) => Ok((row, number)),
        _ => Err("a row does not end with a number".to_owned()),
    }
}
