//! Domains: the values that a variable or column can have.

use std::collections::BTreeSet;
use std::sync::Arc;

use nlog_data::Value;

/// A larger set counts as [`Domain::Anything`]: nobody reads a longer list.
const MOST_VALUES: usize = 16;

/// A superset of the values that something can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Domain {
    /// Only the type is known.
    Anything,
    /// Integers from the first to the second, both included.
    Between(i64, i64),
    /// One of these values, ascending.
    OneOf(Arc<[Value]>),
}

impl Domain {
    pub(super) fn only(value: Value) -> Self {
        Domain::OneOf(Arc::from([value]))
    }

    pub(super) fn nothing() -> Self {
        Domain::OneOf(Arc::default())
    }

    pub(super) fn values(values: impl IntoIterator<Item = Value>) -> Self {
        let mut set = BTreeSet::new();
        for value in values {
            set.insert(value);
            if set.len() > MOST_VALUES {
                return Domain::Anything;
            }
        }
        Domain::OneOf(set.into_iter().collect())
    }

    fn one_of<'v>(values: impl Iterator<Item = &'v Value>) -> Self {
        Domain::OneOf(values.cloned().collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Domain::Anything => false,
            Domain::Between(low, high) => low > high,
            Domain::OneOf(values) => values.is_empty(),
        }
    }

    /// The value, if there is only one.
    pub(super) fn single(&self) -> Option<&Value> {
        match self {
            Domain::OneOf(values) if values.len() == 1 => values.first(),
            _ => None,
        }
    }

    /// The values that are in both.
    pub(super) fn and(&self, other: &Domain) -> Domain {
        match (self, other) {
            (Domain::Anything, known) | (known, Domain::Anything) => known.clone(),
            (Domain::OneOf(a), Domain::OneOf(b)) if a == b => self.clone(),
            (Domain::OneOf(a), Domain::OneOf(b)) => {
                Domain::one_of(a.iter().filter(|value| b.contains(value)))
            }
            (Domain::OneOf(values), Domain::Between(low, high))
            | (Domain::Between(low, high), Domain::OneOf(values)) => {
                let within = |value: &&Value| matches!(value, Value::Int(int) if (low..=high).contains(&int));
                Domain::one_of(values.iter().filter(within))
            }
            (Domain::Between(a, b), Domain::Between(c, d)) => Domain::between(*a.max(c), *b.min(d)),
        }
    }

    /// The union of the two.
    pub(super) fn or(&self, other: &Domain) -> Domain {
        match (self, other) {
            (Domain::OneOf(a), Domain::OneOf(b)) => Domain::values(a.iter().chain(&**b).cloned()),
            (empty, other) | (other, empty) if empty.is_empty() => other.clone(),
            _ => Domain::Anything,
        }
    }

    /// The values but for one.
    pub(super) fn without(&self, value: &Value) -> Domain {
        match (self, value) {
            (Domain::OneOf(values), value) => Domain::one_of(values.iter().filter(|other| *other != value)),
            (Domain::Between(low, high), Value::Int(int)) if low == int => {
                int.checked_add(1).map_or_else(Domain::nothing, |low| Domain::between(low, *high))
            }
            (Domain::Between(low, high), Value::Int(int)) if high == int => {
                int.checked_sub(1).map_or_else(Domain::nothing, |high| Domain::between(*low, high))
            }
            (known, _) => known.clone(),
        }
    }

    fn between(low: i64, high: i64) -> Domain {
        if low == high { Domain::only(Value::Int(low)) } else { Domain::Between(low, high) }
    }

    /// The least and the greatest integer; the full range if nothing is known.
    pub(super) fn bounds(&self) -> (i64, i64) {
        match self {
            Domain::Anything => (i64::MIN, i64::MAX),
            Domain::Between(low, high) => (*low, *high),
            Domain::OneOf(values) => match (values.first(), values.last()) {
                (Some(Value::Int(low)), Some(Value::Int(high))) => (*low, *high),
                _ => (i64::MIN, i64::MAX),
            },
        }
    }

    /// In words: `1`, `1, 2 or 3`, `at least 5`.
    pub(super) fn describe(&self) -> String {
        match self {
            Domain::Anything => "anything".to_owned(),
            Domain::Between(i64::MIN, high) => format!("at most {high}"),
            Domain::Between(low, i64::MAX) => format!("at least {low}"),
            Domain::Between(low, high) => format!("between {low} and {high}"),
            Domain::OneOf(values) => {
                let shown: Vec<String> = values.iter().take(4).map(ToString::to_string).collect();
                match shown.as_slice() {
                    [] => "nothing".to_owned(),
                    [one] => one.clone(),
                    several if values.len() > shown.len() => format!("one of {}, …", several.join(", ")),
                    [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(values: &[i64]) -> Domain {
        Domain::values(values.iter().map(|&value| Value::Int(value)))
    }

    #[test]
    fn both_is_what_is_in_both() {
        assert_eq!(ints(&[1, 2, 3]).and(&ints(&[2, 3, 4])), ints(&[2, 3]));
        assert_eq!(ints(&[1, 5, 9]).and(&Domain::Between(2, 7)), ints(&[5]));
        assert_eq!(Domain::Between(1, 4).and(&Domain::Between(4, 9)), ints(&[4]));
        assert!(Domain::Between(i64::MIN, 2).and(&Domain::Between(6, i64::MAX)).is_empty());
    }

    #[test]
    fn one_or_the_other_is_no_longer_known_once_it_is_long() {
        assert_eq!(ints(&[1]).or(&ints(&[2])), ints(&[1, 2]));
        assert_eq!(Domain::values((0..17).map(Value::Int)), Domain::Anything);
        assert_eq!(Domain::nothing().or(&Domain::Between(1, 2)), Domain::Between(1, 2));
    }

    #[test]
    fn an_excluded_value_moves_a_bound() {
        assert_eq!(Domain::Between(1, 3).without(&Value::Int(1)), Domain::Between(2, 3));
        assert_eq!(Domain::Between(1, 2).without(&Value::Int(2)), ints(&[1]));
        assert_eq!(Domain::Between(1, 9).without(&Value::Int(4)), Domain::Between(1, 9));
    }
}
