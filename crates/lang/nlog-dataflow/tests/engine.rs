//! The behaviour of engines as their users see it, one aspect per test.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::support::setup::{Kind, Setup};
use crate::support::{ENGINES, Runs, compile, transaction};
use nlog::Program;
use nlog_data::{CommitError, Committed, Evaluator, RuleId, TableId, Tables, Transaction, Value, json};
use nlog_dataflow::{Dataflow, Options, StartError};
use nlog_plan::{Settings, Statistics, TableStatistics};

/// An engine that reads its transactions from text.
struct Engine {
    program: Arc<Program>,
    evaluator: Box<dyn Evaluator>,
}

impl Engine {
    fn start(kind: Kind, program: &Arc<Program>, options: Options) -> Self {
        Engine { program: Arc::clone(program), evaluator: kind.start(Arc::clone(program), options) }
    }

    fn commit(&mut self, text: &str) -> Result<Committed, CommitError> {
        self.evaluator.commit(&transaction(&self.program, text))
    }
}

fn line(committed: &Committed, program: &Program) -> String {
    let mut line = Vec::new();
    json::write_delta_line(&mut line, 1, &committed.delta, &program.schema);
    String::from_utf8(line).expect("JSON is text").trim_end().to_owned()
}

fn id(program: &Program, name: &str) -> TableId {
    program.schema.find(name).expect("the test declares it")
}

#[test]
fn no_workers_no_engine() {
    let program = compile("input table a(x: int);");
    let options = Options { workers: 0, ..Options::default() };
    assert_eq!(Dataflow::new(program, options).err(), Some(StartError::NoWorkers));
}

#[test]
fn facts_come_with_the_first_transaction_that_is_accepted() {
    let program = compile("input table a(x: int); output table b(x: int); b(7); b(10 / x) :- a(x);");
    for (kind, workers) in ENGINES {
        let mut engine = Engine::start(kind, &program, Options { workers, ..Options::default() });
        assert!(engine.commit(r#"{"insert": {"a": [[0]]}}"#).is_err());
        let first = engine.commit("{}").expect("nothing is wrong with it");
        assert_eq!(line(&first, &program), r#"{"txn":1,"insert":{"b":[[7]]},"delete":{}}"#);
        let second = engine.commit(r#"{"insert": {"a": [[5]]}}"#).expect("nothing is wrong with it");
        assert_eq!(line(&second, &program), r#"{"txn":1,"insert":{"b":[[2]]},"delete":{}}"#);
    }
}

#[test]
fn a_refused_transaction_never_was() {
    let program = compile(
        "input table on(port: string, hv: string); output table place(port: string, hv: string) key(port);
         output table n(hv: string, n: int); place(p, h) :- on(p, h); n(h, count(p)) :- place(p, h);",
    );
    for (kind, workers) in ENGINES {
        let mut engine = Engine::start(kind, &program, Options { workers, ..Options::default() });
        engine.commit(r#"{"insert": {"on": [["p", "h1"]]}}"#).expect("one row");
        let error = engine.commit(r#"{"insert": {"on": [["p", "h2"], ["q", "h2"], ["p", "h0"]]}}"#);
        let Err(CommitError::Refused(error)) = error else { panic!("{error:?}") };
        assert_eq!(
            error.message,
            r#"table place: the rules derive two rows with the same key (port: "p"): hv is "h0" in one and "h1" in the other"#
        );
        let moved = engine.commit(r#"{"delete": {"on": [["p", "h1"]]}, "insert": {"on": [["p", "h2"]]}}"#);
        assert_eq!(
            line(&moved.expect("a move"), &program),
            r#"{"txn":1,"insert":{"n":[["h2",1]],"place":[["p","h2"]]},"delete":{"n":[["h1",1]],"place":[["p","h1"]]}}"#
        );
    }
}

#[test]
fn rows_name_the_first_of_their_rules() {
    let program = compile(
        "input table a(x: int); input table b(x: int); output table o(x: int); output table one(x: int);
         o(x) :- a(x); o(x) :- b(x); one(x) :- a(x);",
    );
    let (o, one) = (id(&program, "o"), id(&program, "one"));
    // The order of the two rules depends on their fingerprints.
    let of_a = |rule: &RuleId| program.rule(*rule).text.contains("a(x)");
    let rules: Vec<RuleId> = program.rules_of(o).map(|(rule, _)| rule).collect();
    let (first, second) = (rules[0], rules[1]);
    let (least, other) = if of_a(&first) { ("a", "b") } else { ("b", "a") };
    for (kind, workers) in ENGINES {
        let options = Options { workers, attribute: true, ..Options::default() };
        let mut engine = Engine::start(kind, &program, options);
        let mut run = |text: &str| engine.commit(text).expect("accepted").delta;
        let delta = run(&format!(r#"{{"insert": {{"{other}": [[1]]}}}}"#));
        assert_eq!(delta.tables[&o].rules, [second]);
        let delta = run(&format!(r#"{{"insert": {{"{least}": [[1]]}}}}"#));
        assert_eq!(delta.tables[&o].reattributed, [(vec![Value::Int(1)], first)]);
        assert!(delta.tables[&o].insert.is_empty());
        let delta = run(&format!(r#"{{"delete": {{"{least}": [[1]]}}}}"#));
        assert_eq!(delta.tables[&o].reattributed, [(vec![Value::Int(1)], second)]);
        let delta = run(r#"{"insert": {"a": [[2]], "b": [[2]]}}"#);
        assert_eq!(delta.tables[&o].rules, [first]);
        assert_eq!(delta.tables[&one].rules, [program.rules_of(one).next().expect("it has a rule").0]);
    }
}

#[test]
fn rows_with_some_values_are_found_in_every_column() {
    let text = "input table a(x: int, y: string); input table c(x: int); output table b(x: int); b(x) :- a(x, _), c(x);";
    let program = compile(text);
    let (a, c) = (id(&program, "a"), id(&program, "c"));
    let row = |x: i64, y: &str| (a, vec![Value::Int(x), Value::String(y.into())]);
    for (kind, workers) in ENGINES {
        let mut engine = Engine::start(kind, &program, Options { workers, ..Options::default() });
        let rows = r#"{"insert": {"a": [[1, "p"], [2, "q"], [3, "r"]], "c": [[3], [4]]}}"#;
        engine.commit(rows).expect("accepted");
        let values = HashSet::from([Value::Int(3), Value::String("p".into()), Value::Int(9)]);
        let of_c = || (c, vec![Value::Int(3)]);
        assert_eq!(engine.evaluator.rows_with(&[a], &values), Ok(vec![row(1, "p"), row(3, "r")]));
        assert_eq!(engine.evaluator.rows_with(&[c, a], &values), Ok(vec![of_c(), row(1, "p"), row(3, "r")]));
        // The place of a row that is gone is empty, or another row's.
        engine.commit(r#"{"delete": {"a": [[3, "r"]]}}"#).expect("accepted");
        assert_eq!(engine.evaluator.rows_with(&[a, c], &values), Ok(vec![row(1, "p"), of_c()]));
        engine.commit(r#"{"insert": {"a": [[5, "p"]]}}"#).expect("accepted");
        assert_eq!(engine.evaluator.rows_with(&[a], &values), Ok(vec![row(1, "p"), row(5, "p")]));
    }
}

#[test]
fn tables_that_were_not_asked_for_are_not_reported() {
    let program = compile(
        "input table a(x: int); table middle(x: int); output table b(x: int); middle(x) :- a(x); b(x) :- middle(x);",
    );
    let (a, middle, b) = (id(&program, "a"), id(&program, "middle"), id(&program, "b"));
    let these = Tables::These(BTreeSet::from([a, middle]));
    for (kind, workers) in ENGINES {
        let options = Options { workers, observe: these.clone(), ..Options::default() };
        let mut engine = Engine::start(kind, &program, options);
        let committed = engine.commit(r#"{"insert": {"a": [[1], [1]]}}"#).expect("accepted");
        assert_eq!(committed.delta.tables.keys().copied().collect::<Vec<_>>(), [a, middle]);
        assert_eq!(committed.redundant_inserts, 1);
        assert_eq!(engine.evaluator.contents(middle), Ok(vec![vec![Value::Int(1)]]));
        assert!(engine.evaluator.contents(b).is_err());
        assert!(engine.commit("{}").is_ok(), "asking for it breaks nothing");
    }
}

#[test]
fn a_table_that_no_rule_fills_is_empty() {
    let program = compile(
        "input table a(x: int); output table none(x: int); output table b(x: int); b(x) :- a(x), none(x);",
    );
    let mut runs = Runs::new(&program, &Tables::All, true);
    runs.commit(&transaction(&program, r#"{"insert": {"a": [[1]]}}"#));
    assert!(runs.agreed() && runs.contents_are_equal(), "{}", runs.difference());
}

/// Twelve columns are more than the words of any row.
/// What reads only the key of a table takes its rows as they come, for the key tells them apart. Two rows with one key
/// are refused like any others, although what reads them derives a row twice.
#[test]
fn rows_with_one_key_are_refused_whatever_reads_them() {
    let program = compile(
        "input table i(k: int, v: int);
         input table j(k: int, x: int);
         table keyed(k: int, v: int) key(k);
         output table known(k: int);
         output table o(k: int, x: int);
         keyed(k, v) :- i(k, v);
         known(k) :- keyed(k, _);
         o(k, x) :- known(k), j(k, x);",
    );
    for (kind, workers) in ENGINES {
        let options = Options { workers, ..Options::default() };
        let mut engine = Engine::start(kind, &program, options);
        let refused = engine.commit(r#"{"insert": {"i": [[1, 1], [1, 2], [2, 1]]}}"#);
        assert!(matches!(refused, Err(CommitError::Refused(_))), "{kind:?}, {workers} workers: {refused:?}");
        let accepted = engine.commit(r#"{"insert": {"i": [[1, 1]], "j": [[1, 7]]}}"#);
        let accepted = accepted.expect("one row has the key");
        let wanted = r#"{"txn":1,"insert":{"known":[[1]],"o":[[1,7]]},"delete":{}}"#;
        assert_eq!(line(&accepted, &program), wanted, "{kind:?}, {workers} workers");
    }
}

#[test]
fn rows_of_any_width() {
    let columns = |prefix: &str| (0..12).map(|at| format!("{prefix}{at}")).collect::<Vec<_>>();
    let typed = columns("c").iter().map(|column| format!("{column}: int")).collect::<Vec<_>>().join(", ");
    let key = columns("c")[..10].join(", ");
    let variables = columns("v").join(", ");
    let text = format!(
        "input table wide({typed}); input table few(x: int); output table joined({typed}); output table again({typed})
           key({key}); output table last(x: int, s: set<int>);
         joined({variables}) :- wide({variables}), few(v11), v10 > v9;
         again({variables}) :- joined({variables}), wide({variables});
         again({variables}) :- wide({variables}), v0 == 7;
         last(v11, set(v10)) :- again({variables});"
    );
    let program = compile(&text);
    let mut runs = Runs::new(&program, &Tables::All, true);
    let row = |values: [i64; 12]| Value::List(values.map(Value::Int).to_vec().into());
    let rows: Vec<Vec<Value>> = [
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        [7, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 12],
    ]
    .into_iter()
    .map(|values| match row(values) {
        Value::List(values) => values.to_vec(),
        _ => Vec::new(),
    })
    .collect();
    let (wide, few) = (id(&program, "wide"), id(&program, "few"));
    let mut insert = Transaction::default();
    insert.insert.insert(wide, rows[..3].to_vec());
    runs.commit(&insert);
    assert!(runs.agreed(), "{}", runs.difference());
    let mut more = Transaction::default();
    more.insert.insert(few, vec![vec![Value::Int(12)]]);
    let line = runs.commit(&more);
    assert!(runs.agreed() && line.contains("joined"), "{}", runs.difference());
    let mut conflict = Transaction::default();
    conflict.insert.insert(wide, vec![rows[3].clone()]);
    let line = runs.commit(&conflict);
    assert!(runs.agreed() && line.contains("key-conflict"), "{}", runs.difference());
    let mut gone = Transaction::default();
    gone.delete.insert(wide, rows);
    runs.commit(&gone);
    assert!(runs.agreed() && runs.contents_are_equal(), "{}", runs.difference());
}

/// A failure counts only for bindings that satisfy the rest of the body, wherever the plan evaluates it.
#[test]
fn failures_of_join_keys_count_only_where_the_rest_of_the_body_holds() {
    let program = compile(
        "input table a(x: int, g: int); input table b(y: int, g: int); input table c(g: int);
         output table o(x: int); o(x) :- a(x, g), b(100 / x, h), c(h), h > g;",
    );
    let mut runs = Runs::new(&program, &Tables::All, false);
    let mut run = |text: &str| {
        let line = runs.commit(&transaction(&program, text));
        assert!(runs.agreed(), "{}", runs.difference());
        line
    };
    assert!(!run(r#"{"insert": {"a": [[0, 5]]}}"#).contains("error"), "nothing to join");
    assert!(!run(r#"{"insert": {"b": [[1, 6]]}}"#).contains("error"), "no c");
    assert!(!run(r#"{"insert": {"b": [[2, 4]], "c": [[4]]}}"#).contains("error"), "4 > 5 rejects");
    assert!(run(r#"{"insert": {"c": [[6]]}}"#).contains("range"), "b(_, 6) would fit if 100 / 0 did");
    assert!(!run(r#"{"insert": {"a": [[50, 1]]}}"#).contains("error"));
    assert!(run(r#"{"insert": {"c": [[6]]}}"#).contains("range"));
    let line = run(r#"{"insert": {"c": [[6]]}, "delete": {"a": [[0, 5]]}}"#);
    assert!(line.contains(r#""c":[[6]]"#), "{line}");
}

/// A row with a value that its column's type excludes is refused, wherever it comes from.
#[test]
fn rows_are_held_to_constrained_types() {
    let program = compile(
        "type vlan = int 1..4094;
         type text = string where length(value) < 4 else \"has at most three letters\";
         type named = record {name: text, tags: list<vlan>};
         input table port(port: text, tag: vlan, of: opt<named>) key(port);
         input table shift(by: int);
         input table only(tag: int);
         output table next(port: text, tag: vlan); output table names(of: named);
         next(port, tag + by) :- port(port, tag, _), shift(by), only(tag);
         names(named{name: port, tags: [tag]}) :- port(port, tag, _);",
    );
    let mut runs = Runs::new(&program, &Tables::All, false);
    let mut run = |text: &str| {
        let line = runs.commit(&transaction(&program, text));
        assert!(runs.agreed(), "{}", runs.difference());
        line
    };
    assert!(
        !run(r#"{"insert": {"port": [["a", 1, null], ["b", 4094, ["b", [1, 2]]]], "shift": [[1]]}}"#)
            .contains("error")
    );
    assert!(!run(r#"{"insert": {"only": [[1], [5]]}}"#).contains("error"), "4095 is not derived");
    let line = run(r#"{"insert": {"only": [[4094]]}}"#);
    assert!(
        line.contains(r#""code":"range""#) && line.contains("4095 is not a value of type vlan"),
        "{line}"
    );
    let line = run(r#"{"insert": {"shift": [[-1]]}}"#);
    assert!(line.contains("0 is not a value of type vlan: must be from 1 to 4094"), "{line}");
    // A program may build a transaction that no reader has checked.
    let port = id(&program, "port");
    let text = |text: &str| Value::from(text);
    let fits = vec![text("c"), Value::Int(7), Value::None];
    let named =
        |name: &str, tag| Value::record([text(name), Value::list(vec![Value::Int(1), Value::Int(tag)])]);
    for (row, why) in [
        (vec![text("c"), Value::Int(0), Value::None], "column tag: 0 is not a value of type vlan"),
        (
            vec![text("long"), Value::Int(7), Value::None],
            "column port: \\\"long\\\" is not a value of type text: has at most",
        ),
        (vec![text("c"), Value::Int(7), named("c", 5000)], "column of: 5000 is not a value of type vlan"),
        (vec![text("c"), Value::Int(7), named("four", 5)], "column of: \\\"four\\\" is not a value"),
    ] {
        let mut unchecked = Transaction::default();
        unchecked.insert.insert(port, vec![fits.clone(), row]);
        let line = runs.commit(&unchecked);
        assert!(line.contains(r#""code":"range""#) && line.contains(why), "{line}");
    }
    let line = runs.commit(&transaction(&program, r#"{"insert": {"port": [["c", 7, ["abc", [1]]]]}}"#));
    assert!(line.contains(r#""next":[["c",8]]"#) || line.contains(r#""port":[["c",7"#), "{line}");
    assert!(runs.agreed() && runs.contents_are_equal(), "{}", runs.difference());
}

/// If every worker has a binding, only one may count its failure, in all pipelines alike. Otherwise a deletion in one
/// pipeline would not cancel an insertion in another.
#[test]
fn a_failure_that_comes_and_goes_is_counted_alike_by_all_workers() {
    let text = "input table i(k: int, v: int);
        input table j(x: int);
        output table o(v: int, x: int) key(v);
        o(v, 1) :- i(k, v), j(_), v != v / v;";
    let program = compile(text);
    for (of_i, of_j) in [(1, 1000), (1000, 1)] {
        let tables = [("i", of_i), ("j", of_j)]
            .map(|(name, rows)| (name.to_owned(), TableStatistics { rows, ..TableStatistics::default() }));
        let statistics = Some(Statistics { tables: tables.into() });
        let planning =
            Settings { statistics: statistics.map(Arc::new), without_stages: true, ..Settings::default() };
        let mut runs = Runs::alone(&program, &Tables::All, false);
        for workers in [1, 2, 3, 4] {
            runs.add(Setup { planning: planning.clone(), ..Setup::new(Kind::Fused, workers) });
        }
        for line in [
            r#"{"insert": {"j": [[1], [2], [3]]}}"#,
            r#"{"insert": {"i": [[1, 0]]}, "delete": {"j": [[1]]}}"#,
            r#"{"insert": {"i": [[1, 0]]}, "delete": {"j": [[1], [2]]}}"#,
            r#"{"insert": {"i": [[1, 0]]}, "delete": {"j": [[1], [2], [3]]}}"#,
            r#"{"insert": {"j": [[1], [2]]}}"#,
        ] {
            runs.commit(&transaction(&program, line));
            assert!(runs.agreed(), "{line}\n{}", runs.difference());
        }
    }
}
