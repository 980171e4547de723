//! `weft explain` and `weft why-not`.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use crate::support::Folder;
use serde_json::{Value, json};

const PEERS: &str = include_str!("unit_tests/peers.nlog");

/// Two hosts of one switch; the second transaction is refused, the last moves p2.
const TXNS: &str = r#"{"insert":{"on":[["p1","blue","hv1"],["p2","blue","hv9"]],"can":[["hv1",0,"vxlan"],["hv2",3,"vxlan"]]}}
{"insert":{"on":[["p1","red","hv1"]]}}
{"txn":7,"delete":{"on":[["p2","blue","hv9"]]},"insert":{"on":[["p2","blue","hv2"]],"quiet":[["hv2"]]}}
"#;

fn folder() -> Folder {
    let folder = Folder::new();
    folder
        .write("peers.nlog", PEERS)
        .write("txns.jsonl", TXNS)
        .write("accepted.jsonl", TXNS.replace("\"p1\",\"red\"", "\"p3\",\"red\""));
    folder
}

fn json_of(arguments: &[&str]) -> Value {
    let outcome = folder().weft(arguments);
    serde_json::from_str(&outcome.has_status(0).stdout).unwrap()
}

#[test]
fn a_derivation_goes_down_to_transactions() {
    let outcome = folder().weft(&["explain", "peers.nlog", "-i", "accepted.jsonl", "peer(\"hv1\", _, _)"]);
    let wanted = r#"peer("hv1", "hv2", "vxlan")  peers.nlog:15:1
    present("hv1", "blue")  peers.nlog:12:1
        on("p1", "blue", "hv1")  transaction 1
    present("hv2", "blue")  peers.nlog:12:1
        on("p2", "blue", "hv2")  transaction 7
    can("hv1", 0, "vxlan")  transaction 1
    can("hv2", 3, "vxlan")  transaction 1
"#;
    assert_eq!(outcome.has_status(0).stdout, wanted);
}

#[test]
fn a12_a_printed_row_is_a_question() {
    let folder = Folder::new();
    folder.write("p.nlog", "type at = record {x: int, y: opt<string>};\ninput table a(o: opt<int>, p: at);\noutput table b(o: opt<int>, p: at);\nb(o, p) :- a(o, p);\n");
    folder.write("t.jsonl", r#"{"insert":{"a":[[5,[1,null]],[null,[2,"z"]]]}}"#);
    for row in ["b(5, (1, none))", "b(none, (2, \"z\"))"] {
        let answer = folder.weft(&["explain", "p.nlog", "-i", "t.jsonl", row]);
        assert!(answer.has_status(0).stdout.starts_with(row), "{answer:?}");
        let other = row.replace("none)", "\"y\")").replace("\"z\"", "none");
        let answer = folder.weft(&["why-not", "p.nlog", "-i", "t.jsonl", &other]);
        assert!(answer.has_status(0).stdout.contains("p.nlog:4:1"), "{answer:?}");
    }
    // As programs write it, still; and what is neither has its mistake shown.
    folder.weft(&["explain", "p.nlog", "-i", "t.jsonl", "b(some(5), _)"]).has_status(0);
    let wrong = folder.weft(&["explain", "p.nlog", "-i", "t.jsonl", "b(\"five\", _)"]);
    assert!(wrong.has_status(1).stderr.contains("type-mismatch"), "{wrong:?}");
}

#[test]
fn what_is_told_is_not_told_again_and_other_ways_are_counted() {
    let all = folder().weft(&["explain", "peers.nlog", "-i", "accepted.jsonl", "ports(..)", "--rows", "1"]);
    let wanted = "ports(\"hv1\", 2)  peers.nlog:23:1\n    on(\"p1\", \"blue\", \"hv1\")  transaction 1\n    on(\"p3\", \"red\", \"hv1\")  transaction 2\nand 1 more matching rows; --rows shows more\n";
    assert_eq!(all.has_status(0).stdout, wanted);
    let flows = folder().weft(&["explain", "peers.nlog", "-i", "accepted.jsonl", "flow(\"hv1\", _)"]);
    assert!(
        flows.stdout.starts_with("flow(\"hv1\", match\"in_port=102\")  peers.nlog:26:1\n    ports("),
        "{}",
        flows.stdout
    );
}

#[test]
fn a_refused_transaction_is_said_and_leaves_nothing() {
    let outcome = folder().weft(&["explain", "peers.nlog", "-i", "txns.jsonl", "ports(\"hv1\", _)"]);
    assert_eq!(
        outcome.has_status(1).stdout,
        "ports(\"hv1\", 1)  peers.nlog:23:1\n    on(\"p1\", \"blue\", \"hv1\")  transaction 1\n"
    );
    assert!(
        outcome.stderr.contains("error[duplicate-key]")
            && outcome.stderr.contains("1 transaction was refused")
    );
}

#[test]
fn why_not_names_the_atom_that_finds_nothing() {
    let outcome =
        folder().weft(&["why-not", "peers.nlog", "-i", "accepted.jsonl", "peer(\"hv1\", \"hv3\", _)"]);
    let wanted = r#"peers.nlog:15:1
    finds present("hv1", "blue")
    but finds no present("hv3", "blue") (17:5)
        there is present("hv1", "blue")
        there is present("hv2", "blue")
        peers.nlog:12:1
            finds no on(_, "blue", "hv3") (12:22)
                there is on("p1", "blue", "hv1")
                there is on("p2", "blue", "hv2")
    (so ends one other way of binding its variables)
"#;
    assert_eq!(outcome.has_status(0).stdout, wanted);
}

#[test]
fn a_default_that_is_overridden_says_by_what() {
    let outcome = folder().weft(&["why-not", "peers.nlog", "-i", "accepted.jsonl", "chatter(\"hv2\", 2)"]);
    let said = &outcome.has_status(0).stdout;
    assert!(said.contains("is a default, overridden by chatter(\"hv2\", 0)"), "{said}");
    assert!(!said.contains("chatter."), "hidden tables are the compiler's own: {said}");
    let why = folder().weft(&["explain", "peers.nlog", "-i", "accepted.jsonl", "chatter(\"hv1\", _)"]);
    assert!(
        why.has_status(0).stdout.starts_with("chatter(\"hv1\", 2)  peers.nlog:31:1\n    ports(\"hv1\", 2)"),
        "{}",
        why.stdout
    );
}

#[test]
fn both_answer_as_json() {
    let answer = json_of(&["explain", "--json", "peers.nlog", "-i", "accepted.jsonl", "ports(\"hv2\", _)"]);
    let wanted = json!({"more": 0, "rows": [{
        "table": "ports", "row": ["hv2", 1], "more_rows": 0, "rule": {"file": "peers.nlog", "line": 23, "column": 1}, "other_ways": 0,
        "from": [{"table": "on", "row": ["p2", "blue", "hv2"], "txn": 7}],
    }]});
    assert_eq!(answer, wanted);
    let answer = json_of(&["why-not", "--json", "peers.nlog", "-i", "accepted.jsonl", "ports(\"hv3\", _)"]);
    assert_eq!(answer["row"], json!(["hv3", null]));
    let rule = &answer["rules"][0];
    assert_eq!(rule["rule"], json!({"file": "peers.nlog", "line": 23, "column": 1}));
    assert_eq!(rule["obstacle"]["kind"], "no-row");
    assert_eq!(rule["obstacle"]["why_not"]["table"], "on");
    assert_eq!(rule["obstacle"]["why_not"]["row"], json!([null, null, "hv3"]));
}

#[test]
fn the_wrong_question_gets_the_other_command() {
    let there = folder().weft(&["why-not", "peers.nlog", "-i", "accepted.jsonl", "ports(\"hv1\", 2)"]);
    assert!(
        there.has_status(1).stderr.contains("ports(\"hv1\", 2) exists; `weft explain` explains why"),
        "{}",
        there.stderr
    );
    let absent = folder().weft(&["explain", "peers.nlog", "-i", "accepted.jsonl", "ports(\"hv3\", _)"]);
    assert!(absent.has_status(1).stderr.contains("`weft why-not` explains why"), "{}", absent.stderr);
}

#[test]
fn mistakes_in_the_atom_have_places() {
    for (atom, wanted) in [
        ("prots(\"hv1\", _)", "error[unknown-table]: unknown table `prots`"),
        ("ports(\"hv1\")", "error[arity]"),
        ("ports(hv1, _)", "error[unbound-variable]"),
        ("ports(", "error[syntax]"),
    ] {
        let outcome = folder().weft(&["explain", "peers.nlog", "-i", "accepted.jsonl", atom]);
        let said = &outcome.has_status(1).stderr;
        assert!(said.contains(wanted) && said.contains("--> ATOM:2:"), "{atom}: {said}");
    }
    let no_row = folder().weft(&["explain", "peers.nlog", "-i", "accepted.jsonl", "no ports(..)"]);
    assert!(no_row.has_status(2).stderr.contains("is not a row"), "{}", no_row.stderr);
    folder().weft(&["explain", "peers.nlog", "-i", "nowhere.jsonl", "ports(..)"]).has_status(3);
}

/// Input tables of four columns.
fn declared(tables: &[&str]) -> String {
    let declare = |table: &&str| format!("input table {table}(x: int, y: int, z: int, n: int);");
    tables.iter().map(declare).collect::<Vec<_>>().join("\n") + "\n"
}

/// Tables of 100 rows that agree in everything but the last column.
fn alike(tables: &[&str]) -> String {
    let rows = |table: &&str| {
        let rows: Vec<String> = (0..100).map(|n| format!("[1,1,1,{n}]")).collect();
        format!("\"{table}\":[{}]", rows.join(","))
    };
    let tables: Vec<String> = tables.iter().map(rows).collect();
    format!("{{\"insert\":{{{}}}}}\n", tables.join(","))
}

#[test]
fn of_a_row_with_ten_thousand_million_ways_some_are_counted() {
    let tables = ["a", "b", "c", "d", "e"];
    let declared = declared(&tables);
    let rules = "output table r(x: int);\noutput table s(n: int);\n\
        r(x) :- a(x, _, _, k), b(x, _, _, l), c(x, _, _, m), d(x, _, _, n), e(x, _, _, o), o >= 7;\n\
        s(count(k)) :- a(_, _, _, k), b(x, _, _, _), c(x, _, _, _), d(x, _, _, _), e(x, _, _, _);\n";
    let folder = Folder::new();
    folder.write("ways.nlog", declared + rules).write("txns.jsonl", alike(&tables));
    let one = folder.weft(&["explain", "ways.nlog", "-i", "txns.jsonl", "r(1)"]);
    let wanted = "r(1)  ways.nlog:8:1, and at least 999 other ways
    a(1, 1, 1, 0)  transaction 1
    b(1, 1, 1, 0)  transaction 1
    c(1, 1, 1, 0)  transaction 1
    d(1, 1, 1, 0)  transaction 1
    e(1, 1, 1, 7)  transaction 1
";
    assert_eq!(one.has_status(0).stdout, wanted);
    let group = folder.weft(&["explain", "ways.nlog", "-i", "txns.jsonl", "s(_)", "--json"]);
    let object: Value = serde_json::from_str(&group.has_status(0).stdout).unwrap();
    assert_eq!(object["rows"][0]["row"], json!([100]));
    assert_eq!(object["rows"][0]["more"], true);
    // The first 1,000 ways in order have the first row of a, of b and of c, ten of d and all of e; 20 rows are told.
    assert_eq!(object["rows"][0]["more_rows"], 1 + 1 + 1 + 10 + 100 - 20);
}

#[test]
fn of_a_million_dead_ends_and_more_some_are_counted() {
    let tables = ["a", "b", "c", "d"];
    let declared = declared(&tables);
    let rules = "input table f(k: int, l: int, m: int, n: int);\noutput table r(x: int, y: int, z: int);\n\
        r(x, y, z) :- f(k, l, m, n), a(x, y, z, k), b(x, y, z, l), c(x, y, z, m), d(x, y, z, n);\n";
    let folder = Folder::new();
    folder.write("ways.nlog", declared + rules).write("txns.jsonl", alike(&tables));
    let outcome = folder.weft(&["why-not", "ways.nlog", "-i", "txns.jsonl", "r(1, 1, 1)"]);
    let text = &outcome.has_status(0).stdout;
    assert!(text.contains("but finds no f(0, 0, 0, n)") && text.contains("(so end at least "), "{text}");
}
