//! Two traces of one packet, in two states of a network: where their paths differ first, and which flows and objects make the difference.

use std::fmt::Write as _;
use std::sync::Arc;

use nlog_data::{Row, TableId};
use nlog_explain::{Origin, ShowsInputs};
use serde_json::{Value as Json, json};

use crate::text::{named, verdict};
use crate::{FlowView, Leaf, Line, LookupView, Network, Trace};

/// The most objects behind a flow.
const LEAVES: usize = 4;

/// What differs between two traces of a packet.
#[derive(Debug)]
pub struct Difference {
    /// The verdicts, before and after.
    pub verdicts: [String; 2],
    /// What of objects and reports keeps the packet from arriving, before and after.
    pub causes: [Vec<String>; 2],
    /// The first difference; none if they are the same.
    pub parting: Option<Parting>,
}

/// The first difference between two paths.
#[derive(Debug)]
pub struct Parting {
    /// The host. Empty if the packet is on no host in one of the states.
    pub host: String,
    /// What happens there, before and after; none where the way has ended.
    pub sides: [Option<Side>; 2],
}

/// What a packet meets at the first difference between two paths.
#[derive(Debug)]
pub struct Side {
    /// What happens.
    pub what: String,
    /// The flow, as the rules write it, if it is a look-up that found one.
    pub flow: Option<String>,
    /// The rule that says the flow: file and line.
    pub rule: Option<String>,
    /// The objects and reports behind the flow.
    pub because: Vec<Leaf>,
}

/// Compares two traces of a packet, each with its network.
pub fn compare(before: (&Network, &Trace), after: (&Network, &Trace)) -> Difference {
    let ways = [before.1, after.1].map(way);
    let newest = newest(before.0, after.0);
    let pairs = ways[0].iter().zip(&ways[1]);
    let common = pairs.take_while(|(one, other)| is_same(one, other, [before.0, after.0], newest)).count();
    let ends = ways[0].len() == common && ways[1].len() == common;
    let parting = (!ends).then(|| {
        let at = ways.each_ref().map(|way| way.get(common));
        let host = at.iter().flatten().next().map_or(String::new(), |(host, _)| (*host).to_owned());
        let [one, other] = at;
        let side = |network: &Network, step: Option<&(&str, &Line)>| {
            step.map(|(host, line)| network.side(host, line))
        };
        Parting { host, sides: [side(before.0, one), side(after.0, other)] }
    });
    Difference {
        verdicts: [before.1, after.1].map(verdict),
        causes: [before.1, after.1].map(|trace| trace.findings.clone()),
        parting,
    }
}

/// The transaction of the change, if it inserted something.
fn newest(before: &Network, after: &Network) -> Option<u64> {
    let [before, after] = [before, after].map(|network| network.origins.values().max().copied());
    after.filter(|_| after > before)
}

/// What happens to a packet, in order of hosts. What a flow does shows in what comes after it.
fn way(trace: &Trace) -> Vec<(&str, &Line)> {
    let step = |line: &&Line| !matches!(line, Line::Note(_) | Line::Action(_));
    trace.hops.iter().flat_map(|hop| hop.lines.iter().filter(step).map(|line| (&*hop.host, line))).collect()
}

/// Whether the paths do not differ here. A flow that only does something else parts them if it does so because of the change itself, by another rule or
/// by what was inserted; other flows follow suit, as those that set the number of a group of ACLs, and say nothing to the reader.
fn is_same(
    (host, line): &(&str, &Line),
    (other, by): &(&str, &Line),
    networks: [&Network; 2],
    newest: Option<u64>,
) -> bool {
    let lines = match (line, by) {
        (Line::Lookup(one), Line::Lookup(two)) => {
            one.table == two.table && is_same_flow(one, two, networks, newest)
        }
        (Line::Bucket(one), Line::Bucket(two)) => one == two,
        (Line::Sent(one), Line::Sent(two)) | (Line::Problem(one), Line::Problem(two)) => one == two,
        _ => false,
    };
    host == other && lines
}

fn is_same_flow(
    before: &LookupView,
    after: &LookupView,
    networks: [&Network; 2],
    newest: Option<u64>,
) -> bool {
    let (Some(one), Some(other)) = (&before.flow, &after.flow) else {
        return before.flow.is_none() && after.flow.is_none();
    };
    let inserted =
        || newest.is_some() && networks[1].leaves_of(other).iter().any(|leaf| leaf.transaction() == newest);
    let rule =
        |network: &Network, flow: &FlowView| flow.said.map(|rule| network.program().rule(rule).fingerprint);
    let is_other_rule = || {
        let [before, after] = networks;
        !Arc::ptr_eq(before.program(), after.program()) && rule(before, one) != rule(after, other)
    };
    let alike = one.priority == other.priority && one.matching == other.matching;
    alike && (one.actions == other.actions || !(inserted() || is_other_rule()))
}

impl Network {
    fn side(&self, host: &str, line: &Line) -> Side {
        let plain = |what: String| Side {
            what: format!("on {host}: {what}"),
            flow: None,
            rule: None,
            because: Vec::new(),
        };
        match line {
            Line::Lookup(lookup) => match &lookup.flow {
                None => plain(format!("no flow matches in stage {} {}", lookup.table, lookup.stage)),
                Some(flow) => {
                    let matching = if flow.matching.is_empty() { "any packet" } else { &flow.matching };
                    let sentence =
                        if flow.sentence.is_empty() { String::new() } else { format!(": {}", flow.sentence) };
                    Side {
                        what: format!("on {host}: stage {} {}{sentence}", lookup.table, named(lookup)),
                        flow: Some(format!("{matching} -> {}", flow.actions)),
                        rule: flow.rule.clone(),
                        because: self.leaves_of(flow),
                    }
                }
            },
            Line::Bucket(id) => plain(format!("a copy by bucket {id}")),
            Line::Action(text) | Line::Note(text) | Line::Problem(text) => plain(text.clone()),
            Line::Sent(port) => plain(format!("the packet leaves by {port}")),
        }
    }
}

impl ShowsInputs for Difference {
    fn for_each_input(&mut self, visit: &mut dyn FnMut(TableId, &Row, &mut Option<Origin>)) {
        let sides = self.parting.iter_mut().flat_map(|parting| &mut parting.sides).flatten();
        sides.flat_map(|side| &mut side.because).for_each(|leaf| leaf.visit(visit));
    }
}

impl Difference {
    /// Whether the packet arrives where it did, or ends as it did, and on the same way.
    pub fn is_none(&self) -> bool {
        self.verdicts[0] == self.verdicts[1] && self.parting.is_none()
    }

    /// The difference for people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for (name, (verdict, causes)) in
            ["before: ", "after:  "].iter().zip(self.verdicts.iter().zip(&self.causes))
        {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{name}{verdict}");
            for cause in causes {
                let _ = writeln!(out, "        {cause}");
            }
        }
        let Some(parting) = &self.parting else {
            out.push_str("the packet takes the same path\n");
            return out;
        };
        out.push_str("first difference:\n");
        for (name, side) in ["before: ", "after:  "].iter().zip(&parting.sides) {
            let Some(side) = side else {
                let _ = writeln!(out, "    {name}nothing more happens");
                continue;
            };
            let _ = writeln!(out, "    {name}{}", side.what);
            let rule = side.rule.as_ref().map(|rule| format!("rule {rule}"));
            for line in side.flow.iter().chain(&rule) {
                let _ = writeln!(out, "            {line}");
            }
            for leaf in side.because.iter().take(LEAVES) {
                let by = leaf.origin.as_ref().map_or(String::new(), |origin| format!(" ({origin})"));
                let _ = writeln!(out, "            because of {}{by}", leaf.what);
            }
        }
        out
    }

    /// The difference for programs.
    pub fn json(&self) -> Json {
        let side = |side: &Option<Side>| match side {
            None => Json::Null,
            Some(side) => json!({
                "what": side.what,
                "flow": side.flow,
                "rule": side.rule,
                "because": side.because.iter().map(|leaf| {
                    let mut object = json!({"what": leaf.what});
                    Origin::add_to(leaf.origin.as_ref(), "transaction", &mut object);
                    object
                }).collect::<Vec<_>>(),
            }),
        };
        let state = |number: usize| {
            json!({
                "verdict": self.verdicts[number],
                "causes": self.causes[number],
                "parts": self.parting.as_ref().map(|parting| side(&parting.sides[number])),
            })
        };
        json!({"before": state(0), "after": state(1), "same_way": self.parting.is_none()})
    }
}
