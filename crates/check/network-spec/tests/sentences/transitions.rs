//! Updates of hosts one after another: what may arrive in the meantime.

use network_spec::{Arrival, Encap, Tap, Transition, World};

use crate::sentences::frames::{BROADCAST, ipv4, mac, tag, unknown as any};
use crate::sentences::worlds::{on_vlan, port, secured, unknown, world};

/// `a` on hv1; `b` and `c` on hv2.
fn blue() -> World {
    let ports = [("a", "hv1", port("blue", 1)), ("b", "hv2", port("blue", 2)), ("c", "hv2", port("red", 2))];
    world(&[Encap::Geneve], &ports)
}

/// Whether this arrival of a frame from `a` is permitted, if these hosts have changed from one world to another.
fn may(old: &World, new: &World, changed: &[&str], frame: &[u8], at: Tap) -> bool {
    let mut transition = Transition::new(old.clone(), new.clone());
    for host in changed {
        transition.change(host);
    }
    let arrival = Arrival { at, frame: frame.to_vec() };
    transition.forbidden(&Tap::vnic("hv1", "a"), frame, &[arrival]).is_empty()
}

fn with(world: &World, change: impl FnOnce(&mut World)) -> World {
    let mut world = world.clone();
    change(&mut world);
    world
}

#[test]
fn nothing_at_all_may_arrive_and_one_copy_of_what_arrives_before_and_afterwards() {
    let (old, frame) = (blue(), any(mac(1), BROADCAST));
    let mut transition = Transition::new(old.clone(), old);
    let from = Tap::vnic("hv1", "a");
    let arrival = Arrival { at: Tap::vnic("hv2", "b"), frame: frame.clone() };
    for changed in ["", "hv1", "hv2"] {
        transition.change(changed);
        assert!(transition.forbidden(&from, &frame, &[]).is_empty());
        assert!(transition.forbidden(&from, &frame, std::slice::from_ref(&arrival)).is_empty());
        let twice = [arrival.clone(), arrival.clone()];
        assert_eq!(transition.forbidden(&from, &frame, &twice), twice[..1]);
        let elsewhere = Arrival { at: Tap::vnic("hv2", "c"), frame: frame.clone() };
        assert_eq!(transition.forbidden(&from, &frame, std::slice::from_ref(&elsewhere)), [elsewhere]);
    }
}

#[test]
fn p2_a_port_that_changes_its_switch_gets_floods_by_the_state_of_its_host_and_no_frames_of_its_former_self() {
    let old = blue();
    let new = with(&old, |world| world.ports.get_mut("b").unwrap().switch = "green".into());
    let (flood, own) = (any(mac(1), BROADCAST), any(mac(1), mac(2)));
    let b = || Tap::vnic("hv2", "b");
    assert!(may(&old, &new, &["hv1"], &flood, b()));
    assert!(!may(&old, &new, &["hv2"], &flood, b()));
    assert!(!may(&old, &new, &["hv2"], &own, b()), "hv1 has sent it to the port of the old switch");
    assert!(!may(&old, &new, &["hv1"], &own, b()), "and does not any more");
    assert!(!may(&old, &new, &["hv2"], &own, Tap::vnic("hv2", "c")), "whose address is the same");
}

#[test]
fn the_host_of_a_port_applies_its_own_port_security() {
    let old = blue();
    let new = with(&old, |world| {
        world.ports.insert("b".into(), secured("blue", 9, &[ipv4(9).into()]));
    });
    let frame = any(mac(1), BROADCAST);
    for changed in [&[][..], &["hv1"]] {
        assert!(may(&old, &new, changed, &frame, Tap::vnic("hv2", "b")));
    }
    let own = any(mac(1), mac(2));
    assert!(!may(&old, &new, &["hv2"], &own, Tap::vnic("hv2", "b")), "b has another address there");
}

#[test]
fn a_vm_that_moves_may_hear_a_frame_at_both_hosts_and_the_sender_needs_its_own_hosts_leave() {
    let old = with(&blue(), |world| {
        world.nodes.insert("hv3".into(), world.nodes["hv2"].clone());
    });
    let new = with(&old, |world| {
        world.vnics.insert(("hv3".into(), "b".into()), 2);
    });
    let frame = any(mac(1), BROADCAST);
    assert!(may(&old, &new, &["hv3"], &frame, Tap::vnic("hv2", "b")));
    assert!(may(&old, &new, &["hv3"], &frame, Tap::vnic("hv3", "b")));
    assert!(!may(&old, &new, &["hv2"], &frame, Tap::vnic("hv2", "b")));
    let gone = with(&old, |world| world.ports.get_mut("a").unwrap().enabled = false);
    assert!(may(&old, &gone, &["hv2"], &frame, Tap::vnic("hv2", "b")));
    assert!(!may(&old, &gone, &["hv1"], &frame, Tap::vnic("hv2", "b")));
}

#[test]
fn unknown_unicast_reaches_ports_with_unknown_addresses_alone() {
    let old = with(&blue(), |world| {
        world.ports.insert("u".into(), unknown("blue"));
        world.vnics.insert(("hv2".into(), "u".into()), 1);
    });
    let new = with(&old, |world| world.ports.get_mut("u").unwrap().unknown_addresses = false);
    let frame = any(mac(1), mac(9));
    assert!(may(&old, &new, &["hv1"], &frame, Tap::vnic("hv2", "u")));
    assert!(!may(&old, &new, &["hv2"], &frame, Tap::vnic("hv2", "u")));
    assert!(!may(&old, &new, &[], &frame, Tap::vnic("hv2", "b")));
}

#[test]
fn only_the_senders_host_takes_a_frame_to_a_physical_network() {
    let old = blue();
    let new = on_vlan(old.clone(), "blue", 7);
    let frame = any(mac(1), BROADCAST);
    let tagged = tag(&frame, 0x8100, 7);
    let mut transition = Transition::new(old, new);
    let out = [Arrival { at: Tap::physical("physnet"), frame: tagged }];
    transition.change("hv2");
    assert_eq!(
        transition.forbidden(&Tap::vnic("hv1", "a"), &frame, &out),
        out,
        "hv2 got it through a tunnel"
    );
    transition.change("hv1");
    assert!(transition.forbidden(&Tap::vnic("hv1", "a"), &frame, &out).is_empty());
}

#[test]
fn an_interface_of_a_standby_may_have_announced_itself() {
    let old = with(&blue(), |world| {
        world.nodes.insert("hv3".into(), world.nodes["hv2"].clone());
        world.vnics.insert(("hv3".into(), "b".into()), 2);
        world.ports.get_mut("b").unwrap().requested_hosts = vec!["hv2".into(), "hv3".into()];
    });
    let new = with(&old, |world| {
        world.vnics.remove(&("hv2".into(), "b".into()));
    });
    let frame = any(mac(1), mac(2));
    for (changed, old_may, new_may) in [("hv1", true, true), ("hv2", false, true), ("hv3", true, true)] {
        assert_eq!(may(&old, &new, &[changed], &frame, Tap::vnic("hv2", "b")), old_may, "{changed}");
        assert_eq!(may(&old, &new, &[changed], &frame, Tap::vnic("hv3", "b")), new_may, "{changed}");
    }
    let mut transition = Transition::new(old.clone(), new);
    let arrival = Arrival { at: Tap::vnic("hv1", "a"), frame: any(mac(2), mac(1)) };
    transition.change("hv1");
    let from = Tap::vnic("hv3", "b");
    assert!(transition.forbidden(&from, &arrival.frame, std::slice::from_ref(&arrival)).is_empty());
}
