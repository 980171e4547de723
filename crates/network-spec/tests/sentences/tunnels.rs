//! Tunnels: which hosts reach each other.

use network_spec::{Encap, Form, Model, Node, Tunnel, World, Zone};

use crate::sentences::frames::{BROADCAST, mac, unknown as any};
use crate::sentences::worlds::{on_vlan, port, send, unknown, world};

fn pair() -> World {
    world(&[], &[("a", "hv1", port("blue", 1)), ("b", "hv2", port("blue", 2))])
}

fn offer(world: &mut World, host: &str, encaps: &[Encap]) {
    world.nodes.insert(host.into(), Node { encaps: encaps.to_vec(), ..Node::default() });
}

#[test]
fn the_first_of_the_senders_encapsulations_that_both_have_is_used() {
    let mut world = pair();
    offer(&mut world, "hv1", &[Encap::Stt, Encap::Gre, Encap::Geneve]);
    offer(&mut world, "hv2", &[Encap::Geneve, Encap::Vxlan, Encap::Gre]);
    assert_eq!(
        (world.tunnel("hv1", "hv2"), world.tunnel("hv2", "hv1")),
        (Some(Encap::Gre), Some(Encap::Geneve))
    );
    world.failing.insert(Tunnel { host: "hv2".into(), encap: Encap::Gre, peer: None });
    assert_eq!(world.tunnel("hv1", "hv2"), Some(Encap::Geneve), "what is not there is not used");
}

#[test]
fn without_a_common_encapsulation_or_in_two_zones_frames_are_lost() {
    let mut model = Model::new(pair());
    let both = |model: &mut Model| {
        [send(model, "a", &any(mac(1), mac(2))), send(model, "b", &any(mac(2), BROADCAST))].concat()
    };
    assert!(both(&mut model).is_empty());
    model.apply(|world| {
        offer(world, "hv1", &[Encap::Geneve]);
        offer(world, "hv2", &[Encap::Vxlan]);
    });
    assert!(both(&mut model).is_empty());
    model.apply(|world| offer(world, "hv2", &[Encap::Vxlan, Encap::Geneve]));
    assert_eq!(both(&mut model), ["b", "a"]);
    model.apply(|world| {
        world.zones.insert("east".into(), Zone::default());
        world.nodes.get_mut("hv2").unwrap().zone = "east".into();
    });
    assert!(both(&mut model).is_empty());
}

/// The tunnel ports that hosts must have.
fn ports(world: &World) -> Vec<String> {
    let text = |tunnel: Tunnel| {
        let peer = tunnel.peer.map_or(String::new(), |peer| format!(" to {peer}"));
        format!("{} {:?}{peer}", tunnel.host, tunnel.encap)
    };
    world.tunnels().into_iter().map(text).collect()
}

#[test]
fn a_host_has_one_tunnel_port_for_each_encapsulation_whoever_is_there() {
    let mut world = pair();
    offer(&mut world, "hv1", &[Encap::Gre, Encap::Geneve]);
    world.failing.insert(Tunnel { host: "hv1".into(), encap: Encap::Gre, peer: None });
    assert_eq!(ports(&world), ["hv1 Geneve", "hv1 Gre"], "one that fails is wanted all the same");
}

/// Two hosts of a zone of ports for peers.
fn pair_of_ports() -> World {
    let mut world = pair();
    world.zones.insert(String::new(), Zone { form: Form::Port, mtu: 1500 });
    offer(&mut world, "hv1", &[Encap::Geneve, Encap::Vxlan]);
    offer(&mut world, "hv2", &[Encap::Vxlan, Encap::Geneve, Encap::Gre]);
    world
}

#[test]
fn in_a_zone_of_ports_for_peers_both_ends_need_theirs() {
    let mut world = pair_of_ports();
    assert_eq!(world.tunnel("hv1", "hv2"), Some(Encap::Geneve));
    world.failing.insert(Tunnel { host: "hv2".into(), encap: Encap::Geneve, peer: Some("hv1".into()) });
    assert_eq!(world.tunnel("hv1", "hv2"), Some(Encap::Vxlan));
    world.failing.insert(Tunnel { host: "hv1".into(), encap: Encap::Vxlan, peer: None });
    assert_eq!(world.tunnel("hv1", "hv2"), None);
}

#[test]
fn a_pair_that_shares_a_switch_has_a_port_for_each_common_encapsulation() {
    let mut world = pair_of_ports();
    let both = ["hv1 Geneve to hv2", "hv1 Vxlan to hv2", "hv2 Geneve to hv1", "hv2 Vxlan to hv1"];
    assert_eq!(ports(&world), both);
    world.vnics.remove(&("hv2".into(), "b".into()));
    assert!(ports(&world).is_empty(), "they share no switch");
    // The switch is on hv2 through a child alone, which is on the interface of a port of another switch.
    world.switches.insert("red".into(), network_spec::Switch::default());
    let child = network_spec::Port { parent: Some(("outer".into(), 9)), ..port("blue", 3) };
    world.ports.extend([("outer".into(), port("red", 1)), ("child".into(), child)]);
    world.vnics.insert(("hv2".into(), "outer".into()), 1);
    assert_eq!(ports(&world), both);
    assert!(ports(&on_vlan(world.clone(), "blue", 7)).is_empty(), "a switch on a physical network uses none");
    world.zones.insert("east".into(), Zone { form: Form::Port, mtu: 1500 });
    world.nodes.get_mut("hv2").unwrap().zone = "east".into();
    assert!(ports(&world).is_empty(), "tunnels stay in their zone");
}

#[test]
fn a_switch_carries_what_fits_into_its_widest_encapsulation() {
    let mut world = pair();
    assert_eq!(world.mtu("blue"), None);
    offer(&mut world, "hv1", &[Encap::Gre, Encap::Geneve]);
    offer(&mut world, "hv2", &[Encap::Gre, Encap::Geneve]);
    assert_eq!(world.mtu("blue"), Some(1458));
    world.nodes.get_mut("hv2").unwrap().encaps.swap(0, 1);
    assert_eq!(world.mtu("blue"), Some(1442), "with the option that says the sender");
    world.ports.insert("u".into(), unknown("blue"));
    assert_eq!(world.mtu("blue"), Some(1442), "whether the switch learns or not");
    world.zones.insert(String::new(), Zone { mtu: 9000, ..Zone::default() });
    assert_eq!(world.mtu("blue"), Some(8942));
}
