//! The packets that flows have counted for objects, and those that are dropped. The rules say which flows are whose
//! (`counter table`, [`DropCauses`]); the switches are asked for their counters ([`Plan`]) when somebody wants to know, or regularly for the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use switch_model::{Desired, FlowCount, FlowKey, MeterCount, ReadError};
use weft_client::pb;
use weft_core::core::Core;
use weft_core::derived::drop_causes::{Counters, DropCauses};
use weft_core::drops::Scope;
use weft_core::listings::{Counts, ToRead};
use weft_core::provenance::Provenance;
use weft_core::rules::Rules;
use weft_core::totals::{Count, Sample, Source, counts_of_flows, counts_of_meters};

use crate::answers::PartSender;
use crate::drivers::Asking;
use crate::surveys::{Surveys, ask_all, unread};

/// What somebody wants to know.
#[derive(Debug, Clone)]
pub(crate) enum Counted {
    /// Of an object: its kind and its id.
    Object(Arc<str>, String),
    /// What is dropped in the whole network.
    Network,
}

/// A question, and all that is needed to find the flows that answer it. It shares what it looks at with the engine, which goes on.
pub(crate) struct Counting {
    /// The flows that the rules name for the object.
    counted: BTreeSet<FlowKey>,
    scope: Scope,
    causes: Arc<DropCauses>,
    desired: BTreeMap<String, Arc<Desired>>,
    provenance: Provenance,
    rules: Arc<Rules>,
}

/// The flows and the meters of a host that answer a question.
#[derive(Debug, Default)]
struct OfHost {
    counted: BTreeSet<FlowKey>,
    dropping: Counters,
}

/// The flows and the meters that answer a question, by host.
pub(crate) struct Plan {
    /// How many flows the rules name for the object.
    flows: usize,
    /// Whether they say what drops its packets.
    drops: bool,
    causes: Arc<DropCauses>,
    /// Of each host that has some of them.
    hosts: BTreeMap<String, OfHost>,
}

impl Counting {
    /// What answers the question now.
    pub(crate) fn of(core: &Core, of: &Counted) -> Counting {
        let (counted, scope) = match of {
            Counted::Object(kind, id) => (core.flows_counted_for(kind, id), Scope::of(core, kind, id)),
            Counted::Network => (BTreeSet::new(), Scope::Network),
        };
        let causes = core.drop_causes().clone();
        let (desired, provenance) = (core.all_desired(), core.provenance());
        Counting { counted, scope, causes, desired, provenance, rules: core.rules().clone() }
    }

    /// Looks for the flows. Takes a while in a large network.
    pub(crate) fn plan(self) -> Plan {
        let Counting { counted, scope, causes, desired, provenance, rules } = self;
        let dropping = scope.counters(&causes, &desired, &provenance, &rules);
        let mut hosts: BTreeMap<String, OfHost> = BTreeMap::new();
        let drops = dropping.is_some();
        for (node, dropping) in dropping.into_iter().flatten().filter(|(_, counters)| !counters.is_empty()) {
            hosts.entry(node).or_default().dropping = dropping;
        }
        for (node, desired) in desired.iter().filter(|_| !counted.is_empty()) {
            let here: BTreeSet<FlowKey> =
                counted.iter().filter(|key| desired.flows.contains_key(*key)).cloned().collect();
            if !here.is_empty() {
                hosts.entry(node.clone()).or_default().counted = here;
            }
        }
        Plan { flows: counted.len(), drops, causes, hosts }
    }
}

impl Plan {
    /// What to read, by host.
    pub(crate) fn to_read(&self) -> BTreeMap<String, ToRead> {
        let to_read = |of: &OfHost| ToRead {
            flows: of.counted.union(&of.dropping.flows).cloned().collect(),
            meters: !of.dropping.meters.is_empty(),
            learned: None,
        };
        self.hosts.iter().map(|(node, of)| (node.clone(), to_read(of))).collect()
    }

    /// The causes of drops that the rules name, also those without a sentence.
    pub(crate) fn causes(&self) -> BTreeSet<Arc<str>> {
        let DropCauses { flows, meters, .. } = &*self.causes;
        let texts = self.causes.texts().map(|(cause, _)| cause.into());
        let of_flows = flows.values().map(|(_, cause)| cause.clone());
        texts.chain(of_flows).chain(meters.values().cloned()).collect()
    }

    /// Whether something is read on a host.
    pub(crate) fn has_host(&self, host: &str) -> bool {
        self.hosts.contains_key(host)
    }

    /// What a host has dropped, by flow or meter and cause. Those that it does not have have counted nothing.
    pub(crate) fn samples(&self, host: &str, counts: &Counts) -> Vec<Sample> {
        let Some(OfHost { dropping, .. }) = self.hosts.get(host) else { return Vec::new() };
        let sample = |source, owner: &Arc<str>, count: Option<&Count>| Sample {
            source,
            owner: owner.clone(),
            count: count.copied().unwrap_or_default(),
        };
        let (of_flows, of_meters) = (counts_of_flows(&counts.flows), counts_of_meters(&counts.meters));
        let flows = dropping.flows.iter().filter_map(|key| {
            let cause = self.causes.cause_of(key.table(), key.priority())?;
            Some(sample(Source::flow(key), cause, of_flows.get(key)))
        });
        let meters = dropping.meters.iter().filter_map(|meter| {
            Some(sample(Source::meter(*meter), self.causes.cause_of_meter(*meter)?, of_meters.get(meter)))
        });
        flows.chain(meters).collect()
    }

    /// Asks the switches, and sends the answer of each as it comes.
    pub(crate) async fn send(
        self,
        asked: Vec<(String, Asking<Counts>)>,
        surveys: Surveys,
        sender: PartSender<pb::CountFlowsResponse>,
    ) {
        let Plan { flows, drops, causes, hosts } = self;
        let cause =
            |(cause, text): (&str, &str)| pb::DropCause { cause: cause.to_owned(), text: text.to_owned() };
        let first = pb::CountFlowsResponse {
            flows: flows as u64,
            nodes: asked.len() as u64,
            drops,
            causes: if drops { causes.texts().map(cause).collect() } else { Vec::new() },
            ..Default::default()
        };
        if sender.send(Ok(first)).await.is_none() || asked.is_empty() {
            return;
        }
        let none = OfHost::default();
        ask_all(asked, surveys, sender, move |node, counts| {
            message(node, counts, hosts.get(node).unwrap_or(&none), &causes)
        })
        .await;
    }
}

/// The answer of one host.
fn message(
    node: &str,
    counts: Result<Counts, ReadError>,
    of: &OfHost,
    causes: &DropCauses,
) -> pb::CountFlowsResponse {
    let counts = match counts {
        Ok(counts) => counts,
        Err(error) => {
            return pb::CountFlowsResponse { unread: vec![unread(node, &error)], ..Default::default() };
        }
    };
    let (mut all, mut drops) =
        (pb::FlowCounts { node: node.to_owned(), ..Default::default() }, BTreeMap::new());
    let mut add = |cause, packets: u64, bytes: u64| {
        let Some(cause) = cause else { return };
        if packets > 0 {
            let dropped: &mut pb::DropCount = drops.entry(cause).or_default();
            dropped.packets = dropped.packets.saturating_add(packets);
            dropped.bytes = dropped.bytes.saturating_add(bytes);
        }
    };
    // A flow or a meter that the switch does not have yet has counted nothing.
    for FlowCount { key, packets, bytes } in &counts.flows {
        if of.counted.contains(key) {
            all.packets = all.packets.saturating_add(*packets);
            all.bytes = all.bytes.saturating_add(*bytes);
        }
        if of.dropping.flows.contains(key) {
            add(causes.cause_of(key.table(), key.priority()), *packets, *bytes);
        }
    }
    for MeterCount { meter, packets, bytes, .. } in &counts.meters {
        if of.dropping.meters.contains(meter) {
            add(causes.cause_of_meter(*meter), *packets, *bytes);
        }
    }
    let named = drops.into_iter().map(|(cause, count)| pb::DropCount { cause: cause.to_string(), ..count });
    all.drops = named.collect();
    pb::CountFlowsResponse { counts: vec![all], ..Default::default() }
}
