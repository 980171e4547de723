//! Trunk members, by VLAN tag.

use network_spec::{Encap, Model, Port};

use crate::sentences::frames::{BROADCAST, arp, ipv4, mac, tag, unknown as any};
use crate::sentences::worlds::{port, send, send_any, world};

/// `vm` on hv1 with containers `c1` (tag 11, same switch) and `c2` (tag 12, switch red); `a` on hv2, `r` of red on hv1.
fn trunk() -> Model {
    let child = |switch, number, tag| Port { parent: Some(("vm".into(), tag)), ..port(switch, number) };
    Model::new(world(
        &[Encap::Geneve],
        &[
            ("vm", "hv1", port("blue", 1)),
            ("c1", "", child("blue", 2, 11)),
            ("c2", "", child("red", 2, 12)),
            ("a", "hv2", port("blue", 3)),
            ("r", "hv1", port("red", 4)),
        ],
    ))
}

#[test]
fn tagged_frames_are_the_childs_and_untagged_ones_the_parents() {
    let mut model = trunk();
    let frame = any(mac(2), mac(3));
    assert_eq!(send_any(&mut model, "vm", &tag(&frame, 0x8100, 11)), [("a".into(), frame.clone())]);
    assert_eq!(
        send_any(&mut model, "vm", &tag(&frame, 0x88a8, 0xe00b)),
        [("a".into(), frame.clone())],
        "any tag"
    );
    let to_red = any(mac(2), mac(4));
    assert_eq!(send_any(&mut model, "vm", &tag(&to_red, 0x8100, 12)), [("r".into(), to_red.clone())]);
    assert!(send(&mut model, "vm", &tag(&frame, 0x8100, 12)).is_empty());
    assert!(send(&mut model, "vm", &tag(&frame, 0x8100, 13)).is_empty(), "nobody's tag");
    assert_eq!(send(&mut model, "vm", &any(mac(1), mac(3))), ["a"]);
    let twice = tag(&tag(&frame, 0x8100, 5), 0x8100, 11);
    assert!(send(&mut model, "vm", &twice).is_empty());
}

#[test]
fn the_priority_of_a_tag_is_not_carried() {
    let mut model = trunk();
    let (to_other, back) = (any(mac(2), mac(1)), any(mac(1), mac(2)));
    assert_eq!(send_any(&mut model, "vm", &tag(&to_other, 0x8100, 0xe00b)), [("vm".into(), to_other)]);
    assert_eq!(
        send_any(&mut model, "vm", &tag(&back, 0x8100, 0xe000)),
        [("vm".into(), tag(&back, 0x8100, 11))],
        "VLAN 0 says only a priority"
    );
    let below = tag(&tag(&back, 0x8100, 11), 0x8100, 0xe000);
    assert!(send(&mut model, "vm", &below).is_empty(), "another tag is below");
}

#[test]
fn what_is_for_a_child_comes_out_of_its_parents_interface_with_its_tag() {
    let mut model = trunk();
    let frame = any(mac(3), mac(2));
    assert_eq!(send_any(&mut model, "a", &frame), [("vm".into(), tag(&frame, 0x8100, 11))]);
    let own = any(mac(3), mac(1));
    assert_eq!(send_any(&mut model, "a", &own), [("vm".into(), own.clone())]);
    let many = any(mac(3), BROADCAST);
    let both = [("vm".into(), tag(&many, 0x8100, 11)), ("vm".into(), many.clone())];
    assert_eq!(send_any(&mut model, "a", &many), both);
}

#[test]
fn parent_and_children_reach_each_other_and_nobody_himself() {
    let mut model = trunk();
    let frame = any(mac(1), mac(2));
    assert_eq!(send_any(&mut model, "vm", &frame), [("vm".into(), tag(&frame, 0x8100, 11))]);
    let back = any(mac(2), mac(1));
    assert_eq!(send_any(&mut model, "vm", &tag(&back, 0x8100, 11)), [("vm".into(), back.clone())]);
    let many = any(mac(2), BROADCAST);
    let out = [("a".into(), many.clone()), ("vm".into(), many.clone())];
    assert_eq!(send_any(&mut model, "vm", &tag(&many, 0x8100, 11)), out);
    assert!(send(&mut model, "vm", &tag(&any(mac(2), mac(2)), 0x8100, 11)).is_empty());
}

#[test]
fn a_child_is_answered_under_its_tag() {
    let mut model = trunk();
    let asked = arp(mac(2), BROADCAST, 1, (mac(2), ipv4(2)), ([0; 6], ipv4(3)));
    let answer = arp(mac(3), mac(2), 2, (mac(3), ipv4(3)), (mac(2), ipv4(2)));
    let out = send_any(&mut model, "vm", &tag(&asked, 0x8100, 11));
    assert_eq!(out, [("vm".into(), tag(&answer, 0x8100, 11))]);
}

#[test]
fn a_child_is_where_its_parent_is_whatever_is_reported_of_itself() {
    let mut model = trunk();
    model.apply(|world| {
        world.vnics.insert(("hv2".into(), "c1".into()), 9);
    });
    assert_eq!(model.world().location("c1"), Some("hv1"));
    let frame = any(mac(2), mac(3));
    assert!(model.inject(&network_spec::Tap::vnic("hv2", "c1"), &frame).is_empty());
    model.apply(|world| {
        world.vnics.remove(&("hv1".into(), "vm".into()));
        world.vnics.insert(("hv2".into(), "vm".into()), 10);
    });
    assert_eq!(model.world().location("c1"), Some("hv2"));
}
