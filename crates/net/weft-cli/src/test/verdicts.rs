//! The verdicts of tests, followed over changes of their files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nlog::source::is_test_file;

use super::{Suite, Test, files, run_all};
use crate::exit::Failure;

/// The tests in some files and folders, and whether each passed last.
pub(crate) struct Verdicts {
    test: Test,
    suites: BTreeMap<PathBuf, Run>,
}

/// A file of tests; without a suite if it cannot be read.
#[derive(Default)]
struct Run {
    suite: Option<Suite>,
    inputs: BTreeSet<PathBuf>,
    /// By the name of the test: why it fails, or nothing.
    verdicts: BTreeMap<String, Option<String>>,
}

/// A test whose verdict is another one than before.
pub(crate) struct OtherVerdict {
    pub(crate) file: PathBuf,
    pub(crate) test: String,
    /// Why it fails now; `None` if it passes.
    pub(crate) why: Option<String>,
}

impl Verdicts {
    /// Runs all tests in these files and folders.
    pub(crate) fn of(paths: &[PathBuf]) -> Result<Verdicts, Failure> {
        let test = Test { paths: paths.to_vec(), filter: None, watch: false, json: false };
        let mut verdicts = Verdicts { test, suites: BTreeMap::new() };
        verdicts.follow(&BTreeSet::new())?;
        Ok(verdicts)
    }

    /// The files that the tests depend on.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Path> {
        self.suites.values().flat_map(|run| run.inputs.iter().map(PathBuf::as_path))
    }

    /// The number of tests.
    pub(crate) fn count(&self) -> usize {
        self.suites.values().map(|run| run.verdicts.len()).sum()
    }

    /// Runs the tests that depend on changed files, and returns those whose verdict is another one.
    pub(crate) fn follow(&mut self, changed: &BTreeSet<PathBuf>) -> Result<Vec<OtherVerdict>, Failure> {
        // A single file of rules has no tests.
        let there = self.test.paths.iter().filter(|path| path.is_dir() || is_test_file(path));
        let there: Vec<PathBuf> = there.cloned().collect();
        let found = files::find(&there)?;
        self.suites.retain(|path, _| found.files.contains(path));
        let mut others = Vec::new();
        for path in found.files {
            let before = self.suites.remove(&path);
            let concerns = before.as_ref().is_none_or(|run| !run.inputs.is_disjoint(changed));
            let run =
                if concerns { self.run(&path, before, &mut others) } else { before.unwrap_or_default() };
            self.suites.insert(path, run);
        }
        Ok(others)
    }

    fn run(&self, path: &Path, before: Option<Run>, others: &mut Vec<OtherVerdict>) -> Run {
        let is_first = before.is_none();
        let Run { suite, mut inputs, verdicts: before } = before.unwrap_or_default();
        let read = match suite {
            Some(mut known) => known.reload().map(|()| known),
            None => self.test.suite(path),
        };
        inputs.insert(path.to_owned());
        let Ok(suite) = read else { return Run { suite: None, inputs, verdicts: before } };
        let inputs = suite.inputs();
        // Rules with mistakes have no verdicts: the mistakes are reported with the rules.
        if suite.program().is_none() {
            return Run { suite: Some(suite), inputs, verdicts: before };
        }
        let outcomes = run_all(std::slice::from_ref(&suite), None).into_iter().flatten();
        let why = |failure: &rule_tests::Failure| format!("{}: {}", failure.place, failure.message);
        let verdicts: BTreeMap<String, Option<String>> =
            outcomes.map(|outcome| (outcome.name.to_string(), outcome.failures.first().map(why))).collect();
        for (test, why) in &verdicts {
            let failed = before.get(test).is_some_and(Option::is_some);
            if !is_first && failed != why.is_some() {
                others.push(OtherVerdict { file: path.to_owned(), test: test.clone(), why: why.clone() });
            }
        }
        Run { suite: Some(suite), inputs, verdicts }
    }
}
