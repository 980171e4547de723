//! The flows, groups and ports of a switch, with the rules that derive them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weft_client::Flows;
use weft_client::pb::{Flow, Rule};
use weft_core::shown;

/// Flows in pipeline order, grouped by rule; then buckets in the same way, and ports.
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
    let mut last = None;
    for bucket in &flows.buckets {
        let group = (bucket.group, bucket.rule);
        if last != Some(group) {
            last = Some(group);
            let place =
                rules.place(bucket.rule).unwrap_or_else(|| "a rule that is not known any more".to_owned());
            let comma = if bucket.choice.is_empty() { "" } else { ", " };
            let _ = writeln!(text, "group {}{comma}{}: {place}", bucket.group, bucket.choice);
        }
        let _ = write!(text, "    bucket={}", bucket.bucket);
        let watched = [("watch_port", bucket.watch_port), ("watch_group", bucket.watch_group)];
        for (name, value) in [("weight", bucket.weight)].into_iter().chain(watched) {
            if value != 0 {
                let _ = write!(text, ",{name}={value}");
            }
        }
        let _ = writeln!(text, " actions={}", bucket.actions);
    }
    for tunnel in &flows.tunnels {
        let _ = write!(
            text,
            "tunnel port {}: {}, remote {}",
            shown(&tunnel.name),
            tunnel.encap,
            shown(&tunnel.remote)
        );
        if tunnel.bfd_interval != 0 {
            let _ = write!(text, ", BFD each {} ms", tunnel.bfd_interval);
        }
        text.push('\n');
    }
    for patch in &flows.patches {
        let _ = writeln!(
            text,
            "patch port {}: to {} of {}",
            shown(&patch.name),
            shown(&patch.peer),
            shown(&patch.bridge)
        );
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

/// The flows, groups and ports as JSON, one object per line.
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
    for bucket in &flows.buckets {
        let mut object = serde_json::json!({
            "group": bucket.group,
            "bucket": bucket.bucket,
            "actions": bucket.actions,
            "rule": rules.place(bucket.rule),
        });
        if !bucket.choice.is_empty() {
            object["choice"] = bucket.choice.as_str().into();
            object["weight"] = bucket.weight.into();
            object["watch_port"] = bucket.watch_port.into();
            object["watch_group"] = bucket.watch_group.into();
        }
        let _ = writeln!(text, "{object}");
    }
    for patch in &flows.patches {
        let object = serde_json::json!({"patch": patch.name, "bridge": patch.bridge, "peer": patch.peer});
        let _ = writeln!(text, "{object}");
    }
    for tunnel in &flows.tunnels {
        let mut object =
            serde_json::json!({"tunnel": tunnel.name, "encap": tunnel.encap, "remote": tunnel.remote});
        if tunnel.bfd_interval != 0 {
            object["bfd_interval"] = tunnel.bfd_interval.into();
        }
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

#[cfg(test)]
mod tests {
    use weft_client::pb::{Bucket, Patch, Tunnel};

    use super::*;

    fn listing() -> Flows {
        let rule = |fingerprint, line| Rule {
            fingerprint,
            file: "rules/physical/replication.nlog".to_owned(),
            line,
            column: 1,
            text: String::new(),
        };
        let bucket = |group, bucket, rule| Bucket {
            group,
            bucket,
            rule,
            actions: "resubmit(,40)".to_owned(),
            ..Bucket::default()
        };
        let chosen = Bucket {
            choice: "select by ip_src, tcp_dst".to_owned(),
            weight: 2,
            watch_port: 9,
            watch_group: 1,
            ..bucket(9, 1, 2)
        };
        let tunnel = |name: &str, remote: &str, bfd_interval| Tunnel {
            name: name.into(),
            encap: "geneve".into(),
            remote: remote.into(),
            bfd_interval,
        };
        Flows {
            flows: vec![Flow {
                table_id: 20,
                priority: 5,
                actions: "group:7".to_owned(),
                cookie: 1,
                ..Flow::default()
            }],
            buckets: vec![bucket(7, 0, 2), bucket(7, 3, 2), bucket(8, 1, 3), chosen],
            tunnels: vec![tunnel("g", "flow", 0), tunnel("h", "172.16.0.2", 500)],
            patches: vec![Patch { name: "p".into(), bridge: "br-phys".into(), peer: "q".into() }],
            rules: vec![rule(1, 10), rule(2, 20)],
        }
    }

    #[test]
    fn buckets_stand_under_their_group_and_rule() {
        assert_eq!(
            to_text(&listing()),
            "rules/physical/replication.nlog:10 (cookie 0x1)\n    \
             table=20,priority=5 actions=group:7\n\
             group 7: rules/physical/replication.nlog:20\n    \
             bucket=0 actions=resubmit(,40)\n    \
             bucket=3 actions=resubmit(,40)\n\
             group 8: a rule that is not known any more\n    \
             bucket=1 actions=resubmit(,40)\n\
             group 9, select by ip_src, tcp_dst: rules/physical/replication.nlog:20\n    \
             bucket=1,weight=2,watch_port=9,watch_group=1 actions=resubmit(,40)\n\
             tunnel port g: geneve, remote flow\n\
             tunnel port h: geneve, remote 172.16.0.2, BFD each 500 ms\n\
             patch port p: to q of br-phys\n"
        );
    }

    #[test]
    fn each_thing_is_a_line_of_json() {
        let text = to_json(&listing());
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), 8);
        assert_eq!(
            lines[1],
            serde_json::json!({
                "group": 7, "bucket": 0, "actions": "resubmit(,40)", "rule": "rules/physical/replication.nlog:20",
            })
        );
        assert_eq!(lines[3]["rule"], serde_json::Value::Null);
        assert_eq!(
            lines[4],
            serde_json::json!({
                "group": 9, "bucket": 1, "actions": "resubmit(,40)", "rule": "rules/physical/replication.nlog:20",
                "choice": "select by ip_src, tcp_dst", "weight": 2, "watch_port": 9, "watch_group": 1,
            })
        );
        assert_eq!(lines[5], serde_json::json!({"patch": "p", "bridge": "br-phys", "peer": "q"}));
        assert_eq!(lines[6], serde_json::json!({"tunnel": "g", "encap": "geneve", "remote": "flow"}));
        assert_eq!(
            lines[7],
            serde_json::json!({"tunnel": "h", "encap": "geneve", "remote": "172.16.0.2", "bfd_interval": 500})
        );
    }
}
