//! A large switch whose ports begin to receive unknown unicast: what its hosts have to change.

use std::net::Ipv4Addr;

use conformance::derivation::Derivation;
use conformance::rows::rows;
use conformance::{Change, NumberedWorld, program};
use network_spec::{Address, Node, Port};
use simulated_hosts::Reports;

/// The most hosts that a sender copies a flood to directly.
const HOSTS: u16 = 512;

fn port(number: u16, unknown_addresses: bool) -> Change {
    let [high, low] = number.to_be_bytes();
    let addresses = vec![Address { mac: [2, 0, 0, 0, high, low], ips: vec![] }];
    let port = Port { addresses, unknown_addresses, ..Port::of("wide") };
    Change::Port(format!("p{number}"), port)
}

/// A switch with a port on each host.
fn world() -> NumberedWorld {
    let mut world = NumberedWorld::new(false);
    assert!(world.apply(&Change::Switch("wide".to_owned(), "acme".to_owned())));
    for number in 1..=HOSTS {
        let [high, low] = number.to_be_bytes();
        let node = Node::at(Ipv4Addr::new(172, 16, high, low));
        assert!(world.apply(&Change::Node(format!("h{number}"), node)));
        assert!(world.apply(&port(number, false)));
        assert!(world.apply(&Change::Plug(format!("h{number}"), format!("p{number}"))));
    }
    world
}

#[test]
fn a_switch_on_512_hosts_begins_to_learn_with_a_few_rows_for_each() {
    let mut world = world();
    let tunnels = (1..=HOSTS).map(|number| ((format!("h{number}"), "weft-geneve".to_owned()), 1));
    let reports = Reports { tunnels: tunnels.collect(), ..Reports::default() };
    let mut rules = Derivation::new(program::rules()).unwrap();
    // The rows of flows and buckets that the world inserts and deletes.
    let mut change = |world: &NumberedWorld| -> (usize, usize) {
        let rows = rows(world, rules.kinds(), &reports, &|_| true);
        let delta = rules.replace(rows).unwrap().expect("the world is another");
        let tables = ["of_flow", "of_bucket"].map(|table| rules.schema().find(table).expect("it is there"));
        let of = |count: fn(&nlog_data::TableDelta) -> usize| {
            tables.iter().filter_map(|table| delta.get(table)).map(count).sum()
        };
        (of(|table| table.insert.len()), of(|table| table.delete.len()))
    };
    let (hosts, pairs) = (usize::from(HOSTS), usize::from(HOSTS) * usize::from(HOSTS));
    let loaded = change(&world).0;
    assert!(loaded > 2 * pairs, "each host has a flow for each address and a bucket for each host: {loaded}");

    assert!(world.apply(&port(1, true)));
    let (inserted, deleted) = change(&world);
    // The flow of each host that counts frames to unknown addresses goes, because such frames are flooded now, and the flow of each port
    // for packets from tunnels reads who has sent them.
    assert!(inserted + deleted <= 4_200, "{inserted} rows inserted, {deleted} deleted");
    // Each host learns, looks up what was learned, knows the way to the port, and floods unknown unicast to it: four flows
    // and a bucket. The port's host alone also looks for the latest place of an address.
    assert!(inserted > 5 * (hosts - 1), "{inserted} rows inserted");
    // The address of a port that is nowhere is not flooded.
    assert!(world.apply(&port(HOSTS + 1, false)));
    assert_eq!(change(&world), (hosts, 0));
    assert!(world.apply(&Change::NoPort(format!("p{}", HOSTS + 1))));
    assert_eq!(change(&world), (0, hosts));
    // It ends as it began.
    assert!(world.apply(&port(1, false)));
    assert_eq!(change(&world), (deleted, inserted));
}
