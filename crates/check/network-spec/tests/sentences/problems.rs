//! What users must see of a network that cannot work as configured.

use network_spec::{
    Encap, Form, Network, Node, PolicyAction, PolicyMatch, Port, Route, RoutePolicy, Router, RouterPort,
    Target, Tunnel, World, Zone,
};

use crate::sentences::worlds::{on_vlan, port, world};

/// The problems, in short.
fn problems(world: &World) -> Vec<String> {
    let short = world.problems().into_iter().map(|one| format!("{} {}: {}", one.kind, one.id, one.code));
    short.collect()
}

/// `a` on hv1, `b` on hv2.
fn pair() -> World {
    world(&[Encap::Geneve], &[("a", "hv1", port("blue", 1)), ("b", "hv2", port("blue", 2))])
}

/// `box` is a trunk member behind `a`.
fn trunk() -> World {
    let mut world = pair();
    let member = Port { parent: Some(("a".into(), 7)), ..port("blue", 3) };
    world.ports.insert("box".into(), member);
    world
}

fn reports(world: &mut World, host: &str, port: &str, since: u64) {
    world.vnics.insert((host.into(), port.into()), since);
}

fn disable(world: &mut World, port: &str) {
    world.ports.get_mut(port).expect("a port").enabled = false;
}

fn request(world: &mut World, port: &str, hosts: &[&str]) {
    let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
    world.ports.get_mut(port).expect("a port").requested_hosts = hosts;
}

/// The host has these encapsulations.
fn offer(world: &mut World, host: &str, zone: &str, encaps: &[Encap]) {
    let node = Node { zone: zone.into(), encaps: encaps.to_vec(), ..Node::default() };
    world.nodes.insert(host.into(), node);
}

#[test]
fn a_network_that_works_has_no_problem() {
    assert!(problems(&pair()).is_empty());
    assert!(problems(&trunk()).is_empty());
    assert!(problems(&on_vlan(pair(), "blue", 7)).is_empty());
    assert!(problems(&World::default()).is_empty());
}

#[test]
fn hosts_of_a_switch_need_a_common_encapsulation_in_one_zone() {
    let apart = ["switch blue: no-common-encapsulation"];
    let mut other_encap = pair();
    offer(&mut other_encap, "hv2", "", &[Encap::Vxlan]);
    assert_eq!(problems(&other_encap), apart);
    let mut other_zone = pair();
    other_zone.zones.insert("east".into(), Zone::default());
    offer(&mut other_zone, "hv2", "east", &[Encap::Geneve]);
    assert_eq!(problems(&other_zone), apart);
    // A switch on a physical network uses no tunnels.
    assert!(problems(&on_vlan(other_zone.clone(), "blue", 7)).is_empty());
    // Nor does a switch on one host.
    other_zone.vnics.remove(&("hv2".into(), "b".into()));
    assert!(problems(&other_zone).is_empty());
}

#[test]
fn a_host_needs_a_tunnel_port_for_one_of_its_encapsulations() {
    let mut world = pair();
    let tunnel = Tunnel { host: "hv1".into(), encap: Encap::Geneve, peer: None };
    assert!(world.failing.insert(tunnel));
    // Only that: the encapsulation that its peers lack is its own problem.
    assert_eq!(problems(&world), ["transport_node hv1: no-tunnel-port"]);
    // Where each peer has its own tunnel port, a missing one concerns one pair.
    world.zones.insert(String::new(), Zone { form: Form::Port, ..Zone::default() });
    assert!(problems(&world).is_empty());
}

#[test]
fn each_host_with_ports_of_a_switch_needs_the_bridge_of_its_physical_network() {
    let mut world = on_vlan(pair(), "blue", 7);
    world.nodes.get_mut("hv2").unwrap().mappings.clear();
    assert_eq!(problems(&world), ["localnet_port blue-net: no-bridge-mapping"]);
    world.vnics.remove(&("hv2".into(), "b".into()));
    assert!(problems(&world).is_empty(), "hv2 has no port of the switch any more");
}

#[test]
fn a_trunk_member_needs_a_parent_that_is_enabled_and_somewhere() {
    let mut nowhere = trunk();
    nowhere.vnics.remove(&("hv1".into(), "a".into()));
    assert_eq!(problems(&nowhere), ["switch_port box: parent-not-attached"]);
    // A report that the parent does not request is none.
    let mut elsewhere = trunk();
    request(&mut elsewhere, "a", &["hv2"]);
    assert_eq!(
        problems(&elsewhere),
        ["switch_port a: unrequested-host", "switch_port box: parent-not-attached"]
    );
    let mut disabled = trunk();
    disable(&mut disabled, "a");
    assert_eq!(problems(&disabled), ["switch_port box: parent-disabled"]);
    disable(&mut disabled, "box");
    assert!(problems(&disabled).is_empty(), "a disabled member is meant to be nowhere");
}

#[test]
fn a_trunk_member_has_no_interface_of_its_own() {
    let mut world = trunk();
    reports(&mut world, "hv1", "box", 2);
    reports(&mut world, "hv2", "box", 3);
    request(&mut world, "box", &["hv1"]);
    // Neither claims nor requests of the member matter.
    let ignored = ["transport_node hv1: member-reported", "transport_node hv2: member-reported"];
    assert_eq!(problems(&world), ignored);
    disable(&mut world, "box");
    assert!(problems(&world).is_empty());
}

#[test]
fn an_interface_on_a_host_that_its_port_does_not_request_is_a_problem_of_the_port() {
    let mut world = pair();
    request(&mut world, "a", &["hv1"]);
    assert!(problems(&world).is_empty());
    reports(&mut world, "hv2", "a", 2);
    assert_eq!(problems(&world), ["switch_port a: unrequested-host"]);
    assert_eq!(world.location("a"), Some("hv1"), "it does not take the port");
    disable(&mut world, "a");
    assert!(problems(&world).is_empty(), "a disabled port has no use for any report");
}

#[test]
fn a_port_that_one_host_takes_from_another_is_a_problem_while_both_report_it() {
    let mut world = pair();
    reports(&mut world, "hv2", "a", 2);
    assert_eq!(
        (problems(&world), world.location("a")),
        (vec!["switch_port a: claimed-twice".into()], Some("hv2"))
    );
    // Who was first does not matter.
    reports(&mut world, "hv1", "a", 3);
    assert_eq!(
        (problems(&world), world.location("a")),
        (vec!["switch_port a: claimed-twice".into()], Some("hv1"))
    );
    let mut disabled = world.clone();
    disable(&mut disabled, "a");
    assert!(problems(&disabled).is_empty());
    world.vnics.remove(&("hv2".into(), "a".into()));
    assert!(problems(&world).is_empty(), "one host reports it");
}

#[test]
fn a_port_moves_among_the_hosts_it_requests_without_a_problem() {
    let mut world = pair();
    reports(&mut world, "hv2", "a", 2);
    request(&mut world, "a", &["hv1", "hv2"]);
    assert!(problems(&world).is_empty());
    // With one requested host, the other is no claim to the port but a report that is ignored.
    request(&mut world, "a", &["hv1"]);
    assert_eq!(problems(&world), ["switch_port a: unrequested-host"]);
}

#[test]
fn reports_for_ports_that_do_not_exist_are_no_problem() {
    let mut world = pair();
    reports(&mut world, "hv1", "stranger", 2);
    reports(&mut world, "hv2", "stranger", 3);
    assert!(problems(&world).is_empty());
}

#[test]
fn a_router_port_on_a_switch_with_a_localnet_port_is_a_problem() {
    let mut world = pair();
    let networks = vec![Network { ip: [10, 0, 0, 254].into(), length: 24 }];
    let mac = [2, 0, 0, 0, 0xff, 1];
    let port = RouterPort { router: "r".into(), switch: "blue".into(), mac, networks, gateways: Vec::new() };
    world.routers.insert("r".into(), Router::default());
    world.router_ports.insert("r-blue".into(), port);
    assert!(problems(&world).is_empty());
    let world = on_vlan(world, "blue", 7);
    assert_eq!(problems(&world), ["router_port r-blue: physical-network"]);
}

#[test]
fn a_next_hop_that_no_network_of_the_router_contains_is_a_problem() {
    let mut world = pair();
    let networks = vec![Network { ip: [10, 0, 0, 254].into(), length: 24 }];
    let mac = [2, 0, 0, 0, 0xff, 1];
    let port = RouterPort { router: "r".into(), switch: "blue".into(), mac, networks, gateways: Vec::new() };
    world.routers.insert("r".into(), Router::default());
    world.router_ports.insert("r-blue".into(), port);
    let destination = Network { ip: [192, 0, 2, 0].into(), length: 24 };
    let mut hops = vec![[10, 0, 0, 9].into()];
    let route =
        |hops: &[_]| Route { router: "r".into(), destination, target: Target::NextHops(hops.to_vec()) };
    let policy = |hops: &[_]| RoutePolicy {
        router: "r".into(),
        priority: 1,
        matches: PolicyMatch::default(),
        action: PolicyAction::Reroute(hops.to_vec()),
    };
    world.routes.insert("w".into(), route(&hops));
    world.route_policies.insert("b".into(), policy(&hops));
    assert!(problems(&world).is_empty(), "nobody has the address yet, but somebody can");
    hops.push([10, 0, 1, 9].into());
    world.routes.insert("w".into(), route(&hops));
    assert_eq!(problems(&world), ["route w: next-hop-far"]);
    world.routes.clear();
    world.route_policies.insert("b".into(), policy(&hops));
    assert_eq!(problems(&world), ["route_policy b: next-hop-far"]);
}

#[test]
fn p1_more_ports_of_a_switch_on_a_host_than_floods_reach_are_a_problem() {
    let mut world = pair();
    let on_host = world.vnics.keys().filter(|(host, _)| host == "hv1").count();
    for number in on_host..network_spec::MOST_LOCAL_PORTS {
        world.ports.insert(format!("more-{number}"), Port { switch: "blue".into(), ..Port::default() });
        world.vnics.insert(("hv1".into(), format!("more-{number}")), 1);
    }
    assert!(problems(&world).is_empty(), "so many are well");
    world.ports.insert("last".into(), Port { switch: "red".into(), ..Port::default() });
    world.vnics.insert(("hv1".into(), "last".into()), 1);
    assert!(problems(&world).is_empty(), "one of another switch");
    world.ports.get_mut("last").unwrap().switch = "blue".into();
    assert_eq!(problems(&world), ["transport_node hv1: too-many-local-ports"]);
}
