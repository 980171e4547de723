//! Questions about matches that rules put together, and about parts of a state.

use std::sync::Arc;

use nlog::program::Pattern;
use nlog::{Program, Sources, compile};
use nlog_data::{Row, TableId, Value, literal};
use nlog_explain::tree::Explainer;
use nlog_explain::{OnDemand, explanation};

const FLOWS: &str = r#"
input table label(sw: string, number: int);
input table port(sw: string, mac: mac, ip: ip);
table universal(sw: string, stage: int, match: match);
table never(match: match);
output table of_flow(stage: int, match: match);
output table ports(sw: string, count: int);
universal(sw, 20, match{eth_dst: mac}) :- port(sw, mac, _);
universal(sw, 30, match{arp, arp_tpa: ip}) :- port(sw, _, ip);
never(match{reg0: 1}) :- label("nowhere", _);
of_flow(stage, match{metadata: number} & match) :- universal(sw, stage, match), label(sw, number);
of_flow(40, match) :- never(match);
of_flow(20, match) :- stage_40(40, match);
table stage_40(stage: int, match: match);
stage_40(41, match) :- never(match);
ports(sw, count(mac)) :- port(sw, mac, _);
"#;

fn program() -> Arc<Program> {
    let compilation = compile(&Sources::from_texts([("flows.nlog", FLOWS)]));
    compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics))
}

fn value(text: &str) -> Value {
    literal::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn table(program: &Program, name: &str) -> TableId {
    program.schema.find(name).unwrap_or_else(|| panic!("no table {name}"))
}

/// Two switches with a port each.
fn state(program: &Arc<Program>) -> OnDemand {
    let rows = [
        ("label", [r#""blue""#, "1"].as_slice()),
        ("label", &[r#""red""#, "2"]),
        ("port", &[r#""blue""#, r#"mac"02:00:00:00:00:01""#, r#"ip"10.0.0.1""#]),
        ("port", &[r#""red""#, r#"mac"02:00:00:00:00:02""#, r#"ip"10.0.0.2""#]),
    ];
    let row = |(name, values): (&str, &[&str])| -> (TableId, Row) {
        (table(program, name), values.iter().map(|text| value(text)).collect())
    };
    OnDemand::new(program.clone(), rows.map(row))
}

fn why_not(stage: i64, matching: &str) -> String {
    let program = program();
    let columns = vec![Some(Value::Int(stage)), Some(value(matching))];
    let answer = state(&program).why_not(&Pattern { table: table(&program, "of_flow"), columns });
    explanation::why_not(&program, &answer).join("\n")
}

#[test]
fn the_parts_of_a_match_lead_to_the_row_that_is_missing() {
    let mac = why_not(20, r#"match"metadata=0x2,dl_dst=02:00:00:00:00:09""#);
    assert!(mac.contains(r#"finds no universal(sw, 20, match"dl_dst=02:00:00:00:00:09")"#), "{mac}");
    assert!(mac.contains(r#"finds no port(sw, mac"02:00:00:00:00:09", _)"#), "{mac}");
    let ip = why_not(30, r#"match"arp,metadata=0x1,arp_tpa=10.0.0.9""#);
    assert!(ip.contains(r#"finds no port(sw, _, ip"10.0.0.9")"#), "{ip}");
    let label = why_not(20, r#"match"metadata=0x7,dl_dst=02:00:00:00:00:01""#);
    assert!(
        label.contains("finds no label(sw, 7)") || label.contains(r#"finds no label("blue", 7)"#),
        "{label}"
    );
}

#[test]
fn a_rule_that_lacks_what_no_rule_can_derive_is_not_shown_beside_others() {
    let said = why_not(20, r#"match"metadata=0x2,dl_dst=02:00:00:00:00:09""#);
    assert!(!said.contains("stage_40") && said.ends_with("another rule get no further"), "{said}");
}

#[test]
fn a_question_that_takes_too_long_has_no_answer() {
    let program = program();
    let flows = table(&program, "of_flow");
    let enough = state(&program);
    assert_eq!(enough.within(1000, || enough.rows(flows).len()), Some(4));
    let little = state(&program);
    assert_eq!(little.within(2, || little.rows(flows).len()), None);
    // What was looked for in vain is not kept as the answer.
    assert_eq!(little.rows(flows).len(), 4);
}

#[test]
fn a_count_of_a_part_is_marked_and_what_is_not_derived_is_said() {
    let program = program();
    let state = state(&program);
    let ports = table(&program, "ports");
    let explain = |is_part, row: Row| {
        let explainer = Explainer { state: &state, origin: &|_, _| None, is_part };
        explainer.explain(ports, &[row], 1).text(&program)
    };
    let row = || vec![value(r#""blue""#), Value::Int(1)];
    assert!(
        explain(true, row())
            .starts_with(r#"ports("blue", 1)  flows.nlog:16:1, of the rows that were looked at"#),
        "{}",
        explain(true, row())
    );
    assert!(!explain(false, row()).contains("looked at"));
    let other = explain(true, vec![value(r#""blue""#), Value::Int(7)]);
    assert_eq!(other, r#"ports("blue", 7)  from rows that were not looked at"#);
}
