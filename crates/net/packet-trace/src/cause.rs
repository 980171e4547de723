//! Why a packet, or a copy of it, ends.

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

use crate::flow_origin::FlowOrigin;
use flow_simulator::FlowKey;
use flow_simulator::trace::{RETURNED, Step, What};
use nlog::program::Pattern;
use nlog_data::{Row, TableId, Value};
use nlog_explain::Origin;
use nlog_explain::explanation::{self, Body};
use openflow_rs::action::{Ct, Nat, NatSide};
use openflow_rs::{Action, Demand, Field, FlowEntry, Match, Subfield};
use simulated_hosts::Place;
use switch_model::interface::{IPS, PORT_HOMES};

use crate::packet::string;
use crate::{FlowView, LookupView, Network, Sent, UNKNOWN};

/// The end of a packet or a copy of it that does not arrive.
#[derive(Debug)]
pub struct Drop {
    /// The host. Empty if the network as a whole is meant.
    pub host: String,
    /// Its cause.
    pub cause: Cause,
    /// The objects and reports behind it.
    pub because: Vec<Leaf>,
    /// The flows that wrote what the flow that drops it asks for: the field, the look-up, what is behind it.
    pub written: Vec<(String, LookupView, Vec<Leaf>)>,
    /// The table and the priority of the last flow, which may only count the drop.
    pub(crate) counted_by: Option<(u8, u16)>,
}

impl Drop {
    /// Whether the copy would only return to its sender.
    pub(crate) fn returns(&self) -> bool {
        matches!(&self.cause, Cause::Problem(_, why) if why == RETURNED)
    }

    /// The rows of input tables that are behind it.
    pub(crate) fn leaves_mut(&mut self) -> impl Iterator<Item = &mut Leaf> {
        let near = match &mut self.cause {
            Cause::Missing(_, near) => near.as_mut_slice(),
            _ => &mut [],
        };
        let near = near.iter_mut().flat_map(|near| &mut near.because);
        let written = self.written.iter_mut().flat_map(|(_, _, because)| because);
        self.because.iter_mut().chain(near).chain(written)
    }

    /// The end on a host, without flows behind it.
    pub(crate) fn plain(host: &str, cause: Cause) -> Drop {
        Drop { host: host.to_owned(), cause, because: Vec::new(), written: Vec::new(), counted_by: None }
    }
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
        /// The port that has no place; none if an address has no port.
        port: Option<String>,
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
    /// What it asks for, and what the packet has instead.
    pub unmet: Vec<(String, String)>,
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
    /// The transaction that inserted it, if that is known.
    pub origin: Option<Origin>,
    /// The row itself.
    pub input: (TableId, Row),
    /// The id of the object; none for a report.
    pub object: Option<String>,
}

impl Leaf {
    /// The number of the transaction that inserted it, if that is known.
    pub fn transaction(&self) -> Option<u64> {
        self.origin.as_ref().map(|origin| origin.transaction)
    }

    pub(crate) fn visit(&mut self, visit: &mut dyn FnMut(TableId, &Row, &mut Option<Origin>)) {
        let (table, row) = &self.input;
        visit(*table, row, &mut self.origin);
    }
}

/// The stage of the built-in rules that counts what no flow of another stage takes.
const MISSED: &str = "MISSED";
/// The stage of the built-in rules that hands packets to the responder.
pub(crate) const RESPOND: &str = "RESPOND";
/// The most flows that are shown beside a missing one.
const NEAREST: usize = 2;
/// The most unmet demands of a flow that is near.
const NEAR: usize = 2;

/// A look-up on the way.
#[derive(Clone, Copy)]
struct Looked<'a> {
    table: u8,
    entry: Option<&'a FlowEntry>,
    key: &'a FlowKey,
}

/// A branch of the way on a host: its look-ups, and why the actions of the last one had no effect.
#[derive(Clone, Default)]
struct Branch<'a> {
    looked: Vec<Looked<'a>>,
    problem: Option<&'a str>,
    sent: bool,
    branched: bool,
}

/// Where the branches of a pass lead.
#[derive(Default)]
struct Branches<'a> {
    /// Those that end on the host.
    ends: Vec<Branch<'a>>,
    /// Those that the switch tracks, in order: each goes on after the pass.
    tracked: VecDeque<Branch<'a>>,
}

impl<'a> Branch<'a> {
    /// The branches that end on the host, of a branch that goes through this pass.
    fn ends(mut self, pass: &'a [Step]) -> Vec<Branch<'a>> {
        let mut all = Branches::default();
        for step in pass {
            // A note with steps is a tracked packet that goes on.
            if matches!(step.what, What::Note(_)) && !step.within.is_empty() {
                let tracked = all.tracked.pop_front().unwrap_or_default();
                all.ends.extend(tracked.ends(&step.within));
            } else {
                self.follow(std::slice::from_ref(step), &mut all);
            }
        }
        // A switch that stops at a limit tracks nothing of the pass.
        for branch in std::mem::take(&mut all.tracked) {
            Branch { problem: self.problem, ..branch }.finish(&mut all.ends);
        }
        self.finish(&mut all.ends);
        all.ends
    }

    fn follow(&mut self, steps: &'a [Step], all: &mut Branches<'a>) {
        for step in steps {
            match &step.what {
                What::Bucket(_) => {
                    // Until the copy meets a table, what gave it to the bucket is its end.
                    let mut copy = self.copy();
                    copy.follow(&step.within, all);
                    copy.finish(&mut all.ends);
                    self.branched = true;
                    continue;
                }
                What::Action(Action::Ct(Ct { table: Some(_), .. })) => {
                    all.tracked.push_back(self.copy());
                    self.branched = true;
                }
                What::Lookup { table, entry, key } => {
                    self.looked.push(Looked { table: *table, entry: entry.as_deref(), key });
                    self.problem = None;
                }
                What::Problem(why) => self.problem = Some(why),
                What::Sent(_) => self.sent = true,
                What::Action(_) | What::HandedOver(_) | What::Note(_) => {}
            }
            self.follow(&step.within, all);
        }
    }

    /// A copy of the packet, as far as it has come.
    fn copy(&self) -> Branch<'a> {
        Branch { looked: self.looked.clone(), ..Branch::default() }
    }

    fn finish(self, ends: &mut Vec<Branch<'a>>) {
        if !self.sent && !self.branched {
            ends.push(self);
        }
    }

    /// The last flow before the last one that writes these bits of a field.
    fn writer(&self, field: Field, mask: u128) -> Option<Looked<'a>> {
        let (_, earlier) = self.looked.split_last()?;
        let writes = |looked: &&Looked<'a>| {
            looked.entry.is_some_and(|entry| entry.actions.0.iter().any(|action| writes(action, field, mask)))
        };
        earlier.iter().rev().find(writes).copied()
    }
}

/// Whether an action writes some of these bits of a field.
fn writes(action: &Action, field: Field, mask: u128) -> bool {
    let within = |bits: Subfield| {
        let ones = u128::MAX.checked_shr(u128::BITS - u32::from(bits.bits())).unwrap_or_default();
        bits.field() == field && (ones << bits.start()) & mask != 0
    };
    match action {
        Action::SetField(set) => set.field() == field && set.mask() & mask != 0,
        Action::MoveBits(moved) => within(moved.destination()),
        Action::CheckPktLarger(check) => within(check.result()),
        Action::Ct(ct) => {
            ct.actions.0.iter().any(|action| matches!(action, Action::Nat(nat) if translates(*nat, field)))
        }
        _ => false,
    }
}

/// Whether `nat` may write a field: without an address, it does for packets of known connections what was said of the first one. A
/// source's port changes with a destination, too.
fn translates(nat: Nat, field: Field) -> bool {
    use Field::{IpDst, IpSrc, Ipv6Dst, Ipv6Src, TcpDst, TcpSrc, UdpDst, UdpSrc};
    let side = nat.change().map(|(side, _)| side);
    match field {
        IpSrc | Ipv6Src => side != Some(NatSide::Destination),
        IpDst | Ipv6Dst | TcpDst | UdpDst => side != Some(NatSide::Source),
        TcpSrc | UdpSrc => true,
        _ => false,
    }
}

impl Network {
    /// The ends of a packet on a host, without those that leave it.
    pub(crate) fn drops(&self, host: &str, steps: &[Step]) -> Vec<Drop> {
        let ends = Branch::default().ends(steps);
        ends.iter().filter_map(|end| self.drop(host, end)).collect()
    }

    fn drop(&self, host: &str, end: &Branch<'_>) -> Option<Drop> {
        let end = &self.before_response(end);
        let counted_by = end.looked.last()?.entry.map(|entry| (entry.table, entry.priority));
        let end = &self.decisive(end);
        let Looked { table, entry, key } = *end.looked.last()?;
        let lookup = Box::new(self.lookup(host, table, entry, key));
        let because = lookup.flow.as_ref().map_or(Vec::new(), |flow| self.leaves_of(flow));
        let written = entry.map_or(Vec::new(), |entry| self.written(host, end, entry));
        let because = self.after_decisions(because, &written);
        let cause = match (entry, end.problem) {
            (Some(_), Some(problem)) => Cause::Problem(lookup, problem.to_owned()),
            (Some(_), None) => Cause::Flow(lookup),
            (None, _) => Cause::Missing(lookup, self.nearest(host, table, key)),
        };
        Some(Drop { host: host.to_owned(), cause, because, written, counted_by })
    }

    /// The end without the look-ups in [`RESPOND`]: what hands a packet over for an error has dropped it.
    fn before_response<'a>(&self, end: &Branch<'a>) -> Branch<'a> {
        let mut end = end.clone();
        let responds = |looked: &Looked<'_>| self.names.stage_name(looked.table) == Some(RESPOND);
        while end.looked.len() > 1 && end.looked.last().is_some_and(responds) {
            end.looked.pop();
            end.problem = None;
        }
        end
    }

    /// The end without the look-up in [`MISSED`], which only counts. A flow that hands all other packets over to it stands for none.
    fn decisive<'a>(&self, end: &Branch<'a>) -> Branch<'a> {
        let mut end = end.clone();
        let is_missed = |looked: &Looked<'_>| self.names.stage_name(looked.table) == Some(MISSED);
        if end.looked.len() > 1 && end.looked.last().is_some_and(is_missed) {
            end.looked.pop();
            if let Some(last) = end.looked.last_mut() {
                last.entry = last.entry.filter(|entry| entry.matches.iter().next().is_some());
            }
        }
        end
    }

    /// The flows that wrote what a flow asks for. The datapath is no finding: the look-up says it.
    fn written(
        &self,
        host: &str,
        end: &Branch<'_>,
        entry: &FlowEntry,
    ) -> Vec<(String, LookupView, Vec<Leaf>)> {
        let own = entry
            .matches
            .iter()
            .filter(|demand| demand.field.is_scratch() && demand.field != Field::Metadata);
        let one = |demand: Demand| {
            let Looked { table, entry, key } = end.writer(demand.field, demand.mask)?;
            let asked = self.demand_text(demand.field, demand.value, demand.mask);
            let lookup = self.lookup(host, table, entry, key);
            let because = lookup.flow.as_ref().map_or(Vec::new(), |flow| self.leaves_of(flow));
            Some((asked, lookup, because))
        };
        own.filter_map(one).collect()
    }

    /// Bits of a field and their value, as the rules write them.
    pub(crate) fn demand_text(&self, field: Field, value: u128, mask: u128) -> String {
        let whole = Match::any().with_masked(field, value, mask);
        whole.map(|one| self.match_text(&one)).unwrap_or_default()
    }

    /// The flows of a table that come nearest to matching a packet.
    fn nearest(&self, host: &str, table: u8, key: &FlowKey) -> Vec<Nearest> {
        let Some(at) = self.hosts.fabric().host(host) else { return Vec::new() };
        let flows = at.bridge.flows();
        let unmet = |flow: &FlowEntry| -> Vec<Demand> {
            let unmet = flow.matches.iter();
            unmet.filter(|demand| key.get(demand.field) & demand.mask != demand.value).collect()
        };
        let of_table = flows.iter().filter(|flow| flow.table == table);
        let mut near: Vec<_> = of_table
            .map(|flow| (unmet(flow), flow))
            .filter(|(unmet, flow)| unmet.len() <= NEAR && unmet.len() < flow.matches.iter().count())
            .collect();
        near.sort_by_key(|(unmet, flow)| (unmet.len(), std::cmp::Reverse(flow.matches.iter().count())));
        // What is further away says nothing more.
        let least = near.first().map_or(0, |(unmet, _)| unmet.len());
        near.retain(|(unmet, _)| unmet.len() == least);
        near.truncate(NEAREST);
        let one = |(unmet, flow): (Vec<Demand>, &&FlowEntry)| {
            let text = |Demand { field, value, mask }| {
                let found = self.demand_text(field, key.get(field) & mask, mask);
                (self.demand_text(field, value, mask), found)
            };
            let unmet = unmet.into_iter().map(text).collect();
            let flow = self.flow(host, flow);
            let because = self.leaves_of(&flow);
            Nearest { flow, unmet, because }
        };
        near.into_iter().map(one).collect()
    }

    /// The objects and reports from which a flow follows.
    pub(crate) fn leaves_of(&self, flow: &FlowView) -> Vec<Leaf> {
        match self.origin(&flow.on.0, &flow.on.1) {
            Some(FlowOrigin { row: (table, row), .. }) => self.leaves_of_row(flow, table, &row),
            None => Vec::new(),
        }
    }

    /// The same, for the row in which a rule says the flow.
    pub(crate) fn leaves_of_row(&self, flow: &FlowView, table: TableId, row: &Row) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        self.leaves(table, row, &mut BTreeSet::new(), &mut leaves);
        // Objects first: they are what somebody asked for.
        self.order_leaves(flow, &mut leaves);
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
        let origin = self.origins.get(&(table, row.clone())).copied();
        let known = origin.filter(|transaction| *transaction != UNKNOWN).map(Origin::numbered);
        let input = (table, row.clone());
        if let Some(kind) = program.objects.iter().find(|kind| kind.table == table) {
            let id = string(row.first()).unwrap_or_default().to_owned();
            let what = format!("{} {id}", kind.name);
            let row = explanation::atom(program, table, row);
            return leaves.push(Leaf { what, row, origin: known, input, object: Some(id) });
        }
        let ways = self.state.derivations(table, row, 1);
        if let Some(way) = ways.first() {
            for (table, row) in Body::of(program, way).rows {
                self.leaves(table, &row, seen, leaves);
            }
        } else if origin.is_some() {
            let row = explanation::atom(program, table, row);
            leaves.push(Leaf { what: row.clone(), row, origin: known, input, object: None });
        }
    }

    /// The end of a packet whose sender has no interface.
    pub(crate) fn not_bound(&self, port: &str) -> Drop {
        let what = format!("port {port} has no interface on any host, so it sends nothing");
        Drop::plain("", self.no_home(port, what))
    }

    /// The end of a packet for a switch port that lives nowhere.
    pub(crate) fn homeless(&self, port: &str) -> Option<Drop> {
        if !self.is_switch_port(port) || self.tables.homes.is_none() || self.home(port).is_some() {
            return None;
        }
        let what = format!("port {port} is not attached to any host, so nothing reaches it");
        Some(Drop::plain("", self.no_home(port, what)))
    }

    fn no_home(&self, port: &str, what: String) -> Cause {
        let first = Value::String(port.into());
        let why_not = self.why_not(self.tables.homes, PORT_HOMES.columns.len(), (0, first));
        Cause::NoRow { port: Some(port.to_owned()), what, why_not }
    }

    /// The end of a packet for an address that no port of the switch has.
    pub(crate) fn unknown(&self, ip: IpAddr, sent: &Sent) -> Drop {
        let switch = self.switch_of(&sent.from).unwrap_or_default();
        let what = format!("no port of {switch} has {ip}, and no router there leads to it");
        let why_not = self.why_not(self.tables.ips, IPS.columns.len(), (1, Value::Ip(ip)));
        Drop::plain("", Cause::NoRow { port: None, what, why_not })
    }

    /// Why a table has no row with this value in this column.
    fn why_not(&self, table: Option<TableId>, columns: usize, (at, value): (usize, Value)) -> Vec<String> {
        let Some(table) = table else { return Vec::new() };
        let mut columns = vec![None; columns];
        columns[at] = Some(value);
        explanation::why_not(self.program(), &self.state.why_not(&Pattern { table, columns }))
    }

    /// A port, its host, its switch, and what else is on the switch without being a switch port.
    fn concerned_by(&self, port: &str) -> Vec<String> {
        let mut ids = vec![port.to_owned()];
        ids.extend(self.place(port).and_then(|(place, _)| match place {
            Place::Vnic(host, _) => Some(host),
            Place::Tap(_) => None,
        }));
        let Some(switch) = self.switch_of(port) else { return ids };
        for kind in ["localnet_port", "router_port"] {
            let on_switch = self.named_with(kind, "switch", switch.as_str().into()).into_iter();
            ids.extend(on_switch.filter_map(|row| string(row.first()).map(str::to_owned)));
        }
        ids.push(switch);
        ids
    }

    /// What the rules say is wrong with the ports of a packet, their switches and hosts, and the objects behind its ends.
    pub(crate) fn problems(&self, sent: &Sent, dropped: &[Drop]) -> Vec<String> {
        let ports = [Some(&sent.from), sent.to.as_ref()].into_iter().flatten();
        let ports = ports.flat_map(|port| self.concerned_by(port));
        let behind = dropped.iter().flat_map(|drop| &drop.because).filter_map(|leaf| leaf.object.clone());
        let concerned: BTreeSet<String> = ports.chain(behind).collect();
        let of = |table, column| {
            concerned.iter().flat_map(move |id| self.rows_with(table, column, id.as_str().into()))
        };
        let problems = of(self.tables.problems, 1).filter_map(|row| match &row[..] {
            [Value::String(kind), Value::String(id), Value::String(code), Value::String(text)] => {
                Some(format!("{kind} {id}: {code}: {text}"))
            }
            _ => None,
        });
        let routes = of(self.tables.routes, 3).filter_map(|row| match &row[..] {
            [_, _, _, Value::String(by), Value::String(hop), _, _, Value::String(why)] if !why.is_empty() => {
                let route = if hop.is_empty() {
                    format!("the network of {by}")
                } else {
                    format!("route {by} by {hop}")
                };
                Some(format!("{route} takes no packets: {why}"))
            }
            _ => None,
        });
        problems.chain(routes).collect::<BTreeSet<String>>().into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_translation_writes_the_addresses_and_ports_of_its_side() {
        use Field::{IpDst, IpSrc, Ipv6Dst, TcpDst, TcpSrc, UdpSrc};
        let written = |actions: &str| -> Vec<Field> {
            let flow: FlowEntry = format!("ip actions={actions}").parse().unwrap();
            let all = [IpSrc, IpDst, Ipv6Dst, TcpSrc, TcpDst, UdpSrc, Field::EthSrc];
            all.into_iter()
                .filter(|field| flow.actions.0.iter().any(|action| writes(action, *field, u128::MAX)))
                .collect()
        };
        assert_eq!(written("ct(zone=5,table=1)"), []);
        assert_eq!(written("ct(commit,zone=5,nat(src=10.0.0.1))"), [IpSrc, TcpSrc, UdpSrc]);
        let destination = [IpDst, Ipv6Dst, TcpSrc, TcpDst, UdpSrc];
        assert_eq!(written("ct(commit,zone=5,nat(dst=10.0.0.1:80))"), destination);
        assert_eq!(written("ct(zone=5,nat)").len(), 6);
    }
}
