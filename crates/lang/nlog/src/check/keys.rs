//! The key of a table, and what else is unique in it.

use std::collections::BTreeMap;

use super::declarations::{Columns, duplicate_column, unknown_column};
use crate::diagnostic::{Code, Report, Reports};
use crate::syntax::ast::{self, Ident, Span};

/// The columns of the key, and those of each `unique(…)` without mistakes, in ascending order.
pub(super) fn of_table(
    table: &ast::Table,
    columns: &Columns<'_>,
    reports: &mut Reports,
) -> (Option<Vec<usize>>, Vec<Vec<usize>>) {
    let before = reports.len();
    let mut read = |names: &Vec<Ident>, help| named_columns(table, names, help, columns, reports);
    let key = table.key.as_ref().map(|key| read(key, "list each column of the key once"));
    let uniques = table.uniques.iter().map(|names| read(names, "list each unique column once"));
    let mut uniques: Vec<Vec<usize>> = uniques.collect();
    // Columns that are not known would make one of these seem to contain another.
    if reports.len() == before {
        redundant(table, columns.len(), key.as_deref(), &uniques, reports);
    }
    uniques.sort_unstable();
    (key, uniques)
}

/// Reports each `unique(…)` that follows from the key or from another one.
fn redundant(
    table: &ast::Table,
    width: usize,
    key: Option<&[usize]>,
    uniques: &[Vec<usize>],
    reports: &mut Reports,
) {
    let row: Vec<usize> = (0..width).collect();
    let of_key = match (key, &table.key) {
        (Some(key), Some(names)) => (key, "the key says so already".to_owned(), span(names)),
        _ => (&row[..], "no two rows are equal".to_owned(), table.name.span),
    };
    for (at, (unique, names)) in uniques.iter().zip(&table.uniques).enumerate() {
        let contains = |other: &[usize]| other.iter().all(|column| unique.contains(column));
        let others = uniques.iter().zip(&table.uniques).enumerate();
        // Of two that are equal, the first stays.
        let others = others.filter(|(other, (columns, _))| *other < at || *other > at && *columns != unique);
        let mut others = others.map(|(_, (columns, names))| {
            (&columns[..], format!("{} says so already", written(names)), span(names))
        });
        let implied = Some(of_key.clone()).filter(|(columns, ..)| contains(columns));
        let Some((_, why, place)) = implied.or_else(|| others.find(|(columns, ..)| contains(columns))) else {
            continue;
        };
        let message = format!("{} adds nothing to table `{}`: {why}", written(names), table.name.name);
        let help = "remove it, or name fewer columns";
        let report = Report::new(Code::RedundantUnique, span(names), message, help);
        reports.push(report.label(place, "this is enough"));
    }
}

/// `unique(host, port)`
fn written(names: &[Ident]) -> String {
    let names: Vec<&str> = names.iter().map(|name| name.name.as_str()).collect();
    format!("unique({})", names.join(", "))
}

/// From the first of these names to the last.
fn span(names: &[Ident]) -> Span {
    match names {
        [first, .., last] => Span { end: last.span.end, ..first.span },
        [only] => only.span,
        // The parser wants at least one.
        [] => Span { file: 0, start: 0, end: 0 },
    }
}

/// The columns with these names. A key is a set of columns; it is ascending, so that the written order has no effect.
fn named_columns(
    table: &ast::Table,
    names: &[Ident],
    help: &str,
    columns: &Columns<'_>,
    reports: &mut Reports,
) -> Vec<usize> {
    let mut seen: BTreeMap<usize, Span> = BTreeMap::new();
    for name in names {
        let Some(column) = columns.find(&name.name) else {
            let table = &table.name.name;
            reports.push_unknown(&format!("{table}.{}", name.name), unknown_column(name, table, columns));
            continue;
        };
        if let Some(&earlier) = seen.get(&column) {
            reports.push(duplicate_column(name, earlier, help));
        } else {
            seen.insert(column, name.span);
        }
    }
    seen.into_keys().collect()
}
