//! Rules and hooks that change while the engine runs.

use std::sync::Arc;

use nlog::Program;
use nlog_data::{CommitError, Evaluator, Role, Row, Tables, Transaction, json};
use nlog_dataflow::fused::ChangeError;
use nlog_dataflow::{Dataflow, Options};
use nlog_reference::Hooked;

use crate::support::{Random, compile, line, transaction};

const PORTS: &str = "
    input table port(id: string, host: string) key(id);
    input table number(owner: string, number: int) key(owner) from allocate(owner, first: 1, last: 9);
    table owner(name: string);
    output table numbered(owner: string, number: int) key(owner);
    owner(id) :- port(id, _);
    numbered(owner, number) :- number(owner, number);
";

fn start(text: &str, workers: usize) -> Dataflow {
    Dataflow::new(compile(text), options(workers)).expect("it starts")
}

fn options(workers: usize) -> Options {
    Options { workers, observe: Tables::All, ..Options::default() }
}

fn commit(engine: &mut Dataflow, text: &str) -> String {
    let transaction = transaction(engine.schema(), text);
    let result = engine.commit(&transaction);
    line(&result, engine.schema())
}

/// Changes the program and returns the delta, or why it is refused.
fn edit(engine: &mut Dataflow, text: &str, workers: usize) -> Result<String, ChangeError> {
    let program = compile(text);
    let proposal = engine.propose(Arc::clone(&program), &options(workers))?;
    let delta = proposal.delta().to_rows();
    proposal.accept();
    let mut out = Vec::new();
    json::write_delta_line(&mut out, 1, &delta, &program.schema);
    Ok(String::from_utf8(out).expect("JSON is text").trim_end().to_owned())
}

fn rows(engine: &mut dyn Evaluator, table: &str) -> Vec<Row> {
    let table = engine.schema().find(table).expect("it is declared");
    engine.contents(table).expect("the engine works")
}

/// Compares all tables with those of the reference evaluator, which computes them anew from the inputs and the memories.
#[track_caller]
fn check(engine: &mut Dataflow) {
    let program: Arc<Program> = Arc::clone(engine.program());
    let mut anew = Hooked::reference(&program, Tables::All, false);
    anew.restore(&engine.memories()).expect("the memories are of these hooks");
    let mut all = Transaction::default();
    let inputs = program
        .schema
        .iter()
        .filter(|(id, table)| table.role == Role::Input && program.hook_of(*id).is_none());
    for (id, _) in inputs {
        all.insert.insert(id, engine.contents(id).expect("the engine works"));
    }
    anew.commit(&all).expect("nothing is wrong with it");
    for (_, table) in program.schema.iter().filter(|(_, table)| table.role != Role::Hidden) {
        assert_eq!(rows(engine, &table.name), rows(&mut anew, &table.name), "{}", table.name);
    }
}

#[test]
fn owners_keep_their_numbers_when_the_rules_change() {
    for workers in [1, 2] {
        let mut engine = start(PORTS, workers);
        commit(&mut engine, r#"{"insert":{"port":[["a","h1"],["b","h2"]]}}"#);
        commit(&mut engine, r#"{"delete":{"port":[["a","h1"]]}}"#);
        let hosts =
            PORTS.replace("owner(id) :- port(id, _);", "owner(id) :- port(id, _); owner(h) :- port(_, h);");
        assert_eq!(
            edit(&mut engine, &hosts, workers).expect("nothing is wrong with it"),
            r#"{"txn":1,"insert":{"number":[["h2",3]],"numbered":[["h2",3]],"owner":[["h2"]]},"delete":{}}"#
        );
        check(&mut engine);
        assert_eq!(
            commit(&mut engine, r#"{"insert":{"port":[["c","h2"]]}}"#),
            r#"{"txn":1,"insert":{"number":[["c",4]],"numbered":[["c",4]],"owner":[["c"]],"port":[["c","h2"]]},"delete":{}}"#
        );
        engine.idle().expect("the engine works");
        check(&mut engine);
    }
}

#[test]
fn a_change_that_is_dropped_leaves_the_hooks_as_they_were() {
    let mut engine = start(PORTS, 1);
    commit(&mut engine, r#"{"insert":{"port":[["a","h1"]]}}"#);
    let before = engine.memories();
    let hosts = compile(&PORTS.replace("owner(id) :- port(id, _);", "owner(h) :- port(_, h);"));
    let proposal = engine.propose(hosts, &options(1)).expect("nothing is wrong with it");
    assert!(!proposal.delta().to_rows().tables.is_empty());
    drop(proposal);
    assert_eq!(engine.memories(), before);
    check(&mut engine);
    assert!(commit(&mut engine, r#"{"insert":{"port":[["b","h1"]]}}"#).contains(r#""number":[["b",2]]"#));
}

#[test]
fn a_hook_that_refuses_a_change_of_rules_leaves_everything_as_it_was() {
    let few = PORTS.replace("last: 9", "last: 2");
    let mut engine = start(&few, 1);
    commit(&mut engine, r#"{"insert":{"port":[["a","h1"],["b","h2"]]}}"#);
    let before = engine.memories();
    let more = few.replace("owner(id) :- port(id, _);", "owner(id) :- port(id, _); owner(h) :- port(_, h);");
    match edit(&mut engine, &more, 1) {
        Err(ChangeError::Commit(CommitError::Refused(error))) => {
            assert!(error.message.starts_with("table number: "), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(engine.memories(), before);
    check(&mut engine);
}

#[test]
fn other_bounds_keep_the_numbers_that_they_allow() {
    let mut engine = start(PORTS, 1);
    commit(&mut engine, r#"{"insert":{"port":[["a","h1"],["b","h2"],["c","h3"]]}}"#);
    commit(&mut engine, r#"{"delete":{"port":[["b","h2"]]}}"#);
    let same = edit(&mut engine, &PORTS.replace("last: 9", "last: 90"), 1).expect("nothing is wrong with it");
    assert_eq!(same, r#"{"txn":1,"insert":{},"delete":{}}"#);
    check(&mut engine);
    let moved = edit(&mut engine, &PORTS.replace("first: 1, last: 9", "first: 5, last: 9"), 1);
    assert_eq!(
        moved.expect("nothing is wrong with it"),
        r#"{"txn":1,"insert":{"number":[["a",5],["c",6]],"numbered":[["a",5],["c",6]]},"delete":{"number":[["a",1],["c",3]],"numbered":[["a",1],["c",3]]}}"#
    );
    check(&mut engine);
}

#[test]
fn a_new_hook_sees_all_rows_and_one_that_goes_leaves_its_rows() {
    let plain = PORTS.replace(" from allocate(owner, first: 1, last: 9)", "");
    let mut engine = start(&plain, 1);
    commit(&mut engine, r#"{"insert":{"port":[["a","h1"],["b","h2"]],"number":[["z",7]]}}"#);
    match edit(&mut engine, PORTS, 1) {
        Err(ChangeError::Filled { table, rows: 1 }) => assert_eq!(table, "number"),
        other => panic!("{other:?}"),
    }
    commit(&mut engine, r#"{"delete":{"number":[["z",7]]}}"#);
    let filled = edit(&mut engine, PORTS, 1).expect("nothing is wrong with it");
    assert!(filled.contains(r#""number":[["a",1],["b",2]]"#), "{filled}");
    check(&mut engine);
    let left = edit(&mut engine, &plain, 1).expect("nothing is wrong with it");
    assert_eq!(left, r#"{"txn":1,"insert":{},"delete":{}}"#);
    let changed = commit(&mut engine, r#"{"delete":{"number":[["a",1]]}}"#);
    assert!(changed.contains(r#""delete":{"number":[["a",1]],"numbered":[["a",1]]}"#), "{changed}");
}

/// Rules of which random ones are there, before and behind hooks that read one another's tables.
const RULES: [&str; 9] = [
    "link(a, b) :- cable(a, b);",
    "link(a, b) :- cable(b, a), watched(a);",
    "link(a, c) :- cable(a, b), cable(b, c);",
    "owner(c) :- component(_, c);",
    "owner(a) :- watched(a);",
    "owner(a + 1) :- cable(a, _);",
    "size(c, count(a)) :- component(a, c);",
    "named(a, n) :- component(a, c), number(c, n);",
    "named(a, n) :- watched(a), number(a, n);",
];

fn random_program(random: &mut Random) -> String {
    let bounds = *random.pick(&["first: 1, last: 40", "first: 1, last: 60", "first: 3, last: 40"]);
    let source = *random.pick(&["link", "link", "cable"]);
    let mut text = format!(
        "input table cable(a: int, b: int); input table watched(a: int);
         input table component(a: int, c: int) from connected_components({source});
         input table number(a: int, n: int) key(a) from allocate(owner, {bounds});
         output table link(a: int, b: int); table owner(a: int); output table size(c: int, n: int);
         output table named(a: int, n: int);\n"
    );
    for rule in RULES {
        if random.chance(65) {
            text += &format!("{rule}\n");
        }
    }
    text
}

#[test]
fn edits_of_rules_and_hooks_end_where_computing_anew_does() {
    let mut edits = 0;
    for seed in test_random::seeds!("edits_of_rules_and_hooks_end_where_computing_anew_does", 40) {
        let mut random = Random::new(seed);
        let workers = 1 + random.below(2) as usize;
        let mut engine = start(&random_program(&mut random), workers);
        for _ in 0..12 {
            if random.chance(40) {
                let text = random_program(&mut random);
                let proposal = engine.propose(compile(&text), &options(workers));
                let proposal = proposal.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
                if random.chance(80) {
                    proposal.accept();
                    edits += 1;
                }
            } else {
                let mut change = Transaction::default();
                for name in ["cable", "watched"] {
                    let table = engine.schema().find(name).expect("it is declared");
                    let width = engine.schema().table(table).columns.len();
                    let row =
                        |random: &mut Random| (0..width).map(|_| (random.below(6) as i64).into()).collect();
                    let some = |random: &mut Random| (0..random.below(3)).map(|_| row(random)).collect();
                    change.insert.insert(table, some(&mut random));
                    change.delete.insert(table, some(&mut random));
                }
                engine.commit(&change).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            if random.chance(30) {
                engine.idle().expect("the engine works");
            }
            check(&mut engine);
        }
    }
    println!("{edits} edits");
}
