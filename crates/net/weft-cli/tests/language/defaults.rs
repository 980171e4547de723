//! Rows that count until others come.

use super::gives;
use crate::support::{eval, eval_with};

/// Ports are not secured unless configured; a tunnel's share of 1500 bytes, unless one is set.
const DEFAULTS: &str = "
    input table port(port: string, n: int);
    input table port_security(port: string);
    input table size(port: string, bytes: int);
    output table secured(port: string, on: bool) key(port);
    output table share(port: string, bytes: int) key(port);
    output table open(port: string);
    default secured(port, false) :- port(port, _);
            secured(port, true)  :- port_security(port);
    default share(port, 1500 / n) :- port(port, n);
            share(port, bytes)    :- size(port, bytes);
    open(port) :- secured(port, false), share(port, 1500);
";

#[test]
fn a_default_counts_until_a_row_with_its_key_comes_and_again_once_it_is_gone() {
    let outcome = eval(
        DEFAULTS,
        r#"{"insert":{"port":[["a",1],["b",2]]}}
{"insert":{"port_security":[["a"]]}}
{"insert":{"port_security":[["c"]],"size":[["a",9]]}}
{"delete":{"port_security":[["a"]]}}
{"delete":{"size":[["a",9]]}}
{"insert":{"size":[["a",1500]]}}
{"delete":{"port":[["a",1]]}}
{"insert":{"port":[["a",1]]},"delete":{"size":[["a",1500]],"port":[["b",2]]}}
"#,
    );
    assert_eq!(
        outcome.has_status(0).lines(),
        [
            r#"{"txn":1,"insert":{"open":[["a"]],"secured":[["a",false],["b",false]],"share":[["a",1500],["b",750]]},"delete":{}}"#,
            r#"{"txn":2,"insert":{"secured":[["a",true]]},"delete":{"open":[["a"]],"secured":[["a",false]]}}"#,
            r#"{"txn":3,"insert":{"secured":[["c",true]],"share":[["a",9]]},"delete":{"share":[["a",1500]]}}"#,
            r#"{"txn":4,"insert":{"secured":[["a",false]]},"delete":{"secured":[["a",true]]}}"#,
            r#"{"txn":5,"insert":{"open":[["a"]],"share":[["a",1500]]},"delete":{"share":[["a",9]]}}"#,
            r#"{"txn":6,"insert":{},"delete":{}}"#,
            r#"{"txn":7,"insert":{},"delete":{"open":[["a"]],"secured":[["a",false]]}}"#,
            r#"{"txn":8,"insert":{"open":[["a"]],"secured":[["a",false]]},"delete":{"secured":[["b",false]],"share":[["b",750]]}}"#,
        ]
    );
}

#[test]
fn what_fails_in_a_default_counts_where_its_row_does() {
    let outcome = eval(
        DEFAULTS,
        r#"{"insert":{"port":[["z",0]]}}
{"insert":{"port":[["z",0]],"size":[["z",9]]}}
{"delete":{"size":[["z",9]]}}
{"insert":{"size":[["z",8]]},"delete":{"size":[["z",9]]}}
"#,
    );
    let refused = |txn| {
        format!(
            r#"{{"txn":{txn},"error":{{"code":"range","message":"table share: 1500 / 0: division by zero"}}}}"#
        )
    };
    assert_eq!(
        outcome.has_status(1).lines(),
        [
            &*refused(1),
            r#"{"txn":2,"insert":{"secured":[["z",false]],"share":[["z",9]]},"delete":{}}"#,
            &*refused(3),
            r#"{"txn":4,"insert":{"share":[["z",8]]},"delete":{"share":[["z",9]]}}"#,
        ]
    );
    // In a key column or in the body it is a failure as in any rule.
    for default in ["default o(1 / x, y) :- i(x, y);", "default o(x, y) :- i(x, y), y != 1 / x;"] {
        let program = format!(
            "input table i(x: int, y: int); output table o(x: int, y: int) key(x);
             {default} o(x, 7) :- i(x, _);"
        );
        let outcome = eval(&program, "{\"insert\":{\"i\":[[0,1]]}}\n");
        let wanted = r#"{"txn":1,"error":{"code":"range","message":"table o: 1 / 0: division by zero"}}"#;
        assert_eq!(outcome.has_status(1).lines(), [wanted], "{default}");
    }
}

#[test]
fn two_defaults_for_one_key_conflict_unless_neither_counts() {
    let program = "
        input table a(k: int, v: int); input table b(k: int, v: int); input table c(k: int, v: int);
        output table o(k: int, v: int) key(k);
        default o(k, v) :- a(k, v);
        default o(k, v) :- b(k, v);
        o(k, v) :- c(k, v);
    ";
    let outcome = eval(
        program,
        r#"{"insert":{"a":[[1,1]],"b":[[1,1]]}}
{"insert":{"b":[[1,2]]}}
{"insert":{"b":[[1,2]],"c":[[1,3]]}}
{"delete":{"c":[[1,3]]}}
{"insert":{"c":[[1,4]]}}
"#,
    );
    let conflict = |txn, first, second| {
        format!(
            r#"{{"txn":{txn},"error":{{"code":"key-conflict","message":"table o: the rules derive two rows with the same key (k: 1): v is {first} in one and {second} in the other"}}}}"#
        )
    };
    assert_eq!(
        outcome.has_status(1).lines(),
        [
            r#"{"txn":1,"insert":{"o":[[1,1]]},"delete":{}}"#,
            &*conflict(2, 1, 2),
            r#"{"txn":3,"insert":{"o":[[1,3]]},"delete":{"o":[[1,1]]}}"#,
            &*conflict(4, 1, 2),
            &*conflict(5, 3, 4),
        ]
    );
}

#[test]
fn defaults_are_rules_with_facts_aggregates_and_columns_that_have_no_value() {
    // An ordinary rule overrides only keys for which it has a row.
    let program = "
        input table i(k: int, v: string); output table o(k: int, v: int) key(k);
        o(k, parse_int(v)) :- i(k, v);
        default o(k, count(v)) :- i(k, v);
        default o(9, 9);
    ";
    gives(program, r#""i":[[1,"5"],[2,"x"],[2,"y"],[3,"7"],[3,"x"]]"#, r#""o":[[1,5],[2,2],[3,7],[9,9]]"#);
    gives(program, r#""i":[[9,"8"]]"#, r#""o":[[9,8]]"#);
    // Defaults alone are rules like all others.
    let program = "input table i(k: int, v: int); output table o(k: int, v: int) key(k); default o(k, v + 1) :- i(k, v);";
    gives(program, r#""i":[[1,5]]"#, r#""o":[[1,6]]"#);
    // The key may be several columns in any position, with computed values.
    let program = "
        input table i(a: int, b: string); input table j(a: int, b: string);
        output table o(b: string, v: int, a: int) key(b, a);
        o(b ++ \"!\", 1, a + 1) :- i(a, b);
        default o(v: a, a: a * 2, b: b ++ \"!\") :- j(a, b);
    ";
    gives(
        program,
        r#""i":[[1,"x"],[2,"x"]],"j":[[1,"x"],[2,"x"],[3,"y"]]"#,
        r#""o":[["x!",1,2],["x!",1,3],["x!",2,4],["y!",3,6]]"#,
    );
}

#[test]
fn tables_made_for_defaults_show_nowhere() {
    let insert = "{\"insert\":{\"port\":[[\"a\",1]]}}\n";
    let outcome = eval_with(DEFAULTS, insert, &["--tables", "all"]);
    assert_eq!(
        outcome.has_status(0).stdout,
        "{\"txn\":1,\"insert\":{\"open\":[[\"a\"]],\"port\":[[\"a\",1]],\"secured\":[[\"a\",false]],\"share\":[[\"a\",1500]]},\"delete\":{}}\n"
    );
    let outcome = eval_with(DEFAULTS, insert, &["--tables", "all", "--final"]);
    assert_eq!(
        outcome.has_status(0).stdout,
        "{\"open\":[[\"a\"]],\"port\":[[\"a\",1]],\"port_security\":[],\"secured\":[[\"a\",false]],\"share\":[[\"a\",1500]],\"size\":[]}\n"
    );
    let outcome = eval(DEFAULTS, "{\"insert\":{\"secured.has\":[[\"a\",1]]}}\n");
    assert!(outcome.has_status(1).stdout.contains(r#""code":"unknown-table""#), "{}", outcome.stdout);
    let outcome = eval_with(DEFAULTS, insert, &["--tables", "secured.level"]);
    outcome.has_status(2);
    let said = outcome.stderr.replace("no table `secured.level`", "");
    assert!(said.contains("secured") && !said.contains("secured."), "{said}");
}

#[test]
fn a10_the_range_of_a_column_counts_for_a_default_where_its_row_does() {
    let program = "
        type small = int 0..9;
        input table a(k: int, v: int); input table b(k: int, v: int);
        output table o(k: int, v: small) key(k);
        output table lone(k: small, v: small) key(k);
        default o(k, v) :- a(k, v);
        o(k, 1) :- b(k, _);
        default lone(k, v + 1) :- a(k, v);
    ";
    let outcome = eval(
        program,
        r#"{"insert":{"b":[[1,0]]}}
{"insert":{"a":[[2,50]]}}
{"insert":{"a":[[1,8]]}}
{"delete":{"b":[[1,0]]}}
{"insert":{"a":[[3,9]]}}
{"insert":{"a":[[50,1]],"b":[[50,1]]}}
"#,
    );
    let refused = |txn, message: &str| {
        format!(r#"{{"txn":{txn},"error":{{"code":"range","message":"table {message}"}}}}"#)
    };
    assert_eq!(
        outcome.has_status(1).lines(),
        [
            r#"{"txn":1,"insert":{"o":[[1,1]]},"delete":{}}"#,
            &refused(2, "lone: 51 is not a value of type small: must be from 0 to 9"),
            r#"{"txn":3,"insert":{"lone":[[1,9]]},"delete":{}}"#,
            r#"{"txn":4,"insert":{"o":[[1,8]]},"delete":{"o":[[1,1]]}}"#,
            &refused(5, "lone: 10 is not a value of type small: must be from 0 to 9"),
            // Key columns count as in any rule.
            &refused(6, "lone: 50 is not a value of type small: must be from 0 to 9"),
        ]
    );
    // A range is no obstacle where an ordinary row has the key, and one where none has it any more.
    let program = program.replace("default lone(k, v + 1) :- a(k, v);", "lone(1, 1);");
    let outcome = eval(
        &program,
        r#"{"insert":{"a":[[1,50]],"b":[[1,0]]}}
{"delete":{"b":[[1,0]]}}
"#,
    );
    assert_eq!(
        outcome.has_status(1).lines(),
        [
            r#"{"txn":1,"insert":{"lone":[[1,1]],"o":[[1,1]]},"delete":{}}"#,
            &refused(2, "o: 50 is not a value of type small: must be from 0 to 9"),
        ]
    );
}
