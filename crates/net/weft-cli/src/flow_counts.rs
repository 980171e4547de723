//! The packets that hosts have counted for an object, and those that they have dropped.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use weft_client::{Drops, FlowCounts};
use weft_core::shown;

/// The names of the members of the state in JSON.
const COUNTERS: &str = "counters";
const DROPS: &str = "drops";

/// Comments before the object; none if the rules count nothing for it.
pub(crate) fn to_comments(counts: &FlowCounts) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    if counts.flows > 0 {
        let (packets, bytes) = counts.total();
        let _ = writeln!(text, "# packets: {packets}\n# bytes: {bytes}");
    }
    for line in drops(counts).lines() {
        let _ = writeln!(text, "# {line}");
    }
    if counts.flows > 0 || counts.drops.is_some() {
        let _ = writeln!(text, "# counted on: {}", hosts(counts));
    }
    for unread in &counts.unread {
        let _ = writeln!(text, "# not counted: {}: {}", unread.node, shown(&unread.error));
    }
    text
}

/// What was dropped, the cause of most first, in lines; none if the rules do not say.
fn drops(counts: &FlowCounts) -> String {
    let Some(drops) = &counts.drops else { return String::new() };
    let mut causes: Vec<_> = drops.by_cause().collect();
    causes.sort_by_key(|(_, (packets, _))| std::cmp::Reverse(*packets));
    let all = causes.iter().fold(0_u64, |all, (_, (packets, _))| all.saturating_add(*packets));
    let mut text = format!("dropped: {all}\n");
    for (cause, (packets, _)) in causes {
        let _ = writeln!(
            text,
            "  {packets} {cause}: {}",
            shown(drops.causes.get(cause).map_or("", String::as_str))
        );
    }
    text
}

/// What was dropped in the whole network, and where that is not known.
pub(crate) fn network_drops(counts: &FlowCounts) -> String {
    if counts.drops.is_none() {
        return "dropped: not counted, because the rules do not say which flows drop packets\n".to_owned();
    }
    let mut text = drops(counts);
    let _ = writeln!(text, "counted on: {}", hosts(counts));
    for unread in &counts.unread {
        let _ = writeln!(text, "not counted: {}: {}", unread.node, shown(&unread.error));
    }
    text
}

/// How many hosts have counted.
fn hosts(counts: &FlowCounts) -> String {
    match (counts.counts.len(), counts.nodes) {
        (_, 0) => "no host, because no host has its flows".to_owned(),
        (1, 1) => "1 host".to_owned(),
        (answered, hosts) => format!("{answered} of {hosts} hosts"),
    }
}

/// The same as members of the state.
pub(crate) fn to_members(counts: &FlowCounts) -> Vec<(String, Json)> {
    let counters = (counts.flows > 0).then(|| (COUNTERS.to_owned(), counters(counts)));
    let drops = counts.drops.as_ref().map(|drops| (DROPS.to_owned(), drops_json(drops, counts)));
    counters.into_iter().chain(drops).collect()
}

fn counters(counts: &FlowCounts) -> Json {
    let (packets, bytes) = counts.total();
    let by_node = counts
        .counts
        .iter()
        .map(|(node, (packets, bytes))| json!({"node": node, "packets": packets, "bytes": bytes}));
    let nodes: Vec<Json> = by_node.chain(unread(counts)).collect();
    json!({"packets": packets, "bytes": bytes, "nodes": nodes})
}

/// What was dropped: by cause, and of each cause by host.
fn drops_json(drops: &Drops, counts: &FlowCounts) -> Json {
    let causes: Vec<Json> = drops
        .by_cause()
        .map(|(cause, (packets, bytes))| {
            let by_node = drops.counts.get(cause).into_iter().flatten();
            let nodes: Vec<Json> = by_node
                .map(|(node, (packets, bytes))| json!({"node": node, "packets": packets, "bytes": bytes}))
                .collect();
            let text = drops.causes.get(cause);
            json!({"cause": cause, "text": text, "packets": packets, "bytes": bytes, "nodes": nodes})
        })
        .collect();
    let packets = drops.by_cause().fold(0_u64, |all, (_, (packets, _))| all.saturating_add(packets));
    let unread: Vec<Json> = unread(counts).collect();
    json!({"packets": packets, "causes": causes, "nodes": counts.nodes, "unread": unread})
}

/// What was dropped in the whole network; null if the rules do not say.
pub(crate) fn network_drops_json(counts: &FlowCounts) -> Json {
    counts.drops.as_ref().map_or(Json::Null, |drops| drops_json(drops, counts))
}

fn unread(counts: &FlowCounts) -> impl Iterator<Item = Json> {
    counts.unread.iter().map(|unread| json!({"node": unread.node, "error": unread.error}))
}

#[cfg(test)]
mod tests {
    use weft_client::pb::UnreadSwitch;

    use super::*;

    fn counts_of_three() -> FlowCounts {
        FlowCounts {
            flows: 3,
            nodes: 3,
            counts: [("hv1".to_owned(), (5, 500)), ("hv2".to_owned(), (1, 60))].into(),
            unread: vec![UnreadSwitch { node: "hv3".into(), error: "the switch is not connected".into() }],
            drops: None,
        }
    }

    fn dropped() -> FlowCounts {
        let cause = |cause: &str, text: &str| (cause.to_owned(), text.to_owned());
        let on = |host: &str, packets| (host.to_owned(), (packets, packets * 100));
        let drops = Drops {
            causes: [cause("acl", "an ACL drops it"), cause("no-route", "no route"), cause("no-way", "-")]
                .into(),
            counts: [
                ("acl".to_owned(), [on("hv1", 1)].into()),
                ("no-route".to_owned(), [on("hv1", 2), on("hv2", 3)].into()),
            ]
            .into(),
        };
        let counts = [("hv1".to_owned(), (0, 0)), ("hv2".to_owned(), (0, 0))].into();
        FlowCounts { flows: 0, counts, drops: Some(drops), ..counts_of_three() }
    }

    #[test]
    fn drops_are_told_by_cause_the_most_first() {
        let lines = "\
dropped: 6
  5 no-route: no route
  1 acl: an ACL drops it
counted on: 2 of 3 hosts
not counted: hv3: the switch is not connected
";
        assert_eq!(network_drops(&dropped()), lines);
        let comments = to_comments(&dropped());
        assert!(comments.lines().eq(lines.lines().map(|line| format!("# {line}"))), "{comments}");
        assert!(network_drops(&FlowCounts::default()).starts_with("dropped: not counted"));
        let on = |node: &str, packets: u64| json!({"node": node, "packets": packets, "bytes": packets * 100});
        let expected = json!({
            "packets": 6, "nodes": 3, "unread": [{"node": "hv3", "error": "the switch is not connected"}],
            "causes": [
                {"cause": "acl", "text": "an ACL drops it", "packets": 1, "bytes": 100, "nodes": [on("hv1", 1)]},
                {"cause": "no-route", "text": "no route", "packets": 5, "bytes": 500,
                    "nodes": [on("hv1", 2), on("hv2", 3)]},
            ],
        });
        assert_eq!(to_members(&dropped()), [("drops".to_owned(), expected)]);
    }

    #[test]
    fn the_sum_and_the_hosts_that_are_missing_in_it_are_told() {
        let expected = "\
# packets: 6
# bytes: 560
# counted on: 2 of 3 hosts
# not counted: hv3: the switch is not connected
";
        assert_eq!(to_comments(&counts_of_three()), expected);
        assert_eq!(to_comments(&FlowCounts::default()), "");
        let nowhere = FlowCounts { flows: 1, ..FlowCounts::default() };
        assert!(to_comments(&nowhere).ends_with("# counted on: no host, because no host has its flows\n"));
    }

    #[test]
    fn as_json_each_host_has_its_own_counters() {
        let expected = json!({"packets": 6, "bytes": 560, "nodes": [
            {"node": "hv1", "packets": 5, "bytes": 500},
            {"node": "hv2", "packets": 1, "bytes": 60},
            {"node": "hv3", "error": "the switch is not connected"},
        ]});
        assert_eq!(to_members(&counts_of_three()), [("counters".to_owned(), expected)]);
        assert_eq!(to_members(&FlowCounts::default()), []);
    }
}
