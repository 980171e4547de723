//! `weft eval --hook`: hooks on the command line. `nlog-hooks` tests their computation.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use crate::support::{Folder, Outcome, eval_with};

const PORTS: &str = "
    input table report(port: string);
    input table cable(a: string, b: string);
    input table stable(port: string);
    input table island(host: string, island: string) key(host);
    output table up(port: string);
    output table link(a: string, b: string);
    output table used(port: string, island: string);
    up(port) :- report(port);
    link(a, b) :- cable(a, b);
    used(port, island) :- stable(port), island(port, island);
";
const HELD: &str = "hysteresis:up:stable:rise=10,fall=0";
const ISLANDS: &str = "connected_components:link:island";

/// Runs with hooks, in every way to evaluate.
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
    let outcome = eval(&transactions.join("\n"), &["--hook", HELD, "--hook", ISLANDS]);
    outcome.has_status(0);
    assert_eq!(
        outcome.lines(),
        [
            r#"{"txn":1,"insert":{"link":[["a","b"]],"up":[["b"]]},"delete":{}}"#,
            r#"{"txn":2,"insert":{},"delete":{}}"#,
            r#"{"txn":9,"insert":{"used":[["b","a"]]},"delete":{}}"#,
            r#"{"txn":10,"insert":{},"delete":{"up":[["b"]],"used":[["b","a"]]}}"#,
        ]
    );
    let transactions = transactions[..3].join("\n");
    let outcome =
        eval(&transactions, &["--hook", HELD, "--hook", ISLANDS, "--final", "--tables", "stable,island"]);
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
    let outcome = eval(&transactions.join("\n"), &["--hook", HELD]);
    outcome.has_status(1);
    assert_eq!(
        outcome.lines(),
        [
            r#"{"txn":1,"error":{"code":"bad-json","message":"line 1, column 1: tick must be a whole number of milliseconds, at least 0"}}"#,
            r#"{"txn":2,"error":{"code":"bad-json","message":"line 2, column 1: a tick cannot have rows; put them on another line"}}"#,
            r#"{"txn":3,"insert":{},"delete":{}}"#,
            r#"{"txn":4,"error":{"code":"range","message":"tick 6 is earlier than the previous tick 7; ticks must not decrease"}}"#,
            r#"{"txn":5,"insert":{},"delete":{}}"#,
            r#"{"txn":6,"error":{"code":"not-an-input","message":"table stable is filled by hook hysteresis:up:stable:fall=0,rise=10; change the tables that up is derived from instead"}}"#,
        ]
    );
}

#[test]
fn a_tick_wants_a_timed_hook() {
    for hook in [&[][..], &["--hook", ISLANDS]] {
        let outcome = eval(r#"{"tick":7}"#, hook);
        outcome.has_status(1);
        assert_eq!(
            outcome.lines(),
            [
                r#"{"txn":1,"error":{"code":"bad-json","message":"line 1, column 1: tick 7: the program has no timed hook; configure one or remove the tick"}}"#
            ]
        );
    }
}

#[test]
fn hooks_that_do_not_fit_are_wrong_usage() {
    let folder = Folder::new();
    folder.write("program.nlog", PORTS);
    let refusals = [
        (&["--hook", "hysteresis:up"][..], "is not a hook: write HOOK:FROM:TO"),
        (&["--hook", "hysteresis:up:sable:rise=1,fall=1"], "the program has no table `sable`"),
        (&["--hook", ISLANDS, "--hook", "connected_components:link:island"], "fill the same table"),
        (&["--hook", HELD, "--save-state", "state"], "cannot be used with"),
    ];
    for (arguments, wanted) in refusals {
        let all = [&["eval", "program.nlog", "-i", "-"], arguments].concat();
        let outcome = folder.weft_reading("", &all);
        outcome.has_status(2);
        assert!(outcome.stderr.contains(wanted), "{}", outcome.stderr);
    }
}
