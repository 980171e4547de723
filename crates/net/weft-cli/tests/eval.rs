//! `weft eval`: transactions in, deltas out, byte for byte. Every test runs with one worker, with several, and in
//! the reference evaluator ([`crate::support::eval`]).

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use crate::support::{Folder, eval, eval_with};

const KEYED: &str = "
    input table a(k: string, v: int) key(k);
    input table b(x: int);
    table m(v: int);
    output table z(k: string, v: int);
    output table y(v: int);
    z(k, v) :- a(k, v);
    m(v) :- a(_, v), b(v);
    y(v) :- m(v);
";

/// Checks transactions and the expected lines; a line `!n code` stands for the refusal of transaction n.
#[track_caller]
fn answers(program: &str, exchange: &[(&str, &str)]) {
    let transactions = exchange.iter().map(|(line, _)| *line).collect::<Vec<_>>().join("\n");
    let outcome = eval(program, &transactions);
    let printed = outcome.lines();
    assert_eq!(printed.len(), exchange.len(), "{}\n{}", outcome.stdout, outcome.stderr);
    for ((line, wanted), printed) in exchange.iter().zip(printed) {
        match wanted.strip_prefix('!') {
            None => assert_eq!(printed, *wanted, "for {line}"),
            Some(refusal) => {
                let (txn, code) = refusal.split_once(' ').unwrap();
                refuses(printed, txn, code);
            }
        }
    }
    let refused = exchange.iter().any(|(_, wanted)| wanted.starts_with('!'));
    outcome.has_status(i32::from(refused));
}

/// `{"txn":N,"error":{"code":…,"message":…}}`, in this order and in compact form.
#[track_caller]
fn refuses(printed: &str, txn: &str, code: &str) {
    let start = format!(r#"{{"txn":{txn},"error":{{"code":"{code}","message":""#);
    assert!(printed.starts_with(&start) && printed.ends_with(r#""}}"#), "{printed}\nis no {start}");
    let object: serde_json::Value = serde_json::from_str(printed).unwrap();
    assert!(object["error"]["message"].as_str().is_some_and(|message| message.len() > 5), "{printed}");
    assert_eq!(object.as_object().unwrap().len(), 2, "{printed}");
    assert_eq!(object["error"].as_object().unwrap().len(), 2, "{printed}");
}

// Transactions.

#[test]
fn one_line_for_each_transaction_numbered_and_sorted() {
    answers(
        KEYED,
        &[
            (
                r#"{"insert":{"b":[[10],[9],[2]],"a":[["b",2],["a",10]]}}"#,
                r#"{"txn":1,"insert":{"y":[[2],[10]],"z":[["a",10],["b",2]]},"delete":{}}"#,
            ),
            ("{}", r#"{"txn":2,"insert":{},"delete":{}}"#),
            (r#"{"insert":{},"delete":{}}"#, r#"{"txn":3,"insert":{},"delete":{}}"#),
            (r#"{"txn":70,"delete":{"b":[[2]]}}"#, r#"{"txn":70,"insert":{},"delete":{"y":[[2]]}}"#),
            (r#" { "insert" : { "b" : [ [ 2 ] ] } } "#, r#"{"txn":71,"insert":{"y":[[2]]},"delete":{}}"#),
            (r#"{"txn":5}"#, r#"{"txn":5,"insert":{},"delete":{}}"#),
            (r#"{"note":"who knows","by":{"deep":[1]},"at":12.5}"#, r#"{"txn":6,"insert":{},"delete":{}}"#),
            (r#"{"txn":18446744073709551615}"#, r#"{"txn":18446744073709551615,"insert":{},"delete":{}}"#),
        ],
    );
}

#[test]
fn deletes_come_before_inserts() {
    answers(
        KEYED,
        &[
            (r#"{"insert":{"a":[["p",1]]}}"#, r#"{"txn":1,"insert":{"z":[["p",1]]},"delete":{}}"#),
            (
                r#"{"insert":{"a":[["p",2]]},"delete":{"a":[["p",1]]}}"#,
                r#"{"txn":2,"insert":{"z":[["p",2]]},"delete":{"z":[["p",1]]}}"#,
            ),
            // Out and in again is no change.
            (
                r#"{"insert":{"a":[["p",2]]},"delete":{"a":[["p",2]]}}"#,
                r#"{"txn":3,"insert":{},"delete":{}}"#,
            ),
            // A missing row is not deleted by its key.
            (r#"{"insert":{"a":[["p",3]]},"delete":{"a":[["p",1]]}}"#, "!4 duplicate-key"),
            (r#"{"delete":{"a":[["p",2]]}}"#, r#"{"txn":5,"insert":{},"delete":{"z":[["p",2]]}}"#),
        ],
    );
}

#[test]
fn a_derived_row_stays_while_anything_derives_it() {
    let program = "
        input table a(x: int, y: int); output table o(x: int); output table p(x: int);
        o(x) :- a(x, _); o(y) :- a(_, y); p(x) :- o(x), x > 1;";
    answers(
        program,
        &[
            (
                r#"{"insert":{"a":[[1,2],[1,3]]}}"#,
                r#"{"txn":1,"insert":{"o":[[1],[2],[3]],"p":[[2],[3]]},"delete":{}}"#,
            ),
            (r#"{"delete":{"a":[[1,2]]},"insert":{"a":[[2,2]]}}"#, r#"{"txn":2,"insert":{},"delete":{}}"#),
            (r#"{"delete":{"a":[[1,3]]}}"#, r#"{"txn":3,"insert":{},"delete":{"o":[[1],[3]],"p":[[3]]}}"#),
        ],
    );
}

#[test]
fn a_bad_transaction_changes_nothing_and_the_run_goes_on() {
    answers(
        KEYED,
        &[
            (
                r#"{"insert":{"a":[["p",1]],"b":[[1]]}}"#,
                r#"{"txn":1,"insert":{"y":[[1]],"z":[["p",1]]},"delete":{}}"#,
            ),
            (r#"{"insert":{"a":[["p",9],["q",9]],"b":[[5]]}}"#, "!2 duplicate-key"),
            (r#"{"insert":{"a":[["s",5],["s",6]]}}"#, "!3 duplicate-key"),
            (r#"{"delete":{"b":[[1]]},"insert":{"z":[["x",1]]}}"#, "!4 not-an-input"),
            (r#"{"delete":{"m":[[1]]}}"#, "!5 not-an-input"),
            (r#"{"delete":{"b":[[1]]},"insert":{"nope":[]}}"#, "!6 unknown-table"),
            (r#"{"insert":{"a":[["r"]]}}"#, "!7 arity"),
            (r#"{"delete":{"a":[["p",1,1]]}}"#, "!8 arity"),
            (r#"{"insert":{"a":[[]]}}"#, "!9 arity"),
            (r#"{"insert":{"a":[["r","1"]]}}"#, "!10 type-mismatch"),
            (r#"{"insert":{"a":[[null,1]]}}"#, "!11 type-mismatch"),
            (r#"{"insert":{"b":[[1.5]]}}"#, "!12 type-mismatch"),
            (r#"{"insert":{"b":[[9223372036854775808]]}}"#, "!13 type-mismatch"),
            ("{", "!14 bad-json"),
            ("[]", "!15 bad-json"),
            (r#"{"insert":[]}"#, "!16 bad-json"),
            (r#"{"insert":{"b":[1]}}"#, "!17 bad-json"),
            ("{} {}", "!18 bad-json"),
            (r#"{"txn":"7"}"#, "!19 bad-json"),
            (r#"{"insert":7,"txn":29}"#, "!29 bad-json"),
            (r#"{"txn":30,"insert":{"b":[["x"]]}}"#, "!30 type-mismatch"),
            (
                r#"{"insert":{"a":[["q",9]],"b":[[9]]}}"#,
                r#"{"txn":31,"insert":{"y":[[9]],"z":[["q",9]]},"delete":{}}"#,
            ),
        ],
    );
}

#[test]
fn of_several_faults_the_first_by_table_then_row() {
    answers(
        KEYED,
        &[
            (r#"{"insert":{"b":[["x"]],"a":[["r"]]}}"#, "!1 arity"),
            (r#"{"insert":{"zz":[],"b":[["x"]]}}"#, "!2 type-mismatch"),
            (r#"{"insert":{"y":[],"m":[],"c":[]}}"#, "!3 unknown-table"),
            (r#"{"insert":{"b":[["x"],[1,2]]}}"#, "!4 type-mismatch"),
            (r#"{"insert":{"b":[[1,2],["x"]]}}"#, "!5 arity"),
            // Key errors count at their position, although finding them takes more than reading the line.
            (r#"{"insert":{"a":[["p",1],["p",2]],"b":[["x"]]}}"#, "!6 duplicate-key"),
            (r#"{"insert":{"a":[["p",1],["p",2],["p"]]}}"#, "!7 duplicate-key"),
            (r#"{"insert":{"a":[["p",1],["p"],["p",2]]}}"#, "!8 arity"),
            (r#"{"insert":{"a":[["p",1],["p",2]],"zz":[]}}"#, "!9 duplicate-key"),
            (r#"{"insert":{"a":[["p",1],["p",2]]},"delete":{"a":[[]]}}"#, "!10 arity"),
            (r#"{"insert":{"a":[["p",1],["p",2]],"aa":[]},"delete":{"a":[["p",2]]}}"#, "!11 duplicate-key"),
            // None of that left a trace.
            (r#"{"insert":{"a":[["p",1]]}}"#, r#"{"txn":12,"insert":{"z":[["p",1]]},"delete":{}}"#),
        ],
    );
}

#[test]
fn bad_json_has_the_line_number() {
    let outcome = eval(KEYED, "{}\n\n{\"insert\":oops}\n");
    assert_eq!(outcome.lines().len(), 2, "an empty line is no transaction: {}", outcome.stdout);
    refuses(outcome.lines()[1], "2", "bad-json");
    assert!(outcome.lines()[1].contains("line 3"), "{}", outcome.stdout);
}

#[test]
fn reasons_stand_on_standard_error_with_file_line_and_column() {
    let outcome = eval(KEYED, "{\"insert\":{\"é\":7}}\n{\"insert\":{\"b\":[[true]]}}\n");
    outcome.has_status(1);
    assert!(outcome.stderr.contains("txns.jsonl:1:16: error[bad-json]: "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("txns.jsonl:2:1: error[type-mismatch]: "), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("2 transactions were refused"), "{}", outcome.stderr);
    let program = "input table i(x: int);\noutput table o(x: int);\no(x + 1) :- i(x);\n";
    let outcome = eval(program, "{\"insert\":{\"i\":[[9223372036854775807]]}}\n");
    assert!(outcome.stderr.contains("program.nlog:3:1"), "names the rule: {}", outcome.stderr);
}

#[test]
fn rows_in_vain_are_counted_in_a_warning_at_the_end() {
    let transactions = r#"{"insert":{"a":[["p",1],["p",1]],"b":[[1]]}}
{"insert":{"a":[["p",1]],"b":[[1]]},"delete":{"b":[[99]]}}
{"insert":{"a":[["p",2]],"b":[[1]]}}
"#;
    let outcome = eval(KEYED, transactions);
    outcome.has_status(1);
    let warning = outcome.stderr.lines().find(|line| line.starts_with("warning: ")).expect(&outcome.stderr);
    assert!(warning.contains("3 inserted rows already existed"), "{warning}");
    assert!(warning.contains("1 deleted row did not exist"), "{warning}");
    assert_eq!(outcome.lines()[1], r#"{"txn":2,"insert":{},"delete":{}}"#);
    // Warnings alone are not a failure, and without warnings nothing is printed.
    eval(KEYED, "{\"delete\":{\"b\":[[1]]}}\n").has_status(0);
    assert_eq!(eval(KEYED, "{\"insert\":{\"b\":[[1]]}}\n").stderr, "");
}

#[test]
fn a_line_with_an_error_member_is_an_empty_transaction() {
    answers(
        KEYED,
        &[
            (r#"{"txn":4,"error":{"code":"range","message":"…"}}"#, r#"{"txn":4,"insert":{},"delete":{}}"#),
            (r#"{"insert":[1],"delete":0,"error":{}}"#, r#"{"txn":5,"insert":{},"delete":{}}"#),
            (r#"{"error":null,"insert":{"b":[[1]],"nope":[[2]]}}"#, r#"{"txn":6,"insert":{},"delete":{}}"#),
        ],
    );
}

#[test]
fn the_last_line_needs_no_line_feed_and_lines_may_end_in_crlf() {
    let outcome = eval(KEYED, "{\"insert\":{\"b\":[[1]]}}\r\n\r\n{\"insert\":{\"a\":[[\"p\",1]]}}");
    assert_eq!(
        outcome.stdout,
        "{\"txn\":1,\"insert\":{},\"delete\":{}}\n{\"txn\":2,\"insert\":{\"y\":[[1]],\"z\":[[\"p\",1]]},\"delete\":{}}\n"
    );
    assert_eq!(eval(KEYED, "").has_status(0).stdout, "");
}

#[test]
fn deltas_are_transactions_of_another_program() {
    let folder = Folder::new();
    folder.write(
        "first.nlog",
        "input table a(x: int); output table t(x: int, m: match); t(x, flow_expr_match_reg1(x)) :- a(x);",
    );
    folder.write(
        "second.nlog",
        "input table t(x: int, m: match); output table n(n: int); n(count(x)) :- t(x, _);",
    );
    let transactions = "{\"insert\":{\"a\":[[1],[2]]}}\n{\"insert\":{\"a\":[[-1]]}}\n{\"txn\":9,\"delete\":{\"a\":[[1]]},\"insert\":{\"a\":[[7],[8]]}}\n";
    let first = folder.weft_reading(transactions, &["eval", "first.nlog", "-i", "-"]);
    let second = folder.weft_reading(&first.stdout, &["eval", "second.nlog", "-i", "-"]);
    assert_eq!(
        second.has_status(0).stdout,
        "{\"txn\":1,\"insert\":{\"n\":[[2]]},\"delete\":{}}\n{\"txn\":2,\"insert\":{},\"delete\":{}}\n\
         {\"txn\":9,\"insert\":{\"n\":[[3]]},\"delete\":{\"n\":[[2]]}}\n"
    );
}

// The output.

#[test]
fn tables_are_chosen_by_name_or_all() {
    let transactions = "{\"insert\":{\"a\":[[\"p\",1]],\"b\":[[1]]}}\n";
    let print = |flags: &[&str]| eval_with(KEYED, transactions, flags).has_status(0).stdout.clone();
    let delta = |tables: &str| format!("{{\"txn\":1,\"insert\":{{{tables}}},\"delete\":{{}}}}\n");
    assert_eq!(print(&[]), delta(r#""y":[[1]],"z":[["p",1]]"#));
    assert_eq!(
        print(&["--tables", "all"]),
        delta(r#""a":[["p",1]],"b":[[1]],"m":[[1]],"y":[[1]],"z":[["p",1]]"#)
    );
    assert_eq!(print(&["--tables", "m,b"]), delta(r#""b":[[1]],"m":[[1]]"#));
    assert_eq!(print(&["--tables", "z"]), delta(r#""z":[["p",1]]"#));
    assert_eq!(print(&["--tables=z", "--tables", "a"]), delta(r#""a":[["p",1]],"z":[["p",1]]"#));
    let outcome = eval_with(KEYED, transactions, &["--tables", "z,nope"]);
    assert!(outcome.has_status(2).stderr.contains("nope"), "{}", outcome.stderr);
}

#[test]
fn redundant_rows_are_no_change_of_inputs_either() {
    let transactions = "{\"insert\":{\"b\":[[1]]}}\n{\"insert\":{\"b\":[[1],[2]]},\"delete\":{\"b\":[[2]]}}\n{\"insert\":{\"b\":[[1]]},\"delete\":{\"b\":[[1]]}}\n";
    let outcome = eval_with(KEYED, transactions, &["--tables", "b"]);
    assert_eq!(
        outcome.stdout,
        "{\"txn\":1,\"insert\":{\"b\":[[1]]},\"delete\":{}}\n{\"txn\":2,\"insert\":{\"b\":[[2]]},\"delete\":{}}\n{\"txn\":3,\"insert\":{},\"delete\":{}}\n"
    );
}

#[test]
fn final_contents_are_one_object() {
    let transactions = "{\"insert\":{\"a\":[[\"q\",2],[\"p\",1]],\"b\":[[1]]}}\n{\"insert\":{\"b\":[[\"x\"]]}}\n{\"delete\":{\"a\":[[\"q\",2]]}}\n";
    let print = |flags: &[&str]| eval_with(KEYED, transactions, flags).has_status(1).stdout.clone();
    assert_eq!(print(&["--final"]), "{\"y\":[[1]],\"z\":[[\"p\",1]]}\n");
    assert_eq!(
        print(&["--final", "--tables", "all"]),
        "{\"a\":[[\"p\",1]],\"b\":[[1]],\"m\":[[1]],\"y\":[[1]],\"z\":[[\"p\",1]]}\n"
    );
    assert_eq!(print(&["--final", "--tables", "m"]), "{\"m\":[[1]]}\n");
    assert_eq!(eval_with(KEYED, "", &["--final"]).has_status(0).stdout, "{\"y\":[],\"z\":[]}\n");
}

#[test]
fn facts_hold_from_the_first_transaction_on() {
    let program = "input table i(x: int); output table o(x: int); o(2); o(1 + 2 * 3); o(x) :- i(x);";
    answers(
        program,
        &[
            (r#"{"insert":{"i":[["x"]]}}"#, "!1 type-mismatch"),
            (r#"{"insert":{"i":[[7]]}}"#, r#"{"txn":2,"insert":{"o":[[2],[7]]},"delete":{}}"#),
            (r#"{"delete":{"i":[[7]]}}"#, r#"{"txn":3,"insert":{},"delete":{}}"#),
        ],
    );
    assert_eq!(eval_with(program, "", &["--final"]).has_status(0).stdout, "{\"o\":[[2],[7]]}\n");
    assert_eq!(eval_with(program, "!\n", &["--final"]).has_status(1).stdout, "{\"o\":[[2],[7]]}\n");
}

#[test]
fn order_of_files_rules_atoms_and_rows_changes_nothing() {
    let tables = "input table e(a: int, b: int);\ninput table f(b: int, c: int);\noutput table o(a: int, c: int, m: int) key(a, c);\noutput table n(a: int, s: set<int>);\n";
    let rules = [
        "o(a, c, max(b)) :- e(a, b), f(b, c), d = c - a, d > 0;\n",
        "o(c, a, min(b)) :- d > 0, f(b, c), d = c - a, e(a, b);\n",
        "n(a, set(c)) :- e(a, b), f(b, c);\n",
    ];
    let shuffled = [
        "n(a, set(c)) :- f(b, c), e(a, b);\n",
        "o(a, c, max(b)) :- d > 0, d = c - a, f(b, c), e(a, b);\n",
        "o(c, a, min(b)) :- e(a, b), d = c - a, f(b, c), d > 0;\n",
    ];
    let transactions = "{\"insert\":{\"e\":[[1,2],[1,3],[4,2]],\"f\":[[2,5],[3,5],[3,0],[2,1]]}}\n{\"delete\":{\"f\":[[3,5]]}}\n";
    let reversed = "{\"insert\":{\"f\":[[2,1],[3,0],[3,5],[2,5]],\"e\":[[4,2],[1,3],[1,2]]}}\n{\"delete\":{\"f\":[[3,5]]}}\n";
    let folder = Folder::new();
    folder.write("p/a.nlog", tables).write("p/b.nlog", rules.concat()).write("t.jsonl", transactions);
    folder.write("q/a.nlog", shuffled.concat()).write("q/b.nlog", tables).write("r.jsonl", reversed);
    let first = folder.weft(&["eval", "p", "-i", "t.jsonl"]);
    first.has_status(0);
    assert_eq!(
        first.lines()[0],
        r#"{"txn":1,"insert":{"n":[[1,[0,1,5]],[4,[1,5]]],"o":[[1,5,3],[4,5,2],[5,1,2],[5,4,2]]},"delete":{}}"#
    );
    for arguments in [["eval", "q", "-i", "r.jsonl"], ["eval", "q", "-i", "t.jsonl"]] {
        assert_eq!(folder.weft(&arguments), first);
    }
    let named = folder.weft(&["eval", "q/b.nlog", "q/a.nlog", "-i", "r.jsonl"]);
    assert_eq!(named, first);
}

// Errors of rules.

#[test]
fn overflow_is_at_the_bounds_of_64_bits() {
    let program = "
        input table i(op: string, a: int, b: int);
        output table o(op: string, v: int);
        o(op, a + b) :- i(op, a, b), op == \"+\";
        o(op, a - b) :- i(op, a, b), op == \"-\";
        o(op, a * b) :- i(op, a, b), op == \"*\";
        o(op, a / b) :- i(op, a, b), op == \"/\";
        o(op, a % b) :- i(op, a, b), op == \"%\";
        o(op, -a) :- i(op, a, _), op == \"neg\";
        o(op, a << b) :- i(op, a, b), op == \"<<\";
        o(op, a >> b) :- i(op, a, b), op == \">>\";";
    let (min, max) = (i64::MIN, i64::MAX);
    let good = |op: &str, a: i64, b: i64, v: i64| {
        let outcome =
            eval_with(program, &format!("{{\"insert\":{{\"i\":[[\"{op}\",{a},{b}]]}}}}\n"), &["--final"]);
        assert_eq!(outcome.has_status(0).stdout, format!("{{\"o\":[[\"{op}\",{v}]]}}\n"));
    };
    good("+", max, 0, max);
    good("+", max, min, -1);
    good("-", min, 0, min);
    good("-", -1, min, max);
    good("*", min, 1, min);
    good("*", 3037000499, 3037000499, 9223372030926249001);
    good("/", min, 1, min);
    good("/", -7, 2, -3);
    good("%", min, -1, 0);
    good("%", -7, 2, -1);
    good("neg", max, 0, -max);
    good("<<", 1, 62, 1 << 62);
    good(">>", -5, 1, -3);
    let bad = |op, a: i64, b: i64, code| {
        let line = format!("{{\"insert\":{{\"i\":[[\"{op}\",{a},{b}]]}}}}");
        answers(
            program,
            &[(line.as_str(), format!("!1 {code}").as_str()), ("{}", r#"{"txn":2,"insert":{},"delete":{}}"#)],
        );
    };
    bad("+", max, 1, "overflow");
    bad("+", min, -1, "overflow");
    bad("-", min, 1, "overflow");
    bad("-", 0, min, "overflow");
    bad("*", min, -1, "overflow");
    bad("*", 3037000500, 3037000500, "overflow");
    bad("/", min, -1, "overflow");
    bad("/", 1, 0, "range");
    bad("%", 1, 0, "range");
    bad("neg", min, 0, "overflow");
    bad("<<", 1, 63, "overflow");
    bad("<<", 1, 64, "range");
}

#[test]
fn failures_count_only_for_bindings_that_satisfy_the_whole_body() {
    for body in [
        "i(a, b), c = a / b, ok(a)",
        "c = a / b, i(a, b), ok(a)",
        "ok(a), i(a, b), c = a / b",
        "i(a, b), ok(a), c == a / b, all(c)",
        "all(c), c == a / b, ok(a), i(a, b)",
    ] {
        let program = format!(
            "input table i(a: int, b: int); input table ok(a: int); input table all(c: int);\n\
             output table o(a: int, c: int); output table keep(c: int);\nkeep(c) :- all(c);\no(a, c) :- {body};\n"
        );
        answers(
            &program,
            &[
                (
                    r#"{"insert":{"i":[[1,0],[8,2]],"all":[[4]]}}"#,
                    r#"{"txn":1,"insert":{"keep":[[4]]},"delete":{}}"#,
                ),
                (r#"{"insert":{"ok":[[8]]}}"#, r#"{"txn":2,"insert":{"o":[[8,4]]},"delete":{}}"#),
                (r#"{"insert":{"ok":[[1]]}}"#, "!3 range"),
                (r#"{"insert":{"ok":[[1]]},"delete":{"i":[[1,0]]}}"#, r#"{"txn":4,"insert":{},"delete":{}}"#),
                (r#"{"insert":{"i":[[1,0]]}}"#, "!5 range"),
            ],
        );
    }
}

#[test]
fn a_condition_that_fails_elsewhere_excuses_the_failure() {
    for body in [
        "i(a, b), c = a / b, b != 0",
        "b != 0, c = a / b, i(a, b)",
        "i(a, b), c = if b == 0 then 0 else a / b, b > 0",
    ] {
        let program = format!("input table i(a: int, b: int); output table o(c: int); o(c) :- {body};");
        answers(
            &program,
            &[(r#"{"insert":{"i":[[1,0],[8,2]]}}"#, r#"{"txn":1,"insert":{"o":[[4]]},"delete":{}}"#)],
        );
    }
}

#[test]
fn two_derived_rows_with_one_key_conflict() {
    let program = "
        input table i(a: int, b: int); input table j(a: int, b: int);
        table m(a: int, b: int) key(a); output table o(b: int, a: int) key(b);
        m(a, b) :- i(a, b); m(a, b) :- j(a, b); o(b, a) :- m(a, b);";
    answers(
        program,
        &[
            (
                r#"{"insert":{"i":[[1,5],[2,6]],"j":[[1,5]]}}"#,
                r#"{"txn":1,"insert":{"o":[[5,1],[6,2]]},"delete":{}}"#,
            ),
            (r#"{"insert":{"j":[[2,7]]}}"#, "!2 key-conflict"),
            (r#"{"insert":{"j":[[3,6]]}}"#, "!3 key-conflict"),
            (
                r#"{"insert":{"j":[[3,6]]},"delete":{"i":[[2,6]]}}"#,
                r#"{"txn":4,"insert":{"o":[[6,3]]},"delete":{"o":[[6,2]]}}"#,
            ),
        ],
    );
}

#[test]
fn values_that_do_not_fit_are_range_errors() {
    let program = "
        input table i(n: int); input table p(n: int);
        output table m(n: int, m: match); output table y(n: int, y: actions);
        m(n, flow_expr_match_reg1(n)) :- i(n); y(n, flow_output_action(n)) :- p(n);";
    answers(
        program,
        &[
            (
                r#"{"insert":{"i":[[4294967295],[0]]}}"#,
                r#"{"txn":1,"insert":{"m":[[0,"reg1=0"],[4294967295,"reg1=0xffffffff"]]},"delete":{}}"#,
            ),
            (r#"{"insert":{"i":[[4294967296]]}}"#, "!2 range"),
            (r#"{"insert":{"i":[[-1]]}}"#, "!3 range"),
            (r#"{"insert":{"p":[[-1]]}}"#, "!4 range"),
            (
                r#"{"insert":{"p":[[65534],[3]]}}"#,
                r#"{"txn":5,"insert":{"y":[[3,"output:3"],[65534,"LOCAL"]]},"delete":{}}"#,
            ),
        ],
    );
}
