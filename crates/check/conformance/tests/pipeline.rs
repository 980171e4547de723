//! The pipeline that the rules describe is the one that they derive: each flow of random networks falls under one of its entries,
//! and under no entry of another rule.

use std::collections::BTreeSet;

use conformance::{Change, NumberedWorld, Simulation, Size, Step, history, program};
use nlog_data::{Row, Value};
use pipeline::{Entry, Pipeline};
use test_random::Random;

/// The files of rules whose flows are on hosts with ACLs alone.
const ACLS: [&str; 7] = [
    "logical/acl/acls.nlog",
    "logical/acl/connections.nlog",
    "logical/acl/logging.nlog",
    "logical/acl/rejections.nlog",
    "logical/acl/stages.nlog",
    "physical/connection_limits.nlog",
    "physical/identities.nlog",
];

/// The files of rules whose flows ask the responder for names, for what ports with meters of their own ask of their network, or to ask machines.
const SERVERS: [&str; 3] =
    ["logical/dns/dns.nlog", "logical/multicast/querier.nlog", "physical/request_meters.nlog"];

/// The files of rules whose flows are about IP addresses that ports are allowed besides their own: a description has no word for their masks
/// either, so these networks have none.
const ALLOWED: [&str; 3] = [
    "logical/port_security/allowed_security.nlog",
    "logical/routing/shared_neighbours.nlog",
    "physical/unlabelled_announcements.nlog",
];

/// The files of rules whose flows are about router ports with gateways, and the addresses that these translate.
const GATEWAYS: [&str; 7] = [
    "logical/gateways/outside.nlog",
    "logical/nat/entering.nlog",
    "logical/nat/hairpin.nlog",
    "logical/nat/leaving.nlog",
    "physical/gateways.nlog",
    "physical/gateway_messages.nlog",
    "physical/nat.nlog",
];

/// A flow that does not fall under the entries of exactly one rule, with the entries.
fn fault(pipeline: &Pipeline, row: &Row) -> Option<String> {
    let [_, Value::Int(table), Value::Int(priority), Value::Match(matching), Value::Actions(actions)] =
        &row[..]
    else {
        return Some(format!("not a flow: {row:?}"));
    };
    let (Ok(table), Ok(priority)) = (u8::try_from(*table), u16::try_from(*priority)) else {
        return Some(format!("not a table or a priority: {row:?}"));
    };
    let entries = pipeline.entries_of(table, priority, &matching.get(), &actions.get());
    // What a packet filter says can be what the rule says besides: then a flow is of two forms of one rule.
    let of_one_rule = |entry: &&Entry| entry.rules == entries[0].rules;
    if !entries.is_empty() && entries.iter().all(of_one_rule) {
        return None;
    }
    let texts: Vec<String> = entries
        .iter()
        .map(|entry| format!("{} ({}:{})", entry.matching, entry.rules[0].file, entry.rules[0].line))
        .collect();
    let flow = format!("table={table} priority={priority} {} actions={}", matching.text(), actions.text());
    Some(format!("{flow}: {} entries: {}", texts.len(), texts.join("; ")))
}

/// The change, but ports are allowed no IP addresses beside their own. At MAC addresses that they share, they may use any.
fn without_allowed_ips(change: &Change) -> Change {
    let mut change = change.clone();
    if let Change::Port(_, port) = &mut change {
        let own: Vec<_> = port.addresses.iter().map(|address| Some(address.mac)).collect();
        port.allowed.retain(|one| one.mac.is_some() && !own.contains(&one.mac));
        for one in &mut port.allowed {
            one.ips.clear();
        }
    }
    change
}

#[test]
fn each_flow_falls_under_entries_of_exactly_one_rule() {
    let rules = program::rules();
    let pipeline = Pipeline::new(&rules);
    let mut simulation = Simulation::new(rules).unwrap();
    let (mut checked, mut seen, mut met) = (0, BTreeSet::new(), BTreeSet::new());
    for seed in test_random::seeds!("each_flow_falls_under_entries_of_exactly_one_rule", 480) {
        // Every other network has routers.
        let size = Size { routed: 100 * (seed % 2), ..Size::default() };
        let history = history(&mut Random::new(seed), size);
        let mut world = NumberedWorld::new(history.scattered);
        for change in history.steps.iter().flat_map(Step::changes) {
            world.apply(&without_allowed_ips(change));
        }
        simulation.change(&world, &|_| true).unwrap_or_else(|why| panic!("seed {seed}: {why}\n{world}"));
        for row in &simulation.contents().unwrap()["of_flow"] {
            if !seen.insert(row[1..].to_vec()) {
                continue;
            }
            checked += 1;
            if let Some(fault) = fault(&pipeline, row) {
                panic!("seed {seed}: {fault}\n{world}");
            }
            let [_, Value::Int(table), Value::Int(priority), Value::Match(matching), Value::Actions(actions)] =
                &row[..]
            else {
                continue;
            };
            let own = pipeline.entries_of(*table as u8, *priority as u16, &matching.get(), &actions.get());
            met.extend(own.into_iter().map(std::ptr::from_ref));
        }
    }
    simulation.change(&NumberedWorld::new(false), &|_| true).unwrap();
    assert!(checked > 1_000, "only {checked} flows");
    let priorities =
        pipeline.stages.iter().flat_map(|stage| stage.priorities.iter().map(move |own| (stage, own)));
    let entries = priorities
        .flat_map(|(stage, own)| own.entries.iter().map(move |entry| (stage.number, own.first, entry)));
    // Only switches on more hosts than a random network has use replication trees.
    let of_trees =
        |entry: &Entry| entry.outcomes.iter().all(|outcome| outcome.actions.contains("BRANCH_GROUP"));
    let entries = entries.filter(|(_, _, entry)| !of_trees(entry));
    // These networks have no ACLs: a description has no word yet for a mask that rows give, as look-ups of prefixes in registers have
    // it, and an ACL of a switch can ask for all that one of a port asks for.
    let of_acls =
        |entry: &Entry| entry.rules.iter().all(|rule| ACLS.iter().any(|name| rule.file.ends_with(name)));
    let entries = entries.filter(|(_, _, entry)| !of_acls(entry));
    // Few of these networks have servers, and none has a querier.
    let of_servers =
        |entry: &Entry| entry.rules.iter().all(|rule| SERVERS.iter().any(|name| rule.file.ends_with(name)));
    let entries = entries.filter(|(_, _, entry)| !of_servers(entry));
    // These networks have no gateways: descriptions of flows about ranges of addresses have no word for their masks.
    let of_gateways =
        |entry: &Entry| entry.rules.iter().all(|rule| GATEWAYS.iter().any(|name| rule.file.ends_with(name)));
    let entries = entries.filter(|(_, _, entry)| !of_gateways(entry));
    let of_allowed =
        |entry: &Entry| entry.rules.iter().all(|rule| ALLOWED.iter().any(|name| rule.file.ends_with(name)));
    let entries = entries.filter(|(_, _, entry)| !of_allowed(entry));
    let unmet = entries.filter(|(_, _, entry)| !met.contains(&std::ptr::from_ref::<Entry>(entry)));
    let unmet: Vec<String> = unmet
        .map(|(stage, priority, entry)| format!("{stage} {priority} {}: {:?}", entry.matching, entry.rules))
        .collect();
    assert!(unmet.is_empty(), "no network has a flow of these entries: {unmet:#?}");
}
