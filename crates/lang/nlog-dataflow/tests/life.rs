//! A long life and a sudden end of an engine.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::support::{compile, resident_kib};
use nlog::program::{Expr, HeadTerm};
use nlog_data::{CommitError, Evaluator, Function, Results, Tables, Transaction, Value, function};
use nlog_dataflow::{Dataflow, Options};

/// Both tests measure the whole process, so they must not overlap.
static ALONE: Mutex<()> = Mutex::new(());

/// A function that panics on 13 and otherwise returns its argument.
fn superstitious() -> Arc<Function> {
    let like = &function::lookup("max_of")[0];
    Arc::new(Function {
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
    })
}

fn worker_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it");
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.starts_with("timely:work")).count()
}

fn insert(engine: &mut Dataflow, table: &str, values: &[i64]) -> Result<(), CommitError> {
    let id = engine.schema().find(table).expect("the test declares it");
    let mut transaction = Transaction::default();
    transaction.insert.insert(id, vec![values.iter().copied().map(Value::Int).collect()]);
    engine.commit(&transaction).map(|_| ())
}

#[test]
fn a_worker_that_panics_is_an_error_and_ends() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let compiled =
        compile("input table a(x: int); output table b(x: int, n: int); b(max_of(x, x), x) :- a(x);");
    let mut program = (*compiled).clone();
    let HeadTerm::Value(Expr::Call { function, arguments }) = &mut program.rules[0].terms[0] else {
        panic!("the head begins with a call")
    };
    *function = superstitious();
    arguments.truncate(1);
    let program = Arc::new(program);
    for workers in [1, 2, 4] {
        let (done, wait) = channel();
        let program = Arc::clone(&program);
        std::thread::spawn(move || {
            let options = Options { workers, observe: Tables::All, attribute: false, ..Options::default() };
            let mut engine = Dataflow::new(program, options).expect("it starts");
            insert(&mut engine, "a", &[12]).expect("12 is harmless");
            let failed = insert(&mut engine, "a", &[13]);
            let after = insert(&mut engine, "a", &[14]);
            drop(engine);
            done.send((failed, after)).expect("the test waits");
        });
        let (failed, after) = wait.recv_timeout(Duration::from_secs(30)).expect("no worker waits for ever");
        let Err(CommitError::Engine(why)) = failed else { panic!("{failed:?}") };
        assert!(why.contains("bad luck"), "{why}");
        assert!(matches!(after, Err(CommitError::Engine(_))), "{after:?}");
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while worker_threads() > 0 {
        assert!(Instant::now() < deadline, "{} threads are left", worker_threads());
        std::thread::yield_now();
    }
}

/// Old times are compacted: rows that come and go leave nothing behind.
#[test]
fn memory_stays_flat_while_rows_come_and_go() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let program = compile(
        "input table a(x: int, y: int); input table b(y: int, z: int); output table c(x: int, z: int) key(x, z);
         output table n(z: int, n: int); c(x, z) :- a(x, y), b(y, z); n(z, count(x)) :- c(x, z);",
    );
    let mut engine = Dataflow::new(Arc::clone(&program), Options::default()).expect("it starts");
    let find = |name| program.schema.find(name).expect("the test declares it");
    let (a, b) = (find("a"), find("b"));
    let mut rounds = |count: i64| {
        for round in 0..count {
            let rows = |first: i64| -> Vec<Vec<Value>> {
                (0..20).map(|at| vec![Value::Int(first + at), Value::Int(at % 5)]).collect()
            };
            let mut transaction = Transaction::default();
            transaction.insert.insert(a, rows(round % 50));
            transaction.insert.insert(b, vec![vec![Value::Int(round % 5), Value::Int(round % 7)]]);
            engine.commit(&transaction).expect("accepted");
            std::mem::swap(&mut transaction.insert, &mut transaction.delete);
            engine.commit(&transaction).expect("accepted");
        }
    };
    rounds(500);
    let before = resident_kib();
    rounds(3000);
    let after = resident_kib();
    assert!(after < before + 6 * 1024, "{before} KiB have become {after} KiB");
}
