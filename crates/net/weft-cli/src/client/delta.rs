//! What a change would do in switches, for `weft diff`.

use std::collections::BTreeMap;

use weft_client::pb::{FlowDelta, SwitchDelta};

/// About so many lines are for a person to read.
const LINES_MAX: usize = 40;

/// The delta in lines: its sum, then each host with its tables and rules.
pub(crate) fn to_text(delta: &SwitchDelta) -> String {
    if delta.switches == 0 {
        return "no switch changes\n".to_owned();
    }
    let others = match delta.others {
        0 => String::new(),
        others => format!("; others (groups, meters, ports): {others}"),
    };
    let switches = if delta.switches == 1 {
        "1 switch changes".to_owned()
    } else {
        format!("{} switches change", delta.switches)
    };
    let mut text = format!("{switches}; {}{others}\n", counts(delta.added, delta.replaced, delta.deleted));
    let mut hosts: BTreeMap<&str, Vec<&FlowDelta>> = BTreeMap::new();
    for flow in &delta.flows {
        hosts.entry(&flow.node).or_default().push(flow);
    }
    let (mut lines, mut left_out) = (0, delta.left_out);
    for (host, mut flows) in hosts {
        flows.sort_by(|a, b| (a.table_id, &a.derived_by).cmp(&(b.table_id, &b.derived_by)));
        for (number, flow) in flows.into_iter().enumerate() {
            if lines >= LINES_MAX {
                left_out += 1;
                continue;
            }
            if number == 0 {
                text += &format!("{host}\n");
            }
            let counts = counts(flow.added, flow.replaced, flow.deleted);
            text += &format!(
                "  table {}: {counts} by {}\n    {}\n",
                flow.table_id, flow.derived_by, flow.example
            );
            lines += 2;
        }
    }
    if left_out > 0 {
        text += &format!("and {left_out} more tables and rules (--json lists up to 1000)\n");
    }
    text
}

fn counts(added: u64, replaced: u64, deleted: u64) -> String {
    let parts = [(added, "new"), (replaced, "changed"), (deleted, "deleted")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    match parts.as_slice() {
        [] => "no flows".to_owned(),
        parts => format!("flows: {}", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_reads_by_host_and_is_cut_when_it_is_long() {
        assert_eq!(to_text(&SwitchDelta::default()), "no switch changes\n");
        let flow = |node: &str, table_id| FlowDelta {
            node: node.to_owned(),
            table_id,
            rule: 255,
            derived_by: "flow (acl/acls.nlog:7)".to_owned(),
            added: 2,
            example: "priority=7 actions=drop".to_owned(),
            ..FlowDelta::default()
        };
        let flows = vec![flow("hv1", 4), flow("hv1", 5), flow("hv2", 4)];
        let delta = SwitchDelta { flows, switches: 2, added: 6, others: 1, ..SwitchDelta::default() };
        assert_eq!(
            to_text(&delta),
            "2 switches change; flows: 6 new; others (groups, meters, ports): 1\n\
             hv1\n  table 4: flows: 2 new by flow (acl/acls.nlog:7)\n    priority=7 actions=drop\n  \
             table 5: flows: 2 new by flow (acl/acls.nlog:7)\n    priority=7 actions=drop\n\
             hv2\n  table 4: flows: 2 new by flow (acl/acls.nlog:7)\n    priority=7 actions=drop\n"
        );
        let many =
            SwitchDelta { flows: vec![flow("hv1", 4); 30], switches: 1, added: 60, ..SwitchDelta::default() };
        assert!(to_text(&many).ends_with("and 10 more tables and rules (--json lists up to 1000)\n"));
    }
}
