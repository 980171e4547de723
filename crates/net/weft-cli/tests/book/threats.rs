//! The threat model names tests that exist.

use std::collections::BTreeSet;

use super::collect;
use crate::support::root;

/// Words in backticks that can only be names of tests.
fn names_of_tests(page: &str) -> BTreeSet<&str> {
    let words = page.split('`').skip(1).step_by(2);
    words.filter(|word| word.matches('_').count() > 2 && !word.contains(' ')).collect()
}

#[test]
fn the_tests_of_the_threat_model_exist() {
    let page = std::fs::read_to_string(root().join("docs/operate/threat-model.md")).unwrap();
    let mut wanted = names_of_tests(&page);
    assert!(wanted.len() > 20, "{} tests", wanted.len());
    let mut files = Vec::new();
    collect(&root().join("crates"), "rs", &mut files);
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        wanted.retain(|name| !text.contains(&format!("fn {name}(")));
    }
    assert!(wanted.is_empty(), "no such tests: {wanted:?}");
}

/// Each threat has an answer with a test, or says that it has none.
#[test]
fn each_threat_has_a_test_or_no_answer() {
    let page = std::fs::read_to_string(root().join("docs/operate/threat-model.md")).unwrap();
    let rows = page.lines().filter(|line| line.matches('|').count() == 4 && !line.starts_with("|---"));
    let rows: Vec<&str> = rows.filter(|line| !line.starts_with("| threat")).collect();
    assert!(rows.len() > 20, "{} threats", rows.len());
    for row in rows {
        assert!(!names_of_tests(row).is_empty() || row.contains("**no answer yet**"), "{row}");
    }
}
