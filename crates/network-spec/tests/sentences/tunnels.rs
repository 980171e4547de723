//! Tunnels: which hosts reach each other.

use std::net::IpAddr;

use network_spec::{Encap, Form, Model, Node, Tunnel, World, Zone};

use crate::sentences::frames::{BROADCAST, mac, unknown as any};
use crate::sentences::worlds::{on_vlan, port, send, unknown, world};

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
    world.zones.insert(String::new(), Zone { form: Form::Port, ..Zone::default() });
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

fn ip(address: &str) -> IpAddr {
    address.parse().unwrap()
}

/// The pair with all encapsulations, at these addresses.
fn pair_at(addresses: [&str; 2]) -> World {
    let mut world = pair();
    for (host, address) in ["hv1", "hv2"].into_iter().zip(addresses) {
        offer(&mut world, host, &[Encap::Geneve, Encap::Vxlan, Encap::Gre, Encap::Stt]);
        world.nodes.get_mut(host).unwrap().ip = ip(address);
    }
    world
}

#[test]
fn over_ipv6_each_packet_is_20_bytes_smaller() {
    let mut world = pair_at(["fd00::1", "fd00::2"]);
    for (encap, mtu) in [(Encap::Geneve, 1422), (Encap::Vxlan, 1430), (Encap::Gre, 1438), (Encap::Stt, 1408)]
    {
        world.nodes.get_mut("hv1").unwrap().encaps = vec![encap];
        world.nodes.get_mut("hv2").unwrap().encaps = vec![encap];
        assert_eq!(world.mtu("blue"), Some(mtu));
    }
    for (host, address) in [("hv1", "172.16.0.1"), ("hv2", "172.16.0.2")] {
        world.nodes.get_mut(host).unwrap().ip = ip(address);
    }
    assert_eq!(world.mtu("blue"), Some(1428));
}

#[test]
fn between_addresses_of_two_ip_versions_there_is_no_tunnel() {
    let mut model = Model::new(pair_at(["172.16.0.1", "fd00::2"]));
    assert_eq!((model.world().tunnel("hv1", "hv2"), model.world().mtu("blue")), (None, None));
    assert!(send(&mut model, "a", &any(mac(1), mac(2))).is_empty());
    model.apply(|world| *world = pair_at(["fd00::1", "fd00::2"]));
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(2))), ["b"]);
}

#[test]
fn a_switch_with_one_host_or_on_a_physical_network_has_no_mtu() {
    let mut world = pair_at(["172.16.0.1", "172.16.0.2"]);
    assert!(world.mtu("blue").is_some());
    assert_eq!(on_vlan(world.clone(), "blue", 7).mtu("blue"), None);
    world.vnics.remove(&("hv2".into(), "b".into()));
    assert_eq!(world.mtu("blue"), None);
}

#[test]
fn a_host_accepts_packets_from_nodes_that_it_shares_a_switch_with() {
    let mut world = pair_at(["172.16.0.1", "172.16.0.2"]);
    let strangers =
        |world: &World| ["172.16.0.1", "172.16.0.9", "fd00::2"].map(|from| world.refuses("hv1", ip(from)));
    let peer = |world: &World| world.refuses("hv1", ip("172.16.0.2"));
    assert_eq!((strangers(&world), peer(&world)), ([true; 3], false));
    // A switch on a physical network needs no tunnels, and neither does one of another host.
    assert!(peer(&on_vlan(world.clone(), "blue", 7)));
    world.ports.insert("r".into(), port("red", 3));
    world.vnics.insert(("hv2".into(), "r".into()), 1);
    world.vnics.remove(&("hv2".into(), "b".into()));
    assert!(peer(&world));
    world.vnics.insert(("hv2".into(), "b".into()), 1);
    assert!(!peer(&world));
    world.nodes.get_mut("hv2").unwrap().encaps = vec![Encap::Vxlan];
    world.nodes.get_mut("hv1").unwrap().encaps = vec![Encap::Geneve];
    assert!(peer(&world), "there is no tunnel to come by");
}

#[test]
fn a_zone_that_trusts_its_network_checks_no_source_but_ports_for_peers_do() {
    let mut world = pair_at(["172.16.0.1", "172.16.0.2"]);
    let stranger = ip("172.16.0.9");
    let trusting = Zone { check_sources: false, ..Zone::default() };
    world.zones.insert(String::new(), trusting);
    assert!(!world.refuses("hv1", stranger));
    world.zones.insert(String::new(), Zone { form: Form::Port, ..trusting });
    assert!(world.refuses("hv1", stranger));
}
