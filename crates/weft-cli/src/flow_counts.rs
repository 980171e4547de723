//! The packets that hosts have counted for an object.

use std::fmt::Write as _;

use controller::client::FlowCounts;
use serde_json::{Value as Json, json};

/// The name of the member of the state in JSON.
const MEMBER: &str = "counters";

/// Comments before the object; none if the rules count nothing for it.
pub(crate) fn to_comments(counts: &FlowCounts) -> String {
    let mut text = String::new();
    if counts.flows == 0 {
        return text;
    }
    let (packets, bytes) = counts.total();
    // Writing to a string does not fail.
    let _ = writeln!(text, "# packets: {packets}\n# bytes: {bytes}\n# counted on: {}", hosts(counts));
    for unread in &counts.unread {
        let _ = writeln!(text, "# not counted: {}: {}", unread.node, unread.error);
    }
    text
}

/// How many hosts have counted.
fn hosts(counts: &FlowCounts) -> String {
    match (counts.counts.len(), counts.hosts) {
        (_, 0) => "no host, because none has its flows".to_owned(),
        (1, 1) => "1 host".to_owned(),
        (answered, hosts) => format!("{answered} of {hosts} hosts"),
    }
}

/// The same as a member of the state.
pub(crate) fn to_member(counts: &FlowCounts) -> Option<(String, Json)> {
    let (packets, bytes) = counts.total();
    let by_host = counts
        .counts
        .iter()
        .map(|(host, (packets, bytes))| json!({"host": host, "packets": packets, "bytes": bytes}));
    let unread = counts.unread.iter().map(|unread| json!({"host": unread.node, "error": unread.error}));
    let hosts: Vec<Json> = by_host.chain(unread).collect();
    let member = json!({"packets": packets, "bytes": bytes, "hosts": hosts});
    (counts.flows > 0).then(|| (MEMBER.to_owned(), member))
}

#[cfg(test)]
mod tests {
    use controller::pb::UnreadSwitch;

    use super::*;

    fn counts() -> FlowCounts {
        FlowCounts {
            flows: 3,
            hosts: 3,
            counts: [("hv1".to_owned(), (5, 500)), ("hv2".to_owned(), (1, 60))].into(),
            unread: vec![UnreadSwitch { node: "hv3".into(), error: "the switch is not connected".into() }],
        }
    }

    #[test]
    fn the_sum_and_the_hosts_that_are_missing_in_it_are_told() {
        let expected = "\
# packets: 6
# bytes: 560
# counted on: 2 of 3 hosts
# not counted: hv3: the switch is not connected
";
        assert_eq!(to_comments(&counts()), expected);
        assert_eq!(to_comments(&FlowCounts::default()), "");
        let nowhere = FlowCounts { flows: 1, ..FlowCounts::default() };
        assert!(to_comments(&nowhere).ends_with("# counted on: no host, because none has its flows\n"));
    }

    #[test]
    fn as_json_each_host_has_its_own_counters() {
        let expected = json!({"packets": 6, "bytes": 560, "hosts": [
            {"host": "hv1", "packets": 5, "bytes": 500},
            {"host": "hv2", "packets": 1, "bytes": 60},
            {"host": "hv3", "error": "the switch is not connected"},
        ]});
        assert_eq!(to_member(&counts()), Some(("counters".to_owned(), expected)));
        assert_eq!(to_member(&FlowCounts::default()), None);
    }
}
