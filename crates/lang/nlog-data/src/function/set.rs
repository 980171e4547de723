//! Sets.

use std::cmp::Ordering;

use super::define::{Any, AnyList, AnySet, Argument, entry};
use super::integer::sum;
use super::{Function, Shape};
use crate::{Type, Value};

/// A set of `int`.
struct IntSet(Vec<i64>);

impl Argument for IntSet {
    fn shape() -> Shape {
        Shape::SetOf(Box::new(Shape::Is(Type::Int)))
    }

    fn read(value: &Value) -> Option<Self> {
        let Value::Set(values) = value else { return None };
        values.iter().map(i64::read).collect::<Option<_>>().map(IntSet)
    }
}

/// Merges two ascending sequences: the elements only in `a`, in both, or only in `b`, as selected; ascending.
fn merge(a: &[Value], b: &[Value], in_a: bool, in_both: bool, in_b: bool) -> AnySet {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut merged = Vec::new();
    loop {
        let order = match (a.peek(), b.peek()) {
            (Some(a), Some(b)) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return AnySet(merged.into()),
        };
        let (value, wanted) = match order {
            Ordering::Less => (a.next(), in_a),
            Ordering::Greater => (b.next(), in_b),
            Ordering::Equal => (a.next().and(b.next()), in_both),
        };
        merged.extend(value.filter(|_| wanted).cloned());
    }
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = elements();
    functions.extend(algebra());
    functions
}

fn elements() -> Vec<Function> {
    vec![
        entry("element(set) -> x", "Every element of the set.")
            .example("{2, 1}", "(1) (2)")
            .example("{}", "none")
            .unary(|AnySet(set): AnySet| set.iter().cloned().map(Any).collect::<Vec<_>>()),
        entry("size(set) -> count", "The number of elements in the set.")
            .example("{1, 2, 2}", "2")
            .example("{}", "0")
            .unary(|AnySet(set): AnySet| set.len() as i64),
        entry("contains(set, x) -> holds", "True if x is an element of the set.")
            .example("{1, 3}, 3", "true")
            .example("{1, 3}, 2", "false")
            .binary(|AnySet(set): AnySet, Any(x): Any| set.binary_search(&x).is_ok()),
        entry("min_of(set) -> least", "The smallest element of the set. No result for an empty set.")
            .example("{3, 1}", "1")
            .example("{}", "none")
            .unary(|AnySet(set): AnySet| set.first().cloned().map(Any)),
        entry("max_of(set) -> greatest", "The largest element of the set. No result for an empty set.")
            .example("{3, 1}", "3")
            .example("{}", "none")
            .unary(|AnySet(set): AnySet| set.last().cloned().map(Any)),
        entry("sum_of(set) -> sum", "The sum of the integers in the set.")
            .example("{1, 2, 2}", "3")
            .example("{}", "0")
            .example("{-9223372036854775808, -1, 9223372036854775807}", "-2")
            .example("{1, 9223372036854775807}", "error overflow")
            .unary(|IntSet(integers): IntSet| sum(&integers)),
        entry("to_list(set) -> list", "The elements of the set in ascending order.")
            .example("{2, 1}", "[1, 2]")
            .example("{}", "[]")
            .unary(|AnySet(set): AnySet| AnyList(set)),
    ]
}

fn algebra() -> Vec<Function> {
    vec![
        entry("union(a, b) -> set", "The union of the sets.")
            .example("{1, 2}, {2, 3}", "{1, 2, 3}")
            .example("{}, {1}", "{1}")
            .binary(|AnySet(a): AnySet, AnySet(b): AnySet| merge(&a, &b, true, true, true)),
        entry("intersection(a, b) -> set", "The intersection of the sets.")
            .example("{1, 2}, {2, 3}", "{2}")
            .example("{1}, {2}", "{}")
            .binary(|AnySet(a): AnySet, AnySet(b): AnySet| merge(&a, &b, false, true, false)),
        entry("difference(a, b) -> set", "The elements of a that are not in b.")
            .example("{1, 2}, {2, 3}", "{1}")
            .example("{}, {1}", "{}")
            .binary(|AnySet(a): AnySet, AnySet(b): AnySet| merge(&a, &b, true, false, false)),
        entry("is_subset(set, of) -> holds", "True if every element of the first set is in the second.")
            .example("{1, 2}, {1, 2, 3}", "true")
            .example("{1, 4}, {1, 2, 3}", "false")
            .example("{}, {}", "true")
            .binary(|AnySet(set): AnySet, AnySet(of): AnySet| {
                set.iter().all(|value| of.binary_search(value).is_ok())
            }),
        entry("with(set, x) -> set", "The set with x added.")
            .example("{1, 3}, 2", "{1, 2, 3}")
            .example("{1}, 1", "{1}")
            .binary(|AnySet(set): AnySet, Any(x): Any| merge(&set, &[x], true, true, true)),
        entry("without(set, x) -> set", "The set with x removed.")
            .example("{1, 2}, 2", "{1}")
            .example("{1, 2}, 3", "{1, 2}")
            .binary(|AnySet(set): AnySet, Any(x): Any| merge(&set, &[x], true, false, false)),
    ]
}
