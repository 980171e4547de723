//! The installed Open vSwitch accepts and prints what the functions over OpenFlow fields return.

use std::collections::BTreeSet;
use std::io::Write as _;

use nlog_data::{Packed, Results, Value, function, literal};
use openflow_rs::{Action, Actions, Match};

/// Text of matches, with the function that returned it.
type Matches = BTreeSet<(String, String)>;
/// Actions, with the function that returned them.
type ActionLists = Vec<(String, Packed<Actions>)>;

/// The results of the examples of all functions.
fn given() -> (Matches, ActionLists) {
    let (mut matches, mut actions) = (Matches::new(), ActionLists::new());
    for function in function::functions() {
        for example in &function.examples {
            let arguments = literal::parse_list(&example.arguments).expect("literals");
            match (function.evaluate)(&arguments) {
                Ok(Results::One(Value::Match(m))) => {
                    matches.insert((function.name.to_string(), m.text().to_string()));
                }
                Ok(Results::Many(values)) => {
                    let texts = values.iter().flatten().filter_map(|value| match value {
                        Value::Match(m) => Some(m.text().to_string()),
                        _ => None,
                    });
                    matches.extend(texts.map(|text| (function.name.to_string(), text)));
                }
                Ok(Results::One(Value::Actions(a))) => {
                    actions.push((function.name.to_string(), a.clone()));
                }
                _ => {}
            }
        }
    }
    (matches, actions)
}

/// Flows as `ovs-ofctl` prints them after parsing, without its remarks about normalisation.
fn parse_flows(flows: &[String]) -> Vec<String> {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(flows.join("\n").as_bytes()).expect("a temporary file");
    let text = ovs_testing::ofctl(&["parse-flows", file.path().to_str().expect("an ASCII path")]);
    let flows =
        text.lines().filter_map(|line| line.split_once("ADD").map(|(_, flow)| flow.trim().to_string()));
    flows.collect()
}

/// Fields that exist for IPv4 and IPv6, where the function leaves the choice to the rule; and fields that need a
/// value of another field.
fn incomplete(name: &str, text: &str) -> bool {
    let parsed: Match = text.parse().expect("a match");
    parsed.validate().is_err() || ["match_ct_tp_src", "match_ct_tp_dst", "match_ct_nw_proto"].contains(&name)
}

/// The match that a switch requires for an action on this field, from the field's own match function.
fn match_for(actions: &Actions) -> String {
    let Some(Action::SetField(set)) = actions.0.first() else {
        return "ip".to_string();
    };
    let name = set.field().name();
    match name {
        "icmpv6_code" => "icmp6,icmp_type=135".to_string(),
        "nw_tos" | "ip_dscp" | "nw_ecn" | "nw_ttl" => "ip".to_string(),
        "nd_target" | "nd_reserved" | "nd_options_type" => "icmp6,icmp_type=135,icmp_code=0".to_string(),
        "vlan_vid" | "vlan_pcp" => "dl_vlan=7".to_string(),
        _ => {
            let function = &function::lookup(&format!("match_{name}"))[0];
            let result = function.examples.iter().find(|example| example.result.starts_with("match"));
            match literal::parse(&result.expect("an example").result) {
                Ok(Value::Match(m)) => m.text().to_string(),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}

#[test]
fn matches_are_accepted_and_printed_alike() {
    let (matches, _) = given();
    let texts: Vec<String> =
        matches.into_iter().filter(|(name, text)| !incomplete(name, text)).map(|(_, text)| text).collect();
    assert!(texts.len() > 300);
    let comma = |text: &str| if text.is_empty() { "" } else { "," };
    let flows: Vec<String> = texts.iter().map(|text| format!("{text}{}actions=drop", comma(text))).collect();
    let printed = parse_flows(&flows);
    assert_eq!(printed.len(), flows.len());
    for (text, printed) in texts.iter().zip(printed) {
        assert_eq!(printed.strip_suffix("actions=drop").map(str::trim), Some(text.as_str()));
    }
}

#[test]
fn actions_are_accepted_and_printed_alike() {
    let (_, actions) = given();
    // These need another kind of flow; the tests of openflow-rs check their text.
    let special = ["pop_vlan", "move_field"];
    let actions: Vec<_> = actions.into_iter().filter(|(name, _)| !special.contains(&name.as_str())).collect();
    assert!(actions.len() > 150);
    let flow =
        |actions: &Packed<Actions>| format!("{},actions={}", match_for(&actions.get()), actions.text());
    let flows: Vec<String> = actions.iter().map(|(_, actions)| flow(actions)).collect();
    let printed = parse_flows(&flows);
    assert_eq!(printed.len(), flows.len());
    for ((name, actions), printed) in actions.iter().zip(printed) {
        assert_eq!(printed.split_once("actions=").map(|(_, text)| text), Some(&*actions.text()), "{name}");
    }
}
