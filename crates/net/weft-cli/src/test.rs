//! `weft test`: the unit tests beside rules.
//!
//! In reading order: `files` (the files of tests), `report` (the output), `watch` (a run after every change), `verdicts` (which of them change). The crate
//! `rule-tests` runs a single test.

mod files;
mod report;
mod verdicts;
mod watch;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::Args;
use nlog::diagnostic::{Diagnostic, Severity, to_json};
use nlog::source::Sources;
use nlog::{Compilation, Program, Workspace};
use weft_core::builtin;

use crate::exit::Failure;
use crate::program::{load_failure, show};
use report::Tally;
use rule_tests::Outcome;
pub(crate) use verdicts::{OtherVerdict, Verdicts};

/// The end of `--help`.
const EXAMPLE: &str = r#"Tests are in files named NAME.test.nlog. Each file and its imports form one program:
  import "route.nlog";
  test "a machine is reached through its host" {
      given { machine("web", "hv1"); host_address("hv1", "172.16.0.1"); }
      expect route("web", "172.16.0.1");
      change { delete machine("web", "hv1"); insert machine("web", "hv2"); }
      expect no route("web", ..);
  }

Transactions:  given { ROW; }  given objects "FILE";  change { insert ROW; delete ROW; }
Checks:        expect ROW;  expect no ROW;  expect exactly { ROW; }  expect delta { insert ROW; }
               expect error "key-conflict";
Packets:       given port "web-1" on "hv1";
               expect packet from "web-1" match{eth_dst: "ff:ff:ff:ff:ff:ff"} at "db-1", "db-2";
               expect packet from "web-1" match{tcp, tcp_dst: 22} nowhere;

FILE contains network objects, as `weft apply` reads them. `_` and `..` match any value. Packets go
through the flow tables of all hosts, in a simulator. A test starts with the program's facts alone.
The exit status is 1 if a test fails, a program has errors, or there are no tests."#;

/// Arguments of `weft test`.
#[derive(Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Test {
    /// `*.test.nlog` files or folders of them; `builtin` adds the built-in rules
    #[arg(default_value = ".", value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Run only tests whose names contain TEXT
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Run affected tests again whenever a file changes, until interrupted
    #[arg(long)]
    watch: bool,
    /// Print each result as one line of JSON on standard output
    #[arg(long)]
    json: bool,
}

impl Test {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.watch {
            return watch::run(&self);
        }
        let found = files::find(&self.paths)?;
        let suites: Vec<Suite> = found.files.iter().map(|file| self.suite(file)).collect::<Result<_, _>>()?;
        let tally = self.run_suites(&suites)?;
        if tally.tests == 0 && tally.rejected == 0 {
            return Err(Failure::Rejected(self.no_tests(&found, &suites)));
        }
        report::summary(&tally);
        if tally.failed + tally.rejected > 0 { Err(Failure::Reported) } else { Ok(()) }
    }

    /// Reads a file of tests, its imports and the built-in rules that are to be there.
    fn suite(&self, path: &Path) -> Result<Suite, Failure> {
        let given = self.paths.iter().map(PathBuf::as_path).filter(|path| builtin::owns(path));
        let programs: Vec<&Path> = [path].into_iter().chain(given).collect();
        let mut workspace = builtin::open(&programs).map_err(load_failure)?;
        let compilation = workspace.compilation();
        Ok(Suite { path: path.to_owned(), workspace, compilation })
    }

    /// Runs the tests of these files, and reports them.
    fn run_suites(&self, suites: &[Suite]) -> Result<Tally, Failure> {
        let mut tally = Tally::default();
        let mut reports = Vec::new();
        for (suite, outcomes) in suites.iter().zip(run_all(suites, self.filter.as_deref())) {
            self.diagnose(suite)?;
            let tests = suite.chosen(None).len();
            tally = tally + Tally::of_file(suite.program().is_some(), tests, &outcomes);
            if self.json {
                print_json(&outcomes)?;
            } else {
                report::list(suite.name(), &outcomes);
                reports.extend(outcomes.into_iter().filter(|outcome| !outcome.failures.is_empty()));
            }
        }
        report::failures(&reports);
        Ok(tally)
    }

    /// Reports mistakes in a file and its imports. Only the file's own warnings are reported.
    fn diagnose(&self, suite: &Suite) -> Result<(), Failure> {
        let own = |diagnostic: &&Diagnostic| {
            diagnostic.severity == Severity::Error || *diagnostic.file == *suite.name()
        };
        let diagnostics = suite.compilation.diagnostics.iter().filter(own);
        if self.json {
            let mut out = std::io::stdout().lock();
            for diagnostic in diagnostics {
                writeln!(out, "{}", to_json(diagnostic)).map_err(Failure::output)?;
            }
        } else {
            show(diagnostics, suite.sources());
        }
        Ok(())
    }

    /// The reason why no test was run, and the remedy.
    fn no_tests(&self, found: &files::Found, suites: &[Suite]) -> String {
        let tests: usize = suites.iter().filter_map(|suite| suite.program()).map(|p| p.tests.len()).sum();
        let paths: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
        match &self.filter {
            Some(filter) if tests > 0 => {
                format!("no test name contains {filter:?}; `weft test` lists all {tests} tests")
            }
            _ if self.paths.iter().all(|path| builtin::owns(path)) => {
                format!("{} has no tests; also name the folder of a package", paths.join(", "))
            }
            _ if found.files.is_empty() => {
                format!("no file named *.test.nlog in {}; `weft test --help` shows one", paths.join(", "))
            }
            _ => "the files have no tests; `weft test --help` shows one".to_owned(),
        }
    }
}

/// A file of tests, read and checked.
struct Suite {
    path: PathBuf,
    workspace: Workspace,
    compilation: Arc<Compilation>,
}

impl Suite {
    /// Reads again what changed.
    fn reload(&mut self) -> Result<(), Failure> {
        self.workspace.reload().map_err(load_failure)?;
        self.compilation = self.workspace.compilation();
        Ok(())
    }

    fn sources(&self) -> &Sources {
        self.workspace.sources()
    }

    fn program(&self) -> Option<&Arc<Program>> {
        self.compilation.program.as_ref()
    }

    /// The name of the file in diagnostics.
    fn name(&self) -> &str {
        self.sources().files().first().map_or("", |file| &file.name)
    }

    /// The files that the suite consists of, and missing ones that it names.
    fn inputs(&self) -> BTreeSet<PathBuf> {
        let sources = self.sources();
        let files = sources.files().iter().map(|file| PathBuf::from(&*file.name));
        let named = sources.missing_imports().chain(sources.objects_files());
        files.chain(named).chain([self.path.clone()]).collect()
    }

    /// The numbers of the tests to run: the file's own, not those of imported test files.
    fn chosen(&self, filter: Option<&str>) -> Vec<usize> {
        let tests = self.program().into_iter().flat_map(|program| program.tests.iter().enumerate());
        let chosen = tests.filter(|(_, test)| {
            *test.place.file == *self.name() && filter.is_none_or(|filter| test.name.contains(filter))
        });
        chosen.map(|(number, _)| number).collect()
    }
}

/// Runs tests in parallel, as many as there are processors; the results are in the order of files and tests.
fn run_all(suites: &[Suite], filter: Option<&str>) -> Vec<Vec<Outcome>> {
    let mut jobs = Vec::new();
    for (suite, at) in suites.iter().zip(0..) {
        let program = suite.program().into_iter().cycle();
        jobs.extend(suite.chosen(filter).into_iter().zip(program).map(|(test, program)| (at, program, test)));
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((suite, program, test)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push((*suite, *test, rule_tests::run(program, &program.tests[*test])));
        }
        done
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let mut done: Vec<(usize, usize, Outcome)> = thread::scope(|scope| {
        let threads: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut done = work();
        for thread in threads {
            done.append(&mut thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(suite, test, _)| (*suite, *test));
    let mut outcomes: Vec<Vec<Outcome>> = suites.iter().map(|_| Vec::new()).collect();
    for (suite, _, outcome) in done {
        outcomes[suite].push(outcome);
    }
    outcomes
}

fn print_json(outcomes: &[Outcome]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for outcome in outcomes {
        writeln!(out, "{}", report::to_json(outcome)).map_err(Failure::output)?;
    }
    Ok(())
}
