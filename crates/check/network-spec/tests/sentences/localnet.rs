//! Switches connected to a VLAN of a physical network.

use network_spec::{Encap, Model, Tap};

use crate::sentences::frames::{BROADCAST, arp, ipv4, mac, tag, unknown as any};
use crate::sentences::worlds::{on_vlan, port, send, send_any, world};

/// `a` and `b` on hv1, `c` on hv2; `far` is on no host.
fn on(vlan: u16) -> Model {
    let ports = [
        ("a", "hv1", port("blue", 1)),
        ("b", "hv1", port("blue", 2)),
        ("c", "hv2", port("blue", 3)),
        ("far", "", port("blue", 4)),
    ];
    Model::new(on_vlan(world(&[Encap::Geneve], &ports), "blue", vlan))
}

#[test]
fn between_hosts_frames_go_over_the_physical_network() {
    let mut model = on(7);
    let frame = any(mac(1), mac(3));
    let out = [("c".into(), frame.clone()), ("physnet".into(), tag(&frame, 0x8100, 7))];
    assert_eq!(send_any(&mut model, "a", &frame), out);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(2))), ["b"]);
    model.apply(|world| world.nodes.values_mut().for_each(|node| node.encaps.clear()));
    assert_eq!(send_any(&mut model, "a", &frame), out, "no tunnel is needed");
}

#[test]
fn what_is_for_many_leaves_once_and_reaches_each_port_once() {
    let mut model = on(7);
    let frame = any(mac(1), BROADCAST);
    let out = [
        ("b".into(), frame.clone()),
        ("c".into(), frame.clone()),
        ("physnet".into(), tag(&frame, 0x8100, 7)),
    ];
    assert_eq!(send_any(&mut model, "a", &frame), out);
    let out = ["a", "b", "c"].map(|port| (port.to_owned(), frame.clone()));
    assert_eq!(send_any(&mut model, "physnet", &tag(&frame, 0x8100, 7)), out);
}

#[test]
fn frames_of_another_vlan_untagged_ones_and_double_tags_are_not_its() {
    let mut model = on(7);
    let frame = any(mac(9), mac(1));
    assert!(send(&mut model, "physnet", &frame).is_empty());
    assert!(send(&mut model, "physnet", &tag(&frame, 0x8100, 8)).is_empty());
    assert!(send(&mut model, "physnet", &tag(&tag(&frame, 0x8100, 5), 0x8100, 7)).is_empty());
    assert_eq!(send_any(&mut model, "physnet", &tag(&frame, 0x8100, 7)), [("a".into(), frame)]);
}

#[test]
fn tag_0_is_untagged_frames() {
    let mut model = on(0);
    let frame = any(mac(9), mac(1));
    assert_eq!(send(&mut model, "physnet", &frame), ["a"]);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(3))), ["c", "physnet"]);
}

#[test]
fn a_tag_that_says_only_a_priority_is_no_tag() {
    let frame = any(mac(9), mac(1));
    let [none, seven] = [0, 7].map(|vlan| [0x8100, 0x88a8].map(|kind| tag(&frame, kind, 0xa000 | vlan)));
    for prioritised in &none {
        assert_eq!(send_any(&mut on(0), "physnet", prioritised), [("a".into(), frame.clone())]);
        assert!(send(&mut on(7), "physnet", prioritised).is_empty());
        for twice in [tag(prioritised, 0x8100, 0), tag(&tag(&frame, 0x8100, 7), 0x8100, 0)] {
            assert!(send(&mut on(0), "physnet", &twice).is_empty(), "another tag is below");
            assert!(send(&mut on(7), "physnet", &twice).is_empty());
        }
    }
    for prioritised in &seven {
        assert_eq!(send_any(&mut on(7), "physnet", prioritised), [("a".into(), frame.clone())]);
    }
    // The priority ends where the tag is removed.
    let out = [("c".into(), frame_of(1, 3)), ("physnet".into(), tag(&frame_of(1, 3), 0x8100, 7))];
    assert_eq!(send_any(&mut on(7), "a", &tag(&frame_of(1, 3), 0x8100, 0xa000)), out);
}

fn frame_of(from: u8, to: u8) -> Vec<u8> {
    any(mac(from), mac(to))
}

#[test]
fn what_nobody_knows_goes_out_and_what_is_learned_of_there_too() {
    let mut model = on(7);
    let frame = any(mac(1), mac(9));
    let out = [("physnet".into(), tag(&frame, 0x8100, 7))];
    assert_eq!(send_any(&mut model, "a", &frame), out);
    send_any(&mut model, "physnet", &tag(&any(mac(9), BROADCAST), 0x8100, 7));
    assert_eq!(send_any(&mut model, "a", &frame), out);
    assert!(send(&mut model, "physnet", &tag(&any(mac(8), mac(9)), 0x8100, 7)).is_empty());
    model.apply(|world| {
        world.ports.insert("u".into(), crate::sentences::worlds::unknown("blue"));
        world.vnics.insert(("hv1".into(), "u".into()), 2);
    });
    assert_eq!(send_any(&mut model, "a", &frame), out, "learned on hv1");
    let other = any(mac(1), mac(6));
    assert_eq!(send_any(&mut model, "a", &other), out_of("u", &other));
}

fn out_of(port: &str, frame: &[u8]) -> [(String, Vec<u8>); 2] {
    [("physnet".into(), tag(frame, 0x8100, 7)), (port.into(), frame.to_vec())]
}

#[test]
fn questions_from_the_physical_network_are_not_answered() {
    let mut model = on(0);
    let asked = arp(mac(9), BROADCAST, 1, (mac(9), ipv4(9)), ([0; 6], ipv4(1)));
    assert_eq!(send(&mut model, "physnet", &asked), ["a", "b", "c"]);
    let asked = arp(mac(1), BROADCAST, 1, (mac(1), ipv4(1)), ([0; 6], ipv4(3)));
    let answer = arp(mac(3), mac(1), 2, (mac(3), ipv4(3)), (mac(1), ipv4(1)));
    assert_eq!(send_any(&mut model, "a", &asked), [("a".into(), answer)], "those of ports are");
}

#[test]
fn without_a_bridge_mapping_ports_reach_only_their_host() {
    let mut model = on(7);
    model.apply(|world| world.nodes.get_mut("hv1").unwrap().mappings.clear());
    assert_eq!(send(&mut model, "a", &any(mac(1), BROADCAST)), ["b"]);
    assert!(send(&mut model, "a", &any(mac(1), mac(3))).is_empty());
    assert_eq!(send_any(&mut model, "c", &any(mac(3), BROADCAST)).len(), 1, "only the tap");
}

#[test]
fn a_host_has_a_patch_port_for_each_mapped_network_of_a_switch_that_it_knows() {
    let mut model = on(7);
    let patches = |model: &Model| -> Vec<String> {
        model.world().patches().into_iter().map(|(host, network)| format!("{host} {network}")).collect()
    };
    assert_eq!(patches(&model), ["hv1 physnet", "hv2 physnet"]);
    model.apply(|world| {
        // The switch is on hv3 through the child alone, which is on the interface of a port of another switch.
        world.nodes.insert("hv3".into(), world.nodes["hv2"].clone());
        let [mut child, outer] = [port("blue", 5), port("red", 1)];
        child.parent = Some(("outer".into(), 9));
        world.ports.extend([("child".into(), child), ("outer".into(), outer)]);
        world.vnics.insert(("hv3".into(), "outer".into()), 2);
        world.nodes.get_mut("hv1").unwrap().mappings.clear();
    });
    assert_eq!(patches(&model), ["hv2 physnet", "hv3 physnet"]);
}

#[test]
fn two_switches_on_one_vlan_of_two_networks_do_not_meet() {
    let mut model = on(7);
    model.apply(|world| {
        world.ports.insert("other".into(), port("red", 1));
        world.vnics.insert(("hv2".into(), "other".into()), 2);
        *world = on_vlan(world.clone(), "red", 8);
    });
    let frame = any(mac(9), BROADCAST);
    assert_eq!(send_any(&mut model, "physnet", &tag(&frame, 0x8100, 8)), [("other".into(), frame.clone())]);
    assert!(model.inject(&Tap::physical("elsewhere"), &tag(&frame, 0x8100, 8)).is_empty());
}

#[test]
fn p7_what_is_for_a_port_without_an_interface_goes_to_the_physical_network_which_answers_for_it() {
    let mut model = on(7);
    let frame = any(mac(1), mac(4));
    let asks = arp(mac(1), BROADCAST, 1, (mac(1), ipv4(1)), (mac(0), ipv4(4)));
    let outside = |frame: &[u8]| [("physnet".to_owned(), tag(frame, 0x8100, 7))];
    assert_eq!(send_any(&mut model, "a", &frame), outside(&frame));
    let all = ["b", "c", "physnet"];
    assert_eq!(send_any(&mut model, "a", &asks).into_iter().map(|(at, _)| at).collect::<Vec<_>>(), all);
    // What comes from the network is not sent back.
    assert!(send(&mut model, "physnet", &tag(&any(mac(9), mac(4)), 0x8100, 7)).is_empty());

    // Its machine moves in: the network hears nothing of it any more.
    let host = |model: &mut Model, claim: Option<u64>| {
        model.apply(|world| {
            let key = ("hv1".to_owned(), "far".to_owned());
            match claim {
                Some(claim) => world.vnics.insert(key, claim),
                None => world.vnics.remove(&key),
            };
        });
    };
    host(&mut model, Some(2));
    assert_eq!(send(&mut model, "a", &frame), ["far"]);
    assert_eq!(send_any(&mut model, "a", &asks).len(), 1, "it is answered here");
    // And out again.
    host(&mut model, None);
    assert_eq!(send_any(&mut model, "a", &frame), outside(&frame));
    // Whoever disables a port wants that nothing gets there.
    model.apply(|world| world.ports.get_mut("far").expect("it is there").enabled = false);
    assert!(send_any(&mut model, "a", &frame).is_empty());
    assert_eq!(send_any(&mut model, "a", &asks).len(), 1, "its addresses stay its own");
}
