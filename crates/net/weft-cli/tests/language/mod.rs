//! The results of rules, seen from outside: values, operators, functions, aggregates. Every program runs in every
//! way to evaluate ([`crate::support::eval`]).

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod declared;
mod defaults;

use std::process::Command;

use crate::support::{eval, eval_with};

/// The output of a program that has no input, or whose input is one transaction.
#[track_caller]
fn gives(program: &str, insert: &str, wanted: &str) {
    let outcome = eval_with(program, &format!("{{\"insert\":{{{insert}}}}}\n"), &["--final"]);
    assert_eq!(outcome.has_status(0).stdout, format!("{{{wanted}}}\n"), "{program}");
}

/// The value of an expression.
#[track_caller]
fn is(ty: &str, expression: &str, wanted: &str) {
    gives(&format!("output table o(x: {ty}); o({expression});"), "", &format!("\"o\":[[{wanted}]]"));
}

/// Checks the output form of a value.
#[track_caller]
fn passes(ty: &str, given: &str, wanted: &str) {
    let program = format!("input table i(x: {ty}); output table o(x: {ty}); o(x) :- i(x);");
    gives(&program, &format!("\"i\":[[{given}]]"), &format!("\"o\":[[{wanted}]]"));
}

#[track_caller]
fn mismatches(ty: &str, given: &str) {
    let program = format!("input table i(x: {ty}); output table o(x: {ty}); o(x) :- i(x);");
    let outcome = eval(&program, &format!("{{\"insert\":{{\"i\":[[{given}]]}}}}\n"));
    assert!(outcome.has_status(1).stdout.contains(r#""code":"type-mismatch""#), "{}", outcome.stdout);
}

#[test]
fn values_have_one_form_in_json() {
    passes("bool", "true", "true");
    passes("int", "-9223372036854775808", "-9223372036854775808");
    passes("int", "9223372036854775807", "9223372036854775807");
    passes("string", r#""a\"\\\/\u00e9\u0001\n😀""#, "\"a\\\"\\\\/é\\u0001\\n😀\"");
    passes("mac", r#""02:00:00:00:00:AB""#, r#""02:00:00:00:00:ab""#);
    passes("ip", r#""10.0.0.1""#, r#""10.0.0.1""#);
    passes("ip", r#""2001:DB8:0:0:0:0:0:1""#, r#""2001:db8::1""#);
    passes("ip", r#""2001:db8:0:1:1:1:1:1""#, r#""2001:db8:0:1:1:1:1:1""#);
    passes("ip", r#""2001:db8:0:0:1:0:0:1""#, r#""2001:db8::1:0:0:1""#);
    passes("ip", r#""::ffff:10.0.0.1""#, r#""::ffff:10.0.0.1""#);
    passes("net", r#""10.0.0.0/8""#, r#""10.0.0.0/8""#);
    passes("net", r#""FE80::/10""#, r#""fe80::/10""#);
    passes("interface_address", r#""10.0.0.254/24""#, r#""10.0.0.254/24""#);
    passes("interface_address", r#""FD00:0::1/64""#, r#""fd00::1/64""#);
    passes("packet_filter", r#""tp_dst=22,nw_proto=6""#, r#""ip_proto=tcp,tp_dst=22""#);
    passes("match", r#""reg1=26""#, r#""reg1=0x1a""#);
    passes("match", r#""reg1=0x0""#, r#""reg1=0""#);
    passes("actions", r#""output:65534""#, r#""LOCAL""#);
    passes("actions", r#""output:3""#, r#""output:3""#);
    passes("set<int>", "[3,1,2,1]", "[1,2,3]");
    passes("set<int>", "[10,9,-1]", "[-1,9,10]");
    passes("set<string>", r#"["b","B","a"]"#, r#"["B","a","b"]"#);
    passes("list<int>", "[3,1,3]", "[3,1,3]");
    passes(
        "set<list<ip>>",
        r#"[["10.0.0.2"],[],["10.0.0.10","::1"],["10.0.0.2"]]"#,
        r#"[[],["10.0.0.2"],["10.0.0.10","::1"]]"#,
    );
}

#[test]
fn values_of_other_forms_are_mismatches() {
    for (ty, given) in [
        ("bool", "1"),
        ("bool", "\"true\""),
        ("int", "1.0"),
        ("int", "\"1\""),
        ("int", "9223372036854775808"),
        ("int", "-9223372036854775809"),
        ("int", "1e2"),
        ("string", "1"),
        ("string", "null"),
        ("mac", "\"2:0:0:0:0:1\""),
        ("mac", "\"02:00:00:00:00\""),
        ("ip", "\"10.0.0\""),
        ("ip", "\"10.0.0.01\""),
        ("ip", "\"10.0.0.0/8\""),
        ("net", "\"10.0.0.1/8\""),
        ("net", "\"10.0.0.0/33\""),
        ("net", "\"10.0.0.0\""),
        ("interface_address", "\"10.0.0.254\""),
        ("interface_address", "\"10.0.0.254/33\""),
        ("packet_filter", "\"tp_dst=22\""),
        ("packet_filter", "{}"),
        ("match", "\"nonsense=1\""),
        ("actions", "\"nonsense:1\""),
        ("set<int>", "1"),
        ("set<int>", "[\"1\"]"),
        ("list<int>", "{}"),
    ] {
        mismatches(ty, given);
    }
}

#[test]
fn rows_are_sorted_by_value() {
    let program = "input table i(x: int, s: string, a: ip); output table o(a: ip, x: int, s: string); o(a, x, s) :- i(x, s, a);";
    gives(
        program,
        r#""i":[[10,"b","10.0.0.10"],[9,"b","10.0.0.10"],[-1,"é","10.0.0.9"],[-1,"z","10.0.0.9"],[-1,"Z","10.0.0.9"],[0,"","::1"]]"#,
        r#""o":[["10.0.0.9",-1,"Z"],["10.0.0.9",-1,"z"],["10.0.0.9",-1,"é"],["10.0.0.10",9,"b"],["10.0.0.10",10,"b"],["::1",0,""]]"#,
    );
}

#[test]
fn operators_bind_as_their_reader_expects() {
    is("int", "2 + 3 * 4", "14");
    is("int", "(2 + 3) * 4", "20");
    is("int", "10 - 4 - 3", "3");
    is("int", "100 / 10 / 5", "2");
    is("int", "2 * 7 % 4", "2");
    is("int", "-7 % 3", "-1");
    is("int", "-3 - -4", "1");
    is("int", "1 << 2 + 3", "32");
    is("int", "256 >> 2 >> 1", "32");
    is("int", "0x0f & 0x3c | 0x40", "76");
    is("int", "1 | 6 & 3 ^ 1", "3");
    is("int", "0x1F", "31");
    is("bool", "1 + 1 == 2", "true");
    is("bool", "(1 < 2) & (2 < 1)", "false");
    is("bool", "(1 < 2) | (2 < 1)", "true");
    is("string", "\"a\" ++ \"b\" ++ to_string(1 + 2)", "\"ab3\"");
    is("list<int>", "[1, 2] ++ [1,]", "[1,2,1]");
    is("set<int>", "{2, 1, 2}", "[1,2]");
    is("int", "if 1 > 2 then 10 else if 2 > 1 then 20 else 30", "20");
    is("int", "1 + (if true then 10 else 20) * 2", "21");
    is("string", r#""tab\t quote\" back\\""#, r#""tab\t quote\" back\\""#);
}

#[test]
fn only_the_branch_taken_is_evaluated() {
    let program = "input table i(a: int, b: int); output table o(a: int, q: int); o(a, if b == 0 then -1 else a / b) :- i(a, b);";
    gives(program, r#""i":[[6,0],[7,2]]"#, r#""o":[[6,-1],[7,3]]"#);
}

#[test]
fn constants_have_values_wherever_they_stand() {
    gives(
        "output table o(x: int, s: string, a: ip); o(M, NAME, GATEWAY); const M = L2 * 2 + 0x1; const L2 = 20; const NAME = \"n\"; const GATEWAY: ip = \"10.0.0.1\";",
        "",
        r#""o":[[41,"n","10.0.0.1"]]"#,
    );
    gives(
        "const K = 3; input table i(x: int, y: int); output table o(y: int); o(y) :- i(K, y);",
        r#""i":[[3,1],[4,2]]"#,
        r#""o":[[1]]"#,
    );
}

#[test]
fn text_is_read_as_the_type_that_is_wanted() {
    gives(
        "input table i(a: ip, m: mac, n: net); output table o(a: ip, m: mac, n: net); o(a, m, n) :- i(a, m, n), a == \"10.0.0.1\", m != \"02:00:00:00:00:02\", n == net\"10.0.0.0/24\"; o(ip\"::1\", \"02:00:00:00:00:0A\", \"::/0\");",
        r#""i":[["10.0.0.1","02:00:00:00:00:01","10.0.0.0/24"],["10.0.0.1","02:00:00:00:00:02","10.0.0.0/24"]]"#,
        r#""o":[["10.0.0.1","02:00:00:00:00:01","10.0.0.0/24"],["::1","02:00:00:00:00:0a","::/0"]]"#,
    );
}

#[test]
fn comparisons_and_bindings() {
    let program = |body: &str| {
        format!("input table i(a: int, b: int); output table o(a: int, b: int); o(a, b) :- {body};")
    };
    let insert = r#""i":[[1,1],[1,2],[2,1],[3,5]]"#;
    let body = |text: &str, rows: &str| gives(&program(text), insert, &format!("\"o\":[{rows}]"));
    body("i(a, b), a == b", "[1,1]");
    body("i(a, b), a = b", "[1,1]");
    body("i(a, a), b = a", "[1,1]");
    body("i(a, b), a != b", "[1,2],[2,1],[3,5]");
    body("i(a, b), not_equal(a, b)", "[1,2],[2,1],[3,5]");
    body("i(a, b), not_equal(a, b, true)", "[1,2],[2,1],[3,5]");
    body("i(a, b), not_equal(a, b, false)", "[1,1]");
    body("i(a, b), a < b", "[1,2],[3,5]");
    body("i(a, b), a <= b", "[1,1],[1,2],[3,5]");
    body("i(a, b), a > b", "[2,1]");
    body("i(a, b), a >= b", "[1,1],[2,1]");
    body("i(a, c), b = c * 10, b > 10", "[1,20],[3,50]");
    body("b = c * 10, b > 10, i(a, c)", "[1,20],[3,50]");
    body("i(a, b), i(b, a), a < b", "[1,2]");
    body("i(a, 5), b = if a == 3 then 1 else 0", "[3,1]");
    body("i(a, b), i(a + 1, b)", "[1,1]");
}

#[test]
fn a_function_is_the_same_as_an_atom_and_as_an_expression() {
    let insert = r#""i":[["b",2],["",0],["größe",7]]"#;
    let rows =
        r#""o":[[0,"","reg1=0","output:0"],[1,"b","reg1=0x2","output:2"],[5,"größe","reg1=0x7","output:7"]]"#;
    let head = "input table i(s: string, n: int); output table o(l: int, s: string, m: match, y: actions);";
    for rule in [
        "o(l, s, m, y) :- i(s, n), length(s, l), flow_expr_match_reg1(n, m), flow_output_action(n, y);",
        "o(l, s, m, y) :- flow_output_action(n, y), flow_expr_match_reg1(n, m), length(s, l), i(s, n);",
        "o(l, s, m, y) :- i(s, n), l = length(s), m = flow_expr_match_reg1(n), y = flow_output_action(n);",
        "o(length(s), s, flow_expr_match_reg1(n), flow_output_action(n)) :- i(s, n);",
    ] {
        gives(&format!("{head} {rule}"), insert, rows);
    }
    // The result may be a bound variable or a constant.
    gives(
        "input table i(s: string, n: int); output table o(s: string); o(s) :- i(s, n), length(s, n);",
        r#""i":[["ab",2],["abc",2]]"#,
        r#""o":[["ab"]]"#,
    );
    gives(
        "input table i(s: string); output table o(s: string); o(s) :- i(s), length(s, 3);",
        r#""i":[["ab"],["abc"]]"#,
        r#""o":[["abc"]]"#,
    );
    gives(
        "input table i(s: string); output table o(s: string); o(s) :- i(s), starts_with(s, \"a\");",
        r#""i":[["ab"],["ba"]]"#,
        r#""o":[["ab"]]"#,
    );
}

#[test]
fn functions_without_a_result_yield_no_tuple() {
    let insert = r#""i":[["12"],["x"],["-3"]]"#;
    for rule in [
        "o(s, n) :- i(s), parse_int(s, n);",
        "o(s, parse_int(s)) :- i(s);",
        "o(s, n) :- n = parse_int(s), i(s);",
    ] {
        gives(
            &format!("input table i(s: string); output table o(s: string, n: int); {rule}"),
            insert,
            r#""o":[["-3",-3],["12",12]]"#,
        );
    }
    gives(
        "input table i(a: match, b: match); output table o(m: match); o(a & b) :- i(a, b);",
        r#""i":[["arp","ip"],["reg1=1","reg2=2"]]"#,
        r#""o":[["reg1=0x1,reg2=0x2"]]"#,
    );
}

#[test]
fn functions_with_several_results() {
    let head = "input table i(l: list<string>, t: set<int>); output table o(x: string); output table p(r: int, x: string); output table q(x: int); output table r(n: int);";
    let rules = "o(x) :- i(l, _), element(l, x); p(k, x) :- i(l, _), element_at(l, k, x); q(x) :- i(_, t), element(t, x); r(n) :- i(_, t), range(-1, size(t), n);";
    gives(
        &format!("{head}{rules}"),
        r#""i":[[["b","a","b"],[7,3]],[[],[]]]"#,
        r#""o":[["a"],["b"]],"p":[[0,"b"],[1,"a"],[2,"b"]],"q":[[3],[7]],"r":[[-1],[0],[1]]"#,
    );
    gives(
        "output table o(x: int); o(x) :- range(3, 6, x); o(x) :- range(6, 3, x); o(x) :- range(9, 9, x);",
        "",
        r#""o":[[3],[4],[5]]"#,
    );
    gives(
        "input table i(t: set<int>, x: int); output table o(x: int); o(x) :- i(t, x), element(t, x);",
        r#""i":[[[1,2],2],[[1,2],3]]"#,
        r#""o":[[2]]"#,
    );
}

#[test]
fn named_arguments() {
    let tables =
        "input table lp(lport: string, ldp: string, hv: string); output table o(p: string, q: string);";
    let insert = r#""lp":[["p1","d1","h1"],["p2","d1","h2"]]"#;
    for rule in [
        "o(p, q) :- lp(lport: p, hv: q, ..);",
        "o(p, q) :- lp(hv: q, lport: p, ..,);",
        "o(q: q, p: p) :- lp(hv: q, ldp: _, lport: p);",
        "o(p: p, q: h) :- lp(p, _, h);",
        "o(p, q) :- lp(lport: p, ..), lp(lport: p, hv: q, ..);",
    ] {
        gives(&format!("{tables} {rule}"), insert, r#""o":[["p1","h1"],["p2","h2"]]"#);
    }
}

#[test]
fn aggregates_over_the_distinct_tuples_that_the_head_uses() {
    let insert = r#""s":[["a",1,"p"],["a",1,"q"],["a",3,"r"],["b",5,"p"]]"#;
    let one = |head: &str, ty: &str, rows: &str| {
        let program = format!(
            "input table s(g: string, x: int, id: string); output table o(g: string, v: {ty}); o(g, {head}) :- s(g, x, id), id != \"zz\", x > 0;"
        );
        gives(&program, insert, &format!("\"o\":[{rows}]"));
    };
    one("count()", "int", r#"["a",1],["b",1]"#);
    one("count(x)", "int", r#"["a",2],["b",1]"#);
    one("count(x, id)", "int", r#"["a",3],["b",1]"#);
    one("count(id)", "int", r#"["a",3],["b",1]"#);
    one("min(x)", "int", r#"["a",1],["b",5]"#);
    one("max(x)", "int", r#"["a",3],["b",5]"#);
    one("max(id)", "string", r#"["a","r"],["b","p"]"#);
    one("sum(x)", "int", r#"["a",4],["b",5]"#);
    one("sum(x, id)", "int", r#"["a",5],["b",5]"#);
    one("sum(x * 10, id)", "int", r#"["a",50],["b",50]"#);
    one("set(x)", "set<int>", r#"["a",[1,3]],["b",[5]]"#);
    one("list(x)", "list<int>", r#"["a",[1,3]],["b",[5]]"#);
    one("list(id)", "list<string>", r#"["a",["p","q","r"]],["b",["p"]]"#);
    one("arg_min(x, id)", "string", r#"["a","p"],["b","p"]"#);
    one("arg_max(x, id)", "string", r#"["a","r"],["b","p"]"#);
    one("arg_max(-x, id)", "string", r#"["a","q"],["b","p"]"#);
}

#[test]
fn a_group_without_tuples_has_no_row() {
    let program = "input table s(x: int); output table o(n: int, s: int); o(count(x), sum(x)) :- s(x);";
    let outcome = eval(program, "{}\n{\"insert\":{\"s\":[[4],[5]]}}\n{\"delete\":{\"s\":[[4],[5]]}}\n");
    assert_eq!(
        outcome.lines(),
        [
            r#"{"txn":1,"insert":{},"delete":{}}"#,
            r#"{"txn":2,"insert":{"o":[[2,9]]},"delete":{}}"#,
            r#"{"txn":3,"insert":{},"delete":{"o":[[2,9]]}}"#,
        ]
    );
}

#[test]
fn a_sum_overflows_as_a_whole_only() {
    let program = "input table s(x: int); output table o(n: int); o(sum(x)) :- s(x);";
    gives(program, r#""s":[[9223372036854775807],[1],[-1]]"#, r#""o":[[9223372036854775807]]"#);
    let outcome = eval(program, "{\"insert\":{\"s\":[[9223372036854775807],[1]]}}\n{}\n");
    assert!(
        outcome.has_status(1).lines()[0].starts_with(r#"{"txn":1,"error":{"code":"overflow","#),
        "{}",
        outcome.stdout
    );
}

/// FNV-1a over tagged values, then the finaliser of `MurmurHash3`, then one bit dropped, as documented.
fn hash(bytes: &[u8]) -> u64 {
    let mut h = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, byte| (h ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        h = (h ^ (h >> 33)).wrapping_mul(factor);
    }
    (h ^ (h >> 33)) >> 1
}

#[test]
fn hashes_are_the_same_for_ever() {
    let int = |value: i64| [&[2][..], &value.to_be_bytes()].concat();
    let text = |value: &str| [&[3][..], &(value.len() as u64).to_be_bytes(), value.as_bytes()].concat();
    is("int", "hash(0)", &hash(&int(0)).to_string());
    is("int", "hash(\"größe\")", &hash(&text("größe")).to_string());
    is("int", "hash(-1, \"hv1\")", &hash(&[int(-1), text("hv1")].concat()).to_string());
    is("int", "hash(ip\"10.0.0.1\", true)", &hash(&[5, 10, 0, 0, 1, 1, 1]).to_string());
    // Fixed values, so that documentation and code cannot change together unnoticed.
    is("int", "hash(\"hv1\", \"hv2\")", "3504921522283472265");
    is("int", "hash(0)", "5209980248461756121");
}

#[test]
fn matches_and_actions_are_printed_as_open_vswitch_prints_them() {
    let flows = [
        ("reg1=26", "output:3"),
        ("reg1=0x0,reg2=7/0xff", "LOCAL"),
        ("tcp,nw_src=10.0.0.0/8,tp_dst=80", "resubmit(,2)"),
        ("metadata=0x10,in_port=LOCAL", "load:0x1->NXM_NX_REG1[],resubmit(,20)"),
        ("dl_vlan=5,dl_dst=FF:FF:FF:FF:FF:FF", "mod_dl_src:02:00:00:00:00:01,output:2"),
        ("arp,arp_tpa=10.0.0.1,arp_op=1", "move:NXM_NX_REG1[0..15]->NXM_NX_REG2[16..31],set_field:5->tun_id"),
        ("", "drop"),
    ];
    let mut printed = Vec::new();
    for (matched, actions) in flows {
        let program =
            "input table i(m: match, y: actions); output table o(m: match, y: actions); o(m, y) :- i(m, y);";
        let outcome = eval_with(
            program,
            &format!("{{\"insert\":{{\"i\":[[\"{matched}\",\"{actions}\"]]}}}}\n"),
            &["--final"],
        );
        let object: serde_json::Value = serde_json::from_str(&outcome.has_status(0).stdout).unwrap();
        let text = |column: usize| object["o"][0][column].as_str().unwrap().to_owned();
        printed.push((text(0), text(1)));
    }
    let version = Command::new("ovs-ofctl").arg("--version").output();
    let Ok(_) = version else {
        eprintln!(
            "\n*** NOT TESTED against Open vSwitch: there is no ovs-ofctl (apt-get install openvswitch-switch)\n"
        );
        return;
    };
    for ((matched, actions), (our_match, our_actions)) in flows.into_iter().zip(printed) {
        let comma = if matched.is_empty() { "" } else { "," };
        let flow = format!("{matched}{comma}actions={actions}");
        let command = Command::new("ovs-ofctl")
            .args(["-O", "OpenFlow15", "--no-names", "parse-flow", &flow])
            .output()
            .unwrap();
        let text = String::from_utf8(command.stdout).unwrap();
        let ours = if our_match.is_empty() {
            format!("ADD actions={our_actions}")
        } else {
            format!("ADD {our_match} actions={our_actions}")
        };
        assert_eq!(
            text.trim().rsplit_once("): ").map(|(_, flow)| flow),
            Some(ours.as_str()),
            "{flow}\n{text}"
        );
    }
}
