//! Tables that forbid their rows: every engine refuses the same transactions with the same message.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::support::setup::{Kind, Setup};
use crate::support::{Runs, compile, transaction};
use nlog::Program;
use nlog_data::{CommitError, ErrorCode, Evaluator, Tables};
use nlog_dataflow::fused::ChangeError;
use nlog_dataflow::{Dataflow, Options};

const OWNERS: &str = "input table owner(port: string, tenant: string);
     output table owners(port: string, n: int);
     ## A port has one owner.
     forbid table two_owners(port: string, a: string, b: string);
     owners(port, count(tenant)) :- owner(port, tenant);
     two_owners(port, a, b) :- owner(port, a), owner(port, b), a < b;";

fn runs(text: &str, tables: &Tables, attribute: bool) -> (Arc<Program>, Runs) {
    let program = compile(text);
    let mut runs = Runs::new(&program, tables, attribute);
    runs.add(Setup { columns: true, ..Setup::new(Kind::Fused, 1) });
    runs.add(Setup { columns: true, ..Setup::new(Kind::Fused, 2) });
    (program, runs)
}

/// Runs transactions, which all engines must answer alike, and returns what they say.
fn said(text: &str, lines: &[&str]) -> Vec<String> {
    let mut last = Vec::new();
    for (tables, attribute) in [(Tables::Outputs, false), (Tables::All, true)] {
        let (program, mut runs) = runs(text, &tables, attribute);
        last = (lines.iter())
            .map(|line| {
                let said = runs.commit(&transaction(&program, line));
                assert!(runs.agreed(), "{line}\n{}", runs.difference());
                said
            })
            .collect();
        assert!(runs.contents_are_equal());
    }
    last
}

/// The message of a refusal.
fn message(line: &str) -> &str {
    let (_, rest) = line.split_once(r#""code":"forbidden","message":""#).unwrap_or_else(|| panic!("{line}"));
    rest.strip_suffix(r#""}}"#).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn a_row_refuses_the_transaction_and_only_the_state_after_it_counts() {
    let said = said(
        OWNERS,
        &[
            r#"{"insert": {"owner": [["p", "a"], ["q", "b"]]}}"#,
            r#"{"insert": {"owner": [["p", "b"]]}}"#,
            r#"{"insert": {"owner": [["p", "b"]]}, "delete": {"owner": [["p", "a"]]}}"#,
            r#"{"insert": {"owner": [["q", "z"], ["q", "c"], ["p", "c"]]}}"#,
            r#"{"insert": {"owner": [["r", "c"]]}}"#,
            // A join of the old owner and the new one finds a row only on the way.
            r#"{"insert": {"owner": [["r", "a"]]}, "delete": {"owner": [["r", "c"]]}}"#,
        ],
    );
    assert!(said[0].contains(r#""insert":{"owner""#), "{}", said[0]);
    assert_eq!(message(&said[1]), r#"A port has one owner: two_owners(port: \"p\", a: \"a\", b: \"b\")"#);
    assert!(!said[2].contains("error") && !said[2].contains("two_owners"), "{}", said[2]);
    // ("p", "b", "c"), ("q", "b", "c"), ("q", "b", "z") and ("q", "c", "z").
    assert_eq!(
        message(&said[3]),
        r#"A port has one owner: two_owners(port: \"p\", a: \"b\", b: \"c\") and 3 more rows"#
    );
    // Nothing is left of the refused.
    assert!(said[4].contains(r#""owners":[["r",1]]"#), "{}", said[4]);
    assert!(!said[5].contains("error"), "{}", said[5]);
}

#[test]
fn many_rows_of_several_rules_are_counted_once_each() {
    let text = "input table i(x: int); input table j(x: int, y: int);
        forbid table f(x: int, y: int); forbid table g(x: int);
        f(x, 0) :- i(x); f(x, y) :- j(x, y); f(x, y) :- j(x, y), i(x);
        g(sum(x)) :- i(x), x > 0;";
    let mut rows = String::new();
    for x in -5..200 {
        let comma = if rows.is_empty() { "" } else { "," };
        let _ = write!(rows, "{comma}[{x}]");
    }
    let both = format!(r#"{{"insert": {{"i": [{rows}], "j": [[7, 0], [7, 1], [-9, 3]]}}}}"#);
    let said = said(text, &[&both, r#"{"insert": {"i": [[1], [2]]}}"#, r#"{"insert": {"j": [[7, 0]]}}"#]);
    // 205 of the first rule, of which the second derives one again.
    assert_eq!(message(&said[0]), "table f forbids f(x: -9, y: 3) and 206 more rows");
    assert_eq!(message(&said[1]), "table f forbids f(x: 1, y: 0) and 1 more row");
    assert_eq!(message(&said[2]), "table f forbids f(x: 7, y: 0)");
}

#[test]
fn computed_values_are_forbidden_alike_wherever_they_are_computed() {
    let text = "input table i(x: int); output table m(x: int); forbid table f(name: string, x: int);
        m(x) :- i(x); f(to_string(x * 7) ++ \"!\", x) :- m(x), x > 0;";
    for rows in [&[3, 1, 2, 40, 50][..], &[9], &[8, 9], &[5, 4, 11, 12, 13, 14, 15, 16]] {
        let listed: Vec<String> = rows.iter().map(|x| format!("[{x}]")).collect();
        let said = said(text, &[&format!(r#"{{"insert": {{"i": [{}]}}}}"#, listed.join(","))]);
        let first = rows.iter().map(|x| (format!("{}!", x * 7), x)).min();
        let (name, x) = first.unwrap_or_else(|| unreachable!("each case has rows"));
        let others = match rows.len() - 1 {
            0 => String::new(),
            1 => " and 1 more row".to_owned(),
            others => format!(" and {others} more rows"),
        };
        assert_eq!(message(&said[0]), format!(r#"table f forbids f(name: \"{name}\", x: {x}){others}"#));
    }
}

#[test]
fn other_errors_of_the_table_come_first_and_other_tables_by_name() {
    let text = "input table i(x: int, y: int);
        forbid table m(x: int, y: int) key(x); forbid table n(x: int); output table z(x: int, y: int) key(x);
        m(x, y) :- i(x, y), x > 0; m(x, 8 / y) :- i(x, y), x > 5; n(x) :- i(x, _); z(x, y) :- i(x, y);";
    let said = said(
        text,
        &[
            r#"{"insert": {"i": [[6, 0], [1, 1], [1, 2]]}}"#,
            r#"{"insert": {"i": [[1, 1], [1, 2]]}}"#,
            r#"{"insert": {"i": [[1, 1]]}}"#,
            r#"{"insert": {"i": [[0, 1], [0, 2]]}}"#,
        ],
    );
    assert!(said[0].contains(r#""range","message":"table m: 8 / 0"#), "{}", said[0]);
    assert!(said[1].contains(r#""key-conflict","message":"table m: "#), "{}", said[1]);
    assert_eq!(message(&said[2]), "table m forbids m(x: 1, y: 1)");
    assert_eq!(message(&said[3]), "table n forbids n(x: 0)");
}

#[test]
fn facts_that_are_forbidden_refuse_every_transaction() {
    let said = said(
        "input table i(x: int); output table o(x: int); forbid table f(x: int); f(1); o(x) :- i(x);",
        &["{}", r#"{"insert": {"i": [[1]]}}"#],
    );
    assert!(said.iter().all(|line| message(line) == "table f forbids f(x: 1)"), "{said:?}");
}

#[test]
fn wide_rows_and_rows_without_columns_are_forbidden_too() {
    let columns: Vec<String> = (0..12).map(|at| format!("c{at}")).collect();
    let (names, typed) = (columns.join(", "), columns.join(": int, ") + ": int");
    let text = format!(
        "input table i({typed}); forbid table f({typed}); forbid table g();
         f({names}) :- i({names}), c3 > 0; g() :- i(c0: 7, ..);"
    );
    let row = |first: i64, fourth: i64| format!("[{first},0,0,{fourth},0,0,0,0,0,0,0,0]");
    let insert = |rows: &[String]| format!(r#"{{"insert": {{"i": [{}]}}}}"#, rows.join(","));
    let said = said(&text, &[&insert(&[row(1, 0)]), &insert(&[row(1, 1), row(2, 9)]), &insert(&[row(7, 0)])]);
    assert!(!said[0].contains("error"), "{}", said[0]);
    let found = message(&said[1]);
    assert!(
        found.starts_with("table f forbids f(c0: 1, c1: 0, ") && found.ends_with(") and 1 more row"),
        "{found}"
    );
    assert_eq!(message(&said[2]), "table g forbids g()");
}

fn engine(program: &Arc<Program>) -> Dataflow {
    let options = Options { observe: Tables::All, ..Options::default() };
    Dataflow::new(Arc::clone(program), options).expect("it starts")
}

/// The message of the refusal of new rules, or the number of tables that they change.
fn proposed(engine: &mut Dataflow, text: &str, accept: bool) -> Result<usize, String> {
    let program = compile(text);
    let options = Options { observe: Tables::All, ..Options::default() };
    match engine.propose(program, &options) {
        Ok(proposal) => {
            let changed = proposal.delta().tables.len();
            if accept {
                proposal.accept();
            }
            Ok(changed)
        }
        Err(ChangeError::Commit(CommitError::Refused(error))) => {
            assert_eq!(error.code, ErrorCode::Forbidden);
            Err(error.message)
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn an_edit_that_forbids_rows_of_the_present_state_is_refused() {
    let allowed = OWNERS.replace("forbid table", "output table");
    let program = compile(&allowed);
    let mut engine = engine(&program);
    let rows = r#"{"insert": {"owner": [["p", "a"], ["p", "b"], ["p", "c"], ["q", "a"]]}}"#;
    engine.commit(&transaction(&program, rows)).expect("it is allowed");

    // The rows are there already: the edit changes none of them.
    let refused = r#"A port has one owner: two_owners(port: "p", a: "a", b: "b") and 2 more rows"#;
    assert_eq!(proposed(&mut engine, OWNERS, true), Err(refused.to_owned()));
    // A rule more, whose rows are new.
    let more = format!("{OWNERS} two_owners(port, \"none\", \"none\") :- owner(port, _);");
    assert_eq!(proposed(&mut engine, &more, true), Err(refused.replace("2 more", "4 more")));
    // A table more.
    let other = format!("{allowed} forbid table many(port: string); many(port) :- owners(port, n), n > 2;");
    assert_eq!(proposed(&mut engine, &other, true), Err("table many forbids many(port: \"p\")".to_owned()));

    // Nothing has changed: the old rules run.
    let line = r#"{"insert": {"owner": [["q", "b"]]}}"#;
    let delta = engine.commit(&transaction(&program, line)).expect("it is allowed").delta;
    assert_eq!(delta.tables.len(), 3);

    // The same edits when the state is mended.
    let line = r#"{"delete": {"owner": [["p", "b"], ["p", "c"], ["q", "b"]]}}"#;
    engine.commit(&transaction(&program, line)).expect("it is allowed");
    assert_eq!(proposed(&mut engine, OWNERS, false), Ok(0));
    assert_eq!(proposed(&mut engine, OWNERS, true), Ok(0));
    let program = compile(OWNERS);
    let line = r#"{"insert": {"owner": [["p", "b"]]}}"#;
    let error = engine.commit(&transaction(&program, line)).expect_err("it is forbidden");
    assert!(matches!(error, CommitError::Refused(error) if error.code == ErrorCode::Forbidden));
    // And back.
    assert_eq!(proposed(&mut engine, &allowed, true), Ok(0));
    let program = compile(&allowed);
    let delta = engine.commit(&transaction(&program, line)).expect("it is allowed again").delta;
    assert_eq!(delta.tables.len(), 3);
}

#[test]
fn a_table_whose_rows_leave_with_the_edit_that_forbids_them_is_empty() {
    let text = "input table i(x: int); output table f(x: int); f(x) :- i(x);";
    let program = compile(text);
    let mut engine = engine(&program);
    engine.commit(&transaction(&program, r#"{"insert": {"i": [[1], [2]]}}"#)).expect("it is right");
    let next = "input table i(x: int); forbid table f(x: int); f(x) :- i(x), x > 2;";
    // The rows that leave are reported.
    assert_eq!(proposed(&mut engine, next, true), Ok(1));
    let table = compile(next).schema.find("f").expect("declared");
    assert!(engine.contents(table).expect("it is asked for").is_empty());
}

/// A forbidding table costs what the transaction touches.
#[test]
fn the_work_does_not_grow_with_the_tables() {
    let program = compile(OWNERS);
    let mut work = Vec::new();
    for ports in [100, 10_000] {
        let mut engine = engine(&program);
        let rows: Vec<String> = (0..ports).map(|port| format!(r#"["p{port}","a"]"#)).collect();
        let load = format!(r#"{{"insert": {{"owner": [{}]}}}}"#, rows.join(","));
        engine.commit(&transaction(&program, &load)).expect("it is right");
        let touched = |engine: &mut Dataflow| {
            let rules = engine.profile().expect("it works").rules;
            let pipelines = rules.iter().flat_map(|rule| &rule.pipelines);
            pipelines.map(|pipeline| pipeline.rows + pipeline.bindings).sum::<u64>()
        };
        let before = touched(&mut engine);
        engine
            .commit(&transaction(&program, r#"{"insert": {"owner": [["new","a"]]}}"#))
            .expect("it is right");
        let line = r#"{"insert": {"owner": [["p7","b"]]}}"#;
        engine.commit(&transaction(&program, line)).expect_err("it is forbidden");
        work.push(touched(&mut engine) - before);
    }
    assert!(work[0] == work[1] && work[0] < 20, "{work:?}");
}
