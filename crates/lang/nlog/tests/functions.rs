//! Functions, records and enumerations of the program, as evaluators use them.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use nlog::program::{BodyItem, Expr, HeadTerm, Program};
use nlog::{Sources, compile};
use nlog_data::function::{Multiplicity, Results};
use nlog_data::{Failure, Type, Value};
use proptest::prelude::*;

fn compiled(text: &str) -> Arc<Program> {
    let sources = Sources::from_texts([("program.nlog", text)]);
    let compilation = compile(&sources);
    compilation.program.unwrap_or_else(|| panic!("{:?}\n{text}", compilation.diagnostics))
}

/// The result of a function of integers and optional integers.
fn run(function: &str, arguments: &[Option<i64>]) -> Result<Option<Value>, Failure> {
    let names: Vec<String> = (0..arguments.len()).map(|at| format!("a{at}")).collect();
    let signature: Vec<String> = names.iter().map(|name| format!("{name}: opt<int>")).collect();
    let call = format!("f({})", names.join(", "));
    let text = format!(
        "{function} input table i({}); output table o(x: int); o({call}) :- i({});",
        signature.join(", "),
        names.join(", ")
    );
    let program = compiled(&text);
    let HeadTerm::Value(Expr::Call { function, .. }) = &program.rules[0].terms[0] else { panic!("{text}") };
    let values: Vec<Value> =
        arguments.iter().map(|argument| argument.map_or(Value::None, Value::Int)).collect();
    match (function.evaluate)(&values)? {
        Results::None => Ok(None),
        Results::One(value) => Ok(Some(value)),
        Results::Many(_) => panic!("{text}"),
    }
}

#[test]
fn no_value_beats_a_failure_wherever_it_stands() {
    for body in ["value(a) + 1 / (0 * or_else(b, 0))", "1 / (0 * or_else(b, 0)) + value(a)"] {
        let function = format!("function f(a: opt<int>, b: opt<int>) -> int = {body};");
        assert_eq!(run(&function, &[None, Some(1)]), Ok(None), "{body}");
        assert!(run(&function, &[Some(1), Some(1)]).is_err(), "{body}");
    }
}

#[test]
fn of_several_failures_the_least_is_reported() {
    let big = "9223372036854775807";
    for body in [
        format!("value(a) / (value(a) - value(a)) + ({big} + value(a))"),
        format!("({big} + value(a)) + value(a) / (value(a) - value(a))"),
    ] {
        let function = format!("function f(a: opt<int>) -> int = {body};");
        let failure = run(&function, &[Some(1)]).unwrap_err();
        assert_eq!(failure.code, nlog_data::FailureCode::Overflow, "{body}");
    }
}

#[test]
fn of_a_choice_only_the_branch_taken_counts() {
    let function = "function f(a: opt<int>) -> int = if is_none(a) then 0 else 10 / value(a);";
    assert_eq!(run(function, &[None]), Ok(Some(Value::Int(0))));
    assert_eq!(run(function, &[Some(5)]), Ok(Some(Value::Int(2))));
    assert!(run(function, &[Some(0)]).is_err());
    let function = "function f(a: opt<int>) -> int = if value(a) > 0 then 1 else 2;";
    assert_eq!(run(function, &[None]), Ok(None));
}

#[test]
fn what_can_become_of_a_call_follows_from_the_body() {
    let kind = |function: &str| {
        let text = format!("{function} input table i(x: int); output table o(x: int); o(f(x)) :- i(x);");
        let program = compiled(&text);
        let HeadTerm::Value(Expr::Call { function, .. }) = &program.rules[0].terms[0] else {
            panic!("{text}")
        };
        (function.multiplicity, function.may_fail)
    };
    assert_eq!(kind("function f(x: int) -> int = max_of(x, 1);"), (Multiplicity::One, false));
    assert_eq!(kind("function f(x: int) -> int = x + 1;"), (Multiplicity::One, true));
    let lacks = "function f(x: int) -> int = if x > 1 then g(x) else 1; \
                 function g(x: int) -> int = value(h(x)); \
                 function h(x: int) -> opt<int> = if x > 2 then some(x) else none();";
    assert_eq!(kind(lacks), (Multiplicity::AtMostOne, false));
}

#[test]
fn calls_of_constants_are_constants() {
    let program = compiled(
        "type p = record {x: int, y: p2}; type p2 = record {e: e}; type e = enum {a, b};
         function make(x: int) -> p = p{y: p2{e: if x > 1 then \"a\" else \"b\"}, x: double(x)};
         function double(x: int) -> int = x * 2;
         output table o(x: int, e: e, text: string, whole: p);
         o(double(21), make(2).y.e, to_string(make(1).y.e), make(1));",
    );
    let values: Vec<String> = program.rules[0]
        .terms
        .iter()
        .map(|term| match term {
            HeadTerm::Value(Expr::Constant(value)) => value.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(values, ["42", "\"a\"", "\"b\"", "(2, (\"b\"))"]);
}

#[test]
fn a_function_is_an_atom_with_its_result_last() {
    let program = compiled(
        "input table i(x: int); output table o(x: int);
         o(y) :- i(x), added(x, 1, y), small(y), small(x, true);
         function small(x: int) -> bool = x < 10;
         function added(a: int, b: int) -> int = a + b;",
    );
    let body = &program.rules[0].body;
    let lets = body.iter().filter(|item| matches!(item, BodyItem::Let { .. })).count();
    let filters = body.iter().filter(|item| matches!(item, BodyItem::Filter(_))).count();
    assert_eq!((lets, filters), (1, 2), "{body:?}");
}

#[test]
fn a_parameter_counts_before_a_constant() {
    let program = compiled(
        "const x = 7; function f(x: int) -> int = x; function g(y: int) -> int = x + y;
         output table o(x: int, y: int); o(f(1), g(1));",
    );
    let rule = format!("{:?}", program.rules[0].terms);
    assert!(rule.contains("Int(1)") && rule.contains("Int(8)"), "{rule}");
}

#[test]
fn types_keep_their_names_in_the_schema() {
    let program = compiled(
        "type hosts = set<host>; type host = string; type e = enum {b, a};
         type r = record {host: host, all: hosts, o: opt<e>};
         output table o(r: r, all: hosts, e: e); o(r{host: \"h\", all: {\"h\"}, o: none()}, {}, \"a\");",
    );
    let columns = &program.schema.table(program.schema.find("o").unwrap()).columns;
    let shown: Vec<String> = columns.iter().map(|column| column.ty.to_string()).collect();
    assert_eq!(shown, ["r", "set<string>", "e"]);
    let Type::Record(record) = &columns[0].ty else { panic!("{columns:?}") };
    let fields: Vec<String> = record.fields.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
    assert_eq!(fields, ["host: string", "all: set<string>", "o: opt<e>"]);
}

/// The size of a file bounds the cost of checking it, however its types and functions multiply.
#[test]
fn what_doubles_is_refused_in_time() {
    let mut text = String::from("function f0(x: int) -> int = x + 1; type t0 = record {a: int, b: int};");
    for at in 1..2_000 {
        let before = at - 1;
        text += &format!(
            "function f{at}(x: int) -> int = f{before}(f{before}(x)) + f{before}(x);\n\
             type t{at} = record {{a: t{before}, b: t{before}}};\n"
        );
    }
    text += "const C = f1999(1); output table o(x: t1999, y: int); o(x, C) :- o(x, _);";
    let compilation = compile(&Sources::from_texts([("double.nlog", text)]));
    assert!(compilation.diagnostics.iter().any(|diagnostic| diagnostic.code.name() == "too-large"));
}

#[test]
fn long_chains_need_no_stack() {
    let mut text = String::from("function f0(x: int) -> int = x; type t0 = int; const c0 = 0;");
    for at in 1..5_000 {
        let before = at - 1;
        text += &format!(
            "function f{at}(x: int) -> int = f{before}(x) + c{before}; type t{at} = t{before}; const c{at} = f0(c{before});\n"
        );
    }
    text += "output table o(x: t4999); o(f900(1)); o(c4999);";
    let compilation = compile(&Sources::from_texts([("long.nlog", text)]));
    // One chain is too long, and this is reported once for every so many functions.
    assert!(compilation.diagnostics.len() < 100, "{}", compilation.diagnostics.len());
    assert!(compilation.diagnostics.iter().all(|diagnostic| diagnostic.code.name() == "too-large"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, ..ProptestConfig::default() })]

    /// A call has the same result as its body in its place.
    #[test]
    fn a_call_is_its_body(body in expression(), a in -3_i64..4, b in proptest::option::of(-3_i64..4)) {
        let call = format!("function f(a: opt<int>, b: opt<int>) -> int = {body};");
        let parts = format!(
            "function f(a: opt<int>, b: opt<int>) -> int = g(a, b, a); \
             function g(b: opt<int>, a: opt<int>, _c: opt<int>) -> int = h(b, a); \
             function h(a: opt<int>, b: opt<int>) -> int = {body};"
        );
        prop_assert_eq!(run(&call, &[Some(a), b]), run(&parts, &[Some(a), b]));
    }
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("value(a)".to_owned()),
        Just("value(b)".to_owned()),
        Just("or_else(b, 5)".to_owned()),
        (-3_i64..4).prop_map(|number| number.to_string()),
    ];
    // Both parameters are used, and no part is constant.
    let tree = leaf.prop_recursive(4, 16, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} + {b} * value(a))")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} / (value(a) * {b}))")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("(if {a} < value(a) then {b} else {c})")),
        ]
    });
    tree.prop_map(|body| format!("{body} + value(a) + or_else(b, 0)"))
}

/// Objects may be as large as a request: what counts or compares their parts has a result, and what makes more of them has a limit.
#[test]
fn a_large_value_is_looked_at_and_not_made_larger() {
    let of_list = |body: &str| {
        let text = format!(
            "function f(names: list<string>) -> int = {body};
            input table i(names: list<string>); output table o(x: int); o(f(names)) :- i(names);"
        );
        let program = compiled(&text);
        let HeadTerm::Value(Expr::Call { function, .. }) = &program.rules[0].terms[0] else {
            panic!("{text}")
        };
        let names = Value::list((0..300_000).map(|number| Value::String(format!("name {number}").into())));
        (function.evaluate)(&[names])
    };
    let count = |result| matches!(result, Ok(Results::One(Value::Int(300_000))));
    assert!(count(of_list("size(distinct(names))")));
    assert!(of_list("size(names ++ names)").is_err());
}
