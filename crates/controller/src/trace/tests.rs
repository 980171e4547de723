//! A trace of a running controller is that of its rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use conformance::rows::rows;
use conformance::{Simulation, Size, Step, World, history};
use network::{Kinds, ObjectStore};
use nlog_data::json::to_json;
use nlog_data::{Row, TableId};
use packet_trace::{Cause, Line, Network, Payload, Trace, Words, json, text};
use test_random::Random;

use super::Snapshot;
use crate::concerned::WHOLE_MAX;
use crate::core::{Core, History};
use crate::record::{ObjectChanges, Record};
use crate::rules::Rules;

/// The pairs of ports of a network between which packets are traced.
const PAIRS: usize = 6;

/// A random network at the end of a history.
fn world_of(seed: u64) -> World {
    let size = Size { routed: 100 * (seed % 2), filtered: 100 * (seed / 2 % 2), ..Size::default() };
    let history = history(&mut Random::new(seed), size);
    let mut world = World::new(history.scattered);
    for change in history.steps.iter().flat_map(Step::changes) {
        world.apply(change);
    }
    // A controller has these from nobody.
    world.trees = conformance::world::Trees::DEFAULT;
    world.exhausted.clear();
    world
}

/// The rows of a world, by the names of their tables.
fn rows_of(rules: &Rules, world: &World) -> BTreeMap<String, BTreeSet<Row>> {
    let mut simulation = Simulation::new(Arc::clone(rules.program())).unwrap();
    simulation.change(world, &|_| true).unwrap();
    let rows = rows(world, &rules.program().objects, simulation.hosts().reports(), &|_| true);
    rows.into_iter().map(|(table, rows)| (table.to_owned(), rows.into_iter().collect())).collect()
}

/// A controller's state with these rows, as one transaction left it.
fn core_of(rules: &Arc<Rules>, rows: &BTreeMap<String, BTreeSet<Row>>) -> Core {
    let schema = &rules.program().schema;
    let kinds = Kinds::new(rules.program().objects.clone());
    let of = |table: TableId| {
        let rows = rows.get(&schema.table(table).name);
        Ok::<_, std::convert::Infallible>(rows.into_iter().flatten().cloned().collect())
    };
    let Ok(objects) = ObjectStore::of_rows(&kinds, schema, of);
    let put = objects.iter().map(|(_, object)| serde_json::from_str(&object.to_json()).unwrap());
    let as_json = |rows: &BTreeSet<Row>| rows.iter().map(|row| row.iter().map(to_json).collect()).collect();
    let insert = rows.iter().map(|(table, rows)| (table.as_str().into(), as_json(rows))).collect();
    let record = Record {
        txn: 1,
        at: "2026-01-01T00:00:00Z".to_owned(),
        by: "test".to_owned(),
        peer: None,
        insert,
        delete: BTreeMap::new(),
        objects: ObjectChanges { put: put.collect(), delete: Vec::new() },
        labels: Vec::new(),
        reports: None,
        filled: None,
        memory: nlog_data::Memories::new(),
    };
    let mut history = History::new(rules);
    history.add(&record).unwrap();
    let evaluator = crate::run::evaluator(rules, 1).unwrap();
    Core::restore(evaluator, Arc::clone(rules), history, SystemTime::UNIX_EPOCH).unwrap().0
}

/// Pairs of ports, the first of which has an interface.
fn pairs(world: &World, random: &mut Random) -> Vec<(String, String)> {
    let from: Vec<&String> = world.vifs.keys().map(|(_, port)| port).collect();
    let to: Vec<&String> = world.ports.keys().collect();
    if from.is_empty() || to.is_empty() {
        return Vec::new();
    }
    let pair = |random: &mut Random| ((*random.pick(&from)).clone(), (*random.pick(&to)).clone());
    (0..PAIRS).map(|_| pair(random)).collect()
}

fn traced(network: &mut Network, from: &str, to: &str) -> Result<Trace, String> {
    let words = Words {
        to: Some(to.to_owned()),
        ip: None,
        from_ip: None,
        from_mac: None,
        to_mac: None,
        payload: Payload::Tcp(443),
        ttl: None,
        size: None,
    };
    let sent = network.packet(from, &words)?;
    network.trace(&sent)
}

/// What a trace says of the packet, without the objects behind it.
fn way(trace: &Trace) -> String {
    let mut lines = vec![text::verdict(trace), trace.packet.clone()];
    for hop in &trace.hops {
        lines.push(hop.host.clone());
        for line in &hop.lines {
            lines.push(match line {
                Line::Lookup(at) => {
                    let flow = at.flow.as_ref().map(|flow| (&flow.text, &flow.rule, &flow.placed_by, &flow.sentence));
                    format!("{} {:?} {flow:?}", at.stage, at.datapath)
                }
                other => format!("{other:?}"),
            });
        }
    }
    lines.join("\n")
}

/// The flows that drop the packet or a copy, and those of them whose objects are known.
fn explained(trace: &Trace) -> (usize, usize) {
    let flows = trace.dropped.iter().filter(|drop| matches!(drop.cause, Cause::Flow(_)));
    let known = flows.clone().filter(|drop| !drop.because.is_empty());
    (flows.count(), known.count())
}

#[test]
fn a_trace_of_a_controller_is_that_of_its_rows() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let (mut delivered, mut dropped, mut flows, mut known) = (0, 0, 0, 0);
    for seed in test_random::seeds!("a_trace_of_a_controller_is_that_of_its_rows", 12) {
        let world = world_of(seed);
        let mut core = core_of(&rules, &rows_of(&rules, &world));
        let all = Snapshot::of_at_most(&mut core, &[], usize::MAX).unwrap();
        let mut offline = Network::new(rules.program(), all.origins.clone()).unwrap();
        for (from, to) in pairs(&world, &mut Random::new(seed)) {
            let expected = traced(&mut offline, &from, &to);
            let ports = [from.clone(), to.clone()];
            for whole_max in [WHOLE_MAX, 0] {
                let snapshot = Snapshot::of_at_most(&mut core, &ports, whole_max).unwrap();
                let found = traced(&mut snapshot.network().unwrap().0, &from, &to);
                let at = format!("seed {seed}: {from} to {to}, whole up to {whole_max}:\n{world}");
                let (expected, found) = match (&expected, &found) {
                    (Ok(expected), Ok(found)) => (expected, found),
                    (expected, found) => {
                        assert_eq!(expected.as_ref().err(), found.as_ref().err(), "{at}");
                        continue;
                    }
                };
                assert_eq!(way(expected), way(found), "{at}");
                if whole_max > 0 {
                    assert_eq!(json::json(expected), json::json(found), "{at}");
                    delivered += usize::from(found.is_delivered());
                    dropped += usize::from(!found.is_delivered());
                } else {
                    flows += explained(expected).1;
                    known += explained(found).1;
                }
            }
        }
    }
    assert!(delivered > 5 && dropped > 5, "{delivered} delivered, {dropped} dropped");
    // Numbers that stand for several objects can need more of them than are around the ports.
    assert!(flows > 5 && known * 10 >= flows * 9, "of {flows} flows, {known} are explained from the rows around the ports");
}
