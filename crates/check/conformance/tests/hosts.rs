//! The output of the rules for a host depends neither on the other hosts that are computed, nor on history.

use std::collections::BTreeSet;

use conformance::derivation::{Contents, Derivation};
use conformance::rows::rows;
use conformance::{NumberedWorld, Simulation, Size, history, program};
use network_spec::Form;
use nlog_data::{Row, Value};
use test_random::Random;

/// Output tables whose first column is a host.
const OF_HOSTS: [&str; 6] =
    ["of_bucket", "of_candidate", "of_flow", "of_group", "ovsdb_patch", "ovsdb_tunnel"];

const SIZE: Size = Size {
    hosts: 6,
    switches: 4,
    ports: 5,
    steps: 40,
    routed: 0,
    filtered: 0,
    stateful: 0,
    served: 30,
    dynamic: 0,
    outside: 0,
    translated: 0,
    shared: true,
};

fn of_host(contents: &Contents, host: &str) -> BTreeSet<(String, Row)> {
    let rows =
        OF_HOSTS.iter().flat_map(|table| contents[*table].iter().map(move |row| ((*table).to_owned(), row)));
    let own = rows.filter(|(_, row)| matches!(&row[0], Value::String(named) if **named == *host));
    own.map(|(table, row)| (table, row.clone())).collect()
}

#[test]
fn hosts_one_by_one_are_all_hosts_together_and_a_history_is_its_end() {
    let program = program::rules();
    let mut alone = Derivation::new(program.clone()).unwrap();
    let (mut worlds, mut compared) = (0, 0);
    for seed in test_random::seeds!("hosts_one_by_one_are_all_hosts_together_and_a_history_is_its_end", 15) {
        // Every other network has routers.
        let history = history(&mut Random::new(seed), Size { routed: 100 * (seed % 2), ..SIZE });
        let mut simulation = Simulation::new(program.clone()).unwrap();
        let mut world = NumberedWorld::new(history.scattered);
        worlds += 1;
        for step in &history.steps {
            if !step.changes().is_empty() {
                for change in step.changes() {
                    world.apply(change);
                }
                // Trees that keep what they no longer need depend on the history.
                world.network.trees.slack = 0;
                simulation
                    .change(&world, &|_| true)
                    .unwrap_or_else(|why| panic!("seed {seed}: {why}\n{world}"));
            }
        }
        let evolved = simulation.contents().unwrap();
        let reports = simulation.hosts().reports();
        let mut scratch = Derivation::new(program.clone()).unwrap();
        scratch.replace(rows(&world, &program.objects, reports, &|_| true)).unwrap();
        assert!(
            scratch.contents().unwrap() == evolved,
            "seed {seed}: from scratch it is something else\n{world}"
        );
        // Where each pair has a tunnel port of its own, the rules know those of computed hosts only, and so what passes.
        let by_pairs = world.zones.values().any(|zone| zone.form == Form::Port);
        let mtu_is_partial = by_pairs && !world.router_ports.is_empty();
        for host in world.nodes.keys().filter(|_| !mtu_is_partial) {
            alone.replace(rows(&world, &program.objects, reports, &|managed| managed == host)).unwrap();
            let contents = alone.contents().unwrap();
            let (own, all) = (of_host(&contents, host), of_host(&evolved, host));
            let differ: Vec<_> = own.symmetric_difference(&all).collect();
            assert!(differ.is_empty(), "seed {seed}: {host} alone and with others: {differ:?}\n{world}");
            let others: usize = OF_HOSTS.iter().map(|table| contents[*table].len()).sum();
            assert_eq!(others, own.len(), "seed {seed}: rows of hosts that are not computed");
            compared += own.len();
        }
    }
    // However many seeds run; a small world has hundreds of rows.
    assert!(compared > 67 * worlds, "{compared} rows compared in {worlds} worlds");
}
