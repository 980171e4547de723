//! Tables whose rows were each derived once are watched, not counted; and counted once that ends. The answers are those of the
//! reference throughout.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::support::{Runs, compile, transaction};
use nlog::Program;
use nlog_data::{Evaluator as _, Tables, TransactionError};
use nlog_dataflow::{Dataflow, Options};

/// `of` can have two rules for a row and two rows for a key, and has too many columns to be counted from the start. `refuse` refuses a transaction whose rows it has derived.
const TEXT: &str = "
    input table a(x: int, y: int); input table b(x: int, y: int); input table bad(x: int);
    table of(x: int, y: int, p: int, q: int, r: int) key(x); output table flow(x: int, y: int) key(x);
    output table out(x: int, y: int, p: int, q: int, r: int);
    forbid table refuse(x: int);
    of(x, y, 0, 0, 0) :- a(x, y); of(x, y, 0, 0, 0) :- b(x, y);
    out(x, y, p, q, r) :- of(x, y, p, q, r);
    flow(x, y) :- a(x, y); flow(x, y) :- b(x, y);
    refuse(x) :- bad(x), of(x, _, _, _, _);";

/// Rows that a build watches. Debug builds watch fewer rows than others do, and their hashes are short, so that many rows have equal
/// ones.
const ROWS: std::ops::Range<i64> = 0..if cfg!(debug_assertions) { 300 } else { 6000 };

fn rows(range: impl Iterator<Item = i64>, y: i64) -> String {
    range.fold(String::new(), |mut text, x| {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}[{x},{y}]");
        text
    })
}

fn engine(program: &Arc<Program>, attribute: bool) -> Dataflow {
    engine_with(program, attribute, 1)
}

fn engine_with(program: &Arc<Program>, attribute: bool, workers: usize) -> Dataflow {
    let options = Options { observe: Tables::All, attribute, workers, ..Options::default() };
    Dataflow::new(Arc::clone(program), options).expect("it starts")
}

/// The numbers of counted and of watched rows of a table.
fn kept(engine: &mut Dataflow, table: &str) -> (usize, usize) {
    let relations = engine.profile().expect("it works").relations;
    let found = relations.iter().find(|relation| relation.name == table);
    found.map_or((0, 0), |relation| (relation.counted, relation.watched))
}

/// Commits lines, and returns what is kept of table `of` after each, or the error.
fn keeps(engine: &mut Dataflow, lines: &[&str]) -> Vec<Result<(usize, usize), TransactionError>> {
    let program = Arc::clone(engine.program());
    let line = |line: &&str| match engine.commit(&transaction(&program, line)) {
        Ok(_) => Ok(kept(engine, "of")),
        Err(nlog_data::CommitError::Refused(error)) => Err(error),
        Err(error) => panic!("{error}"),
    };
    lines.iter().map(line).collect()
}

fn load() -> String {
    format!(r#"{{"insert": {{"a": [{}]}}}}"#, rows(ROWS, 1))
}

#[test]
fn rows_that_were_derived_once_are_watched() {
    let program = compile(TEXT);
    let mut engine = engine(&program, true);
    let all = ROWS.count();
    let kept = keeps(
        &mut engine,
        &[
            &load(),
            r#"{"delete": {"a": [[3,1],[4,1]]}}"#,
            r#"{"insert": {"a": [[3,2]], "b": [[4,1],[10000,1]]}, "delete": {"a": [[5,1]]}}"#,
        ],
    );
    assert_eq!(kept, [Ok((0, all)), Ok((0, all - 2)), Ok((0, all))]);
    let of = |name| program.schema.find(name).expect("the test declares it");
    assert_eq!(engine.contents(of("of")), engine.contents(of("out")), "they can be read");
}

/// A second port of a switch on a host, say, gives a row that is there. It must not take the time of all rows.
#[test]
fn rows_of_few_columns_are_counted_from_the_start() {
    let program = compile(
        "input table a(x: int, y: int); table of(x: int); output table out(x: int, y: int);
        of(x) :- a(x, _); out(x, x) :- of(x);",
    );
    let mut engine = engine(&program, true);
    let second = r#"{"insert": {"a": [[7,2]]}}"#;
    let steps = keeps(&mut engine, &[&load(), second]);
    assert_eq!(steps[0], Ok((ROWS.count(), 0)));
    assert!(matches!(steps[1], Ok((counted, 0)) if counted >= ROWS.count()), "{steps:?}");
    engine.idle().expect("it works");
    assert_eq!(kept(&mut engine, "of").1, 0, "nor is it watched later");
}

#[test]
fn a_second_derivation_and_a_second_row_of_a_key_end_it() {
    for second in [
        r#"{"insert": {"b": [[7,1]]}}"#,
        r#"{"insert": {"b": [[7,1],[8,1],[9,2]]}, "delete": {"a": [[9,1]]}}"#,
    ] {
        let mut engine = engine(&compile(TEXT), false);
        let kept = keeps(&mut engine, &[&load(), second]);
        assert_eq!(kept[0], Ok((0, ROWS.count())));
        assert!(matches!(kept[1], Ok((counted, 0)) if counted >= ROWS.count()), "{kept:?}");
    }
    let mut engine = engine(&compile(TEXT), false);
    let kept =
        keeps(&mut engine, &[&load(), r#"{"insert": {"b": [[7,2]]}}"#, r#"{"insert": {"b": [[7,1]]}}"#]);
    assert_eq!(kept[1].as_ref().map_err(|error| error.code), Err(nlog_data::ErrorCode::KeyConflict));
    assert!(matches!(kept[2], Ok((counted, 0)) if counted >= ROWS.count()), "{kept:?}");
}

#[test]
fn a_refused_transaction_leaves_the_hashes_as_they_were() {
    let mut engine = engine(&compile(TEXT), true);
    let refused = format!(r#"{{"insert": {{"a": [{}], "bad": [[1]]}}}}"#, rows(ROWS, 1));
    let kept = keeps(
        &mut engine,
        &[
            // The table that it would begin to watch is empty again.
            &refused,
            &load(),
            r#"{"insert": {"a": [[10000,1]], "bad": [[2]]}, "delete": {"a": [[1,1]]}}"#,
            r#"{"insert": {"a": [[10000,1]]}, "delete": {"a": [[1,1]]}}"#,
        ],
    );
    let all = ROWS.count();
    assert!(kept[0].is_err() && kept[2].is_err(), "{kept:?}");
    assert_eq!(kept[1], Ok((0, all)));
    assert_eq!(kept[3], Ok((0, all)), "{kept:?}");
}

#[test]
fn a_table_that_grows_is_watched_from_some_idle_time_on() {
    let program = compile(TEXT);
    let mut engine = engine(&program, false);
    let all: Vec<i64> = ROWS.collect();
    for some in all.chunks(3) {
        let line = format!(r#"{{"insert": {{"a": [{}]}}}}"#, rows(some.iter().copied(), 1));
        engine.commit(&transaction(&program, &line)).expect("nothing is wrong with it");
    }
    assert_eq!(kept(&mut engine, "of").1, 0);
    engine.idle().expect("it works");
    assert_eq!(kept(&mut engine, "of"), (0, all.len()));
    // Counted again after a second derivation, and looked at again only with twice the rows.
    let second = transaction(&program, r#"{"insert": {"b": [[7,1]]}}"#);
    engine.commit(&second).expect("nothing is wrong with it");
    let first = transaction(&program, r#"{"delete": {"b": [[7,1]]}}"#);
    engine.commit(&first).expect("nothing is wrong with it");
    engine.idle().expect("it works");
    assert!(matches!(kept(&mut engine, "of"), (counted, 0) if counted >= all.len()));
    let more = format!(r#"{{"insert": {{"a": [{}]}}}}"#, rows(20_000..20_000 + ROWS.end, 1));
    engine.commit(&transaction(&program, &more)).expect("nothing is wrong with it");
    engine.idle().expect("it works");
    assert_eq!(kept(&mut engine, "of"), (0, 2 * all.len()));
}

/// The numbers of counted and of watched rows are those of the first worker.
#[test]
fn every_thread_watches_its_part_until_one_meets_a_second_derivation() {
    let program = compile(TEXT);
    for workers in [2, 3] {
        let mut engine = engine_with(&program, true, workers);
        let second = r#"{"insert": {"b": [[7,1]]}}"#;
        let steps = keeps(
            &mut engine,
            &[&load(), r#"{"delete": {"a": [[3,1]]}}"#, second, r#"{"insert": {"a": [[3,1]]}}"#],
        );
        let all = ROWS.count();
        for watched in &steps[..2] {
            let (counted, watched) = watched.as_ref().expect("nothing is wrong with it");
            assert!(*counted == 0 && *watched > 0 && *watched < all, "{steps:?}");
        }
        for counted in &steps[2..] {
            assert!(matches!(counted, Ok((counted, 0)) if *counted > 0 && *counted < all), "{steps:?}");
        }
        let flow = kept(&mut engine, "flow");
        assert!(flow.1 == 0, "the same row came a second time here: {flow:?}");
        // Rows that are stored at no worker can be read all the same, and the next transaction changes them.
        let of = |name| program.schema.find(name).expect("the test declares it");
        let mut rows = || engine.contents(of("out")).expect("it works");
        let before = rows();
        assert_eq!((before.len(), rows().len()), (all, all));
        assert_eq!(engine.contents(of("of")).as_ref(), Ok(&before));
        engine
            .commit(&transaction(&program, r#"{"delete": {"a": [[4,1]]}}"#))
            .expect("nothing is wrong with it");
        assert_eq!(engine.contents(of("out")).expect("it works").len(), all - 1);
    }
}

/// Derivations that come, go and change their rule, in all engines.
#[test]
fn answers_are_those_of_the_reference() {
    let program = compile(TEXT);
    for attribute in [false, true] {
        let mut runs = Runs::new(&program, &Tables::All, attribute);
        for line in [
            &load(),
            // Another rule derives a row; another row has its key; a row goes and comes in one transaction.
            r#"{"delete": {"a": [[1,1]]}, "insert": {"b": [[1,1]]}}"#,
            r#"{"delete": {"a": [[2,1]]}, "insert": {"b": [[2,5]]}}"#,
            r#"{"delete": {"a": [[3,1]]}, "insert": {"a": [[3,1]]}}"#,
            // A conflict, and a refusal.
            r#"{"insert": {"b": [[4,9]]}}"#,
            r#"{"insert": {"bad": [[4]]}}"#,
            r#"{"insert": {"b": [[4,1],[5,1]]}}"#,
            r#"{"delete": {"a": [[4,1]], "b": [[5,1]]}}"#,
            r#"{"insert": {"a": [[4,1]], "bad": [[9000]]}, "delete": {"b": [[4,1]]}}"#,
            r#"{"insert": {"a": [[9000,1]]}}"#,
        ] {
            runs.commit(&transaction(&program, line));
            assert!(runs.agreed(), "{attribute} {line}\n{}", runs.difference());
        }
        assert!(runs.contents_are_equal());
    }
}

/// An edit of rules brings second derivations and conflicts, or takes rows away.
#[test]
fn edits_of_rules_end_it_if_they_must() {
    let (both, one) = (compile(TEXT), compile(&TEXT.replace("of(x, y, 0, 0, 0) :- b(x, y);", "")));
    let options = Options { observe: Tables::All, ..Options::default() };
    let mut engine = engine(&one, false);
    keeps(&mut engine, &[&load(), r#"{"insert": {"b": [[10000,2]]}}"#]);
    let before = kept(&mut engine, "of");
    let proposal = engine.propose(Arc::clone(&both), &options).expect("nothing is wrong with it");
    assert!(proposal.delta().to_rows().tables.contains_key(&both.schema.find("of").expect("it is there")));
    drop(proposal);
    assert_eq!(kept(&mut engine, "of"), before, "a proposal that is dropped changes nothing");
    engine.propose(Arc::clone(&both), &options).expect("nothing is wrong with it").accept();
    // Both tables have rules for rows of `b` now. A row there twice, and one key with two rows.
    let kept = keeps(&mut engine, &[r#"{"insert": {"b": [[1,1]]}}"#, r#"{"insert": {"b": [[2,2]]}}"#]);
    assert!(matches!(kept[0], Ok((counted, 0)) if counted > ROWS.count()), "{kept:?}");
    assert!(kept[1].is_err(), "{kept:?}");
    engine.propose(one, &options).expect("nothing is wrong with it").accept();
    engine.propose(both, &options).expect("nothing is wrong with it").accept();
    assert!(keeps(&mut engine, &[r#"{"delete": {"a": [[1,1]]}}"#])[0].is_ok());
}
