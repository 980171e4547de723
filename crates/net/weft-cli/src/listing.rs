//! Answers to questions that the rules declare: listings, and what hosts have counted.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Map, Value as Json};
use weft_client::ListingRows;
use weft_client::pb::{Listing, ListingColumn};
use weft_core::shown;

use crate::columns::aligned;

/// What stands for no value.
const NOTHING: &str = "-";
/// The spaces between two columns.
const GAP: u16 = 2;

type Row = Map<String, Json>;

/// A table with a line for each row, and below each the lists that it has. Then the hosts of which nothing is known. An answer about one
/// object leaves its name out.
pub(crate) fn to_text(found: &ListingRows, about_one: bool) -> String {
    let mut text = if found.rows.is_empty() { none(found) } else { table(found, about_one) };
    for unread in &found.unread {
        let _ = writeln!(text, "{}: not known: {}", unread.node, shown(&unread.error));
    }
    text
}

fn table(found: &ListingRows, about_one: bool) -> String {
    let (lists, columns): (Vec<_>, Vec<_>) = found.listing.columns.iter().partition(|column| column.detail);
    let has_values = |column: &&ListingColumn| found.rows.iter().any(|row| cell(row, column) != NOTHING);
    let columns: Vec<&ListingColumn> =
        columns.into_iter().skip(usize::from(about_one)).filter(has_values).collect();
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.add_row(columns.iter().map(|column| shown(&column.name).replace('_', " ").to_uppercase()));
    for row in &found.rows {
        table.add_row(columns.iter().map(|column| cell(row, column)));
    }
    for (column, shape) in columns.iter().zip(table.column_iter_mut()) {
        shape.set_padding((0, GAP));
        if column.number {
            shape.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut lines = table.lines();
    let mut text = lines.next().map(|head| head.trim_end().to_owned() + "\n").unwrap_or_default();
    for (row, line) in found.rows.iter().zip(lines) {
        let mark = if row.get("reached") == Some(&Json::Bool(true)) { "  limit reached" } else { "" };
        let _ = writeln!(text, "{}{mark}", line.trim_end());
        for value in lists.iter().filter_map(|list| row.get(&list.name)?.as_array()).flatten() {
            let _ = writeln!(text, "    {}", plain(value));
        }
    }
    text
}

fn cell(row: &Row, column: &ListingColumn) -> String {
    row.get(&column.name).map_or_else(|| NOTHING.to_owned(), plain)
}

fn plain(value: &Json) -> String {
    match value {
        Json::Null => NOTHING.to_owned(),
        Json::String(text) => shown(text).into_owned(),
        value => shown(&value.to_string()).into_owned(),
    }
}

/// Why there are no rows, as far as it is known.
fn none(found: &ListingRows) -> String {
    let ListingRows { listing, nodes, unread, .. } = found;
    let answered = nodes.saturating_sub(unread.len() as u64);
    match nodes {
        0 if listing.otherwise.is_empty() => format!("no {}\n", listing.name.replace('-', " ")),
        0 => format!("{}\n", listing.otherwise),
        _ => {
            format!("no {} on the {answered} of {nodes} hosts that answer\n", listing.name.replace('-', " "))
        }
    }
}

/// A JSON object for each row, and for each host of which nothing is known.
pub(crate) fn to_json(found: &ListingRows) -> String {
    let mut text = String::new();
    for row in &found.rows {
        let _ = writeln!(text, "{}", Json::Object(row.clone()));
    }
    for unread in &found.unread {
        let _ = writeln!(text, "{}", serde_json::json!({"node": unread.node, "error": unread.error}));
    }
    text
}

/// A line for each listing: its name, the kinds that it is about, and the first sentence of its documentation.
pub(crate) fn all_to_text(listings: &[Listing]) -> String {
    let row = |listing: &Listing| [listing.name.clone(), listing.kinds.join(", "), summary(listing)];
    aligned(["NAME", "OF", "WHAT"], listings.iter().map(row))
}

/// The first sentence of the documentation.
pub(crate) fn summary(listing: &Listing) -> String {
    let text = listing.doc.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = text.split_once(". ").map_or(&*text, |(first, _)| first);
    shown(first.trim_end_matches('.')).into_owned()
}

/// A JSON object for each listing.
pub(crate) fn all_to_json(listings: &[Listing]) -> String {
    let line = |listing: &Listing| {
        let columns: Vec<&str> = listing.columns.iter().map(|column| column.name.as_str()).collect();
        let doc = listing.doc.trim();
        serde_json::json!({"name": listing.name, "kinds": listing.kinds, "doc": doc, "columns": columns})
            .to_string()
            + "\n"
    };
    listings.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use weft_client::pb::UnreadSwitch;

    use super::*;

    fn column(name: &str, number: bool, detail: bool) -> ListingColumn {
        ListingColumn { name: name.to_owned(), number, detail }
    }

    fn row(value: Json) -> Row {
        match value {
            Json::Object(row) => row,
            _ => Row::new(),
        }
    }

    fn found() -> ListingRows {
        let listing = Listing {
            name: "learned-addresses".to_owned(),
            otherwise: "nothing is learned".to_owned(),
            columns: vec![
                column("switch", false, false),
                column("node", false, false),
                column("the_port", false, false),
                column("why", false, false),
                column("limit", true, false),
                column("count", true, false),
                column("addresses", false, true),
            ],
            counted: true,
            ..Listing::default()
        };
        ListingRows {
            listing,
            nodes: 3,
            rows: vec![
                row(
                    serde_json::json!({"switch": "blue", "node": "hv1", "the_port": null, "why": null, "limit": 4096, "count": 3,
                    "reached": false}),
                ),
                row(
                    serde_json::json!({"switch": "blue", "node": "hv10", "the_port": "any-1", "why": null, "limit": 5, "count": 5,
                    "reached": true, "addresses": ["02:00:00:00:00:01", "02:00:00:00:00:02"]}),
                ),
            ],
            unread: vec![UnreadSwitch { node: "hv3".into(), error: "the switch is not connected".into() }],
        }
    }

    #[test]
    fn each_row_is_a_line_with_what_has_a_value() {
        let expected = "\
NODE  THE PORT  LIMIT  COUNT
hv1   -          4096      3
hv10  any-1         5      5  limit reached
    02:00:00:00:00:01
    02:00:00:00:00:02
hv3: not known: the switch is not connected
";
        assert_eq!(to_text(&found(), true), expected);
        let all = to_text(&found(), false);
        assert!(all.starts_with("SWITCH  NODE  THE PORT  LIMIT  COUNT\nblue    hv1   -"), "{all}");
    }

    #[test]
    fn without_rows_the_text_says_why() {
        let empty = ListingRows { rows: Vec::new(), ..found() };
        assert_eq!(
            to_text(&empty, true),
            "no learned addresses on the 2 of 3 hosts that answer\nhv3: not known: the switch is not connected\n"
        );
        let nowhere = ListingRows { nodes: 0, unread: Vec::new(), ..empty };
        assert_eq!(to_text(&nowhere, true), "nothing is learned\n");
    }

    #[test]
    fn each_line_is_an_object() {
        let lines: Vec<Json> =
            to_json(&found()).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!((lines.len(), &lines[1]["addresses"][0]), (3, &"02:00:00:00:00:01".into()));
        assert_eq!(lines[2], serde_json::json!({"node": "hv3", "error": "the switch is not connected"}));
    }
}
