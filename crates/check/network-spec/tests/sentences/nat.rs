//! Translation of addresses at gateways: what machines inside send, and its answers.

use std::net::Ipv4Addr;
use std::time::Duration;

use frame_builder::{Endpoints, ICMP, TCP, UDP, icmp};
use network_spec::{Mac, Model, Nat, NatKind, Tap, Why, World};

use crate::sentences::frames::mac;
use crate::sentences::gateways::{OUTSIDE, PORT, asks, places, with_gateways};
use crate::sentences::routers::{echo, ip, net, packet, policy, port_mac};
use crate::sentences::worlds::send_any;

/// Whom machines talk to outside.
pub(super) const SERVER: &str = "198.51.100.1";
/// The addresses of frames from `a` to its router, from its router to `a`, and of those that leave for the physical network or come from it.
pub(super) const FROM_A: (Mac, Mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0xff, 1]);
pub(super) const TO_A: (Mac, Mac) = ([2, 0, 0, 0, 0xff, 1], [2, 0, 0, 0, 0, 1]);
pub(super) const LEAVING: (Mac, Mac) = (PORT, OUTSIDE);
pub(super) const ENTERING: (Mac, Mac) = (OUTSIDE, PORT);

pub(super) fn add(world: &mut World, name: &str, kind: NatKind) {
    world.nats.insert(name.into(), Nat { router: "r".into(), kind });
}

pub(super) fn snat(external: &str, internal: &str) -> NatKind {
    let (first, last) = external.split_once('-').unwrap_or((external, external));
    NatKind::Snat { external: (ip(first), ip(last)), internal: net(internal), ports: None, except: None }
}

pub(super) fn floating(external: &str, internal: &str) -> NatKind {
    NatKind::Floating { external: ip(external), internal: ip(internal) }
}

/// A network whose next hop outside is known.
pub(super) fn model(world: World) -> Model {
    let mut model = Model::new(world);
    send_any(&mut model, "physnet", &asks());
    model
}

/// Machines of blue share an address.
fn shared() -> World {
    let mut world = with_gateways();
    add(&mut world, "blue", snat("203.0.113.8", "10.0.1.0/24"));
    world
}

fn v4(text: &str) -> Ipv4Addr {
    text.parse().expect("an address")
}

/// UDP with a checksum.
pub(super) fn udp(macs: (Mac, Mac), ends: (&str, &str), ports: (u16, u16), hops: u8) -> Vec<u8> {
    let endpoints = Endpoints::V4(v4(ends.0), v4(ends.1));
    packet(macs, ends, UDP, &frame_builder::udp(ports.0, ports.1, b"said", endpoints), hops)
}

pub(super) fn tcp(macs: (Mac, Mac), ends: (&str, &str), ports: (u16, u16), flags: u8, hops: u8) -> Vec<u8> {
    let endpoints = Endpoints::V4(v4(ends.0), v4(ends.1));
    packet(macs, ends, TCP, &frame_builder::tcp(ports.0, ports.1, flags, b"", endpoints), hops)
}

/// The error of this type about a packet, of which it quotes the header and eight bytes.
pub(super) fn error(macs: (Mac, Mac), ends: (&str, &str), kind: u8, about: &[u8], hops: u8) -> Vec<u8> {
    packet(macs, ends, ICMP, &icmp(kind, &[&[0; 4][..], &about[14..14 + 28]].concat()), hops)
}

fn one(place: &str, frame: Vec<u8>) -> Vec<(String, Vec<u8>)> {
    vec![(place.to_owned(), frame)]
}

/// All that may come out at a place.
fn outcomes(model: &Model, at: &Tap, frame: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let frames = |out: Vec<network_spec::Arrival>| out.into_iter().map(|arrival| arrival.frame).collect();
    let mut all: Vec<Vec<Vec<u8>>> =
        model.outcomes(at, frame).into_iter().map(|(_, out)| frames(out)).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn a_source_becomes_the_external_address_and_answers_come_back() {
    let mut model = model(shared());
    for protocol in 0..3 {
        let (sent, left, answer, arrived) = match protocol {
            0 => (
                udp(FROM_A, ("10.0.1.1", SERVER), (5000, 53), 64),
                udp(LEAVING, ("203.0.113.8", SERVER), (5000, 53), 63),
                udp(ENTERING, (SERVER, "203.0.113.8"), (53, 5000), 64),
                udp(TO_A, (SERVER, "10.0.1.1"), (53, 5000), 63),
            ),
            1 => (
                tcp(FROM_A, ("10.0.1.1", SERVER), (5000, 80), 2, 64),
                tcp(LEAVING, ("203.0.113.8", SERVER), (5000, 80), 2, 63),
                tcp(ENTERING, (SERVER, "203.0.113.8"), (80, 5000), 0x12, 64),
                tcp(TO_A, (SERVER, "10.0.1.1"), (80, 5000), 0x12, 63),
            ),
            _ => (
                echo(FROM_A, ("10.0.1.1", SERVER), false, 64),
                echo(LEAVING, ("203.0.113.8", SERVER), false, 63),
                echo(ENTERING, (SERVER, "203.0.113.8"), true, 64),
                echo(TO_A, (SERVER, "10.0.1.1"), true, 63),
            ),
        };
        assert!(send_any(&mut model, "physnet", &answer).is_empty(), "nobody has asked");
        assert_eq!(send_any(&mut model, "a", &sent), one("physnet", left));
        assert_eq!(send_any(&mut model, "physnet", &answer), one("a", arrived));
    }
    assert_eq!(model.translations(), 3);
}

/// 2f: `b` is on red, which no row covers.
#[test]
fn a_source_that_no_row_covers_stays() {
    let mut model = model(shared());
    let sent = udp((mac(2), port_mac(2)), ("10.0.2.2", SERVER), (5000, 53), 64);
    let left = udp(LEAVING, ("10.0.2.2", SERVER), (5000, 53), 63);
    assert_eq!(send_any(&mut model, "b", &sent), one("physnet", left));
    assert_eq!(model.translations(), 0);
    // Nor does a row concern what comes back for a machine's own address.
    let answer = udp(ENTERING, (SERVER, "10.0.2.2"), (53, 5000), 64);
    assert_eq!(places(&send_any(&mut model, "physnet", &answer)), ["b"]);
}

/// 2a and 2b.
#[test]
fn the_routers_own_addresses_stay_and_nobody_inside_has_external_ones() {
    let mut world = shared();
    add(&mut world, "own", snat("203.0.113.9", "203.0.113.0/30"));
    let mut model = model(world);
    let pretends = udp(FROM_A, ("203.0.113.8", SERVER), (5000, 53), 64);
    assert!(send_any(&mut model, "a", &pretends).is_empty());
    assert!(model.dropped().iter().any(|dropped| dropped.why == Why::Translation));
    assert!(model.messages().is_empty());
    // The router's answer to an echo from beyond the next hop.
    let asked = echo(ENTERING, (SERVER, "203.0.113.2"), false, 64);
    let answer = echo(LEAVING, ("203.0.113.2", SERVER), true, 64);
    assert_eq!(send_any(&mut model, "physnet", &asked), one("physnet", answer));
}

/// 2c.
#[test]
fn excepted_destinations_see_the_machines_own_address() {
    let mut world = shared();
    world.address_groups.insert("partners".into(), vec![net("198.51.100.0/24")]);
    if let Some(NatKind::Snat { except, .. }) = world.nats.get_mut("blue").map(|nat| &mut nat.kind) {
        *except = Some("partners".into());
    }
    let mut model = model(world);
    let sent = udp(FROM_A, ("10.0.1.1", SERVER), (5000, 53), 64);
    let left = udp(LEAVING, ("10.0.1.1", SERVER), (5000, 53), 63);
    assert_eq!(send_any(&mut model, "a", &sent), one("physnet", left));
    assert_eq!(model.translations(), 0);
    let other = udp(FROM_A, ("10.0.1.1", "192.0.2.1"), (5000, 53), 64);
    let left = udp(LEAVING, ("203.0.113.8", "192.0.2.1"), (5000, 53), 63);
    assert_eq!(send_any(&mut model, "a", &other), one("physnet", left));
}

/// 2d: what is known is translated as it was, whatever rows there are by now. Once rows have gone, it may be forgotten.
#[test]
fn a_connection_keeps_its_translation() {
    let mut model = model(shared());
    let sent = udp(FROM_A, ("10.0.1.1", SERVER), (5000, 53), 64);
    let left = udp(LEAVING, ("203.0.113.8", SERVER), (5000, 53), 63);
    send_any(&mut model, "a", &sent);
    model.apply(|world| add(world, "a", floating("203.0.113.20", "10.0.1.1")));
    assert_eq!(send_any(&mut model, "a", &sent), one("physnet", left.clone()));
    model.apply(|world| {
        world.nats.remove("blue");
    });
    let anew = udp(LEAVING, ("203.0.113.20", SERVER), (5000, 53), 63);
    let mut either = [vec![left], vec![anew]];
    either.sort();
    assert_eq!(outcomes(&model, &Tap::vnic("hv1", "a"), &sent), either);
}

/// 2e.
#[test]
fn a_machines_own_row_comes_first_and_then_the_longest_prefix() {
    let mut world = shared();
    add(&mut world, "all", snat("203.0.113.9", "10.0.0.0/8"));
    add(&mut world, "some", snat("203.0.113.10", "10.0.1.0/30"));
    let sent = |from: &str| udp(FROM_A, (from, SERVER), (5000, 53), 64);
    let left = |from: &str| one("physnet", udp(LEAVING, (from, SERVER), (5000, 53), 63));
    assert_eq!(send_any(&mut model(world.clone()), "a", &sent("10.0.1.1")), left("203.0.113.10"));
    assert_eq!(send_any(&mut model(world.clone()), "a", &sent("10.0.1.9")), left("203.0.113.8"));
    add(&mut world, "own", floating("203.0.113.20", "10.0.1.1"));
    assert_eq!(send_any(&mut model(world), "a", &sent("10.0.1.1")), left("203.0.113.20"));
}

/// 2e: of N addresses each source has one, by as many low bits as count to N; those beyond N begin anew.
#[test]
fn a_source_always_has_the_same_address_of_a_range() {
    let mut world = with_gateways();
    add(&mut world, "blue", snat("203.0.113.8-203.0.113.10", "10.0.1.0/24"));
    for (from, external) in [
        ("10.0.1.4", "203.0.113.8"),
        ("10.0.1.1", "203.0.113.9"),
        ("10.0.1.2", "203.0.113.10"),
        ("10.0.1.3", "203.0.113.8"),
    ] {
        let mut model = model(world.clone());
        for port in [1000, 2000] {
            let sent = udp(FROM_A, (from, SERVER), (port, 53), 64);
            let left = udp(LEAVING, (external, SERVER), (port, 53), 63);
            assert_eq!(send_any(&mut model, "a", &sent), one("physnet", left), "{from}");
        }
    }
}

/// 2e: only a whole tuple collides. Then another port is taken, and an echo is dropped.
#[test]
fn a_port_is_kept_unless_the_whole_tuple_is_taken() {
    let mut model = model(shared());
    let from = |from: &str, to: &str| udp(FROM_A, (from, to), (5000, 53), 64);
    let left = |to: &str, port| udp(LEAVING, ("203.0.113.8", to), (port, 53), 63);
    send_any(&mut model, "a", &from("10.0.1.1", SERVER));
    assert_eq!(
        send_any(&mut model, "a", &from("10.0.1.9", "192.0.2.1")),
        one("physnet", left("192.0.2.1", 5000))
    );
    let all = outcomes(&model, &Tap::vnic("hv1", "a"), &from("10.0.1.9", SERVER));
    assert!(all.contains(&vec![left(SERVER, 5001)]));
    assert!(!all.contains(&vec![left(SERVER, 5000)]) && !all.contains(&Vec::new()));
    send_any(&mut model, "a", &echo(FROM_A, ("10.0.1.1", SERVER), false, 64));
    assert!(send_any(&mut model, "a", &echo(FROM_A, ("10.0.1.9", SERVER), false, 64)).is_empty());
}

/// 2e.
#[test]
fn without_a_free_port_a_connection_is_dropped() {
    let mut world = shared();
    if let Some(NatKind::Snat { ports, .. }) = world.nats.get_mut("blue").map(|nat| &mut nat.kind) {
        *ports = Some((2000, 2001));
    }
    let mut model = model(world);
    let send = |model: &mut Model, port| {
        let sent = udp(FROM_A, ("10.0.1.1", SERVER), (port, 53), 64);
        send_any(model, "a", &sent)
    };
    let left = |port| one("physnet", udp(LEAVING, ("203.0.113.8", SERVER), (port, 53), 63));
    assert_eq!(send(&mut model, 2001), left(2001));
    assert_eq!(send(&mut model, 5000), left(2000));
    assert!(send(&mut model, 5001).is_empty());
    assert_eq!(send(&mut model, 5000), left(2000), "those that are known go on");
}

/// 2g.
#[test]
fn what_belongs_to_no_connection_stays_inside_if_its_source_is_covered() {
    let mut model = model(shared());
    let about = udp(FROM_A, (SERVER, "10.0.1.1"), (53, 5000), 60);
    let complaint = |macs, from| error(macs, (from, SERVER), 3, &about, 64);
    assert!(send_any(&mut model, "a", &complaint(FROM_A, "10.0.1.1")).is_empty());
    assert!(send_any(&mut model, "a", &echo(FROM_A, ("10.0.1.1", SERVER), true, 64)).is_empty());
    let uncovered = echo((mac(2), port_mac(2)), ("10.0.2.2", SERVER), true, 64);
    assert_eq!(places(&send_any(&mut model, "b", &uncovered)), ["physnet"]);
}

/// 2 and 3b: the packet inside an error is the one that its receiver has sent.
#[test]
fn an_error_comes_to_the_machine_that_it_is_about() {
    let mut model = model(shared());
    send_any(&mut model, "a", &udp(FROM_A, ("10.0.1.1", SERVER), (5000, 53), 64));
    let seen = udp(LEAVING, ("203.0.113.8", SERVER), (5000, 53), 60);
    let sent = udp(FROM_A, ("10.0.1.1", SERVER), (5000, 53), 60);
    for by in [SERVER, "192.0.2.7"] {
        let complaint = error(ENTERING, (by, "203.0.113.8"), 3, &seen, 64);
        let arrived = error(TO_A, (by, "10.0.1.1"), 3, &sent, 63);
        assert_eq!(send_any(&mut model, "physnet", &complaint), one("a", arrived));
    }
}

/// Policies see the machine's own address.
#[test]
fn policies_come_before_the_translation() {
    use network_spec::{PolicyAction, PolicyMatch};
    let drops = |source: &str| {
        let mut world = shared();
        let matches = PolicyMatch { source: Some(net(source)), ..PolicyMatch::default() };
        policy(&mut world, "p", 1, matches, PolicyAction::Drop);
        send_any(&mut model(world), "a", &udp(FROM_A, ("10.0.1.1", SERVER), (5000, 53), 64)).is_empty()
    };
    assert!(drops("10.0.1.0/24"));
    assert!(!drops("203.0.113.8/32"));
}

/// Each gateway knows its own connections, and forgets silent ones in the end.
#[test]
fn another_gateway_knows_nothing_and_silence_is_forgotten() {
    let mut model = model(shared());
    let answer = udp(ENTERING, (SERVER, "203.0.113.8"), (53, 5000), 64);
    send_any(&mut model, "a", &udp(FROM_A, ("10.0.1.1", SERVER), (5000, 53), 64));
    let mut after = model.clone();
    after.advance(Duration::from_secs(16));
    assert_eq!(outcomes(&after, &Tap::physical("physnet"), &answer).len(), 2);
    model.apply(|world| world.nodes.get_mut("gw1").expect("a node").drain = true);
    assert!(send_any(&mut model, "physnet", &answer).is_empty());
}
