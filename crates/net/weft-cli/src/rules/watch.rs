//! `weft rules watch`: what each save of rules changes in a recorded network, and which of their tests change their verdict.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::{Value as Json, json};
use weft_core::core::{Core, Refusal};
use weft_core::rules::Rules;

use super::diff::change_rules;
use crate::compare::{Difference, core_at};
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
        let core = core_at(&recorded, &at, rules, 1)?;
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
            Ok(rules) => change_rules(&mut self.core, &Arc::new(rules), "weft rules watch")?,
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
    result: &Result<Difference, Refusal>,
    tests: &[OtherVerdict],
    elapsed: f64,
) -> String {
    let mut text = format!("--- saved: {}\n", names.join(", "));
    match result {
        Ok(difference) => text += &difference.text(),
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

fn in_json(
    names: &[String],
    result: &Result<Difference, Refusal>,
    tests: &[OtherVerdict],
    elapsed: f64,
) -> Json {
    let tests = tests.iter().map(|OtherVerdict { file, test, why }| {
        json!({"file": file.display().to_string(), "test": test, "ok": why.is_none(), "why": why})
    });
    let mut line = match result {
        Ok(difference) => difference.json(),
        Err(refusal) => json!({"error": refusal.to_string()}),
    };
    line["saved"] = json!(names);
    line["tests"] = tests.collect();
    line["milliseconds"] = json!(elapsed);
    line
}
