//! Links within the repository: the file and the heading exist.

use std::collections::BTreeSet;
use std::path::Path;

use super::page::Page;

/// The broken links, with their places. Addresses on the network are not checked.
pub(crate) fn broken(root: &Path, pages: &[Page]) -> Vec<String> {
    let mut broken = Vec::new();
    let outside = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let outside = outside.map(|file| Page::read(root, &root.join(file)));
    for page in pages.iter().chain(&outside) {
        for (line, target) in targets(&page.text) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path =
                if file.is_empty() { page.path.clone() } else { page.path.parent().unwrap().join(file) };
            let reason = if !path.exists() {
                "there is no such file"
            } else if !heading.is_empty() && !headings(&path).contains(heading) {
                "the page has no such heading"
            } else {
                continue;
            };
            broken.push(format!("{}:{line}: {target}: {reason}", page.name));
        }
    }
    broken
}

/// The targets of a page's links, with their lines; not those in blocks and code.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    let mut fenced = false;
    for (line, text) in (1..).zip(text.lines()) {
        fenced ^= text.starts_with("```");
        let outside_code = text.split('`').step_by(2);
        for part in outside_code.filter(|_| !fenced) {
            let found = part.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            targets.extend(
                found.map(|(target, _)| (line, target)).filter(|(_, target)| !target.contains("://")),
            );
        }
    }
    targets
}

/// The headings of a page as forges name them.
fn headings(path: &Path) -> BTreeSet<String> {
    let Ok(text) = std::fs::read_to_string(path) else { return BTreeSet::new() };
    let mut headings = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if !fenced && line.starts_with('#') {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
            let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
            let again = (1..).map(|number| format!("{slug}-{number}"));
            let free = std::iter::once(slug.clone()).chain(again).find(|name| !headings.contains(name));
            headings.extend(free);
        }
    }
    headings
}

#[test]
fn links_are_found_outside_of_code() {
    let text = "[a](b.md#c) `[d](e.md)` [f](https://g)\n```text\n[h](i.md)\n```\n[j](#k)\n";
    assert_eq!(targets(text), [(1, "b.md#c"), (5, "#k")]);
}

#[test]
fn every_page_is_in_the_contents() {
    let root = crate::support::root();
    for contents in ["docs/README.md", "docs/SUMMARY.md"] {
        let text = std::fs::read_to_string(root.join(contents)).unwrap();
        for page in super::pages().iter().filter(|page| !page.name.starts_with("docs/errors/")) {
            let name = page.name.trim_start_matches("docs/");
            let found = text.contains(&format!("({name})"));
            assert!(found || ["README.md", "SUMMARY.md"].contains(&name), "{contents} lacks {name}");
        }
    }
}
