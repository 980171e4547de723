//! Tunnels: which hosts reach each other.

use network_spec::{Encap, Form, Model, Node, Tunnel, World, Zone};

use crate::sentences::frames::{BROADCAST, mac, unknown as any};
use crate::sentences::worlds::{port, send, unknown, world};

fn pair() -> World {
    world(&[], &[("a", "hv1", port("blue", 1)), ("b", "hv2", port("blue", 2))])
}

fn offer(world: &mut World, host: &str, encaps: &[Encap]) {
    world.nodes.insert(host.into(), Node { encaps: encaps.to_vec(), ..Node::default() });
    for encap in encaps {
        world.tunnels.insert(Tunnel { host: host.into(), encap: *encap, peer: None });
    }
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
    world.tunnels.remove(&Tunnel { host: "hv2".into(), encap: Encap::Gre, peer: None });
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

#[test]
fn in_a_zone_of_ports_for_peers_both_ends_need_theirs() {
    let mut world = pair();
    world.zones.insert(String::new(), Zone { form: Form::Port, mtu: 1500 });
    offer(&mut world, "hv1", &[Encap::Geneve, Encap::Vxlan]);
    offer(&mut world, "hv2", &[Encap::Vxlan, Encap::Geneve]);
    assert_eq!(world.tunnel("hv1", "hv2"), None, "ports for all peers are no use");
    for (host, peer) in [("hv1", "hv2"), ("hv2", "hv1")] {
        assert_eq!(world.tunnel("hv1", "hv2"), None);
        world.tunnels.insert(Tunnel { host: host.into(), encap: Encap::Vxlan, peer: Some(peer.into()) });
    }
    assert_eq!(world.tunnel("hv1", "hv2"), Some(Encap::Vxlan));
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
