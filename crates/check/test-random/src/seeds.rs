//! The seeds that a random test runs.

use std::vec::IntoIter;

use crate::regressions::regressions;

/// The seeds of a random test: `seeds!("name_of_the_test", 250)` are those in the crate's `tests/regressions.txt`, then 250
/// new ones.
///
/// A loop over them prints how to replay the seed in which the test panics.
#[macro_export]
macro_rules! seeds {
    ($test:literal, $usual:expr) => {
        $crate::Seeds::new(
            $crate::Test {
                package: env!("CARGO_PKG_NAME"),
                name: $test,
                regressions: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/regressions.txt")),
            },
            $usual,
        )
    };
}

/// A random test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Test {
    /// The package that the test is in.
    pub package: &'static str,
    /// The name of the test function, or the beginning of the names of functions that share the seeds.
    pub name: &'static str,
    /// The package's list of regressions.
    pub regressions: &'static str,
}

impl Test {
    /// How to replay a seed, and the line that makes it a regression.
    pub fn replay(self, seed: u64) -> String {
        let Test { package, name, .. } = self;
        format!(
            "seed {seed} fails. To replay it:\n    WEFT_TEST_SEED={seed} cargo nextest run -p {package} {name}\n\
             To replay it in every run, add this line to tests/regressions.txt of the crate {package}:\n    \
             {name} {seed}: WHAT IT FOUND\n"
        )
    }
}

/// The settings from the environment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Request {
    seed: Option<u64>,
    cases: Option<u64>,
    quick: bool,
}

impl Request {
    fn of_environment() -> Request {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: this is not a number")))
        };
        let quick = std::env::var("WEFT_TEST_QUICK").is_ok_and(|quick| quick == "1");
        Request { seed: number("WEFT_TEST_SEED"), cases: number("WEFT_TEST_CASES"), quick }
    }

    /// The number of cases of a test that usually runs this many.
    fn cases(self, usual: u64) -> u64 {
        match self.cases {
            Some(cases) => cases,
            None if self.quick => usual.div_ceil(10),
            None => usual,
        }
    }
}

/// The number of cases of a test that usually runs this many and does not take [`seeds!`].
pub fn cases(usual: u64) -> u64 {
    Request::of_environment().cases(usual)
}

/// The seeds to run, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds {
    test: Test,
    all: Vec<u64>,
    is_whole: bool,
}

impl Seeds {
    /// The seeds of a test that usually runs this many new cases. Tests call [`seeds!`].
    ///
    /// # Panics
    /// The list of regressions has an unreadable line, or a setting in the environment is not a number.
    pub fn new(test: Test, usual: u64) -> Seeds {
        Seeds::requested(test, usual, Request::of_environment())
    }

    fn requested(test: Test, usual: u64, request: Request) -> Seeds {
        let seeds = match (request.seed, request.cases) {
            (Some(seed), None) => vec![seed],
            (Some(seed), Some(cases)) => (seed..seed.saturating_add(cases)).collect(),
            (None, _) => {
                let known = regressions(test.regressions).unwrap_or_else(|error| {
                    panic!("tests/regressions.txt of the crate {}: {error}", test.package)
                });
                let known = known.into_iter().filter(|one| one.test == test.name).map(|one| one.seed);
                known.chain(1..=request.cases(usual)).collect()
            }
        };
        let is_whole = seeds.len() as u64 >= usual;
        Seeds { test, all: seeds, is_whole }
    }

    /// One of several parts, counted from 0, so that tests can share the seeds and run in parallel.
    pub fn part(self, number: usize, parts: usize) -> Seeds {
        Seeds { all: self.all.into_iter().skip(number).step_by(parts).collect(), ..self }
    }

    /// Whether these are at least the usual cases (before [`Seeds::part`]), so that a test may check their coverage.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The number of cases.
    pub fn len(&self) -> u64 {
        self.all.len() as u64
    }

    /// Whether there is no case.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

impl IntoIterator for Seeds {
    type Item = u64;
    type IntoIter = Running;

    fn into_iter(self) -> Running {
        Running { test: self.test, seeds: self.all.into_iter(), current: None }
    }
}

/// A run of seeds. Dropped by a panic, it prints how to replay the current seed.
#[derive(Debug)]
pub struct Running {
    test: Test,
    seeds: IntoIter<u64>,
    current: Option<u64>,
}

impl Iterator for Running {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.current = self.seeds.next();
        self.current
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(seed) = self.current.filter(|_| std::thread::panicking()) {
            eprintln!("{}", self.test.replay(seed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: Test = Test {
        package: "rules",
        name: "histories",
        regressions: "histories 77: a loop\nothers 78: something else\n",
    };

    fn run(request: Request) -> Vec<u64> {
        Seeds::requested(TEST, 30, request).into_iter().collect()
    }

    #[test]
    fn a_run_replays_its_regressions_and_then_counts_from_one() {
        let usual = run(Request::default());
        assert_eq!((usual.len(), usual[0], usual[1], usual[30]), (31, 77, 1, 30));
        assert_eq!(run(Request { quick: true, ..Request::default() }), [77, 1, 2, 3]);
        assert_eq!(run(Request { cases: Some(2), quick: true, ..Request::default() }), [77, 1, 2]);
    }

    #[test]
    fn a_seed_is_replayed_alone_and_a_soak_begins_with_it() {
        assert_eq!(run(Request { seed: Some(9), ..Request::default() }), [9]);
        assert_eq!(run(Request { seed: Some(9), cases: Some(3), quick: false }), [9, 10, 11]);
    }

    #[test]
    fn parts_are_disjoint_and_make_up_the_whole() {
        let seeds = Seeds::requested(TEST, 10, Request::default());
        let mut all: Vec<u64> = (0..4).flat_map(|number| seeds.clone().part(number, 4)).collect();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 77]);
        assert!(seeds.part(3, 4).is_whole());
        let quick = Request { quick: true, ..Request::default() };
        assert!(!Seeds::requested(TEST, 30, quick).is_whole());
    }

    #[test]
    fn a_failure_names_the_command_and_the_line_to_add() {
        assert_eq!(
            TEST.replay(9),
            "seed 9 fails. To replay it:\n    WEFT_TEST_SEED=9 cargo nextest run -p rules histories\n\
             To replay it in every run, add this line to tests/regressions.txt of the crate rules:\n    \
             histories 9: WHAT IT FOUND\n"
        );
    }

    #[test]
    #[should_panic(expected = "tests/regressions.txt of the crate rules: line 1")]
    fn a_list_that_cannot_be_read_fails_the_test() {
        Seeds::requested(Test { regressions: "77", ..TEST }, 1, Request::default());
    }
}
