//! Lists. Positions count from 0.

use std::collections::HashSet;

use super::define::{Any, AnyList, AnySet, entry};
use super::integer::sum;
use super::{Failure, Function};
use crate::Value;
use crate::quotation::grouped;

/// The element at a position.
fn at(list: &[Value], rank: i64) -> Option<Any> {
    list.get(usize::try_from(rank).ok()?).cloned().map(Any)
}

fn slice(list: &[Value], from: i64, to: i64) -> Option<AnyList> {
    let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
    list.get(from..to).map(|part| AnyList(part.into()))
}

/// The longest list that `++` returns, so that rules that double a list do not exhaust memory.
const LONGEST_LIST: usize = 1 << 24;

fn concatenation(a: &[Value], b: &[Value]) -> Result<AnyList, Failure> {
    let count = a.len().saturating_add(b.len());
    if count > LONGEST_LIST {
        let count = grouped(count);
        return Err(Failure::range(format!(
            "++: a list of {count} elements; at most {LONGEST_LIST} are possible"
        )));
    }
    Ok(AnyList(a.iter().chain(b.iter()).cloned().collect()))
}

fn sorted(list: &[Value]) -> AnyList {
    let mut values = list.to_vec();
    values.sort();
    AnyList(values.into())
}

fn distinct(list: &[Value]) -> AnyList {
    let mut seen = HashSet::new();
    AnyList(list.iter().filter(|value| seen.insert(*value)).cloned().collect())
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = elements();
    functions.extend(whole());
    functions
}

fn elements() -> Vec<Function> {
    vec![
        entry("element(list) -> x", "Every element of the list.")
            .example("[2, 1]", "(2) (1)")
            .example("[]", "none")
            .unary(|AnyList(list): AnyList| list.iter().cloned().map(Any).collect::<Vec<_>>()),
        entry("element_at(list) -> (rank, x)", "Every element of the list with its position, starting at 0.")
            .example(r#"["geneve", "vxlan"]"#, r#"(0, "geneve") (1, "vxlan")"#)
            .example("[7, 7]", "(0, 7) (1, 7)")
            .example("[]", "none")
            .unary(|AnyList(list): AnyList| (0_i64..).zip(list.iter().cloned().map(Any)).collect::<Vec<_>>()),
        entry(
            "at(list, rank) -> x",
            "The element at a position, starting at 0. No result if the list is \
        shorter.",
        )
        .example(r#"["geneve", "vxlan"], 1"#, r#""vxlan""#)
        .example(r#"["geneve", "vxlan"], 2"#, "none")
        .example(r#"["geneve", "vxlan"], -1"#, "none")
        .binary(|AnyList(list): AnyList, rank: i64| at(&list, rank)),
        entry("first(list) -> x", "The first element of the list. No result for an empty list.")
            .example("[2, 1]", "2")
            .example("[]", "none")
            .unary(|AnyList(list): AnyList| list.first().cloned().map(Any)),
        entry("last(list) -> x", "The last element of the list. No result for an empty list.")
            .example("[2, 1]", "1")
            .example("[]", "none")
            .unary(|AnyList(list): AnyList| list.last().cloned().map(Any)),
        entry("min_of(list) -> least", "The smallest element of the list. No result for an empty list.")
            .example("[2, 1, 3]", "1")
            .example("[]", "none")
            .unary(|AnyList(list): AnyList| list.iter().min().cloned().map(Any)),
        entry("max_of(list) -> greatest", "The largest element of the list. No result for an empty list.")
            .example("[2, 3, 1]", "3")
            .example("[]", "none")
            .unary(|AnyList(list): AnyList| list.iter().max().cloned().map(Any)),
        entry("sum_of(list) -> sum", "The sum of the integers in the list.")
            .example("[1, 2, 2]", "5")
            .example("[]", "0")
            .example("[9223372036854775807, 1, -1]", "9223372036854775807")
            .example("[-9223372036854775808, -1]", "error overflow")
            .unary(|integers: Vec<i64>| sum(&integers)),
        entry("size(list) -> count", "The number of elements in the list.")
            .example("[1, 2, 2]", "3")
            .example("[]", "0")
            .unary(|AnyList(list): AnyList| list.len() as i64),
        entry("contains(list, x) -> holds", "True if x is an element of the list.")
            .example("[3, 1], 3", "true")
            .example("[3, 1], 2", "false")
            .binary(|AnyList(list): AnyList, Any(x): Any| list.contains(&x)),
        entry(
            "index_of(list, x) -> rank",
            "The first position of x in the list. No result if x is not in \
        the list.",
        )
        .example(r#"["geneve", "vxlan", "gre"], "vxlan""#, "1")
        .example("[7, 7], 7", "0")
        .example("[7], 8", "none")
        .binary(|AnyList(list): AnyList, Any(x): Any| {
            list.iter().position(|value| *value == x).map(|rank| rank as i64)
        }),
    ]
}

fn whole() -> Vec<Function> {
    vec![
        entry("++(a, b) -> list", "The concatenation of two lists.")
            .example("[2], [1, 2]", "[2, 1, 2]")
            .example("[], []", "[]")
            .binary(|AnyList(a): AnyList, AnyList(b): AnyList| concatenation(&a, &b)),
        entry(
            "slice(list, from, to) -> part",
            "The elements from position `from` (inclusive) to position `to` (exclusive). No result unless 0 \
            ≤ from ≤ to ≤ size.",
        )
        .example("[7, 8, 9], 1, 3", "[8, 9]")
        .example("[7, 8, 9], 3, 3", "[]")
        .example("[7, 8, 9], 0, 4", "none")
        .example("[7, 8, 9], 2, 1", "none")
        .example("[7, 8, 9], -1, 1", "none")
        .ternary(|AnyList(list): AnyList, from: i64, to: i64| slice(&list, from, to)),
        entry("reverse(list) -> list", "The elements in reverse order.")
            .example("[2, 1, 3]", "[3, 1, 2]")
            .example("[]", "[]")
            .unary(|AnyList(list): AnyList| AnyList(list.iter().rev().cloned().collect())),
        entry("sort(list) -> list", "The elements in ascending order, with duplicates.")
            .example("[2, 1, 2]", "[1, 2, 2]")
            .example(r#"["b", "B", "a"]"#, r#"["B", "a", "b"]"#)
            .unary(|AnyList(list): AnyList| sorted(&list)),
        entry(
            "distinct(list) -> list",
            "The elements without duplicates, in the order of their first \
        occurrences.",
        )
        .example("[2, 1, 2, 1, 3]", "[2, 1, 3]")
        .example("[]", "[]")
        .unary(|AnyList(list): AnyList| distinct(&list)),
        entry("to_set(list) -> set", "The elements of the list as a set.")
            .example("[2, 1, 2]", "{1, 2}")
            .example("[]", "{}")
            .unary(|AnyList(list): AnyList| match Value::set(list.iter().cloned()) {
                Value::Set(set) => AnySet(set),
                _ => AnySet([].into()),
            }),
    ]
}
