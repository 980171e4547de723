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
    world.zones.insert(String::new(), Zone { form: Form::Port, ..Zone::default() });
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
    world.zones.insert("east".into(), Zone { form: Form::Port, ..Zone::default() });
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

fn ip(address: &str) -> IpAddr {
    address.parse().expect("an address")
}

/// The pair with all encapsulations, at these addresses.
fn pair_at(addresses: [&str; 2]) -> World {
    let mut world = pair();
    for (host, address) in ["hv1", "hv2"].into_iter().zip(addresses) {
        offer(&mut world, host, &[Encap::Geneve, Encap::Vxlan, Encap::Gre, Encap::Stt]);
        world.nodes.get_mut(host).expect("a host").ip = ip(address);
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
        world.nodes.get_mut(host).expect("a host").ip = ip(address);
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
