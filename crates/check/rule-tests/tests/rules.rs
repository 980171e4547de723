//! Every rule is needed: without it some unit test fails.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nlog::Program;
use nlog::program::Rule;
use rule_tests::{Folder, Suite, Verdict};

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rules")
}

/// The text of the rule's file without the rule.
fn without<'a>(folder: &'a Folder, rule: &'a Rule) -> (&'a str, String) {
    let file = &*rule.place.file;
    let text = folder.text(file).expect("the program is made of the folder's files");
    let line = text.lines().take(rule.place.line as usize - 1).map(|line| line.len() + 1).sum::<usize>();
    let (before, from) = text.split_at(line);
    assert!(
        from.contains(&*rule.text),
        "{}: the rule does not stand in its file as `{}`",
        rule.place,
        rule.text
    );
    (file, before.to_owned() + &from.replacen(&*rule.text, "", 1))
}

/// Files of rules with their rules, as even parts: each file, those with most rules first, goes to the smallest part. The rules of a file
/// stay together, because the test that needs one often needs the next.
fn parts(program: &Program) -> [Vec<&Rule>; PARTS] {
    let mut files: BTreeMap<&str, Vec<&Rule>> = BTreeMap::new();
    for rule in &program.rules {
        files.entry(&*rule.place.file).or_default().push(rule);
    }
    let mut files: Vec<Vec<&Rule>> = files.into_values().collect();
    files.sort_by_key(|rules| Reverse(rules.len()));
    let mut parts = [const { Vec::new() }; PARTS];
    for rules in files {
        let smallest = parts.iter_mut().min_by_key(|part| part.len()).expect("there are parts");
        smallest.extend(rules);
    }
    parts
}

fn every_rule_is_needed_by_a_test(part: usize) {
    let folder = Folder::load(&rules()).expect("the rules can be read");
    let (file, text) = folder.rules().next().expect("there are rules");
    let mut suite = Suite::new(&folder);
    let program = suite.program(file, text).expect("the rules compile");
    let rules = &parts(&program)[part];
    assert!(rules.len() > 100 / PARTS, "only {} rules", rules.len());
    let mut idle = String::new();
    for rule in rules {
        let (file, text) = without(&folder, rule);
        let verdict = suite.verdict(file, &text);
        if !matches!(verdict, Verdict::Failed { .. }) {
            idle += &format!("{}: {verdict:?}\n", rule.place);
        }
    }
    assert!(idle.is_empty(), "no unit test fails without these rules:\n{idle}");
}

/// A test for each part, so that all cores work on them.
macro_rules! parts {
    ($($part:literal $test:ident)*) => {
        const PARTS: usize = [$($part),*].len();
        $(#[test]
        fn $test() {
            every_rule_is_needed_by_a_test($part);
        })*
    };
}

parts! {
    0 every_rule_is_needed_by_a_test_1
    1 every_rule_is_needed_by_a_test_2
    2 every_rule_is_needed_by_a_test_3
    3 every_rule_is_needed_by_a_test_4
    4 every_rule_is_needed_by_a_test_5
    5 every_rule_is_needed_by_a_test_6
}

/// The proof above is valid only if all tests pass with the rules unchanged.
#[test]
fn the_rules_pass_their_tests() {
    let folder = Folder::load(&rules()).expect("the rules can be read");
    assert_eq!(Suite::new(&folder).verdict_as_is(), Verdict::Passed);
    for (file, _) in folder.rules() {
        assert!(!folder.tests_of(file).is_empty(), "no unit test imports {file}");
    }
}
