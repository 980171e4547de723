//! Whatever drops a packet is counted, by one cause: in random networks, each end of a packet in the flow tables is at a flow that the
//! rules name a cause for, or at one of those that this file lists.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use conformance::{NumberedWorld, Simulation, Size, Step, history, program};
use flow_simulator::trace::{Step as Traced, What};
use nlog::Program;
use nlog_data::Value;
use openflow_rs::{Action, FlowEntry};
use pipeline::Pipeline;
use test_random::Random;

/// What ends copies of packets that go elsewhere, or what no network can do anything about, by stage and priority: no cause counts it.
const NO_DROPS: [(&str, &str); 4] = [
    // All routers of the switch have answered the solicitation, which goes on to its ports.
    ("RESPOND", "UNANSWERED"),
    // The sender's own copy of what it floods.
    ("OUT_PORT", "OWN_FRAME"),
    // The home of the port has a copy too.
    ("OUT_SECURITY", "TO_STANDBY"),
    // The packet has left by another way.
    ("R_DELIVER", "SENT"),
];

/// The stages in which packets that meet no flow are not counted: those at the edge of the network, where what arrives is nobody's or
/// comes while hosts change one after another.
const UNCOUNTED: [&str; 6] = ["CLASSIFY", "DECAP", "STANDBY", "OUT_PORT", "PLACE", "R_NEXT_HOP"];

/// Subroutines: what meets no flow there returns. So does a solicitation that all routers of its switch have answered.
const SUBROUTINES: [&str; 13] = [
    "LEARN",
    "CONNECTION_METER",
    "ANNOUNCED",
    "IDENTITY",
    "FDB",
    "NEIGHBOUR",
    "RELOCATE",
    "ACL",
    "RESPOND",
    "OUTSIDE_NEIGHBOUR",
    "LED",
    "SHARED_NEIGHBOUR",
    "HEAR_NEIGHBOUR",
];

/// The flows that drop packets, and the meters of those that have one.
struct Causes {
    /// By table and first priority.
    flows: BTreeMap<(u8, u16), (u16, String)>,
    /// By number.
    meters: BTreeMap<u32, String>,
    pipeline: Pipeline,
}

/// Whether a flow drops a packet and asks for an error. One that hands a packet over has more to ask for.
fn owes_error(entry: &FlowEntry) -> bool {
    let actions = entry.actions.to_string();
    actions.ends_with("resubmit(,60)") && !actions.starts_with("controller(")
}

/// Whether a packet ends at a flow. What passes a meter goes nowhere either if nothing follows, except from a subroutine.
fn ends(stage: &str, entry: &FlowEntry) -> bool {
    match &entry.actions.0[..] {
        _ if owes_error(entry) => true,
        [] => true,
        [Action::Meter(_)] => !SUBROUTINES.contains(&stage),
        _ => false,
    }
}

impl Causes {
    fn of(rules: &Arc<Program>) -> Causes {
        // The facts of the rules are there once they have run.
        let mut simulation = Simulation::new(rules.clone()).unwrap();
        let mut world = NumberedWorld::new(false);
        for step in history(&mut Random::new(1), Size::default()).steps {
            for change in step.changes() {
                world.apply(change);
            }
        }
        simulation.change(&world, &|_| true).unwrap();
        let contents = simulation.contents().unwrap();
        let row = |row: &nlog_data::Row| {
            let [Value::String(cause), Value::Int(table), Value::Int(first), Value::Int(last)] = &row[..]
            else {
                panic!("{row:?}")
            };
            ((*table as u8, *first as u16), (*last as u16, cause.to_string()))
        };
        let flows: BTreeMap<_, _> = contents["dropping_flow"].iter().map(row).collect();
        let meter = |row: &nlog_data::Row| {
            let [Value::String(cause), Value::Int(meter)] = &row[..] else { panic!("{row:?}") };
            (*meter as u32, cause.to_string())
        };
        let meters: BTreeMap<_, _> = contents["dropping_meter"].iter().map(meter).collect();
        let named = flows.values().map(|(_, cause)| cause).chain(meters.values()).cloned();
        let named: BTreeSet<String> = named.collect();
        let said = contents["drop_cause"].iter().map(|row| match &row[0] {
            Value::String(cause) => cause.to_string(),
            other => panic!("{other:?}"),
        });
        assert!(!named.is_empty(), "no facts");
        assert_eq!(named, said.collect(), "each cause has a sentence and a flow or a meter");
        Causes { flows, meters, pipeline: Pipeline::new(rules) }
    }

    /// Why a flow at which a packet ends drops it.
    fn cause(&self, table: u8, entry: &FlowEntry) -> Option<&str> {
        if let [Action::Meter(meter), ..] = &entry.actions.0[..] {
            return self.meters.get(&meter.id).map(String::as_str);
        }
        let ((at, _), (last, cause)) = self.flows.range(..=(table, entry.priority)).next_back()?;
        (*at == table && entry.priority <= *last).then_some(cause)
    }

    /// Adds the causes of the ends of a packet on a host, and says what is wrong with one.
    fn ends(&self, steps: &[Traced], met: &mut Vec<String>) -> Result<(), String> {
        for step in steps {
            if let What::Lookup { table, entry, .. } = &step.what {
                let names = self.pipeline.names();
                let stage = names.stage_name(*table).unwrap_or_default();
                match entry {
                    Some(entry) if ends(stage, entry) => {
                        let priority = names.priority_name(*table, entry.priority).unwrap_or_default();
                        match self.cause(*table, entry) {
                            Some(cause) => met.push(cause.to_owned()),
                            None if NO_DROPS.contains(&(stage, priority)) => {}
                            None => {
                                return Err(format!("{stage}, {priority} drops and has no cause: {entry}"));
                            }
                        }
                    }
                    None if !UNCOUNTED.contains(&stage) && !SUBROUTINES.contains(&stage) => {
                        return Err(format!("no flow of {stage} takes the packet, and none counts it"));
                    }
                    _ => {}
                }
            }
            // What is handed to the responder has been dropped, and counted.
            if !matches!(&step.what, What::Lookup { entry: Some(entry), .. } if owes_error(entry)) {
                self.ends(&step.within, met)?;
            }
        }
        Ok(())
    }
}

/// The table of causes in the book.
const PAGE: &str = include_str!("../../../../docs/reference/drops.md");

#[test]
fn the_page_of_drops_has_each_cause() {
    let rules = program::rules();
    let causes = Causes::of(&rules);
    let codes: BTreeSet<&str> = causes
        .flows
        .values()
        .map(|(_, cause)| cause)
        .chain(causes.meters.values())
        .map(String::as_str)
        .collect();
    let table = PAGE.split_once("## The causes").and_then(|(_, rest)| rest.split_once("\n## ")).unwrap().0;
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let said: BTreeSet<&str> = rows.map(|(code, _)| code).collect();
    assert_eq!(said, codes);
}

#[test]
fn what_drops_a_packet_is_counted_by_one_cause() {
    let rules = program::rules();
    let causes = Causes::of(&rules);
    let (mut sent, mut met) = (0, BTreeMap::<String, u64>::new());
    for seed in test_random::seeds!("what_drops_a_packet_is_counted_by_one_cause", 60) {
        // Every other network has routers.
        let size = if seed % 2 == 0 { Size::default() } else { Size::routed() };
        let history = history(&mut Random::new(seed), size);
        let mut simulation = Simulation::new(rules.clone()).unwrap();
        let mut world = NumberedWorld::new(history.scattered);
        for step in &history.steps {
            if !step.changes().is_empty() {
                for change in step.changes() {
                    world.apply(change);
                }
                simulation
                    .change(&world, &|_| true)
                    .unwrap_or_else(|why| panic!("seed {seed}: {why}\n{world}"));
            }
            let Step::Send(place, bytes) = step else { continue };
            let crossing = simulation.trace(place, bytes);
            let mut ends = Vec::new();
            for (host, steps) in &crossing.hops {
                let checked = causes.ends(steps, &mut ends);
                checked.unwrap_or_else(|why| {
                    let trace: String = steps.iter().map(ToString::to_string).collect();
                    panic!("seed {seed}, on {host}: {why}\n{trace}\n{world}")
                });
            }
            sent += 1;
            // Copies end one by one.
            let is_group = bytes.first().is_some_and(|first| first & 1 == 1);
            // A frame for an address that ports share goes to all of them where nobody was heard.
            let mut allowed = world.ports.values().flat_map(|port| &port.allowed);
            let is_shared = allowed.any(|one| one.mac.is_some_and(|mac| bytes.starts_with(&mac)));
            if !is_group
                && !is_shared
                && crossing.arrived.is_empty()
                && crossing.tapped.is_empty()
                && crossing.hops.len() == 1
            {
                assert!(ends.len() <= 1, "seed {seed}: counted {} times: {ends:?}\n{world}", ends.len());
            }
            for cause in ends {
                *met.entry(cause).or_default() += 1;
            }
        }
    }
    println!("{sent} frames: {met:?}");
    // However many seeds run.
    assert!(sent < 1_000 || met.len() > 10, "few causes: {met:?}");
}
