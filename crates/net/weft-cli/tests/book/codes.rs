//! The list of errors and warnings matches their pages.

use std::fmt::Write as _;

use super::pages;
use crate::support::root;

const HEAD: &str = "# Errors and warnings

Generated from the pages in `docs/errors`. `weft check --explain CODE` prints the page of a code: its meaning, an example, and the correction.
Errors prevent a program from running; warnings can be [allowed](language.md#diagnostics) where the code is intended. The errors of transactions are on the
page about [transactions](transactions.md#refusals).
";

/// The page as it should be.
fn page() -> String {
    let mut text = HEAD.to_owned();
    for severity in ["Error", "Warning"] {
        let _ = write!(text, "\n## {severity}s\n\n| code | means |\n|---|---|\n");
        for page in pages() {
            let Some(code) = page.name.strip_prefix("docs/errors/").and_then(|file| file.strip_suffix(".md"))
            else {
                continue;
            };
            let meaning = page.text.lines().nth(2).unwrap_or_default();
            let meaning = meaning.strip_prefix(severity).and_then(|rest| rest.strip_prefix(". "));
            if let Some(meaning) = meaning {
                let _ = writeln!(text, "| [`{code}`](../errors/{code}.md) | {meaning} |");
            }
        }
    }
    text
}

#[test]
fn the_list_of_errors_and_warnings_is_up_to_date() {
    let path = root().join("docs/reference/diagnostics.md");
    let wanted = page();
    let codes = pages().iter().filter(|page| page.name.starts_with("docs/errors/")).count();
    assert_eq!(
        wanted.matches("(../errors/").count(),
        codes,
        "a page does not begin with its code and its severity"
    );
    expect_test::expect_file![path].assert_eq(&wanted);
}
