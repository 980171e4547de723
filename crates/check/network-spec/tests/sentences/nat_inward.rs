//! Translation of addresses at gateways: what enters for external addresses, and what machines inside send to them.

use frame_builder::BROADCAST;
use network_spec::{Model, NatKind, NatService, Tap, World};

use crate::sentences::frames::{arp, mac};
use crate::sentences::gateways::{ITS_IP, OUTSIDE, PORT, places, with_gateways};
use crate::sentences::nat::{
    ENTERING, FROM_A, LEAVING, SERVER, TO_A, add, error, floating, model, snat, tcp, udp,
};
use crate::sentences::routers::{connect, echo, ip, port_mac};
use crate::sentences::worlds::send_any;

const FROM_B: (network_spec::Mac, network_spec::Mac) = ([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0xff, 2]);
const TO_B: (network_spec::Mac, network_spec::Mac) = ([2, 0, 0, 0, 0xff, 2], [2, 0, 0, 0, 0, 2]);

fn dnat(external: &str, internal: &str, service: Option<(u8, Option<(u16, u16)>)>) -> NatKind {
    let service = service.map(|(protocol, ports)| NatService { protocol, ports });
    NatKind::Dnat { external: ip(external), internal: ip(internal), service }
}

/// `a` is 203.0.113.20 outside, and `b` serves port 80 of 203.0.113.21 at 8080.
fn published() -> World {
    let mut world = with_gateways();
    add(&mut world, "a", floating("203.0.113.20", "10.0.1.1"));
    add(&mut world, "b", dnat("203.0.113.21", "10.0.2.2", Some((6, Some((80, 8080))))));
    world
}

fn one(place: &str, frame: Vec<u8>) -> Vec<(String, Vec<u8>)> {
    vec![(place.to_owned(), frame)]
}

/// 3c and 4, of a floating address.
#[test]
fn a_machine_is_reached_by_its_floating_address() {
    let mut model = model(published());
    let asked = udp(ENTERING, (SERVER, "203.0.113.20"), (6000, 53), 64);
    let arrived = udp(TO_A, (SERVER, "10.0.1.1"), (6000, 53), 63);
    assert_eq!(send_any(&mut model, "physnet", &asked), one("a", arrived));
    let answer = udp(FROM_A, ("10.0.1.1", SERVER), (53, 6000), 64);
    let left = udp(LEAVING, ("203.0.113.20", SERVER), (53, 6000), 63);
    assert_eq!(send_any(&mut model, "a", &answer), one("physnet", left));
    assert_eq!(model.translations(), 1);
    let ping = echo(ENTERING, (SERVER, "203.0.113.20"), false, 64);
    assert_eq!(places(&send_any(&mut model, "physnet", &ping)), ["a"]);
}

/// 3c and 4, of a port.
#[test]
fn a_port_of_an_address_leads_to_a_machine() {
    let mut model = model(published());
    let asked = tcp(ENTERING, (SERVER, "203.0.113.21"), (6000, 80), 2, 64);
    let arrived = tcp(TO_B, (SERVER, "10.0.2.2"), (6000, 8080), 2, 63);
    assert_eq!(send_any(&mut model, "physnet", &asked), one("b", arrived));
    let answer = tcp(FROM_B, ("10.0.2.2", SERVER), (8080, 6000), 0x12, 64);
    let left = tcp(LEAVING, ("203.0.113.21", SERVER), (80, 6000), 0x12, 63);
    assert_eq!(send_any(&mut model, "b", &answer), one("physnet", left));
    // 3d: nothing takes other ports and protocols.
    for other in [
        tcp(ENTERING, (SERVER, "203.0.113.21"), (6000, 81), 2, 64),
        udp(ENTERING, (SERVER, "203.0.113.21"), (6000, 80), 64),
        echo(ENTERING, (SERVER, "203.0.113.21"), false, 64),
    ] {
        assert!(send_any(&mut model, "physnet", &other).is_empty());
        assert!(model.messages().is_empty());
    }
}

/// 3c: the row that says more counts.
#[test]
fn a_port_comes_before_a_protocol_and_this_before_an_address() {
    let mut world = published();
    add(&mut world, "all", dnat("203.0.113.21", "10.0.2.3", None));
    add(&mut world, "tcp", dnat("203.0.113.21", "10.0.2.4", Some((6, None))));
    add(&mut world, "floats", floating("203.0.113.21", "10.0.1.1"));
    let mut model = model(world);
    let tcp_to = |port| tcp(ENTERING, (SERVER, "203.0.113.21"), (6000, port), 2, 64);
    assert_eq!(places(&send_any(&mut model, "physnet", &tcp_to(80))), ["b"]);
    assert_eq!(places(&send_any(&mut model, "physnet", &tcp_to(81))), ["d"]);
    let other = udp(ENTERING, (SERVER, "203.0.113.21"), (6000, 81), 64);
    assert_eq!(places(&send_any(&mut model, "physnet", &other)), ["c"]);
    model.apply(|world| world.nats.retain(|name, _| name == "floats"));
    let other = udp(ENTERING, (SERVER, "203.0.113.21"), (6000, 82), 64);
    assert_eq!(places(&send_any(&mut model, "physnet", &other)), ["a"]);
}

/// 3b and 4: what a machine says of a packet that it got is about the packet that was sent.
#[test]
fn an_error_leaves_as_one_about_the_packet_that_entered() {
    let mut model = model(published());
    send_any(&mut model, "physnet", &udp(ENTERING, (SERVER, "203.0.113.20"), (6000, 53), 64));
    let got = udp(TO_A, (SERVER, "10.0.1.1"), (6000, 53), 63);
    let sent = udp(ENTERING, (SERVER, "203.0.113.20"), (6000, 53), 63);
    let complaint = error(FROM_A, ("10.0.1.1", SERVER), 3, &got, 64);
    let left = error(LEAVING, ("203.0.113.20", SERVER), 3, &sent, 63);
    assert_eq!(send_any(&mut model, "a", &complaint), one("physnet", left));
}

/// 2a: so is what the router itself says.
#[test]
fn what_the_router_says_of_a_translated_packet_is_about_the_packet_that_entered() {
    let mut world = published();
    add(&mut world, "gone", floating("203.0.113.22", "10.0.1.77"));
    let mut model = model(world);
    let asked = udp(ENTERING, (SERVER, "203.0.113.22"), (6000, 53), 64);
    assert!(send_any(&mut model, "physnet", &asked).is_empty());
    let [said] = model.messages() else { panic!("{:?}", model.messages()) };
    assert_eq!(said.at, Tap::physical("physnet"));
    let quoted = &said.frame[14 + 28..];
    assert_eq!(quoted[..20], asked[14..34], "the header as it was sent");
    assert_eq!(quoted[20..28], asked[34..42]);
}

/// 3a.
#[test]
fn a_packet_whose_time_is_over_is_not_translated() {
    let mut model = model(published());
    let late = udp(ENTERING, (SERVER, "203.0.113.20"), (6000, 53), 1);
    assert!(send_any(&mut model, "physnet", &late).is_empty());
    let [said] = model.messages() else { panic!("{:?}", model.messages()) };
    assert_eq!(said.frame[34], 11, "time exceeded");
    assert_eq!(model.translations(), 0);
    let local = udp(ENTERING, ("169.254.1.1", "203.0.113.20"), (6000, 53), 64);
    assert!(send_any(&mut model, "physnet", &local).is_empty());
    assert_eq!(model.translations(), 0);
}

/// 3d: the router's own address may be an external one too.
#[test]
fn the_router_answers_for_its_own_address_what_nothing_takes() {
    let mut world = with_gateways();
    add(&mut world, "blue", snat("203.0.113.2", "10.0.1.0/24"));
    add(&mut world, "b", dnat("203.0.113.2", "10.0.2.2", Some((6, Some((80, 8080))))));
    let mut model = model(world);
    let ping = echo(ENTERING, (SERVER, "203.0.113.2"), false, 64);
    let answer = echo(LEAVING, ("203.0.113.2", SERVER), true, 64);
    assert_eq!(send_any(&mut model, "physnet", &ping), one("physnet", answer));
    assert!(send_any(&mut model, "physnet", &udp(ENTERING, (SERVER, "203.0.113.2"), (1, 2), 64)).is_empty());
    assert_eq!(model.messages().len(), 1, "nothing listens there");
    let asked = tcp(ENTERING, (SERVER, "203.0.113.2"), (6000, 80), 2, 64);
    assert_eq!(places(&send_any(&mut model, "physnet", &asked)), ["b"]);
}

/// 5: both addresses are translated, so that the answer comes back.
#[test]
fn a_machine_inside_reaches_external_addresses() {
    let mut world = published();
    add(&mut world, "red", snat("203.0.113.8", "10.0.2.0/24"));
    let mut model = model(world);
    let sent = udp(FROM_B, ("10.0.2.2", "203.0.113.20"), (5000, 53), 64);
    let arrived = udp(TO_A, ("203.0.113.8", "10.0.1.1"), (5000, 53), 63);
    assert_eq!(send_any(&mut model, "b", &sent), one("a", arrived.clone()));
    assert!(model.copies().contains_key(&("hv2".to_owned(), "gw1".to_owned())));
    let answer = udp(FROM_A, ("10.0.1.1", "203.0.113.8"), (53, 5000), 64);
    let back = udp(TO_B, ("203.0.113.20", "10.0.2.2"), (53, 5000), 63);
    assert_eq!(send_any(&mut model, "a", &answer), one("b", back));
    // So is an error.
    let seen = udp(FROM_B, ("10.0.2.2", "203.0.113.20"), (5000, 53), 63);
    let complaint = error(FROM_A, ("10.0.1.1", "203.0.113.8"), 3, &arrived, 64);
    let heard = error(TO_B, ("203.0.113.20", "10.0.2.2"), 3, &seen, 63);
    assert_eq!(send_any(&mut model, "a", &complaint), one("b", heard));
}

/// 5: a source that no row covers becomes the address that it has sent to.
#[test]
fn a_machine_without_a_row_comes_from_the_address_that_it_asks() {
    let mut model = model(published());
    let sent = tcp((mac(3), port_mac(2)), ("10.0.2.3", "203.0.113.21"), (5000, 80), 2, 64);
    let arrived = tcp(TO_B, ("203.0.113.21", "10.0.2.2"), (5000, 8080), 2, 63);
    assert_eq!(send_any(&mut model, "c", &sent), one("b", arrived));
    let answer = tcp(FROM_B, ("10.0.2.2", "203.0.113.21"), (8080, 5000), 0x12, 64);
    let back = tcp((port_mac(2), mac(3)), ("203.0.113.21", "10.0.2.3"), (80, 5000), 0x12, 63);
    assert_eq!(send_any(&mut model, "b", &answer), one("c", back));
}

/// 5.
#[test]
fn a_machine_reaches_its_own_floating_address() {
    let mut model = model(published());
    let sent = udp(FROM_A, ("10.0.1.1", "203.0.113.20"), (5000, 53), 64);
    let arrived = udp(TO_A, ("203.0.113.20", "10.0.1.1"), (5000, 53), 63);
    assert_eq!(send_any(&mut model, "a", &sent), one("a", arrived));
    let untaken = udp(FROM_A, ("10.0.1.1", "203.0.113.21"), (5000, 53), 64);
    assert!(send_any(&mut model, "a", &untaken).is_empty());
    assert!(model.messages().is_empty());
}

/// 5: the router's own address, from inside.
#[test]
fn the_router_answers_echoes_from_inside_and_hands_over_the_rest() {
    let mut world = with_gateways();
    add(&mut world, "b", dnat("203.0.113.2", "10.0.2.2", Some((6, Some((80, 8080))))));
    let mut model = model(world);
    let ping = echo(FROM_A, ("10.0.1.1", "203.0.113.2"), false, 64);
    assert_eq!(places(&send_any(&mut model, "a", &ping)), ["a"]);
    assert!(model.copies().is_empty(), "on the sender's host");
    let asked = tcp(FROM_A, ("10.0.1.1", "203.0.113.2"), (5000, 80), 2, 64);
    let arrived = tcp(TO_B, ("203.0.113.2", "10.0.2.2"), (5000, 8080), 2, 63);
    assert_eq!(send_any(&mut model, "a", &asked), one("b", arrived));
    let untaken = udp(FROM_A, ("10.0.1.1", "203.0.113.2"), (5000, 53), 64);
    let mut said: Vec<usize> = model
        .outcomes(&Tap::vnic("hv1", "a"), &untaken)
        .iter()
        .map(|(model, out)| {
            assert!(out.is_empty());
            model.messages().len()
        })
        .collect();
    said.sort_unstable();
    assert_eq!(said, [0, 1]);
}

/// 6.
#[test]
fn the_active_gateway_answers_for_external_addresses() {
    let mut world = published();
    add(&mut world, "far", floating("192.0.2.20", "10.0.1.1"));
    let mut model = Model::new(world);
    let asks = |target: &str| {
        arp(OUTSIDE, BROADCAST, 1, (OUTSIDE, ITS_IP), ([0; 6], target.parse().expect("an address")))
    };
    let answer =
        arp(PORT, OUTSIDE, 2, (PORT, "203.0.113.20".parse().expect("an address")), (OUTSIDE, ITS_IP));
    assert_eq!(send_any(&mut model, "physnet", &asks("203.0.113.20")), one("physnet", answer));
    assert!(send_any(&mut model, "physnet", &asks("203.0.113.99")).is_empty());
    assert!(send_any(&mut model, "physnet", &asks("192.0.2.20")).is_empty(), "in no network there");
}

/// 1.
#[test]
fn a_row_applies_where_a_network_has_its_address_or_else_everywhere() {
    let mut world = with_gateways();
    connect(&mut world, "r", "outside", 8, &["192.0.2.2/24"]);
    let gateways = world.router_ports["r-outside-9"].gateways.clone();
    world.router_ports.get_mut("r-outside-8").expect("the port").gateways = gateways;
    add(&mut world, "one", floating("203.0.113.20", "10.0.1.1"));
    add(&mut world, "other", snat("192.0.2.9", "10.0.2.0/24"));
    add(&mut world, "none", snat("198.18.0.1-198.18.0.9", "10.0.1.0/24"));
    let names = |id: &str| -> Vec<String> {
        world.nats_at(id).into_iter().map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(names("r-outside-9"), ["none", "one"]);
    assert_eq!(names("r-outside-8"), ["none", "other"]);
    assert!(names("r-blue-1").is_empty());
}
