//! The book in `docs/` holds: every fenced block of every page is written, checked, run or parsed, and what a page shows
//! is what happens. A block of no known form is a failure, so that nothing in the book is unproved.
//!
//! A page is a story in a folder of its own; the chapters of the tutorial are one story, in order. What a block is, its
//! first line says (`block.rs` has the list). With `UPDATE_EXPECT=1` what commands print is written into the pages instead
//! of compared: look at the difference before you commit it.

#![allow(clippy::unwrap_used)]

mod additions;
mod block;
mod codes;
mod compare;
mod grammar;
mod links;
mod page;
mod shell;
mod story;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use page::Page;

/// Pages whose blocks another crate's test proves, with that test; here their links alone are looked at.
const PROVED_ELSEWHERE: &[(&str, &str)] = &[
    ("docs/reference/functions.md", "crates/nlog-data/tests/reference.rs"),
    ("docs/errors/", "crates/nlog/tests/pages.rs"),
];

/// Whether another test proves the page's blocks.
fn is_proved_elsewhere(page: &Page) -> bool {
    PROVED_ELSEWHERE.iter().any(|(pages, _)| page.name.starts_with(pages))
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page of the book, in order of name.
fn pages() -> Vec<Page> {
    let mut files = Vec::new();
    collect(&root().join("docs"), "md", &mut files);
    files.sort();
    files.into_iter().map(|file| Page::read(&root(), &file)).collect()
}

/// Adds the files in a folder and those below it whose names end so.
fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, extension, files);
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
}

/// The folder of `docs/` that a page is in; empty if it is in none.
fn part(page: &Page) -> &str {
    page.name.strip_prefix("docs/").and_then(|rest| rest.split_once('/')).map_or("", |(part, _)| part)
}

/// Runs the stories of the pages that are in one of these folders, or in none of them.
fn holds(name: &str, wanted: impl Fn(&str) -> bool) {
    let pages: Vec<Page> =
        pages().into_iter().filter(|page| wanted(part(page)) && !is_proved_elsewhere(page)).collect();
    let mut failures = Vec::new();
    for pages in pages.chunk_by(|one, other| part(one) == "tutorial" && part(other) == "tutorial") {
        failures.extend(story::run(name, pages));
    }
    report(&failures);
}

/// Fails with all failures, if there are any.
fn report(failures: &[String]) {
    let mut text = String::new();
    for failure in failures {
        let _ = writeln!(text, "\n{failure}");
    }
    assert!(failures.is_empty(), "{} places of the book do not hold:\n{text}", failures.len());
}

#[test]
fn the_tutorial_holds() {
    holds("tutorial", |part| part == "tutorial");
}

#[test]
fn the_reference_holds() {
    holds("reference", |part| part == "reference");
}

#[test]
fn the_how_tos_hold() {
    holds("howto", |part| part == "howto");
}

#[test]
fn every_other_page_holds() {
    holds("rest", |part| !["tutorial", "reference", "howto"].contains(&part));
}

#[test]
fn what_is_proved_elsewhere_is() {
    for (pages, test) in PROVED_ELSEWHERE {
        let test = std::fs::read_to_string(root().join(test)).unwrap();
        assert!(test.contains(pages.trim_end_matches('/')), "the test does not look at {pages}");
    }
}

#[test]
fn every_link_leads_somewhere() {
    report(&links::broken(&root(), &pages()));
}
