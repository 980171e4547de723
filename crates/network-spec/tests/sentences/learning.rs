//! Learned addresses, and when hosts forget them.

use std::time::Duration;

use network_spec::{AGE, Encap, Model};

use crate::sentences::frames::{BROADCAST, mac, unknown as any};
use crate::sentences::worlds::{port, send, unknown, world};

/// `a` on hv1; `u` on hv1, `v` on hv2 and `w` on hv3 receive frames to unknown addresses.
fn learning(encap: Encap) -> Model {
    Model::new(world(
        &[encap],
        &[
            ("a", "hv1", port("blue", 1)),
            ("u", "hv1", unknown("blue")),
            ("v", "hv2", unknown("blue")),
            ("w", "hv3", unknown("blue")),
        ],
    ))
}

#[test]
fn an_address_is_learned_where_a_copy_arrives_and_then_gets_frames_alone() {
    let mut model = learning(Encap::Geneve);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["u", "v", "w"]);
    assert_eq!(send(&mut model, "v", &any(mac(9), BROADCAST)), ["a", "u", "w"]);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["v"]);
    assert_eq!(send(&mut model, "w", &any(mac(8), mac(9))), ["v"]);
    assert!(send(&mut model, "v", &any(mac(7), mac(9))).is_empty(), "never to the sender");
}

#[test]
fn who_got_no_copy_learns_nothing() {
    let mut model = learning(Encap::Geneve);
    assert_eq!(send(&mut model, "v", &any(mac(9), mac(1))), ["a"]);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["v"], "hv1 got it");
    assert_eq!(send(&mut model, "w", &any(mac(8), mac(9))), ["u", "v"], "hv3 did not");
}

#[test]
fn only_the_encapsulation_that_says_the_sender_is_learned_from() {
    for encap in [Encap::Vxlan, Encap::Gre] {
        let mut model = learning(encap);
        send(&mut model, "v", &any(mac(9), BROADCAST));
        assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["u", "v", "w"]);
        send(&mut model, "u", &any(mac(7), BROADCAST));
        assert_eq!(send(&mut model, "a", &any(mac(1), mac(7))), ["u"], "on the sender's own host");
    }
}

#[test]
fn neither_groups_nor_known_ports_are_learned_and_a_known_address_comes_first() {
    let mut model = learning(Encap::Geneve);
    send(&mut model, "v", &any([3, 0, 0, 0, 0, 9], BROADCAST));
    assert_eq!(
        send(&mut model, "a", &any(mac(1), [3, 0, 0, 0, 0, 9])),
        ["u", "v", "w"],
        "a group is a group"
    );
    send(&mut model, "a", &any(mac(5), BROADCAST));
    assert_eq!(send(&mut model, "u", &any(mac(7), mac(5))), ["v", "w"], "ports like a are not learned from");
    send(&mut model, "v", &any(mac(1), BROADCAST));
    assert_eq!(send(&mut model, "u", &any(mac(7), mac(1))), ["a"], "nobody takes a's address");
}

#[test]
fn an_address_moves_with_its_last_frame() {
    let mut model = learning(Encap::Geneve);
    send(&mut model, "v", &any(mac(9), BROADCAST));
    send(&mut model, "w", &any(mac(9), BROADCAST));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["w"]);
}

#[test]
fn what_is_learned_is_forgotten_when_its_sender_is_silent_for_long() {
    let mut model = learning(Encap::Geneve);
    let nearly = AGE.saturating_sub(Duration::from_secs(1));
    send(&mut model, "v", &any(mac(9), BROADCAST));
    model.advance(nearly);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["v"]);
    send(&mut model, "v", &any(mac(9), mac(1)));
    model.advance(nearly);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["v"], "its own frames count");
    model.advance(Duration::from_secs(2));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["u", "v", "w"], "those to it do not");
}

#[test]
fn what_is_learned_survives_migration_and_goes_with_the_port() {
    let mut model = learning(Encap::Geneve);
    send(&mut model, "v", &any(mac(9), BROADCAST));
    model.apply(|world| {
        world.vnics.remove(&("hv2".into(), "v".into()));
        world.vnics.insert(("hv3".into(), "v".into()), 2);
    });
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["v"]);
    model.apply(|world| {
        world.vnics.remove(&("hv3".into(), "v".into()));
    });
    assert!(send(&mut model, "a", &any(mac(1), mac(9))).is_empty(), "learned, and nowhere");
    model.apply(|world| {
        world.ports.remove("v");
    });
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["u", "w"]);
}

#[test]
fn what_is_learned_goes_when_the_port_is_learned_from_no_more_or_the_host_has_no_ports_left() {
    let mut model = learning(Encap::Geneve);
    let flip = |on| {
        move |world: &mut network_spec::World| {
            if let Some(port) = world.ports.get_mut("v") {
                port.unknown_addresses = on;
            }
        }
    };
    send(&mut model, "v", &any(mac(9), BROADCAST));
    model.apply(flip(false));
    model.apply(flip(true));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["u", "v", "w"]);

    send(&mut model, "v", &any(mac(9), BROADCAST));
    model.apply(|world| {
        world.vnics.remove(&("hv3".into(), "w".into()));
    });
    model.apply(|world| {
        world.vnics.insert(("hv3".into(), "w".into()), 2);
    });
    assert_eq!(send(&mut model, "w", &any(mac(8), mac(9))), ["u", "v"], "hv3 had left the switch");
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["v"]);
}
