//! Which addresses the network may choose for a port, and what a port may do that waits for one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use network_spec::{Dhcp, Network, Server, World};

use crate::sentences::routers::two_switches;

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 14);

/// The network chooses the addresses of `a`, of 10.0.0.0/28.
fn choosing() -> World {
    let mut world = two_switches();
    let port = world.ports.get_mut("a").expect("a port");
    port.dynamic.insert(port.addresses[0].mac);
    let dhcp = Dhcp {
        switch: "blue".into(),
        net: Network::of(Ipv4Addr::new(10, 0, 0, 0), 28),
        router: Some(Ipv4Addr::new(10, 0, 0, 9)),
        server: Server { ip: SERVER.into(), mac: [2, 0, 0, 0, 0xff, 0xfd] },
        lease: 3600,
        dns: vec![Ipv4Addr::new(10, 0, 0, 8).into()],
        mtu: None,
        domain_name: None,
        other: BTreeMap::new(),
    };
    world.dhcps.insert("v4".into(), dhcp);
    world
}

/// The same, and the network has chosen these.
fn given(ips: &[[u8; 4]]) -> World {
    let mut world = choosing();
    let port = world.ports.get_mut("a").expect("a port");
    port.addresses[0].ips = ips.iter().map(|ip| IpAddr::from(*ip)).collect();
    world
}

#[track_caller]
fn is_wrong(world: &World, before: &World, why: &str) {
    let faults = world.given_faults(before);
    assert!(faults.len() == 1 && faults[0].ends_with(why), "{faults:?}");
}

#[test]
fn an_address_is_one_of_the_network_that_a_machine_can_have_and_nobody_has() {
    let nothing = choosing();
    assert_eq!(given(&[[10, 0, 0, 7]]).given_faults(&nothing), [""; 0]);
    is_wrong(&given(&[]), &nothing, "it is to have one");
    is_wrong(&given(&[[10, 0, 0, 6], [10, 0, 0, 7]]), &nothing, "it is to have one");
    is_wrong(&given(&[[10, 0, 0, 16]]), &nothing, "it is not in the network of the server");
    for last in [0, 15] {
        is_wrong(&given(&[[10, 0, 0, last]]), &nothing, "no machine can have it");
    }
    // The server, its router and its DNS server, and whoever declares an address.
    for last in [14, 9, 8] {
        is_wrong(&given(&[[10, 0, 0, last]]), &nothing, "it is somebody else's too");
    }
    let mut world = given(&[[10, 0, 0, 7]]);
    let mut other = world.ports["a"].clone();
    other.dynamic.clear();
    other.addresses[0].mac = [2, 0, 0, 0, 9, 9];
    world.ports.insert("other".into(), other);
    is_wrong(&world, &nothing, "it is somebody else's too");
    world.dhcps.clear();
    is_wrong(&world, &nothing, "no server gives any");
}

#[test]
fn a_machine_keeps_its_address_as_long_as_its_server_has_it() {
    let (before, now) = (given(&[[10, 0, 0, 7]]), given(&[[10, 0, 0, 6]]));
    is_wrong(&now, &before, "it had another one, which it was to keep");
    assert_eq!(before.given_faults(&before), [""; 0]);
    let mut elsewhere = before.clone();
    elsewhere.ports.get_mut("a").expect("a port").switch = "red".into();
    assert_eq!(now.given_faults(&elsewhere), [""; 0], "it was on another switch");
    let mut another = now;
    let dhcp = another.dhcps.remove("v4").expect("a server");
    another.dhcps.insert("another".into(), dhcp);
    assert_eq!(another.given_faults(&before), [""; 0], "it had it from another server");
}

#[test]
fn a_port_without_a_server_waits() {
    let mut world = choosing();
    world.ports.get_mut("a").expect("a port").addresses[0].ips.clear();
    let waits = |world: &World| {
        world.problems().iter().any(|problem| problem.code == "no-address" && problem.id == "a")
    };
    assert!(!waits(&world));
    world.dhcps.clear();
    assert!(waits(&world));
}
