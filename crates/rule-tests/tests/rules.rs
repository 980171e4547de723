//! Every rule is needed: without it some unit test fails.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nlog::program::Rule;
use rule_tests::{Folder, Suite, Verdict};

fn rules() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules")
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

#[test]
fn every_rule_is_needed_by_a_test() {
    let folder = Folder::load(&rules()).expect("the rules can be read");
    let (file, text) = folder.rules().next().expect("there are rules");
    let program = Suite::new(&folder).program(file, text).expect("the rules compile");
    let (next, idle) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        let mut suite = Suite::new(&folder);
        while let Some(rule) = program.rules.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (file, text) = without(&folder, rule);
            let verdict = suite.verdict(file, &text);
            if !matches!(verdict, Verdict::Failed { .. }) {
                idle.lock().expect("no other thread panics").push(format!("{}: {verdict:?}", rule.place));
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let idle = idle.into_inner().expect("no thread panics");
    assert!(program.rules.len() > 100, "only {} rules", program.rules.len());
    assert!(idle.is_empty(), "no unit test fails without these rules:\n{}", idle.join("\n"));
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
