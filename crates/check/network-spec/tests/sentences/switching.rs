//! Unicast, broadcast, multicast, and unknown addresses.

use network_spec::{Encap, Model, Tap};

use crate::sentences::frames::{BROADCAST, mac, tag, unknown as any};
use crate::sentences::worlds::{port, send, unknown, world};

fn two_hosts() -> Model {
    Model::new(world(
        &[Encap::Geneve],
        &[
            ("a", "hv1", port("blue", 1)),
            ("b", "hv1", port("blue", 2)),
            ("c", "hv2", port("blue", 3)),
            ("nowhere", "", port("blue", 4)),
            ("other", "hv2", port("red", 3)),
        ],
    ))
}

#[test]
fn what_is_for_one_port_reaches_it_wherever_it_is_and_nobody_else() {
    let mut model = two_hosts();
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(2))), ["b"]);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(3))), ["c"]);
    assert_eq!(send(&mut model, "c", &any(mac(3), mac(1))), ["a"]);
}

#[test]
fn what_is_for_the_sender_or_for_a_port_that_is_nowhere_is_dropped() {
    let mut model = two_hosts();
    for dst in [1, 4] {
        assert!(send(&mut model, "a", &any(mac(1), mac(dst))).is_empty());
    }
}

#[test]
fn what_is_for_many_reaches_each_other_port_once() {
    let mut model = two_hosts();
    for group in [BROADCAST, [0x33, 0x33, 0, 0, 0, 1], [1, 0, 0x5e, 0, 0, 1]] {
        assert_eq!(send(&mut model, "a", &any(mac(1), group)), ["b", "c"]);
        assert_eq!(send(&mut model, "c", &any(mac(3), group)), ["a", "b"]);
        assert!(send(&mut model, "other", &any(mac(3), group)).is_empty());
    }
}

#[test]
fn tenants_with_equal_addresses_do_not_meet() {
    let mut model = two_hosts();
    assert!(send(&mut model, "other", &any(mac(3), mac(1))).is_empty());
    assert!(send(&mut model, "other", &any(mac(1), mac(3))).is_empty());
}

#[test]
fn what_is_for_nobody_known_is_dropped_unless_ports_take_it() {
    let mut model = two_hosts();
    assert!(send(&mut model, "a", &any(mac(1), mac(9))).is_empty());
    model.apply(|world| {
        world.ports.insert("u".into(), unknown("blue"));
        world.ports.insert("v".into(), unknown("blue"));
        world.vnics.insert(("hv1".into(), "u".into()), 2);
        world.vnics.insert(("hv2".into(), "v".into()), 2);
    });
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["u", "v"]);
    assert_eq!(send(&mut model, "u", &any(mac(8), mac(9))), ["v"]);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(2))), ["b"], "a known address does not flood");
    assert!(send(&mut model, "other", &any(mac(3), mac(9))).is_empty());
}

#[test]
fn tagged_frames_of_an_ordinary_port_are_dropped() {
    let mut model = two_hosts();
    let frame = any(mac(1), BROADCAST);
    for tagged in [tag(&frame, 0x8100, 5), tag(&frame, 0x88a8, 5)] {
        assert!(send(&mut model, "a", &tagged).is_empty());
    }
    assert!(send(&mut model, "a", &tag(&frame, 0x8100, 5)[..16]).is_empty(), "a tag that is cut short");
    assert!(send(&mut model, "a", &frame[..13]).is_empty(), "less than a header");
    assert_eq!(send(&mut model, "a", &frame[..14]), ["b", "c"], "nothing but a header");
}

#[test]
fn while_a_port_migrates_the_host_that_reported_it_last_has_it() {
    let mut model = two_hosts();
    model.apply(|world| {
        world.vnics.insert(("hv2".into(), "b".into()), 2);
    });
    let frame = any(mac(1), mac(2));
    let out = model.inject(&Tap::vnic("hv1", "a"), &frame);
    assert_eq!(out.iter().map(|one| &one.at).collect::<Vec<_>>(), [&Tap::vnic("hv2", "b")]);
    assert!(model.inject(&Tap::vnic("hv1", "b"), &any(mac(2), mac(1))).is_empty(), "the old place is dead");
    assert_eq!(model.inject(&Tap::vnic("hv2", "b"), &any(mac(2), mac(1))).len(), 1);
    model.apply(|world| {
        world.vnics.remove(&("hv2".into(), "b".into()));
    });
    let out = model.inject(&Tap::vnic("hv1", "a"), &frame);
    assert_eq!(out.iter().map(|one| &one.at).collect::<Vec<_>>(), [&Tap::vnic("hv1", "b")]);
    model.apply(|world| {
        world.vnics.insert(("stranger".into(), "b".into()), 9);
    });
    assert_eq!(model.inject(&Tap::vnic("hv1", "a"), &frame).len(), 1, "who is no node reports nothing");
}
