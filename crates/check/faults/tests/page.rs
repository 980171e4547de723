//! The page of the book.

use faults::kind::Kind;

#[test]
fn the_page_lists_all_kinds_of_fault() {
    let page = include_str!("../../../../docs/internals/faults.md");
    let is_missing = |name: &String| !page.contains(&format!("| `{name}` |"));
    let missing: Vec<String> = Kind::ALL.map(Kind::name).into_iter().filter(is_missing).collect();
    assert_eq!(missing, Vec::<String>::new());
    assert_eq!(page.matches("\n| `").count(), Kind::ALL.len(), "the page lists others");
}
