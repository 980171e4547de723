//! A switch on more hosts than one sender can copy to.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use conformance::world::{Change, audience};
use conformance::{NumberedWorld, Place, Simulation, program};
use network_spec::{Node, Port, Zone};
use openflow_rs::{Bucket, GroupEntry};

const HOSTS: u16 = 900;

/// As in `rules/interface/layout.nlog`.
const BRANCH_GROUP: u32 = 0x200_0000;
const LOCAL_BUCKET: u32 = 0;

fn address(number: u16) -> Ipv4Addr {
    let [high, low] = number.to_be_bytes();
    Ipv4Addr::new(172, 16, high, low)
}

/// A switch with a port on each host.
fn world() -> NumberedWorld {
    let mut world = NumberedWorld::new(false);
    // A flow for each pair of hosts would take most of the time.
    let trusted = Zone { check_sources: false, ..Zone::default() };
    assert!(world.apply(&Change::Zone(String::new(), trusted)));
    assert!(world.apply(&Change::Switch("wide".to_owned(), "acme".to_owned())));
    for number in 1..=HOSTS {
        let node = Node::at(address(number));
        // Two kinds, so that there are two audiences, both of them wide, and frames carry the ingress label.
        let port = Port { unknown_addresses: number % 3 != 0, ..Port::of("wide") };
        assert!(world.apply(&Change::Node(format!("h{number}"), node)));
        assert!(world.apply(&Change::Port(format!("p{number}"), port)));
        assert!(world.apply(&Change::Plug(format!("h{number}"), format!("p{number}"))));
    }
    world
}

fn frame(dst: [u8; 6], src: u8) -> Vec<u8> {
    [&dst[..], &[2, 0, 0, 0, 1, src], &[0x88, 0xb5], &[7; 46]].concat()
}

#[test]
fn a_flood_to_900_hosts_reaches_each_once_by_the_tree_and_is_cut_without_it() {
    let world = world();
    let mut simulation = Simulation::new(program::rules()).unwrap();
    simulation.change(&world, &|_| true).unwrap();
    let all: BTreeSet<u16> = (1..=HOSTS).collect();
    let unknown: BTreeSet<u16> = all.iter().copied().filter(|number| number % 3 != 0).collect();
    for sender in [1, 2, 3, 450, 900] {
        for (dst, audience) in [([0xff; 6], &all), ([2, 9, 9, 9, 9, 9], &unknown)] {
            let place = Place::Vnic(format!("h{sender}"), format!("p{sender}"));
            let out = simulation.send(&place, &frame(dst, sender as u8)).unwrap();
            let reached = out.iter().map(|out| match &out.at {
                Place::Vnic(host, port) if host[1..] == port[1..] => port[1..].parse().unwrap(),
                other => panic!("came out at {other}"),
            });
            let reached: Vec<u16> = reached.collect();
            let wanted: BTreeSet<u16> = audience.iter().copied().filter(|number| *number != sender).collect();
            assert_eq!(reached.len(), wanted.len(), "from host {sender} to {dst:02x?}");
            assert_eq!(
                reached.into_iter().collect::<BTreeSet<u16>>(),
                wanted,
                "from host {sender} to {dst:02x?}"
            );
        }
    }

    // The same with a single group for all hosts.
    let label = world.labels.port(&audience("wide", "all", false));
    let host = simulation.hosts_mut().fabric_mut().host_mut("h1").unwrap();
    let mut flat: Vec<Bucket> = host.bridge.group(label).unwrap().buckets.clone();
    // A copy to a host of the same branch. The local ports have a group of their own.
    let model = host.bridge.group(BRANCH_GROUP + label).unwrap().buckets[0].clone();
    flat.retain(|bucket| bucket.id == LOCAL_BUCKET);
    assert_eq!(flat.len(), 1);
    let text = model.actions.to_string();
    let (before, after) = text.split_once("set_field:172.16.").unwrap();
    let after = after.split_once("->").unwrap().1;
    flat.extend((2..=HOSTS).map(|number| {
        let actions = format!("{before}set_field:{}->{after}", address(number));
        Bucket::new(number.into(), actions.parse().unwrap())
    }));
    host.bridge.replace_group(GroupEntry::all(label, flat)).unwrap();
    let out = simulation.send(&Place::Vnic("h1".to_owned(), "p1".to_owned()), &frame([0xff; 6], 1));
    let reached = out.map_or(0, |out| out.len());
    assert!(reached < usize::from(HOSTS) - 100, "{reached} hosts reached without a tree");
}
