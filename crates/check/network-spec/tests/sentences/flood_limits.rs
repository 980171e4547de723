//! Limits of the frames that a port may flood.

use network_spec::{Encap, Model, Tap};

use crate::sentences::frames::{BROADCAST, arp, ipv4, mac, unknown as any};
use crate::sentences::worlds::{on_vlan, port, send, send_any, unknown, world};

const MULTICAST: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

/// `a` and `b` on hv1, `c` and `u` on hv2. `u` takes unknown addresses. `a` and `b` are limited; `a` is exhausted.
fn model() -> Model {
    let ports = [
        ("a", "hv1", port("blue", 1)),
        ("b", "hv1", port("blue", 2)),
        ("c", "hv2", port("blue", 3)),
        ("u", "hv2", unknown("blue")),
    ];
    let mut world = world(&[Encap::Geneve], &ports);
    world.flood_limits.extend(["a", "b"].map(|port| (port.to_owned(), 100)));
    world.exhausted.insert(("hv1".to_owned(), "a".to_owned()));
    Model::new(world)
}

#[test]
fn a_port_that_has_used_up_its_limit_floods_nothing_and_others_do() {
    let mut model = model();
    for dst in [BROADCAST, MULTICAST, mac(9)] {
        assert!(send(&mut model, "a", &any(mac(1), dst)).is_empty(), "{dst:x?}");
        assert!(model.copies().is_empty(), "nothing crosses to other hosts either");
    }
    assert_eq!(send(&mut model, "b", &any(mac(2), BROADCAST)), ["a", "c", "u"], "its limit is not used up");
    assert_eq!(send(&mut model, "b", &any(mac(2), mac(9))), ["u"]);
    assert_eq!(send(&mut model, "c", &any(mac(3), BROADCAST)), ["a", "b", "u"], "it receives floods");
}

#[test]
fn known_unicast_and_what_is_answered_are_not_limited() {
    let mut model = model();
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(3))), ["c"]);
    // `u` is heard, so the address is known where it is.
    send(&mut model, "u", &any(mac(9), mac(1)));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["u"]);
    let asked = arp(mac(1), BROADCAST, 1, (mac(1), ipv4(1)), ([0; 6], ipv4(3)));
    let answered = send_any(&mut model, "a", &asked);
    assert_eq!(answered.len(), 1, "{answered:x?}");
    assert_eq!(answered[0].0, "a", "the network answers");
}

#[test]
fn what_is_dropped_is_learned_from() {
    let mut model = model();
    model.apply(|world| {
        world.flood_limits.insert("u".to_owned(), 100);
        world.exhausted.insert(("hv2".to_owned(), "u".to_owned()));
    });
    assert!(send(&mut model, "u", &any(mac(9), BROADCAST)).is_empty());
    assert_eq!(send(&mut model, "c", &any(mac(3), mac(9))), ["u"], "its own host has heard it");
}

#[test]
fn without_a_limit_nothing_is_used_up() {
    let mut model = model();
    model.apply(|world| world.flood_limits.retain(|port, _| port != "a"));
    assert_eq!(send(&mut model, "a", &any(mac(1), BROADCAST)), ["b", "c", "u"]);
}

#[test]
fn a_localnet_port_has_its_limit_on_each_host() {
    let mut model = model();
    model.apply(|world| {
        *world = on_vlan(world.clone(), "blue", 0);
        world.flood_limits.insert("blue-net".to_owned(), 100);
        world.exhausted.insert(("hv1".to_owned(), "blue-net".to_owned()));
    });
    let out = model.inject(&Tap::physical("physnet"), &any(mac(7), BROADCAST));
    let places: Vec<Tap> = out.into_iter().map(|arrival| arrival.at).collect();
    assert_eq!(places, [Tap::vnic("hv2", "c"), Tap::vnic("hv2", "u")]);
    // To a known address, it passes.
    let out = model.inject(&Tap::physical("physnet"), &any(mac(7), mac(2)));
    assert_eq!(out.len(), 1);
}
