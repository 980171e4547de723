//! The composed engine by itself. The tests of `nlog-dataflow` and `nlog-hooks` compare it with the other evaluators, on
//! random programs and histories.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use composed_engine::{Composed, Options};
use nlog::Program;
use nlog::program::{Expr, HeadTerm};
use nlog_data::{
    CommitError, ErrorCode, Evaluator, Function, Results, TableDelta, TableId, Tables, Transaction, Value,
    function,
};
use nlog_plan::Settings;

fn compile(text: &str) -> Arc<Program> {
    let compilation = nlog::compile(&nlog::Sources::from_texts([("test.nlog", text)]));
    compilation.program.unwrap_or_else(|| panic!("{text}\ndoes not compile: {:?}", compilation.diagnostics))
}

fn id(program: &Program, name: &str) -> TableId {
    program.schema.find(name).expect("the test declares it")
}

fn rows(rows: &[&[i64]]) -> Vec<Vec<Value>> {
    rows.iter().map(|row| row.iter().copied().map(Value::Int).collect()).collect()
}

fn insert(table: TableId, of: &[&[i64]]) -> Transaction {
    Transaction { insert: [(table, rows(of))].into(), ..Transaction::default() }
}

#[test]
fn no_workers_no_engine() {
    let options = Options { workers: 0, ..Options::default() };
    let why = Composed::new(compile("input table a(x: int);"), options).err();
    assert_eq!(why.as_deref(), Some("the engine needs at least one worker"));
}

#[test]
fn what_was_not_asked_for_is_not_kept() {
    let program = compile(
        "input table a(x: int); table m(x: int); output table b(x: int); m(x) :- a(x); b(x) :- m(x);",
    );
    let (a, m, b) = (id(&program, "a"), id(&program, "m"), id(&program, "b"));
    let options = Options { observe: Tables::These(BTreeSet::from([b])), ..Options::default() };
    let mut engine = Composed::new(program, options).expect("it starts");
    let delta = engine.commit(&insert(a, &[&[1]])).expect("nothing is wrong with it").delta;
    assert_eq!(delta.tables.keys().collect::<Vec<_>>(), [&b]);
    assert_eq!(engine.contents(b), Ok(rows(&[&[1]])));
    assert_eq!(engine.contents(a), Ok(rows(&[&[1]])));
    let Err(CommitError::Engine(why)) = engine.contents(m) else { panic!("nobody asked for m") };
    assert!(why.contains("table m was not requested"), "{why}");
}

/// A product of 130 factors: with two rows, 2¹³⁰ ways, which 128 bits would count as none.
#[test]
fn more_ways_than_fit_into_any_word_are_refused_and_leave_no_trace() {
    let product = ["e(h, _)"; 130].join(", ");
    let program = compile(&format!(
        "input table e(h: int, x: int); output table r(h: int); output table n(h: int); r(h) :- {product}; n(h) :- e(h, _);"
    ));
    let (e, r, n) = (id(&program, "e"), id(&program, "r"), id(&program, "n"));
    for workers in [1, 2] {
        let planning = Settings { without_stages: true, without_inlining: true, ..Settings::default() };
        let options = Options { workers, planning, ..Options::default() };
        let mut engine = Composed::new(Arc::clone(&program), options).expect("it starts");
        engine.commit(&insert(e, &[&[1, 1]])).expect("each row is there in one way");
        let refused = engine.commit(&insert(e, &[&[1, 2], &[2, 1]]));
        let Err(CommitError::Refused(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(error.code, ErrorCode::Overflow);
        assert!(error.message.starts_with("table r: a row is derived in more than"), "{}", error.message);
        assert_eq!(engine.contents(r), Ok(rows(&[&[1]])));
        let delta = engine.commit(&insert(e, &[&[2, 1]])).expect("each row is there in one way").delta;
        let two = TableDelta { insert: rows(&[&[2]]), ..TableDelta::default() };
        assert_eq!(delta.tables, [(n, two.clone()), (r, two)].into());
    }
}

/// A function that panics on 13 and otherwise returns its argument.
fn superstitious() -> Function {
    let like = &function::lookup("max_of")[0];
    Function {
        name: "superstitious".into(),
        parameters: like.parameters[..1].to_vec(),
        variadic: false,
        results: like.results.clone(),
        multiplicity: function::Multiplicity::One,
        may_fail: false,
        doc: "for this test".into(),
        examples: Vec::new(),
        definition: "".into(),
        evaluate: Box::new(|arguments| {
            assert_ne!(arguments[0], Value::Int(13), "bad luck");
            Ok(Results::One(arguments[0].clone()))
        }),
    }
}

#[test]
fn a_worker_that_panics_is_an_error_from_then_on() {
    let compiled = compile("input table a(x: int); output table b(x: int); b(max_of(x, x)) :- a(x);");
    let mut program = (*compiled).clone();
    let HeadTerm::Value(Expr::Call { function, arguments }) = &mut program.rules[0].terms[0] else {
        panic!("the head begins with a call")
    };
    *function = Arc::new(superstitious());
    arguments.truncate(1);
    let (program, a) = (Arc::new(program), id(&compiled, "a"));
    for workers in [1, 2, 4] {
        let (done, wait) = channel();
        let program = Arc::clone(&program);
        std::thread::spawn(move || {
            let options = Options { workers, ..Options::default() };
            let mut engine = Composed::new(program, options).expect("it starts");
            engine.commit(&insert(a, &[&[12]])).expect("12 is harmless");
            let failed = engine.commit(&insert(a, &[&[13]]));
            let after = [engine.commit(&insert(a, &[&[14]])).map(drop), engine.contents(a).map(drop)];
            // The threads end, too.
            drop(engine);
            done.send((failed, after)).expect("the test waits");
        });
        let (failed, after) = wait.recv_timeout(Duration::from_secs(30)).expect("no worker waits for ever");
        let Err(CommitError::Engine(why)) = failed else { panic!("{failed:?}") };
        assert!(why.contains("bad luck"), "{why}");
        for after in after {
            let Err(CommitError::Engine(later)) = after else { panic!("{after:?}") };
            assert!(later.starts_with(&why) && later.len() > why.len(), "{later}");
        }
    }
}
