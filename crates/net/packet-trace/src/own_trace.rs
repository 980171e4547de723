//! What of a trace somebody may read who owns some of the objects, such as a tenant.
//!
//! The answer is made anew, of what is known to be the owner's. Nothing is cut out of the full trace, so what that says besides, or will
//! say one day, is untold: hosts, tunnels, flows, rules, and all objects of others. Where a packet comes to what is not the owner's, the
//! answer says so in general words, and does not depend on what happens there.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use nlog_data::{ObjectKind, Value};
use openflow_rs::{Action, Field};
use serde_json::{Value as Json, json};
use switch_model::interface::{DATAPATH_LABELS, DROP_CAUSES, DROPPING_FLOWS, DROPPING_METERS};

use crate::frame::vlan;
use crate::meaning::has_interface;
use crate::packet::string;
use crate::{Cause, Delivery, Drop, Leaf, Line, LookupView, Network, Trace};

/// The most ports, drops and objects in a text. The JSON has all.
const SHOWN: usize = 5;
/// Why a packet ends where no declared cause of drops says it.
const NO_CAUSE: &str = "nothing there takes it further";
/// Why a copy of a flood ends at its sender.
const RETURNS: &str = "it would only return to its sender";

/// Somebody who owns some of the objects.
pub struct Owner<'a> {
    /// Who it is, as in a sentence: `tenant acme`.
    pub name: &'a str,
    /// Whether an object belongs to it, by kind and id.
    pub has: &'a dyn Fn(&str, &str) -> bool,
}

/// The way of a packet as far as it is the owner's. A field has to be listed in [`OwnTrace::text`] and [`OwnTrace::json`] to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTrace {
    owner: String,
    /// The port that sends the packet, and the one that it is for, if that is known.
    from: String,
    to: Option<String>,
    packet: String,
    /// The owner's ports where it arrives.
    delivered: BTreeSet<String>,
    /// Where it, or a copy of it, ends in what is the owner's.
    dropped: BTreeSet<OwnDrop>,
    /// Whether it comes to anything that is not the owner's.
    leaves: bool,
    /// Whether it asks for an address that none of the owner's ports has.
    vain: bool,
    /// The hosts of the owner's ports. They are not told.
    hosts: BTreeSet<String>,
    /// Whether one of these hosts is known to lack the flows.
    pub is_cut_off: bool,
}

/// The end of a packet in what is the owner's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct OwnDrop {
    /// The switch or router; none if it does not come to one.
    place: Option<String>,
    /// The cause, as it is counted.
    code: Option<String>,
    why: String,
    /// The owner's objects that decided it.
    because: Vec<String>,
    /// Whether an object of somebody else decided it.
    by_others: bool,
}

impl OwnTrace {
    /// Whether the packet arrives where it should: at the port that it is for, or at any of the owner if none is known.
    pub fn is_delivered(&self) -> bool {
        match &self.to {
            _ if self.vain => false,
            Some(to) => self.delivered.contains(to),
            None => !self.delivered.is_empty(),
        }
    }

    /// The packet's fields.
    pub fn packet(&self) -> &str {
        &self.packet
    }

    /// The hosts of the owner's ports, for a look at their connections. They must not be told.
    pub fn hosts(&self) -> &BTreeSet<String> {
        &self.hosts
    }

    /// What keeps the flows from being in force, in general words.
    pub fn not_in_force(&self) -> Vec<String> {
        let why = "a host of these ports is not connected, and may have other flows";
        if self.is_cut_off { vec![why.to_owned()] } else { Vec::new() }
    }

    /// The verdict in one line.
    pub fn verdict(&self) -> String {
        let OwnTrace { owner, delivered, .. } = self;
        let places = shown(delivered.iter().map(String::as_str));
        if self.is_delivered() {
            return match self.not_in_force().first() {
                None => format!("delivered to {places}"),
                Some(why) => format!("delivered by the rules to {places}, but {why}"),
            };
        }
        match (&self.to, self.dropped.first()) {
            _ if self.vain => format!("dropped: no port of {owner} is known to have the address"),
            (Some(to), _) if !delivered.is_empty() => format!("not delivered to {to}, but to {places}"),
            (_, Some(drop)) => format!("dropped{}", drop.text()),
            (_, None) if self.leaves => format!("leaves the networks of {owner}"),
            (_, None) => format!("dropped: the cause is nothing of {owner}; ask an operator"),
        }
    }

    /// The answer as text: the verdict first.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.verdict());
        let dropped: Vec<&OwnDrop> = self.dropped.iter().collect();
        // The verdict says the first, unless the packet arrives somewhere, or nobody has the address.
        let is_verdict = !self.is_delivered() && !self.vain && self.delivered.is_empty();
        for (number, drop) in dropped.iter().take(SHOWN).enumerate() {
            if number > 0 || !is_verdict {
                let _ = writeln!(out, "a copy is dropped{}", drop.text());
            }
            drop.reasons(&self.owner, &mut out);
        }
        if let Some(more @ 1..) = dropped.len().checked_sub(SHOWN) {
            let _ = writeln!(out, "and {more} more copies are dropped; --json has them");
        }
        if self.vain && !self.delivered.is_empty() {
            let _ =
                writeln!(out, "the question reaches {}", shown(self.delivered.iter().map(String::as_str)));
        }
        let _ = writeln!(out, "packet from {}: {}", self.from, self.packet);
        if self.leaves {
            let _ = writeln!(
                out,
                "note: the packet, or a copy, leaves the networks of {}; what becomes of it there is not told",
                self.owner
            );
        }
        out
    }

    /// The answer as one object.
    pub fn json(&self) -> Json {
        let verdict = match (self.is_delivered(), self.dropped.is_empty()) {
            (true, _) => "delivered",
            (false, true) if self.leaves && !self.vain && self.delivered.is_empty() => "leaves",
            (false, _) => "dropped",
        };
        let delivered: Vec<Json> = self.delivered.iter().map(|port| json!({"port": port})).collect();
        let mut object = json!({
            "limited_to": self.owner,
            "verdict": verdict,
            "text": self.verdict(),
            "from": self.from,
            "to": self.to,
            "packet": self.packet,
            "delivered": delivered,
            "dropped": self.dropped.iter().map(OwnDrop::json).collect::<Vec<_>>(),
            "leaves": self.leaves,
        });
        if self.is_cut_off {
            object["not_in_force"] = json!(self.not_in_force());
        }
        object
    }
}

impl OwnDrop {
    /// An end without flows of a switch or router behind it.
    fn plain(why: String) -> OwnDrop {
        OwnDrop { place: None, code: None, why, because: Vec::new(), by_others: false }
    }

    /// Where and why, as the rest of a sentence.
    fn text(&self) -> String {
        match &self.place {
            Some(place) => format!(" in {place}: {}", self.why),
            None => format!(": {}", self.why),
        }
    }

    fn reasons(&self, owner: &str, out: &mut String) {
        if !self.because.is_empty() {
            let _ = writeln!(out, "    because of {}", shown(self.because.iter().map(String::as_str)));
        }
        if self.by_others {
            let _ = writeln!(out, "    because of what is not of {owner}; ask an operator");
        }
    }

    fn json(&self) -> Json {
        let because: Vec<Json> = self.because.iter().map(|what| json!({"what": what})).collect();
        json!({"in": self.place, "cause": self.code, "why": self.why, "because": because, "by_others": self.by_others})
    }
}

/// The first of a list, and how many more there are.
fn shown<'a>(all: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = all.len().saturating_sub(SHOWN);
    let first: Vec<&str> = all.take(SHOWN).collect();
    let first = first.join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

/// The number of the switch or router that a packet is in at a look-up, or 0.
fn number(lookup: &LookupView) -> u128 {
    lookup.key.get(Field::Metadata)
}

impl Network {
    /// What of a trace its owner may read.
    pub fn own_trace(&self, trace: &Trace, owner: &Owner<'_>) -> OwnTrace {
        let entry = trace.hops.first().map(|hop| hop.host.as_str());
        let mut own = OwnTrace {
            owner: owner.name.to_owned(),
            from: trace.from.clone(),
            to: trace.to.clone().filter(|to| self.has_port(owner, to)),
            packet: trace.packet.clone(),
            delivered: BTreeSet::new(),
            dropped: BTreeSet::new(),
            leaves: false,
            vain: trace.vain,
            hosts: entry.map(str::to_owned).into_iter().collect(),
            is_cut_off: false,
        };
        let lookups = trace.hops.iter().flat_map(|hop| &hop.lines).filter_map(|line| match line {
            Line::Lookup(lookup) => Some(&**lookup),
            _ => None,
        });
        own.leaves = lookups.into_iter().any(|at| number(at) != 0 && self.own_place(owner, at).is_none());
        for delivery in &trace.delivered {
            self.add_delivery(delivery, owner, &mut own);
        }
        own.dropped = trace.dropped.iter().filter_map(|drop| self.own_drop(drop, entry, owner)).collect();
        own
    }

    fn add_delivery(&self, delivery: &Delivery, owner: &Owner<'_>, own: &mut OwnTrace) {
        let Some(host) = &delivery.host else {
            // On a physical network, others may take it.
            own.leaves = true;
            let mut ports = self.ports_to(&delivery.interface, vlan(&delivery.bytes));
            own.delivered.extend(ports.find(|port| self.has_port(owner, port)));
            return;
        };
        if self.has_port(owner, &delivery.port) {
            own.delivered.insert(delivery.port.clone());
            own.hosts.insert(host.clone());
        } else {
            own.leaves = true;
        }
    }

    /// The end of a packet, if it is in what is the owner's. `entry` is the host where the packet enters.
    fn own_drop(&self, drop: &Drop, entry: Option<&str>, owner: &Owner<'_>) -> Option<OwnDrop> {
        let lookup = match &drop.cause {
            Cause::NoRow { port: Some(port), .. } if self.has_port(owner, port) => {
                return Some(OwnDrop::plain(format!("port {port} is not attached to any host")));
            }
            // That nobody has an address is said by the verdict; what else is wrong with hosts is not the owner's.
            Cause::NoRow { .. } | Cause::Fault(_) => return None,
            Cause::Flow(lookup) | Cause::Missing(lookup, _) | Cause::Problem(lookup, _) => lookup,
        };
        let place = self.own_place(owner, lookup);
        // Before it comes to any switch, a packet is the owner's where it enters.
        let is_own = place.is_some() || number(lookup) == 0 && entry == Some(drop.host.as_str());
        if !is_own {
            return None;
        }
        if drop.returns() {
            return Some(OwnDrop { place, ..OwnDrop::plain(RETURNS.to_owned()) });
        }
        let code = self.cause_of(drop, lookup);
        let why = code.as_deref().and_then(|code| self.sentence_of(code));
        let (because, by_others) = self.deciding_objects(drop, lookup, owner);
        let why = why.unwrap_or_else(|| NO_CAUSE.to_owned());
        Some(OwnDrop { place, code, why, because, by_others })
    }

    /// The cause for which the rules count a drop.
    fn cause_of(&self, drop: &Drop, lookup: &LookupView) -> Option<String> {
        let of_flow = |(table, priority): (u8, u16)| {
            let rows = self.named_with(DROPPING_FLOWS.name, "table_id", Value::Int(table.into()));
            rows.into_iter().find_map(|row| match &row[..] {
                [Value::String(cause), _, Value::Int(first), Value::Int(last)]
                    if (*first..=*last).contains(&i64::from(priority)) =>
                {
                    Some(cause.to_string())
                }
                _ => None,
            })
        };
        let of_meter = || {
            let actions = &lookup.flow.as_ref()?.on.1.actions.0;
            let meters = actions.iter().filter_map(|action| match action {
                Action::Meter(meter) => Some(Value::Int(meter.id.into())),
                _ => None,
            });
            let mut rows =
                meters.flat_map(|meter| self.named_with(DROPPING_METERS.name, "meter", meter).into_iter());
            rows.find_map(|row| string(row.first()).map(str::to_owned))
        };
        drop.counted_by.and_then(of_flow).or_else(of_meter)
    }

    /// What the rules say of a cause.
    fn sentence_of(&self, cause: &str) -> Option<String> {
        let rows = self.named_with(DROP_CAUSES.name, "cause", cause.into());
        rows.into_iter().find_map(|row| string(row.get(1)).map(str::to_owned))
    }

    /// The owner's objects that decided that a packet ends, and whether those of others did. The first behind each flow decides.
    fn deciding_objects(&self, drop: &Drop, at: &LookupView, owner: &Owner<'_>) -> (Vec<String>, bool) {
        let written = drop.written.iter().map(|(_, at, because)| (at, because));
        let (mut own, mut by_others) = (Vec::new(), false);
        for (at, because) in std::iter::once((at, &drop.because)).chain(written) {
            let decides = |leaf: &&Leaf| at.flow.as_ref().is_some_and(|flow| self.decides(flow, leaf));
            let Some(leaf) = because.iter().find(decides) else { continue };
            let (Some(kind), Some(id)) = (self.kind(leaf), &leaf.object) else { continue };
            if !(owner.has)(kind, id) {
                by_others = true;
            } else if !own.contains(&leaf.what) {
                own.push(leaf.what.clone());
            }
        }
        (own, by_others)
    }

    /// The switch or router that a packet is in, with its kind, if it is the owner's.
    fn own_place(&self, owner: &Owner<'_>, lookup: &LookupView) -> Option<String> {
        let id = lookup.datapath.as_deref()?;
        let is_datapath =
            |kind: &&ObjectKind| DATAPATH_LABELS.columns.iter().any(|(name, _)| *name == kind.id_space);
        let mut kinds = self.program().objects.iter().filter(is_datapath);
        kinds.find(|kind| (owner.has)(&kind.name, id)).map(|kind| format!("{} {id}", kind.name))
    }

    /// Whether a port is the owner's.
    fn has_port(&self, owner: &Owner<'_>, port: &str) -> bool {
        port_kinds(self.program()).any(|kind| (owner.has)(kind, port))
    }
}

/// The kinds of ports.
pub fn port_kinds(program: &nlog::Program) -> impl Iterator<Item = &str> {
    program.objects.iter().filter(|kind| has_interface(kind)).map(|kind| kind.name.as_str())
}
