//! The packets that flows have counted for objects. The rules say which flows are whose ([`CountedFlows`]); the switches are
//! asked for their counters ([`CountSurvey`]) when somebody wants to know. Nothing is kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use nlog_data::{Canonical, Committed, Row, Value};
use openflow_rs::Match;
use ovs_driver::{FlowCount, FlowKey, ReadError};

use crate::answers::PartSender;
use crate::core::Core;
use crate::fleet::{Asking, Fleet};
use crate::learned::{Surveys, ask_all, unread};
use crate::pb;
use crate::rules::Rules;

/// Kind and id of an object.
type Named = (Arc<str>, Arc<str>);
/// Table, priority and match of a flow.
type Place = (u8, u16, Arc<Canonical<Match>>);

/// What the rules say of counters.
#[derive(Debug, Default)]
pub(crate) struct CountedFlows {
    /// The flows of each object that has some.
    objects: HashMap<Named, BTreeSet<Place>>,
}

impl CountedFlows {
    /// Applies the changes of the rules' table.
    pub(crate) fn apply(&mut self, committed: &Committed, rules: &Rules) {
        let Some(delta) = rules.counted_flows.and_then(|table| committed.delta.tables.get(&table)) else {
            return;
        };
        for (object, place) in delta.delete.iter().filter_map(counted_flow) {
            if let Some(places) = self.objects.get_mut(&object) {
                places.remove(&place);
                if places.is_empty() {
                    self.objects.remove(&object);
                }
            }
        }
        for (object, place) in delta.insert.iter().filter_map(counted_flow) {
            self.objects.entry(object).or_default().insert(place);
        }
    }

    /// The flows of an object, as switches have them.
    fn keys_of(&self, kind: &str, id: &str) -> BTreeSet<FlowKey> {
        let places = self.objects.get(&(Arc::from(kind), Arc::from(id))).into_iter().flatten();
        // No switch has a flow whose match is too long.
        places.filter_map(|(table, priority, of)| FlowKey::new(*table, *priority, &of.get()).ok()).collect()
    }
}

/// A row; `None` if no switch can have such a flow.
fn counted_flow(row: &Row) -> Option<(Named, Place)> {
    let [
        Value::String(kind),
        Value::String(id),
        Value::Int(table),
        Value::Int(priority),
        Value::Match(matching),
    ] = row.as_slice()
    else {
        return None;
    };
    let place = (u8::try_from(*table).ok()?, u16::try_from(*priority).ok()?, matching.clone());
    Some(((kind.clone(), id.clone()), place))
}

/// The question what the flows of an object have counted, not asked yet.
pub(crate) struct CountSurvey {
    /// How many flows the rules name.
    flows: usize,
    /// Of each host that has some of them.
    hosts: Vec<(String, Asking<Vec<FlowCount>>)>,
}

impl CountSurvey {
    /// Of the object of this kind with this id. Without any flow, no switch is asked.
    pub(crate) fn of(core: &Core, fleet: &Fleet, kind: &str, id: &str) -> CountSurvey {
        let keys = core.counted_flows().keys_of(kind, id);
        let nodes = if keys.is_empty() { None } else { Some(fleet.nodes()) };
        let host = |node: &str| {
            let desired = core.desired(node);
            let here: Vec<FlowKey> =
                keys.iter().filter(|key| desired.flows.contains_key(*key)).cloned().collect();
            (!here.is_empty()).then(|| (node.to_owned(), fleet.flow_counts(node, here)))
        };
        CountSurvey { flows: keys.len(), hosts: nodes.into_iter().flatten().filter_map(host).collect() }
    }

    /// Asks the switches, and sends the answer of each as it comes.
    pub(crate) async fn send(self, surveys: Surveys, sender: PartSender<pb::CountFlowsResponse>) {
        let CountSurvey { flows, hosts } = self;
        let first =
            pb::CountFlowsResponse { flows: flows as u64, hosts: hosts.len() as u64, ..Default::default() };
        if sender.send(Ok(first)).await.is_none() || hosts.is_empty() {
            return;
        }
        ask_all(hosts, surveys, sender, message).await;
    }
}

/// The answer of one host.
fn message(node: &str, counts: Result<Vec<FlowCount>, ReadError>) -> pb::CountFlowsResponse {
    let counts = match counts {
        Ok(counts) => counts,
        Err(error) => {
            return pb::CountFlowsResponse { unread: vec![unread(node, &error)], ..Default::default() };
        }
    };
    // A flow that the switch does not have yet has counted nothing.
    let sum = |of: fn(&FlowCount) -> u64| counts.iter().map(of).fold(0, u64::saturating_add);
    let counts = pb::FlowCounts {
        node: node.to_owned(),
        packets: sum(|count| count.packets),
        bytes: sum(|count| count.bytes),
    };
    pb::CountFlowsResponse { counts: vec![counts], ..Default::default() }
}

/// The packets that the flows of an object have counted, of all hosts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowCounts {
    /// How many flows the rules name for the object; none have counters if it is 0.
    pub flows: u64,
    /// The number of hosts with some of them.
    pub hosts: u64,
    /// The counters of each host that has answered, in order.
    pub counts: BTreeMap<String, (u64, u64)>,
    /// The hosts of which nothing is known, in order.
    pub unread: Vec<pb::UnreadSwitch>,
}

impl FlowCounts {
    /// Adds a part of the answer.
    pub(crate) fn add(&mut self, part: pb::CountFlowsResponse) {
        self.flows += part.flows;
        self.hosts += part.hosts;
        self.counts.extend(part.counts.into_iter().map(|host| (host.node, (host.packets, host.bytes))));
        self.unread.extend(part.unread);
        self.unread.sort_by(|a, b| a.node.cmp(&b.node));
    }

    /// All packets and all bytes.
    pub fn total(&self) -> (u64, u64) {
        self.counts.values().fold((0, 0), |(packets, bytes), (more_packets, more_bytes)| {
            (packets.saturating_add(*more_packets), bytes.saturating_add(*more_bytes))
        })
    }
}
