//! Engines that share their work between processes, one behaviour per test. `random.rs` compares their results with
//! those of other engines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use crate::support::process::{Process, SECRET, helper};
use crate::support::setup::{Setup, Shared};
use crate::support::{Runs, compile, transaction};
use nlog_data::{CommitError, Evaluator, Tables, Transaction, Value};
use nlog_dataflow::processes::{Meeting, MeetingError, ServeError, serve};
use nlog_dataflow::{Dataflow, Kind, Options, StartError};

/// Bindings move between processes, groups are computed, keys are checked, and computations can fail.
const TEXT: &str = "input table link(a: string, b: string);
    input table weight(node: string, kilo: int) key(node);
    output table path(a: string, c: string, kilo: int);
    output table degree(a: string, links: int) key(a);
    output table heaviest(c: string, a: string) key(c);
    path(a, c, k * 1000000000000) :- link(a, b), link(b, c), weight(b, k);
    degree(a, count()) :- link(a, _);
    heaviest(c, a) :- path(a, c, k), k > 90000000000000;";

fn across(processes: usize) -> Shared {
    let options = Options { observe: Tables::All, ..Options::default() };
    Shared::new(compile(TEXT), options, processes, TEXT)
}

#[test]
fn processes_share_the_work_and_agree() {
    let program = compile(TEXT);
    let mut runs = Runs::alone(&program, &Tables::All, true);
    for count in [2, 3] {
        runs.add(Setup { processes: Some((count, TEXT.to_owned())), ..Setup::new(Kind::Fused, 1) });
    }
    let steps = [
        r#"{"insert": {"link": [["a", "b"], ["b", "c"], ["b", "d"], ["c", "a"]], "weight": [["b", 7], ["c", 8]]}}"#,
        r#"{"insert": {"link": [["d", "a"]]}, "delete": {"weight": [["b", 7]]}}"#,
        // Two rows for the key c, then an overflow, then a row for a key that is taken.
        r#"{"insert": {"link": [["x", "b"], ["y", "b"]], "weight": [["b", 95]]}}"#,
        r#"{"insert": {"weight": [["b", 9223372036854775807]]}}"#,
        r#"{"insert": {"weight": [["c", 9]]}}"#,
        r#"{"insert": {"weight": [["b", 4]]}, "delete": {"link": [["a", "b"], ["c", "a"]]}}"#,
    ];
    let mut refused = 0;
    for step in steps {
        let line = runs.commit(&transaction(&program, step));
        assert!(runs.agreed(), "{line}\n{}", runs.difference());
        refused += usize::from(runs.refused());
    }
    assert_eq!(refused, 3);
    assert!(runs.contents_are_equal());
}

/// Every process has the inputs, and one of them, the home of a binding, continues with it. A failure must have one
/// home as well, whatever number each process gives it. Otherwise no process would report it.
#[test]
fn a_failure_is_met_by_somebody() {
    let text = "input table c(x: int, t: int);
        input table a(x: int, k: int);
        input table b(k: int, z: int);
        output table m(x: int, t: int);
        output table n(q: int);
        output table o(y: int, z: int) key(y);
        m(x, t) :- c(x, t);
        n(t / x) :- m(x, t);
        o(y, z) :- a(x, k), y = k / x, b(k, z);";
    let program = compile(text);
    let mut runs = Runs::alone(&program, &Tables::Outputs, false);
    runs.add(Setup { processes: Some((2, text.to_owned())), ..Setup::new(Kind::Fused, 1) });
    let list = |rows: &mut dyn Iterator<Item = String>| rows.collect::<Vec<_>>().join(",");
    // One process meets many failures first, so that the processes number later failures differently.
    let zeros = list(&mut (1..30).map(|t| format!("[0,{t}]")));
    let rows = list(&mut (0..30).map(|k| format!("[{k},1]")));
    let mut lines =
        vec![format!(r#"{{"insert": {{"c": [{zeros}]}}}}"#), format!(r#"{{"insert": {{"b": [{rows}]}}}}"#)];
    lines.extend((0..30).map(|k| format!(r#"{{"insert": {{"a": [[0,{k}]]}}}}"#)));
    let mut refused = 0;
    for line in lines {
        runs.commit(&transaction(&program, &line));
        assert!(runs.agreed(), "{line}\n{}", runs.difference());
        refused += usize::from(runs.refused());
    }
    assert_eq!(refused, 31);
}

#[test]
fn every_process_has_work() {
    let mut shared = across(3);
    let program = Arc::clone(shared.engine.program());
    let link = program.schema.find("link").expect("declared");
    let rows = (0..500).map(|at| {
        let node = |at: i32| Value::String(format!("node {}", at % 500).into());
        vec![node(at), node(at * 7 + 1)]
    });
    let mut transaction = Transaction::default();
    transaction.insert.insert(link, rows.collect());
    shared.engine.commit(&transaction).expect("nothing is wrong with it");
    let profile = shared.engine.profile().expect("all are there").expect("the fused engine counts");
    assert_eq!(profile.workers.len(), 3);
    let total: u64 = profile.workers.iter().map(|load| load.derived).sum();
    for load in &profile.workers {
        assert!(load.derived * 5 > total, "each derives a fair part: {:?}", profile.workers);
    }
}

/// More new names than the number of symbols that triggers a collection, so that every process collects symbols.
#[test]
fn ever_new_names_agree() {
    let program = compile(TEXT);
    let mut runs = Runs::alone(&program, &Tables::All, false);
    runs.add(Setup::new(Kind::Fused, 1));
    runs.add(Setup { processes: Some((2, TEXT.to_owned())), ..Setup::new(Kind::Fused, 1) });
    let (link, weight) = (program.schema.find("link").unwrap(), program.schema.find("weight").unwrap());
    let mut before = Transaction::default();
    for step in 0..16 {
        let name = |at: i64| Value::String(format!("node {step} {at}").into());
        let mut transaction = Transaction { delete: before.insert, ..Transaction::default() };
        let links = (0..1500).map(|at| vec![name(at), name(at / 2)]);
        transaction.insert.insert(link, links.collect());
        transaction.insert.insert(weight, (0..1500).map(|at| vec![name(at), Value::Int(at % 80)]).collect());
        let line = runs.commit(&transaction);
        assert!(runs.agreed() && !runs.refused(), "step {step}: {line:.200}");
        before = transaction;
    }
    assert!(runs.contents_are_equal());
}

/// Orders and answers of several megabytes, which are sent in pieces.
#[test]
fn large_transactions_arrive_whole() {
    let mut shared = across(3);
    let program = Arc::clone(shared.engine.program());
    let options = Options { observe: Tables::All, ..Options::default() };
    let mut alone = Dataflow::new(Arc::clone(&program), options).expect("it starts");
    let (link, weight) = (program.schema.find("link").unwrap(), program.schema.find("weight").unwrap());
    let name = |at: i64| Value::String(format!("{at} {}", "x".repeat(300)).into());
    let mut transaction = Transaction::default();
    transaction.insert.insert(link, (0..8000).map(|at| vec![name(at), name(at * 3 % 8000)]).collect());
    transaction.insert.insert(weight, (0..8000).map(|at| vec![name(at), Value::Int(at % 80)]).collect());
    let committed = alone.commit(&transaction).expect("nothing is wrong with it");
    assert_eq!(shared.engine.commit(&transaction).as_ref(), Ok(&committed));
    let back = Transaction { delete: transaction.insert, ..Transaction::default() };
    assert_eq!(shared.engine.commit(&back), alone.commit(&back));
}

#[test]
fn a_process_that_is_killed_is_an_error_for_all() {
    for killed in 0..2 {
        let mut shared = across(3);
        let program = Arc::clone(shared.engine.program());
        let first = transaction(&program, r#"{"insert": {"link": [["a", "b"], ["b", "c"]]}}"#);
        shared.engine.commit(&first).expect("all are there");
        shared.others[killed].kill();
        shared.others[killed].wait();
        let second = transaction(&program, r#"{"insert": {"link": [["c", "d"]]}}"#);
        let Err(CommitError::Engine(why)) = shared.engine.commit(&second) else {
            panic!("a part of the rows is gone")
        };
        assert!(why.contains(&format!("process {}", killed + 1)) || why.contains("disconnected"), "{why}");
        // The engine stays broken: it does not answer later transactions as if nothing had happened.
        let Err(CommitError::Engine(later)) = shared.engine.commit(&second) else { panic!("it goes on") };
        assert!(later.starts_with(&why), "{later}");
        let (well, said) = shared.others[1 - killed].wait();
        assert!(!well && said.contains("disconnected"), "the other one ends as well: {said}");
    }
}

/// A process is killed at different moments, also in the middle of a message. All answers are right until the error.
#[test]
fn a_process_that_is_killed_at_any_moment_makes_nothing_wrong() {
    for moment in 0..8 {
        let mut shared = across(2);
        let program = Arc::clone(shared.engine.program());
        let options = Options { observe: Tables::All, ..Options::default() };
        let mut alone = Dataflow::new(Arc::clone(&program), options).expect("it starts");
        let link = program.schema.find("link").unwrap();
        let name = |at: i64| Value::String(format!("{at} {}", "x".repeat(200)).into());
        let mut there = Transaction::default();
        there.insert.insert(link, (0..1000).map(|at| vec![name(at), name(at * 3 % 1000)]).collect());
        let gone = Transaction { delete: there.insert.clone(), ..Transaction::default() };
        let mut other = shared.others.pop().expect("there is one");
        let killer = std::thread::spawn(move || {
            for _ in 0..moment * 500 {
                std::thread::yield_now();
            }
            other.kill();
            other.wait();
        });
        for transaction in [there, gone].iter().cycle() {
            let answer = shared.engine.commit(transaction);
            if let Err(CommitError::Engine(why)) = &answer {
                assert!(why.contains("process 1 (127.0.0.1:") && why.contains("disconnected"), "{why}");
                break;
            }
            assert_eq!(answer, alone.commit(transaction), "moment {moment}");
        }
        killer.join().expect("it only kills");
    }
}

/// Set only for the helper process that is process 0.
const BE_PROCESS_0: &str = "NLOG_TEST_BE_PROCESS_0";

/// Prints its address, commits a transaction, and runs until it is killed.
#[test]
#[ignore = "a helper process, started by a_process_0_that_is_killed_is_an_error_for_the_others"]
fn is_process_0() {
    std::env::var(BE_PROCESS_0).expect("started by a test");
    let program = compile(TEXT);
    let meeting = Meeting::new("127.0.0.1:0", SECRET, 2).expect("a port is free");
    println!("\nat {}", meeting.address());
    let mut engine = Dataflow::across(Arc::clone(&program), Options::default(), meeting).expect("one comes");
    let first = transaction(&program, r#"{"insert": {"link": [["a", "b"], ["b", "c"]]}}"#);
    engine.commit(&first).expect("both are there");
    println!("\ncommitted");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_process_0_that_is_killed_is_an_error_for_the_others() {
    let mut process_0 = helper(concat!(module_path!(), "::is_process_0"))
        .env(BE_PROCESS_0, "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts as this one did");
    let mut lines = BufReader::new(process_0.stdout.take().expect("it is piped")).lines();
    let mut next = |begins: &str| loop {
        let line = lines.next().expect("it says it").expect("it speaks text");
        if let Some(rest) = line.strip_prefix(begins) {
            return rest.to_owned();
        }
    };
    let address = next("at ");
    let other = std::thread::spawn(move || serve(compile(TEXT), address, SECRET));
    next("committed");
    process_0.kill().expect("it runs");
    process_0.wait().expect("it ran");
    let error = other.join().expect("it does not panic");
    let Err(ServeError::Lost(why)) = error else { panic!("{error:?}") };
    assert!(why.contains("process 0 disconnected"), "{why}");
}

#[test]
fn a_thread_that_panics_with_an_engine_takes_nothing_else_with_it() {
    let panicked = std::thread::spawn(|| {
        let shared = across(2);
        assert_eq!(shared.others.len(), 2, "this test's own panic");
    });
    assert!(panicked.join().is_err());
}

#[test]
fn a_process_whose_process_0_is_done_ends() {
    let mut shared = across(2);
    let program = Arc::clone(shared.engine.program());
    let first = transaction(&program, r#"{"insert": {"link": [["a", "b"], ["b", "c"]]}}"#);
    shared.engine.commit(&first).expect("all are there");
    let Shared { engine, mut others } = shared;
    drop(engine);
    let (well, said) = others[0].wait();
    assert!(well, "it was told that no more is to be done: {said}");
}

#[test]
fn another_program_is_an_error_for_both() {
    let differences = [
        ("input table a(x: int); output table b(x: int); b(x) :- a(x), x > 1;", "different rules"),
        ("input table a(x: string); output table b(x: string); b(x) :- a(x);", "different tables"),
    ];
    let program = compile("input table a(x: int); output table b(x: int); b(x) :- a(x);");
    for (text, difference) in differences {
        let meeting = Meeting::new("127.0.0.1:0", SECRET, 2).expect("a port is free");
        let mut other = Process::start(text, meeting.address());
        let error = Dataflow::across(Arc::clone(&program), Options::default(), meeting).err();
        let Some(StartError::Processes(error @ MeetingError::Differs { .. })) = error else {
            panic!("{error:?}")
        };
        assert!(error.to_string().contains(difference), "{error}");
        let (well, said) = other.wait();
        assert!(!well && said.contains(difference), "{said}");
    }
}

#[test]
fn whoever_does_not_know_the_secret_is_nobody() {
    let program = compile("input table a(x: int); output table b(x: int); b(x) :- a(x);");
    let meeting = Meeting::new("127.0.0.1:0", SECRET, 2).expect("a port is free");
    let meeting = meeting.with_patience(Duration::from_secs(3));
    let address = meeting.address();
    let mut noise = TcpStream::connect(address).expect("it listens");
    noise.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("it listens");
    let again = Arc::clone(&program);
    let other = std::thread::spawn(move || serve(again, address, "another secret"));
    let error = Dataflow::across(program, Options::default(), meeting).err();
    let Some(StartError::Processes(MeetingError::Late { came: 1, processes: 2, .. })) = error else {
        panic!("{error:?}")
    };
    let error = other.join().expect("it does not panic");
    assert!(matches!(error, Err(ServeError::Meeting(MeetingError::Lost { .. }))), "{error:?}");
    assert_eq!(noise.read(&mut [0; 8]).unwrap_or(0), 0, "noise is not answered");
}

#[test]
fn what_cannot_be_shared_is_told() {
    let program = compile("input table a(x: int);");
    let meeting = || Meeting::new("127.0.0.1:0", SECRET, 2).expect("a port is free");
    let error = |options| Dataflow::across(Arc::clone(&program), options, meeting()).err();
    let threads = Options { workers: 2, ..Options::default() };
    assert_eq!(error(threads), Some(StartError::Processes(MeetingError::Threads)));
    let composed = Options { engine: Kind::Composed, ..Options::default() };
    assert_eq!(error(composed), Some(StartError::Processes(MeetingError::Composed)));
    assert_eq!(Meeting::new("127.0.0.1:0", SECRET, 1).err(), Some(MeetingError::TooFew(1)));
}
