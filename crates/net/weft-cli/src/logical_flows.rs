//! The logical flows of a datapath, in the form of `ovn-sbctl lflow-list`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value as Json};
use weft_client::LogicalFlows;
use weft_client::pb::{LogicalFlow, Rule};

/// One line for each flow, in pipeline order; below a line for each stage.
pub(crate) fn to_text(flows: &LogicalFlows) -> String {
    let rules = places(&flows.rules);
    let mut text = format!("datapath: {} {}\n", flows.datapath.kind, flows.datapath.id);
    let mut last = None;
    for flow in &flows.flows {
        if last != Some(flow.table_id) {
            last = Some(flow.table_id);
            let _ = writeln!(text, "stage {}", stage(flow));
        }
        let _ = writeln!(
            text,
            "  priority={}, match=({}), action=({})  # {}",
            priority(flow),
            flow.r#match,
            action(flow),
            remark(flow, &rules)
        );
    }
    text
}

/// One JSON object for each flow.
pub(crate) fn to_json(flows: &LogicalFlows) -> String {
    let rules = places(&flows.rules);
    let mut text = String::new();
    for flow in &flows.flows {
        let mut object = serde_json::json!({
            "table": flow.table_id,
            "stage": named(&flow.stage),
            "priority": flow.priority,
            "priority_name": named(&flow.priority_name),
            "match": flow.r#match,
            "actions": flow.actions,
            "form": flow.form,
            "rule": rules.get(&flow.rule),
        });
        if let Some(space) = named(&flow.space) {
            object["owner"] = serde_json::json!({ space: flow.owner });
        }
        for (name, value) in columns(flow) {
            object[name] = value;
        }
        let _ = writeln!(text, "{object}");
    }
    text
}

/// A name, unless it is empty.
fn named(name: &str) -> Option<&str> {
    Some(name).filter(|name| !name.is_empty())
}

fn stage(flow: &LogicalFlow) -> String {
    match flow.stage.as_str() {
        "" => flow.table_id.to_string(),
        name => format!("{} {name}", flow.table_id),
    }
}

fn priority(flow: &LogicalFlow) -> String {
    match flow.priority_name.as_str() {
        "" => flow.priority.to_string(),
        name => format!("{} ({name})", flow.priority),
    }
}

/// The actions, or what the form says instead: `logical_delivery(port: "blue-1")`.
fn action(flow: &LogicalFlow) -> String {
    let columns = || {
        let columns = columns(flow).into_iter().map(|(name, value)| format!("{name}: {value}"));
        columns.collect::<Vec<_>>().join(", ")
    };
    flow.actions.clone().unwrap_or_else(|| format!("{}({})", flow.form, columns()))
}

fn columns(flow: &LogicalFlow) -> Map<String, Json> {
    // A controller of another version may send none.
    serde_json::from_str(&flow.columns).unwrap_or_default()
}

/// The owner and the rule.
fn remark(flow: &LogicalFlow, rules: &BTreeMap<u64, String>) -> String {
    let rule = rules.get(&flow.rule).map_or("a rule that is not known any more", String::as_str);
    match flow.space.as_str() {
        "" => rule.to_owned(),
        space => format!("{space} {}, {rule}", flow.owner),
    }
}

/// File and line of each rule.
fn places(rules: &[Rule]) -> BTreeMap<u64, String> {
    rules.iter().map(|rule| (rule.fingerprint, format!("{}:{}", rule.file, rule.line))).collect()
}

#[cfg(test)]
mod tests {
    use weft_client::pb::ObjectRef;

    use super::*;

    fn listing() -> LogicalFlows {
        let flow = |table_id, priority, actions: Option<&str>| LogicalFlow {
            table_id,
            priority,
            stage: if table_id == 20 { "L2".to_owned() } else { String::new() },
            r#match: "eth_dst=02:00:00:00:00:01".to_owned(),
            actions: actions.map(ToOwned::to_owned),
            form: "logical_delivery".to_owned(),
            space: "datapath".to_owned(),
            owner: "blue".to_owned(),
            columns: r#"{"port":"blue-1"}"#.to_owned(),
            rule: 1,
            ..LogicalFlow::default()
        };
        let common = LogicalFlow {
            space: String::new(),
            rule: 2,
            columns: "{}".to_owned(),
            ..flow(4, 0, Some("drop"))
        };
        let rule = Rule { fingerprint: 1, file: "switching.nlog".to_owned(), line: 7, ..Rule::default() };
        LogicalFlows {
            datapath: ObjectRef { kind: "switch".to_owned(), id: "blue".to_owned() },
            flows: vec![common, flow(20, 50, None), flow(20, 40, Some("drop"))],
            rules: vec![rule],
        }
    }

    #[test]
    fn flows_stand_under_their_stage() {
        assert_eq!(
            to_text(&listing()),
            "datapath: switch blue\n\
             stage 4\n  \
             priority=0, match=(eth_dst=02:00:00:00:00:01), action=(drop)  # a rule that is not known any more\n\
             stage 20 L2\n  \
             priority=50, match=(eth_dst=02:00:00:00:00:01), action=(logical_delivery(port: \"blue-1\"))  \
             # datapath blue, switching.nlog:7\n  \
             priority=40, match=(eth_dst=02:00:00:00:00:01), action=(drop)  # datapath blue, switching.nlog:7\n"
        );
    }

    #[test]
    fn each_flow_is_a_line_of_json() {
        let text = to_json(&listing());
        let lines: Vec<Json> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            (&lines[0]["stage"], &lines[0]["rule"], lines[0].get("owner")),
            (&Json::Null, &Json::Null, None)
        );
        assert_eq!(
            lines[1],
            serde_json::json!({
                "table": 20, "stage": "L2", "priority": 50, "priority_name": null, "match": "eth_dst=02:00:00:00:00:01",
                "actions": null, "form": "logical_delivery", "rule": "switching.nlog:7", "owner": {"datapath": "blue"},
                "port": "blue-1",
            })
        );
    }
}
