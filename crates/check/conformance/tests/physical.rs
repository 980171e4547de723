//! Physical networks: hosts have several, each with a bridge of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use conformance::{Change, NumberedWorld, Simulation, Size, history, program};
use network_spec::Node;
use test_random::Random;

fn node(mappings: &[(&str, &str)]) -> Node {
    let mappings = mappings.iter().map(|(network, bridge)| ((*network).to_owned(), (*bridge).to_owned()));
    Node { mappings: mappings.collect(), ..Node::at(Ipv4Addr::new(172, 16, 0, 1)) }
}

#[test]
fn rules_refuse_two_networks_on_one_bridge_and_histories_have_none() {
    let mut simulation = Simulation::new(program::rules()).unwrap();
    let mut world = NumberedWorld::new(false);
    world.network.nodes.insert("h1".to_owned(), node(&[("net1", "br-one"), ("net2", "br-one")]));
    let why = simulation.change(&world, &|_| true).unwrap_err();
    assert!(why.contains("physical networks net1 and net2 have the same bridge, br-one"), "{why}");
    world.network.nodes.insert("h1".to_owned(), node(&[("net1", "br-one"), ("net2", "br-two")]));
    simulation.change(&world, &|_| true).unwrap();
    let shared = Change::Node("h1".to_owned(), node(&[("net1", "b"), ("net2", "b")]));
    assert!(!world.apply(&shared));
}

/// The hosts that have ports of switches on two physical networks, with bridges for both.
fn on_two_networks(world: &NumberedWorld) -> BTreeSet<&str> {
    let mut networks: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for localnet in world.localnets.values() {
        for (port, _) in world.ports_of(&localnet.switch) {
            let Some(host) = world.location(port) else { continue };
            if world.nodes.get(host).is_some_and(|node| node.mappings.contains_key(&localnet.network)) {
                networks.entry(host).or_default().insert(&localnet.network);
            }
        }
    }
    networks.into_iter().filter(|(_, of)| of.len() > 1).map(|(host, _)| host).collect()
}

#[test]
fn hosts_of_random_networks_are_on_two_physical_networks_at_once() {
    let (mut histories, mut swapped) = (0, 0);
    let seeds = 60;
    for seed in 0..seeds {
        let mut world = NumberedWorld::new(false);
        let (mut both, mut other) = (false, false);
        for step in history(&mut Random::new(seed), Size::default()).steps {
            for change in step.changes() {
                world.apply(change);
            }
            let hosts = on_two_networks(&world);
            both |= !hosts.is_empty();
            other |= hosts.iter().any(|host| world.nodes[*host].mappings["net1"] == "br-two");
        }
        histories += u64::from(both);
        swapped += u64::from(other);
    }
    assert!(histories >= seeds / 20, "only {histories} of {seeds} histories");
    assert!(swapped > 0, "the name of a bridge says the network on every host");
}
