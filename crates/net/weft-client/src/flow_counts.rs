//! What the flows of an object have counted, and what was dropped of it.

use std::collections::BTreeMap;

use crate::pb;

/// The packets that the flows of an object have counted, of all hosts, and those that were dropped.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowCounts {
    /// How many flows the rules name for the object; none have counters if it is 0.
    pub flows: u64,
    /// The number of hosts with flows that count.
    pub nodes: u64,
    /// The counters of each host that has answered, in order.
    pub counts: BTreeMap<String, (u64, u64)>,
    /// The hosts of which nothing is known, in order.
    pub unread: Vec<pb::UnreadSwitch>,
    /// What was dropped; none if the rules do not say which flows drop packets of the object.
    pub drops: Option<Drops>,
}

/// The packets that were dropped.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Drops {
    /// The sentence of each cause that there is.
    pub causes: BTreeMap<String, String>,
    /// By cause and host, packets and bytes. What has dropped nothing is left out.
    pub counts: BTreeMap<String, BTreeMap<String, (u64, u64)>>,
}

impl Drops {
    /// The packets and the bytes that were dropped, by cause.
    pub fn by_cause(&self) -> impl Iterator<Item = (&str, (u64, u64))> {
        self.counts.iter().map(|(cause, hosts)| (cause.as_str(), sum(hosts.values())))
    }
}

fn sum<'a>(counts: impl Iterator<Item = &'a (u64, u64)>) -> (u64, u64) {
    counts.fold((0, 0), |(packets, bytes), (more_packets, more_bytes)| {
        (packets.saturating_add(*more_packets), bytes.saturating_add(*more_bytes))
    })
}

impl FlowCounts {
    /// Adds a part of the answer.
    pub(crate) fn add(&mut self, part: pb::CountFlowsResponse) {
        self.flows += part.flows;
        self.nodes += part.nodes;
        if part.drops {
            let causes = part.causes.into_iter().map(|cause| (cause.cause, cause.text));
            self.drops.get_or_insert_default().causes.extend(causes);
        }
        for host in part.counts {
            for drop in host.drops {
                let counts = &mut self.drops.get_or_insert_default().counts;
                let of_cause = counts.entry(drop.cause).or_default();
                of_cause.insert(host.node.clone(), (drop.packets, drop.bytes));
            }
            self.counts.insert(host.node, (host.packets, host.bytes));
        }
        self.unread.extend(part.unread);
        self.unread.sort_by(|a, b| a.node.cmp(&b.node));
    }

    /// All packets and all bytes of the flows that the rules name for the object.
    pub fn total(&self) -> (u64, u64) {
        sum(self.counts.values())
    }
}
