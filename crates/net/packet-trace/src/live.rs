//! The flows that a packet meets, compared with those that the switches have.

use std::collections::{BTreeMap, BTreeSet};

use flow_simulator::FlowKey;
use flow_simulator::trace::{Step, What};
use nlog_data::quotation::shown;
use openflow_rs::{Action, Field, FlowEntry};
use serde_json::{Value as Json, json};

use crate::{Network, Trace};

/// A look-up of a packet, with all that a comparison needs.
#[derive(Debug, Clone)]
pub struct Met {
    /// The host.
    pub host: String,
    /// The table.
    pub table: u8,
    /// Its name.
    pub stage: String,
    /// The packet's fields at that point.
    pub key: FlowKey,
    /// The flow that it met, which the switch is to have; none if it met none.
    pub flow: Option<FlowEntry>,
}

/// A flow of a switch, and what it has counted.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The flow.
    pub entry: FlowEntry,
    /// Packets that met it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Whose flow it is that a switch has and the controller does not want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowOwner {
    /// The controller's, of an earlier state.
    Stale,
    /// The switch has learned it.
    Learned,
    /// Somebody else's.
    Foreign,
}

/// A comparison of all look-ups.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// The look-ups of the hosts that could be read, in order, each flow once.
    pub steps: Vec<Compared>,
    /// The hosts that could not be read, and why.
    pub unread: Vec<(String, String)>,
}

/// A look-up, compared.
#[derive(Debug, Clone)]
pub struct Compared {
    /// The host.
    pub host: String,
    /// The table.
    pub table: u8,
    /// Its name.
    pub stage: String,
    /// The flow that the switch is to have, as `ovs-ofctl` prints it; none if the packet met none.
    pub wanted: Option<String>,
    /// How the switch has it; none if it does not.
    pub there: Option<Seen>,
    /// Whether its actions are others there.
    pub is_changed: bool,
    /// The flow that takes the packet there instead.
    pub taken_by: Option<(FlowOwner, Seen)>,
}

impl Compared {
    /// Whether the switch treats the packet as it should.
    pub fn is_as_wanted(&self) -> bool {
        self.there.is_some() == self.wanted.is_some() && !self.is_changed && self.taken_by.is_none()
    }
}

impl Network {
    /// The look-ups on a host, in order.
    pub(crate) fn met(&self, host: &str, steps: &[Step], met: &mut Vec<Met>) {
        for step in steps {
            if let What::Lookup { table, entry, key } = &step.what {
                let stage = self.names.stage(*table);
                let flow = entry.as_deref().cloned();
                met.push(Met { host: host.to_owned(), table: *table, stage, key: (**key).clone(), flow });
            }
            self.met(host, &step.within, met);
        }
    }
}

/// The tables that a packet met, by host.
pub fn tables(met: &[Met]) -> BTreeMap<String, BTreeSet<u8>> {
    let mut tables: BTreeMap<String, BTreeSet<u8>> = BTreeMap::new();
    for met in met {
        tables.entry(met.host.clone()).or_default().insert(met.table);
    }
    tables
}

/// Compares look-ups with the flows of these tables as the switches have them, or why they cannot be read. `whose` says of a flow
/// of a host whose it is; none if the host is to have it.
pub fn compare(
    met: &[Met],
    seen: &BTreeMap<String, Result<Vec<Seen>, String>>,
    whose: &dyn Fn(&str, &FlowEntry) -> Option<FlowOwner>,
) -> Live {
    let mut live = Live::default();
    let mut told: BTreeSet<(String, u8, Option<String>)> = BTreeSet::new();
    for (host, flows) in seen {
        if let Err(why) = flows {
            live.unread.push((host.clone(), why.clone()));
        }
    }
    for met in met {
        let Some(Ok(flows)) = seen.get(&met.host) else { continue };
        let wanted = met.flow.as_ref().map(ToString::to_string);
        if !told.insert((met.host.clone(), met.table, wanted.clone())) {
            continue;
        }
        let flows: Vec<&Seen> = flows.iter().filter(|seen| seen.entry.table == met.table).collect();
        let is_same = |seen: &&&Seen| met.flow.as_ref().is_some_and(|flow| same_flow(flow, &seen.entry));
        let there = flows.iter().find(is_same).map(|seen| (*seen).clone());
        let is_changed = met.flow.as_ref().zip(there.as_ref()).is_some_and(|(flow, there)| {
            flow.actions.clone().canonical() != there.entry.actions.clone().canonical()
        });
        let least = met.flow.as_ref().map(|flow| flow.priority);
        let takes = |seen: &&&Seen| {
            least.is_none_or(|least| seen.entry.priority >= least)
                && admits(&seen.entry, &met.key)
                && met.flow.as_ref().is_none_or(|flow| !same_flow(flow, &seen.entry))
        };
        let takers = flows.iter().filter(takes).max_by_key(|seen| seen.entry.priority);
        let taken_by = takers.and_then(|seen| Some((whose(&met.host, &seen.entry)?, (*seen).clone())));
        let (host, table, stage) = (met.host.clone(), met.table, met.stage.clone());
        live.steps.push(Compared { host, table, stage, wanted, there, is_changed, taken_by });
    }
    live
}

fn same_flow(one: &FlowEntry, other: &FlowEntry) -> bool {
    one.priority == other.priority && one.matches == other.matches
}

/// Whether a flow takes packets with these fields. A flow that only belongs to a conjunction takes none by itself.
fn admits(flow: &FlowEntry, key: &FlowKey) -> bool {
    let is_clause = flow.actions.0.iter().any(|action| matches!(action, Action::Conjunction(_)));
    let mut demands = flow.matches.iter();
    !is_clause && demands.all(|demand| key.get(demand.field) & demand.mask == demand.value)
}

/// One line for the verdict if the switches do not do what they are to do; none if they were not asked.
pub(crate) fn warning(trace: &Trace) -> Option<String> {
    let live = trace.live.as_ref()?;
    let hosts: BTreeSet<&str> =
        live.steps.iter().filter(|step| !step.is_as_wanted()).map(|step| &*step.host).collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    (!hosts.is_empty()).then(|| {
        format!("but the flows of {} differ from what they are to be: see the end", hosts.join(", "))
    })
}

/// The comparison as lines. With `verbose`, all flows with their counters, and how to ask Open vSwitch itself.
pub(crate) fn lines(trace: &Trace, verbose: bool) -> Vec<String> {
    let Some(live) = &trace.live else { return Vec::new() };
    let mut lines = vec!["on the switches now:".to_owned()];
    let mut hosts: Vec<&str> = live.steps.iter().map(|step| &*step.host).collect();
    hosts.dedup();
    let mut told = BTreeSet::new();
    for host in hosts.into_iter().filter(|host| told.insert(*host)) {
        let steps: Vec<&Compared> = live.steps.iter().filter(|step| step.host == host).collect();
        let wanted = steps.iter().filter(|step| step.wanted.is_some()).count();
        let there = steps.iter().filter(|step| step.there.is_some() && !step.is_changed).count();
        let last = steps.iter().rev().find_map(|step| step.there.as_ref());
        let counted = last.map_or(String::new(), |seen| {
            format!("; the last one that is there has counted {}", packets(seen.packets))
        });
        lines.push(format!(
            "    {host}: {there} of the {wanted} flows that the packet meets are there{counted}"
        ));
        for step in steps.iter().filter(|step| verbose || !step.is_as_wanted()) {
            lines.extend(step_lines(step).into_iter().map(|line| format!("        {line}")));
        }
    }
    lines.extend(live.unread.iter().map(|(host, why)| format!("    {host} cannot be read: {}", shown(why))));
    if let Some(first) = trace.met.first().filter(|_| verbose) {
        let port = first.key.get(Field::InPort);
        lines.push(format!("    Open vSwitch's own trace, to be run on {}:", first.host));
        lines.push(format!("        ovs-appctl ofproto/trace br-int 'in_port={port},{}'", trace.packet));
    }
    lines
}

fn step_lines(step: &Compared) -> Vec<String> {
    let head = format!("{:2} {}", step.table, step.stage);
    let mut lines = Vec::new();
    match (&step.wanted, &step.there) {
        (Some(wanted), None) => lines.push(format!("{head}: missing: {wanted}")),
        (Some(wanted), Some(there)) if step.is_changed => {
            lines.push(format!("{head}: changed: {}", there.entry));
            lines.push(format!("    it should be: {wanted}"));
        }
        (Some(wanted), Some(there)) => {
            lines.push(format!("{head}: {wanted}, which has counted {}", packets(there.packets)));
        }
        (None, _) if step.taken_by.is_none() => lines.push(format!("{head}: no flow, as here")),
        (None, _) => {}
    }
    if let Some((whose, seen)) = &step.taken_by {
        let whose = match whose {
            FlowOwner::Stale => "a stale flow of the controller",
            FlowOwner::Learned => "a flow that the switch has learned",
            FlowOwner::Foreign => "a foreign flow",
        };
        let counted = packets(seen.packets);
        lines.push(format!("{head}: {whose} takes the packet: {}; it has counted {counted}", seen.entry));
    }
    lines
}

fn packets(count: u64) -> String {
    if count == 1 { "1 packet".to_owned() } else { format!("{count} packets") }
}

/// The comparison for programs; null if the switches were not asked.
pub(crate) fn to_json(trace: &Trace) -> Json {
    let Some(live) = &trace.live else { return Json::Null };
    let seen =
        |seen: &Seen| json!({"flow": seen.entry.to_string(), "packets": seen.packets, "bytes": seen.bytes});
    let step = |step: &Compared| {
        let taken_by = step.taken_by.as_ref().map(|(whose, taker)| {
            let mut object = seen(taker);
            object["whose"] = json!(match whose {
                FlowOwner::Stale => "stale",
                FlowOwner::Learned => "learned",
                FlowOwner::Foreign => "foreign",
            });
            object
        });
        json!({
            "node": step.host,
            "table": step.table,
            "stage": step.stage,
            "as_wanted": step.is_as_wanted(),
            "wanted": step.wanted,
            "there": step.there.as_ref().map(seen),
            "taken_by": taken_by,
        })
    };
    let unread = |(host, why): &(String, String)| json!({"node": host, "why": why});
    json!({
        "steps": live.steps.iter().map(step).collect::<Vec<_>>(),
        "unread": live.unread.iter().map(unread).collect::<Vec<_>>(),
    })
}
