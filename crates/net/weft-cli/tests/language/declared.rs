//! Types that programs declare.

use super::gives;
use crate::support::eval;

/// Types that programs declare, for the tests below.
const DECLARED: &str = r#"
    type host = string;
    type encap = enum {geneve, vxlan, "not yet"};
    type endpoint = record {host: host, port: int, encap: encap};
    type link = record {from: endpoint, to: opt<endpoint>};
"#;

#[test]
fn values_of_declared_types_have_one_form_in_json() {
    let passes = |ty: &str, given: &str, wanted: &str| {
        let program = format!("{DECLARED} input table i(x: {ty}); output table o(x: {ty}); o(x) :- i(x);");
        gives(&program, &format!("\"i\":[[{given}]]"), &format!("\"o\":[[{wanted}]]"));
    };
    passes("encap", r#""not yet""#, r#""not yet""#);
    passes("set<encap>", r#"["vxlan","geneve","vxlan"]"#, r#"["geneve","vxlan"]"#);
    passes("opt<encap>", "null", "null");
    passes("opt<encap>", r#""vxlan""#, r#""vxlan""#);
    passes("endpoint", r#"["a",1,"vxlan"]"#, r#"["a",1,"vxlan"]"#);
    passes("link", r#"[["a",1,"vxlan"],null]"#, r#"[["a",1,"vxlan"],null]"#);
    passes(
        "set<link>",
        r#"[[["b",1,"vxlan"],["c",2,"geneve"]],[["b",1,"vxlan"],null],[["a",9,"vxlan"],null]]"#,
        r#"[[["a",9,"vxlan"],null],[["b",1,"vxlan"],null],[["b",1,"vxlan"],["c",2,"geneve"]]]"#,
    );
    passes("list<opt<host>>", r#"[null,"a"]"#, r#"[null,"a"]"#);
}

#[test]
fn values_of_other_types_than_the_declared_are_mismatches() {
    for (ty, given) in [
        ("encap", r#""gre""#),
        ("encap", "0"),
        ("encap", "null"),
        ("opt<encap>", r#""gre""#),
        ("endpoint", r#"["a",1]"#),
        ("endpoint", r#"["a",1,"vxlan",1]"#),
        ("endpoint", r#"["a","1","vxlan"]"#),
        ("endpoint", r#"["a",1,"gre"]"#),
        ("endpoint", r#"{"host":"a","port":1,"encap":"vxlan"}"#),
        ("endpoint", "null"),
        ("link", r"[null,null]"),
        ("set<endpoint>", r#"[["a",1,"gre"]]"#),
    ] {
        let program = format!("{DECLARED} input table i(x: {ty}); output table o(x: {ty}); o(x) :- i(x);");
        let outcome = eval(&program, &format!("{{\"insert\":{{\"i\":[[{given}]]}}}}\n"));
        let refused = outcome.has_status(1).stdout.contains(r#""code":"type-mismatch""#);
        assert!(refused, "{ty} {given}: {}", outcome.stdout);
    }
}

/// Records as keys, in joins, fields and aggregates; enumerations compared and grouped by.
#[test]
fn declared_types_take_part_in_rules() {
    let program = format!(
        r#"{DECLARED}
        input table i(whole: endpoint, links: set<link>, mark: opt<encap>) key(whole);
        output table by(encap: encap, n: int, least: endpoint, all: set<host>, first: host);
        output table far(host: host, to: opt<host>, text: string);
        output table joined(a: host, b: host);
        by(e.encap, count(e), min(e), set(e.host), arg_min(e.port, e.host)) :- i(e, _, _);
        far(l.from.host, name_of(l.to), to_string(l.from.encap)) :- i(_, links, _), element(links, l), l.from.encap != "not yet";
        joined(a.host, b.host) :- i(a, _, some_encap), i(b, _, none()), is(some_encap, b.encap), a.encap < b.encap;
        function is(o: opt<encap>, e: encap) -> bool = or_else(o, "not yet") == e;
        function name_of(e: opt<endpoint>) -> opt<host> = if is_none(e) then none() else some(value(e).host);
        "#
    );
    let insert = r#""i":[[["a",1,"geneve"],[[["x",1,"vxlan"],null],[["y",1,"geneve"],["z",2,"vxlan"]],[["w",1,"not yet"],null]],"vxlan"],[["b",2,"vxlan"],[],null],[["c",0,"vxlan"],[],"geneve"]]"#;
    let wanted = r#""by":[["geneve",1,["a",1,"geneve"],["a"],"a"],["vxlan",2,["b",2,"vxlan"],["b","c"],"c"]],"far":[["x",null,"vxlan"],["y","z","geneve"]],"joined":[["a","b"]]"#;
    gives(&program, insert, wanted);
    // A second row under a key that is a record.
    let outcome = eval(
        &program,
        "{\"insert\":{\"i\":[[[\"a\",1,\"geneve\"],[],null],[[\"a\",1,\"geneve\"],[],\"vxlan\"]]}}\n",
    );
    assert!(outcome.has_status(1).stdout.contains(r#""code":"duplicate-key""#), "{}", outcome.stdout);
}

/// Functions of the program fail or have no value exactly when their bodies would.
#[test]
fn functions_of_the_program_fail_as_their_bodies_do() {
    let program = "
        input table i(x: int, y: int);
        output table o(x: int, q: int);
        output table some(x: int, q: int);
        o(x, ratio(x, y)) :- i(x, y), x > 0;
        some(x, q) :- i(x, y), checked(x, y, q);
        function ratio(x: int, y: int) -> int = x / y;
        function checked(x: int, y: int) -> int = value(if y == 0 then none() else some(ratio(x, y)));
    ";
    let outcome = eval(
        program,
        "{\"insert\":{\"i\":[[6,3],[0,0],[-4,2]]}}\n{\"insert\":{\"i\":[[1,0]]}}\n{\"delete\":{\"i\":[[6,3]]}}\n",
    );
    let lines = outcome.lines();
    assert_eq!(lines[0], r#"{"txn":1,"insert":{"o":[[6,2]],"some":[[-4,-2],[6,2]]},"delete":{}}"#);
    assert!(lines[1].contains("1 / 0: division by zero"), "{}", lines[1]);
    assert_eq!(lines[2], r#"{"txn":3,"insert":{},"delete":{"o":[[6,2]],"some":[[6,2]]}}"#);
}
