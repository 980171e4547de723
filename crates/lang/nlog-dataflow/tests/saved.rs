//! Derived rows that are saved and restored. The random histories restore engines too; here are the reasons why bytes cannot be used.

use std::io::Read;
use std::sync::Arc;

use crate::support::{compile, transaction};
use nlog::Program;
use nlog_data::{Evaluator as _, Tables};
use nlog_dataflow::{Dataflow, Options};
use nlog_plan::Settings;

const TEXT: &str = "
    input table a(x: int, name: string); input table b(x: int, y: int);
    function twice(y: int) -> int = y * 2;
    output table out(x: int, name: string, y: int); output table size(name: string, n: int);
    out(x, name, twice(y)) :- a(x, name), b(x, y);
    size(name, count(x)) :- a(x, name);";

const LOAD: &str = r#"{"insert": {"a": [[1,"one"],[2,"two"],[3,"two"]], "b": [[1,10],[2,20],[2,30]]}}"#;
const NEXT: &str = r#"{"insert": {"a": [[4,"two"]], "b": [[3,40]]}, "delete": {"a": [[2,"two"]]}}"#;

fn engine(program: &Arc<Program>, options: Options) -> Dataflow {
    Dataflow::new(Arc::clone(program), options).expect("it starts")
}

/// An engine with rows, and what it has saved.
fn saved(program: &Arc<Program>) -> (Dataflow, Vec<u8>) {
    let mut engine = engine(program, Options::default());
    engine.commit(&transaction(program, LOAD)).expect("it is right");
    let mut bytes = Vec::new();
    engine.save_derived(&mut bytes).expect("it can be saved");
    (engine, bytes)
}

fn restore(engine: &mut Dataflow, mut bytes: &[u8]) -> Result<(), String> {
    let length = bytes.len() as u64;
    engine.restore_derived(&mut (&mut bytes as &mut dyn Read).take(length))
}

#[test]
fn a_restored_engine_goes_on_and_can_be_saved_again() {
    let program = compile(TEXT);
    let (mut first, bytes) = saved(&program);
    let mut second = engine(&program, Options::default());
    restore(&mut second, &bytes).expect("the bytes are right");
    // Saved before anything was read: its values are still those bytes.
    let mut again = Vec::new();
    second.save_derived(&mut again).expect("it can be saved");
    let mut third = engine(&program, Options::default());
    restore(&mut third, &again).expect("the bytes are right");
    let next = transaction(&program, NEXT);
    let wanted = first.commit(&next).expect("it is right");
    assert!(!wanted.delta.tables.is_empty());
    for engine in [&mut second, &mut third] {
        assert_eq!(engine.commit(&next).expect("it is right"), wanted);
        for table in ["out", "size"] {
            let table = program.schema.find(table).expect("it is declared");
            assert_eq!(engine.contents(table), first.contents(table));
        }
    }
}

#[test]
fn nothing_of_damaged_bytes_is_used() {
    let program = compile(TEXT);
    let (_, bytes) = saved(&program);
    let mut engine = engine(&program, Options::default());
    for at in (0..bytes.len()).step_by(7) {
        assert!(restore(&mut engine, &bytes[..at]).is_err(), "cut at {at}");
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(restore(&mut engine, &damaged).is_err(), "byte {at}");
    }
    // The engine is as before.
    restore(&mut engine, &bytes).expect("the bytes are right");
}

#[test]
fn another_program_or_another_kind_of_run_refuses_the_bytes() {
    let program = compile(TEXT);
    let (mut used, bytes) = saved(&program);
    let other = compile(&TEXT.replace("b(x, y);\n    size", "b(x, y), x != 2;\n    size"));
    let options = Options::default();
    let mut engines = [
        ("another program", engine(&other, options.clone())),
        ("another program", engine(&compile(&TEXT.replace("y * 2", "y * 3")), options.clone())),
        (
            "another program",
            engine(
                &compile(&TEXT.replace("b(x: int, y: int);", "b(x: int, y: int) unique(y);")),
                options.clone(),
            ),
        ),
        ("observed other tables", engine(&program, Options { observe: Tables::All, ..options.clone() })),
        ("which rule", engine(&program, Options { attribute: true, ..options.clone() })),
        ("several workers", engine(&program, Options { workers: 2, ..options.clone() })),
    ];
    for (why, engine) in &mut engines {
        let error = restore(engine, &bytes).expect_err(why);
        assert!(error.contains(*why), "{error}");
    }
    let error = restore(&mut used, &bytes).expect_err("it has rows");
    assert!(error.contains("has run transactions"), "{error}");
    let error = engines[5].1.save_derived(&mut Vec::new()).expect_err("it has workers");
    assert!(error.contains("several workers"), "{error}");
}

#[test]
fn a_restored_engine_has_the_plan_of_the_saved_one() {
    let program = compile(TEXT);
    let rows: Vec<String> = (0..300).map(|x| format!("[{x},{}]", x % 3)).collect();
    let load = format!(r#"{{"insert": {{"a": [[1,"one"]], "b": [{}]}}}}"#, rows.join(","));
    let options = Options { plan_anew_from: 1, ..Options::default() };
    let mut first = engine(&program, options.clone());
    first.commit(&transaction(&program, &load)).expect("it is right");
    let mut bytes = Vec::new();
    first.save_derived(&mut bytes).expect("it can be saved");
    // The other engine is told other settings, which give another plan.
    let planning = Settings { without_stages: true, without_inlining: true, ..Settings::default() };
    let mut second = engine(&program, Options { planning, ..options });
    restore(&mut second, &bytes).expect("the bytes are right");
    assert_eq!(format!("{:?}", first.plan().rules), format!("{:?}", second.plan().rules));
}

#[test]
fn rows_stay_attributed_to_their_rules_after_edits_of_rules() {
    const TABLES: &str = "input table a(x: int); input table b(x: int); output table out(x: int);
        output table other(x: int); other(x) :- b(x);";
    let [before, after] = [["a(x)", "b(x)"], ["b(x)", "a(x), b(x)"]]
        .map(|bodies| compile(&format!("{TABLES} out(x) :- {}; out(x) :- {};", bodies[0], bodies[1])));
    let options = Options { attribute: true, ..Options::default() };
    let mut first = engine(&before, options.clone());
    first
        .commit(&transaction(&before, r#"{"insert": {"a": [[1],[2]], "b": [[2],[3]]}}"#))
        .expect("it is right");
    first.propose(Arc::clone(&after), &options).expect("it is right").accept();
    let mut bytes = Vec::new();
    first.save_derived(&mut bytes).expect("it can be saved");
    let mut second = engine(&after, options);
    restore(&mut second, &bytes).expect("the bytes are right");
    let present = second.present_rows(&|_| true).expect("it reads");
    let [other, out] = ["other", "out"].map(|table| after.schema.find(table).expect("it is declared"));
    assert_eq!(present.delta.tables.keys().copied().collect::<Vec<_>>(), [other, out]);
    for wanted in [other, out] {
        let some = second.present_rows(&|table| table == wanted).expect("it reads").delta.tables;
        assert_eq!(some, [(wanted, present.delta.tables[&wanted].clone())].into());
    }
    let out = &present.delta.tables[&out];
    assert_eq!((out.insert.len(), out.rules.len()), (2, 2));
    assert_eq!(present, first.derive_anew().expect("it derives"));
    let next = transaction(&after, r#"{"insert": {"a": [[3]]}, "delete": {"b": [[2]]}}"#);
    assert_eq!(second.commit(&next).expect("it is right"), first.commit(&next).expect("it is right"));
}
