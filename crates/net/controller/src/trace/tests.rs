//! A trace from the rows around the ports of a packet says of its way what one from all rows says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use conformance::NumberedWorld;
use nlog_data::{Cancel, Value};
use packet_trace::{Change, Drop, Line, Network, Payload, Trace, Words};
use test_random::Random;
use weft_core::anonymise::{Mapping, SECRET_BYTES, anonymise};
use weft_core::core::Core;
use weft_core::rules::Rules;

use super::{Snapshot, Tables};
use weft_client::pb;

use crate::random_networks::{Recorder, base_of, core_of, network_of, records_of};
use crate::what_if;

/// The most frames of a history that are traced.
const FRAMES: usize = 4;

#[derive(Debug)]
enum Packet {
    Frame(Vec<u8>),
    Words(Payload),
}

/// Two ports, and packets from the first: what it sends in the history, and to the other one.
fn packets(
    random: &mut Random,
    world: &NumberedWorld,
    frames: Vec<(String, Vec<u8>)>,
) -> ([String; 2], Vec<Packet>) {
    let ports: Vec<&String> =
        world.vnics.keys().map(|(_, port)| port).filter(|port| world.ports.contains_key(*port)).collect();
    let mut any =
        || ports.get(random.below(ports.len().max(1) as u64) as usize).map_or("", |port| port).to_owned();
    let from = frames.first().map_or_else(&mut any, |(port, _)| port.clone());
    let own = frames.into_iter().filter(|(port, _)| *port == from).take(FRAMES);
    let mut packets: Vec<Packet> = own.map(|(_, bytes)| Packet::Frame(bytes)).collect();
    packets.extend([Payload::Echo, Payload::Tcp(80), Payload::Udp(53)].map(Packet::Words));
    ([from, any()], packets)
}

fn trace(network: &mut Network, [from, to]: &[String; 2], packet: &Packet) -> Option<Trace> {
    let (ip, from_ip, from_mac, to_mac, ttl, size) = Default::default();
    let sent = match packet {
        Packet::Frame(bytes) => network.packet_of_bytes(from, bytes.clone()),
        Packet::Words(payload) => {
            let to = Some(to.clone());
            let words = Words { to, ip, from_ip, from_mac, to_mac, payload: *payload, ttl, size };
            network.packet(from, &words)
        }
    };
    sent.ok().map(|sent| network.trace(&sent).unwrap())
}

/// The network around these ports; all of it if it has at most so many objects.
fn around(core: &mut Core, ids: &[String], whole_max: usize) -> Network {
    super::network(Snapshot::of_at_most(core, ids, whole_max).unwrap()).unwrap().0
}

/// What does not depend on how much of the network is looked at.
fn way(trace: &Trace) -> String {
    let mut lines = vec![packet_trace::text::verdict(trace), trace.packet.clone()];
    lines.extend(trace.delivered.iter().map(|one| format!("{one:?}")));
    for hop in &trace.hops {
        lines.push(format!("on {} after {:?}", hop.host, hop.before));
        lines.extend(hop.lines.iter().map(|line| match line {
            Line::Lookup(lookup) => match &lookup.flow {
                Some(flow) => format!("{} {} {:?}", lookup.table, flow.text, flow.rule),
                None => format!("{}: no flow", lookup.table),
            },
            other => format!("{other:?}"),
        }));
    }
    lines.join("\n")
}

/// The objects behind the ends of a packet.
fn behind(trace: &Trace) -> Vec<Vec<String>> {
    let of = |drop: &Drop| drop.because.iter().map(|leaf| leaf.row.clone()).collect();
    trace.dropped.iter().map(of).collect()
}

/// The engine copies each state that it changes while somebody holds it.
#[test]
fn d26_a_trace_that_waits_for_switches_holds_the_states_of_these_alone() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let cores = (1..50).map(|seed| core_of(&rules, &network_of(seed).0));
    let core = { cores }.find(|core| core.all_desired().len() > 1).expect("a network of two hosts");
    // The engine, this count, and the trace.
    let copied = || core.all_desired().values().filter(|state| Arc::strong_count(state) > 2).count();
    let desired = core.all_desired();
    let (hosts, first) = (desired.len(), desired.keys().next().cloned().unwrap());
    let (provenance, by_fingerprint) = (core.provenance(), Arc::default());
    let mut tables = Tables { rules, desired, provenance, by_fingerprint };
    assert_eq!(copied(), hosts);
    tables.retain(&BTreeMap::from([(first, BTreeSet::new())]));
    assert_eq!(copied(), 1);
}

#[test]
fn a_trace_from_the_rows_around_the_ports_is_that_from_all_rows() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let (mut delivered, mut dropped, mut explained, mut cut) = (0, 0, 0, 0);
    for seed in test_random::seeds!("a_trace_from_the_rows_around_the_ports_is_that_from_all_rows", 8) {
        let (world, frames) = network_of(seed);
        let mut core = core_of(&rules, &world);
        let part = Snapshot::of_at_most(&mut core, &[], 0).unwrap();
        let refused = what_if::compare(
            part,
            &pb::TraceRequest::default(),
            &Change::default(),
            Path::new("no journal"),
            &Cancel::default(),
        );
        assert!(refused.unwrap_err().message().contains("ask its journal"), "seed {seed}");
        let (ports, packets) = packets(&mut Random::new(seed), &world, frames);
        let (mut all, mut some) = (around(&mut core, &ports, usize::MAX), around(&mut core, &ports, 0));
        for packet in packets {
            let (whole, part) = (trace(&mut all, &ports, &packet), trace(&mut some, &ports, &packet));
            let (Some(whole), Some(part)) = (&whole, &part) else {
                assert_eq!(whole.is_some(), part.is_some(), "seed {seed}: {ports:?} {packet:?}\n{world}");
                continue;
            };
            assert_eq!(way(whole), way(part), "seed {seed}: {ports:?} {packet:?}\n{world}");
            for (all, some) in behind(whole).iter().zip(behind(part)) {
                // The part may lack all objects behind a step, if they are further away; it never names others.
                assert!(
                    some.is_empty() || *all == some,
                    "seed {seed}: {ports:?} {packet:?}: {some:#?}, not {all:#?}\n{world}"
                );
                explained += usize::from(!some.is_empty());
                cut += usize::from(some.is_empty() && !all.is_empty());
            }
            assert!(part.findings.is_empty(), "seed {seed}: {packet:?}");
            *(if whole.is_delivered() { &mut delivered } else { &mut dropped }) += 1;
        }
    }
    println!("{delivered} delivered, {dropped} dropped, {explained} explained, {cut} not");
    assert!(
        delivered > 3 && dropped > 3 && explained > 1,
        "{delivered} delivered, {dropped} dropped, {explained} explained, {cut} not"
    );
}

/// A verdict with other names and addresses in it.
fn renamed(verdict: &str, names: &BTreeSet<String>, mapping: &mut Mapping) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    let mut new = String::new();
    for part in verdict.split_inclusive(|c| !is_of_name(c)) {
        let name = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_renamed = names.contains(name) || name.parse::<IpAddr>().is_ok();
        new += &if is_renamed { mapping.text(name) } else { name.to_owned() };
        new += &part[name.len()..];
    }
    new
}

#[test]
fn a_packet_in_an_anonymised_network_has_the_same_verdict() {
    let rules = Arc::new(Rules::built_in().unwrap());
    let (mut delivered, mut dropped) = (0, 0);
    for seed in test_random::seeds!("a_packet_in_an_anonymised_network_has_the_same_verdict", 8) {
        let record = base_of(&rules, &records_of(&rules, seed));
        let (other, mut mapping) = anonymise(&record, &rules, [7; SECRET_BYTES]).unwrap();
        let [mut core, mut new_core] =
            [record, other].map(|record| Recorder::after(&rules, vec![record]).core);
        let mut known: BTreeSet<String> = core.objects().iter().map(|(key, _)| key.id.to_string()).collect();
        let networks = core.objects().list("localnet_port").filter_map(|port| port.value("physical_network"));
        known.extend(networks.filter_map(|name| match name {
            Value::String(name) => Some(name.to_string()),
            _ => None,
        }));
        let [mut real, mut other] = [&mut core, &mut new_core].map(|core| around(core, &[], usize::MAX));
        let (world, _) = network_of(seed);
        let ports: Vec<String> = world.vnics.keys().map(|(_, port)| port.clone()).collect();
        let pairs = ports.iter().flat_map(|from| ports.iter().map(|to| [from.clone(), to.clone()]));
        for (names, payload) in
            pairs.take(60).zip([Payload::Echo, Payload::Tcp(80), Payload::Udp(53)].into_iter().cycle())
        {
            let packet = Packet::Words(payload);
            let new_names = names.clone().map(|name| mapping.text(&name));
            let [real, other] = [trace(&mut real, &names, &packet), trace(&mut other, &new_names, &packet)];
            let (Some(real), Some(other)) = (&real, &other) else {
                assert_eq!(real.is_some(), other.is_some(), "seed {seed}: {names:?}");
                continue;
            };
            let verdict = renamed(&packet_trace::text::verdict(real), &known, &mut mapping);
            assert_eq!(verdict, packet_trace::text::verdict(other), "seed {seed}: {names:?}");
            assert_eq!(real.hops.len(), other.hops.len(), "seed {seed}: {names:?}");
            *(if real.is_delivered() { &mut delivered } else { &mut dropped }) += 1;
        }
    }
    assert!(delivered > 3 && dropped > 3, "{delivered} delivered, {dropped} dropped");
}
