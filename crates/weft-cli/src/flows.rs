//! The flows and tunnels of a switch, with the rules that they came from.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use controller::client::Flows;
use controller::pb::{Flow, Rule};

/// Flows in the order of the pipeline, each run of them under its rule; then tunnels.
pub(crate) fn to_text(flows: &Flows) -> String {
    let rules = Rules::new(flows);
    let mut text = String::new();
    let mut last = None;
    for flow in &flows.flows {
        let source = (flow.cookie, flow.origin);
        if last != Some(source) {
            last = Some(source);
            text += &heading(&rules, flow);
        }
        let comma = if flow.r#match.is_empty() { "" } else { "," };
        let Flow { table_id, priority, r#match, actions, .. } = flow;
        let _ = writeln!(text, "    table={table_id},priority={priority}{comma}{match} actions={actions}");
    }
    for tunnel in &flows.tunnels {
        let _ = writeln!(text, "tunnel port {}: {}, remote {}", tunnel.name, tunnel.encap, tunnel.remote);
    }
    text
}

fn heading(rules: &Rules, flow: &Flow) -> String {
    let Some(place) = rules.place(flow.cookie) else {
        return "a rule that is not known any more\n".to_owned();
    };
    let cookie = flow.cookie;
    match flow.origin.and_then(|origin| rules.place(origin)) {
        Some(logical) => format!("{logical}, placed by {place} (cookie {cookie:#x})\n"),
        None => format!("{place} (cookie {cookie:#x})\n"),
    }
}

/// The same, a JSON object a line.
pub(crate) fn to_json(flows: &Flows) -> String {
    let rules = Rules::new(flows);
    let mut text = String::new();
    for flow in &flows.flows {
        let object = serde_json::json!({
            "table": flow.table_id,
            "priority": flow.priority,
            "match": flow.r#match,
            "actions": flow.actions,
            "cookie": format!("{:#x}", flow.cookie),
            "rule": rules.place(flow.cookie),
            "logical_rule": flow.origin.and_then(|origin| rules.place(origin)),
        });
        let _ = writeln!(text, "{object}");
    }
    for tunnel in &flows.tunnels {
        let object =
            serde_json::json!({"tunnel": tunnel.name, "encap": tunnel.encap, "remote": tunnel.remote});
        let _ = writeln!(text, "{object}");
    }
    text
}

/// Rules by fingerprint.
struct Rules<'a>(BTreeMap<u64, &'a Rule>);

impl<'a> Rules<'a> {
    fn new(flows: &'a Flows) -> Self {
        Rules(flows.rules.iter().map(|rule| (rule.fingerprint, rule)).collect())
    }

    /// File and line.
    fn place(&self, fingerprint: u64) -> Option<String> {
        self.0.get(&fingerprint).map(|rule| format!("{}:{}", rule.file, rule.line))
    }
}
