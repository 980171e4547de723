//! Learned addresses, and when hosts forget them.

use std::time::Duration;

use network_spec::{Encap, Learning, Model, Port, World};

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
    let nearly = Learning::default().age.saturating_sub(Duration::from_secs(1));
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
        move |world: &mut World| {
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

/// Changes the limits of the switch.
fn limit(model: &mut Model, limit: u32, age: u64) {
    model.apply(|world| {
        world.switches.get_mut("blue").expect("blue exists").learning =
            Learning { limit, age: Duration::from_secs(age) };
    });
}

#[test]
fn a_host_learns_up_to_the_limit_on_each_port() {
    let mut model = learning(Encap::Geneve);
    limit(&mut model, 2, 300);
    for source in [5, 6, 7] {
        send(&mut model, "v", &any(mac(source), BROADCAST));
        send(&mut model, "w", &any(mac(source + 10), BROADCAST));
    }
    for source in [5, 6] {
        assert_eq!(send(&mut model, "a", &any(mac(1), mac(source))), ["v"]);
        assert_eq!(send(&mut model, "a", &any(mac(1), mac(source + 10))), ["w"], "each port has its own");
    }
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(7))), ["u", "v", "w"], "flooded as before");

    send(&mut model, "w", &any(mac(5), BROADCAST));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(5))), ["v"], "no room where it moved to");
    send(&mut model, "u", &any(mac(6), BROADCAST));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(6))), ["u"], "room there");
    send(&mut model, "v", &any(mac(7), BROADCAST));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(7))), ["v"], "and where it was");
}

#[test]
fn those_that_were_learned_are_renewed_at_the_limit_and_others_learned_when_they_age_out() {
    let mut model = learning(Encap::Geneve);
    limit(&mut model, 1, 10);
    send(&mut model, "v", &any(mac(5), BROADCAST));
    model.advance(Duration::from_secs(8));
    send(&mut model, "v", &any(mac(5), BROADCAST));
    send(&mut model, "v", &any(mac(6), BROADCAST));
    model.advance(Duration::from_secs(8));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(5))), ["v"]);
    model.advance(Duration::from_secs(3));
    send(&mut model, "v", &any(mac(6), BROADCAST));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(6))), ["v"]);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(5))), ["u", "v", "w"]);
}

#[test]
fn another_limit_forgets_nothing_but_none_and_another_age_forget_everything() {
    let mut model = learning(Encap::Geneve);
    let learn = |model: &mut Model| {
        for source in [5, 6] {
            send(model, "v", &any(mac(source), BROADCAST));
        }
    };
    learn(&mut model);
    limit(&mut model, 1, 300);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(6))), ["v"]);
    limit(&mut model, 1, 299);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(6))), ["u", "v", "w"]);
    limit(&mut model, 0, 299);
    learn(&mut model);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(5))), ["u", "v", "w"], "nothing is learned");
}

#[test]
fn a_frame_that_does_not_say_its_port_makes_its_receivers_forget_where_the_address_was() {
    let mut model = learning(Encap::Geneve);
    send(&mut model, "v", &any(mac(9), BROADCAST));
    // From hv3 frames come without the port.
    model.apply(|world| {
        for (host, encaps) in
            [("hv1", vec![Encap::Geneve, Encap::Vxlan]), ("hv3", vec![Encap::Vxlan, Encap::Geneve])]
        {
            world.nodes.get_mut(host).unwrap().encaps = encaps;
        }
    });
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["v"]);
    send(&mut model, "w", &any(mac(9), mac(1)));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["u", "v", "w"], "it is not at v any more");
    send(&mut model, "u", &any(mac(9), BROADCAST));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["u"]);
}

/// `u` and `x`, which has an address, on hv1; `a` on hv2; `b` on hv3.
fn neighbours() -> Model {
    let x = Port { unknown_addresses: true, ..port("blue", 3) };
    Model::new(world(
        &[Encap::Geneve],
        &[
            ("u", "hv1", unknown("blue")),
            ("x", "hv1", x),
            ("a", "hv2", port("blue", 1)),
            ("b", "hv3", port("blue", 2)),
        ],
    ))
}

#[test]
fn an_address_that_moved_where_only_its_host_heard_is_found_there() {
    let mut model = neighbours();
    send(&mut model, "u", &any(mac(9), BROADCAST));
    // To x, which is on the same host, or to nobody: the others do not hear.
    send(&mut model, "x", &any(mac(9), mac(9)));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["x"]);
    send(&mut model, "u", &any(mac(9), mac(3)));
    assert_eq!(send(&mut model, "b", &any(mac(2), mac(9))), ["u"]);
}

#[test]
fn what_the_receiver_learned_elsewhere_or_for_an_address_of_the_port_does_not_count() {
    let mut model = neighbours();
    send(&mut model, "u", &any(mac(3), BROADCAST));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(3))), ["x"], "nobody takes x's address");

    send(&mut model, "u", &any(mac(9), BROADCAST));
    model.apply(|world| {
        world.vnics.remove(&("hv2".into(), "a".into()));
        world.ports.get_mut("a").unwrap().unknown_addresses = true;
        world.vnics.insert(("hv3".into(), "a".into()), 2);
    });
    // hv1 hears that the address moved to a, while hv3, which heard it too, has no room for it.
    limit(&mut model, 1, 300);
    send(&mut model, "a", &any(mac(8), mac(2)));
    send(&mut model, "a", &any(mac(9), mac(3)));
    assert_eq!(send(&mut model, "b", &any(mac(2), mac(9))), ["u"], "as the sender says");
}

#[test]
fn who_sends_to_the_address_of_its_own_frame_reaches_where_it_was() {
    let mut model = neighbours();
    send(&mut model, "u", &any(mac(9), BROADCAST));
    send(&mut model, "x", &any(mac(9), mac(3)));
    model.apply(|world| world.ports.get_mut("a").unwrap().unknown_addresses = true);
    assert_eq!(send(&mut model, "a", &any(mac(9), mac(9))), ["x"], "as the receiver knew before this frame");
}
