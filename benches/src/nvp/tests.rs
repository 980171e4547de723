//! The program has the required size and is plausible.

use std::collections::BTreeSet;

use nlog::{Severity, Sources, compile};
use nlog_data::{Evaluator, Role};

use super::{INPUTS, LINES, OUTPUTS, Program, RULES, SEED, TABLES, Text};

/// The maximum number of warnings. Conditions are random, and in one rule of twenty they contradict the rows that
/// earlier rules derive.
const MOST_WARNINGS: usize = 80;

fn sources(text: &Text) -> Sources {
    Sources::from_texts(text.files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
}

#[test]
fn it_has_the_size_of_nvp_and_no_errors() {
    for seed in [SEED, 1, 2] {
        let text = Program::generate(seed).text();
        let compilation = compile(&sources(&text));
        let errors = compilation.diagnostics.iter().filter(|found| found.severity == Severity::Error);
        assert_eq!(errors.map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new(), "seed {seed}");
        assert!(compilation.diagnostics.len() <= MOST_WARNINGS, "seed {seed}: {:?}", compilation.diagnostics);
        let program = compilation.program.expect("it compiles");
        let of = |role| program.schema.iter().filter(|(_, table)| table.role == role).count();
        assert_eq!((of(Role::Input), of(Role::Output)), (INPUTS, OUTPUTS), "seed {seed}");
        assert_eq!((program.schema.len(), program.rules.len()), (TABLES, RULES), "seed {seed}");
        let lines: usize = text.files.iter().map(|(_, text)| text.lines().count()).sum();
        assert!(lines.abs_diff(LINES) < LINES / 200, "seed {seed}: {lines} lines");
        assert!((50..=70).contains(&text.files.len()), "seed {seed}: {} files", text.files.len());
    }
}

#[test]
fn one_file_says_the_same() {
    let text = Program::generate(SEED).text();
    let folder = compile(&sources(&text)).program.expect("it compiles");
    let whole = compile(&Sources::from_texts([("whole.nlog", text.whole.as_str())])).program;
    let whole = whole.expect("it compiles");
    assert_eq!(folder.schema, whole.schema);
    let fingerprints =
        |program: &nlog::Program| -> Vec<u64> { program.rules.iter().map(|rule| rule.fingerprint).collect() };
    assert_eq!(fingerprints(&folder), fingerprints(&whole));
}

#[test]
fn a_seed_means_one_program() {
    let (one, other) = (Program::generate(SEED).text(), Program::generate(SEED).text());
    assert_eq!((one.files, one.transaction), (other.files, other.transaction));
    assert_ne!(one.whole, Program::generate(SEED + 1).text().whole);
}

#[test]
fn edits_change_one_line_each_and_keep_it_whole() {
    let text = Program::generate(SEED).text();
    for edit in &text.edits {
        let mut edited = text.clone();
        let file = edited.files.iter_mut().find(|(path, _)| *path == edit.path);
        let (_, content) = file.expect("the file is there");
        assert_eq!(content.matches(&edit.from).count(), 1, "{edit:?}");
        *content = content.replace(&edit.from, &edit.to);
        let lines: BTreeSet<&str> = edit.from.lines().collect();
        assert_eq!(edit.to.lines().filter(|line| !lines.contains(line)).count(), 1, "{edit:?}");
        assert!(compile(&sources(&edited)).program.is_some(), "{edit:?}");
        assert_eq!(text.whole.matches(&edit.from).count(), 1, "{edit:?}");
    }
}

#[test]
fn the_transaction_reaches_most_outputs() {
    let text = Program::generate(SEED).text();
    let program = compile(&sources(&text)).program.expect("it compiles");
    let options = nlog_dataflow::Options::default();
    let mut engine = nlog_dataflow::Dataflow::new(program.clone(), options).expect("it starts");
    let line = nlog_data::json::parse_line(text.transaction.as_bytes(), 1, &program.schema);
    let line = line.expect("it is a transaction of this program");
    assert_eq!(line.transaction.insert.len(), INPUTS);
    let delta = engine.commit(&line.transaction).expect("it is accepted").delta;
    assert!(delta.tables.len() > OUTPUTS / 2, "only {} of {OUTPUTS} outputs", delta.tables.len());
}
