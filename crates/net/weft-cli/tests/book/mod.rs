//! The book in `docs/` is correct: the tests write, check, run or parse every fenced block of every page and compare the
//! output with the page. A block of unknown form is a failure, so no block goes untested.
//!
//! A page is a story in a separate folder; the chapters of the tutorial are one story, in order. The first line of a block
//! says what it is (`block.rs` has the list). With `UPDATE_EXPECT=1` the tests write the output of the commands into the
//! pages instead of comparing it: review the difference before you commit it.
//!
//! Pages with a block `console ovs` need Open vSwitch: module `open_vswitch` runs their stories, the other tests run the
//! stories without these pages.

#![allow(clippy::unwrap_used)]

mod additions;
mod block;
mod codes;
mod compare;
mod grammar;
mod links;
mod page;
mod phrases;
mod shell;
mod story;
mod threats;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use page::Page;

use crate::support::root;

/// Pages whose blocks a test of another crate covers, with that test; here only their links are checked.
const PROVED_ELSEWHERE: &[(&str, &str)] = &[
    ("docs/reference/functions.md", "crates/lang/nlog-data/tests/reference.rs"),
    ("docs/errors/", "crates/lang/nlog/tests/pages.rs"),
];

/// Whether another test covers the page's blocks.
fn is_proved_elsewhere(page: &Page) -> bool {
    PROVED_ELSEWHERE.iter().any(|(pages, _)| page.name.starts_with(pages))
}

/// Every page of the book, in order of name.
fn pages() -> Vec<Page> {
    let mut files = Vec::new();
    collect(&root().join("docs"), "md", &mut files);
    files.sort();
    files.into_iter().map(|file| Page::read(&root(), &file)).collect()
}

/// Adds the files in a folder and below it with this extension.
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

/// The folder in `docs/` that contains the page; empty if there is none.
fn part(page: &Page) -> &str {
    page.name.strip_prefix("docs/").and_then(|rest| rest.split_once('/')).map_or("", |(part, _)| part)
}

/// Runs the stories of the pages in these folders that do not need Open vSwitch.
fn holds(name: &str, wanted: impl Fn(&str) -> bool) {
    let pages: Vec<Page> = pages_of_parts(wanted).into_iter().filter(|page| !page.needs_ovs()).collect();
    report(&stories(&pages).flat_map(|story| story::run(name, story)).collect::<Vec<_>>());
}

/// The pages in these folders of `docs/` that no other crate's test covers.
fn pages_of_parts(wanted: impl Fn(&str) -> bool) -> Vec<Page> {
    pages().into_iter().filter(|page| wanted(part(page)) && !is_proved_elsewhere(page)).collect()
}

fn stories(pages: &[Page]) -> impl Iterator<Item = &[Page]> {
    pages.chunk_by(|one, other| part(one) == "tutorial" && part(other) == "tutorial")
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

mod open_vswitch {
    use super::{Page, is_proved_elsewhere, pages, part, report, stories, story};

    /// The page of faults. Its test runs beside that of the others.
    const FAULTS: &str = "docs/howto/find-the-fault.md";

    /// Runs the stories in which a page needs Open vSwitch, with all their pages.
    fn holds(name: &str, wanted: impl Fn(&Page) -> bool) {
        lab::preflight().unwrap_or_else(|missing| panic!("the book's labs cannot run: {missing}"));
        let pages: Vec<Page> =
            pages().into_iter().filter(|page| wanted(page) && !is_proved_elsewhere(page)).collect();
        let with_labs: Vec<&[Page]> =
            stories(&pages).filter(|story| story.iter().any(Page::needs_ovs)).collect();
        assert!(!with_labs.is_empty(), "no page has a block `console ovs`");
        report(&with_labs.into_iter().flat_map(|story| story::run(name, story)).collect::<Vec<_>>());
    }

    #[test]
    fn the_tutorial_holds() {
        holds("tutorial", |page| part(page) == "tutorial");
    }

    #[test]
    fn faults_are_found() {
        holds("faults", |page| page.name == FAULTS);
    }

    #[test]
    fn every_other_page_holds() {
        holds("rest", |page| part(page) != "tutorial" && page.name != FAULTS);
    }
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
