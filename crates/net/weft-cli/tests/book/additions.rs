//! "How do I add …" in ARCHITECTURE.md: the lists of files are complete.
//!
//! Each list follows examples that exist, such as the encapsulation `gre`. Every file of a list must exist, and every
//! source file that names an example must be in the list. A file that only mentions an example, and that nobody would
//! change to add another, is excepted here, with the reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::{collect, report};
use crate::support::root;

/// A list of ARCHITECTURE.md.
struct Addition {
    /// Its heading.
    heading: &'static str,
    /// The examples that it follows: words, by which the files to change are found.
    examples: &'static [&'static str],
    /// Whether longer names in Rust that contain an example count as well.
    parts: bool,
    /// The values of `NAME` in a path: the files of the examples themselves.
    names: &'static [&'static str],
    /// Files that name an example without being a place to change, and why.
    excepted: &'static [(&'static str, &'static str)],
}

const ADDITIONS: &[Addition] = &[
    Addition {
        heading: "### a new action?",
        examples: &["DecTtl", "CheckPktLarger"],
        parts: false,
        names: &["dec_ttl", "check_pkt_larger"],
        excepted: &[],
    },
    Addition {
        heading: "### a new encapsulation?",
        examples: &["gre", "Gre", "GRE"],
        parts: false,
        names: &[],
        excepted: &[
            ("crates/lang/nlog-data/src/function/list.rs", "the example of a function on lists"),
            (
                "crates/check/fake-switch/src/database/tables.rs",
                "the interface types that the fake database reports, as Open vSwitch does",
            ),
            ("crates/wire/openflow-rs/src/field/table.rs", "what Open vSwitch's tunnel keys are"),
            ("crates/net/weft-client/src/weft.v1.rs", "written by a test from the API in proto/"),
            ("docs/reference/functions.md", "the same, on its page"),
            ("docs/reference/language.md", "an example of an enumeration"),
        ],
    },
    Addition {
        heading: "### a new kind of thing in a switch?",
        examples: &["BfdSession", "BfdSessions", "bfd_session"],
        parts: false,
        names: &[],
        excepted: &[
            ("crates/switch/ovs-driver/src/lib.rs", "the driver's users name the values of kinds"),
            ("rules/physical/relays.nlog", "the rules that want some"),
            ("docs/reference/rules.md", "what relays do with them"),
        ],
    },
    Addition {
        heading: "### a new object kind?",
        examples: &["localnet", "localnet_port"],
        parts: true,
        names: &["localnet_port", "localnet"],
        excepted: &[("docs/reference/defects.md", "what is wrong with networks, of which some have one")],
    },
];

/// The folders searched for places to change, with the extensions of their files.
const PLACES: &[(&str, &str)] =
    &[("crates", "rs"), ("xtask", "rs"), ("rules", "nlog"), ("proto", "proto"), ("docs/reference", "md")];

#[test]
fn the_lists_of_files_to_change_are_complete() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut failures = Vec::new();
    for addition in ADDITIONS {
        let Some((_, section)) = map.split_once(addition.heading) else {
            failures.push(format!("ARCHITECTURE.md has no section `{}`", addition.heading));
            continue;
        };
        let section = section.split("\n##").next().unwrap_or_default();
        let listed = listed(section, addition.names);
        for path in listed.iter().filter(|path| !root().join(path).exists()) {
            failures.push(format!("{}: {path} does not exist", addition.heading));
        }
        let naming = naming(addition);
        assert!(!naming.is_empty(), "{}: nothing names the example", addition.heading);
        for path in naming.difference(&listed) {
            failures.push(format!("{}: {path} names the example and is not in the list", addition.heading));
        }
    }
    report(&failures);
}

/// The paths in the first column of a section's table.
fn listed(section: &str, names: &[&str]) -> BTreeSet<String> {
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let columns = rows.filter_map(|row| row.split('|').nth(1));
    let mut paths = BTreeSet::new();
    for path in columns.flat_map(|column| column.split('`').skip(1).step_by(2)) {
        if path.contains("NAME") {
            // A new rule file need not exist in every folder for every example.
            let named = names.iter().map(|name| path.replace("NAME", name));
            let existing: Vec<String> = named.filter(|path| root().join(path).exists()).collect();
            if existing.is_empty() && !path.starts_with("rules/logical/") {
                paths.insert(path.to_owned());
            }
            paths.extend(existing);
        } else {
            paths.insert(path.to_owned());
        }
    }
    paths
}

/// The files that name an example, apart from tests.
fn naming(addition: &Addition) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (folder, ending) in PLACES {
        let mut files = Vec::new();
        collect(&root().join(folder), ending, &mut files);
        for file in files {
            let path = file.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
            let excepted = addition.excepted.iter().any(|(excepted, _)| *excepted == path);
            if !excepted && !is_test(&path) && names_one(&changeable(&file), addition, *ending == "rs") {
                found.insert(path);
            }
        }
    }
    found
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with(".test.nlog")
}

/// The part of a file that an addition can change: no module of tests, and no comments of rules.
fn changeable(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let tests = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let is_nlog = file.extension().is_some_and(|extension| extension == "nlog");
    let lines = text[..tests].lines().filter(|line| !(is_nlog && line.trim_start().starts_with('#')));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn names_one(text: &str, addition: &Addition, is_rust: bool) -> bool {
    if addition.parts && is_rust {
        let text = text.to_lowercase();
        return addition.examples.iter().any(|example| text.contains(example));
    }
    let is_part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.split(|c: char| !is_part_of_word(c)).any(|word| addition.examples.contains(&word))
}

#[test]
fn an_example_is_found_as_a_word_or_within_one() {
    let [_, encapsulation, _, kind] = ADDITIONS else { panic!("four lists") };
    assert!(names_one("Encap::Gre => 8,", encapsulation, true));
    assert!(names_one("type encap = enum {gre};", encapsulation, false));
    assert!(!names_one("progress, ip6gre", encapsulation, true));
    assert!(names_one("Kind::LocalnetPort", kind, true) && !names_one("local net", kind, true));
    assert!(names_one("localnet_port(_, sw)", kind, false) && !names_one("has_localnet(sw)", kind, false));
}
