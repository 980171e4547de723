//! The way of a frame: the hosts that it comes to, its look-ups there, and its ends.

use crate::flow_origin::FlowOrigin;
use crate::frame::vlan;
use flow_simulator::trace::{Step, What};
use flow_simulator::{Arrival, Crossing, FlowKey, Lost, Packet};
use nlog::program::Place as SourcePlace;
use nlog_data::{Packed, Row, RuleId, TableId, Value};
use nlog_explain::{Origin, ShowsInputs};
use openflow_rs::{Action, Field, FlowEntry, Match, PortNo};
use pipeline::one_line;
use simulated_hosts::Place;

use crate::live::{Live, Met};
use crate::{Cause, Drop, Network, Response, Sent};

/// The priority of the built-in rules by which a standby gateway drops a frame that all gateways get.
const STANDS_BY: &str = "STANDS_BY";

/// The way of one packet.
#[derive(Debug)]
pub struct Trace {
    /// The port that sends it, and the one that it is for, if that is known.
    pub from: String,
    /// The port that it is for, if that is known.
    pub to: Option<String>,
    /// The packet's fields.
    pub packet: String,
    /// What the reader should know of the packet.
    pub notes: Vec<String>,
    /// The hosts that it comes to. The first is where it enters.
    pub hops: Vec<Hop>,
    /// The hosts between which copies went through tunnels, in order.
    pub tunnelled: Vec<(String, String)>,
    /// Where the packet and its copies arrive.
    pub delivered: Vec<Delivery>,
    /// Where the packet and its copies end.
    pub dropped: Vec<Drop>,
    /// What the responders of these hosts answer, or why they do not.
    pub responses: Vec<Response>,
    /// Whether the packet is a question that no port is known to answer.
    pub vain: bool,
    /// What the rules say is wrong with the objects concerned.
    pub problems: Vec<String>,
    /// All look-ups, for a comparison with the switches.
    pub met: Vec<Met>,
    /// That comparison, if somebody has asked the switches.
    pub live: Option<Live>,
    /// A sentence for each switch on the path that is known to lack these flows.
    pub not_in_force: Vec<String>,
    /// What of objects and reports keeps the packet from arriving, in words; the first says most.
    pub findings: Vec<String>,
    /// Objects and reports allow the packet: the rules are at fault.
    pub rules_blamed: bool,
}

/// A frame that arrives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delivery {
    /// The port; the physical network for a frame that leaves there.
    pub port: String,
    /// The host; none for a physical network.
    pub host: Option<String>,
    /// The port whose interface it is: the parent of a port behind a VLAN tag; the name of a physical network.
    pub interface: String,
    /// What differs from the packet that was sent: field, before, after.
    pub changes: Vec<(String, String, String)>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What a packet meets on one host.
#[derive(Debug)]
pub struct Hop {
    /// The host.
    pub host: String,
    /// The number of the hop that it came from; none where it enters.
    pub before: Option<usize>,
    /// What happens there, in order.
    pub lines: Vec<Line>,
}

/// Something that happens on a host.
#[derive(Debug)]
pub enum Line {
    /// A look-up in a table.
    Lookup(Box<LookupView>),
    /// A copy goes through this bucket of a group.
    Bucket(u32),
    /// An action of the flow.
    Action(String),
    /// The packet leaves by a port, which is named as readers know it.
    Sent(String),
    /// What an action did.
    Note(String),
    /// Why an action had no effect.
    Problem(String),
}

/// A look-up in a table.
#[derive(Debug, Clone)]
pub struct LookupView {
    /// The number of the table.
    pub table: u8,
    /// Its name; its number if the rules do not name it.
    pub stage: String,
    /// The sentence of the stage.
    pub stage_doc: String,
    /// The switch or router that the packet is in, if it is in one.
    pub datapath: Option<String>,
    /// The flow that the packet met; none if it met none.
    pub flow: Option<FlowView>,
    /// Whether the flow says more of the packet than which switch it is in, or does more than hand it on.
    pub telling: bool,
    /// The object that decides what the flow does to the packet, if the rules declare that one does.
    pub decided_by: Option<String>,
    /// Whether no flow matches and the packet ends for that. Otherwise it goes on without one.
    pub ends: bool,
    /// The packet.
    pub(crate) key: FlowKey,
}

impl LookupView {
    /// The name of the flow's priority, if the rules name it.
    pub(crate) fn priority_name(&self) -> Option<&str> {
        self.flow.as_ref()?.priority_name.as_deref()
    }
}

/// A flow that a packet met.
#[derive(Debug, Clone)]
pub struct FlowView {
    /// The priority.
    pub priority: u16,
    /// The name of the priority, if the rules name it.
    pub priority_name: Option<String>,
    /// What flows of this priority do.
    pub sentence: String,
    /// The match, as the rules write it.
    pub matching: String,
    /// The actions, as the rules write them.
    pub actions: String,
    /// The flow as `ovs-ofctl` prints it.
    pub text: String,
    /// The rule that says the flow: file and line. None for one that the switch learned.
    pub rule: Option<String>,
    /// The rule that places it on the host, if that is another one.
    pub placed_by: Option<String>,
    /// The rule that says the flow.
    pub(crate) said: Option<RuleId>,
    /// The host that has it, and what it has.
    pub(crate) on: (String, FlowEntry),
}

impl ShowsInputs for Trace {
    fn for_each_input(&mut self, visit: &mut dyn FnMut(TableId, &Row, &mut Option<Origin>)) {
        let behind_answers = self.responses.iter_mut().flat_map(|response| &mut response.because);
        let behind_drops = self.dropped.iter_mut().flat_map(Drop::leaves_mut);
        behind_drops.chain(behind_answers).for_each(|leaf| leaf.visit(visit));
    }
}

impl Trace {
    /// Whether the packet, or a copy of it, arrives where it should: at the port that it is for, or anywhere if none is known.
    pub fn is_delivered(&self) -> bool {
        match &self.to {
            _ if self.vain => false,
            Some(to) => self.delivered.iter().any(|one| one.port == *to),
            None => !self.delivered.is_empty(),
        }
    }

    /// The end that says most.
    pub(crate) fn main_drop(&self) -> Option<&Drop> {
        self.dropped.iter().min_by_key(|drop| match &drop.cause {
            Cause::NoRow { .. } => 0,
            Cause::Fault(_) => 1,
            // The active gateway has the same frame.
            Cause::Flow(at) if at.priority_name() == Some(STANDS_BY) => 3,
            Cause::Flow(_) | Cause::Missing(..) | Cause::Problem(..) => 2,
        })
    }
}

impl Network {
    /// The way of a packet. The network is afterwards as before.
    ///
    /// # Errors
    /// The rules refuse rows, or ask a host for something impossible.
    pub fn trace(&mut self, sent: &Sent) -> Result<Trace, String> {
        let mut trace = Trace {
            from: sent.from.clone(),
            to: sent.to.clone(),
            packet: sent.fields(),
            notes: sent.notes.clone(),
            hops: Vec::new(),
            tunnelled: Vec::new(),
            delivered: Vec::new(),
            dropped: Vec::new(),
            responses: Vec::new(),
            vain: sent.sought.is_some(),
            problems: Vec::new(),
            met: Vec::new(),
            live: None,
            not_in_force: Vec::new(),
            findings: Vec::new(),
            rules_blamed: false,
        };
        match &sent.place {
            None => trace.dropped.push(self.not_bound(&sent.from)),
            Some(Place::Vnic(host, _)) if !self.manages(host) => {
                let why = format!("the controller does not manage {host}, so it has no flows there");
                trace.dropped.push(Drop::plain(host, Cause::Fault(why)));
            }
            Some(place) => {
                let crossing = self.crossing(place, &sent.bytes)?;
                if crossing.hops.is_empty() {
                    trace.dropped.push(nowhere(place));
                }
                self.follow_crossing(sent, crossing, &mut trace);
                self.follow_lookups(sent, &mut trace)?;
            }
        }
        if !trace.is_delivered() {
            trace.dropped.extend(sent.to.as_deref().and_then(|to| self.homeless(to)));
        }
        trace.dropped.extend(sent.sought.map(|ip| self.unknown(ip, sent)));
        trace.problems = self.problems(sent, &trace.dropped);
        trace.notes.extend(self.unexplained(&trace));
        if !self.is_part {
            (trace.findings, trace.rules_blamed) = self.findings(sent, &trace);
        }
        Ok(trace)
    }

    /// What the reader should know if flows are ready whose rows are not derived here.
    fn unexplained(&self, trace: &Trace) -> Option<String> {
        let without_row = |drop: &Drop| match &drop.cause {
            Cause::Flow(at) | Cause::Problem(at, _) => {
                let is_open = |flow: &FlowView| self.origin(&flow.on.0, &flow.on.1).is_none();
                at.flow.as_ref().is_some_and(|flow| flow.rule.is_some() && is_open(flow))
            }
            _ => false,
        };
        let is_open = self.ready.is_some() && trace.dropped.iter().any(without_row);
        is_open.then(|| {
            "the objects behind a flow that drops it are beyond those looked at; a trace of the journal names them"
                .to_owned()
        })
    }

    /// Follows packets that responders have read and sent on, such as queries of DNS with the key of their name. Each goes on once: flows
    /// that handed it over again would do so without end.
    fn follow_lookups(&mut self, sent: &Sent, trace: &mut Trace) -> Result<(), String> {
        for at in 0..trace.responses.len() {
            let Some(response) = trace.responses.get_mut(at) else { break };
            let (host, Some(goes_on)) = (response.host.clone(), response.goes_on.take()) else { continue };
            let handed_over = response.at.flow.as_ref().map(|flow| flow.on.clone());
            // It has not ended where it was handed over.
            trace.dropped.retain(|drop| {
                let Cause::Flow(at) = &drop.cause else { return true };
                at.flow.as_ref().map(|flow| flow.on.clone()) != handed_over
            });
            let crossing = self.crossing_of_answer(&host, &goes_on)?;
            self.follow_crossing(sent, crossing, trace);
        }
        Ok(())
    }

    fn follow_crossing(&self, sent: &Sent, crossing: Crossing, trace: &mut Trace) {
        trace.tunnelled.extend(crossing.tunnelled.iter().cloned());
        // A packet that goes on is again on the host that it was on.
        let known = trace.hops.len();
        let again = |host: &str| trace.hops.iter().rposition(|hop| hop.host == host);
        let first = crossing.hops.first().and_then(|(host, _)| again(host));
        for ((host, steps), before) in crossing.hops.iter().zip(&crossing.before) {
            let before = before.map(|before| known + before).or(first);
            let mut lines = Vec::new();
            self.lines(host, steps, &mut lines);
            let drops = self.drops(host, steps);
            mark_ends(&mut lines, &drops);
            trace.hops.push(Hop { host: host.clone(), before, lines });
            trace.dropped.extend(drops);
            self.responses(host, steps, &mut trace.responses);
            self.met(host, steps, &mut trace.met);
        }
        for Arrival { host, port, bytes } in crossing.arrived {
            let (port, interface) = self.receiver(&host, port.0, vlan(&bytes));
            let changes = changes(&sent.bytes, &bytes);
            trace.delivered.push(Delivery { port, host: Some(host), interface, changes, bytes });
        }
        for tapped in crossing.tapped {
            let port = format!("physical network {}", tapped.network);
            let changes = changes(&sent.bytes, &tapped.bytes);
            let interface = tapped.network;
            trace.delivered.push(Delivery { port, host: None, interface, changes, bytes: tapped.bytes });
        }
        let lost = crossing.lost.into_iter();
        trace.dropped.extend(lost.map(|lost| Drop::plain("", Cause::Fault(why_lost(&lost)))));
        // Nobody asks for the end of a copy of a flood that would return to its sender.
        if trace.dropped.len() > 1 || !trace.delivered.is_empty() {
            trace.dropped.retain(|drop| !drop.returns());
        }
    }

    /// What happens on a host, as a list.
    fn lines(&self, host: &str, steps: &[Step], lines: &mut Vec<Line>) {
        for step in steps {
            match &step.what {
                What::Lookup { table, entry, key } => {
                    let mut lookup = self.lookup(host, *table, entry.as_deref(), key);
                    lookup.decided_by = lookup.flow.as_ref().and_then(|flow| self.decided_by(flow));
                    lines.push(Line::Lookup(Box::new(lookup)));
                }
                What::Bucket(id) => lines.push(Line::Bucket(*id)),
                What::Action(action) => lines.push(Line::Action(self.action_text(action))),
                What::Sent(port) => lines.push(Line::Sent(self.port_name(host, *port))),
                What::HandedOver(handed) => {
                    lines.push(Line::Note(format!("handed to controller {}", handed.controller.id)));
                }
                What::Note(text) => lines.push(Line::Note(text.clone())),
                What::Problem(text) => lines.push(Line::Problem(text.clone())),
            }
            self.lines(host, &step.within, lines);
        }
    }

    fn port_name(&self, host: &str, port: PortNo) -> String {
        let at = self.hosts.fabric().host(host);
        match at.and_then(|at| at.bridge.tunnel(port)) {
            Some(tunnel) => format!("a tunnel ({:?})", tunnel.encapsulation),
            None => format!("port {port}"),
        }
    }

    /// A look-up, with what the rules say of it.
    pub(crate) fn lookup(
        &self,
        host: &str,
        table: u8,
        entry: Option<&FlowEntry>,
        key: &FlowKey,
    ) -> LookupView {
        let (stage, stage_doc) = (self.names.stage(table), self.names.stage_doc(table));
        let flow = entry.map(|entry| self.flow(host, entry));
        let telling = entry.is_some_and(is_telling);
        let datapath = self.datapath(key.get(Field::Metadata));
        LookupView {
            table,
            stage,
            stage_doc,
            datapath,
            flow,
            telling,
            decided_by: None,
            ends: false,
            key: key.clone(),
        }
    }

    /// A flow of a host, with its rules.
    pub(crate) fn flow(&self, host: &str, entry: &FlowEntry) -> FlowView {
        let ready = self.ready.as_ref().and_then(|ready| ready.rules(host, entry));
        let rules = ready.map(|rules| (rules.said, rules.placed));
        let rules = rules.or_else(|| self.origin(host, entry).map(|origin| (origin.said, origin.placed)));
        // The controller gives a flow the fingerprint of its rule as its cookie.
        let cookie = rules.map_or(entry.cookie, |(_, placed)| self.program().rule(placed).fingerprint);
        let (table, priority) = (entry.table, entry.priority);
        let said = rules.map(|(said, _)| self.program().rule(said));
        let own = one_line(said.and_then(|rule| rule.docs.as_deref()));
        let sentence = if own.is_empty() { self.names.priority_doc(table, priority) } else { own };
        FlowView {
            priority: entry.priority,
            priority_name: self.names.priority_name(table, priority).map(str::to_owned),
            sentence,
            matching: self.match_text(&entry.matches),
            actions: self.actions_text(&entry.actions),
            text: FlowEntry { cookie, ..entry.clone() }.to_string(),
            rule: said.map(|rule| line(&rule.place)),
            placed_by: rules
                .filter(|(said, placed)| said != placed)
                .map(|(_, placed)| line(&self.program().rule(placed).place)),
            said: rules.map(|(said, _)| said),
            on: (host.to_owned(), entry.clone()),
        }
    }

    /// The rules and the row behind a flow; none for one that the switch learned.
    pub(crate) fn origin(&self, host: &str, entry: &FlowEntry) -> Option<FlowOrigin> {
        FlowOrigin::of(&self.state, self.tables.outputs.flows(), self.row_of(host, entry)?)
    }

    fn row_of(&self, host: &str, entry: &FlowEntry) -> Option<Row> {
        let matches = Packed::new(&entry.matches);
        let actions = entry.actions.clone().canonical();
        let flows = self.tables.outputs.flows();
        let (table, priority) = (Value::Int(entry.table.into()), Value::Int(entry.priority.into()));
        let rows = self.state.matching(flows, &[Some(host.into()), Some(table), Some(priority), None, None]);
        let found = rows.into_iter().find(|row| match &row[..] {
            [.., Value::Match(own_match), Value::Actions(own_actions)] => {
                *own_match == matches && own_actions.get().canonical() == actions
            }
            _ => false,
        });
        found.cloned()
    }

    /// The switch or router with this number.
    fn datapath(&self, number: u128) -> Option<String> {
        let label = Value::Int(i64::try_from(number).ok()?);
        let row = self.rows_with(self.tables.datapaths, 1, label).into_iter().next()?;
        crate::packet::string(row.first()).map(str::to_owned)
    }
}

/// Why a packet is lost between hosts, in words.
fn why_lost(lost: &Lost) -> String {
    match lost {
        Lost::TooLarge { from, host, size, mtu, fits } => format!(
            "the packet is too large for the tunnel from {from} to {host}: it has {size} bytes with the tunnel's headers, and the \
             network between hosts carries {mtu} (`mtu` of the transport_zone); set the MTU of the machines to {fits}"
        ),
        other => other.to_string(),
    }
}

/// Marks the look-ups without a flow at which a packet or a copy of it ends.
fn mark_ends(lines: &mut [Line], drops: &[Drop]) {
    for line in lines {
        let Line::Lookup(lookup) = line else { continue };
        let is_end = |drop: &Drop| matches!(&drop.cause, Cause::Missing(at, _) if at.table == lookup.table && at.key == lookup.key);
        lookup.ends = lookup.flow.is_none() && drops.iter().any(is_end);
    }
}

/// The end of a packet that no switch receives.
fn nowhere(place: &Place) -> Drop {
    match place {
        Place::Vnic(host, port) => {
            let why = format!(
                "the switch has no port of its own for {port}: {host} is no transport node, or another interface has the \
                 number"
            );
            Drop::plain(host, Cause::Fault(why))
        }
        Place::Tap(network) => {
            let why = format!("no host has a patch port to physical network {network}");
            Drop::plain("", Cause::Fault(why))
        }
    }
}

/// Whether a flow says more of a packet than its datapath, or does more with it than hand it on.
fn is_telling(entry: &FlowEntry) -> bool {
    let hands_on = matches!(&entry.actions.0[..], [Action::Resubmit(_)]);
    let asks = entry.matches.iter().any(|demand| demand.field != Field::Metadata);
    asks || !hands_on
}

/// File and line.
pub(crate) fn line(place: &SourcePlace) -> String {
    format!("{}:{}", place.file, place.line)
}

/// The fields that differ, each as Open vSwitch prints it.
fn changes(sent: &[u8], arrived: &[u8]) -> Vec<(String, String, String)> {
    let [before, after] = [sent, arrived].map(|bytes| Packet::new(bytes.to_vec(), PortNo(1)).key().clone());
    let own = |key: &FlowKey, field: Field| {
        let there = field.is_of_frame() && key.meets(field.info().prerequisite);
        there.then(|| key.get(field))
    };
    let text = |field, value: Option<u128>| match value {
        None => "nothing".to_owned(),
        Some(value) => value_text(field, value),
    };
    let differ = Field::all().filter(|field| own(&before, *field) != own(&after, *field));
    let mut found = Vec::new();
    let mut seen = Match::any();
    for field in differ {
        // A field that repeats another one adds nothing.
        let Ok(next) = seen.clone().with(field, own(&after, field).unwrap_or_default()) else { continue };
        if next == seen && !found.is_empty() {
            continue;
        }
        seen = next;
        found.push((
            field.name().to_owned(),
            text(field, own(&before, field)),
            text(field, own(&after, field)),
        ));
    }
    found
}

/// A value of a field, as Open vSwitch prints it.
fn value_text(field: Field, value: u128) -> String {
    let whole = Match::any().with(field, value).map(|of| of.to_string()).unwrap_or_default();
    whole.rsplit_once('=').map_or_else(|| format!("{value:#x}"), |(_, value)| value.to_owned())
}
