//! What somebody should look at or change, in the words of objects and reports. A trace says which flow drops a packet, or which is missing; a
//! *finding* says what of the configuration or of the network's state is behind it. Findings are drawn from rows alone, and only those that
//! the rows prove are said: where none is, the rules are at fault, and the answer of why-not leads to them.

mod acls;
mod objects;
mod places;
mod routers;
mod security;

pub(crate) use objects::{lack, word};

use flow_simulator::FlowKey;
use nlog::program::Pattern;
use nlog_data::Value;
use nlog_explain::{ObstacleKind, explanation};
use openflow_rs::Field;

use crate::{Cause, Drop, LookupView, Network, Sent, Trace};

/// The most lines of a why-not that are shown as a finding.
const WHY_NOT_LINES: usize = 10;

/// A packet that does not arrive.
struct Case<'a> {
    network: &'a Network,
    sent: &'a Sent,
    /// The end that says most.
    drop: Option<&'a Drop>,
}

impl Network {
    /// The findings of a trace whose packet does not arrive, and whether objects and reports have no part in it, and the rules are at fault.
    pub(crate) fn findings(&self, sent: &Sent, trace: &Trace) -> (Vec<String>, bool) {
        if trace.is_delivered() {
            return (Vec::new(), false);
        }
        let case = Case { network: self, sent, drop: trace.main_drop() };
        case.findings()
    }

    /// The value of a field that the rules name.
    fn named_bits(&self, key: &FlowKey, name: &str) -> Option<u128> {
        let named = self.program().fields.iter().find(|named| named.name == name)?;
        let bits = named.field;
        Some((key.get(bits.field()) & bits.mask()) >> bits.start())
    }

    /// Why no rule derives a row with these values, as lines. Rules that only a condition stops come first: they say the most.
    fn why_no_row(&self, table: &str, columns: Vec<Option<Value>>) -> Vec<String> {
        let Some(table) = self.program().schema.find(table) else { return Vec::new() };
        let mut answer = self.state.why_not(&Pattern { table, columns });
        answer.obstacles.sort_by_key(|obstacle| !matches!(obstacle.kind, ObstacleKind::False { .. }));
        explanation::why_not(self.program(), &answer)
    }
}

impl Case<'_> {
    fn findings(&self) -> (Vec<String>, bool) {
        let found = self.lookup().map_or(Vec::new(), |lookup| self.of_stage(lookup));
        let found = if found.is_empty() { self.places() } else { found };
        if !found.is_empty() {
            return (found, false);
        }
        let blamed = self.rules();
        let rules_blamed = !blamed.is_empty();
        (blamed, rules_blamed)
    }

    /// The look-up at which the packet ends.
    fn lookup(&self) -> Option<&LookupView> {
        match &self.drop?.cause {
            Cause::Flow(lookup) | Cause::Missing(lookup, _) | Cause::Problem(lookup, _) => Some(lookup),
            Cause::NoRow { .. } | Cause::Fault(_) => None,
        }
    }

    /// What the stage is about, if the stage says it. Its names are those of the built-in rules; others have no findings of it.
    fn of_stage(&self, lookup: &LookupView) -> Vec<String> {
        match (&*lookup.stage, lookup.priority_name()) {
            ("VERDICT", Some("DROPPED_BY_ACLS")) => self.acls(lookup),
            ("TRACKED", Some("INVALID")) => Self::without_connection(lookup),
            ("R_LOCAL", Some("EXPIRED")) => expired(lookup),
            ("R_ROUTE", Some("NO_ROUTE")) => self.no_route(lookup),
            ("R_ROUTE", Some("ROUTES")) => self.dead_route(lookup),
            ("R_POLICY", Some("POLICIES")) => self.policy(lookup),
            ("R_LEAVE", Some("TOO_LARGE")) => self.too_large(lookup),
            ("R_LEAVE", Some("TO_ACTIVE_GATEWAY")) => self.no_gateway(lookup),
            ("N_DESTINATION", Some("NOT_WANTED")) => self.unpublished(lookup),
            ("R_DELIVER", _) => self.no_neighbour(lookup),
            ("PORT_SECURITY" | "SENDER" | "ARP_SENDER" | "ND_SECURITY", None) => self.sender(lookup),
            ("GUARD", _) => self.guard(lookup),
            ("OUT_SECURITY" | "RECEIVER", None) => self.receiver(lookup),
            ("L2", None) => self.no_mac(lookup),
            _ => Vec::new(),
        }
    }

    /// What is missing is a flow or a row, and nothing else is known: how far the rules get.
    fn rules(&self) -> Vec<String> {
        if let Some(Drop { cause: Cause::NoRow { .. }, .. }) = self.drop {
            return vec!["objects and reports give no reason for it: the rules do, as follows".to_owned()];
        }
        let Some(Drop { host, cause: Cause::Missing(lookup, near), .. }) = self.drop else {
            return Vec::new();
        };
        if !near.is_empty() {
            return Vec::new();
        }
        let table = Some(Value::Int(i64::from(lookup.table)));
        let lines = self
            .network
            .why_no_row("of_flow", vec![Some(Value::String(host.as_str().into())), table, None, None, None]);
        let what = format!(
            "{host} has no flow in stage {} that could match, and objects and reports give no reason: the rules do",
            lookup.stage
        );
        if lines.is_empty() { Vec::new() } else { with_lines(what, lines) }
    }
}

/// No router forwards the packet, because its TTL expires.
fn expired(lookup: &LookupView) -> Vec<String> {
    let hops = lookup.key.get(Field::IpTtl);
    let router = lookup.datapath.as_deref().unwrap_or_default();
    vec![format!(
        "the packet comes to router {router} with hop limit {hops}, and a router forwards only packets with 2 or more"
    )]
}

/// A finding with the answer of a why-not below it.
fn with_lines(what: String, lines: Vec<String>) -> Vec<String> {
    // What a rule derives is for other packets.
    let rules = lines.chunk_by(|_, next| next.starts_with(' '));
    let held_back = rules.filter(|rule| !rule.iter().any(|line| line.trim() == "derives it"));
    std::iter::once(what).chain(held_back.flatten().take(WHY_NOT_LINES).cloned()).collect()
}
