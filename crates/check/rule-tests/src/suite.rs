//! The unit tests of a folder, with one file replaced by another text.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nlog::{Program, Workspace};

use crate::folder::Folder;
use crate::run::{Evaluators, passes};

/// The verdict of the unit tests on a text of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All tests that the file can affect pass.
    Passed,
    /// A test fails; no later one was run.
    Failed {
        /// The file of tests.
        file: String,
        /// The test's name.
        test: String,
    },
    /// A file of tests does not compile with this text.
    Rejected {
        /// The file of tests.
        file: String,
    },
}

/// Compiles a folder's tests and runs them. Files that do not change are parsed and checked once for each suite; each
/// thread needs a separate suite.
pub struct Suite<'a> {
    folder: &'a Folder,
    /// The rules without tests.
    rules: Option<Workspace>,
    /// For each file of tests its program, compiled when it is first needed.
    tests: BTreeMap<&'a str, Workspace>,
    /// By file of rules: the tests that noticed a change of it, each once, the last one last.
    noticed: HashMap<String, Vec<Noticed>>,
}

/// A test that noticed a change of rules.
#[derive(PartialEq, Eq)]
struct Noticed {
    /// The file of tests.
    file: String,
    /// The test's name.
    test: String,
}

impl<'a> Suite<'a> {
    /// The tests of a folder, none of them compiled yet.
    pub fn new(folder: &'a Folder) -> Suite<'a> {
        Suite { folder, rules: None, tests: BTreeMap::new(), noticed: HashMap::new() }
    }

    /// The rules without tests, with this text for a file; none if they do not compile.
    pub fn program(&mut self, file: &str, text: &str) -> Option<Arc<Program>> {
        let folder = self.folder;
        let workspace = self.rules.get_or_insert_with(|| Workspace::from_texts(folder.rules()));
        compile(workspace, folder, file, text)
    }

    /// The verdict of the tests that a file can affect on this text of it, in the reference evaluator alone. The first
    /// failing test ends the run; a test that panics fails. Tests that noticed an earlier text of the file run first, the last
    /// one before the others: rules of one file are often needed by the same test.
    pub fn verdict(&mut self, file: &str, text: &str) -> Verdict {
        let mut tests = self.folder.tests_of(file);
        let noticed = self.noticed.get(file).map_or(&[][..], Vec::as_slice);
        tests.sort_by_key(|name| Reverse(noticed.iter().rposition(|noticed| noticed.file == *name)));
        let verdict = self.verdict_of(tests, file, text, Evaluators::Reference);
        if let Verdict::Failed { file: tests, test } = &verdict {
            let of_file = self.noticed.entry(file.to_owned()).or_default();
            let last = Noticed { file: tests.clone(), test: test.clone() };
            of_file.retain(|noticed| *noticed != last);
            of_file.push(last);
        }
        verdict
    }

    /// The verdict of all tests on the files as they are.
    pub fn verdict_as_is(&mut self) -> Verdict {
        let folder = self.folder;
        for name in folder.tests() {
            // A file with its own text changes nothing. It is the test itself: no other file is part of all programs.
            let verdict =
                self.verdict_of(vec![name], name, folder.text(name).unwrap_or_default(), Evaluators::Both);
            if verdict != Verdict::Passed {
                return verdict;
            }
        }
        Verdict::Passed
    }

    fn verdict_of(&mut self, tests: Vec<&'a str>, file: &str, text: &str, evaluators: Evaluators) -> Verdict {
        let folder = self.folder;
        for name in tests {
            let workspace =
                self.tests.entry(name).or_insert_with(|| Workspace::from_texts(folder.program_of(name)));
            let Some(program) = compile(workspace, folder, file, text) else {
                return Verdict::Rejected { file: name.to_owned() };
            };
            let mut own: Vec<_> = program.tests.iter().filter(|test| *test.place.file == *name).collect();
            let noticed = self.noticed.get(file).map_or(&[][..], Vec::as_slice);
            let is = |noticed: &Noticed, test: &str| noticed.file == *name && noticed.test == *test;
            own.sort_by_key(|test| Reverse(noticed.iter().rposition(|noticed| is(noticed, &test.name))));
            for test in own {
                let passed = catch_unwind(AssertUnwindSafe(|| passes(&program, test, evaluators)));
                if !passed.unwrap_or(false) {
                    return Verdict::Failed { file: name.to_owned(), test: test.name.to_string() };
                }
            }
        }
        Verdict::Passed
    }
}

/// A workspace's program with this text for a file. The workspace keeps its own text.
fn compile(workspace: &mut Workspace, folder: &Folder, file: &str, text: &str) -> Option<Arc<Program>> {
    let own = folder.text(file).unwrap_or_default();
    // A workspace in memory reads no file, so setting a text cannot fail.
    workspace.set_text(file, text).ok()?;
    let program = workspace.compilation().program.clone();
    workspace.set_text(file, own).ok()?;
    program
}
