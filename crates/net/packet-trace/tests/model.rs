//! The verdict of a trace is what the specification says of the packet: where it and its copies arrive, with which bytes, and
//! between which hosts the copies go.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use conformance::rows::rows;
use conformance::{NumberedWorld, Out, Place, Simulation, Size, Step, history, oracle, program};
use network_spec::Model;
use nlog::Program;
use packet_trace::{Delivery, Network, Origins, Sent, Trace};
use test_random::Random;

/// The frames of a history that are traced.
const FRAMES: usize = 8;

/// The network of a history at its end, and frames that enter it.
fn network_of(seed: u64) -> (NumberedWorld, Vec<(Place, Vec<u8>)>) {
    let size = Size { routed: 100 * (seed % 2), filtered: 100 * (seed / 2 % 2), ..Size::default() };
    let history = history(&mut Random::new(seed), size);
    let mut world = NumberedWorld::new(history.scattered);
    for change in history.steps.iter().flat_map(Step::changes) {
        world.apply(change);
    }
    // A trace knows no meter's state, and no machine's announcement.
    world.network.exhausted.clear();
    let frames = history.steps.into_iter().filter_map(|step| match step {
        Step::Send(place, bytes) => Some((place, bytes)),
        _ => None,
    });
    let there = |place: &Place| match place {
        Place::Vnic(host, port) => world.vnics.contains_key(&(host.clone(), port.clone())),
        Place::Tap(_) => true,
    };
    let frames = frames.filter(|(place, _)| there(place)).take(FRAMES).collect();
    (world, frames)
}

/// The rows of a world, and those of hooks, as if one transaction had inserted all of them.
fn origins(program: &Program, simulation: &mut Simulation, world: &NumberedWorld) -> Origins {
    let rows = rows(world, &program.objects, simulation.hosts().reports(), &|_| true);
    let rows = rows.into_iter().map(|(table, rows)| (table.to_owned(), rows));
    let all = rows.chain(simulation.given_by_hooks().unwrap());
    let named = |(table, rows): (String, std::collections::BTreeSet<nlog_data::Row>)| {
        let table = program.schema.find(&table);
        rows.into_iter().filter_map(move |row| Some(((table?, row), 1))).collect::<Vec<_>>()
    };
    all.flat_map(named).collect()
}

fn outs(trace: &Trace) -> Vec<Out> {
    let out = |one: &Delivery| {
        let at = match &one.host {
            Some(host) => Place::Vnic(host.clone(), one.interface.clone()),
            None => Place::Tap(one.interface.clone()),
        };
        Out { at, bytes: one.bytes.clone() }
    };
    let mut outs: Vec<Out> = trace.delivered.iter().map(out).collect();
    outs.sort();
    outs
}

fn copies(trace: &Trace) -> BTreeMap<(String, String), u64> {
    let mut copies = BTreeMap::new();
    for hop in &trace.tunnelled {
        *copies.entry(hop.clone()).or_default() += 1;
    }
    copies
}

/// What becomes of a frame: where it arrives, and how many copies go between hosts.
type Outcome = (Vec<Out>, BTreeMap<(String, String), u64>);

/// What the specification says of a frame: each outcome that it allows.
fn allowed(model: &Model, place: &Place, bytes: &[u8]) -> Vec<Outcome> {
    let outcomes = model.clone().outcomes(&oracle::tap(place), bytes);
    let one = |(model, arrivals): (Model, Vec<network_spec::Arrival>)| {
        let mut outs: Vec<Out> =
            arrivals.into_iter().map(|one| Out { at: oracle::place(&one.at), bytes: one.frame }).collect();
        outs.sort();
        (outs, model.copies().clone())
    };
    outcomes.into_iter().map(one).collect()
}

#[test]
fn a_trace_ends_where_the_specification_says() {
    let rules = program::rules();
    let (mut delivered, mut dropped, mut copied) = (0, 0, 0);
    for seed in test_random::seeds!("a_trace_ends_where_the_specification_says", 24) {
        let (world, frames) = network_of(seed);
        let mut simulation = Simulation::new(Arc::clone(&rules)).unwrap();
        simulation.change(&world, &|_| true).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{world}"));
        let mut spec = oracle::world(&world);
        simulation.trees(&mut spec.trees);
        let mut model = Model::default();
        model.apply(|old| *old = spec);
        let mut network = Network::new(&rules, origins(&rules, &mut simulation, &world))
            .unwrap_or_else(|why| panic!("seed {seed}: {why}\n{world}"));
        for (place, bytes) in frames {
            let from = match &place {
                Place::Vnic(_, port) => port.clone(),
                Place::Tap(network) => network.clone(),
            };
            let (at, notes) = (Some(place.clone()), Vec::new());
            let sent = Sent { from, to: None, place: at, bytes: bytes.clone(), notes, sought: None };
            let trace = network.trace(&sent).unwrap();
            let found = outs(&trace);
            let allowed = allowed(&model, &place, &bytes);
            let said = allowed.iter().find(|(outs, _)| *outs == found);
            let text = packet_trace::text::text(&trace, false);
            let Some((_, expected)) = said else {
                panic!("seed {seed}: {place}: the specification says {allowed:#?}\n{text}\n{world}");
            };
            if !world.relays() {
                let hops = copies(&trace);
                assert!(
                    allowed.iter().any(|(outs, copies)| *outs == found && *copies == hops),
                    "seed {seed}: {place}: copies {expected:?}\n{text}\n{world}"
                );
            }
            // What does not arrive has a reason.
            if found.is_empty() {
                dropped += 1;
                assert!(
                    text.starts_with("dropped") && !text.starts_with("dropped: no flow"),
                    "seed {seed}: {text}"
                );
            } else {
                delivered += 1;
                assert!(text.starts_with("delivered"), "seed {seed}: {text}");
            }
            copied += u64::from(found.len() > 1);
        }
    }
    assert!(
        delivered > 20 && dropped > 20 && copied > 5,
        "{delivered} delivered, {dropped} dropped, {copied} copied"
    );
}
