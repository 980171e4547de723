//! `weft rules watch`: what each save of rules changes in a recorded network, and which of their tests change their verdict.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use clap::Args;
use controller::delta_message;
use serde_json::{Value as Json, json};
use weft_client::{message_json, pb};
use weft_core::core::{Core, CoreError, ProblemChanges, Refusal, RulesTransition};
use weft_core::rules::Rules;
use weft_core::switch_delta::SwitchDelta;

use crate::client::delta;
use crate::compare::{core_at, problem_json, problem_lines};
use crate::exit::{Failure, print_as, say};
use crate::recorded::Recorded;
use crate::saved_files::SavedFiles;
use crate::test::{OtherVerdict, Verdicts};

/// Arguments of `weft rules watch`.
#[derive(Args)]
#[command(after_help = "\
        Each save is compared with the rules before it, in the network at the end of RECORDED: flows by\n\
        host, table and rule, problems, and the tests beside the rules whose verdict changes.")]
pub(crate) struct WatchRules {
    /// The rules, as one program; `builtin` is the built-in ones
    #[arg(required = true, value_name = "RULES")]
    rules: Vec<PathBuf>,
    /// The network: a snapshot, a journal or a state folder
    #[arg(long, value_name = "RECORDED")]
    snapshot: PathBuf,
    /// Print JSON, one save per line
    #[arg(long)]
    json: bool,
}

/// The rules that are watched, in a network.
struct Watch {
    paths: Vec<PathBuf>,
    core: Core,
    tests: Verdicts,
    saved: SavedFiles,
}

/// What a save changes.
#[derive(Default)]
struct Saved {
    delta: pb::SwitchDelta,
    problems: ProblemChanges,
}

impl WatchRules {
    /// Runs the command until it is interrupted.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let WatchRules { rules: paths, snapshot, json } = self;
        let begun = Instant::now();
        let mut saved = SavedFiles::default();
        add_all(&mut saved, &paths);
        let rules = load(&paths).map_err(Failure::Rejected)?;
        let recorded = Recorded::open(&snapshot, None)?;
        let at = recorded.last_until(None)?;
        let mut core = core_at(&recorded, &at, rules, 1)?;
        core.make_evaluators_with(Arc::new(|rules| controller::evaluator(rules, 1)));
        core.edit_evaluators_with(Arc::new(controller::edit));
        let tests = Verdicts::of(&paths)?;
        for file in tests.inputs() {
            saved.add(file);
        }
        say(format_args!(
            "{} after transaction {}, of {}; tests: {}; ready after {:.1} s",
            snapshot.display(),
            at.txn,
            at.at,
            tests.count(),
            begun.elapsed().as_secs_f64()
        ));
        let mut watch = Watch { paths, core, tests, saved };
        loop {
            let changed = watch.saved.wait();
            print_as(json, &watch.follow(&changed, json)?)?;
        }
    }
}

impl Watch {
    /// What is said of a save of these files.
    fn follow(&mut self, changed: &BTreeSet<PathBuf>, is_json: bool) -> Result<String, Failure> {
        let begun = Instant::now();
        for path in changed {
            self.saved.renew(path);
        }
        add_all(&mut self.saved, &self.paths);
        let result = match load(&self.paths).map_err(Refusal::NewRules) {
            Ok(rules) => self.change(&Arc::new(rules))?,
            Err(refusal) => Err(refusal),
        };
        let elapsed = begun.elapsed().as_secs_f64() * 1e3;
        let tests = self.tests.follow(changed)?;
        for file in self.tests.inputs() {
            self.saved.add(file);
        }
        let names: Vec<String> = changed.iter().map(|path| path.display().to_string()).collect();
        let text = if is_json {
            format!("{}\n", in_json(&names, &result, &tests, elapsed))
        } else {
            in_text(&names, &result, &tests, elapsed)
        };
        // Merges what the save changed, while the developer reads.
        self.core.idle().map_err(|error| Failure::Outside(error.to_string()))?;
        Ok(text)
    }

    /// Goes on with other rules, unless they are refused.
    fn change(&mut self, rules: &Arc<Rules>) -> Result<Result<Saved, Refusal>, Failure> {
        let before = self.core.rules().clone();
        let mut change = |transition| {
            self.core.change_rules(rules, transition, "weft rules watch", SystemTime::UNIX_EPOCH)
        };
        let mut result = change(RulesTransition::Edit);
        if matches!(result, Err(CoreError::Refused(Refusal::NotByEdit))) {
            result = change(RulesTransition::Replace(None));
        }
        let accepted = match result {
            Ok(accepted) => accepted,
            Err(CoreError::Refused(refusal)) => return Ok(Err(refusal)),
            Err(CoreError::Failed(why)) => return Err(Failure::Outside(why)),
        };
        let Some(done) = accepted.transaction else { return Ok(Ok(Saved::default())) };
        let delta = SwitchDelta::of_rules(&done, &self.core).unwrap_or_default();
        let delta = delta_message(&delta, &[rules.clone(), before]);
        self.core.journalled();
        Ok(Ok(Saved { delta, problems: done.problems }))
    }
}

fn load(paths: &[PathBuf]) -> Result<Rules, String> {
    Rules::load(paths).map_err(|error| error.to_string())
}

/// Takes stamps of the files of rules and tests in these files and folders, as far as they are not known yet, and of the folders.
fn add_all(saved: &mut SavedFiles, paths: &[PathBuf]) {
    let mut left: Vec<PathBuf> = paths.iter().filter(|path| path.exists()).cloned().collect();
    while let Some(path) = left.pop() {
        saved.add(&path);
        // A folder that cannot be read is an error of the rules.
        let Ok(entries) = std::fs::read_dir(&path) else { continue };
        let entries = entries.filter_map(Result::ok).map(|entry| entry.path());
        left.extend(entries.filter(|path| is_watched(path)));
    }
}

/// Whether a file or folder can have rules or tests.
fn is_watched(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    !is_hidden && (path.is_dir() || path.extension().is_some_and(|extension| extension == "nlog"))
}

fn in_text(
    names: &[String],
    result: &Result<Saved, Refusal>,
    tests: &[OtherVerdict],
    elapsed: f64,
) -> String {
    let mut text = format!("--- saved: {}\n", names.join(", "));
    match result {
        Ok(Saved { delta, problems }) => {
            text += &delta::to_text(delta);
            text += &problem_lines(&problems.new, &problems.gone);
        }
        Err(refusal) => {
            text += &format!("{refusal}\nthe rules before stay, until these are right\n");
        }
    }
    for OtherVerdict { file, test, why } in tests {
        let file = file.display();
        text += &match why {
            Some(why) => format!("test \"{test}\" ({file}) fails now: {why}\n"),
            None => format!("test \"{test}\" ({file}) passes now\n"),
        };
    }
    text + &format!("after {elapsed:.0} ms\n")
}

fn in_json(names: &[String], result: &Result<Saved, Refusal>, tests: &[OtherVerdict], elapsed: f64) -> Json {
    let tests = tests.iter().map(|OtherVerdict { file, test, why }| {
        json!({"file": file.display().to_string(), "test": test, "ok": why.is_none(), "why": why})
    });
    let mut line = json!({"saved": names, "tests": tests.collect::<Vec<_>>(), "milliseconds": elapsed});
    match result {
        Ok(Saved { delta, problems }) => {
            let of = |problems: &[_]| problems.iter().map(problem_json).collect::<Vec<_>>();
            line["delta"] = message_json::to_json(delta);
            line["new_problems"] = of(&problems.new).into();
            line["resolved_problems"] = of(&problems.gone).into();
        }
        Err(refusal) => line["error"] = refusal.to_string().into(),
    }
    line
}
