//! What Open vSwitch does for each copy of a flood: it drops a packet whole that takes more than 4,096 look-ups in tables, so the look-ups of a
//! copy bound the ports that floods reach.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use conformance::{Change, NumberedWorld, Simulation, program};
use frame_builder::{BROADCAST, IPV4, Ipv4, UDP, ethernet, udp_without_checksum};
use network_spec::{Acl, AclAction, AclPlace, Direction, Node, PacketMatch, Peers, Port};

use super::numbered::{ipv4, mac, port};
use super::start;

const HOST: &str = "h1";
const PORTS: u8 = 5;
const TIERS: u8 = 4;
/// As the test of the driver has it, which floods to as many ports as no host may have more of
/// (`p1_a_flood_to_4000_ports_with_four_tiers_and_64_hosts_is_whole`).
const MOST_LOOK_UPS: usize = 20;
/// Table `OUT_PORT` begins a copy.
const BEGINS_COPY: &str = "40";

/// Secured ports of a switch with ACLs in four tiers, which look up the groups of both addresses and leave each packet to the next
/// tier.
fn world() -> NumberedWorld {
    let mut world = NumberedWorld::new(false);
    assert!(world.apply(&Change::Node(HOST.to_owned(), Node::at(Ipv4Addr::new(172, 16, 0, 1)))));
    assert!(world.apply(&Change::Switch("blue".to_owned(), String::new())));
    for number in 1..=PORTS {
        let port = Port { port_security: true, ..port("blue", number) };
        assert!(world.apply(&Change::Port(format!("p{number}"), port)));
        assert!(world.apply(&Change::Plug(HOST.to_owned(), format!("p{number}"))));
    }
    for tier in 0..TIERS {
        let acl = Acl {
            place: AclPlace::Switch("blue".to_owned()),
            direction: Direction::ToPort,
            tier,
            priority: 1,
            matches: PacketMatch::default(),
            from: Some(Peers::Labels(BTreeMap::new())),
            to: None,
            action: if tier + 1 < TIERS { AclAction::Pass } else { AclAction::Allow },
        };
        assert!(world.apply(&Change::Acl(format!("tier-{tier}"), acl)));
    }
    world
}

#[test]
fn p1_a_copy_for_a_port_with_four_tiers_of_acls_takes_few_look_ups() {
    let world = world();
    let mut simulation = Simulation::new(program::rules()).expect("the rules start");
    simulation.change(&world, &|_| true).expect("the rules take the network");
    let mut switch = start(simulation.hosts().fabric().host(HOST).expect("the host is there"), &[]);
    let inside = udp_without_checksum(5000, 6000, b"said");
    let packet = Ipv4::new(ipv4(1), Ipv4Addr::BROADCAST, UDP).packet(&inside);
    let in_port = world.ofports[&(HOST.to_owned(), "p1".to_owned())];
    let trace = switch.trace(in_port, &ethernet(BROADCAST, mac(1), IPV4, &packet));
    // A line of a look-up begins with the number of the table: `40. reg1=0x102,metadata=0x1, priority 100`.
    let tables = trace.lines().filter_map(|line| line.trim_start().split_once(". ")).map(|(table, _)| table);
    let tables: Vec<&str> = tables.filter(|table| table.parse::<u8>().is_ok()).collect();
    let begins: Vec<usize> = (0..tables.len()).filter(|at| tables[*at] == BEGINS_COPY).collect();
    assert_eq!(begins.len(), usize::from(PORTS), "a copy for each port: {trace}");
    let most = begins.windows(2).map(|pair| pair[1] - pair[0]).max().expect("copies");
    println!("{most} look-ups");
    // Each tier can also log, by one look-up, and on a standby the mark of its interface takes one.
    let more = usize::from(TIERS) + 1;
    assert!((10..=MOST_LOOK_UPS - more).contains(&most), "{most} look-ups: {trace}");
}
