//! Unique columns: every engine refuses the same transactions with the same message, and plans rely on what holds.

use std::fmt::Write as _;
use std::io::Read;
use std::sync::Arc;

use crate::support::setup::{Kind, Setup};
use crate::support::{Runs, compile, transaction};
use nlog::Program;
use nlog_data::{Evaluator as _, Tables};
use nlog_dataflow::fused::ChangeError;
use nlog_dataflow::{Dataflow, Options};

const TUNNELS: &str = "
    input table tunnel(host: string, remote: string, port: int) key(host, remote) unique(host, port) unique(remote, port);
    input table named(host: string, name: string) key(host) unique(name);
    output table sender(host: string, port: int, name: string) key(host, port) unique(name, port);
    sender(host, port, name) :- tunnel(host, remote, port), named(remote, name);";

/// Derived rows, whose uniqueness does not follow from that of other rows.
const NUMBERS: &str = "
    input table one(k: int, n: int) key(k); input table two(k: int, n: int) key(k);
    table number(k: int, n: int, who: string) key(k) unique(n);
    output table out(n: int, k: int) key(n);
    number(k, n, \"one\") :- one(k, n);
    number(k, n, \"two\") :- two(k, n);
    out(n, k) :- number(k, n, _);";

/// Runs transactions, which all engines must answer alike, and returns what they say.
fn said(text: &str, lines: &[&str]) -> Vec<String> {
    let program = compile(text);
    let mut last = Vec::new();
    for (tables, attribute) in [(Tables::Outputs, false), (Tables::All, true)] {
        let mut runs = Runs::new(&program, &tables, attribute);
        runs.add(Setup { columns: true, ..Setup::new(Kind::Fused, 1) });
        runs.add(Setup { columns: true, ..Setup::new(Kind::Fused, 2) });
        let commit = |line: &&str| {
            let said = runs.commit(&transaction(&program, line));
            assert!(runs.agreed(), "{line}\n{}", runs.difference());
            said
        };
        last = lines.iter().map(commit).collect();
        assert!(runs.contents_are_equal() && runs.scrubbed().is_none());
    }
    last
}

/// The code and the message of a refusal.
fn refusal(line: &str) -> (String, String) {
    let (_, rest) = line.split_once(r#""error":{"code":""#).unwrap_or_else(|| panic!("{line}"));
    let (code, message) = rest.split_once(r#"","message":""#).unwrap_or_else(|| panic!("{line}"));
    (code.to_owned(), message.trim_end_matches(r#""}}"#).replace(r#"\""#, "\""))
}

#[test]
fn input_rows_that_share_unique_columns_are_refused_before_rules_see_them() {
    let said = said(
        TUNNELS,
        &[
            r#"{"insert": {"tunnel": [["h1","h2",1],["h1","h3",2],["h2","h1",1]], "named": [["h2","b"],["h3","c"]]}}"#,
            r#"{"insert": {"tunnel": [["h1","h4",2]]}}"#,
            // The key counts first, then the unique columns in the order of the columns.
            r#"{"insert": {"tunnel": [["h1","h3",1]]}}"#,
            r#"{"insert": {"tunnel": [["h2","h3",2],["h2","h5",1]]}}"#,
            r#"{"insert": {"tunnel": [["h1","h2",2],["h1","h3",1]]}, "delete": {"tunnel": [["h1","h2",1],["h1","h3",2]]}}"#,
            r#"{"insert": {"named": [["h7","c"]]}}"#,
            r#"{"delete": {"named": [["h3","c"]]}, "insert": {"named": [["h7","c"]]}}"#,
        ],
    );
    let advice = "; to replace a row, delete it in the same transaction";
    let told = |line: &str| {
        let (code, message) = refusal(line);
        assert_eq!(code, "duplicate-key", "{line}");
        message.strip_suffix(advice).unwrap_or_else(|| panic!("{message}")).to_owned()
    };
    assert_eq!(
        told(&said[1]),
        r#"table tunnel: row ["h1","h4",2] has the same unique columns (host: "h1", port: 2) as row ["h1","h3",2]"#
    );
    assert_eq!(
        told(&said[2]),
        r#"table tunnel: row ["h1","h3",1] has the same key (host: "h1", remote: "h3") as row ["h1","h3",2]"#
    );
    assert_eq!(
        told(&said[3]),
        r#"table tunnel: row ["h2","h3",2] has the same unique columns (remote: "h3", port: 2) as row ["h1","h3",2]"#
    );
    assert!(
        said[4].contains(r#""sender":[["h1",1,"c"],["h1",2,"b"]]"#),
        "two rows swap their ports: {}",
        said[4]
    );
    assert_eq!(
        told(&said[5]),
        r#"table named: row ["h7","c"] has the same unique columns (name: "c") as row ["h3","c"]"#
    );
    assert!(!said[6].contains("error"), "{}", said[6]);
}

#[test]
fn derived_rows_that_share_unique_columns_are_refused_after_the_key() {
    let said = said(
        NUMBERS,
        &[
            r#"{"insert": {"one": [[1,10],[2,20]], "two": [[3,30]]}}"#,
            r#"{"insert": {"two": [[4,20]]}}"#,
            r#"{"insert": {"two": [[2,20]]}}"#,
            r#"{"insert": {"two": [[4,20],[5,10]]}}"#,
            r#"{"insert": {"two": [[4,20]]}, "delete": {"one": [[2,20]]}}"#,
            r#"{"insert": {"one": [[2,20]]}, "delete": {"two": [[4,20]]}}"#,
        ],
    );
    assert_eq!(
        refusal(&said[1]),
        (
            "key-conflict".to_owned(),
            "table number: the rules derive two rows with the same unique columns (n: 20): \
             k is 2 in one and 4 in the other, who is \"one\" in one and \"two\" in the other"
                .to_owned()
        )
    );
    let (_, of_key) = refusal(&said[2]);
    assert!(of_key.contains("with the same key (k: 2): who is"), "{of_key}");
    // Of several, that of the least row.
    let (_, least) = refusal(&said[3]);
    assert!(least.contains("unique columns (n: 10): k is 1 in one and 5 in the other"), "{least}");
    assert!(said[4].contains(r#""out":[[20,4]]"#) && !said[5].contains("error"), "{} {}", said[4], said[5]);
}

#[test]
fn unique_columns_of_tables_that_forbid_and_of_facts_are_checked_like_keys() {
    let forbids =
        "input table i(x: int, y: int); forbid table f(x: int, y: int) unique(y); f(x, y) :- i(x, y), x > 0;";
    let said_of_rows =
        said(forbids, &[r#"{"insert": {"i": [[1,7],[2,7]]}}"#, r#"{"insert": {"i": [[1,7]]}}"#]);
    assert!(said_of_rows[0].contains("same unique columns (y: 7)"), "{}", said_of_rows[0]);
    assert!(said_of_rows[1].contains(r#""forbidden""#), "{}", said_of_rows[1]);
    let facts =
        "input table i(x: int); output table o(x: int, y: int) key(x) unique(y); o(1, 5); o(x, x) :- i(x);";
    let said_of_facts = said(facts, &[r#"{"insert": {"i": [[2]]}}"#, r#"{"insert": {"i": [[5]]}}"#]);
    assert!(!said_of_facts[0].contains("error"), "{}", said_of_facts[0]);
    assert!(said_of_facts[1].contains("same unique columns (y: 5): x is 1"), "{}", said_of_facts[1]);
}

/// Also of an ordinary row and a default, which only a row with its key overrides.
#[test]
fn a_default_that_shares_unique_columns_with_an_ordinary_row_is_refused() {
    let text = "input table port(k: int); input table set(k: int, n: int) key(k);
        output table number(k: int, n: int) key(k) unique(n);
        number(k, n) :- set(k, n); default number(k, k) :- port(k);";
    let said = said(
        text,
        &[
            r#"{"insert": {"port": [[1],[2]], "set": [[1,7]]}}"#,
            r#"{"insert": {"set": [[3,2]]}}"#,
            r#"{"insert": {"set": [[3,2],[2,9]]}}"#,
        ],
    );
    assert!(said[1].contains("same unique columns (n: 2): k is 2 in one and 3 in the other"), "{}", said[1]);
    assert!(said[2].contains(r#""insert":{"number":[[2,9],[3,2]]"#), "{}", said[2]);
}

/// The unique columns of the inputs prove all keys, so that nothing is counted and nothing is checked.
#[test]
fn what_follows_from_unique_inputs_is_neither_counted_nor_checked() {
    let program = compile(TUNNELS);
    let mut engine = started(&program);
    let kept: Vec<_> = (engine.profile().expect("it works").relations.into_iter())
        .map(|relation| (relation.name, relation.counted, relation.watched))
        .collect();
    assert!(kept.iter().all(|(_, counted, watched)| (*counted, *watched) == (0, 0)), "{kept:?}");
    let plan = nlog_plan::query::Plan::for_outputs(compile(TUNNELS)).to_string();
    assert!(plan.contains("sender: as it is") && !plan.contains("checked"), "{plan}");
    let plan = nlog_plan::query::Plan::for_outputs(compile(NUMBERS)).to_string();
    assert!(plan.contains("number.unique.n: key (n) checked"), "{plan}");
}

/// Large tables are watched by the hashes of their unique columns, until a hash comes twice.
#[test]
fn large_tables_are_watched_by_their_unique_columns() {
    let rows: i64 = if cfg!(debug_assertions) { 300 } else { 6000 };
    let mut load = String::new();
    for k in 0..rows {
        let _ = write!(load, "{}[{k},{}]", if k == 0 { "" } else { "," }, k + 100_000);
    }
    let load = format!(r#"{{"insert": {{"one": [{load}]}}}}"#);
    let clash = format!(r#"{{"insert": {{"two": [[{rows},100007]]}}}}"#);
    let fine = format!(r#"{{"insert": {{"two": [[{rows},100007]]}}, "delete": {{"one": [[7,100007]]}}}}"#);
    let said = said(NUMBERS, &[&load, &clash, &fine, &clash]);
    assert!(said[1].contains("unique columns (n: 100007): k is 7 in one"), "{}", said[1]);
    assert!(!said[2].contains("error") && !said[3].contains("error"), "{} {}", said[2], said[3]);
}

fn started(program: &Arc<Program>) -> Dataflow {
    Dataflow::new(Arc::clone(program), Options::default()).expect("it starts")
}

fn commit(engine: &mut Dataflow, line: &str) -> Result<(), String> {
    let transaction = transaction(engine.program(), line);
    engine.commit(&transaction).map(drop).map_err(|error| error.to_string())
}

#[test]
fn a_saved_engine_still_knows_what_is_unique() {
    let text = format!("{NUMBERS}{}", TUNNELS.replace("sender", "z"));
    let program = compile(&text);
    let mut engine = started(&program);
    let load =
        r#"{"insert": {"one": [[1,10]], "two": [[3,30]], "named": [["h2","b"]], "tunnel": [["h1","h2",1]]}}"#;
    commit(&mut engine, load).expect("it is right");
    let mut bytes = Vec::new();
    engine.save_derived(&mut bytes).expect("it can be saved");
    let mut restored = started(&program);
    let (mut rest, length) = (&bytes[..], bytes.len() as u64);
    restored.restore_derived(&mut (&mut rest as &mut dyn Read).take(length)).expect("the bytes are right");
    for line in [r#"{"insert": {"named": [["h3","b"]]}}"#, r#"{"insert": {"one": [[4,30]]}}"#] {
        let error = commit(&mut restored, line).expect_err("it is refused");
        assert!(error.contains("unique columns"), "{error}");
    }
    commit(&mut restored, r#"{"delete": {"two": [[3,30]]}, "insert": {"one": [[4,30]]}}"#)
        .expect("it is right");
}

#[test]
fn edits_add_and_remove_what_is_unique() {
    let with = compile(NUMBERS);
    let without = compile(&NUMBERS.replace(" unique(n)", "").replace(" key(n)", ""));
    let options = Options::default();
    let mut engine = started(&without);
    commit(&mut engine, r#"{"insert": {"one": [[1,10]], "two": [[2,10]]}}"#).expect("it is right");
    let refused = engine.propose(Arc::clone(&with), &options).err().map(|error| error.to_string());
    assert!(refused.as_ref().is_some_and(|why| why.contains("unique columns (n: 10)")), "{refused:?}");
    commit(&mut engine, r#"{"delete": {"two": [[2,10]]}}"#).expect("it is right");
    engine.propose(Arc::clone(&with), &options).expect("nothing is wrong with it").accept();
    assert!(commit(&mut engine, r#"{"insert": {"two": [[2,10]]}}"#).is_err());
    engine.propose(without, &options).expect("nothing is wrong with it").accept();
    commit(&mut engine, r#"{"insert": {"two": [[2,10]]}}"#).expect("it is right");
}

#[test]
fn an_input_table_with_rows_keeps_its_unique_columns() {
    let (with, without) =
        (compile(TUNNELS), compile(&TUNNELS.replace(" key(host) unique(name)", " key(host)")));
    let mut engine = started(&with);
    let error = |engine: &mut Dataflow| engine.propose(Arc::clone(&without), &Options::default()).err();
    commit(&mut engine, r#"{"insert": {"named": [["h1","a"]]}}"#).expect("it is right");
    assert_eq!(error(&mut engine), Some(ChangeError::Input { table: "named".to_owned(), rows: 1 }));
    commit(&mut engine, r#"{"delete": {"named": [["h1","a"]]}}"#).expect("it is right");
    assert_eq!(error(&mut engine), None);
}
