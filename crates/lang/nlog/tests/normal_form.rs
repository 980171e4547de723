//! The normal form of rules: the order in which variables are bound, constants, and conditions.

#![allow(clippy::unwrap_used)]

use nlog::program::{BodyItem, Expr, HeadTerm, Rule, Term};
use nlog::{Program, Sources, compile};

const TABLES: &str =
    "input table e(a: int, b: int); input table n(hv: string, ip: ip, of: set<int>, l: list<int>);
    output table out(a: int); output table text(t: string); output table agg(a: int, b: int);
    output table flow(m: match, a: actions); const K = 3; const HOME = \"10.0.0.1\";";

fn program(rule: &str) -> std::sync::Arc<Program> {
    let compilation = compile(&Sources::from_texts([("a.nlog", format!("{TABLES}\n{rule}"))]));
    compilation.program.unwrap_or_else(|| panic!("{rule}: {:?}", compilation.diagnostics))
}

/// The rule as text, in the order of the normal form.
fn normal(rule: &str) -> String {
    let program = program(rule);
    let [rule] = program.rules.as_slice() else { panic!("one rule is wanted") };
    let head: Vec<String> = rule.terms.iter().map(|term| head_term(term, rule)).collect();
    let body: Vec<String> = rule.body.iter().map(|item| body_item(item, rule, &program)).collect();
    format!("{} <- {}", head.join(", "), body.join("; "))
}

fn head_term(term: &HeadTerm, rule: &Rule) -> String {
    match term {
        HeadTerm::Value(value) => expr(value, rule),
        HeadTerm::Aggregate { aggregate, arguments } => {
            let arguments: Vec<String> = arguments.iter().map(|argument| expr(argument, rule)).collect();
            format!("{aggregate:?}({})", arguments.join(", "))
        }
    }
}

fn body_item(item: &BodyItem, rule: &Rule, program: &Program) -> String {
    match item {
        BodyItem::Atom { table, terms, .. } => {
            let terms: Vec<String> = terms
                .iter()
                .map(|term| match term {
                    Term::Variable(variable) => rule.variables[variable.0 as usize].name.clone(),
                    Term::Constant(value) => value.to_string(),
                    Term::Any => "_".to_owned(),
                })
                .collect();
            format!("{}({})", program.schema.table(*table).name, terms.join(", "))
        }
        BodyItem::Let { variable, expr: value } => {
            format!("{} = {}", rule.variables[variable.0 as usize].name, expr(value, rule))
        }
        BodyItem::Generate { function, arguments, results } => {
            let arguments: Vec<String> = arguments.iter().map(|argument| expr(argument, rule)).collect();
            let results: Vec<&str> = results
                .iter()
                .map(|result| {
                    result.map_or("_", |variable| rule.variables[variable.0 as usize].name.as_str())
                })
                .collect();
            format!("({}) from {}({})", results.join(", "), function.name, arguments.join(", "))
        }
        BodyItem::Filter(condition) => format!("? {}", expr(condition, rule)),
    }
}

fn expr(value: &Expr, rule: &Rule) -> String {
    match value {
        Expr::Variable(variable) => rule.variables[variable.0 as usize].name.clone(),
        Expr::Constant(value) => value.to_string(),
        Expr::Call { function, arguments } => {
            let arguments: Vec<String> = arguments.iter().map(|argument| expr(argument, rule)).collect();
            format!("{}({})", function.name, arguments.join(", "))
        }
        Expr::If { condition, then, otherwise } => {
            format!("if {} then {} else {}", expr(condition, rule), expr(then, rule), expr(otherwise, rule))
        }
    }
}

#[test]
fn atoms_bind_and_the_rest_follows_its_inputs() {
    for (rule, expected) in [
        // Atoms first, whatever the order.
        ("out(z) :- z = y + 1, y = x + 1, e(x, _);", "z <- e(x, _); y = +(x, 1); z = +(y, 1)"),
        ("out(x) :- x = y, e(x, y);", "x <- e(x, y); ? ==(x, y)"),
        // A second definition compares.
        ("out(x) :- e(y, _), x = 4, x = y;", "x <- e(y, _); x = 4; ? ==(x, y)"),
        ("out(x) :- e(y, _), x = y, x = 4;", "x <- e(y, _); x = 4; ? ==(x, y)"),
        // A variable that occurs once constrains nothing.
        ("out(x) :- e(x, _y);", "x <- e(x, _)"),
        ("out(x) :- e(x, x);", "x <- e(x, x)"),
        // Terms that are expressions.
        ("out(x) :- e(x, 1 + 2);", "x <- e(x, 3)"),
        ("out(x) :- e(x, K);", "x <- e(x, 3)"),
        ("out(x) :- e(x, y + 1), e(y, _);", "x <- e(x, term.2); e(y, _); ? ==(term.2, +(y, 1))"),
        // Sides of `=` that are no variable.
        ("out(x) :- e(x, y), x + 1 = y;", "x <- e(x, y); ? ==(+(x, 1), y)"),
        // A constant is no variable.
        ("out(x) :- e(x, _), K = x;", "x <- e(x, _); ? ==(3, x)"),
    ] {
        assert_eq!(normal(rule), expected, "{rule}");
    }
}

#[test]
fn functions_are_atoms_and_expressions_alike() {
    for (rule, expected) in [
        ("text(t) :- e(x, _), to_string(x, t);", "t <- e(x, _); t = to_string(x)"),
        ("text(t) :- e(x, _), t = to_string(x);", "t <- e(x, _); t = to_string(x)"),
        ("out(x) :- e(x, y), not_equal(x, y);", "x <- e(x, y); ? not_equal(x, y)"),
        ("out(x) :- e(x, y), not_equal(x, y, true);", "x <- e(x, y); ? ==(not_equal(x, y), true)"),
        ("out(x) :- e(x, y), range(x, y, 3);", "x <- e(x, y); (range.2) from range(x, y); ? ==(range.2, 3)"),
        ("out(i) :- e(x, y), range(x, y, i);", "i <- e(x, y); (i) from range(x, y)"),
        ("out(i) :- e(x, y), i = range(x, y);", "i <- e(x, y); (i) from range(x, y)"),
        (
            "out(x) :- n(_, _, of, _), element(of, x), e(x, _);",
            "x <- n(_, _, of, _); e(x, _); (element.2) from element(of); ? ==(element.2, x)",
        ),
        ("out(x) :- n(_, _, _, l), element_at(l, _, x);", "x <- n(_, _, _, l); (_, x) from element_at(l)"),
        (
            "out(r) :- n(_, _, _, l), element_at(l, r, r);",
            "r <- n(_, _, _, l); (r, element_at.2) from element_at(l); ? ==(element_at.2, r)",
        ),
        (
            "out(x + 1) :- n(_, _, _, l), parse_int(\"12\", x), element(l, x);",
            "+(x, 1) <- n(_, _, _, l); x = 12; (element.2) from element(l); ? ==(element.2, x)",
        ),
        ("text(t) :- n(t, _, _, _), parse_int(t, _);", "t <- n(t, _, _, _); parse_int.1 = parse_int(t)"),
    ] {
        assert_eq!(normal(rule), expected, "{rule}");
    }
    // A function with several results in an expression: the expression has each of them.
    assert_eq!(
        normal("out(i + 1) :- e(x, y), i = range(x, y) * 2;"),
        "+(i, 1) <- e(x, y); (range.3) from range(x, y); i = *(range.3, 2)"
    );
    assert_eq!(
        normal("out(element(of)) :- n(_, _, of, _);"),
        "element.1 <- n(_, _, of, _); (element.1) from element(of)"
    );
}

#[test]
fn constants_are_computed_beforehand() {
    for (rule, expected) in [
        ("out(K * 2 + 1);", "7 <- "),
        ("out(-K) :- true;", "-3 <- ? true"),
        ("out(if K > 2 then x else 1 / 0) :- e(x, _);", "x <- e(x, _)"),
        ("out(x) :- e(x, _), x > K << 1;", "x <- e(x, _); ? >(x, 6)"),
        ("text(hv) :- n(hv, HOME, _, _);", "hv <- n(hv, ip\"10.0.0.1\", _, _)"),
        (
            "text(hv) :- n(hv, ip, _, _), ip == \"10.0.0.1\";",
            "hv <- n(hv, ip, _, _); ? ==(ip, ip\"10.0.0.1\")",
        ),
        ("text(HOME);", "\"10.0.0.1\" <- "),
        ("text(hv) :- n(hv, _, {2, 1, 2}, [3, 3]);", "hv <- n(hv, _, {1, 2}, [3, 3])"),
        (
            "text(hv) :- n(hv, _, {x, 1}, _), e(x, _);",
            "hv <- n(hv, _, term.2, _); e(x, _); ? ==(term.2, {}(x, 1))",
        ),
        (
            "flow(flow_expr_match_reg1(26), flow_output_action(3));",
            "match\"reg1=0x1a\", actions\"output:3\" <- ",
        ),
    ] {
        assert_eq!(normal(rule), expected, "{rule}");
    }
}

#[test]
fn operators_bind_as_written_in_the_grammar() {
    for (text, expected) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("10 - 4 - 3", "3"),
        ("1 << 2 + 1", "8"),
        ("7 & 3 << 1", "6"),
        ("1 | 2 ^ 3 & 2", "1"),
        ("-2 * -3", "6"),
        ("- (2)", "-2"),
        ("0x10 % 7 / 2", "1"),
        ("16 >> 1 >> 1", "4"),
        ("if 1 + 1 == 2 then 1 else 2 + 5", "1"),
        ("length(\"a\" ++ \"bc\" ++ \"d\")", "4"),
    ] {
        assert_eq!(normal(&format!("out({text});")), format!("{expected} <- "), "{text}");
    }
}

#[test]
fn aggregates_keep_their_arguments() {
    assert_eq!(normal("agg(x, sum(y, x)) :- e(x, y);"), "x, Sum(y, x) <- e(x, y)");
    assert_eq!(normal("agg(x + 1, arg_max(y, x)) :- e(x, y);"), "+(x, 1), ArgMax(y, x) <- e(x, y)");
    assert_eq!(normal("agg(count(), 1) :- e(_, _);"), "Count(), 1 <- e(_, _)");
}

#[test]
fn tables_come_before_what_reads_them() {
    let program = program(
        "table z(a: int); table y(a: int); z(a) :- e(a, _); y(a) :- z(a), e(a, _); out(a) :- y(a), z(a);",
    );
    let place = |name: &str| {
        let table = program.schema.find(name).unwrap();
        program.order.iter().position(|other| *other == table).unwrap()
    };
    assert!(place("e") < place("z") && place("z") < place("y") && place("y") < place("out"));
    assert_eq!(program.order.len(), program.schema.len());
}

#[test]
fn rules_of_a_table_with_defaults_keep_their_fingerprints() {
    let ordinary = "k(a, 1) :- e(a, _);";
    let alone = program(&format!("output table k(a: int, b: int) key(a); {ordinary}"));
    let defaults = "default k(b, 0) :- e(_, b); default k(7, 0);";
    let both = program(&format!("output table k(a: int, b: int) key(a); {ordinary} {defaults}"));
    let k = both.schema.find("k").unwrap();
    let rules: Vec<(&str, u64)> = both.rules_of(k).map(|(_, rule)| (&*rule.text, rule.fingerprint)).collect();
    let mut texts: Vec<&str> = rules.iter().map(|(text, _)| *text).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["default k(7, 0);", "default k(b, 0) :- e(_, b);", ordinary]);
    // The fingerprint of an ordinary rule does not change when defaults are added.
    let of_ordinary = alone.rules.iter().find(|rule| *rule.text == *ordinary).unwrap().fingerprint;
    assert!(rules.contains(&(ordinary, of_ordinary)));
    // The tables made for it follow it in name order, and cannot be found by name.
    let hidden = both.schema.iter().filter(|(_, table)| table.role == nlog_data::Role::Hidden);
    for (id, table) in hidden {
        assert_eq!((both.schema.shown(id), both.schema.find(&table.name)), (k, None));
    }
    assert_eq!(both.schema.len(), alone.schema.len() + 4);
    assert_eq!(both.order.len(), both.schema.len());
}

/// Facts of literals take a short way through the checker. Named terms and expressions do not.
#[test]
fn a_fact_of_literals_means_what_it_means_with_expressions() {
    let tables = "type encap = enum {geneve, vxlan}; const GENEVE = \"geneve\"; const HOME = \"10.0.0.1\";
        output table t(n: int, b: bool, s: string, m: mac, i: ip, p: net, e: encap);";
    let meaning = |fact: &str| {
        let compilation = compile(&Sources::from_texts([("a.nlog", format!("{tables}\n{fact}"))]));
        let program = compilation.program.unwrap_or_else(|| panic!("{fact}: {:?}", compilation.diagnostics));
        let Rule { head, terms, variables, body, place, .. } = &program.rules[0];
        format!("{head:?} {terms:?} {variables:?} {body:?} {place}")
    };
    let plain = r#"t(-5, true, "10.0.0.1", "02:00:00:00:00:01", "10.0.0.1", "10.0.0.0/8", "geneve");"#;
    for other in [
        r#"t(-5, true, "10.0.0.1", mac"02:00:00:00:00:01", ip"10.0.0.1", net"10.0.0.0/8", encap"geneve");"#,
        r#"t(2 - 7, 1 < 2, HOME, "02:00:00:00:00:01", HOME, "10.0.0.0/8", GENEVE);"#,
        r#"t(i: HOME, n: -5, b: true, s: "10.0.0.1", m: "02:00:00:00:00:01", p: "10.0.0.0/8", e: "geneve");"#,
    ] {
        assert_eq!(meaning(plain), meaning(other));
    }
}
