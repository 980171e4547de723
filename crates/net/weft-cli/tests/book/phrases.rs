//! Phrases over which readers have stumbled stay out of what users read: the book, the README, the rules, whose comments traces print, the
//! examples, and the messages and help texts in the sources.

use std::path::Path;

use super::collect;
use crate::support::root;

/// Each phrase, in lower case, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("lives on no host", "is not attached to any host"),
    ("network, which counts more", "takes precedence"),
    ("one place too many", "must be left out"),
    ("the way of its question", "the path of the request"),
    ("ways part", "first difference"),
    ("ways to die", "ways to be dropped"),
    ("no hop left", "the TTL has expired"),
    ("acl speaks of", "the ACL matches"),
    ("which no acl speaks", "which need no ACL"),
    ("says nothing of the way back", "is one-way"),
    ("has the rules of it all", "defines the behaviour"),
    ("as default router", "as default gateway"),
    ("a machine without network", "a VM with no connectivity"),
    ("the next one alone", "only the next one"),
    ("because none has its flows", "no host has its flows"),
    ("since they have their flows", "since their flows were installed"),
];

/// The text in lower case on one line, without the marks of comments that continue on the next line.
fn flat(text: &str) -> String {
    let line = |line: &str| line.trim_start().trim_start_matches(['/', '!', '#']).trim().to_lowercase();
    text.lines().map(line).collect::<Vec<_>>().join(" ")
}

/// The phrases in a text, as whole words.
fn found(text: &str) -> Vec<&'static (&'static str, &'static str)> {
    let text = flat(text);
    let is_whole = |(at, phrase): (usize, &str)| {
        let (before, after) = (&text[..at], &text[at + phrase.len()..]);
        !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    };
    PHRASES.iter().filter(|(phrase, _)| text.match_indices(phrase).any(is_whole)).collect()
}

#[test]
fn phrases_that_readers_stumble_over_stay_out() {
    let mut files = vec![root().join("README.md")];
    for (folder, extension) in
        [("docs", "md"), ("rules", "nlog"), ("examples", "nlog"), ("examples", "yaml"), ("crates", "rs")]
    {
        collect(&root().join(folder), extension, &mut files);
    }
    // Tests quote what they want.
    files.retain(|file| !file.components().any(|part| part.as_os_str() == "tests"));
    assert!(files.len() > 500, "{} files", files.len());
    let name = |file: &Path| file.strip_prefix(root()).unwrap().display().to_string();
    let mut faults = Vec::new();
    for file in &files {
        for (phrase, instead) in found(&std::fs::read_to_string(file).unwrap()) {
            faults.push(format!("{}: `{phrase}`: write {instead}", name(file)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_phrase_is_found_across_lines_and_comments() {
    let of = |text: &str| found(text).iter().map(|(phrase, _)| *phrase).collect::<Vec<_>>();
    assert_eq!(of("    /// Here the ways\n    /// part, as before."), ["ways part"]);
    assert_eq!(of("## The packet has no hop\n## left."), ["no hop left"]);
    assert_eq!(of("There are always partners."), [] as [&str; 0]);
}
