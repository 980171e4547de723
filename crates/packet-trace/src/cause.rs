//! Why a packet, or a copy of it, ends.

use std::collections::BTreeSet;

use flow_simulator::FlowKey;
use flow_simulator::trace::{Step, What};
use nlog::program::Pattern;
use nlog_data::{Row, TableId, Value};
use nlog_reference::explanation::{self, Body};
use openflow_rs::FlowEntry;
use switch_tables::PORT_HOMES;

use crate::packet::string;
use crate::way::value_text;
use crate::{FlowView, LookupView, Network, Sent};

/// The end of a packet or a copy of it that does not arrive.
#[derive(Debug)]
pub struct Drop {
    /// The host. Empty if the network as a whole is meant.
    pub host: String,
    /// Its cause.
    pub cause: Cause,
    /// The objects and reports behind it.
    pub because: Vec<Leaf>,
}

/// Why a packet ends.
#[derive(Debug)]
pub enum Cause {
    /// A flow drops it.
    Flow(Box<LookupView>),
    /// No flow matches. The flows of the table that come nearest.
    Missing(Box<LookupView>, Vec<Nearest>),
    /// The flow has no effect, for this reason.
    Problem(Box<LookupView>, String),
    /// A row that is missing, and why.
    NoRow {
        /// What this means.
        what: String,
        /// The answer of why-not.
        why_not: Vec<String>,
    },
    /// The flow tables contradict each other, or the ports.
    Fault(String),
}

/// A flow that nearly matches.
#[derive(Debug)]
pub struct Nearest {
    /// The flow.
    pub flow: FlowView,
    /// What it asks for and what the packet has: field, asked, found.
    pub unmet: Vec<(String, String, String)>,
    /// The objects and reports behind it.
    pub because: Vec<Leaf>,
}

/// A row of an input table from which something follows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leaf {
    /// The object or the row.
    pub what: String,
    /// The row in full.
    pub row: String,
    /// The transaction that inserted it.
    pub transaction: Option<u64>,
    /// Whether it is an object, not a report.
    pub is_object: bool,
}

/// The most flows that are shown beside a missing one.
const NEAREST: usize = 2;
/// The most unmet demands of a flow that is near.
const NEAR: usize = 2;

/// The last look-up of a branch, and why its actions had no effect.
#[derive(Clone, Copy, Default)]
struct End<'a> {
    lookup: Option<(u8, Option<&'a FlowEntry>, &'a FlowKey)>,
    problem: Option<&'a str>,
    sent: bool,
    branched: bool,
}

impl<'a> End<'a> {
    fn follow(&mut self, steps: &'a [Step], ends: &mut Vec<End<'a>>) {
        for step in steps {
            match &step.what {
                What::Bucket(_) => {
                    // Until the copy meets a table, what gave it to the bucket is its end.
                    let mut copy = End { lookup: self.lookup, ..End::default() };
                    copy.follow(&step.within, ends);
                    copy.finish(ends);
                    self.branched = true;
                    continue;
                }
                What::Lookup { table, entry, key } => {
                    self.lookup = Some((*table, entry.as_deref(), key));
                    self.problem = None;
                }
                What::Problem(why) => self.problem = Some(why),
                What::Sent(_) => self.sent = true,
                What::Action(_) | What::Note(_) => {}
            }
            self.follow(&step.within, ends);
        }
    }

    fn finish(self, ends: &mut Vec<End<'a>>) {
        if !self.sent && !self.branched {
            ends.push(self);
        }
    }
}

impl Network {
    /// The ends of a packet on a host, without those that leave it.
    pub(crate) fn drops(&self, host: &str, steps: &[Step]) -> Vec<Drop> {
        let mut ends = Vec::new();
        let mut whole = End::default();
        whole.follow(steps, &mut ends);
        whole.finish(&mut ends);
        ends.into_iter().filter_map(|end| self.drop(host, end)).collect()
    }

    fn drop(&self, host: &str, end: End<'_>) -> Option<Drop> {
        let (table, entry, key) = end.lookup?;
        let lookup = Box::new(self.lookup(host, table, entry));
        let because = lookup.flow.as_ref().map_or(Vec::new(), |flow| self.leaves_of(flow));
        let cause = match (entry, end.problem) {
            (Some(_), Some(problem)) => Cause::Problem(lookup, problem.to_owned()),
            (Some(_), None) => Cause::Flow(lookup),
            (None, _) => Cause::Missing(lookup, self.nearest(host, table, key)),
        };
        Some(Drop { host: host.to_owned(), cause, because })
    }

    /// The flows of a table that come nearest to matching a packet.
    fn nearest(&self, host: &str, table: u8, key: &FlowKey) -> Vec<Nearest> {
        let Some(at) = self.hosts.fabric().host(host) else { return Vec::new() };
        let flows = at.bridge.flows();
        let unmet = |flow: &FlowEntry| -> Vec<(String, String, String)> {
            let unmet =
                flow.matches.iter().filter(|demand| key.get(demand.field) & demand.mask != demand.value);
            unmet
                .map(|demand| {
                    let found = value_text(demand.field, key.get(demand.field) & demand.mask);
                    (demand.field.name().to_owned(), value_text(demand.field, demand.value), found)
                })
                .collect()
        };
        let of_table = flows.iter().filter(|flow| flow.table == table);
        let mut near: Vec<_> = of_table
            .map(|flow| (unmet(flow), flow))
            .filter(|(unmet, flow)| unmet.len() <= NEAR && unmet.len() < flow.matches.iter().count())
            .collect();
        near.sort_by_key(|(unmet, flow)| (unmet.len(), std::cmp::Reverse(flow.matches.iter().count())));
        near.truncate(NEAREST);
        let one = |(unmet, flow): (Vec<_>, &&FlowEntry)| {
            let flow = self.flow(host, flow);
            let because = self.leaves_of(&flow);
            Nearest { flow, unmet, because }
        };
        near.into_iter().map(one).collect()
    }

    /// The objects and reports from which a flow follows.
    pub(crate) fn leaves_of(&self, flow: &FlowView) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        if let Some(row) = &flow.row {
            self.leaves(self.tables.outputs.flows(), row, &mut BTreeSet::new(), &mut leaves);
        }
        // Objects first: they are what somebody asked for.
        leaves.sort_by_key(|leaf: &Leaf| !leaf.is_object);
        leaves
    }

    fn leaves(&self, table: TableId, row: &Row, seen: &mut BTreeSet<(TableId, Row)>, leaves: &mut Vec<Leaf>) {
        if !seen.insert((table, row.clone())) {
            return;
        }
        let program = self.program();
        if program.hook_of(table).is_some() {
            return;
        }
        let transaction = self.origins.get(&(table, row.clone())).copied();
        if let Some(kind) = program.objects.iter().find(|kind| kind.table == table) {
            let what = format!("{} {}", kind.name, string(row.first()).unwrap_or_default());
            let row = explanation::atom(program, table, row);
            return leaves.push(Leaf { what, row, transaction, is_object: true });
        }
        let ways = self.state.derivations(table, row, 1);
        if let Some(way) = ways.first() {
            for (table, row) in Body::of(program, way).rows {
                self.leaves(table, &row, seen, leaves);
            }
        } else if transaction.is_some() {
            let row = explanation::atom(program, table, row);
            leaves.push(Leaf { what: row.clone(), row, transaction, is_object: false });
        }
    }

    /// The end of a packet whose sender has no interface.
    pub(crate) fn not_bound(&self, port: &str) -> Drop {
        let what = format!("port {port} has no interface on any host, so it sends nothing");
        Drop { host: String::new(), cause: self.no_home(port, what), because: Vec::new() }
    }

    /// The end of a packet for a switch port that lives nowhere.
    pub(crate) fn homeless(&self, port: &str) -> Option<Drop> {
        let of_switch = self.named("switch_port").iter().any(|row| string(row.first()) == Some(port));
        if !of_switch || self.tables.homes.is_none() || self.home(port).is_some() {
            return None;
        }
        let what = format!("port {port} lives on no host, so nothing reaches it");
        Some(Drop { host: String::new(), cause: self.no_home(port, what), because: Vec::new() })
    }

    fn no_home(&self, port: &str, what: String) -> Cause {
        let why_not = self.tables.homes.map_or(Vec::new(), |table| {
            let mut columns = vec![None; PORT_HOMES.columns.len()];
            if let Some(first) = columns.first_mut() {
                *first = Some(Value::String(port.into()));
            }
            explanation::why_not(self.program(), &self.state.why_not(&Pattern { table, columns }))
        });
        Cause::NoRow { what, why_not }
    }

    /// What the rules say is wrong with the ports of a packet and their switches.
    pub(crate) fn problems(&self, sent: &Sent) -> Vec<String> {
        let ports = [Some(&sent.from), sent.to.as_ref()].into_iter().flatten();
        let concerned: BTreeSet<String> =
            ports.flat_map(|port| [Some(port.clone()), self.switch_of(port)]).flatten().collect();
        let problems = self.read(self.tables.problems, |row| match &row[..] {
            [Value::String(kind), Value::String(id), Value::String(code), Value::String(text)] => {
                concerned.contains(&**id).then(|| format!("{kind} {id}: {code}: {text}"))
            }
            _ => None,
        });
        let distinct: BTreeSet<String> = problems.into_iter().collect();
        distinct.into_iter().collect()
    }
}
