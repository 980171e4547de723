//! Sets, lists and ranges of integers.

use super::define::{Any, AnyList, AnySet, entry};
use super::{Failure, Function};
use crate::Value;

/// The most integers that `range` gives: a mistake in a bound must not fill the memory.
const LONGEST_RANGE: u64 = 1 << 24;

fn range(from: i64, to: i64) -> Result<Vec<i64>, Failure> {
    if from < to && from.abs_diff(to) > LONGEST_RANGE {
        return Err(Failure::range(format!("range({from}, {to}): more than {LONGEST_RANGE} integers")));
    }
    Ok((from..to).collect())
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = sets();
    functions.extend(lists());
    functions.push(
        entry(
            "range(from, to) -> i",
            "Every integer from `from` up to, but not with, `to`; at most 2^24 of them.",
        )
        .example("1, 4", "(1) (2) (3)")
        .example("-1, 1", "(-1) (0)")
        .example("4, 4", "none")
        .example("4, 1", "none")
        .example("0, 16777217", "error range")
        .example("-9223372036854775808, 9223372036854775807", "error range")
        .binary(range),
    );
    functions
}

fn sets() -> Vec<Function> {
    vec![
        entry("element(set) -> x", "Every element of the set.")
            .example("{2, 1}", "(1) (2)")
            .example("{}", "none")
            .unary(|AnySet(set): AnySet| set.iter().cloned().map(Any).collect::<Vec<_>>()),
        entry("size(set) -> count", "How many elements the set has.")
            .example("{1, 2, 2}", "2")
            .example("{}", "0")
            .unary(|AnySet(set): AnySet| set.len() as i64),
        entry("contains(set, x) -> holds", "Whether x is an element of the set.")
            .example("{1, 3}, 3", "true")
            .example("{1, 3}, 2", "false")
            .binary(|AnySet(set): AnySet, Any(x): Any| set.binary_search(&x).is_ok()),
        entry("to_list(set) -> list", "The elements of the set, ascending.")
            .example("{2, 1}", "[1, 2]")
            .example("{}", "[]")
            .unary(|AnySet(set): AnySet| AnyList(set)),
    ]
}

fn lists() -> Vec<Function> {
    vec![
        entry("++(a, b) -> list", "One list after the other.")
            .example("[2], [1, 2]", "[2, 1, 2]")
            .example("[], []", "[]")
            .binary(|AnyList(a): AnyList, AnyList(b): AnyList| {
                AnyList(a.iter().chain(b.iter()).cloned().collect())
            }),
        entry("element(list) -> x", "Every element of the list.")
            .example("[2, 1]", "(2) (1)")
            .example("[]", "none")
            .unary(|AnyList(list): AnyList| list.iter().cloned().map(Any).collect::<Vec<_>>()),
        entry("element_at(list) -> (rank, x)", "Every element of the list with its position, from 0.")
            .example(r#"["geneve", "vxlan"]"#, r#"(0, "geneve") (1, "vxlan")"#)
            .example("[7, 7]", "(0, 7) (1, 7)")
            .example("[]", "none")
            .unary(|AnyList(list): AnyList| (0_i64..).zip(list.iter().cloned().map(Any)).collect::<Vec<_>>()),
        entry("size(list) -> count", "How many elements the list has.")
            .example("[1, 2, 2]", "3")
            .example("[]", "0")
            .unary(|AnyList(list): AnyList| list.len() as i64),
        entry("contains(list, x) -> holds", "Whether x is an element of the list.")
            .example("[3, 1], 3", "true")
            .example("[3, 1], 2", "false")
            .binary(|AnyList(list): AnyList, Any(x): Any| list.contains(&x)),
        entry("to_set(list) -> set", "The elements of the list as a set.")
            .example("[2, 1, 2]", "{1, 2}")
            .example("[]", "{}")
            .unary(|AnyList(list): AnyList| match Value::set(list.iter().cloned()) {
                Value::Set(set) => AnySet(set),
                _ => AnySet([].into()),
            }),
    ]
}
