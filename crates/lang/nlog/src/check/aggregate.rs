//! Aggregates by name.

use crate::program::Aggregate;

/// The names of aggregates, with the minimum and maximum number of arguments.
const AGGREGATES: [(&str, Aggregate, usize, usize); 8] = [
    ("count", Aggregate::Count, 0, usize::MAX),
    ("min", Aggregate::Min, 1, 1),
    ("max", Aggregate::Max, 1, 1),
    ("sum", Aggregate::Sum, 1, usize::MAX),
    ("set", Aggregate::Set, 1, 1),
    ("list", Aggregate::List, 1, 1),
    ("arg_min", Aggregate::ArgMin, 2, 2),
    ("arg_max", Aggregate::ArgMax, 2, 2),
];

/// The aggregate of this name.
pub(super) fn by_name(name: &str) -> Option<Aggregate> {
    AGGREGATES.iter().find(|(own, ..)| *own == name).map(|(_, aggregate, ..)| *aggregate)
}

/// The number of arguments that the aggregate takes, in words, if it differs from this one.
pub(super) fn wrong_count(aggregate: Aggregate, given: usize) -> Option<&'static str> {
    let &(_, _, least, most) = AGGREGATES.iter().find(|(_, own, ..)| *own == aggregate)?;
    match (given < least || given > most, least, most) {
        (false, ..) => None,
        (true, 1, 1) => Some("1 argument"),
        (true, 2, 2) => Some("2 arguments"),
        (true, ..) => Some("at least 1 argument"),
    }
}

/// An example of the aggregate.
pub(super) fn example(aggregate: Aggregate) -> &'static str {
    match aggregate {
        Aggregate::Count => "count(x) for the number of distinct x",
        Aggregate::Min => "min(x) for the smallest x",
        Aggregate::Max => "max(x) for the largest x",
        Aggregate::Sum => "sum(x, id) for the sum of x over the distinct pairs of x and id",
        Aggregate::Set => "set(x) for the set of all x",
        Aggregate::List => "list(x) for the sorted list of all x",
        Aggregate::ArgMin => "arg_min(rank, x) for the x with the lowest rank",
        Aggregate::ArgMax => "arg_max(rank, x) for the x with the highest rank",
    }
}
