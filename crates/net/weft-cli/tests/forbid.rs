//! Tables that forbid their rows, in every command that shows tables.

use crate::support::{Folder, Outcome, eval_with};

const PROGRAM: &str = r"input table address(ip: ip, port: string);
output table ports(port: string);

## An address belongs to one port. Ask the network team.
forbid table two_owners(ip: ip, a: string, b: string);

ports(port) :- address(_, port);
two_owners(ip, a, b) :-
    address(ip, a), address(ip, b), a < b;
";

/// The second transaction gives an address to two ports, and the third moves it.
const TXNS: &str = r#"{"insert":{"address":[["10.0.0.1","p1"]]}}
{"insert":{"address":[["10.0.0.1","p2"],["10.0.0.1","p3"]]}}
{"insert":{"address":[["10.0.0.1","p2"]]},"delete":{"address":[["10.0.0.1","p1"]]}}
"#;

const REFUSAL: &str = r#"{"txn":2,"error":{"code":"forbidden","message":"An address belongs to one port: two_owners(ip: \"10.0.0.1\", a: \"p1\", b: \"p2\") and 2 more rows"}}"#;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("p.nlog", PROGRAM).write("txns.jsonl", TXNS);
    folder
}

#[test]
fn a_forbidden_row_refuses_the_transaction_in_every_engine() {
    let lines = [
        r#"{"txn":1,"insert":{"ports":[["p1"]]},"delete":{}}"#,
        REFUSAL,
        r#"{"txn":3,"insert":{"ports":[["p2"]]},"delete":{"ports":[["p1"]]}}"#,
    ];
    assert_eq!(eval_with(PROGRAM, TXNS, &[]).has_status(1).lines(), lines);
    let folder = folder();
    let outcome = folder.weft(&["eval", "p.nlog", "-i", "txns.jsonl", "--engine", "composed"]);
    assert_eq!(outcome.has_status(1).lines(), lines);
}

#[test]
fn such_a_table_is_shown_as_empty() {
    let print = |flags: &[&str]| eval_with(PROGRAM, TXNS, flags).has_status(1).stdout.clone();
    assert_eq!(
        print(&["--final", "--tables", "all"]),
        "{\"address\":[[\"10.0.0.1\",\"p2\"]],\"ports\":[[\"p2\"]],\"two_owners\":[]}\n"
    );
    assert_eq!(print(&["--final"]), "{\"ports\":[[\"p2\"]]}\n");
    let empty = r#","insert":{},"delete":{}}"#;
    assert_eq!(
        print(&["--tables", "two_owners"]),
        format!("{{\"txn\":1{empty}\n{REFUSAL}\n{{\"txn\":3{empty}\n")
    );
}

/// Runs lines in the engine and in the reference, which must print the same.
#[track_caller]
fn both(folder: &Folder, lines: &[&str], more: &[&str]) -> Outcome {
    let run = |way: &[&str]| {
        folder.weft_reading(lines.join("\n"), &[&["eval", "p.nlog", "-i", "-"][..], way, more].concat())
    };
    let (engine, reference) = (run(&[]), run(&["--reference"]));
    assert_eq!(engine, reference, "for\n{lines:?}");
    engine
}

#[test]
fn an_edit_of_rules_cannot_forbid_what_is_there() {
    let edit =
        r#"{"rules":{"add":["forbid table many(port: string); many(p) :- ports(p), ports(q), p != q;"]}}"#;
    let again = r#"{"rules":{"remove":["output table ports(port: string);"],"add":["forbid table ports(port: string);"]}}"#;
    let other = r#"{"insert":{"address":[["10.0.0.2","p2"]]}}"#;
    let first = TXNS.lines().next().unwrap_or_default();
    let outcome = both(
        &folder(),
        &[first, other, edit, again, r#"{"delete":{"address":[["10.0.0.2","p2"]]}}"#, edit, other],
        &[],
    );
    assert_eq!(
        outcome.has_status(1).lines()[2..],
        [
            r#"{"txn":3,"error":{"code":"forbidden","message":"table many forbids many(port: \"p1\") and 1 more row"}}"#,
            r#"{"txn":4,"error":{"code":"forbidden","message":"table ports forbids ports(port: \"p1\") and 1 more row"}}"#,
            r#"{"txn":5,"insert":{},"delete":{"ports":[["p2"]]}}"#,
            r#"{"txn":6,"insert":{},"delete":{}}"#,
            r#"{"txn":7,"error":{"code":"forbidden","message":"table many forbids many(port: \"p1\") and 1 more row"}}"#,
        ]
    );
    // Rows that leave with the edit that forbids them are reported alike.
    let again = r#"{"rules":{"remove":["output table ports(port: string);","ports(port) :- address(_, port);"],"add":["forbid table ports(port: string); ports(p) :- address(_, p), p == \"x\";"]}}"#;
    let outcome = both(&folder(), &[first, again, other], &["--tables", "all"]);
    assert_eq!(outcome.has_status(0).lines()[1], r#"{"txn":2,"insert":{},"delete":{"ports":[["p1"]]}}"#);
}

#[test]
fn a_saved_state_that_the_program_forbids_is_not_loaded() {
    let folder = folder();
    folder.write("free.nlog", PROGRAM.replace("forbid table", "output table")).write("none.jsonl", "{}\n");
    folder.weft(&["eval", "free.nlog", "-i", "txns.jsonl", "--save-state", "s"]).has_status(0);
    folder.weft(&["eval", "p.nlog", "-i", "none.jsonl", "--state", "s"]).has_status(1);
    let all = r#"{"insert":{"address":[["10.0.0.1","p1"],["10.0.0.1","p9"]]}}"#;
    folder.weft_reading(all, &["eval", "free.nlog", "-i", "-", "--save-state", "s"]).has_status(0);
    let outcome = folder.weft(&["eval", "p.nlog", "-i", "none.jsonl", "--state", "s"]);
    let why = "the program refuses its rows: forbidden: An address belongs to one port: two_owners(";
    assert!(outcome.has_status(1).stderr.contains(why), "{}", outcome.stderr);
}

#[test]
fn unit_tests_expect_the_refusal() {
    let folder = Folder::new();
    let tests = r#"import "p.nlog";

test "an address has one owner" {
    given { address("10.0.0.1", "p1"); }
    change { insert address("10.0.0.1", "p2"); }
    expect error "forbidden";
    change { insert address("10.0.0.1", "p2"); delete address("10.0.0.1", "p1"); }
    expect ports("p2");
}
"#;
    folder.write("n/p.nlog", PROGRAM).write("n/p.test.nlog", tests);
    folder.weft(&["test", "n"]).has_status(0);
    // Without the rule, the test fails.
    let without = PROGRAM.replace("a < b", "a < b, a == \"none\"");
    folder.write("n/p.nlog", without);
    let outcome = folder.weft(&["test", "n"]);
    let why = "the transaction is accepted, and not refused with forbidden";
    assert!(outcome.has_status(1).stdout.contains(why) || outcome.stderr.contains(why), "{outcome:?}");
}

#[test]
fn questions_about_such_a_row_are_answered() {
    let folder = folder();
    let why = folder.weft(&["explain", "p.nlog", "-i", "txns.jsonl", "two_owners(..)"]);
    assert!(why.has_status(1).stderr.contains("no row matches two_owners(_, _, _)"), "{}", why.stderr);
    let why_not = folder.weft(&["why-not", "p.nlog", "-i", "txns.jsonl", "two_owners(..)"]);
    assert!(why_not.stdout.contains("p.nlog:8:1"), "{}", why_not.stdout);
    let rule = "finds address(ip\"10.0.0.1\", \"p2\")";
    assert!(why_not.stdout.contains(rule), "{}", why_not.stdout);
}

#[test]
fn the_plan_says_that_rows_are_forbidden() {
    let folder = folder();
    let plan = folder.weft(&["plan", "p.nlog"]);
    let relation =
        plan.has_status(0).lines().into_iter().find(|line| line.contains("two_owners: ")).map(str::to_owned);
    assert!(relation.is_some_and(|line| line.contains("as it is, forbidden, level 1")), "{}", plan.stdout);
}

#[test]
fn checks_neither_call_it_unused_nor_let_rules_read_it() {
    let folder = folder();
    let outcome = folder.weft(&["check", "p.nlog", "--json"]);
    assert_eq!(outcome.has_status(0).stdout, "");
    folder.write("q.nlog", format!("{PROGRAM}output table o(ip: ip); o(ip) :- two_owners(ip, _, _);"));
    let outcome = folder.weft(&["check", "q.nlog", "--json"]);
    let lines = outcome.has_status(1).lines();
    assert!(lines.len() == 1 && lines[0].contains(r#""code":"reads-forbid""#), "{}", outcome.stdout);
}
