//! Hooks of programs, as the commands run them. `nlog-hooks` tests their computation.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use crate::support::{Folder, Outcome, eval_with};

/// Both hooks, one of a table that is no output.
const PORTS: &str = "\
input table report(port: string);
input table cable(a: string, b: string);
input table stable(port: string) from hysteresis(up, rise: 10, fall: 0);
input table island(host: string, island: string) key(host) from connected_components(link);
output table up(port: string);
table link(a: string, b: string);
output table used(port: string, island: string);
up(port) :- report(port);
link(a, b) :- cable(a, b);
used(port, island) :- stable(port), island(port, island);
";

/// A hook without a memory.
const ISLANDS: &str = "\
input table cable(a: string, b: string);
table link(a: string, b: string);
link(a, b) :- cable(a, b);
input table island(host: string, island: string) key(host) from connected_components(link);
output table other(host: string, island: string);
other(host, island) :- island(host, island), host != island;
";

/// Runs the program in every way to evaluate.
fn eval(transactions: &str, arguments: &[&str]) -> Outcome {
    eval_with(PORTS, transactions, arguments)
}

#[test]
fn hooks_work_together() {
    let transactions = [
        r#"{"insert":{"report":[["b"]],"cable":[["a","b"]]}}"#,
        r#"{"tick":5,"at":"some time"}"#,
        r#"{"txn":9,"tick":15}"#,
        r#"{"delete":{"report":[["b"]]}}"#,
    ];
    let outcome = eval(&transactions.join("\n"), &[]);
    outcome.has_status(0);
    assert_eq!(
        outcome.lines(),
        [
            r#"{"txn":1,"insert":{"up":[["b"]]},"delete":{}}"#,
            r#"{"txn":2,"insert":{},"delete":{}}"#,
            r#"{"txn":9,"insert":{"used":[["b","a"]]},"delete":{}}"#,
            r#"{"txn":10,"insert":{},"delete":{"up":[["b"]],"used":[["b","a"]]}}"#,
        ]
    );
    let transactions = transactions[..3].join("\n");
    let outcome = eval(&transactions, &["--final", "--tables", "stable,island"]);
    assert_eq!(outcome.lines(), [r#"{"island":[["a","a"],["b","a"]],"stable":[["b"]]}"#]);
}

#[test]
fn lines_that_are_no_ticks() {
    let transactions = [
        r#"{"tick":-1}"#,
        r#"{"tick":1,"insert":{"report":[]}}"#,
        r#"{"tick":7}"#,
        r#"{"tick":6}"#,
        r#"{"tick":1,"error":{"code":"range","message":"tick 1 came late"}}"#,
        r#"{"insert":{"stable":[["b"]]}}"#,
    ];
    let outcome = eval(&transactions.join("\n"), &[]);
    outcome.has_status(1);
    assert_eq!(
        outcome.lines(),
        [
            r#"{"txn":1,"error":{"code":"bad-json","message":"line 1, column 1: tick must be a whole number of milliseconds, at least 0"}}"#,
            r#"{"txn":2,"error":{"code":"bad-json","message":"line 2, column 1: a tick cannot have rows; put them on another line"}}"#,
            r#"{"txn":3,"insert":{},"delete":{}}"#,
            r#"{"txn":4,"error":{"code":"range","message":"tick 6 is earlier than the previous tick 7; ticks must not decrease"}}"#,
            r#"{"txn":5,"insert":{},"delete":{}}"#,
            r#"{"txn":6,"error":{"code":"not-an-input","message":"table stable is filled by hook hysteresis; change the tables that up is derived from instead"}}"#,
        ]
    );
}

#[test]
fn a_tick_wants_a_timed_hook() {
    let without = PORTS.replace(" from hysteresis(up, rise: 10, fall: 0)", "");
    for program in [ISLANDS, &without] {
        let outcome = eval_with(program, r#"{"tick":7}"#, &[]);
        outcome.has_status(1);
        assert_eq!(
            outcome.lines(),
            [
                r#"{"txn":1,"error":{"code":"bad-json","message":"line 1, column 1: tick 7: the program has no timed hook; declare a table `from` one, or remove the tick"}}"#
            ]
        );
    }
}

#[test]
fn what_takes_no_hooks_yet_says_so() {
    let folder = Folder::new();
    folder.write("islands.nlog", ISLANDS);
    let outcome = folder.weft_reading("", &["profile", "islands.nlog", "-i", "-"]);
    let wanted = "weft profile does not support hook connected_components yet";
    assert!(outcome.has_status(2).stderr.contains(wanted), "{}", outcome.stderr);
}

/// A state has the rows of all input tables; those of a hook are computed anew.
#[test]
fn a_state_goes_on_with_its_hooks() {
    let folder = Folder::new();
    folder.write("p.nlog", ISLANDS);
    let eval = |input: &str, arguments: &[&str]| {
        let outcome = folder.weft_reading(input, &[&["eval", "p.nlog", "-i", "-"], arguments].concat());
        outcome.has_status(0).stdout.clone()
    };
    let cut = r#"{"delete":{"cable":[["a","b"]]}}"#;
    let cables = r#"{"insert":{"cable":[["a","b"],["b","c"]]}}"#;
    eval(cables, &["--save-state", "s"]);
    eval(cables, &["--save-state", "derived", "--save-derived"]);
    let wanted = "{\"txn\":2,\"insert\":{\"other\":[[\"c\",\"b\"]]},\"delete\":{\"other\":[[\"b\",\"a\"],[\"c\",\"a\"]]}}\n";
    assert_eq!(eval(cut, &["--state", "s"]), wanted);
    assert_eq!(eval(cut, &["--state", "s", "--reference"]), wanted);
    assert_eq!(eval(cut, &["--state", "derived"]), wanted);
}

/// Owners of numbers, and rows that flap.
const REMEMBERED: &str = "\
input table machine(name: string);
input table report(port: string);
table wants(name: string);
table up(port: string);
wants(name) :- machine(name);
up(port) :- report(port);
input table label(name: string, label: int) key(name) from allocate(wants, first: 1, last: 9);
input table stable(port: string) from hysteresis(up, rise: 10, fall: 10);
output table all(name: string, label: int);
all(name, label) :- label(name, label);
output table used(port: string);
used(port) :- stable(port);
";

/// A run that is saved after each line, and then goes on from there, says what one run says.
#[test]
fn a_state_has_the_memories_of_hooks() {
    let folder = Folder::new();
    folder.write("p.nlog", REMEMBERED);
    let lines = [
        r#"{"insert":{"machine":[["a"],["b"]],"report":[["p"]]}}"#,
        r#"{"tick":100}"#,
        r#"{"delete":{"machine":[["a"]]},"insert":{"machine":[["c"]]}}"#,
        r#"{"tick":110}"#,
        r#"{"tick":105}"#,
        r#"{"delete":{"report":[["p"]]},"insert":{"machine":[["a"]]}}"#,
        r#"{"tick":120}"#,
        r#"{"tick":130}"#,
    ];
    let whole = folder.weft_reading(lines.join("\n"), &["eval", "p.nlog", "-i", "-"]).stdout;
    assert!(
        whole.contains(r#""all":[["a",4]]"#) && whole.contains("is earlier than the previous tick"),
        "{whole}"
    );
    for engine in
        [&["--reference"][..], &["--engine", "composed", "--workers", "2"], &[], &["--save-derived"]]
    {
        let mut parts = String::new();
        for (at, line) in lines.iter().enumerate() {
            let from = ["--state", "s"];
            let from = if at == 0 { &[][..] } else { &from };
            let arguments = [&["eval", "p.nlog", "-i", "-", "--save-state", "s"], from, engine].concat();
            let outcome = folder.weft_reading(line, &arguments);
            assert!(!outcome.stderr.contains("derived again"), "{}", outcome.stderr);
            parts += &outcome.stdout;
        }
        assert_eq!(parts, whole);
    }
}

#[test]
fn a_state_whose_memory_does_not_fit_is_refused_by_name() {
    let folder = Folder::new();
    folder.write("p.nlog", REMEMBERED);
    let transactions = r#"{"insert":{"machine":[["a"],["b"]]}}"#;
    folder.weft_reading(transactions, &["eval", "p.nlog", "-i", "-", "--save-state", "s"]).has_status(0);
    let cases = [
        (
            REMEMBERED.replace("first: 1,", "first: 2,"),
            "the state s cannot be used: the program refuses its rows: type-mismatch: the memory of the hook that fills \
             table \"label\" does not fit: it has number 1, and the hook gives those from 2 to 9",
        ),
        (
            REMEMBERED.replace(" from allocate(wants, first: 1, last: 9)", ""),
            "the state s cannot be used: unknown-table: there is a memory for table \"label\", but no hook with a memory fills this table",
        ),
    ];
    for (program, wanted) in cases {
        folder.write("other.nlog", program);
        let outcome = folder.weft_reading("", &["eval", "other.nlog", "-i", "-", "--state", "s"]);
        assert!(outcome.has_status(1).stderr.contains(wanted), "{}", outcome.stderr);
    }
    folder.write("plain.nlog", REMEMBERED.replace(" from allocate(wants, first: 1, last: 9)", ""));
    let transactions = r#"{"insert":{"label":[["a",7]]}}"#;
    folder.weft_reading(transactions, &["eval", "plain.nlog", "-i", "-", "--save-state", "s"]).has_status(0);
    let outcome = folder.weft_reading("", &["eval", "p.nlog", "-i", "-", "--state", "s"]);
    let wanted = "it has no memory for the hook that fills table label; replay the transactions";
    assert!(outcome.has_status(1).stderr.contains(wanted), "{}", outcome.stderr);
}

/// As in a journal.
#[test]
fn a_line_can_restore_memories_before_its_rows() {
    let lines = [
        r#"{"insert":{"machine":[["a"]]}}"#,
        r#"{"memory":{"label":{"given":[["a",4],["z",1]],"released":[[2],[3]],"next":[[5]]}},"insert":{"machine":[["b"]]}}"#,
        r#"{"memory":{"label":{"given":[["a",4]],"next":[[5]]}},"insert":{"machine":[["c"]]}}"#,
        r#"{"memory":{"machine":{}},"insert":{"machine":[["c"]]}}"#,
        r#"{"memory":7,"insert":{"machine":[["c"]]}}"#,
        r#"{"insert":{"machine":[["c"],["d"],["e"],["f"],["g"]]}}"#,
    ];
    let outcome = eval_with(REMEMBERED, &lines.join("\n"), &[]);
    outcome.has_status(1);
    assert_eq!(
        outcome.lines(),
        [
            r#"{"txn":1,"insert":{"all":[["a",1]]},"delete":{}}"#,
            r#"{"txn":2,"insert":{"all":[["a",4],["b",5]]},"delete":{"all":[["a",1]]}}"#,
            r#"{"txn":3,"error":{"code":"type-mismatch","message":"the memory of the hook that fills table \"label\" does not fit: a number is neither given nor released"}}"#,
            r#"{"txn":4,"error":{"code":"unknown-table","message":"there is a memory for table \"machine\", but no hook with a memory fills this table"}}"#,
            r#"{"txn":5,"error":{"code":"bad-json","message":"line 5, column 1: memory must be an object with the memory of a hook for each table that it fills"}}"#,
            r#"{"txn":6,"insert":{"all":[["c",6],["d",7],["e",8],["f",9],["g",2]]},"delete":{}}"#,
        ]
    );
}

#[test]
fn the_row_of_a_hook_is_explained() {
    let folder = Folder::new();
    folder.write("p.nlog", ISLANDS);
    let input = "{}\n{\"insert\":{\"cable\":[[\"a\",\"b\"]]}}";
    let explain = |arguments: &[&str]| {
        let outcome = folder.weft_reading(input, &[arguments, &["-i", "-"]].concat());
        outcome.has_status(0).stdout.clone()
    };
    assert_eq!(
        explain(&["explain", "p.nlog", "other(\"b\", _)"]),
        "other(\"b\", \"a\")  p.nlog:6:1\n    island(\"b\", \"a\")  hook connected_components(link), transaction 2\n"
    );
    let json = explain(&["explain", "p.nlog", "island(\"b\", _)", "--json"]);
    assert!(json.contains(r#""hook":"connected_components(link)""#), "{json}");
    assert_eq!(
        explain(&["why-not", "p.nlog", "island(\"c\", _)"]),
        "island is filled by hook connected_components(link), which did not put it there\n"
    );
}

#[test]
fn the_plan_shows_which_hook_fills_a_table_and_what_it_reads() {
    let folder = Folder::new();
    folder.write("p.nlog", PORTS);
    let plan = folder.weft(&["plan", "p.nlog"]).has_status(0).stdout.clone();
    assert!(plan.contains("  stable: filled by hysteresis(up, rise: 10, fall: 0), level 2"), "{plan}");
    assert!(plan.contains("  island: filled by connected_components(link), level 2"), "{plan}");
    assert!(plan.contains("link (p.nlog:9:1)"), "the hook reads it: {plan}");
}

#[test]
fn unit_tests_run_the_hooks() {
    let folder = Folder::new();
    folder.write("p.nlog", ISLANDS);
    let test = |steps: &str| {
        let text = format!("import \"p.nlog\";\ntest \"islands\" {{ {steps} }}\n");
        folder.write("p.test.nlog", text).weft(&["test", "p.test.nlog"])
    };
    let passed = "given { cable(\"a\", \"b\"); cable(\"b\", \"c\"); } expect island(\"c\", \"a\");
         change { delete cable(\"a\", \"b\"); } expect exactly { other(\"c\", \"b\"); }
         expect delta { delete island(\"a\", \"a\"); delete island(\"b\", \"a\"); insert island(\"b\", \"b\");
             delete island(\"c\", \"a\"); insert island(\"c\", \"b\"); }";
    test(passed).has_status(0);
    let failed =
        test("given { cable(\"a\", \"b\"); } expect island(\"b\", \"b\"); expect no island(\"a\", _);");
    let printed = format!("{}{}", failed.has_status(1).stdout, failed.stderr);
    assert!(
        printed.contains("island is filled by hook connected_components(link), which did not put it there"),
        "{printed}"
    );
    assert!(printed.contains("hook connected_components(link) put it there"), "{printed}");
    // A test that gives the rows of a hook's table runs without this hook.
    let given = "given { island(\"a\", \"z\"); cable(\"a\", \"b\"); } expect exactly { other(\"a\", \"z\"); }
         change { delete island(\"a\", \"z\"); } expect no other(_, _);";
    test(given).has_status(0);
}

#[test]
fn the_command_line_names_no_hooks() {
    let folder = Folder::new();
    folder.write("p.nlog", ISLANDS);
    let outcome = folder.weft(&["eval", "p.nlog", "-i", "-", "--hook", "connected_components:link:island"]);
    assert!(outcome.has_status(2).stderr.contains("unexpected argument '--hook'"), "{}", outcome.stderr);
}

#[test]
fn numbers_stay_and_a_full_pool_refuses_the_transaction() {
    let program = "\
        input table machine(name: string, host: string) key(name);
        table wanted(name: string); wanted(name) :- machine(name, _);
        input table label(name: string, label: int) key(name) from allocate(wanted, first: 257, last: 258);
        output table labelled(name: string, label: int, host: string) key(name);
        labelled(name, label, host) :- label(name, label), machine(name, host);
        input table zero(n: int);
        output table refuse(n: int); refuse(label / n) :- label(_, label), zero(n);";
    let transactions = [
        r#"{"insert":{"machine":[["b","h"]]}}"#,
        // Refused by a rule behind the hook: nobody gets 258, and nobody loses 257.
        r#"{"insert":{"machine":[["a","h"]],"zero":[[0]]},"delete":{"machine":[["b","h"]]}}"#,
        r#"{"insert":{"machine":[["c","h"],["d","h"]]}}"#,
        r#"{"insert":{"machine":[["a","h"],["b","g"]]},"delete":{"machine":[["b","h"]]}}"#,
        r#"{"insert":{"machine":[["c","h"]]},"delete":{"machine":[["a","h"]]}}"#,
    ];
    let outcome = eval_with(program, &transactions.join("\n"), &[]);
    outcome.has_status(1);
    assert_eq!(
        outcome.lines(),
        [
            r#"{"txn":1,"insert":{"labelled":[["b",257,"h"]]},"delete":{}}"#,
            r#"{"txn":2,"error":{"code":"range","message":"table refuse: 258 / 0: division by zero"}}"#,
            r#"{"txn":3,"error":{"code":"range","message":"table label: every number from 257 to 258 is in use, and none is left for [\"d\"]; delete owners that are no longer needed, or give the hook a wider range"}}"#,
            r#"{"txn":4,"insert":{"labelled":[["a",258,"h"],["b",257,"g"]]},"delete":{"labelled":[["b",257,"h"]]}}"#,
            r#"{"txn":5,"insert":{"labelled":[["c",258,"h"]]},"delete":{"labelled":[["a",258,"h"]]}}"#,
        ]
    );
}
