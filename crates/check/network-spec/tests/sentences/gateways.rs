//! Router ports on a physical network, by gateways.

use std::net::Ipv4Addr;
use std::time::Duration;

use frame_builder::BROADCAST;
use network_spec::{Encap, Mac, Model, Node, Tap, World};

use crate::sentences::frames::{arp, mac, unknown as any};
use crate::sentences::routers::{connect, echo, port_mac, route, two_switches, udp};
use crate::sentences::worlds::{on_vlan, send_any};

pub(super) const OUTSIDE: Mac = [2, 0, 0, 0, 0x0e, 1];
pub(super) const ITS_IP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
/// The MAC of the router's port outside.
pub(super) const PORT: Mac = [2, 0, 0, 0, 0xff, 9];

/// Router `r` of blue and red has a port on `outside`, which is on the physical network. Hosts gw1 and gw2 are its gateways, gw1 first.
pub(super) fn with_gateways() -> World {
    let mut world = two_switches();
    for (name, last) in [("gw1", 11), ("gw2", 12)] {
        let node = Node {
            ip: Ipv4Addr::new(172, 16, 0, last).into(),
            encaps: vec![Encap::Geneve],
            ..Node::default()
        };
        world.nodes.insert(name.into(), node);
    }
    let mut world = on_vlan(world, "outside", 0);
    connect(&mut world, "r", "outside", 9, &["203.0.113.2/24"]);
    let port = world.router_ports.get_mut("r-outside-9").expect("the port");
    port.gateways = vec![("gw1".into(), 20), ("gw2".into(), 10)];
    route(&mut world, "default", "r", "0.0.0.0/0", &["203.0.113.1"]);
    world
}

/// From `a` to somewhere outside.
fn out() -> Vec<u8> {
    udp((mac(1), port_mac(1)), ("10.0.1.1", "198.51.100.1"), (5, 6), 64)
}

/// From outside to `a`.
fn back() -> Vec<u8> {
    udp((OUTSIDE, PORT), ("198.51.100.1", "10.0.1.1"), (6, 5), 64)
}

pub(super) fn asks() -> Vec<u8> {
    arp(OUTSIDE, BROADCAST, 1, (OUTSIDE, ITS_IP), ([0; 6], ROUTER))
}

fn answers() -> Vec<u8> {
    arp(OUTSIDE, PORT, 2, (OUTSIDE, ITS_IP), (PORT, ROUTER))
}

/// What leaves for the physical network, or arrives at a port, by their names.
pub(super) fn places(arrivals: &[(String, Vec<u8>)]) -> Vec<&str> {
    arrivals.iter().map(|(place, _)| place.as_str()).collect()
}

#[test]
fn a_router_sends_to_a_next_hop_that_has_asked_for_it_or_answered() {
    for heard in [asks(), answers()] {
        let mut model = Model::new(with_gateways());
        assert!(send_any(&mut model, "a", &out()).is_empty(), "nobody knows the next hop");
        send_any(&mut model, "physnet", &heard);
        let sent = udp((PORT, OUTSIDE), ("10.0.1.1", "198.51.100.1"), (5, 6), 63);
        assert_eq!(send_any(&mut model, "a", &out()), [("physnet".to_owned(), sent)]);
        let hops: Vec<(&str, &str)> =
            model.copies().keys().map(|(from, to)| (from.as_str(), to.as_str())).collect();
        assert_eq!(hops, [("hv1", "gw1")]);
        // It is forgotten in the end.
        model.advance(Duration::from_secs(301));
        assert!(send_any(&mut model, "a", &out()).is_empty());
    }
}

#[test]
fn what_the_physical_network_sends_enters_once() {
    let mut model = Model::new(with_gateways());
    let arrives = udp((port_mac(1), mac(1)), ("198.51.100.1", "10.0.1.1"), (6, 5), 63);
    assert_eq!(send_any(&mut model, "physnet", &back()), [("a".to_owned(), arrives)]);
}

#[test]
fn the_active_gateway_alone_answers() {
    let mut model = Model::new(with_gateways());
    let reply = arp(PORT, OUTSIDE, 2, (PORT, ROUTER), (OUTSIDE, ITS_IP));
    assert_eq!(send_any(&mut model, "physnet", &asks()), [("physnet".to_owned(), reply.clone())]);
    let alone = arp(OUTSIDE, PORT, 1, (OUTSIDE, ITS_IP), ([0; 6], ROUTER));
    assert_eq!(send_any(&mut model, "physnet", &alone), [("physnet".to_owned(), reply)]);
    let question = echo((OUTSIDE, PORT), ("203.0.113.1", "203.0.113.2"), false, 64);
    assert_eq!(places(&send_any(&mut model, "physnet", &question)), ["physnet"]);
}

#[test]
fn a_drained_gateway_comes_last_and_the_next_one_knows_the_neighbours() {
    let mut model = Model::new(with_gateways());
    send_any(&mut model, "physnet", &answers());
    model.apply(|world| world.nodes.get_mut("gw1").expect("a node").drain = true);
    assert_eq!(model.world().gateways("r-outside-9"), ["gw2", "gw1"]);
    assert_eq!(places(&send_any(&mut model, "a", &out())), ["physnet"]);
    assert!(model.copies().contains_key(&("hv1".to_owned(), "gw2".to_owned())));
}

/// Bridges may still send to a gateway that has been active. What it hands over may come twice, if they send to all.
#[test]
fn a_gateway_that_was_active_may_hand_over() {
    let mut model = Model::new(with_gateways());
    send_any(&mut model, "physnet", &back());
    model.apply(|world| world.nodes.get_mut("gw1").expect("a node").drain = true);
    let outcomes = model.outcomes(&Tap::physical("physnet"), &back());
    let mut copies: Vec<usize> = outcomes.iter().map(|(_, out)| out.len()).collect();
    copies.sort_unstable();
    assert_eq!(copies, [1, 2]);
}

#[test]
fn nobody_is_believed_to_have_the_mac_of_many() {
    let mut model = Model::new(with_gateways());
    let group = [3, 0, 0, 0, 0, 1];
    send_any(&mut model, "physnet", &arp(OUTSIDE, PORT, 2, (group, ITS_IP), (PORT, ROUTER)));
    assert!(send_any(&mut model, "a", &out()).is_empty());
    // Nor does a machine outside say where one inside is.
    send_any(
        &mut model,
        "physnet",
        &arp(OUTSIDE, PORT, 2, (OUTSIDE, Ipv4Addr::new(10, 0, 2, 2)), (PORT, ROUTER)),
    );
    let inside = udp((mac(1), port_mac(1)), ("10.0.1.1", "10.0.2.2"), (5, 6), 64);
    assert_eq!(places(&send_any(&mut model, "a", &inside)), ["b"]);
}

#[test]
fn packets_are_as_large_as_tunnels_and_the_physical_network_carry() {
    let mut world = with_gateways();
    assert_eq!(world.outside_mtu("r-outside-9"), Some(1442));
    world.zones.insert(String::new(), network_spec::Zone { mtu: 9000, ..network_spec::Zone::default() });
    assert_eq!(world.outside_mtu("r-outside-9"), Some(1500));
}

#[test]
fn a_port_needs_both_gateways_and_a_physical_network() {
    let codes =
        |world: &World| -> Vec<&str> { world.problems().iter().map(|problem| problem.code).collect() };
    let mut world = with_gateways();
    assert!(codes(&world).is_empty());
    world.nodes.get_mut("gw2").expect("a node").mappings.clear();
    assert_eq!(codes(&world), ["gateway-without-network"]);
    world.localnets.clear();
    assert_eq!(codes(&world), ["no-physical-network"]);
    let mut model = Model::new(world);
    assert!(send_any(&mut model, "a", &out()).is_empty());
}

/// A frame for the MAC of the router's port that is no packet goes no further.
#[test]
fn what_is_no_packet_ends_at_the_router() {
    let mut model = Model::new(with_gateways());
    assert!(send_any(&mut model, "physnet", &any(OUTSIDE, PORT)).is_empty());
}

/// The packet is lost, and nobody hears of it. A next hop is asked for by itself.
#[test]
fn the_active_gateway_asks_for_a_machine_that_nobody_has_heard_of() {
    let mut model = Model::new(with_gateways());
    let silent = Ipv4Addr::new(203, 0, 113, 7);
    let to_silent = udp((mac(1), port_mac(1)), ("10.0.1.1", "203.0.113.7"), (5, 6), 64);
    assert!(send_any(&mut model, "a", &to_silent).is_empty());
    let asked = arp(PORT, BROADCAST, 1, (PORT, ROUTER), ([0; 6], silent));
    let said: Vec<Vec<u8>> = model.messages().iter().map(|message| message.frame.clone()).collect();
    assert_eq!(said, [asked]);
    let of_silent = [2, 0, 0, 0, 0x0e, 7];
    send_any(&mut model, "physnet", &arp(of_silent, PORT, 2, (of_silent, silent), (PORT, ROUTER)));
    assert_eq!(places(&send_any(&mut model, "a", &to_silent)), ["physnet"]);
    assert!(send_any(&mut model, "a", &out()).is_empty());
    assert!(model.messages().is_empty());
}
