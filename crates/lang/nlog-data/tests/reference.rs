//! The page of functions in the repository is complete and matches the table.

use std::collections::BTreeSet;
use std::path::Path;

use nlog_data::function::{describe, functions, reference_markdown};

/// `UPDATE_EXPECT=1` writes the page.
#[test]
fn the_page_of_functions_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/functions.md");
    expect_test::expect_file![path].assert_eq(&reference_markdown());
}

/// The names of the functions that the table of fields covers.
fn of_fields(page: &str) -> BTreeSet<String> {
    let table = page.split_once("\n| F |").expect("the table").1;
    let mut all = BTreeSet::new();
    for row in table.lines().skip(2) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [names, _, _, mask, written, _] = cells[..] else { panic!("{row}") };
        let mut fields: Vec<String> = Vec::new();
        for names in names.split(", ") {
            match names.split_once(" … ") {
                None => fields.push(names.trim_matches('`').to_string()),
                Some((first, last)) => {
                    let stem = first.trim_matches('`').trim_end_matches('0');
                    let last: usize = last.trim_matches('`')[stem.len()..].parse().expect("a number");
                    fields.extend((0..=last).map(|n| format!("{stem}{n}")));
                }
            }
        }
        for field in fields {
            for (what, there) in [("match", true), ("set", written == "yes")] {
                all.extend(there.then(|| format!("{what}_{field}")));
                all.extend((there && mask == "yes").then(|| format!("{what}_{field}_masked")));
            }
        }
    }
    all.extend((0..16).map(|n| format!("flow_expr_match_reg{n}")));
    all
}

#[test]
fn the_page_has_every_function_and_no_other() {
    let page = reference_markdown();
    let (shown, others): (Vec<_>, Vec<_>) =
        functions().iter().partition(|function| page.contains(&format!("\n`{}`\n\n", function.signature())));
    for function in shown {
        assert!(page.contains(&format!("\n{}\n\n```nlog\n", function.doc)), "{function:?}");
    }
    let others: BTreeSet<String> = others.iter().map(|function| function.name.to_string()).collect();
    assert_eq!(others, of_fields(&page));
}

#[test]
fn a_description_has_every_overload_with_its_examples() {
    let text = describe("+").expect("a function");
    assert!(text.starts_with("+(a: int, b: int) -> sum: int\n    The sum"), "{text}");
    assert!(text.contains("\n    1 + 2 "), "{text}");
    assert!(text.contains("# error: overflow\n"), "{text}");
    let text = describe("-").expect("a function");
    assert!(text.contains("\n    1 - 2 ") && text.contains("\n    -(5) "), "{text}");
    let text = describe("size").expect("a function");
    assert!(text.contains("size(set: set<T>)") && text.contains("size(list: list<T>)"), "{text}");
    let text = describe("or_else").expect("a function");
    assert!(text.contains("or_else(some(5), 7) ") && text.contains("or_else(none(), 7)"), "{text}");
    assert_eq!(describe("sise"), None);
}
