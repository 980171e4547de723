//! Ports that neither send nor receive.

use network_spec::{Arrival, Encap, Learning, Model, Port, Tap};

use crate::sentences::frames::{BROADCAST, arp, ipv4, mac, tag, unknown as any};
use crate::sentences::worlds::{on_vlan, port, send, send_any, unknown, world};

fn disabled(port: Port) -> Port {
    Port { enabled: false, ..port }
}

/// `a` and the disabled `off` on hv1, `c` on hv2.
fn blue() -> Model {
    Model::new(world(
        &[Encap::Geneve],
        &[
            ("a", "hv1", port("blue", 1)),
            ("off", "hv1", disabled(port("blue", 2))),
            ("c", "hv2", port("blue", 3)),
        ],
    ))
}

fn enable(model: &mut Model, port: &str, enabled: bool) {
    model.apply(|world| world.ports.get_mut(port).expect("a port").enabled = enabled);
}

#[test]
fn a_disabled_port_neither_sends_nor_receives_until_it_is_enabled() {
    let mut model = blue();
    for dst in [mac(1), mac(3), BROADCAST] {
        assert!(model.inject(&Tap::vnic("hv1", "off"), &any(mac(2), dst)).is_empty());
    }
    assert!(send(&mut model, "a", &any(mac(1), mac(2))).is_empty());
    assert_eq!(send(&mut model, "a", &any(mac(1), BROADCAST)), ["c"]);
    enable(&mut model, "off", true);
    assert_eq!(send(&mut model, "off", &any(mac(2), BROADCAST)), ["a", "c"]);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(2))), ["off"]);
    assert_eq!(send(&mut model, "a", &any(mac(1), BROADCAST)), ["c", "off"]);
}

#[test]
fn a_disabled_port_asks_nothing() {
    let mut model = blue();
    let asked = arp(mac(2), BROADCAST, 1, (mac(2), ipv4(2)), ([0; 6], ipv4(1)));
    assert!(model.inject(&Tap::vnic("hv1", "off"), &asked).is_empty());
}

#[test]
fn the_addresses_of_a_disabled_port_stay_its_own() {
    let mut model = blue();
    model.apply(|world| {
        world.ports.insert("u".into(), unknown("blue"));
        world.vnics.insert(("hv1".into(), "u".into()), 2);
    });
    let frame = any(mac(1), mac(2));
    assert!(send(&mut model, "a", &frame).is_empty(), "no other port receives what is for it");
    send(&mut model, "u", &any(mac(2), BROADCAST));
    assert!(send(&mut model, "a", &frame).is_empty(), "nor takes its address");
    let asked = arp(mac(1), BROADCAST, 1, (mac(1), ipv4(1)), ([0; 6], ipv4(2)));
    let answer = arp(mac(2), mac(1), 2, (mac(2), ipv4(2)), (mac(1), ipv4(1)));
    assert_eq!(send_any(&mut model, "a", &asked), [("a".into(), answer)], "as of any port that is nowhere");
}

#[test]
fn what_was_learned_of_a_port_that_is_disabled_is_lost_until_it_ages_out() {
    let mut model = blue();
    model.apply(|world| {
        for (port, host) in [("u", "hv1"), ("v", "hv1")] {
            world.ports.insert(port.into(), unknown("blue"));
            world.vnics.insert((host.into(), port.into()), 2);
        }
    });
    send(&mut model, "u", &any(mac(9), BROADCAST));
    enable(&mut model, "u", false);
    let frame = any(mac(1), mac(9));
    assert!(send(&mut model, "a", &frame).is_empty());
    model.advance(Learning::default().age + std::time::Duration::from_secs(1));
    assert_eq!(send(&mut model, "a", &frame), ["v"], "a disabled port receives no unknown addresses");
}

#[test]
fn a_switch_does_not_reach_a_host_for_a_disabled_port() {
    let mut model = blue();
    assert_eq!(model.world().mtu("blue"), Some(1500 - 58));
    enable(&mut model, "c", false);
    assert_eq!(model.world().mtu("blue"), None);
    let mut model = Model::new(on_vlan(model.world().clone(), "blue", 7));
    let frame = any(mac(9), BROADCAST);
    let out = model.inject(&Tap::physical("physnet"), &tag(&frame, 0x8100, 7));
    assert_eq!(out, [Arrival { at: Tap::vnic("hv1", "a"), frame }]);
}

/// `vm` on hv1 with containers `c1` (tag 11) and `c2` (tag 12), `a` on hv2.
fn trunk() -> Model {
    let child = |number, tag| Port { parent: Some(("vm".into(), tag)), ..port("blue", number) };
    Model::new(world(
        &[Encap::Geneve],
        &[
            ("vm", "hv1", port("blue", 1)),
            ("c1", "", child(2, 11)),
            ("c2", "", child(4, 12)),
            ("a", "hv2", port("blue", 3)),
        ],
    ))
}

#[test]
fn a_disabled_member_leaves_the_rest_of_its_trunk_alone() {
    let mut model = trunk();
    enable(&mut model, "c1", false);
    assert!(send(&mut model, "vm", &tag(&any(mac(2), mac(3)), 0x8100, 11)).is_empty());
    let many = any(mac(3), BROADCAST);
    let out = [("vm".into(), tag(&many, 0x8100, 12)), ("vm".into(), many.clone())];
    assert_eq!(send_any(&mut model, "a", &many), out);
}

#[test]
fn the_interface_of_a_disabled_parent_is_dead_for_its_members_too() {
    let mut model = trunk();
    enable(&mut model, "vm", false);
    for (number, vlan) in [(2, Some(11)), (4, Some(12)), (1, None)] {
        let frame = any(mac(number), mac(3));
        let frame = vlan.map_or(frame.clone(), |vlan| tag(&frame, 0x8100, vlan));
        assert!(model.inject(&Tap::vnic("hv1", "vm"), &frame).is_empty());
        assert!(send(&mut model, "a", &any(mac(3), mac(number))).is_empty());
    }
    assert!(send(&mut model, "a", &any(mac(3), BROADCAST)).is_empty());
    assert_eq!(model.world().location("c1"), None);
}
